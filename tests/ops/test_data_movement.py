"""Copies between layouts: every element at its place, and time from shapes alone."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import ceil, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.ascendc import trace
from npusim.engine import Pipe
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import run_tasks
from npusim.validation.replay import simulate_task
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import KernelError
from npusim.values.tensors import TensorSpec
from support.physics import with_cores
from support.tasks import (
    BFLOAT16,
    CHIPS,
    assert_above_roofline,
    assert_tiling_changes_no_number,
    assert_time_needs_no_numbers,
    cycles,
    kernels,
    like,
    run,
)

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

KINDS = [np.float32, np.float16, np.int8, np.int64]
SIZES = st.sampled_from([1, 2, 3, 8, 16, 17, 40, 130])
SHAPES = st.lists(SIZES, min_size=1, max_size=4).filter(lambda shape: prod(shape) <= 30_000)


def numbers(*shape: int, kind: Any = np.float32, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 9).astype(kind)


def assert_moved(chip: str, op: str, inputs: list[Array], wants: list[Array], **said: Any) -> None:
    """The results are these, bit by bit, and take as long by their shapes as with numbers."""
    outputs = [like(want) for want in wants]
    for got, want in zip(run(chip, op, inputs, outputs, **said), wants, strict=True):
        np.testing.assert_array_equal(got, want)
    assert_time_needs_no_numbers(chip, op, inputs, outputs, **said)


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    shape=SHAPES,
    kind=st.sampled_from(KINDS),
    chip=st.sampled_from(CHIPS),
)
def test_axes_in_any_order(data: st.DataObject, shape: list[int], kind: Any, chip: str) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    x = numbers(*shape, kind=kind)
    want = np.ascontiguousarray(x.transpose(order))
    op = data.draw(st.sampled_from(["Transpose", "TransposeD", "TransposeNOD"]))
    assert_moved(chip, op, [x], [want], perm=list(order))


@pytest.mark.parametrize("chip", CHIPS)
def test_an_order_isnt_the_one_that_undoes_it(chip: str) -> None:
    """Where all axes are equally long, shapes don't tell them apart."""
    x = numbers(17, 17, 17)
    for order in ((1, 2, 0), (2, 0, 1)):
        want = np.ascontiguousarray(x.transpose(order))
        assert_moved(chip, "Transpose", [x], [want], perm=list(order))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(48, 48), (33, 35), (13, 17, 53), (5, 33, 33)])
def test_turned_tiles_fit_with_their_padding_where_one_core_does_all(
    chip: str, shape: tuple[int, ...]
) -> None:
    x = numbers(*shape)
    alone, backwards = with_cores(chip, 1), {"perm": [*range(x.ndim)][::-1]}
    (kernel,), _ = kernels(alone, "Transpose", [x], [like(x.T)], backwards)
    trace(kernel, alone, numerics=False)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("shape", "order"),
    [((300, 500), (1, 0)), ((2, 40, 12, 64), (0, 2, 1, 3)), ((64, 3, 50), (1, 2, 0))],
)
def test_the_order_follows_from_shapes_where_it_isnt_recorded(
    chip: str, shape: Shape, order: Shape
) -> None:
    for kind in (np.float16, np.float32):
        x = numbers(*shape, kind=kind)
        assert_moved(chip, "Transpose", [x], [np.ascontiguousarray(x.transpose(order))])


def test_planes_are_dealt_out_to_all_cores_one_more_to_some() -> None:
    """Five to three cores are two, two and one; as compiled for one shape on the first one."""
    profile = with_cores("Ascend910B", 3)
    x = np.arange(5 * 4000 * 9, dtype=np.float32).reshape(5, 4000, 9)
    want = np.ascontiguousarray(x.transpose(0, 2, 1))
    (kernel,), _ = kernels(profile, "Transpose", [x], [want], {"perm": [0, 2, 1]})
    kinds = [kernel.block_kind(block) for block in range(kernel.block_dim)]
    assert kernel.block_dim == 3
    assert kinds[0] == kinds[1] != kinds[2]
    (got,) = run(profile, "Transpose", [x], [np.zeros_like(want)], perm=[0, 2, 1])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("chip", CHIPS)
def test_heads_put_together_in_fractals(chip: str) -> None:
    """ConfusionTransposeD: matrices of heads next to each other, all in FRACTAL_NZ."""
    x = numbers(2, 3, 4, 5, 16, 16, kind=np.float16)
    want = np.ascontiguousarray(x.transpose(1, 2, 0, 3, 4, 5)).reshape(12, 10, 16, 16)
    assert_moved(chip, "ConfusionTransposeD", [x], [want])
    assert_moved(chip, "ConfusionTransposeD", [want], [x])


def test_transpositions_of_any_shape_start_all_cores() -> None:
    """A row of 4 numbers has no work for most of them, which read where they begin all the same."""
    x, y = TensorSpec((4, 1024), "int32"), TensorSpec((1024, 4), "int32")
    (kernel,) = kernels_of(load_profile("Ascend910B1"), TaskSpec("Transpose", (x,), (y,)))
    assert kernel.block_dim == 48


@pytest.mark.parametrize(("rows", "blocks"), [(32, 8), (64, 16), (128, 30), (512, 30), (7, 2)])
def test_columns_are_repeated_in_whole_blocks_by_all_cores(rows: int, blocks: int) -> None:
    """Recorded launches of the first generation: the last of them may have nothing to do."""
    x, y = TensorSpec((rows, 1), "float32"), TensorSpec((rows, 2), "float32")
    (kernel,) = kernels_of(load_profile("Ascend910B"), TaskSpec("Tile", (x,), (y,)))
    assert kernel.block_dim == blocks
    data = numbers(rows, 1)
    (got,) = run("Ascend910B", "Tile", [data], [np.zeros((rows, 2), np.float32)])
    np.testing.assert_array_equal(got, np.tile(data, (1, 2)))


@pytest.mark.parametrize(("batch", "blocks"), [(32, (48, 32)), (64, (96, 64)), (512, (768, 512))])
def test_heads_are_moved_by_a_block_for_each_tile(batch: int, blocks: tuple[int, int]) -> None:
    """Recorded block counts of the first generation."""
    heads = TensorSpec((batch, 12, 4, 8, 16, 16), "float16")
    rows = TensorSpec((48, 8 * batch, 16, 16), "float16")
    for pair, count in zip(((heads, rows), (rows, heads)), blocks, strict=True):
        task = TaskSpec("ConfusionTransposeD", pair[:1], pair[1:])
        (kernel,) = kernels_of(load_profile("Ascend910B"), task)
        assert kernel.block_dim == count


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(),
    shape=SHAPES,
    kind=st.sampled_from(KINDS),
    chip=st.sampled_from(CHIPS),
)
def test_parts_of_tensors(data: st.DataObject, shape: list[int], kind: Any, chip: str) -> None:
    steps = [data.draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in shape]
    begin = [data.draw(st.integers(0, size - 1)) for size in shape]
    counts = [
        data.draw(st.integers(1, (size - first - 1) // step + 1))
        for size, first, step in zip(shape, begin, steps, strict=True)
    ]
    cut = tuple(
        slice(first, first + (count - 1) * step + 1, step)
        for first, count, step in zip(begin, counts, steps, strict=True)
    )
    x = numbers(*shape, kind=kind)
    want = np.ascontiguousarray(x[cut])
    op = data.draw(st.sampled_from(["StridedSlice", "StridedSliceD"]))
    assert_moved(chip, op, [x], [want], begin=begin, strides=steps)
    if set(steps) == {1}:
        assert_moved(chip, "Slice", [x], [want], offsets=begin)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("widths", [(1, 130), (130, 1), (1, 1, 99), (3, 117)])
def test_rows_of_unlike_widths_are_joined_within_ub(chip: str, widths: tuple[int, ...]) -> None:
    parts = [numbers(128, width) for width in widths]
    assert_moved(chip, "ConcatD", parts, [np.concatenate(parts, 1)], axis=1)


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(),
    shape=SHAPES,
    widths=st.lists(SIZES, min_size=1, max_size=5),
    kind=st.sampled_from(KINDS),
    chip=st.sampled_from(CHIPS),
)
def test_joined_and_cut_along_an_axis(
    data: st.DataObject, shape: list[int], widths: list[int], kind: Any, chip: str
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    parts = [
        numbers(*shape[:axis], width, *shape[axis + 1 :], kind=kind, seed=place)
        for place, width in enumerate(widths)
    ]
    whole = np.concatenate(parts, axis)
    assert_moved(chip, data.draw(st.sampled_from(["ConcatD", "Concat"])), parts, [whole], axis=axis)
    assert_moved(chip, "SplitVD", [whole], parts, split_dim=axis)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
def test_stacked_along_a_new_axis_and_taken_apart(chip: str, axis: int, count: int) -> None:
    parts = [numbers(20, 35, seed=seed) for seed in range(count)]
    whole = np.stack(parts, axis)
    assert_moved(chip, "Pack", parts, [whole], axis=axis)
    assert_moved(chip, "Unpack", [whole], parts, axis=axis)


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(),
    shape=SHAPES,
    kind=st.sampled_from(KINDS[:3]),
    chip=st.sampled_from(CHIPS),
)
def test_zeros_around(data: st.DataObject, shape: list[int], kind: Any, chip: str) -> None:
    around = [data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in shape]
    x = numbers(*shape, kind=kind)
    want = np.pad(x, around)
    assert_moved(chip, "PadD", [x], [want], paddings=[list(each) for each in around])
    begin = [before for before, _ in around]
    assert_moved(chip, "StridedSliceGrad", [x], [want], begin=begin)


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize(
    ("rows", "widths"), [(3, (40960, 40960)), (64, (520, 1032)), (5, (1 << 16, 1 << 17))]
)
def test_parts_are_dealt_out(chip: str, rows: int, widths: tuple[int, ...]) -> None:
    parts = [numbers(rows, width, seed=width) for width in widths]
    whole = np.concatenate(parts, axis=1)
    said = {"split_dim": 1, "size_splits": list(widths), "num_split": len(widths)}
    assert_moved(chip, "SplitV", [whole], parts, **said)


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(("rows", "width", "count"), [(16, 4096, 2), (70, 208, 3), (333, 1024, 5)])
def test_equal_parts_are_taken_row_by_row(
    chip: str, kind: Any, rows: int, width: int, count: int
) -> None:
    parts = [numbers(rows, width, seed=seed, kind=kind) for seed in range(count)]
    whole = np.concatenate(parts, axis=1)
    said = {"split_dim": 1, "num_split": count}
    assert_moved(chip, "Split", [whole], parts, **said)
    (kernel,), _ = kernels(chip, "Split", [whole], parts, said)
    each = ceil(rows / load_profile(chip).cores.vector_cores)
    assert kernel.block_dim == ceil(rows / each)


@pytest.mark.parametrize(
    ("shape", "around"),
    [
        ((33, 1, 768), ((0, 0), (0, 127), (0, 0))),  # zeros and the run by themselves
        ((2, 3, 4096), ((0, 0), (9, 11), (0, 0))),
        ((70, 8, 768), ((0, 0), (5, 7), (0, 0))),  # in UB row by row
        ((40, 2, 16), ((0, 0), (2, 3), (0, 0))),  # a core's rows at once
        ((35, 64), ((0, 0), (32, 32))),
    ],
)
@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_zeros_around_whole_blocks(chip: str, kind: Any, shape: Any, around: Any) -> None:
    x = numbers(*shape, kind=kind)
    want = np.pad(x, around)
    begin = [before for before, _ in around]
    assert_moved(chip, "StridedSliceGrad", [x], [want], begin=begin)


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(),
    shape=SHAPES,
    kind=st.sampled_from(KINDS),
    chip=st.sampled_from(CHIPS),
)
def test_repeated(data: st.DataObject, shape: list[int], kind: Any, chip: str) -> None:
    kept = [size if data.draw(st.booleans()) else 1 for size in shape]
    small = numbers(*kept, kind=kind)
    wide = np.ascontiguousarray(np.broadcast_to(small, shape))
    assert_moved(chip, "BroadcastTo", [small], [wide])
    times = [data.draw(st.sampled_from([1, 1, 2, 3])) for _ in kept]
    assert_moved(
        chip, data.draw(st.sampled_from(["Tile", "TileD"])), [small], [np.tile(small, times)]
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_bfloat16_is_moved_as_it_is(chip: str) -> None:
    x = numbers(40, 50, kind=BFLOAT16)
    assert_moved(chip, "Transpose", [x], [np.ascontiguousarray(x.T)])
    assert_moved(chip, "ConcatD", [x, x], [np.concatenate([x, x])])


def test_a_number_without_axes_is_its_own_reverse() -> None:
    done = Device("Ascend910B3").run("ReverseV2", x=np.array(2.5, np.float32), axis=[0])
    assert (done.outputs or {})["y"] == 2.5


def test_float32_leaves_blocks_turned_once_where_vnchwconv_takes_it() -> None:
    """Its way back is spaced in the vendor's kernel, and so is every way on chips without."""
    plain, blocks = np.zeros((1, 40, 64, 64), np.float32), np.zeros((1, 3, 64, 64, 16), np.float32)
    half = [each.astype(np.float16) for each in (blocks, plain)]
    for chip, most in (("Ascend310P3", 3.0), ("Ascend910A", None)):
        ratio = cycles(chip, "TransData", [blocks], [plain]) / cycles(
            chip, "TransData", half[:1], half[1:]
        )
        assert ratio > 4 if most is None else ratio < most


@pytest.mark.parametrize(("side", "passes"), [(5, 2), (6, 2), (13, 1), (27, 1), (16, 1)])
def test_long_ragged_planes_leave_their_lines_one_by_one(side: int, passes: int) -> None:
    """Short ones are taken together by a second pass of vnchwconv, and stored in one piece."""
    blocks = TensorSpec((32, 16, side, side, 16), "float32")
    task = TaskSpec("TransData", (blocks,), (TensorSpec((32, 256, side, side), "float32"),), {})
    run = simulate_task(load_profile("Ascend910B2"), task, "cold").runs[0]
    done = run.records[0].program.instructions()
    turned = sum(times for each, times in done if each.name == "vnchwconv")
    stores = [(each, times) for each, times in done if each.pipe is Pipe.MTE3 and each.transfer]
    assert turned == passes * sum(times for _, times in stores)
    ragged = side * side * 4 % 32 > 0
    assert all(" 1x" in each.detail for each, _ in stores) == (passes == 2 or not ragged)


def test_ragged_rows_of_any_widths_are_put_together_turned() -> None:
    """What a transfer for each row would take doesn't count, the bits are the same."""
    chip = load_profile("Ascend310P3")
    plain = {"turns_ragged_rows": False}
    row_by_row = chip.model_copy(update={"software": chip.software.model_copy(update=plain)})
    for widths, kind in (((1, 1, 1), np.float16), ((2, 2, 81), np.float32), ((7, 16), np.int32)):
        parts = [numbers(2, 517, width, kind=kind) for width in widths]
        whole = np.concatenate(parts, 2)
        assert_moved("Ascend310P3", "ConcatD", parts, [whole], concat_dim=2)
        if max(widths) < 64:
            turned, loaded = (
                cycles(each, "ConcatD", parts, [whole], concat_dim=2) for each in (chip, row_by_row)
            )
            assert turned < 0.6 * loaded


def test_tiling_changes_no_number() -> None:
    x = numbers(60, 7, 90)
    for chip in CHIPS:
        for order in ((2, 0, 1), (1, 0, 2), (2, 1, 0)):
            want = np.ascontiguousarray(x.transpose(order))
            assert_tiling_changes_no_number(chip, "Transpose", [x], [want], perm=list(order))
        whole = np.concatenate([x, x], 1)
        assert_tiling_changes_no_number(chip, "ConcatD", [x, x], [whole], axis=1)
        cut = np.ascontiguousarray(x[:, 1:5])
        assert_tiling_changes_no_number(chip, "Slice", [x], [cut], offsets=[0, 1, 0])


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "said", "reason"),
    [
        ("Transpose", [(4, 5)], [(4, 6)], {}, "doesn't become"),
        ("Transpose", [(4, 5)], [(5, 4)], {"perm": [0, 0]}, "no permutation"),
        ("Slice", [(4, 5)], [(4, 6)], {}, "no part of"),
        ("Slice", [(4, 5)], [(4, 4)], {"offsets": [0, 2]}, "is no slice"),
        ("StridedSlice", [(9,)], [(5,)], {"strides": [3]}, "is no slice"),
        ("ConcatD", [(4, 5), (4, 6)], [(4, 12)], {}, "don't make up"),
        ("SplitVD", [(4, 5)], [(4, 3), (4, 3)], {}, "don't make up"),
        ("Pack", [], [(4, 5)], {}, "nothing to stack"),
        ("PadD", [(4, 5)], [(4, 6)], {"paddings": [[0, 0], [2, 0]]}, "don't fit into"),
        ("BroadcastTo", [(4, 5)], [(6, 5)], {}, "doesn't become"),
        ("TileD", [(4, 5)], [(4, 12)], {}, "doesn't become"),
    ],
)
def test_what_isnt_a_copy_is_refused(
    op: str, inputs: list[Shape], outputs: list[Shape], said: dict[str, Any], reason: str
) -> None:
    arrays = [[np.zeros(shape, np.float32) for shape in side] for side in (inputs, outputs)]
    for chip in CHIPS:
        with pytest.raises(KernelError, match=reason):
            kernels(chip, op, arrays[0], arrays[1], said)


# -- physics ---------------------------------------------------------------------------------------


def growing(op: str) -> list[tuple[list[Array], Array, dict[str, Any]]]:
    """Calls of an operator on more and more elements."""
    calls: list[tuple[list[Array], Array, dict[str, Any]]] = []
    for rows in (16, 512, 8192):
        x = np.zeros((rows, 384), np.float32)
        if op == "Transpose":
            calls.append(([x], np.zeros((384, rows), np.float32), {}))
        elif op == "ConcatD":
            calls.append(([x, x], np.zeros((rows, 768), np.float32), {"axis": 1}))
        elif op == "Slice":
            calls.append(([np.zeros((rows, 500), np.float32)], x, {}))
        elif op == "BroadcastTo":
            calls.append(([x[:, :1]], x, {}))
        else:
            calls.append(([x], np.zeros((rows, 400), np.float32), {}))
    return calls


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("op", ["Transpose", "ConcatD", "Slice", "BroadcastTo", "PadD"])
def test_more_elements_take_longer_and_nothing_beats_the_roofline(chip: str, op: str) -> None:
    times = []
    for inputs, out, said in growing(op):
        profile = load_profile(chip)
        tasks, _ = kernels(profile, op, inputs, [out], said)
        times.append(run_tasks(tasks, profile).duration_us)
        if op != "Slice":  # of a tensor that is cut only a part is read
            assert_above_roofline(chip, op, inputs, [out], **said)
    assert times == sorted(times)


@pytest.mark.parametrize("chip", CHIPS)
def test_turning_long_rows_is_cheaper_than_turning_single_elements(chip: str) -> None:
    """The same bytes as rows that stay together, and as elements that all part, out of L2."""
    runs, flat = TensorSpec((64, 128, 512), "float16"), TensorSpec((2048, 2048), "float16")
    moved = TensorSpec((128, 64, 512), "float16")
    together, apart = (
        simulate_task(
            load_profile(chip), TaskSpec("Transpose", (given,), (taken,), {"perm": order}), "warm"
        ).duration_us
        for given, taken, order in ((runs, moved, [1, 0, 2]), (flat, flat, [1, 0]))
    )
    assert together < apart


@pytest.mark.parametrize("chip", CHIPS)
def test_work_in_many_places_is_spread_over_cores(chip: str) -> None:
    x = np.zeros((512, 2048), np.float32)
    (kernel,), _ = kernels(chip, "Transpose", [x], [x.reshape(2048, 512)], {"perm": [1, 0]})
    assert kernel.block_dim > 4
    assert prod(x.shape) == sum(each.numel for each in kernel.writes)


def test_longer_runs_are_never_slower() -> None:
    times = []
    for width in (8, 64, 1024):
        x = np.zeros((2**20 // width, 2, width), np.float32)
        out = np.zeros((2, 2**20 // width, width), np.float32)
        times.append(cycles("Ascend910B3", "Transpose", [x], [out], perm=[1, 0, 2]))
    assert all(short >= long for short, long in pairwise(times))


# Numbers of 16 bits that lie side by side are turned 16 x 16 at a time; spread, so that each has a
# line of its own, 16 at a time. Bursts are whole lines of 32 bytes.
BESIDE, SPREAD, LINE = 16 * 16, 16, 32
CELLS = 64 * 48


@pytest.mark.parametrize(
    ("chip", "op", "shapes", "kind", "said", "turned", "bursts", "elements"),
    [
        pytest.param(
            "Ascend910A", "StridedSlice", [(256, 4), (256, 2)], np.float16, {"begin": [0, 1]},
            256 * 4 // SPREAD + 256 * 2 // SPREAD, (256, 256 * 2 * LINE), 0,
            id="rows spread, cut, and put together again",
        ),
        pytest.param(
            "Ascend910A", "ConcatD", [(256, 2), (256, 2), (256, 4)], np.float16, {"concat_dim": 1},
            2 * 256 * 4 // BESIDE, (0, 0), 0, id="parts into lines, and lines back",
        ),
        pytest.param(
            "Ascend910A", "Split", [(128, 5), (128, 3), (128, 2)], np.float32, {"split_dim": 1},
            0, (0, 0), 128 * 5, id="parts of rows one by one",
        ),
        pytest.param(
            "Ascend910B3", "Transpose", [(64, 48), (48, 64)], np.float16, {"perm": [1, 0]},
            CELLS // BESIDE, (0, 0), 0, id="halves turned once",
        ),
        pytest.param(
            "Ascend910B3", "Transpose", [(64, 48), (48, 64)], np.float32, {"perm": [1, 0]},
            2 * 2 * CELLS // BESIDE, (CELLS * 4 // (2 * LINE), CELLS * 4), 0,
            id="both halves of numbers turned, brought together, turned",
        ),
        pytest.param(
            "Ascend910A", "Transpose", [(64, 48), (48, 64)], np.float32, {"perm": [1, 0]},
            2 * 2 * CELLS // SPREAD, (CELLS, 2 * CELLS * LINE), 0,
            id="both halves of numbers spread, brought together, put together",
        ),
        pytest.param(
            "Ascend910B3", "Transpose", [(64, 48), (48, 64)], np.int8, {"perm": [1, 0]},
            0, (0, 0), CELLS, id="bytes one by one",
        ),
        pytest.param(
            "Ascend910B3", "TransData", [(2, 16, 8, 8), (2, 1, 8, 8, 16)], np.float16, {},
            2 * 16 * 64 // BESIDE, (0, 0), 0, id="long planes turned once",
        ),
        pytest.param(
            "Ascend910A", "TransData", [(2, 20, 3, 5), (2, 2, 3, 5, 16)], np.float16, {},
            32 * 16 // SPREAD + 32 * 15 // SPREAD, (32 * 15, 32 * 15 * LINE), 0,
            id="16 images side by side, a burst for every channel and place",
        ),
        pytest.param(
            "Ascend910B3", "TransData", [(32, 20), (2, 2, 16, 16)], np.float16, {},
            2 * 32 * 32 // BESIDE, (0, 0), 0, id="slices of rows apart: turned, and back",
        ),
        pytest.param(
            "Ascend910B3", "ResizeNearestNeighborV2", [(1, 1, 2, 3, 16), (1, 1, 4, 6, 16)],
            np.float16, {}, 0, (2 * 6 + 2, 2 * (6 + 6) * LINE), 0, id="pixels, then rows, repeated",
        ),
        pytest.param(
            "Ascend910B3", "ResizeNearestNeighborV2", [(1, 1, 2, 3), (1, 1, 4, 6)], np.float16, {},
            0, (0, 0), 4 * 6, id="pixels one by one",
        ),
    ],
)  # fmt: skip
def test_what_moves_in_ub_is_counted(
    chip: str,
    op: str,
    shapes: list[Shape],
    kind: Any,
    said: dict[str, Any],
    turned: int,
    bursts: tuple[int, int],
    elements: int,
) -> None:
    """Repeats of vnchwconv, bursts and their bytes, and what the scalar unit moves, on one core."""
    arrays = [np.zeros(shape, kind) for shape in shapes]
    given = 2 if op == "ConcatD" else 1
    profile = with_cores(chip, 1)
    (kernel,), _ = kernels(profile, op, arrays[:given], arrays[given:], said)
    (group,) = trace(kernel, profile, numerics=False)
    found: Counter[str] = Counter()
    for each, times in group.program.instructions():
        counts = [int(text) for text in re.findall(r"\d+", each.detail)]
        if each.name == "vnchwconv":
            found["turned"] += times * counts[0]
        elif each.name == "copy_ubuf_to_ubuf":
            found["bursts"] += times * counts[0]
            found["bytes"] += times * prod(counts)
        elif each.name == "ld_st_ub":
            found["elements"] += times * counts[-1]
    wanted = {"turned": turned, "bursts": bursts[0], "bytes": bursts[1], "elements": elements}
    assert found == Counter({name: count for name, count in wanted.items() if count})


@pytest.mark.parametrize(
    ("rows", "widths", "kind", "blocks"),
    [
        (8, (2048, 256, 256), np.float16, 1),  # parts of whole blocks
        (100, (2048, 256, 256), np.float16, 7),
        (1024, (2048, 256, 256), np.float16, 47),
        (8, (50_000, 50_000), np.float16, 9),
        (3, (16, 24, 24, 16, 24, 24), np.float16, 1),  # ragged ones
        (4096, (7, 9), np.float16, 16),
        (999, (37, 101), np.float16, 48),
        (13, (37, 37, 37), np.float32, 1),
        (13, (370, 370), np.float32, 39),
        (1, (5,), np.float32, 1),
    ],
)
def test_splits_for_all_shapes_are_dealt_out_as_their_tiling_does(
    rows: int, widths: tuple[int, ...], kind: Any, blocks: int
) -> None:
    whole = np.zeros((rows, sum(widths)), kind)
    parts = [np.zeros((rows, width), kind) for width in widths]
    (kernel,), _ = kernels("Ascend910B2", "SplitVD", [whole], parts, {"split_dim": 1})
    assert kernel.block_dim == blocks


@pytest.mark.parametrize(
    ("rows", "widths"),
    [(1, (6144, 2048)), (3, (65_536, 40_960)), (700, (256, 64, 448)), (40, (50_000, 50_000))],
)
def test_parts_of_whole_blocks_leave_before_the_next_tile_is_loaded(
    rows: int, widths: tuple[int, ...]
) -> None:
    """Tiles of all of UB, cut by columns where few rows fit."""
    whole = numbers(rows, sum(widths), kind=np.float16)
    parts = [np.array(part) for part in np.split(whole, np.cumsum(widths)[:-1], axis=1)]
    assert_moved("Ascend910B2", "SplitVD", [whole], parts, split_dim=1)
    (kernel,), _ = kernels("Ascend910B2", "SplitVD", [whole], parts, {"split_dim": 1})
    profile = load_profile("Ascend910B2")
    pipes = run_tasks((kernel,), profile).tasks[0].pipes
    assert pipes["MTE2"] + pipes["MTE3"] <= 1


def test_planes_that_are_no_whole_blocks_are_stored_together() -> None:
    """Source: TransData of 32 x 256 planes of 6 x 6 takes 14.5 us in a training step on 910B2."""
    found = []
    for size in ((6, 6), (8, 5)):
        packed = np.zeros((32, 16, *size, 16), np.float32)
        planes = np.zeros((32, 256, *size), np.float32)
        found.append(cycles("Ascend910B2", "TransData", [packed], [planes]) / planes.size)
    assert found[0] < 2.5 * found[1]


def test_small_parts_of_a_row_come_one_behind_the_other_without_a_wait_for_stores() -> None:
    """Each has a buffer of its own: one part more is less than a load and a store more."""

    def taken(parts: int) -> float:
        row = TensorSpec((1, 1, 256 * parts), FLOAT16)
        pieces = (TensorSpec((1, 1, 256), FLOAT16),) * parts
        task = TaskSpec("SplitVD", (row,), pieces, {})
        profile = load_profile("Ascend910B2")
        return run_tasks(kernels_of(profile, task), profile).duration_us

    assert taken(6) - taken(2) < 4 * 0.1


@pytest.mark.parametrize(("kind", "on_cores"), [("fp16", True), ("bf16", False), ("int8", False)])
def test_few_dtypes_are_turned_about_by_ai_cores(kind: str, on_cores: bool) -> None:
    call = {"self": f"{kind}[18,7,128]", "dims": [0]}
    result = Device("Ascend910B2").estimate("aclnnFlip", **call)
    assert (result.bound != "AI CPU") == on_cores
    assert (result.duration_us < 20) == on_cores


@pytest.mark.parametrize(
    ("side", "forward", "loads"), [(6, True, 1), (6, False, 1), (13, False, 2)]
)
def test_whole_images_move_at_once_where_there_is_room(
    side: int, forward: bool, loads: int
) -> None:
    """Source: MTE2 takes 0.45 us for 36 KiB of a core in a training step on 910B2 (TransData)."""
    profile = load_profile("Ascend910B2")
    planes = TensorSpec((32, 256, side, side), "float32")
    packed = TensorSpec((32, 32, side, side, 8), "float32")
    source, target = (planes, packed) if forward else (packed, planes)
    (kernel,) = kernels_of(profile, TaskSpec("TransData", (source,), (target,)))
    (group,) = trace(kernel, profile, numerics=False)
    listed = [(each, times) for each, times in group.program.instructions() if each.transfer]
    found = sum(times for each, times in listed if each.name == "copy_gm_to_ubuf")
    assert found == loads
    assert group.size == 32


@pytest.mark.parametrize(
    ("channels", "kept", "plane", "blocks"),
    [(80, 20, 8, 4), (80, 12, 8, 2), (128, 48, 8, 8), (48, 6, 17, 4), (16, 2, 35, 8)],
)
def test_slices_for_one_shape_take_equal_parts_of_the_rows(
    channels: int, kept: int, plane: int, blocks: int
) -> None:
    """Recorded block counts of the first generation: the greatest divisor that fits into UB."""
    x = TensorSpec((16, channels, plane, plane, 16), "float16", "NC1HWC0")
    y = TensorSpec((16, kept, plane, plane, 16), "float16", "NC1HWC0")
    (kernel,) = kernels_of(load_profile("Ascend910B"), TaskSpec("Slice", (x,), (y,)))
    assert kernel.block_dim == blocks


@pytest.mark.parametrize(("length", "per_row"), [(64, 0), (80, 0), (72, 1)])
def test_the_scalar_unit_looks_up_rows_that_are_no_whole_blocks(length: int, per_row: int) -> None:
    """Also of rows that stay as they are: heads of 72 numbers are moved one by one."""
    x, y = (TensorSpec(shape, "float16") for shape in ((96, 16, length), (16, 96, length)))
    task = TaskSpec("Transpose", (x,), (y,), {"perm": [1, 0, 2]})
    profile = load_profile("Ascend910B2")
    (kernel,) = kernels_of(profile, task)
    groups = trace(kernel, profile, numerics=False)
    found = sum(
        group.size * times
        for group in groups
        for each, times in group.program.instructions()
        if each.name == "address"
    )
    assert (found > 0) == bool(per_row)
