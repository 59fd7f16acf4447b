"""Products of groups that are tensors of their own: lists of rows, of matrices and of results.

Where a list has one tensor, the groups are its rows, one after the other. Blocks of C of all
groups are dealt out as in :mod:`npusim.ops.matmul.grouped`. Source: ops-transformer
gmm/grouped_matmul, host tiling and device schedule, and the page of aclnnGroupedMatmulV4 for which
lists go together.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.library.operands import OnTheFly
from npusim.ops.matmul.grouped import BASE, SIZES, Size, group_lengths
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.operators.host import Host

_MOST_GROUPS = 128
_ROWS = 2  # axes of a matrix


class Member(NamedTuple):
    """A group: its rows of x and of y, from one on, and its matrix."""

    x: GlobalTensor
    x_row: int
    weight: GlobalTensor
    bias: GlobalTensor | None
    y: GlobalTensor
    y_row: int
    rows: int

    @property
    def inner(self) -> int:
        """Elements of a row of x, which are multiplied and summed up."""
        return self.x.shape[-1]

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.y.shape[-1]

    @property
    def turned(self) -> bool:
        """The matrix lies by its columns."""
        return self.weight.shape[0] != self.inner


class ListedMatMul(Kernel):
    """y[group] = x[group] @ weight[group] + bias[group], each of its own size."""

    op_type: str = "GroupedMatmul"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"

    def __init__(
        self, profile: Profile, members: Sequence[Member], ends: GlobalTensor | None
    ) -> None:
        self.members, self.ends = tuple(members), ends
        tensors = [each for member in members for each in (member.x, member.weight, member.bias)]
        unique = {each.buffer.number: each for each in (*tensors, ends) if each is not None}
        self.reads = tuple(unique.values())
        self.writes = tuple({each.y.buffer.number: each.y for each in members}.values())
        self.cold = tuple(each.weight for each in members)
        first = members[0]
        self.kind = first.x.dtype
        self.grain = grain = grain_of(profile, self.kind)
        longest = max(1, *(each.rows for each in members))
        widest, self.k = max(e.columns for e in members), max(e.inner for e in members)
        base = min(BASE[0], round_up(longest, grain)), min(BASE[1], round_up(widest, grain))
        spare = 0 if first.bias is None else base[1] * first.bias.dtype.itemsize
        self.tiling = MatmulTiling.of_blocks(profile, self.kind, base, base[0], self.k, spare)
        blocks = [
            (Size(min(base[0], each.rows - row), min(base[1], each.columns - column), each.inner,
                  each.rows <= base[0]), group, row, number)
            for group, each in enumerate(members)
            for row in range(0, each.rows, base[0])
            for number, column in enumerate(range(0, each.columns, base[1]))
        ]  # fmt: skip
        self.block_dim = profile.cores.cube_cores
        self._dealt: list[dict[tuple[int, Size], list[tuple[int, int]]]] = []
        for core in range(self.block_dim):
            found: dict[tuple[int, Size], list[tuple[int, int]]] = {}
            for size, group, row, number in blocks[core :: self.block_dim]:
                found.setdefault((group, size), []).append((row, number))
            self._dealt.append(found)

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple((key, len(places)) for key, places in self._dealt[block_idx].items())

    @property
    def code(self) -> Hashable:
        """One binary has all the variants, more than an instruction cache holds."""
        return None

    def process(self, core: Core) -> None:
        """Blocks of one group and size after the other."""
        first = self.members[0]
        bias = None if first.bias is None else first.bias.dtype
        matmul = Matmul(core, self.tiling, self.kind, first.y.dtype, self.k, bias=bias)
        core.load_lines(len(self.reads) + len(self.writes) + SIZES)
        if self.ends is not None:
            for place in core.loop(self.ends.numel):
                core.load_scalar(self.ends.span(place, 1))
                core.scalar_alu("groups")
        for (group, size), places in self._dealt[core.get_block_idx()].items():
            table = np.array(places, np.int64)
            for turn in core.loop(len(places)):
                row, block = (looked_up(turn, table[:, axis]) for axis in range(2))
                matmul.run(self._product(self.members[group], size, row, block))

    def _product(self, member: Member, size: Size, row: Index, block: Index) -> Product:
        """A block of C of a group."""
        k, n, base = member.inner, member.columns, self.tiling.base_n
        column = (block, base)
        lying = GmMatrix if k % self.grain else OnTheFly
        weight = replace(member.weight, past_l2=size.alone)
        matrix = GmMatrix(weight, ((block, base * (k if member.turned else 1)),),
                          k if member.turned else n, member.turned)  # fmt: skip
        bias = None if member.bias is None else GmMatrix(member.bias, (column,), 0)
        return Product(
            GmMatrix(member.y, ((member.y_row, n), (row, n), column), n),
            lying(member.x, ((member.x_row, k), (row, k)), k),
            matrix, size.rows, size.columns, size.k, bias,
        )  # fmt: skip


def listed_product(
    host: Host, lists: tuple[Sequence[GlobalTensor], ...], ends: GlobalTensor | None,
    said: dict[str, object], *, together: bool, apart: bool,
) -> list[GlobalTensor]:  # fmt: skip
    """A task for lists of x, weight and bias, into one result or one for each matrix.

    ``apart`` groups are tensors of x, of which nothing else tells the rows.
    """
    x, weight, bias = lists
    profile, count = host.profile, len(weight)
    if profile.paths.l0c_to_gm is None:
        raise KernelError("GroupedMatmul", f"lists of tensors on {profile.name} aren't modelled")
    if not x or not weight or (apart and len(x) != count):
        raise KernelError("GroupedMatmul", f"{len(x)} tensors of rows for {count} matrices")
    total = prod(x[0].shape[:-1])
    if len(x) > 1:
        lengths = tuple(prod(each.shape[:-1]) for each in x)
    else:
        task = Task(profile, "GroupedMatmul", attributes=said if any(said.values()) else {})
        lengths = group_lengths(task, ends, total, count)
    widths = [
        each.shape[0] if each.shape[:1] != x[0 if len(x) == 1 else n].shape[-1:] else each.shape[-1]
        for n, each in enumerate(weight)
    ]
    shapes: list[tuple[int, ...]] = [
        (length, width) for length, width in zip(lengths, widths, strict=False)
    ]
    if len(x) > 1:
        shapes = [(*rows.shape[:-1], n) for rows, n in zip(x, widths, strict=False)]
    if together:
        shapes = [(total if len(x) == 1 else sum(lengths), widths[0])]
    name = "out" if host.told("out0") else "y"
    results = []
    for place, shape in enumerate(shapes):
        told = host.told(f"{name}{place}")
        if told is not None and told.shape != shape:
            raise KernelError("GroupedMatmul", f"{told.shape} isn't the result {shape}")
        own = x[0].dtype
        results.append(host.empty(shape, own) if told is None
                       else host.chain.output(f"{name}{place}", own))  # fmt: skip
    members = members_of(x, weight, bias, results, lengths)
    host.chain.queue(ListedMatMul(profile, members, ends))
    return results


def members_of(
    x: Sequence[GlobalTensor],
    weight: Sequence[GlobalTensor],
    bias: Sequence[GlobalTensor],
    y: Sequence[GlobalTensor],
    lengths: Sequence[int],
) -> tuple[Member, ...]:
    """Groups of lists, of which x and y may be one tensor each; KernelError where they don't fit.

    Matrices are plain ones; rows of x may have more axes in front.
    """
    count = len(weight)
    if not count or count > _MOST_GROUPS or (bias and len(bias) != count):
        raise KernelError("GroupedMatmul", f"{count} matrices with {len(bias)} biases")
    if len(x) not in (1, count) or len(y) not in (1, count):
        raise KernelError("GroupedMatmul", f"{len(x)} and {len(y)} tensors for {count} matrices")
    starts = np.cumsum([0, *lengths])
    found = []
    for group, matrix in enumerate(weight):
        rows, result = (each[group if len(each) > 1 else 0] for each in (x, y))
        member = Member(
            _rows(rows), int(starts[group]) if len(x) == 1 else 0, matrix,
            bias[group] if bias else None,
            _rows(result), int(starts[group]) if len(y) == 1 else 0, lengths[group],
        )  # fmt: skip
        _check(member)
        found.append(member)
    return tuple(found)


def _rows(tensor: GlobalTensor) -> GlobalTensor:
    """A tensor as a matrix of its rows."""
    width = tensor.shape[-1] if tensor.shape else 0
    if len(tensor.shape) < _ROWS or not width:
        raise KernelError("GroupedMatmul", f"{tensor.shape} has no rows")
    return tensor.view(prod(tensor.shape[:-1]), width)


def _check(member: Member) -> None:
    """KernelError for a group that is no product."""
    k, n, kind = member.inner, member.columns, member.x.dtype
    fits = member.weight.shape in ((k, n), (n, k)) and (
        member.x_row + member.rows <= member.x.shape[0]
        and member.y_row + member.rows <= member.y.shape[0]
    )
    if not fits or (member.bias is not None and member.bias.numel != n):
        shapes = f"{member.x.shape} by {member.weight.shape} to {member.y.shape}"
        raise RefusedTaskError("GroupedMatmul", f"{shapes} is no product")
    if not kind.is_float or any(each.dtype is not kind for each in (member.weight, member.y)):
        dtypes = f"{kind} times {member.weight.dtype} to {member.y.dtype}"
        raise KernelError("GroupedMatmul", f"{dtypes} in lists isn't modelled")
