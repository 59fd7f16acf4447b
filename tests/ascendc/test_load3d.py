"""Windows over feature maps: load3d's numbers, cost and limits, and products with what it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim.ascendc import Core, TBuf, TPosition, trace
from npusim.ascendc.windows import Padding, Window
from npusim.hardware import load_profile
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling
from npusim.library.unfolded import Unfolded
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError
from support.convolution import convolved, in_fractals, in_planes, in_slices, windows
from support.cubes import Cubes
from support.kernels import content, gm

if TYPE_CHECKING:
    from npusim.engine import CoreGroup

Array = np.ndarray[Any, Any]
A2 = "Ascend910B3"
FEW = settings(max_examples=40, deadline=None)


def unfolded(x: Array, window: Window, c0: int) -> Array:
    """What every position sees, element by element: columns are slices, taps, channels."""
    images, channels, high, wide = x.shape
    rows, columns = window.positions((high, wide))
    seen = np.zeros((rows * columns, channels // c0, *window.kernel, c0))
    for row in range(rows):
        for column in range(columns):
            for i in range(window.kernel[0]):
                for j in range(window.kernel[1]):
                    h = row * window.stride[0] + i * window.dilation[0] - window.padding.top
                    w = column * window.stride[1] + j * window.dilation[1] - window.padding.left
                    if 0 <= h < high and 0 <= w < wide:
                        seen[row * columns + column, :, i, j] = x[0, :, h, w].reshape(-1, c0)
    assert images == 1
    return seen.reshape(rows * columns, -1)


def loaded(x: Array, window: Window, shape: tuple[int, int], **place: Any) -> Array:
    """Part of the matrix, through L1 and L0A; ``rows`` are those of the plane that L1 gets."""
    source, found = gm(in_slices(x, 16)), []
    rows = place.pop("rows", slice(0, x.shape[2]))

    def body(core: Core) -> None:
        l1, l0 = TBuf("l1", TPosition.A1), TBuf("l0", TPosition.A2)
        core.pipe.init_buffer(l1, 1, 1 << 16)
        core.pipe.init_buffer(l0, 1, 1 << 16)
        part = source[0, :, rows]
        tile = l1.get(FLOAT16, *part.shape)
        core.load_l1(tile, part)
        piece = l0.get(FLOAT16, *shape)
        core.load3d(piece, tile, window, plane_rows=x.shape[2], first_row=rows.start, **place)
        found.append(piece.values(0).astype(np.float64))

    trace(Cubes(body, source), load_profile(A2), numerics=True)
    return found[0]


@FEW
@given(windows(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 2), st.data())
def test_load3d_sees_what_windows_see(
    window: Window, high: int, wide: int, slices: int, data: st.DataObject
) -> None:
    rows, columns = window.positions((high, wide))
    assume(rows and columns)
    x = np.random.default_rng(0).integers(-9, 9, (1, slices * 16, high, wide)).astype(np.float16)
    wanted = unfolded(x, window, 16)
    start = data.draw(st.integers(0, len(wanted) - 1)), data.draw(st.integers(0, slices - 1)) * 16
    shape = data.draw(st.integers(1, len(wanted) - start[0])), wanted.shape[1] - start[1]
    part = wanted[start[0] :, start[1] :][: shape[0], : shape[1]]
    np.testing.assert_array_equal(loaded(x, window, shape, start=start), part)


def test_load3d_takes_some_rows_of_a_plane() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (1, 16, 12, 5)).astype(np.float16)
    window = Window((3, 3), padding=Padding(1, 1, 1, 1))
    seen = loaded(x, window, (10, 144), start=(20, 0), rows=slice(3, 7))
    np.testing.assert_array_equal(seen, unfolded(x, window, 16)[20:30])


@pytest.mark.parametrize(
    ("window", "rows", "problem"),
    [
        (Window((1, 1), (64, 1)), slice(0, 9), "stride of up to 63, not"),
        (Window((256, 1)), slice(0, 9), "kernel of up to 255, not"),
        (Window((1, 1), padding=Padding(-1, 0, 0, 0)), slice(0, 9), "padding of up to 255, not"),
        (Window((3, 1)), slice(0, 2), "rows 0 to 3 of planes, and L1 has"),
    ],
)
def test_what_load3d_refuses(window: Window, rows: slice, problem: str) -> None:
    with pytest.raises(KernelError, match=problem):
        loaded(np.zeros((1, 16, 9, 9), np.float16), window, (1, 16), rows=rows)


def instructions(groups: tuple[CoreGroup, ...], name: str) -> list[float]:
    return [each.cycles for each, _ in groups[0].program.instructions() if each.name == name]


@pytest.mark.parametrize(
    ("stride", "lines"), [(1, 1), (2, 2), (4, 4), (8, 8), (9, 8)], ids=lambda each: f"{each}"
)
def test_load3d_costs_its_start_and_the_lines_of_l1_that_it_reads(stride: int, lines: int) -> None:
    """Every eighth block is in a line of its own; fractals take as long to write as without."""
    profile, source = load_profile(A2), gm(np.zeros((1, 1, 4, 80, 16), np.float16))
    window = Window((2, 2), stride=(1, stride))

    def body(core: Core) -> None:
        l1 = TBuf("l1", TPosition.A1)
        core.pipe.init_buffer(l1, 1, 1 << 16)
        tile = l1.get(FLOAT16, 1, 4, 80, 16)
        core.load_l1(tile, source[0])
        for place in (TPosition.A2, TPosition.B2):
            l0 = TBuf(f"{place}", place)
            core.pipe.init_buffer(l0, 1, 1 << 16)
            core.load3d(l0.get(FLOAT16, 17, 64), tile, window, plane_rows=4)

    groups = trace(Cubes(body, source), profile, numerics=False)
    nbytes, start, paths = 32 * 64 * 2, profile.cube.load3d.setup_cycles, profile.paths
    read = nbytes * lines / paths.l1_to_l0a.bytes_per_cycle
    into_b = nbytes / paths.l1_to_l0b.bytes_per_cycle
    assert instructions(groups, "img2col_cbuf_to_ca") == [start + read]
    assert instructions(groups, "img2col_cbuf_to_cb") == [start + max(read, into_b)]


@FEW
@given(
    windows(),
    st.tuples(st.integers(1, 3), st.integers(1, 11), st.integers(1, 7)),
    st.sampled_from([(16, 16, 16), (32, 16, 48), (48, 32, 16), (128, 32, 64)]),
    st.sampled_from([(False, False), (True, False), (False, True)]),
    st.booleans(),
)
def test_products_with_unfolded_images(
    window: Window,
    sizes: tuple[int, int, int],
    base: tuple[int, int, int],
    keep: tuple[bool, bool],
    reference: bool,
) -> None:
    """Blocks of rows within images, in a fast run and in one that takes no shortcut."""
    images, high, wide = sizes
    positions = window.positions((high, wide))
    assume(positions[0] and positions[1])
    random = np.random.default_rng(1)
    x = random.integers(-4, 5, (images, 32, high, wide)).astype(np.float16)
    weight = random.integers(-4, 5, (24, 32, *window.kernel)).astype(np.float16)
    source, taps = gm(in_slices(x, 16)), gm(in_fractals(weight, 16))
    target = gm(np.full((images, 4, *positions, 8), np.nan, np.float32), "y")
    number, deep = positions[0] * positions[1], 16 * window.taps

    def body(core: Core) -> None:
        a = Unfolded(source, window)
        tile = 2 * a.plane_rows(base[0]) * wide * 16 * 2
        tiling = MatmulTiling(*base, deep, *keep, 1, panels=1, a_bytes=tile)
        matmul = Matmul(core, tiling, FLOAT16, FLOAT, 2 * deep)
        b = GmMatrix(taps, (), 32 * 16, transposed=True, lanes=16)
        c = GmMatrix(target, (), number * 8, lanes=8, height=number, apart=4 * number * 8)
        matmul.run(Product(c, a, b, number, 32, 2 * deep, stack=images))

    trace(Cubes(body, source, taps), load_profile(A2), numerics=True, reference=reference)
    np.testing.assert_array_equal(in_planes(content(target), 24), convolved(x, weight, window))
