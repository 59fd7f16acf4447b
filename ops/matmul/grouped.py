"""Products of groups: rows of x with the matrix of their group, in one task.

Blocks of C of all groups are dealt out to the cores one after the other, so that the last blocks of
a group run beside the first of the next; here the largest come first, which leaves few kinds of
cores and each with as much to do. Source: ops-transformer gmm/grouped_matmul, host tiling
and device schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task, made
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32, INT64, DType
from npusim.values.formats import Format

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_BASE_M, _BASE_N = 128, 256  # rows and columns of a block of C
_ROWS_SPLIT, _SUMS_SPLIT = 0, 2  # group_type: groups of rows, or of what is summed up
_COUNTS = 1  # group_list_type: rows of each group, not where each ends


class Size(NamedTuple):
    """What blocks that are worked on in one loop have in common."""

    rows: int
    columns: int
    k: int


class _Place(NamedTuple):
    """A block: its group, and where it begins in the rows, the columns and the sums."""

    group: int
    row: int
    column: int
    first_k: int


@dataclass(frozen=True, slots=True)
class Groups:
    """``lengths`` of the groups along m, or along k where ``of_sums``."""

    lengths: tuple[int, ...]
    m: int
    n: int
    k: int
    of_sums: bool = False

    def blocks(self, base_m: int, base_n: int) -> Iterator[tuple[Size, _Place]]:
        """All blocks of C, group after group, row after row."""
        start = 0
        for group, length in enumerate(self.lengths):
            m, k = (self.m, length) if self.of_sums else (length, self.k)
            for row in range(0, m, base_m):
                for column in range(0, self.n, base_n):
                    size = Size(min(base_m, m - row), min(base_n, self.n - column), k)
                    rows = row if self.of_sums else start + row
                    yield size, _Place(group, rows, column, start if self.of_sums else 0)
            start += length


class GroupedMatMul(Kernel):
    """y of every group's rows = x @ weight[group] + bias[group].

    Groups of sums have a result each: y[group] = x[:, part] @ weight[part].
    """

    op_type: str = "GroupedMatmul"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        weight: GlobalTensor,
        bias: GlobalTensor | None,
        ends: GlobalTensor,
        y: GlobalTensor,
        groups: Groups,
        turned: tuple[bool, bool],
    ) -> None:
        self.x, self.weight, self.bias, self.y = x, weight, bias, y
        self.ends, self.groups, self.turned = ends, groups, turned
        self.lanes = weight.shape[-1] if weight.format is Format.FRACTAL_NZ else 0
        rows = (bias,) if bias is not None else ()
        self.reads, self.writes = (x, weight, *rows, ends), (y,)
        longest = max(1, groups.m if groups.of_sums else max(groups.lengths))
        self.k = max(groups.lengths) if groups.of_sums else groups.k
        grain = grain_of(profile, x.dtype)
        base = min(_BASE_M, round_up(longest, grain)), min(_BASE_N, round_up(groups.n, grain))
        spare = 0 if bias is None else base[1] * bias.dtype.itemsize
        self.tiling = MatmulTiling.of_blocks(profile, x.dtype, base, base[0], self.k, spare)
        blocks = sorted(groups.blocks(*base), key=lambda each: each[0], reverse=True)
        self.block_dim = max(1, min(profile.cores.cube_cores, len(blocks)))
        self._dealt = [_by_size(blocks[core :: self.block_dim]) for core in range(self.block_dim)]

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple((size, len(places)) for size, places in self.blocks_of(block_idx).items())

    def blocks_of(self, block_idx: int) -> dict[Size, list[_Place]]:
        """Those of a core; fewer blocks than cores leave some without."""
        return self._dealt[block_idx] if block_idx < len(self._dealt) else {}

    def process(self, core: Core) -> None:
        """Blocks of one size after the other."""
        matmul = Matmul(
            core,
            self.tiling,
            self.x.dtype,
            self.y.dtype,
            self.k,
            bias=None if self.bias is None else self.bias.dtype,
        )
        for group in core.loop(len(self.groups.lengths)):
            core.load_scalar(self.ends.span(group, 1))
            core.scalar_alu("groups")
        for size, places in self.blocks_of(core.get_block_idx()).items():
            table = np.array(places, np.int64)
            for turn in core.loop(len(places)):
                found = [looked_up(turn, table[:, axis]) for axis in range(table.shape[1])]
                matmul.run(self.product(size, *found))

    def product(
        self, size: Size, group: Index, row: Index, column: Index, first_k: Index
    ) -> Product:
        groups = self.groups
        m, n, k, sums = groups.m, groups.n, groups.k, groups.of_sums
        turned_a, _turned_b = self.turned
        a_step = m if turned_a else k
        of_a = ((row, 1), (first_k, m)) if turned_a else ((row, k), (first_k, 1))
        result = ((group, m * n),) if sums else ()
        bias = None
        if self.bias is not None:
            bias = GmMatrix(self.bias, ((group, n), (column, 1)), 0)
        return Product(
            GmMatrix(self.y, (*result, (row, n), (column, 1)), n),
            GmMatrix(self.x, of_a, a_step, turned_a),
            self._matrix(group, column, first_k),
            size.rows,
            size.columns,
            size.k,
            bias,
        )

    def _matrix(self, group: Index, column: Index, first_k: Index) -> GmMatrix:
        """The matrix of a group from a column and an element of k on, as it lies or in fractals."""
        k, n, turned = self.groups.k, self.groups.n, self.turned[1]
        if self.lanes:
            high = self.weight.shape[-3] * self.weight.shape[-2]
            places = ((group, self.weight.numel // self.weight.shape[0]), (column, high))
            return GmMatrix(
                self.weight, (*places, (first_k, self.lanes)), high * self.lanes, lanes=self.lanes
            )
        by_group = () if self.groups.of_sums else ((group, k * n),)
        places = ((column, k), (first_k, 1)) if turned else ((column, 1), (first_k, n))
        return GmMatrix(self.weight, (*by_group, *places), k if turned else n, turned)


def grouped_matmul(task: Task) -> tuple[Kernel, ...]:
    """x, weight, bias, scale, four others, where groups end, scales of rows.

    Without the numbers of the list, groups are of one length.
    """
    x, weight, bias, scale, *others, ends, per_row = (*task.inputs, *[None] * 9)[:9]
    if x is None or weight is None or len(x.shape) != 2:
        raise task.refused("needs x and weight as one tensor each")
    if any(each is not None for each in others):
        raise task.refused("offsets and weights of other dtypes aren't modelled")
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    of_sums = task.whole_number("group_type", _ROWS_SPLIT) == _SUMS_SPLIT
    if len(weight.shape) != (2 if of_sums else 3):
        raise task.refused(f"a weight {weight.shape}")
    turned_a = bool(task.attributes.get("transpose_x", False))
    turned = turned_a, _weight_turned(task, x, weight, turned_a)
    m, k = (x.shape[1], x.shape[0]) if turned_a else x.shape
    n = weight.shape[-2] if turned[1] else weight.shape[-1]
    inner = weight.shape[-1] if turned[1] else weight.shape[-2]
    if inner != k or (ends is not None and ends.dtype is not INT64):
        raise task.refused(f"{x.shape} by {weight.shape} is no product")
    count = ends.numel if ends is not None else weight.shape[0]
    if not of_sums and count != weight.shape[0]:
        raise task.refused(f"{count} groups for {weight.shape[0]} matrices")
    lengths = group_lengths(task, ends, k if of_sums else m, count)
    shape = (count, m, n) if of_sums else (m, n)
    y = task.outputs[0] if task.outputs else made(shape, _result_kind(x, scale))
    if y.shape != shape or (bias is not None and bias.numel != count * n):
        raise task.refused(f"{y.shape} isn't the result, or the bias not that of {count} groups")
    groups = Groups(lengths, m, n, k, of_sums)
    if ends is None:
        ends = made((count,), INT64, "ends")
        ends.buffer.data = np.cumsum(lengths, dtype=np.int64)
    if x.dtype is weight.dtype and (x.dtype.is_float or (x.dtype is INT8 and y.dtype is INT32)):
        return (GroupedMatMul(task.profile, x, weight, bias, ends, y, groups, turned),)
    return _dequantised(task, (x, weight, y), (scale, per_row, bias), ends, groups, turned)


def _result_kind(x: GlobalTensor, scale: GlobalTensor | None) -> DType:
    if x.dtype is not INT8:
        return x.dtype
    return INT32 if scale is None else BFLOAT16 if scale.dtype is BFLOAT16 else FLOAT16


def _dequantised(
    task: Task,
    tensors: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
    others: tuple[GlobalTensor | None, GlobalTensor | None, GlobalTensor | None],
    ends: GlobalTensor,
    groups: Groups,
    turned: tuple[bool, bool],
) -> tuple[Kernel, ...]:
    """Products of int8, by scales of columns of each group and perhaps of rows."""
    from npusim.ops.matmul.grouped_quant import GroupedDequantMatMul

    (x, weight, y), (scale, per_row, bias) = tensors, others
    if x.dtype is not INT8 or weight.dtype is not INT8 or groups.of_sums or turned[0]:
        raise task.refused(f"{x.dtype} times {weight.dtype} isn't modelled")
    if scale is None or scale.dtype not in (FLOAT, BFLOAT16) or bias is not None:
        raise task.refused("needs scales in FLOAT or BFLOAT16, and no bias")
    if y.dtype not in (FLOAT16, BFLOAT16):
        raise task.refused(f"results in {y.dtype} aren't modelled")
    if scale.numel != len(groups.lengths) * groups.n:
        raise task.refused(f"{scale.shape} for {len(groups.lengths)} groups of {groups.n} columns")
    if per_row is not None and (per_row.numel != groups.m or per_row.dtype is not FLOAT):
        raise task.refused(f"{per_row.shape} for {groups.m} rows")
    return (GroupedDequantMatMul(task.profile, x, weight, scale, per_row, ends, y, groups, turned),)


def _weight_turned(task: Task, x: GlobalTensor, weight: GlobalTensor, turned_a: bool) -> bool:
    """As the record says, or else as the shapes do."""
    said = task.attributes.get("transpose_weight")
    k = x.shape[0 if turned_a else 1]
    return bool(said) if said is not None else weight.shape[-2] != k and weight.shape[-1] == k


def group_lengths(task: Task, ends: GlobalTensor | None, total: int, count: int) -> tuple[int, ...]:
    """From the numbers of the list where they are known, else of one length."""
    told = task.attributes.get("group_list") if ends is None else ends.array
    if not isinstance(told, np.ndarray | list | tuple) or len(told) != count:
        each = ceil(total / count)
        return tuple(max(0, min(each, total - group * each)) for group in range(count))
    found = np.asarray(told, np.int64)
    if task.whole_number("group_list_type", 0) != _COUNTS:
        found = np.diff(found, prepend=0)
    if (found < 0).any() or found.sum() > total:
        raise task.refused(f"groups of {found.tolist()} in {total}")
    return tuple(found.tolist())


def _by_size(blocks: list[tuple[Size, _Place]]) -> dict[Size, list[_Place]]:
    """Blocks of a core by what they have in common, in the order in which they come."""
    found: dict[Size, list[_Place]] = {}
    for size, place in blocks:
        if size.k:
            found.setdefault(size, []).append(place)
    return found
