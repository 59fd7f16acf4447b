"""AttentionUpdate: attention over parts of the keys, merged by the logarithms of their sums.

Vector cores share the rows; of some rows all parts are in UB at a time, and each counts as much as
its sum does beside those of all. A logarithm of infinity is that of a part without keys. Source:
ops-transformer attention/attention_update, docs and op_kernel/decode_update.h.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from npusim.ascendc import Core, Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.task import Task, made
from npusim.library.tensor_lists import read_lists
from npusim.operators.checks import invalid, sizes
from npusim.ops.attention.softmax import HIDDEN
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, UINT8

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from npusim.ascendc import GlobalTensor, LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_MOST_PARTS, _WIDEST, _LANES = 16, 512, 8
_TOGETHER = 8  # parts in UB at a time are rounded up to this
_KINDS = (FLOAT, FLOAT16, BFLOAT16)


class AttentionUpdate(Kernel):
    """out = sum of parts[i] * exp(lse[i] - total), total = log of the sum of exp(lse[i])."""

    op_type = "AttentionUpdate"

    def __init__(
        self,
        profile: Profile,
        sums: Sequence[GlobalTensor],
        parts: Sequence[GlobalTensor],
        out: GlobalTensor,
        total: GlobalTensor | None,
    ) -> None:
        self.sums, self.parts, self.out, self.total = sums, parts, out, total
        self.reads = (*sums, *parts)
        self.writes = (out,) if total is None else (out, total)
        rows, self.wide = out.shape
        size, block = FLOAT.itemsize, profile.buffers.block_bytes
        self.row_bytes = round_up(self.wide * out.dtype.itemsize, block)  # of a tile in UB
        each = 4 * self.row_bytes + 2 * self.wide * size + size * (4 * len(sums) + 6)
        each += len(sums)  # a byte of each comparison
        spare = (_TOGETHER + 2) * len(sums) * block
        fitting = max(1, int(profile.buffers.ub_bytes - spare) // each)
        self.share = RowShare.of(rows, profile.cores.vector_cores, fitting)
        self.division = self.share
        self.block_dim = self.share.cores

    def block_kind(self, block_idx: int) -> Hashable:
        return self.share.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Tile after tile."""
        read_lists(core, 2, 1)
        tile, count, size = self.share.tile, len(self.sums), FLOAT.itemsize
        ins, outs = TQue(TPosition.VECIN, 2, "part"), TQue(TPosition.VECOUT, 1, "out")
        given, told = TQue(TPosition.VECIN, 1, "lse"), TQue(TPosition.VECOUT, 1, "total")
        names = ("weights", "kept", "small", "wide", "sum")
        weights, kept, small, wide, total = (TBuf(name) for name in names)
        for queue, depth in ((ins, 2), (outs, 1)):
            core.pipe.init_buffer(queue, depth, tile * self.row_bytes)
        for queue in (given, told):
            core.pipe.init_buffer(queue, 1, tile * size)
        core.pipe.init_buffer(weights, count, tile * size)
        core.pipe.init_buffer(kept, 1, max(tile, core.block_bytes))
        core.pipe.init_buffer(small, 2, tile * size)
        for buffer in (wide, total):
            core.pipe.init_buffer(buffer, 1, tile * self.wide * size)
        for first, rows in self.share.tiles(core):
            lines = [weights.get(FLOAT, rows, part=at) for at in range(count)]
            for line, tensor in zip(lines, self.sums, strict=True):
                loaded = given.copy_in(tensor.window(((first, 1),), (rows,), (1,)))
                core.compare(kept.get(UINT8, rows), loaded, inf, CmpMode.NE)
                core.select(line, kept.get(UINT8, rows), loaded, HIDDEN)
                given.free_tensor(loaded)
            self._weigh(core, lines, [small.get(FLOAT, rows, part=at) for at in range(2)])
            if self.total is not None:
                line = told.alloc_tensor(FLOAT, rows)
                core.move(line, small.get(FLOAT, rows, part=0))
                told.copy_out(self.total.window(((first, 1),), (rows,), (1,)), line)
            x = total.get(FLOAT, rows, self.wide)
            for at, (part, weight) in enumerate(zip(self.parts, lines, strict=True)):
                found = self._wide(core, ins, part, wide, (first, rows))
                column = core.broadcast_column(weight)
                core.mul(found if at else x, found, column)
                if at:
                    core.add(x, x, found)
            tile_out = outs.alloc_tensor(self.out.dtype, rows, self.wide)
            if self.out.dtype is FLOAT:
                core.move(tile_out, x)
            else:
                core.cast(tile_out, x, RoundMode.CAST_RINT)
            window = self.out.window(((first, self.wide),), (rows, self.wide), (self.wide, 1))
            outs.copy_out(window, tile_out)

    def _weigh(self, core: Core, lines: list[LocalTensor], small: list[LocalTensor]) -> None:
        """Logarithms become weights; the first of ``small`` is the logarithm of all."""
        total, each = small
        core.move(each, lines[0])
        for line in lines[1:]:
            core.max(each, each, line)
        for at, line in enumerate(lines):
            core.sub(line, line, each)
            if not at:
                core.exp(total, line)
                continue
            core.exp(line, line)
            core.add(total, total, line)
        core.exp(lines[0], lines[0])
        for line in lines:
            core.div(line, line, total)
        core.ln(total, total)
        core.add(total, total, each)

    def _wide(
        self, core: Core, ins: TQue, part: GlobalTensor, wide: TBuf, where: tuple[Index, int]
    ) -> LocalTensor:
        """Rows of a part in float32."""
        (first, rows), columns = where, self.wide
        loaded = ins.copy_in(part.window(((first, columns),), (rows, columns), (columns, 1)))
        target = wide.get(FLOAT, rows, columns)
        if loaded.dtype is FLOAT:
            core.move(target, loaded)
        else:
            core.cast(target, loaded)
        ins.free_tensor(loaded)
        return target


def attention_update(task: Task) -> tuple[Kernel, ...]:
    """Logarithms of the parts, then the parts; the result and its logarithm."""
    given = tuple(each for each in task.inputs if each is not None)
    count = len(given) // 2
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    sums, parts = given[:count], given[count:]
    shape = parts[0].shape if parts else ()
    fits = len(given) == 2 * count and len(shape) == 2 and 1 <= count <= _MOST_PARTS
    fits = fits and all(each.shape == shape and each.dtype in _KINDS for each in parts)
    if not fits or any(each.numel != shape[0] or each.dtype is not FLOAT for each in sums):
        raise task.refused(f"{count} parts {shape}: one logarithm for each row of every part")
    results = [each for each in task.outputs if each.shape]
    out = results[0] if results else made(shape, parts[0].dtype)
    total = results[1] if len(results) > 1 and task.attributes.get("update_type") else None
    return (AttentionUpdate(task.profile, sums, parts, out, total),)


def parts_fit(*names: str) -> Check:
    """161002 for parts that aren't alike, and a logarithm that isn't asked for, or is.

    ``names`` are those of both lists' tensors, of the results and of what asks.
    """
    *lists, out, total, update = names
    first = lists[0].rstrip("0123456789")

    def test(call: Call) -> Finding:
        found: tuple[list[TensorSpec], list[TensorSpec]] = [], []
        for name, spec in call.given(*lists):
            found[name.rstrip("0123456789") != first].append(spec)
        return next(_objections(call, *found, (out, total, update)), None)

    return invalid(f"{first} and the parts don't go together", test)


def _objections(
    call: Call, sums: list[TensorSpec], parts: list[TensorSpec], names: tuple[str, str, str]
) -> Iterator[str]:
    out, total, update = names
    if len(sums) != len(parts) or not 1 <= len(sums) <= _MOST_PARTS:
        yield f"{len(sums)} logarithms and {len(parts)} parts: as many, 1 to {_MOST_PARTS}."
        return
    shape = parts[0].shape
    if len(shape) != 2 or not _LANES <= shape[1] <= _WIDEST or shape[1] % _LANES:
        yield f"Parts should be [rows, D], D a multiple of 8 up to 512, but are {sizes(shape)}."
        return
    for each in (*parts, *(spec for _, spec in call.given(out))):
        if each.shape != shape:
            yield f"All parts and {out} should have sizes {sizes(shape)}, not {sizes(each.shape)}."
    for each in sums:
        if each.shape != shape[:1]:
            yield f"Logarithms should be {sizes(shape[:1])}, but have sizes {sizes(each.shape)}."
    kind = call.arguments.get(update)
    if kind not in (0, 1):
        yield f"{update} should be 0 or 1, but is {kind}."
    elif call.is_given(total) is not bool(kind):
        yield f"{total} should be given just where {update} is 1."
