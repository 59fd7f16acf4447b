"""Products of groups against one product after the other, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.matmul.grouped import GroupedMatMul
from npusim.values.dtypes import FLOAT, FLOAT16, INT8, INT64
from npusim.values.errors import DeviceFault
from npusim.values.formats import Format
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, cycles, run, tensor

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"


def numbers(*shape: int, seed: int = 0, kind: Any = np.float16) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=6),
    k=st.integers(1, 200),
    n=st.one_of(st.integers(1, 70), st.sampled_from([256, 301])),
    turned=st.booleans(),
    bias=st.booleans(),
    counts=st.booleans(),
    kind=st.sampled_from([np.float16, np.float32]),
)
def test_rows_of_groups(
    lengths: list[int], k: int, n: int, turned: bool, bias: bool, counts: bool, kind: Any
) -> None:
    total, count = sum(lengths) + 1, len(lengths)
    x, weight = numbers(total, k, kind=kind), numbers(count, k, n, seed=1, kind=kind)
    added = numbers(count, n, seed=2, kind=kind) if bias else None
    ends = np.array(lengths if counts else np.cumsum(lengths), np.int64)
    wanted, start = np.zeros((total, n)), 0
    for group, length in enumerate(lengths):
        part = slice(start, start + length)
        wanted[part] = x[part].astype(np.float64) @ weight[group].astype(np.float64)
        wanted[part] += 0 if added is None else added[group]
        start += length
    lying = np.ascontiguousarray(weight.swapaxes(1, 2)) if turned else weight
    said = {"transpose_weight": turned, "group_list_type": int(counts)}
    (got,) = run(
        CHIP,
        "GroupedMatmul",
        [x, lying, added, *[None] * 4, ends],
        [np.zeros((total, n), kind)],
        **said,
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=0.15 if kind is np.float16 else 1e-3)


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=4),
    m=st.integers(1, 150),
    n=st.integers(1, 300),
)
def test_sums_in_groups(lengths: list[int], m: int, n: int) -> None:
    k = sum(lengths)
    x, weight = numbers(k, m, kind=np.float32), numbers(k, n, seed=1, kind=np.float32)
    ends = np.cumsum(lengths).astype(np.int64)
    parts = np.split(np.arange(k), ends[:-1])
    wanted = [x[part].T.astype(np.float64) @ weight[part].astype(np.float64) for part in parts]
    said = {"group_type": 2, "transpose_x": True, "transpose_weight": False}
    outputs = [np.zeros((len(lengths), m, n), np.float32)]
    (got,) = run(CHIP, "GroupedMatmul", [x, weight, *[None] * 5, ends], outputs, **said)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


def test_groups_of_one_length_are_taken_where_nobody_knows_better() -> None:
    x, weight, y = (
        np.zeros(shape, np.float16) for shape in ((512, 256), (4, 256, 512), (512, 512))
    )
    known = cycles(
        CHIP, "GroupedMatmul", [x, weight, *[None] * 5, np.array([128, 256, 384, 512])], [y]
    )
    assert cycles(CHIP, "GroupedMatmul", [x, weight], [y]) == pytest.approx(known, 0.01)
    alone = cycles(CHIP, "GroupedMatmul", [x, weight, *[None] * 5, np.array([1, 2, 3, 512])], [y])
    assert alone != known
    with pytest.raises(DeviceFault, match="groups of"):
        cycles(CHIP, "GroupedMatmul", [x, weight, *[None] * 5, np.array([128, 64, 384, 512])], [y])


def test_a_list_may_be_left_out() -> None:
    x, weight = numbers(8, 5, kind=np.float32), numbers(2, 5, 3, seed=1, kind=np.float32)
    (got,) = run(CHIP, "GroupedMatmul", [x, weight], [np.zeros((8, 3), np.float32)])
    np.testing.assert_allclose(got, np.vstack([x[:4] @ weight[0], x[4:] @ weight[1]]), rtol=1e-5)
    found = Device(CHIP).run("GroupedMatmul", x=x, weight=weight)
    np.testing.assert_allclose(found.outputs["y"], got)


def test_weights_that_are_no_matrices_are_refused() -> None:
    for weight in ("fp16[1]", "fp16[5,3]", "fp16[0]"):
        assert Device(CHIP).check("GroupedMatmul", x="fp16[8,5]", weight=weight).verdict != "yes"


@settings(max_examples=6, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    k=st.integers(1, 200),
    half=st.one_of(st.integers(1, 70), st.sampled_from([256, 301])),
)
def test_one_half_gates_the_other_and_rows_are_quantised(
    lengths: list[int], k: int, half: int
) -> None:
    m, count, n = sum(lengths) + 1, len(lengths), 2 * half
    lengths[-1] += 1
    random = np.random.default_rng(half)
    x, weight = (
        random.integers(-9, 10, shape).astype(np.int8) for shape in ((m, k), (count, k, n))
    )
    columns, rows = (
        (random.random(shape) / 50 + 0.01).astype(np.float32) for shape in ((count, n), (m,))
    )
    ends = np.cumsum(lengths).astype(np.int64)
    sums = np.zeros((m, n))
    for group, part in enumerate(np.split(np.arange(m), ends[:-1])):
        product = x[part].astype(np.float64) @ weight[group].astype(np.float64)
        sums[part] = product * columns[group] * rows[part, None]
    gated = sums[:, :half] / (1 + np.exp(-sums[:, :half])) * sums[:, half:]
    wanted = np.abs(gated).max(1) / 127
    given = [x, weight, columns, rows, ends]
    outputs = [np.zeros((m, half), np.int8), np.zeros(m, np.float32)]
    alive = wanted > 0
    y, scale = run(CHIP, "GroupedMatmulSwigluQuant", given, outputs)
    np.testing.assert_allclose(scale, wanted, rtol=1e-5)
    assert np.abs(y[alive] - gated[alive] / wanted[alive, None]).max(initial=0) <= 0.501
    assert_time_needs_no_numbers(CHIP, "GroupedMatmulSwigluQuant", given, outputs)


@settings(max_examples=10, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 200), min_size=1, max_size=4),
    k=st.integers(1, 150),
    n=st.one_of(st.integers(1, 70), st.sampled_from([256, 301])),
    by_row=st.booleans(),
    turned=st.booleans(),
    kind=st.sampled_from([np.float16, BFLOAT16]),
)
def test_bytes_become_numbers_by_their_scales(
    lengths: list[int], k: int, n: int, by_row: bool, turned: bool, kind: Any
) -> None:
    m, count, random = sum(lengths) + 1, len(lengths), np.random.default_rng(k)
    x, weight = (
        random.integers(-9, 10, shape).astype(np.int8) for shape in ((m, k), (count, k, n))
    )
    scale, per_row = (
        (random.random(shape) / 50 + 0.01).astype(np.float32) for shape in ((count, n), (m,))
    )
    ends, sums = np.cumsum(lengths).astype(np.int64), np.zeros((m, n))
    for group, part in enumerate(np.split(np.arange(sum(lengths)), ends[:-1])):
        sums[part] = x[part].astype(np.int64) @ weight[group].astype(np.int64)
        sums[part] *= scale[group] * (per_row[part, None] if by_row else 1.0)
    lying = np.ascontiguousarray(weight.swapaxes(1, 2)) if turned else weight
    others = [None, None, None, ends, per_row if by_row else None]
    given, said = [x, lying, None, scale, *others], {"transpose_weight": turned}
    outputs = [np.zeros((m, n), kind)]
    (got,) = run(CHIP, "GroupedMatmul", given, outputs, **said)
    tolerance = 2e-3 if kind is np.float16 else 1e-2
    np.testing.assert_allclose(got.astype(np.float64), sums, rtol=tolerance, atol=1e-4)
    assert_time_needs_no_numbers(CHIP, "GroupedMatmul", given, outputs, **said)
    whole = [np.zeros((m, n), np.int32)]
    (got,) = run(CHIP, "GroupedMatmul", [x, lying, *[None] * 5, ends], whole, **said)
    assert got[: sum(lengths)].any() == sums.any()


@pytest.mark.parametrize(("k", "n"), [(64, 96), (50, 70), (512, 320)])
def test_matrices_in_fractals(k: int, n: int) -> None:
    """Blocks of 16 rows and 32 columns, filled up where sizes are no multiples."""
    random, lengths = np.random.default_rng(k), (3, 0, 130)
    x = random.integers(-9, 10, (sum(lengths), k)).astype(np.int8)
    weight = random.integers(-9, 10, (len(lengths), k, n)).astype(np.int8)
    down, across = -(-k // 16), -(-n // 32)
    filled = np.pad(weight, ((0, 0), (0, down * 16 - k), (0, across * 32 - n)))
    blocks = filled.reshape(-1, down, 16, across, 32).transpose(0, 3, 1, 2, 4)
    scale = (random.random((len(lengths), n)) / 50 + 0.01).astype(np.float32)
    per_row = random.random(len(x)).astype(np.float32)
    ends = np.cumsum(lengths).astype(np.int64)
    stored = replace(tensor(np.ascontiguousarray(blocks)), format=Format.FRACTAL_NZ)
    given = [x, stored, None, scale, None, None, None, ends, per_row]
    (y,) = run(CHIP, "GroupedMatmul", given, [np.zeros((len(x), n), np.float16)])
    group = np.repeat(np.arange(len(lengths)), lengths)
    sums = np.einsum("rk,rkn->rn", x.astype(np.int64), weight[group].astype(np.int64))
    wanted = sums * scale[group] * per_row[:, None]
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=2e-3, atol=1e-3)


def test_weights_in_fractals_need_no_task_before() -> None:
    device = Device(CHIP)
    call = {"x": "int8[512,1024]", "weight_scale": "fp32[4,1024]", "x_scale": "fp32[512]"}
    plain = device.estimate("GroupedMatmulSwigluQuant", weight="int8[4,1024,1024]", **call)
    assert [task.name for task in plain.tasks] == ["TransData", "GroupedMatmulSwigluQuant"]
    blocked = TensorSpec((4, 32, 64, 16, 32), INT8, format=Format.FRACTAL_NZ)
    scales = TensorSpec((4, 1024), FLOAT), TensorSpec((512,), FLOAT)
    given = (TensorSpec((512, 1024), INT8), blocked, *scales)
    task = TaskSpec("GroupedMatmulSwigluQuant", given, ())
    assert len(kernels_of(load_profile(CHIP), task)) == 1
    wrong = {"x": "int8[8,5]", "weight": "int8[2,5,6]", "weight_scale": "fp32[2,7]"}
    assert device.check("GroupedMatmulSwigluQuant", **wrong, x_scale="fp32[8]").verdict != "yes"


def test_rows_of_ten_thousand_are_quantised_one_at_a_time() -> None:
    """Magnitudes lie where the gate's factor was: UB has no room for another row."""
    call = {"x": "int8[32,256]", "weight_scale": "fp32[2,10240]", "x_scale": "fp32[32]"}
    found = Device(CHIP).estimate("GroupedMatmulSwigluQuant", weight="int8[2,256,10240]", **call)
    assert [task.name for task in found.tasks][-1] == "GroupedMatmulSwigluQuant"


def test_sixty_four_experts_are_estimated_at_once() -> None:
    device = Device(CHIP)
    call = {"x": "bf16[65536,2048]", "weight": "bf16[64,2048,1408]"}
    times = []
    for _ in range(5):
        begin = process_time()
        device.estimate("GroupedMatmul", **call)
        times.append(process_time() - begin)
    assert min(times) < 0.06


@pytest.mark.parametrize(
    ("api", "given", "said"),
    [
        ("aclnnGroupedMatmulV2", None, {"splitItem": 3, "groupType": 0}),
        ("aclnnGroupedMatmulV3", "ends", {"splitItem": 3, "groupType": 0}),
        ("aclnnGroupedMatmulV4", "counts", {"splitItem": 3, "groupType": 0, "groupListType": 1}),
        ("aclnnGroupedMatmulV5", "ends", {"splitItem": 2, "groupType": 0, "groupListType": 0}),
    ],
)
def test_interfaces_with_lists_of_one_tensor(
    api: str, given: str | None, said: dict[str, Any]
) -> None:
    dice = np.random.default_rng(0)
    x, weight, bias = (
        dice.standard_normal(shape).astype(np.float16) for shape in ((70, 40), (3, 40, 33), (3, 33))
    )
    counts = np.array([20, 0, 50], np.int64)
    ends = np.cumsum(counts)
    groups: Any = ends.tolist() if given is None else {"ends": ends, "counts": counts}[given]
    late = api[-1] in "45"
    call = {"x0": x, "weight0": weight, "biasOptional0": bias, "groupListOptional": groups, **said}
    call |= {"actType": 0} if late else {}
    outputs = Device(CHIP).run(api, **call, **{"out0" if late else "y0": "fp16[70,33]"}).outputs
    (got,) = outputs.values()
    wide = [np.asarray(each, np.float64) for each in (x, weight, bias)]
    of_row = np.repeat(np.arange(3), counts)
    want = np.einsum("mk,mkn->mn", wide[0], wide[1][of_row]) + wide[2][of_row]
    np.testing.assert_allclose(got, want, atol=0.05)


def test_interfaces_split_sums_and_quantise() -> None:
    dice = np.random.default_rng(1)
    x, weight = dice.standard_normal((17, 60)), dice.standard_normal((60, 33))
    halves = [each.astype(np.float16) for each in (x, weight)]
    ends = np.array([16, 60], np.int64)
    told = {"splitItem": 3, "groupType": 2, "groupListOptional": ends}
    (got,) = Device(CHIP).run(
        "aclnnGroupedMatmulV3", x0=np.asfortranarray(halves[0]), weight0=halves[1],
        y0="fp16[2,17,33]", **told
    ).outputs.values()  # fmt: skip
    x, weight = (each.astype(np.float64) for each in halves)
    want = [x[:, :16] @ weight[:16], x[:, 16:] @ weight[16:]]
    np.testing.assert_allclose(got, want, atol=0.05)
    a, b = (dice.integers(-9, 9, shape).astype(np.int8) for shape in ((24, 64), (2, 64, 32)))
    scale, by_row = (dice.uniform(0.01, 0.1, shape).astype(np.float32) for shape in ((2, 32), 24))
    (got,) = Device(CHIP).run(
        "aclnnGroupedMatmulV4", x0=a, weight0=b, scaleOptional0=scale, out0="fp16[24,32]",
        perTokenScaleOptional0=by_row, groupListOptional=np.array([8, 24], np.int64), actType=0,
        splitItem=3, groupType=0, groupListType=0,
    ).outputs.values()  # fmt: skip
    of_row = np.repeat([0, 1], [8, 16])
    sums = np.einsum("mk,mkn->mn", a.astype(np.float64), b.astype(np.float64)[of_row])
    np.testing.assert_allclose(got, sums * scale[of_row] * by_row[:, None], rtol=2e-3, atol=1e-3)


def test_groups_on_chips_whose_cores_share_a_cube() -> None:
    """The matrices are brought into fractals; float16 without a bias is all that is modelled."""
    x, weight = (numbers(*shape, kind=np.float16) for shape in ((70, 48), (3, 48, 33)))
    counts = np.array([20, 0, 50], np.int64)
    told: dict[str, Any] = {"groupListOptional": np.cumsum(counts), "splitItem": 3, "groupType": 0}
    result = Device("310p3").run(
        "aclnnGroupedMatmulV3", x0=x, weight0=weight, y0="fp16[70,33]", **told
    )
    assert [task.name for task in result.tasks] == ["TransData", "GroupedMatmul"]
    of_row = np.repeat(np.arange(3), counts)
    want = np.einsum("mk,mkn->mn", x.astype(np.float64), weight.astype(np.float64)[of_row])
    np.testing.assert_allclose(result.outputs["y0"], want, atol=0.05)
    wide = {"x0": "bf16[70,48]", "weight0": "bf16[3,48,33]", "y0": "bf16[70,33]", **told}
    status = Device("310p3").check("aclnnGroupedMatmulV3", **wide)
    assert status.code != 0
    assert "FLOAT16" in status.message + status.remedy


def test_all_cube_cores_start_and_take_blocks_in_turns() -> None:
    """However few blocks there are: their host doesn't know how long any group is."""
    profile = load_profile(CHIP)
    for groups in (1, profile.cores.cube_cores + 2):
        x, weight = TensorSpec((16 * groups, 64), FLOAT16), TensorSpec((groups, 64, 32), FLOAT16)
        given = (x, weight, *[None] * 5, TensorSpec((groups,), INT64))
        task = TaskSpec("GroupedMatmul", given, (TensorSpec((16 * groups, 32), FLOAT16),))
        (kernel,) = kernels_of(profile, task)
        assert kernel.block_dim == profile.cores.cube_cores
        assert isinstance(kernel, GroupedMatMul)
        for core in range(kernel.block_dim):
            taken = [place.group for each in kernel.blocks_of(core).values() for place in each]
            assert taken == list(range(core, groups, kernel.block_dim))
