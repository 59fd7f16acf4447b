"""Products of groups: rows of x with the matrix of their group, in one task.

Blocks of C of all groups are dealt out to the cores one after the other, so that the last blocks of
a group run beside the first of the next. All cube cores are started, whose host doesn't know the
groups. Source: ops-transformer gmm/grouped_matmul, host tiling and device schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.loops import looked_up
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.library.operands import OnTheFly
from npusim.values.arithmetic import round_up
from npusim.values.errors import DeviceFault, brief
from npusim.values.formats import Format
from npusim.values.status import AclError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

BASE = 128, 256  # rows and columns of a block of C
_ROWS_SPLIT, _SUMS_SPLIT = 0, 2  # group_type: groups of rows, or of what is summed up
SIZES = 2  # arrays of k and n in the tiling data, for up to 128 groups
_COUNTS = 1  # group_list_type: rows of each group, not where each ends


class Size(NamedTuple):
    """What blocks that are worked on in one loop have in common.

    One ``alone`` above others in its columns loads what no other does, past L2.
    """

    rows: int
    columns: int
    k: int
    alone: bool


class _Place(NamedTuple):
    """A block: its group, where it begins in the rows and the sums, and which of the columns."""

    group: int
    row: int
    block: int
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
                for number, column in enumerate(range(0, self.n, base_n)):
                    wide = min(base_n, self.n - column)
                    size = Size(min(base_m, m - row), wide, k, m <= base_m)
                    rows = row if self.of_sums else start + row
                    yield size, _Place(group, rows, number, start if self.of_sums else 0)
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
        self.cold = () if groups.of_sums else (weight,)
        longest = max(1, groups.m if groups.of_sums else max(groups.lengths))
        self.k = max(groups.lengths) if groups.of_sums else groups.k
        self.grain = grain = grain_of(profile, x.dtype)
        base = min(BASE[0], round_up(longest, grain)), min(BASE[1], round_up(groups.n, grain))
        spare = 0 if bias is None else base[1] * bias.dtype.itemsize
        self.base = base
        self.tiling = MatmulTiling.of_blocks(profile, x.dtype, base, base[0], self.k, spare)
        self.block_dim = profile.cores.cube_cores

    @cached_property
    def _dealt(self) -> list[dict[Size, list[_Place]]]:
        """The blocks of every core; a kernel that is known already is never asked for them."""
        blocks = [each for each in self.groups.blocks(*self.base) if each[0].k]
        return [_by_size(blocks[core :: self.block_dim]) for core in range(self.block_dim)]

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple((size, len(places)) for size, places in self.blocks_of(block_idx).items())

    def blocks_of(self, block_idx: int) -> dict[Size, list[_Place]]:
        """Those of a core; fewer blocks than cores leave some without."""
        return self._dealt[block_idx]

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
        self.read_groups(core)
        for size, places in self.blocks_of(core.get_block_idx()).items():
            table = np.array(places, np.int64)
            for turn in core.loop(len(places)):
                found = [looked_up(turn, table[:, axis]) for axis in range(table.shape[1])]
                matmul.run(self.product(size, *found))

    @property
    def code(self) -> Hashable:
        """One binary has all the variants, more than an instruction cache holds."""
        return None

    def read_groups(self, core: Core) -> None:
        """Descriptors of the lists of tensors, arrays of sizes, and where the groups end."""
        core.load_lines(len(self.reads) + len(self.writes) + SIZES)
        for group in core.loop(len(self.groups.lengths)):
            core.load_scalar(self.ends.span(group, 1))
            core.scalar_alu("groups")

    def product(
        self, size: Size, group: Index, row: Index, block: Index, first_k: Index
    ) -> Product:
        """A block of C, with its rows and its place among the blocks of columns."""
        groups = self.groups
        m, n, k, sums = groups.m, groups.n, groups.k, groups.of_sums
        turned_a = self.turned[0]
        start = ((first_k, m if turned_a else 1),) if sums else ()
        result = ((group, m * n),) if sums else ()
        column = (block, self.tiling.base_n)
        bias = None
        if self.bias is not None:
            bias = GmMatrix(self.bias, ((group, n), column), 0)
        lying = GmMatrix if turned_a or k % self.grain else OnTheFly
        rows = ((row, 1 if turned_a else k), *start)
        return Product(
            GmMatrix(self.y, (*result, (row, n), column), n),
            lying(self.x, rows, m if turned_a else k, turned_a),
            self._matrix(group, block, first_k, alone=size.alone),
            size.rows,
            size.columns,
            size.k,
            bias,
        )

    def _matrix(self, group: Index, block: Index, first_k: Index, *, alone: bool) -> GmMatrix:
        """The matrix of a group from a column and an element of k on, as it lies or in fractals."""
        k, n, turned, base = self.groups.k, self.groups.n, self.turned[1], self.tiling.base_n
        sums, weight = self.groups.of_sums, replace(self.weight, past_l2=alone)
        if self.lanes:
            high = self.weight.shape[-3] * self.weight.shape[-2]
            places = ((group, self.weight.numel // self.weight.shape[0]), (block, high * base))
            start = ((first_k, self.lanes),) if sums else ()
            return GmMatrix(weight, (*places, *start), high * self.lanes, lanes=self.lanes)
        by_group = () if sums else ((group, k * n),)
        start = ((first_k, 1 if turned else n),) if sums else ()
        column = (block, base * (k if turned else 1))
        return GmMatrix(weight, (*by_group, column, *start), k if turned else n, turned)


def group_lengths(task: Task, ends: GlobalTensor | None, total: int, count: int) -> tuple[int, ...]:
    """From the numbers of the list where they are known, else as even as whole rows can be."""
    told = task.attributes.get("group_list") if ends is None else ends.array
    if not isinstance(told, np.ndarray | list | tuple) or len(told) != count:
        each, more = divmod(total, count) if count else (0, 0)
        return tuple(each + (group < more) for group in range(count))
    found = np.asarray(told, np.int64)
    if task.whole_number("group_list_type", 0) != _COUNTS:
        found = np.diff(found, prepend=0)
    if (found < 0).any() or found.sum() > total:
        wrong = f"groups of {brief(found.tolist())} in {total}"
        if ends is None:
            raise task.refused(wrong)
        raise DeviceFault(
            AclError.ACL_ERROR_RT_AICORE_EXCEPTION,
            f"{task.op_type}: {wrong}",
            "Give lengths that aren't negative, and no more rows than there are.",
        )
    return tuple(found.tolist())


def _by_size(blocks: list[tuple[Size, _Place]]) -> dict[Size, list[_Place]]:
    """Blocks of a core by what they have in common, in the order in which they come."""
    found: dict[Size, list[_Place]] = {}
    for size, place in blocks:
        found.setdefault(size, []).append(place)
    return found
