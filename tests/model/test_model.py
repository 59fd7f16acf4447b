"""Model steps: read from lists and profiles, timed on any chip, and replayed where measured."""

from __future__ import annotations

import csv
from dataclasses import replace
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_steps import HEADER, kernel_details, training_steps

from npusim.hardware import load_profile
from npusim.hardware.residuals import networks, rooflines
from npusim.model import Item, Step, StepResult, TimedItem, read_model, retime
from npusim.model.cache_state import Follower, readers_of
from npusim.model.operator_class import kind_of
from npusim.model.results import Evidence, How, Timing
from npusim.model.retiming import band_of_sum, with_dispatch
from npusim.model.step import AclnnWork, Operation, Work
from npusim.model.timing import Timer
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.reporting.model import headline, step_json
from npusim.runtime.device import Device
from npusim.validation.roofline import roofline_us
from npusim.values.errors import ArgumentError, FileError, UnknownNameError
from npusim.values.tensors import TensorSpec, parse_tensor
from support.commands import npusim
from support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

MEASURED = ROOT / "reports" / "data" / "measured_ops.csv.gz"

CALLS = """
name: Two operators
variables: {C: 64, HW: "{8*8}"}
calls:
  - op: aclnnGroupNormBackward
    count: 2
    arguments:
      gradOut: fp16[{B},{C},{HW}]
      input: fp16[{B},{C},{HW}]
      mean: fp16[{B},8]
      rstd: fp16[{B},8]
      gamma: fp16[{C}]
      N: {B}
      C: "{C}"
      HxW: "{HW}"
      group: 8
      outputMask: true,true,true
    weights: [gamma]
  - op: Add
    inputs: ["fp16[{B},{C},{HW}]", "fp16[{B},{C},{HW}]"]
    outputs: ["fp16[{B},{C},{HW}]"]
"""


def written(folder: Path, text: str, name: str = "model.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def item(
    op: str,
    work: Work | None,
    count: int = 1,
    measured_us: float | None = None,
    engine: str = "",
    weights: tuple[TensorSpec, ...] = (),
) -> Item:
    return Item(Operation(op, work, engine, weights=weights), count, measured_us)


def add(size: int, kind: str = "fp16", **more: Any) -> Item:
    spec = TensorSpec((size,), kind)
    return item("Add", TaskSpec("Add", (spec, spec), (spec,)), **more)


def step_of(*items: Item) -> Step:
    return Step("step", "calls", items)


@pytest.mark.parametrize("rows", [2, 37, 1000])
def test_offline_models_know_along_which_axes_operands_repeat(rows: int) -> None:
    whole, row = TensorSpec((rows, 96), "fp16"), TensorSpec((96,), "fp16")
    step = step_of(item("Add", TaskSpec("Add", (whole, row), (whole,))))
    chip = load_profile("Ascend910B3")
    eager, offline = (
        retime(each, chip).duration_us for each in (step, replace(step, one_shape=True))
    )
    (kernel,) = kernels_of(chip, TaskSpec("Add", (whole, row), (whole,)))
    launch, further = chip.launch, kernel.block_dim - 1
    read = launch.tiling_head_cycles + further * launch.tiling_per_block_cycles  # tiling data
    preparing_us = launch.preparing_us + read / chip.clock_mhz
    assert eager - offline == pytest.approx(preparing_us, abs=0.02)


# Lists of calls


def test_a_list_is_unfolded_for_a_batch(tmp_path: Path) -> None:
    model = read_model(written(tmp_path, CALLS))
    assert (model.name, model.batch) == ("Two operators", 1)
    first, second = model.at(3).items
    assert (first.op, first.count, second.op, second.count) == (
        "aclnnGroupNormBackward",
        2,
        "Add",
        1,
    )
    assert first.inputs[0] == parse_tensor("fp16[3,64,64]")
    assert [spec.shape for spec in first.operation.weights] == [(64,)]
    assert model.at(3).launches == 3
    assert first.work is not None
    assert getattr(first.work, "arguments")["N"] == 3  # noqa: B009 - a TaskSpec has none
    assert getattr(first.work, "arguments")["outputMask"] == [True, True, True]  # noqa: B009


def test_a_list_takes_every_operator_that_estimate_takes(tmp_path: Path) -> None:
    text = """
    calls:
      - {op: aclnnAdd, arguments: {self: "fp16[{B},64]", other: "fp16[64]", alpha: 1}}
      - {op: MatMulV3, arguments: {x1: "fp16[64,32]", x2: "fp16[32,64]"}, weights: [x2]}
      - {op: Gelu, arguments: {x: "fp16[{B}]"}}
    """
    step = read_model(written(tmp_path, text)).at(64)
    assert [kind_of(item.op, item.engine) for item in step.items] == [
        "elementwise",
        "matmul",
        "activation",
    ]
    assert step.items[1].operation.weights == (TensorSpec((32, 64), "fp16"),)
    device = Device("Ascend910B3")
    for each in retime(step, "Ascend910B3", l2="cold").items:
        assert isinstance(each.item.work, AclnnWork)
        alone = device.estimate(each.item.op, **each.item.work.arguments)
        assert each.timing.how is How.SIMULATED
        assert each.timing.duration_us == alone.duration_us


def test_a_list_without_a_batch_has_no_batch_axis(tmp_path: Path) -> None:
    fixed = "calls:\n  - {op: Relu, inputs: ['fp16[8]'], outputs: ['fp16[8]']}\n"
    model = read_model(written(tmp_path, fixed))
    assert model.batch is None
    assert model.at().launches == 1
    with pytest.raises(ArgumentError, match="no batch axis"):
        model.at(2)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("calls:", "call:", "unknown key 'call'"),
        ("count: 2", "count: 0", r"calls\[0\].count: 0 is no whole number"),
        ("count: 2", "counts: 2", r"calls\[0\]: unknown key 'counts'"),
        ("op: Add", "opp: Add", r"calls\[1\]: unknown key 'opp'"),
        ("op: aclnnGroupNormBackward", "op: aclnnGroupNormBackwards", "unknown operator"),
        ("gradOut:", "gradOuts:", "unknown parameter of aclnnGroupNormBackward 'gradOuts'"),
        ("fp16[{B},8]", "fp61[{B},8]", r"calls\[0\].arguments.mean: .*fp61"),
        ("fp16[{C}]", "fp16[{D}]", r"calls\[0\].arguments.gamma: unknown variable 'D'"),
        ('      HxW: "{HW}"\n', "", "HxW is missing"),
        ("weights: [gamma]", "weights: [group]", "'group' is no tensor"),
        ("weights: [gamma]", "measured_us: -1", "no positive time"),
        ("variables:", "batch: 0\nvariables:", "batch: is 0"),
        ('HW: "{8*8}"', "HW: many", "variables.HW: is 'many'"),
        ("C: 64", "B: 64", "'B' can't be the name of a variable"),
        ("name: Two operators", "memory: {weights: 3}", "unknown key 'weights'"),
        ("name: Two operators", "host_dispatch_us: -2", "host_dispatch_us: is -2"),
        ("inputs:", "arguments: {}\n    inputs:", "needs either arguments"),
    ],
)
def test_a_wrong_list_is_refused_by_file_and_key(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    assert old in CALLS
    with pytest.raises(FileError, match=complaint) as caught:
        read_model(written(tmp_path, CALLS.replace(old, new)))
    assert "model.yaml" in caught.value.message


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("model.yaml", "- a list", "holds no mapping"),
        ("model.yaml", "calls: []", "at least one entry"),
        ("model.yaml", "calls: [7]", "must be a call"),
        ("model.onnx", "", "isn't an ONNX model"),
        ("model.om", "", "doesn't read .om"),
        ("model.csv", "a,b\n1,2\n", "has no column"),
        ("model.csv", "Name,Type,Input Data Types\n", "has no kernels"),
    ],
)
def test_what_isn_t_a_model_is_refused(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    with pytest.raises(FileError, match=complaint):
        read_model(written(tmp_path, text, name))
    with pytest.raises(FileError, match="no such file"):
        read_model(tmp_path / "missing.yaml")


# Profiles


OP_SUMMARY = (
    "Op Name,OP Type,Task Type,Task Duration(us),{block},Input Shapes,Input Data Types,"
    "Input Formats,Output Shapes,Output Data Types,Output Formats\n"
)
KERNEL_DETAILS = (
    "{step}Name,Type,Accelerator Core,Duration(us),{block},Input Shapes,Input Data Types,"
    "Input Formats,Output Shapes,Output Data Types,Output Formats\n"
)


@pytest.mark.parametrize("block", ["Block Dim", "Block Num"])
@pytest.mark.parametrize("head", [OP_SUMMARY, KERNEL_DETAILS])
def test_both_profilers_and_both_spellings_are_read(tmp_path: Path, head: str, block: str) -> None:
    rows = (
        'add_1,Add,AI_VECTOR_CORE,3.5,20,"8,64;",DT_BF16;DT_BF16,ND;ND,"8,64",DT_BF16,ND\n'
        'mm_2,MatMulV2,AI_CORE,9,20,"4,8,16,16;4,4,16,16;;",FLOAT16;FLOAT16;FLOAT;,'
        'FRACTAL_NZ;FRACTAL_NZ;ND;NULL,"4,8,16,16",FLOAT16,FRACTAL_NZ\n'
        "hcom_allReduce_3,hcom_allReduce_,COMMUNICATION,50,N/A,N/A,N/A,N/A,N/A,N/A,N/A\n"
        'x_4,ArgMax,AI_CPU,70,1,"""8,64""",INT64,ND,"""8""",INT64,ND\n'
        "y_5,Odd,AI_CORE,2,1,8x64,FLOAT,ND,8,FLOAT,ND\n"
    )
    text = head.format(block=block, step="") + rows
    step = read_model(written(tmp_path, text, "op_summary_1.csv")).at()
    first, product, talk, cpu, odd = step.items
    assert first.inputs == (TensorSpec((8, 64), "bfloat16", "ND"), TensorSpec((), "bf16", "ND"))
    assert [spec.format.name for spec in product.inputs] == ["FRACTAL_NZ", "FRACTAL_NZ", "ND"]
    assert isinstance(product.work, TaskSpec)
    assert product.work.inputs[3] is None
    assert (talk.work, talk.engine, kind_of(talk.op, talk.engine)) == (
        None,
        "communication",
        "communication",
    )
    assert (cpu.engine, cpu.inputs[0].shape) == ("AI CPU", (8, 64))
    assert odd.work is None
    assert "'8x64' is no shape" in odd.operation.problem
    assert step.measured_us == pytest.approx(134.5)


def test_of_several_steps_the_median_is_taken_or_the_one_that_is_named(tmp_path: Path) -> None:
    rows = "".join(
        f'{step},a,Add,AI_CORE,{time},1,"8;8",FLOAT;FLOAT,ND;ND,8,FLOAT,ND\n'
        for step, time in ((5, 90.0), (6, 4.0), (7, 5.0))
    )
    head = KERNEL_DETAILS.format(block="Block Num", step="Step Id,")
    between = ',a,Add,AI_CORE,4.5,1,"8;8",FLOAT;FLOAT,ND;ND,8,FLOAT,ND\n'
    file = written(tmp_path, head + rows + between, "kernel_details.csv")
    middle = read_model(file).at()
    assert middle.measured_us == 5.0
    assert middle.notes == ("step 7 of 3 steps in the file, the one of median time",)
    assert read_model(file, step="5").at().measured_us == 90.0
    with pytest.raises(UnknownNameError, match="unknown step"):
        read_model(file, step="8")
    with pytest.raises(ArgumentError, match="no batch axis"):
        read_model(file).at(2)


# Timing


def test_a_step_is_the_sum_of_its_operators_and_says_what_they_rest_on(tmp_path: Path) -> None:
    step = read_model(written(tmp_path, CALLS)).at(2)
    result = retime(step, "Ascend910B2")
    norm, plain = result.items
    assert result.device_us == pytest.approx(2 * norm.timing.duration_us + plain.total_us)
    assert result.duration_us == result.device_us
    assert [each.kind for each in result.classes] == ["group_norm_backward", "elementwise"]
    assert sum(each.share for each in result.classes) == pytest.approx(1)
    assert plain.timing.evidence is Evidence.CHIP
    assert result.calibrated_share == pytest.approx(
        sum(each.total_us for each in result.items
            if each.timing.evidence in (Evidence.CHIP, Evidence.SISTER)) / result.device_us
    )  # fmt: skip
    assert result.simulated_share == 1
    assert sum(share for _, share in result.bounds) == pytest.approx(1)
    assert result.band_us[0] < result.duration_us < result.band_us[1]


def test_equal_operators_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    honest = Timer._simulate

    def counted(self: Timer, *args: Any) -> Timing:
        asked.append(args[0].op_type)
        return honest(self, *args)

    monkeypatch.setattr(Timer, "_simulate", counted)
    same = [add(4096, measured_us=3.0 + number) for number in range(20)]
    result = retime(step_of(*same, add(8192)), "Ascend910A", l2="in_graph")
    assert asked == ["Add", "Add"]
    assert [each.count for each in result.operators] == [20, 1]


def test_a_step_without_order_finds_nothing_in_l2() -> None:
    spec = TensorSpec((2**22,), "fp16")
    chain = [item(name, TaskSpec(name, (spec,), (spec,))) for name in ("Relu", "Abs")]
    followed = retime(step_of(*chain), "Ascend910B3").items[1].timing.duration_us
    busy = retime(step_of(*chain), "Ascend910B3", l2="busy").items[1].timing.duration_us
    cold = retime(step_of(*chain), "Ascend910B3", l2="cold").items[1].timing.duration_us
    assert followed < busy
    assert cold < busy  # an empty L2 takes what is written, a full one passes it on


def test_what_adds_at_indices_keeps_its_measured_time() -> None:
    rows, where = TensorSpec((4096, 64), "fp32"), TensorSpec((4096,), "int32")
    work = TaskSpec("UnsortedSegmentSum", (rows, where), (TensorSpec((64, 64), "fp32"),))
    known = item("UnsortedSegmentSum", work, measured_us=123.0)
    here = retime(step_of(known), "Ascend910A", measured_on="Ascend910A")
    assert here.items[0].timing.how is How.MEASURED
    assert "how often indices repeat" in here.items[0].timing.note
    unknown = item("UnsortedSegmentSum", work)
    assert retime(step_of(unknown), "Ascend910A").items[0].timing.how is How.SIMULATED


def test_l2_follows_the_order_of_the_step() -> None:
    half = 8 * 2**20
    spec = TensorSpec((half,), "fp16")
    make = item("Relu", TaskSpec("Relu", (TensorSpec((half,), "fp32"),), (spec,)))
    use = item("Abs", TaskSpec("Abs", (spec,), (TensorSpec((half,), "fp16", "NCHW"),)))
    profile = load_profile("Ascend910B3")
    assert Follower(profile).pass_through(use.operation) == (0.0,)
    follower = Follower(profile)
    assert follower.pass_through(make.operation) == (0.0,)
    assert follower.pass_through(use.operation) == (1.0,)
    assert follower.pass_through(item("Abs", use.work, weights=(spec,)).operation) == (0.0,)
    after = retime(step_of(make, use), "Ascend910B3").items[1].timing.duration_us
    alone = retime(step_of(use), "Ascend910B3").items[0].timing.duration_us
    warm = retime(step_of(use), "Ascend910B3", l2="warm").items[0].timing.duration_us
    assert after < 0.8 * alone
    assert warm < 0.8 * alone


def test_a_large_tensor_drives_out_what_was_there() -> None:
    small, large = TensorSpec((4096,), "fp16"), TensorSpec((256 * 2**20,), "fp16")
    follower = Follower(load_profile("Ascend910B3"))
    kept, fills = (
        item("Relu", TaskSpec("Relu", (spec,), (spec,))).operation for spec in (small, large)
    )
    follower.pass_through(kept)
    assert follower.pass_through(kept) == (1.0,)
    follower.pass_through(fills)
    assert follower.pass_through(kept) == (0.0,)


def test_of_a_tensor_larger_than_l2_a_task_finds_what_it_does_not_drive_out_itself() -> None:
    """Lines leave in the order in which they come up again; sums hardly write meanwhile."""
    profile = load_profile("Ascend310P3")
    x = TensorSpec((profile.memory.l2_bytes * 5 // 8,), "fp16")  # 1.25 times L2
    make = item("Relu", TaskSpec("Relu", (x,), (x,))).operation
    total = item("ReduceSumD", TaskSpec("ReduceSumD", (x,), (TensorSpec((16,), "fp16"),))).operation
    for use, found in ((make, 0.0), (total, 0.5)):
        follower = Follower(profile)
        follower.pass_through(make)
        assert follower.pass_through(use) == (found,)


@pytest.mark.parametrize(("share", "driven_out"), [(8, 0.0), (1, 1.0)])
def test_memory_that_nobody_reads_any_more_is_written_over(share: int, driven_out: float) -> None:
    """Tensors of which L2 holds two drive out nothing, those that fill it each other."""
    profile = load_profile("Ascend310P3")
    spec = TensorSpec((profile.memory.l2_bytes // share // 2,), "fp16")
    chain = [
        Operation("Relu", TaskSpec("Relu", (spec,), (spec,)), reads=(str(n),), writes=(str(n + 1),))
        for n in range(2 * share + 2)
    ]
    follower = Follower(profile, readers_of(chain))
    for operation in chain:
        follower.pass_through(operation)
    assert follower.write_back == driven_out


def test_weights_that_several_operators_share_stay_in_l2() -> None:
    """Where the file names them; else nobody knows that they are the same."""
    profile = load_profile("Ascend310P3")
    x, weight = TensorSpec((16, 16), "fp16"), TensorSpec((profile.memory.l2_bytes // 8,), "fp16")
    for names, found in ((("w", "w"), 1.0), (("v", "w"), 0.0), ((), 0.0)):
        follower = Follower(profile)
        shares = []
        for number, name in enumerate(names or "ww"):
            use = Operation(
                "Mul",
                TaskSpec("Mul", (x, weight), (x,)),
                weights=(weight,),
                reads=(f"x{number}", name) if names else (),
                writes=(f"y{number}",) if names else (),
            )
            shares.append(follower.pass_through(use)[1])
        assert shares == [0.0, found]


def test_pieces_are_one_tensor_to_who_reads_them_together() -> None:
    profile = load_profile("Ascend310P3")
    piece = TensorSpec((profile.memory.l2_bytes // 8,), "fp16")
    whole = TensorSpec((profile.memory.l2_bytes // 4,), "fp16")
    for is_piece, found in ((True, 1.0), (False, 0.0)):
        follower = Follower(profile)
        for name in ("a", "b"):
            work = TaskSpec("Relu", (piece,), (piece,))
            make = Operation("Relu", work, reads=(name,), writes=("ab",), pieces=(is_piece,))
            follower.pass_through(make)
        use = Operation("Relu", TaskSpec("Relu", (whole,), (whole,)), reads=("ab",), writes=("c",))
        assert follower.pass_through(use) == (found,)


def timed(
    kind: str, time_us: float, low: float, high: float, evidence: Evidence, count: int = 1
) -> TimedItem:
    timing = Timing(time_us, (time_us * low, time_us * high), "", How.SIMULATED, evidence)
    return TimedItem(item(kind, None, count), timing, kind)


TIMED = st.builds(
    timed,
    st.sampled_from(["a", "b", "c"]),
    st.floats(0.1, 1e4),
    st.floats(0.3, 1.0),
    st.floats(1.0, 3.0),
    st.sampled_from(list(Evidence)),
    st.integers(1, 50),
)


def test_deviations_add_up_in_a_class_and_squares_between_classes() -> None:
    chip = Evidence.CHIP
    same = [timed("a", 10, 0.8, 1.5, chip, 3), timed("a", 20, 0.9, 1.2, Evidence.SISTER)]
    assert band_of_sum(same) == pytest.approx((50 - 6 - 2, 50 + 15 + 4))
    apart = [timed("a", 10, 0.7, 1.3, chip), timed("b", 10, 0.6, 1.4, chip)]
    assert band_of_sum(apart) == pytest.approx((20 - 5, 20 + 5))
    unsure = [timed("a", 10, 0.7, 1.3, Evidence.PROFILE), timed("b", 10, 0.6, 1.4,
                                                                 Evidence.PROFILE)]  # fmt: skip
    assert band_of_sum(unsure) == pytest.approx((20 - 7, 20 + 7))


@given(st.lists(TIMED, min_size=1, max_size=20))
def test_the_band_of_a_sum_lies_between_independence_and_certainty(
    items: Sequence[TimedItem],
) -> None:
    total = sum(each.total_us for each in items)
    low, high = band_of_sum(items)
    ups = [each.item.count * (each.timing.band_us[1] - each.timing.duration_us) for each in items]
    assert low <= total * (1 + 1e-9)
    assert high <= total + sum(ups) + 1e-6 * total
    assert high >= total + hypot(*ups) - 1e-6 * total


def test_the_band_of_a_network_is_what_published_rates_left_over() -> None:
    """On a chip without measured operators; of a few operators it is theirs."""
    few, many = (retime(step_of(*[add(1 << 16)] * n), "Ascend310P3") for n in (9, 10))
    assert "published rates" in many.band_basis
    assert "published rates" not in few.band_basis
    low_us, high_us = many.band_us
    assert low_us < many.device_us < high_us
    known = networks()
    spread = known.chips["Ascend310P3"]
    assert high_us / many.device_us == pytest.approx(
        spread.at(many.device_us / 10, known.sizes_us)[1]
    )
    measured = retime(step_of(*[add(1 << 16)] * 10), "Ascend910B3")
    assert "published rates" not in measured.band_basis


@pytest.mark.parametrize(
    ("dispatch_us", "expected_us"), [(0, 36), (1, 37), (5, 41), (9, 46), (20, 90)]
)
def test_the_host_runs_ahead_as_far_as_it_can(dispatch_us: float, expected_us: float) -> None:
    sure = Evidence.CHIP
    items = [timed("a", 20, 1, 1, sure), timed("b", 3, 1, 1, sure, 2), timed("c", 10, 1, 1, sure)]
    assert with_dispatch(items, dispatch_us) == pytest.approx(expected_us)


@given(st.lists(TIMED, min_size=1, max_size=8), st.floats(0, 50))
def test_repetitions_are_launched_one_by_one(
    items: Sequence[TimedItem], dispatch_us: float
) -> None:
    host_us = device_us = 0.0
    for each in items:
        for _ in range(each.item.count):
            host_us += dispatch_us
            device_us = max(device_us, host_us) + each.timing.duration_us
    assert with_dispatch(items, dispatch_us) == pytest.approx(device_us)


def test_host_time_moves_the_band_and_doesn_t_widen_it() -> None:
    step = step_of(*[add(64)] * 10)
    graph = retime(step, "Ascend910A")
    eager = retime(step, "Ascend910A", host_dispatch_us=100)
    last_us = graph.device_us / 10
    assert eager.duration_us == pytest.approx(1000 + last_us)
    width = graph.band_us[1] - graph.band_us[0]
    assert eager.band_us[1] - eager.band_us[0] == pytest.approx(width)


# What isn't simulated


CONV = TaskSpec(
    "DeformableConv2D",
    (TensorSpec((8, 64, 56, 56), "fp16"), TensorSpec((64, 64, 3, 3), "fp16")),
    (TensorSpec((8, 64, 56, 56), "fp16"),),
)


@pytest.mark.parametrize(
    ("item", "measured_on", "how", "time_us"),
    [
        (item("DeformableConv2D", CONV, measured_us=80.0), "Ascend310P3", How.MEASURED, 80.0),
        (item("DeformableConv2D", CONV, measured_us=80.0), "Ascend910A", How.SCALED, None),
        (item("DeformableConv2D", CONV), "Ascend910A", How.ROOFLINE, None),
        (item("DeformableConv2D", CONV, measured_us=80.0), None, How.ROOFLINE, None),
        (item("Odd", None, measured_us=7.0), "Ascend910A", How.UNSCALED, 7.0),
        (item("hcom", None, 1, 9.0, "communication"), "Ascend910A", How.UNSCALED, 9.0),
        (item("ArgMax", CONV, 1, 9.0, "AI CPU"), "Ascend310P3", How.MEASURED, 9.0),
        (item("Odd", None), None, How.NOTHING, 0.0),
    ],
)
def test_what_is_not_simulated_is_carried_over_and_flagged(
    item: Item, measured_on: str | None, how: How, time_us: float | None
) -> None:
    result = retime(step_of(item, add(64)), "Ascend310P3", measured_on=measured_on)
    timing = result.items[0].timing
    assert timing.how is how
    assert timing.evidence is Evidence.NONE
    chip, origin = load_profile("Ascend310P3"), load_profile("Ascend910A")
    roofline = roofline_us(chip, CONV)
    expected = {
        How.SCALED: 80 * roofline / roofline_us(origin, CONV),
        How.ROOFLINE: roofline * rooflines().of("convolution").median,
    }.get(how, time_us)
    assert timing.duration_us == pytest.approx(expected)
    if how is not How.NOTHING:
        assert result.simulated_share < 1
        assert timing.band_us[0] < timing.duration_us < timing.band_us[1]


def test_a_roofline_says_how_far_above_it_measured_kernels_were() -> None:
    known = rooflines()
    spread = known.of("convolution")
    measured, unmeasured = (
        retime(step_of(item("DeformableConv2D", CONV)), soc).items[0].timing
        for soc in ("Ascend910B3", "Ascend310P3")
    )
    assert measured.band_us[1] == pytest.approx(measured.duration_us * spread.high / spread.median)
    assert unmeasured.band_us[1] > unmeasured.duration_us * spread.high / spread.median
    assert measured.band_us[0] <= measured.duration_us
    assert all(each.low <= each.median <= each.high for each in known.classes.values())


@pytest.mark.parametrize("op", ["NsaSelectedAttention", "aclnnNsaSelectedAttention"])
def test_attention_is_priced_by_its_products_and_not_by_its_bytes(op: str, tmp_path: Path) -> None:
    """An attention that has no kernel here takes about as long as one that has."""
    spec = "fp16[1,16384,128]"
    work = (
        f"arguments: {{query: '{spec}', key: '{spec}', value: '{spec}', attentionOut: '{spec}'}}"
        if op.startswith("aclnn")
        else f"inputs: ['{spec}', '{spec}', '{spec}']\n    outputs: ['{spec}']"
    )
    file = tmp_path / "attention.yaml"
    file.write_text(f"name: attention\ncalls:\n  - op: {op}\n    {work}\n")
    result = retime(read_model(file).at(), "Ascend910B2")
    low_us, high_us = result.band_us
    assert low_us < 909
    assert high_us > 1118
    assert result.duration_us > 388, "less than 137 GFLOP take at the peak"
    assert result.not_simulated_share == 1
    assert headline(result).endswith("100 % of the time isn't simulated: not decided by simulation")
    assert step_json(result)["not_simulated_share"] == 1


def test_what_isn_t_counted_is_said_in_the_verdict() -> None:
    result = retime(step_of(add(2**20), item("Odd", None, count=3)), "Ascend910B3")
    assert result.not_counted == 3
    assert "3 operators aren't counted; 100 % of the time isn't simulated" in headline(result)
    plain = headline(retime(step_of(add(2**20)), "Ascend910B3"))
    assert plain.endswith("; all of the time is simulated")


def test_the_same_chip_tells_the_error_and_another_doesn_t() -> None:
    step = step_of(item("DeformableConv2D", CONV, measured_us=80.0), add(2**20, measured_us=5.0))
    here = retime(step, "Ascend910A", measured_on="Ascend910A")
    assert here.error is not None
    assert here.simulated_error is not None
    assert here.device_us == pytest.approx(80 + 5 * (1 + here.simulated_error))
    assert here.error == pytest.approx(here.device_us / 85 - 1)
    assert retime(step, "Ascend910B3", measured_on="Ascend910A").error is None


# Dtypes


def test_bf16_becomes_fp16_where_only_that_runs() -> None:
    step = step_of(add(2**20, "bf16"), add(2**20, "bf16"))
    old = retime(step, "Ascend910A")
    assert [(each.op, each.count) for each in old.needs_fp16] == [("Add", 2)]
    assert old.runs
    assert "FLOAT16" in old.items[0].timing.note
    half = retime(step_of(add(2**20, "fp16")), "Ascend910A")
    assert old.items[0].timing.duration_us == pytest.approx(half.device_us)
    assert not retime(step, "Ascend910B3").needs_fp16


def test_a_contract_that_refuses_is_told_with_its_status(tmp_path: Path) -> None:
    step = read_model(written(tmp_path, CALLS)).at(2)
    result = retime(step, "Ascend310P3")
    (refused,) = result.refused
    assert (refused.op, refused.count) == ("aclnnGroupNormBackward", 2)
    assert "561003" in refused.why
    assert not result.runs
    assert result.device_us > 0


# Memory


def test_memory_counts_weights_for_each_repetition(tmp_path: Path) -> None:
    result = retime(read_model(written(tmp_path, CALLS)).at(2), "Ascend910B3")
    assert result.memory.weights_bytes == 2 * 64 * 2
    assert result.memory.activation_bytes == result.memory.working_bytes > 2 * 2 * 64 * 64 * 2
    untold = retime(step_of(add(64)), "Ascend910B3").memory
    assert (untold.weights_bytes, untold.total_bytes, untold.working_bytes) == (None, None, 384)
    text = CALLS.replace("variables", "memory: {weights_bytes: 5, activation_bytes: 7}\nvariables")
    stated = retime(read_model(written(tmp_path, text)).at(2), "Ascend910B3").memory
    assert stated.total_bytes == 12


# Measured steps


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training step of ResNet50 on the first generation, as the profiler would have written."""
    file = tmp_path_factory.mktemp("profile") / "kernel_details.csv"
    name = "resnet50_64_224_224 train step (MindSpore)"
    file.write_text(kernel_details(MEASURED, name), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def replayed(network: Path) -> StepResult:
    return retime(read_model(network).at(), "Ascend910B", measured_on="Ascend910B")


def test_a_step_is_unfolded_from_the_measured_table(network: Path) -> None:
    with network.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert tuple(rows[0]) == HEADER
    steps = training_steps(MEASURED)
    assert len(rows) - 1 == steps["resnet50_64_224_224 train step (MindSpore)"]
    assert len(steps) >= 16
    with pytest.raises(UnknownNameError, match="unknown training step"):
        kernel_details(MEASURED, "no such network")


def test_a_measured_step_replays_on_its_own_chip(replayed: StepResult) -> None:
    assert replayed.error is not None
    assert abs(replayed.error) <= 0.2
    assert replayed.simulated_error is not None
    assert abs(replayed.simulated_error) <= 0.2
    assert replayed.simulated_share > 0.3
    for each in replayed.classes:
        assert each.measured_us is not None
        if each.share > 0.05:
            assert each.duration_us == pytest.approx(each.measured_us, rel=0.35)


def test_a_measured_step_moves_to_another_product(network: Path, replayed: StepResult) -> None:
    step = read_model(network).at()
    moved = retime(step, "Ascend310P3", measured_on="Ascend910B")
    assert moved.measured_us == replayed.measured_us
    assert moved.error is None
    assert {each.kind for each in moved.classes} == {each.kind for each in replayed.classes}
    assert moved.device_us > 2 * replayed.device_us  # a sixth of the memory bandwidth
    shaped = {each.timing.how for each in moved.items if each.item.work is not None}
    assert shaped == {How.SIMULATED}


# The command line


def test_the_command_tells_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, CALLS)
    said = npusim(capsys, "model", file, "-s", "910b3", "--batch", "2")
    assert said.code == 0, said.err
    first = said.out.splitlines()[0]
    assert first.startswith("Two operators, batch 2 on Ascend910B3: ")
    for word in ("time by operator class", "top operators", "calibrated", "no host dispatch"):
        assert word in said.out
    both = npusim(capsys, "model", file, "-s", "910b3,310p3")
    assert both.code == 0
    assert "refused" in both.out
    alone = npusim(capsys, "model", file, "-s", "310p3")
    assert alone.code == 1
    assert "can't run on Ascend310P3" in alone.out


def test_several_chips_get_what_one_chip_gets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, CALLS)
    both = npusim(capsys, "model", file, "-s", "910b3,310p3", "--top", "1")
    for chip in ("910b3", "310p3"):
        alone = npusim(capsys, "model", file, "-s", chip, "--top", "1")
        assert "top operators (1 of 2)" in alone.out
        for line in alone.out.splitlines():
            assert line.rstrip() in [each.rstrip() for each in both.out.splitlines()]


def test_the_command_writes_json_and_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, table = written(tmp_path, CALLS), tmp_path / "operators.csv"
    said = npusim(capsys, "model -s 910A,910B3 --json --dispatch-us 30", file, "--csv", table)
    answers = said.json["answers"]
    assert [each["soc"] for each in answers] == ["Ascend910A", "Ascend910B3"]
    assert answers[0]["host_dispatch_us"] == 30
    assert answers[0]["duration_us"] > answers[0]["device_us"]
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 4
    assert {row["how"] for row in rows} == {"simulated"}
    again = npusim(capsys, "model -s 910A", file, "--csv", table)
    assert again.code == 2
    assert "already exists" in again.err


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("", "which chip?"),
        ("-s 910Z", "unknown"),
        ("-s 910A --l2 lukewarm", "unknown state of L2 'lukewarm'"),
        ("-s 910A --dispatch-us -1", "--dispatch-us is -1"),
        ("-s 910A --batch 0", "the batch is 0"),
        ("-s 910A --measured-on 911", "unknown"),
    ],
)
def test_wrong_use_gets_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, complaint: str
) -> None:
    said = npusim(capsys, f"model {more}", written(tmp_path, CALLS))
    assert said.code == 2
    assert complaint in said.err
    assert said.out == ""
    assert "Traceback" not in said.err
