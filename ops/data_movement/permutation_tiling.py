"""How the vendor's Transpose for any shape cuts matrices that it turns: tiles, and whose they are.

Axes that end the source are columns, those that end the target rows, all others planes. Each of the
three is split over cores by itself, so that some may have nothing to do, and a core goes through
its part in tiles of at most 128 rows. Source: public host tiling (op_tiling/transpose.cc, scenarios
7 and 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.costs import TURNED_LINES
from npusim.ops.data_movement.turned import TurnedTile
from npusim.schedules.split_grid import Group, SplitGrid
from npusim.schedules.tile_grid import Part, parts_of
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.hardware.profile import Profile
    from npusim.schedules.tile_grid import Box

    Axes = tuple[int, ...]

_ROWS = 128  # of a tile
_COLUMN_BYTES = 512  # of a tile
RESERVED_BYTES = 4096  # of UB, where the kernel keeps what it is told
_NUMBERS = 117  # of tiling data that are read before the first tile
_NUMBERS_OF_SQUARES = 62


class Matrix(NamedTuple):
    """Which axes of a box are planes, columns and rows, innermost first, and of how many elements.

    Columns end the source, rows the target.
    """

    planes: Axes
    columns: Axes
    rows: Axes
    sizes: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TurnedGrid:
    """The tiles of a permutation: how they lie on both sides, and which core has which."""

    tile: TurnedTile
    grid: SplitGrid
    numbers: int  # of tiling data that are read for it


@dataclass(frozen=True, slots=True)
class _Worth:
    """From how many columns and rows on tiles are worth it, by the size of an element."""

    planes: int  # where planes alone are split
    few: int  # where there are fewer planes than cores
    thin: int  # fewer than so many go another way, beside ``long``
    long: int


_SPLIT = 64  # columns and rows of every core, where one of the three alone is split
_WORTH = {2: _Worth(32, 48, 64, 256), 4: _Worth(24, 24, 32, 128)}
_WIDE = 16  # of elements of 8 bytes
_THIN = 4


def turned_grid(profile: Profile, box: Box, itemsize: int) -> TurnedGrid | None:
    """The tiles of a permutation of ``box``, None where the kernel takes another way."""
    sizes, cores = box.sizes, profile.cores.vector_cores
    block = profile.buffers.block_bytes // itemsize
    if len(sizes) == 2 and itemsize <= max(_WORTH) and not any(size % block for size in sizes):
        return _in_squares(profile, box, itemsize)
    found: tuple[int, tuple[int, int, int], Matrix] | None = None
    for matrix in _matrices(box) if itemsize > 1 else ():
        split = _split(matrix, itemsize, cores)
        if split is not None and (found is None or split[0] < found[0]):
            found = (*split, matrix)
    if found is None:
        return None
    way, factors, matrix = found
    if way == _THIN or len(matrix.columns) > 1 or len(matrix.rows) > 1:
        return None  # along several axes, tiles go on behind the end of one
    columns = _cut(box, matrix.columns[0], factors[1], _COLUMN_BYTES // itemsize, block)
    rows = _cut(box, matrix.rows[0], factors[2], _ROWS, block)
    if columns is None or rows is None:
        return None
    return _grid(box, matrix, factors[0], (columns, rows), _NUMBERS)


def _matrices(box: Box) -> Iterator[Matrix]:
    """All ways of seeing a box as planes, columns and rows, the most columns first."""
    axes = range(len(box.sizes))
    in_source = sorted(axes, key=lambda axis: -box.src.steps[axis])
    for first in range(1, len(in_source)):
        columns = in_source[: first - 1 : -1]
        rows = tuple(reversed(range(max(columns) + 1, len(axes))))
        if rows:
            planes = tuple(each for each in reversed(axes) if each not in (*columns, *rows))
            parts = (planes, tuple(columns), rows)
            found = tuple(prod(box.sizes[axis] for axis in part) for part in parts)
            yield Matrix(*parts, (found[0], found[1], found[2]))


def _split(matrix: Matrix, itemsize: int, cores: int) -> tuple[int, tuple[int, int, int]] | None:
    """How good a way of splitting planes, columns and rows is (the less the better), and the way.

    None where it isn't worth it. Matrices of few columns or rows aren't split like that.
    """
    planes, columns, rows = matrix.sizes
    if itemsize not in _WORTH:
        wide = columns >= _WIDE and rows >= _WIDE * cores
        return (2, (1, 1, cores)) if wide else None
    if planes >= cores and min(columns, rows) >= _SPLIT:
        return 1, (cores, 1, 1)
    if columns >= _SPLIT and rows >= _SPLIT * cores:
        return 2, (1, 1, cores)
    if columns >= _SPLIT * cores and rows >= _SPLIT:
        return 3, (1, cores, 1)
    worth = _WORTH[itemsize]
    for axes, long, thin in ((matrix.columns, columns, rows), (matrix.rows, rows, columns)):
        if len(axes) == 1 and long >= worth.long and thin < worth.thin:
            return _THIN, (1, 1, 1)
    if planes >= cores:
        return (6, (cores, 1, 1)) if min(columns, rows) >= worth.planes else None
    if min(columns, rows) < worth.few:
        return None
    apart = cores // planes
    return 6, ((planes, apart, 1) if columns > rows else (planes, 1, apart))


def _cut(box: Box, axis: int, cores: int, most: int, block: int) -> Group | None:
    """The parts of ``cores`` cores along an axis, in tiles of at most ``most`` elements.

    Each gets as many whole blocks as fill the fewest of them, the last one the rest, and a block of
    those before it where there is none. None where a part doesn't come to a block.
    """
    size = box.sizes[axis]
    each = round_up(ceil(size / cores), block)
    lengths = [*(each for _ in range(cores - 1)), size - (cores - 1) * each]
    for place in reversed(range(cores - 1)):
        if lengths[-1] < block <= lengths[place]:
            lengths[-1] += block
            lengths[place] -= block
    places, start = [], 0
    for length in lengths:
        if 0 < length < block or length < 0:
            return None
        places.append((_in_blocks(start, length, most, block),))
        start += length
    return Group((axis,), tuple(places))


def _in_blocks(start: int, length: int, most: int, block: int) -> tuple[Part, ...]:
    """Tiles of whole blocks; the last one begins early where the length isn't whole blocks."""
    extent = min(most, length // block * block)
    if not extent:
        return ()
    full, rest = divmod(length, extent)
    parts = (Part(start, full, extent),)
    rest = round_up(rest, block)
    return (*parts, Part(start + length - rest, 1, rest)) if rest else parts


def _in_squares(profile: Profile, box: Box, itemsize: int) -> TurnedGrid:
    """A matrix of whole blocks: columns and rows go to cores as they are to each other.

    A tile is as wide as half of UB has room for 128 rows, of at least 4 bytes an element, in whole
    steps of vnchwconv; what is left over goes to the last core that has some.
    """
    half = (profile.buffers.ub_bytes - RESERVED_BYTES) // 2
    most = (
        half // (_ROWS * max(_WORTH)) // TURNED_LINES * TURNED_LINES * (2 if itemsize == 1 else 1)
    )
    tiles = [min(size, limit) for size, limit in zip(box.sizes, (most, _ROWS), strict=True)]
    counts = [size // tile for size, tile in zip(box.sizes, tiles, strict=True)]
    wanted = counts[0] / counts[1]
    groups = [
        _in_turn(axis, box.sizes[axis], tiles[axis], places)
        for axis, places in enumerate(_factors(profile.cores.vector_cores, wanted))
    ]
    return _grid(
        box, Matrix((), (0,), (1,), (1, box.sizes[0], box.sizes[1])), 1, groups, _NUMBERS_OF_SQUARES
    )


def _in_turn(axis: int, size: int, tile: int, cores: int) -> Group:
    """Whole tiles dealt out evenly, what is left over of them to the last core that has some."""
    each, more = divmod(size // tile, cores)
    having = [each + (place < more) for place in range(cores)]
    last = sum(count > 0 for count in having) - 1
    places, start = [], 0
    for place, count in enumerate(having):
        length = size - start if place == last else count * tile
        places.append((parts_of(start, length, tile),))
        start += length
    return Group((axis,), tuple(places))


def _factors(cores: int, wanted: float) -> tuple[int, int]:
    """Cores along columns and along rows, as near to what is ``wanted`` of one to the other."""
    pairs = [(each, cores // each) for each in (*range(1, cores // 2 + 1), cores)]
    return min(pairs, key=lambda pair: abs(pair[0] / pair[1] - wanted))


def _grid(
    box: Box, matrix: Matrix, cores: int, groups: Sequence[Group], numbers: int
) -> TurnedGrid:
    extent = [1] * len(box.sizes)
    for (axis,), places in groups:
        extent[axis] = max(part.extent for (parts,) in places for part in parts)
    tile = TurnedTile(tuple(extent), matrix.columns, matrix.rows)
    split = (matrix.planes, tuple(groups))
    return TurnedGrid(tile, SplitGrid.of(box.sizes, tile.extent, cores, *split), numbers)
