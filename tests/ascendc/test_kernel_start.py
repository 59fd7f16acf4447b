"""What a kernel pays before and beside its pipes: code, issuing, stores that retire into L2."""

from __future__ import annotations

from math import ceil, exp
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.ascendc import Core, TBuf, trace
from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.costs import InstructionCosts
from npusim.ascendc.queueing import Queue
from npusim.engine import ALL_LOST, Code, KernelRun, L2State, Memo, Pipe
from npusim.engine.program import VECTOR, Instruction, Loop, Program, Transfer, Unit
from npusim.engine.simulate import Traffic
from npusim.engine.timeline import CoreRecord, GroupPlayed, Whole
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.matmul.kernel import MatMul
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.task import run_tasks
from npusim.validation.replay import simulate_task, start_of
from npusim.validation.roles import Role
from npusim.validation.table import read_rows
from support.kernels import Probe, gm, profile
from support.paths import ROOT

if TYPE_CHECKING:
    from npusim.hardware import Profile

CHIP = "Ascend910B2"
MEASURED = ROOT / "reports" / "data" / "measured_ops.csv.gz"
COLUMNS = "chip,op,input_shapes,input_dtypes,output_shapes,output_dtypes,duration_us,workload,state"


def add_us(elements: int, *calls: str, l2: str | None = None) -> list[float]:
    """Times of calls one after the other on one stream."""
    device = Device(CHIP, l2=l2)
    stream = device.create_stream()
    tensor = TensorSpec((elements,), "float32")
    operands = {"Add": {"x1": tensor, "x2": tensor}, "Relu": {"x": tensor}}
    return [device.estimate(op, stream=stream, **operands[op]).duration_us for op in calls]


@pytest.mark.parametrize("elements", [1, 37, 999, 100_003, 1_000_000])
def test_a_kernel_that_ran_just_before_has_its_code(elements: int) -> None:
    first, again = add_us(elements, "Relu", "Relu")
    assert again < first - 0.9 * profile(CHIP).launch.code_us


def test_remembered_streams_know_whether_the_code_was_there() -> None:
    """Estimates with a memory of what was traced and played, and without."""
    tensor = TensorSpec((100_003,), "float32")
    found = []
    for memo in (Memo(), Memo(0)):
        device = Device(CHIP, memo=memo)
        streams = device.create_stream(), device.create_stream()
        for stream in (0, 0, 1, 1, 0):
            run = device.estimate("Relu", stream=streams[stream], x=tensor)
            found.append(run.duration_us)
    assert found[:5] == found[5:]
    assert found[0] == found[2] > found[1] == found[3] == found[4]


def test_code_of_more_kernels_than_fit_is_fetched_again() -> None:
    cache = L2State(1e6, code_kernels=4)
    for code in "abcd":
        cache.keep_code(code)
    assert cache.place_of_code("a").lost == 0
    assert cache.place_of_code("e").lost == 1
    cache.keep_code("e")
    assert cache.place_of_code("e").lost == 0
    assert cache.place_of_code("a").lost == 1
    cache.keep_code(None)
    assert cache.place_of_code(None).lost == 1


def test_code_that_has_just_run_is_near() -> None:
    cache = L2State(1e6, code_kernels=4)
    cache.others = Code(far=True)
    cache.keep_code(None, "Attention")
    assert cache.place_of_code(None, "Attention") == ALL_LOST
    assert cache.place_of_code(None, "Other").far


@pytest.mark.parametrize("one_shape", [False, True])
def test_between_layers_a_part_of_the_code_is_lost_and_all_of_what_has_all_variants(
    one_shape: bool,
) -> None:
    cache = L2State(1e6, code_kernels=4)
    cache.others = Code(0.25, one_shape=one_shape)
    cache.keep_code("a")
    assert [cache.place_of_code(each).lost for each in ("a", "b")] == [0, 0.25]
    assert cache.place_of_code(None).lost == (0.25 if one_shape else 1)


@pytest.mark.parametrize("blocks", [1, 2, 7, 47, 48])
def test_every_block_waits_for_the_code_of_all(blocks: int) -> None:
    found, costs = profile(CHIP), InstructionCosts(profile(CHIP))
    cycles = costs.code_fetch(blocks, code=ALL_LOST)
    launch = found.launch
    expected = launch.code_us + (blocks - 1) * launch.code_per_block_us
    assert cycles == pytest.approx(expected * found.clock_mhz)
    assert costs.code_fetch(blocks, code=Code(0.0)) == 0.0
    assert costs.code_fetch(blocks, code=Code(0.25)) == pytest.approx(cycles / 4)
    far = costs.code_fetch(blocks, code=Code(far=True)) - cycles
    assert far == pytest.approx(launch.code_far_us * found.clock_mhz)
    compiled = Code(far=True, one_shape=True)
    assert costs.code_fetch(blocks, code=compiled) == cycles
    assert costs.code_fetch(blocks, code=compiled, fits=False) - cycles == far
    mix = costs.code_fetch(blocks, code=Code(far=True), mix=True) - cycles
    more = launch.mix_code_us + (blocks - 1) * launch.mix_code_per_block_us
    assert mix == pytest.approx(more * found.clock_mhz)
    assert costs.code_fetch(blocks, code=ALL_LOST, mix=True) == cycles


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_every_buffer_that_a_kernel_in_ascend_c_reserves_takes_the_scalar_unit_some_time(
    count: int,
) -> None:
    found = profile(CHIP)

    def body(core: Core) -> None:
        for number in range(count):
            core.pipe.init_buffer(TBuf(f"b{number}"), 1, 64)

    (group,) = trace(Probe(body), found, numerics=False, code=Code(0.0))
    head = next(each for each, _ in group.program.instructions() if each.name == "kernel_head")
    launch = found.launch
    own = launch.kernel_head_cycles + launch.tiling_head_cycles
    assert head.cycles == pytest.approx(own + count * launch.buffer_cycles)


@pytest.mark.parametrize("count", [1, 999, 5_000_001])
def test_generated_kernels_read_tiling_data_unless_they_are_for_one_shape(count: int) -> None:
    found = profile(CHIP)
    launch, tensor = found.launch, TensorSpec((count,), "float32")

    def head(code: Code) -> float:
        (kernel,) = kernels_of(found, TaskSpec("Relu", (tensor,), (tensor,)))
        groups = trace(kernel, found, numerics=False, code=code)
        listed = [
            each for each, _ in groups[0].program.instructions() if each.name == "kernel_head"
        ]
        further = kernel.block_dim - 1
        return listed[0].cycles - further * launch.tiling_per_block_cycles * (not code.one_shape)

    assert head(Code(one_shape=True)) == launch.kernel_head_cycles
    own = launch.kernel_head_cycles + launch.tiling_head_cycles
    assert head(Code()) == pytest.approx(own)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**7)), min_size=1, max_size=12))
def test_ai_cpus_hold_what_they_have_written_last(written: list[tuple[int, int]]) -> None:
    room, l2 = 1_000_000, L2State(1e9)
    for buffer, nbytes in written:
        l2.written_by_cpus(buffer, nbytes, room)
    last, nbytes = written[-1]
    assert l2.taken_from_cpus([last]) == min(room, nbytes)
    others = [l2.taken_from_cpus([buffer]) for buffer in range(6)]
    assert 0 <= sum(others) <= room - min(room, nbytes)
    assert sum(others) <= sum(nbytes for _, nbytes in written[:-1])
    assert l2.taken_from_cpus(range(6)) == 0.0


@pytest.mark.parametrize("count", [1, 9_999, 300_007, 2_000_003])
def test_a_kernel_waits_once_for_what_ai_cpus_have_made(count: int) -> None:
    """For as much as their caches hold; an AI core's results have nobody wait."""
    found = profile(CHIP)
    cpus, tensor = found.ai_cpu, TensorSpec((count,), "float32")
    (relu,) = kernels_of(found, TaskSpec("Relu", (tensor,), (tensor,)))
    (source,) = relu.reads
    cache = empty_cache(found)
    run_tasks((AiCpuKernel("Made", (), (source,), count, list),), found, cache)
    cache.repeat({each.buffer.number: each.nbytes for each in (*relu.reads, *relu.writes)})
    cache.keep_code(relu.code, relu.op_type)
    behind, again = run_tasks((relu, relu), found, cache).tasks
    held = min(cpus.cache_bytes, tensor.nbytes)
    waited = behind.duration_us - again.duration_us
    assert waited == pytest.approx(held / cpus.cache_gbps / 1e3)
    assert behind.launch_us - again.launch_us == pytest.approx(waited)


def moved(nbytes: int, *, write: bool) -> Instruction:
    pipe = Pipe.MTE3 if write else Pipe.MTE2
    return Instruction(pipe, "copy", 0.0, Transfer(0, write, nbytes, nbytes, 100.0))


@pytest.mark.parametrize("nbytes", [4, 700, 12_288, 500_000])
@pytest.mark.parametrize("turns", [1, 2, 9])
def test_the_first_transfers_wait_once_and_the_longer_the_more_they_move(
    nbytes: int, turns: int
) -> None:
    inner = [Loop(3, [moved(nbytes, write=False)]), moved(nbytes, write=True)]
    program = Program([Loop(turns, inner), Loop(0, [moved(nbytes, write=False)])])
    waited = Queue(1000.0, 400.0, 12_288).hold_up(program)
    found = program.instructions()
    waits = {
        write: sum(each.first_cycles for each, _ in found if each.transfer.write == write)
        for write in (False, True)
    }
    assert waited == pytest.approx(waits[False])
    assert waits[False] == pytest.approx(1000.0 * (1 - exp(-3 * turns * nbytes / 12_288)))
    assert waits[True] == pytest.approx(400.0 * (1 - exp(-turns * nbytes / 12_288)))
    assert found[-1] == (moved(nbytes, write=False), 0)


def test_the_first_of_all_waits_for_everything_where_nothing_spreads_it() -> None:
    first, last = moved(32, write=False), moved(64, write=True)
    Queue(1000.0, 400.0, 0).hold_up(Program([Loop(3, [first, moved(32, write=False), last])]))
    assert (first.first_cycles, last.first_cycles) == (1000.0, 400.0)


def test_loads_of_many_cores_wait_for_each_others_code_and_small_kernels_take_no_longer() -> None:
    found = profile(CHIP)
    launch = found.launch.model_copy(update={"load_queue_us": 0.0, "store_queue_us": 0.0})
    alone = found.model_copy(update={"launch": launch})

    def run(chip: Profile, elements: int, l2: str) -> tuple[float, float]:
        told = TensorSpec((elements,), "float32")
        runs = simulate_task(chip, TaskSpec("Relu", (told,), (told,), {}), l2)
        assert runs.longest is not None
        return runs.duration_us, runs.longest.pipes["MTE2"] * runs.runs[0].core_cycles

    for elements in (1, 999):
        assert run(found, elements, "warm") == run(alone, elements, "warm")
        assert run(found, elements, "cold")[0] == pytest.approx(run(alone, elements, "cold")[0])
    many = 48 * 16_384
    assert run(found, many, "loop") == run(alone, many, "loop")
    (us, loads), (alone_us, alone_loads) = (run(each, many, "cold") for each in (found, alone))
    queued_us = 47 * found.launch.load_queue_us
    assert loads - alone_loads == pytest.approx(queued_us * found.clock_mhz, rel=0.1)
    assert us - alone_us < 1.2 * 47 * found.launch.store_queue_us  # the code of the rest comes


def test_shares_of_pipes_are_means_over_all_cores_of_a_kind() -> None:
    def record(blocks: tuple[int, ...], unit: Unit, busy: dict[Pipe, float]) -> CoreRecord:
        played = GroupPlayed(1000.0, busy, (), ())
        return CoreRecord(
            blocks, unit, 1000.0, busy, lambda: Whole(Program(), played, lambda: iter(()))
        )

    one = record((0, 1), VECTOR, {Pipe.VECTOR: 500.0})
    idle, cube = record((2, 3, 4), VECTOR, {}), record((0,), Unit("cube"), {Pipe.CUBE: 250.0})
    run = KernelRun(1100.0, 100.0, (one, idle, cube), Traffic(0, 0, 0, 0, 0), 0.0, 0.0)
    assert run.busy_ratio(Pipe.VECTOR) == pytest.approx(0.2)
    assert run.busy_ratio(Pipe.CUBE) == pytest.approx(0.25)
    assert run.busy_ratio(Pipe.MTE2) == 0.0


@pytest.mark.parametrize("blocks", [1, 2, 7, 47, 48])
def test_kernels_of_many_variants_wait_for_more_code(blocks: int) -> None:
    """But for where they ran just before."""
    launch, costs = profile(CHIP).launch, InstructionCosts(profile(CHIP))
    plain = costs.code_fetch(blocks, code=ALL_LOST)
    more = costs.code_fetch(blocks, code=ALL_LOST, many_variants=True) - plain
    expected = launch.variants_code_us + (blocks - 1) * launch.variants_per_block_us
    assert more == pytest.approx(expected * profile(CHIP).clock_mhz)
    assert costs.code_fetch(blocks, code=Code(0.0), many_variants=True) == 0.0
    assert costs.code_fetch(blocks, code=Code(0.0), fits=False, many_variants=True) == plain


@pytest.mark.parametrize(
    ("op", "attributes", "hard_sync", "many"),
    [
        ("ReduceSum", {"axes": [1]}, True, True),
        ("ReduceSumD", {"axes": [1]}, False, False),
        ("LpNormV2", {"axes": [1]}, False, False),
        ("LogSoftmaxV2", {"axes": [1]}, False, True),
        ("Relu", {}, False, False),
    ],
)
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (37, 999), (500, 101)])
def test_reductions_for_any_shape_are_mixed_and_those_and_rows_have_many_variants(
    op: str,
    attributes: dict[str, list[int]],
    shape: tuple[int, int],
    *,
    hard_sync: bool,
    many: bool,
) -> None:
    result = shape if op in ("LogSoftmaxV2", "Relu") else shape[:1]
    told = TensorSpec(shape, "float32"), TensorSpec(result, "float32")
    task = TaskSpec(op, told[:1], told[1:], attributes)
    found = profile(CHIP)
    none = dict.fromkeys(("preparing_us", "variants_code_us", "variants_per_block_us"), 0.0)
    launch = found.launch.model_copy(update=none)
    at_once = found.model_copy(update={"launch": launch})
    first, without = (simulate_task(each, task, "cold").duration_us for each in (found, at_once))
    again, before = (simulate_task(each, task, "loop").duration_us for each in (found, at_once))
    start_us = found.launch.preparing_us if hard_sync else 0.0
    assert again - before == pytest.approx(start_us, rel=0.01, abs=0.01)
    assert (first - without > start_us + 0.9 * found.launch.variants_code_us) == many


@pytest.mark.parametrize("op", ["ReduceSum", "LogSoftmaxV2", "LayerNormV3"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (37, 999), (500, 101)])
def test_what_is_compiled_for_its_shapes_has_no_other_variants(
    op: str, shape: tuple[int, int]
) -> None:
    x, line = TensorSpec(shape, "float32"), TensorSpec(shape[1:], "float32")
    column = TensorSpec((shape[0], 1), "float32")
    norm = op == "LayerNormV3"
    outputs = (x, column, column) if norm else (column,) if op == "ReduceSum" else (x,)
    task = TaskSpec(op, (x, line, line) if norm else (x,), outputs, {} if norm else {"axes": [1]})
    found = profile(CHIP)
    none = dict.fromkeys(("preparing_us", "variants_code_us", "variants_per_block_us"), 0.0)
    without = found.model_copy(update={"launch": found.launch.model_copy(update=none)})
    compiled, plain, any_shape = (
        simulate_task(chip, task, "in_graph", role=Role(one_shape=one_shape)).duration_us
        for chip, one_shape in ((found, True), (without, True), (found, False))
    )
    assert compiled == pytest.approx(plain)
    launch = found.launch  # of a graph the code is far
    assert any_shape - compiled > 0.9 * (launch.variants_code_us - launch.code_far_us)


@pytest.mark.parametrize("blocks", [1, 2, 7, 48])  # up to as many as there are cores
@pytest.mark.parametrize(("elements", "turns"), [(1, 1), (2, 0), (1000, 0)])
def test_blocks_read_the_only_element_of_a_tensor_in_turn(
    blocks: int, elements: int, turns: int
) -> None:
    """Once: behind the first they are as far apart as their turns."""
    numbers = [gm(np.zeros(elements, np.float32), name) for name in ("a", "b")]

    def body(core: Core) -> None:
        for each in numbers:
            core.load_scalar(each.span(0, 1))

    def took(conflict: float) -> float:
        found = profile(CHIP)
        told = found.memory.model_copy(update={"load_conflict_cycles": conflict})
        chip = found.model_copy(update={"memory": told})
        kernels = [Probe(body, *numbers, blocks=blocks)]
        return run_tasks(kernels, chip, empty_cache(chip)).duration_us

    more = took(1000.0) - took(0.0)
    assert more == pytest.approx(turns * (blocks - 1) * 1000 / profile(CHIP).clock_mhz, abs=1e-3)


@pytest.mark.parametrize("op", ["NLLLoss", "TopKV2", "AdaptiveAvgPool3dGrad", "ReduceSum"])
def test_what_profiles_list_as_mix_aiv_is_launched_so(op: str) -> None:
    rows = [each for each in read_rows(MEASURED) if each.op == op and each.soc == CHIP]
    for row in rows:
        assert row.task is not None
        assert any(each.hard_sync for each in kernels_of(profile(CHIP), row.task)), row.line
    assert rows


@pytest.mark.parametrize(
    ("elements", "guarded"), [(30 * 1280, 0), (30 * 1280 + 8, 3), (997, 3), (499, 0)]
)
def test_blocks_of_unequal_shares_find_out_how_much_they_have(elements: int, guarded: int) -> None:
    tensor = TensorSpec((elements,), "float32")
    task = TaskSpec("Mul", (tensor, tensor), (tensor,))
    found = profile("Ascend910B")
    launch = found.launch.model_copy(update={"guard_cycles": 0.0})
    known = found.model_copy(update={"launch": launch})
    (kernel,) = kernels_of(found, task)
    assert kernel.guarded == guarded
    took, without = (simulate_task(each, task, "cold").duration_us for each in (found, known))
    more_us = guarded * found.launch.guard_cycles / found.clock_mhz
    assert took == pytest.approx(without + more_us, abs=1e-6)


def test_the_scalar_unit_works_in_front_of_every_instruction() -> None:
    tensor = TensorSpec((4096 * 1023,), "float32")
    found = profile(CHIP)
    scalar = found.scalar.model_copy(update={"argument_cycles": 0.0})
    free = Device(found.model_copy(update={"scalar": scalar})).estimate("Relu", x=tensor)
    busy = Device(found).estimate("Relu", x=tensor)
    assert busy.pipes["SCALAR"] > 1.3 * free.pipes["SCALAR"]
    assert busy.duration_us == pytest.approx(free.duration_us, rel=0.02)


def test_stores_dont_wait_for_what_they_push_out_of_l2() -> None:
    """In a graph loads wait for it, and stores go on at the rate of L2."""
    tensor = TensorSpec((4096, 4096), "float32")
    result = Device(CHIP, l2="in_graph").estimate("Relu", x=tensor)
    assert result.pipes["MTE3"] < 0.75 * result.pipes["MTE2"]


def test_rows_say_whether_they_were_measured_in_a_loop(tmp_path: Path) -> None:
    relu = '910B4,Relu,"4096,37",FLOAT,"4096,37",FLOAT,5,'
    lines = ["microbenchmark loop,loop", "loop,", "x,Loop"]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([COLUMNS, *(relu + line for line in lines)]) + "\n")
    rows = list(read_rows(file))
    assert [start_of(row, "in_graph") for row in rows] == ["loop", "in_graph", "loop"]
    assert {start_of(row, "cold") for row in rows} == {"cold"}


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1024, 2560), (7, 2048, 1024), (37, 1008, 4112)])
def test_weights_that_are_laid_out_come_from_hbm_unless_prefetched(m: int, k: int, n: int) -> None:
    """A model's own weights are in fractals; what it has computed is not."""
    tiles = (-(-n // 16), -(-k // 16), 16, 16)
    x, out = (TensorSpec(shape, "float16") for shape in ((m, k), (m, n)))
    laid_out = TensorSpec(tiles, "float16", "FRACTAL_NZ")
    found = profile(CHIP)
    product = TaskSpec("MatMul", (x, laid_out), (out,))
    cold, prefetched = (simulate_task(found, product, l2) for l2 in ("in_graph", "prefetched"))
    assert cold.tasks[0].hbm_bytes > prefetched.tasks[0].hbm_bytes + 0.9 * laid_out.nbytes
    assert cold.duration_us > prefetched.duration_us + 0.3 * laid_out.nbytes / 1.6e6


def test_what_flushed_l2_left_modified_bytes_there() -> None:
    """Those that a task writes push them out; what a profiler has read to clear L2 gives way."""
    found = profile(CHIP)
    tensor = TensorSpec((4099, 4097), "float32")
    copy = TaskSpec("Relu", (tensor,), (tensor,))
    flushed, cleared = (simulate_task(found, copy, l2).tasks[0] for l2 in ("flushed", "cleared"))
    assert flushed.hbm_bytes > 1.2 * tensor.nbytes
    assert cleared.hbm_bytes == pytest.approx(tensor.nbytes, rel=0.01)


@pytest.mark.parametrize("rows", [1, 5, 64, 1000])
@pytest.mark.parametrize("columns", [8, 33, 500])
def test_generated_kernels_find_out_along_which_axes_operands_repeat(
    rows: int, columns: int
) -> None:
    """Not so with one number, nor where they are compiled for one shape, as in static graphs."""
    found = profile(CHIP)
    launch = found.launch.model_copy(update={"preparing_us": 0.0})
    at_once = found.model_copy(update={"launch": launch})

    def prepares_us(op: str, *shapes: tuple[int, ...], one_shape: bool = False) -> float:
        inputs = tuple(TensorSpec(shape, "float32") for shape in shapes)
        task = TaskSpec(op, inputs, (TensorSpec((rows, columns), "float32"),))
        role = Role(one_shape=one_shape)
        with_it, without = (
            simulate_task(each, task, "loop", role=role).duration_us for each in (found, at_once)
        )
        return with_it - without

    repeats = found.launch.preparing_us if rows > 1 else 0.0
    whole, row, number = (rows, columns), (columns,), (1,)
    assert prepares_us("Add", whole, row) == pytest.approx(repeats, abs=0.02)
    assert prepares_us("BroadcastTo", row) == pytest.approx(found.launch.preparing_us, abs=0.02)
    assert prepares_us("Add", whole, number) == prepares_us("Add", whole, whole) == 0.0
    assert prepares_us("Add", whole, row, one_shape=True) == 0.0


@pytest.mark.parametrize(("op", "finds"), [("BatchMatMulV2", True), ("BatchMatMulV3", False)])
@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 37, 129), (12, 256, 64)])
def test_generated_products_for_any_shape_find_out_what_they_multiply(
    op: str, shape: tuple[int, int, int], *, finds: bool
) -> None:
    batch, rows, inner = shape
    x, y = TensorSpec(shape, "float16"), TensorSpec((batch, inner, rows), "float16")
    task = TaskSpec(op, (x, y), (TensorSpec((batch, rows, rows), "float16"),))
    found = profile(CHIP)
    launch = found.launch.model_copy(update={"preparing_us": 0.0})
    at_once = found.model_copy(update={"launch": launch})
    for one_shape in (False, True):
        role = Role(one_shape=one_shape)
        with_it, without = (
            simulate_task(each, task, "loop", role=role).duration_us for each in (found, at_once)
        )
        expected = found.launch.preparing_us if finds and not one_shape else 0.0
        assert with_it - without == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("op", ["MatMulV2", "MatMulV3"])
@pytest.mark.parametrize("shape", [(17, 31, 37), (300, 1024, 256), (84, 600, 200)])
def test_generated_products_for_any_shape_find_addresses_for_each_piece_of_k(
    op: str, shape: tuple[int, int, int]
) -> None:
    """Not so where they know all sizes, nor those that are written in Ascend C."""
    m, k, n = shape
    x, y, out = (TensorSpec(each, "float32") for each in ((m, k), (k, n), (m, n)))
    task = TaskSpec(op, (x, y), (out,))
    found = profile(CHIP)
    operations = found.software.matmul_step_operations
    software = found.software.model_copy(update={"matmul_step_operations": 0})
    without = found.model_copy(update={"software": software})
    (kernel,) = kernels_of(found, task)
    assert isinstance(kernel, MatMul)
    blocks, (share, *_) = kernel.partition.blocks, kernel.partition.shares(0)
    tiles = ceil(share.rows / blocks.base_m) * ceil(share.columns / blocks.base_n)
    steps = tiles * sum(
        ceil(min(blocks.step_k, k - first) / blocks.base_k) for first in range(0, k, blocks.step_k)
    )
    for one_shape in (False, True):
        busy = []
        for each in (found, without):
            run = simulate_task(each, task, "loop", role=Role(one_shape=one_shape)).tasks[0]
            busy.append(run.pipes["SCALAR"] * (run.duration_us - run.launch_us) * each.clock_mhz)
        expected = steps * operations if op == "MatMulV2" and not one_shape else 0
        assert busy[0] - busy[1] == pytest.approx(expected, rel=0.02, abs=25)
