"""Products of quantised operands against whole numbers, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.ascendc import Kernel, trace
from npusim.ascendc.loops import Dealt, IndexArray, LoopIndex
from npusim.ascendc.reuse import EVER_NEW
from npusim.ascendc.task import Task
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of, kernels_on
from npusim.ops.matmul.multi_scale import MultiScaleMatMul
from npusim.values.formats import Format
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, cycles, run, tensor

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"


def bytes_of(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def positive(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(1, 9))
def test_numbers_that_are_dealt_tell_how_often_they_come_again(
    numbers: list[int], unit: int
) -> None:
    table = unit * np.array(numbers, np.int64)
    found = Dealt(table).at(LoopIndex(0, 0, len(table), len(table)))
    if len(set(numbers)) == 1:
        assert found == table[0]
        return
    assert isinstance(found, IndexArray)
    np.testing.assert_array_equal(found.values, table)
    if len(set(numbers)) == len(numbers):
        assert found.cycle == EVER_NEW
    else:
        places, period = found.cycle
        assert places == len(set(numbers))
        assert 1 <= period < len(table)
    assert found.unit % unit == 0
    assert not (table % found.unit).any()


@pytest.mark.parametrize(
    ("numbers", "cycle"),
    [((0, 1, 2) * 5, (3, 3)), ((7, 7, 7, 8, 8, 8), (2, 1)), ((3, 1), EVER_NEW)],
)
def test_numbers_that_come_again_after_as_many_iterations(
    numbers: tuple[int, ...], cycle: tuple[int, int]
) -> None:
    index = LoopIndex(0, 0, len(numbers), len(numbers))
    found = Dealt(np.array(numbers, np.int64)).at(index)
    assert isinstance(found, IndexArray)
    assert found.cycle == cycle


def dequantised(m: int, k: int, n: int) -> Kernel:
    shapes = ((m, k, "int8"), (k, n, "int8"), (n, "float32"))
    given = [TensorSpec(tuple(shape), kind) for *shape, kind in shapes]
    rows, out = TensorSpec((m,), "float32"), TensorSpec((m, n), "bfloat16")
    inputs = (*given, None, None, rows)
    (kernel,) = kernels_of(load_profile(CHIP), TaskSpec("QuantBatchMatmulV3", inputs, (out,)))
    return kernel


def test_blocks_that_vector_cores_take_over_are_written_down_by_size() -> None:
    """Cores have up to four sizes of blocks, however many blocks there are."""
    profile = load_profile(CHIP)
    few, many = (trace(dequantised(m, 2048, 4097), profile, numerics=False) for m in (1027, 9999))
    listed = [max(len(group.program.instructions()) for group in groups) for groups in (few, many)]
    assert listed[1] < 1.5 * listed[0]


@settings(max_examples=12, deadline=None)
@given(
    m=st.one_of(st.integers(1, 70), st.sampled_from([257, 600])),
    n=st.one_of(st.integers(1, 70), st.sampled_from([300, 513])),
    k=st.one_of(st.integers(1, 200), st.sampled_from([1024, 1500])),
    turned=st.tuples(st.booleans(), st.booleans()),
    one_scale=st.booleans(),
    per_row=st.booleans(),
    bias=st.sampled_from([None, np.int32, np.float32]),
    kind=st.sampled_from([np.float16, BFLOAT16]),
    packed=st.booleans(),
)
def test_scaled_products(
    m: int, n: int, k: int, turned: tuple[bool, bool], one_scale: bool, per_row: bool,
    bias: Any, kind: Any, packed: bool,
) -> None:  # fmt: skip
    a, b = bytes_of(m, k), bytes_of(k, n, seed=1)
    scale = positive(1 if one_scale else n, seed=2) / np.float32(k)
    rows = positive(m, seed=3) if per_row else None
    added = None if bias is None else (positive(n, seed=4) * 99).astype(bias)
    sums = a.astype(np.int64) @ b.astype(np.int64)
    if bias is np.int32:
        sums = sums + added
    wanted = sums * scale.astype(np.float64) * (1 if rows is None else rows[:, None])
    if bias is np.float32:
        wanted = wanted + added
    if packed and not per_row and kind is np.float16 and bias is not np.float32:
        scale = scale.view(np.uint32).astype(np.uint64)
    given = [a.T if turned[0] else a, b.T if turned[1] else b, scale, None, added, rows]
    given = [None if each is None else np.ascontiguousarray(each) for each in given]
    outputs = [np.zeros((m, n), kind)]
    said = {"transpose_x1": turned[0], "transpose_x2": turned[1]}
    (got,) = run(CHIP, "QuantBatchMatmulV3", given, outputs, **said)
    tolerance = 2e-3 if kind is np.float16 else 1e-2
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    assert_time_needs_no_numbers(CHIP, "QuantBatchMatmulV3", given, outputs, **said)


@settings(max_examples=10, deadline=None)
@given(
    m=st.one_of(st.integers(1, 40), st.sampled_from([129, 256])),
    n=st.one_of(st.integers(1, 70), st.sampled_from([900])),
    k=st.one_of(st.integers(1, 200), st.sampled_from([1100])),
    offset=st.booleans(),
    bias=st.booleans(),
    one_scale=st.booleans(),
    kind=st.sampled_from([np.float16, BFLOAT16]),
)
def test_weights_of_bytes(
    m: int, n: int, k: int, offset: bool, bias: bool, one_scale: bool, kind: Any
) -> None:
    x = (positive(m, k) - 1).astype(kind)
    weight, scale = bytes_of(k, n, seed=1), positive(1 if one_scale else n, seed=2).astype(kind)
    shift = (positive(scale.size, seed=3) * 9).astype(kind) if offset else None
    added = positive(n, seed=4).astype(np.float32 if kind is BFLOAT16 else kind) if bias else None
    wide = weight + (0 if shift is None else shift.astype(np.float64))
    wanted = x.astype(np.float64) @ (wide * scale.astype(np.float64))
    wanted = wanted + (0 if added is None else added.astype(np.float64))
    given = [x, weight, scale, shift, added]
    outputs = [np.zeros((m, n), kind)]
    (got,) = run(CHIP, "WeightQuantBatchMatmul", given, outputs)
    room = 128 * np.sqrt(k) * (2e-3 if kind is np.float16 else 1.5e-2)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=1e-2, atol=room)
    assert_time_needs_no_numbers(CHIP, "WeightQuantBatchMatmul", given, outputs)


def test_weights_of_bytes_stream_at_half_the_rate_of_memory() -> None:
    x, weight = np.zeros((16, 4096), np.float16), np.zeros((4096, 11008), np.int8)
    outputs = [np.zeros((16, 11008), np.float16)]
    scale = np.ones(11008, np.float16)
    taken = cycles(CHIP, "WeightQuantBatchMatmul", [x, weight, scale, None, None], outputs)
    rate_gbps = weight.nbytes / taken * 1.8
    assert 400 < rate_gbps < 1200


def product_cycles(kind: Any, op_type: str, size: int, **others: Any) -> float:
    a, b = np.zeros((size, size), kind), np.zeros((size, size), kind)
    scale = [] if kind is np.float16 else [np.ones(size, np.float32), None]
    return cycles(CHIP, op_type, [a, b, *scale], [np.zeros((size, size), others.pop("out"))])


def test_bytes_multiply_faster_and_vector_cores_work_beside() -> None:
    halves = product_cycles(np.float16, "MatMulV3", 2048, out=np.float16)
    alone = product_cycles(np.int8, "QuantBatchMatmulV3", 2048, out=np.float16)
    handed_over = product_cycles(np.int8, "QuantBatchMatmulV3", 2048, out=BFLOAT16)
    assert 1.3 * alone < halves
    assert alone < handed_over < 1.5 * alone


def test_scales_that_the_output_stage_reads_are_packed_by_a_task_before_the_product() -> None:
    profile = load_profile(CHIP)

    def kernels(kind: str, scale: Any, per_row: Any = None) -> tuple[Any, ...]:
        given = (bytes_of(64, 96), bytes_of(96, 300, seed=1), scale, None, per_row, None)
        inputs = tuple(None if each is None else tensor(each) for each in given)
        return kernels_on(Task(profile, "QuantMatmul", inputs, (), {"output_dtype": kind}))

    packing, product = kernels("float16", positive(300))
    assert (packing.op_type, packing.block_dim, product.is_mix) == ("TransQuantParamV2", 1, False)
    others = [kernels("bfloat16", positive(300)), kernels("float16", positive(300), positive(64))]
    assert all(len(each) == 1 and each[0].is_mix for each in others)


def test_one_core_packs_scale_after_scale() -> None:
    def taken(count: int) -> float:
        outputs = [np.zeros(count, np.uint64)]
        return cycles(CHIP, "TransQuantParamV2", [positive(count), None], outputs)

    assert 4000 < taken(2001) - taken(1001) < 20000


def test_one_vector_core_of_two_turns_sums_into_numbers_unless_rows_have_scales() -> None:
    profile = load_profile(CHIP)
    a, b, scale = (tensor(each) for each in (bytes_of(512, 64), bytes_of(64, 512), positive(512)))
    y = tensor(np.zeros((512, 512), BFLOAT16))
    for rows, lanes in ((None, 1), (tensor(positive(512)), 2)):
        task = Task(profile, "QuantBatchMatmulV3", (a, b, scale, None, None, rows), (y,))
        (kernel,) = kernels_on(task)
        assert kernel.lanes == lanes


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3"])
def test_calls_are_checked(chip: str) -> None:
    call = {
        "x1": "int8[8,64]", "x2": "int8[64,32]", "scale": "bf16[32]", "out": "bf16[8,32]",
        "transposeX1": False, "transposeX2": False,
    }  # fmt: skip
    found = Device(chip).check("aclnnQuantMatmulV4", **call)
    assert found.code == (561003 if chip == "Ascend910A" else 0)
    if chip != "Ascend910A":
        wrong = Device(chip).check("aclnnQuantMatmulV4", **{**call, "scale": "bf16[31]"})
        assert wrong.code == 161002


@settings(max_examples=8, deadline=None)
@given(
    m=st.one_of(st.integers(1, 70), st.just(300)),
    blocks=st.sampled_from([(1, 1), (3, 2), (2, 5), (16, 12)]),
    one_scale=st.booleans(),
    biased=st.booleans(),
)
def test_scales_meet_sums_on_their_way_into_ub(
    m: int, blocks: tuple[int, int], one_scale: bool, biased: bool
) -> None:
    n, k = 32 * blocks[0], 16 * blocks[1]
    a, b = bytes_of(m, k), bytes_of(k, n, seed=1)
    scale = positive(1 if one_scale else n, seed=2) / np.float32(k)
    bias = (positive(n, seed=3) * 99).astype(np.int32) if biased else None
    profile, kind = load_profile("Ascend310P3"), Format.FRACTAL_NZ
    fractals = np.ascontiguousarray(b.reshape(k // 16, 16, n // 32, 32).transpose(2, 0, 1, 3))
    weight = replace(tensor(fractals, "w"), format=kind)
    given = [tensor(a), weight, tensor(scale.view(np.uint32).astype(np.uint64), "scale"), None]
    given += [] if bias is None else [tensor(bias, "bias")]
    y = tensor(np.zeros((m, n), np.float16), "y")
    for each in kernels_on(Task(profile, "QuantBatchMatmulV3", tuple(given), (y,))):
        trace(each, profile, numerics=True)
    sums = a.astype(np.int64) @ b.astype(np.int64) + (0 if bias is None else bias)
    wanted = sums * scale.astype(np.float64)
    np.testing.assert_allclose(y.array.astype(np.float64), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("rows", [1, 16, 200, 1024])
@pytest.mark.parametrize("sizes", [(4096, 4096), (513, 7168), (12288, 1536)])
@pytest.mark.parametrize("scale", ["uint64", "fp32"])
def test_scales_have_room_beside_operands(rows: int, sizes: tuple[int, int], scale: str) -> None:
    k, n = sizes
    out = "fp16" if scale == "uint64" else "bf16"
    call = {"x1": f"int8[{rows},{k}]", "x2": f"int8[{k},{n}]", "out": f"{out}[{rows},{n}]"}
    call |= {"scale": f"{scale}[{n}]", "transposeX1": False, "transposeX2": False}
    assert Device(CHIP).estimate("aclnnQuantMatmulV4", **call).duration_us > 0


def test_products_of_bytes_on_310p() -> None:
    device = Device("Ascend310P3")
    call = {"x1": "int8[1024,4096]", "x2": "int8[128,256,16,32]:NZ", "scale": "uint64[4096]"}
    call |= {"out": "fp16[1024,4096]", "transposeX1": False, "transposeX2": False}
    fast = device.estimate("aclnnQuantMatmulV4", **call).duration_us
    whole = {"x1": "fp16[1024,4096]", "x2": "fp16[4096,4096]", "y": "fp16[1024,4096]"}
    assert fast < 0.8 * device.estimate("MatMulV2", **whole).duration_us
    for change in ({"scale": "fp32[4096]"}, {"x2": "int8[4096,4096]"}, {"out": "bf16[1024,4096]"}):
        assert device.check("aclnnQuantMatmulV4", **call | change).code != 0


@settings(max_examples=12, deadline=None)
@given(
    m=st.sampled_from([1, 16, 70]),
    n=st.sampled_from([8, 64, 200, 520]),
    k=st.sampled_from([32, 96, 200, 1024, 1500]),
    group=st.sampled_from([0, 32, 64, 128]),
    shifted=st.booleans(),
    kind=st.sampled_from([np.float16, BFLOAT16]),
)
def test_weights_of_four_bits(m: int, n: int, k: int, group: int, shifted: bool, kind: Any) -> None:
    """Eight in a number of INT32, with scales of columns or of groups of rows."""
    group = group if group < k else 0
    dice = np.random.default_rng(0)
    x, weight = dice.uniform(-1, 1, (m, k)).astype(kind), dice.integers(-8, 8, (k, n))
    words = (weight.reshape(k, n // 8, 8) & 15) << np.arange(0, 32, 4)
    packed = words.sum(-1).astype(np.uint32).view(np.int32)
    shape = (-(-k // group), n) if group else (n,)
    scale = dice.uniform(0.01, 0.1, shape).astype(kind)
    offset = dice.integers(-4, 5, shape).astype(kind) if shifted else None
    found = Device(CHIP).run(
        "aclnnWeightQuantBatchMatmulV2", x=x, weight=packed, antiquantScale=scale,
        antiquantGroupSize=group, y=f"{'fp16' if kind is np.float16 else 'bf16'}[{m},{n}]",
        **({} if offset is None else {"antiquantOffsetOptional": offset}),
    ).outputs["y"]  # fmt: skip
    of_row = np.arange(k) // group if group else np.zeros(k, int)
    wide, lower = (
        np.zeros(()) if each is None else each.astype(np.float64).reshape(-1, n)[of_row]
        for each in (scale, offset)
    )
    want = x.astype(np.float64) @ ((weight + lower) * wide)
    tolerance = 2e-3 if kind is np.float16 else 1.6e-2
    np.testing.assert_allclose(
        found.astype(np.float64), want, rtol=tolerance, atol=tolerance * np.sqrt(k)
    )


def test_weights_of_four_bits_take_about_as_long_as_those_of_eight() -> None:
    """Half as many bytes are read, in runs half as long, and as many numbers widened."""
    x, y, scale = (np.zeros(shape, np.float16) for shape in ((80, 8192), (80, 8192), 8192))
    times = [
        cycles(CHIP, "WeightQuantBatchMatmulV2", [x, weight, scale], [y])
        for weight in (np.zeros((8192, 8192), np.int8), np.zeros((8192, 1024), np.int32))
    ]
    assert 0.7 < times[1] / times[0] < 1.1


@settings(max_examples=8, deadline=None)
@given(
    m=st.integers(1, 64),
    n=st.integers(1, 40).map(lambda number: 32 * number),
    k=st.integers(1, 40).map(lambda number: 32 * number),
    offset=st.booleans(),
    bias=st.booleans(),
    kind=st.sampled_from([np.float16, BFLOAT16]),
)
def test_a_few_rows_are_split_into_two_lines_of_bytes(
    m: int, n: int, k: int, offset: bool, bias: bool, kind: Any
) -> None:
    x = (positive(m, k) - 1).astype(kind)
    x[m // 2] = 0  # no largest magnitude to divide by
    weight, scale = bytes_of(k, n, seed=1), positive(n, seed=2).astype(kind)
    shift = (positive(n, seed=3) * 9).astype(kind) if offset else None
    added = positive(n, seed=4).astype(np.float32 if kind is BFLOAT16 else kind) if bias else None
    wide = weight + (0 if shift is None else shift.astype(np.float64))
    wanted = x.astype(np.float64) @ (wide * scale.astype(np.float64))
    wanted = wanted + (0 if added is None else added.astype(np.float64))
    given, outputs = [x, weight, scale, shift, added], [np.zeros((m, n), kind)]
    (got,) = run(CHIP, "WeightQuantBatchMatmul", given, outputs)
    rounded = 1e-3 if kind is np.float16 else 8e-3
    step = 0.5 / (2 * 127.499**2) * 128 * 1.5 * k  # of the second line, in every product
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=rounded, atol=step + rounded)
    assert_time_needs_no_numbers(CHIP, "WeightQuantBatchMatmul", given, outputs)


@pytest.mark.parametrize(
    ("m", "k", "n", "packed", "scales", "blocks"),
    # A core has whole 256 columns; else numbers of half types are multiplied.
    [
        (1, 4096, 4096, False, 4096, 16),
        (64, 4096, 14336, False, 14336, 19),
        (16, 13696, 96, False, 96, 8),  # as many clusters as rows need
        (65, 4096, 4096, False, 4096, None),
        (16, 13728, 4096, False, 4096, None),
        (16, 4100, 4096, False, 4096, None),
        (16, 4096, 4096, False, 1, None),
        (16, 4096, 4096, True, 4096, None),
    ],
)
def test_which_rows_are_split(
    m: int, k: int, n: int, packed: bool, scales: int, blocks: int | None
) -> None:
    kind = np.int32 if packed else np.int8
    weight = np.zeros((k, n // 8 if packed else n), kind)
    given = (np.zeros((m, k), np.float16), weight, np.ones(scales, np.float16))
    inputs, y = tuple(map(tensor, given)), tensor(np.zeros((m, n), np.float16))
    (kernel,) = kernels_on(
        Task(load_profile("Ascend910B2"), "WeightQuantBatchMatmulV2", inputs, (y,))
    )
    assert isinstance(kernel, MultiScaleMatMul) == (blocks is not None)
    assert blocks in (None, kernel.block_dim)


def loads(kernel: Any, buffer: Any) -> list[bool]:
    """Of a buffer by the first core, and whether they went past L2."""
    groups = trace(kernel, load_profile(CHIP), numerics=False)
    every = (each for group in groups for each, _ in group.program.instructions())
    found = [each.transfer for each in every if each.transfer is not None]
    return [each.bypasses_l2 for each in found if each.buffer == buffer.number]


@pytest.mark.parametrize(("rows", "past"), [(1, True), (128, True), (129, False), (600, False)])
@pytest.mark.parametrize("kind", [np.float16, BFLOAT16], ids=["alone", "beside"])
def test_weights_that_one_row_of_blocks_loads_go_past_l2(rows: int, past: bool, kind: Any) -> None:
    a, b = tensor(np.zeros((rows, 2048), np.int8)), tensor(np.zeros((2048, 4096), np.int8))
    scale, y = tensor(positive(4096)), tensor(np.zeros((rows, 4096), kind))
    (kernel,) = kernels_on(Task(load_profile(CHIP), "QuantBatchMatmulV3", (a, b, scale), (y,)))
    assert set(loads(kernel, b.buffer)) == {past}
    assert not any(loads(kernel, a.buffer))
