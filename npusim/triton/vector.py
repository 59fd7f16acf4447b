"""Vector instructions for operations on elements, with casts where the chip lacks a dtype."""

from __future__ import annotations

from itertools import count
from math import ceil, log2
from typing import TYPE_CHECKING

from npusim.ascendc import LocalTensor
from npusim.engine.program import Pipe
from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT8, INT16, INT32, INT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import Core
    from npusim.values.dtypes import DType

_slots = count(1)
_BITS = ("vand", "vor", "vnot")  # of words of 16 bits, whatever they are parts of
_WORDS = {1: INT8, 2: INT16, 4: INT32}
# By way of which dtypes an instruction is that the chip doesn't have for one.
# Source of scalar work on 64-bit integers and on comparisons of integers: triton-ascend's
# performance guidelines (docs, "vector ADD doesn't support int64; vector CMP no int32 and int64").
_BY_WAY_OF = {BFLOAT16: FLOAT, FLOAT16: FLOAT, INT8: FLOAT16, BOOL: FLOAT16, INT16: FLOAT}
_STEPS_OF_64 = 2  # lanes of 32 bits that an element of 64 bits moves in


def new_tile(core: Core, dtype: DType, shape: tuple[int, ...], name: str) -> LocalTensor:
    """A tile in UB for instructions to be written for."""
    return LocalTensor(core, dtype, shape, name, ("triton", next(_slots)), depth=0)


class VectorWork:
    """Writes vector instructions on a core down; what they compute is found elsewhere."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def elements(
        self, names: Sequence[str], dst: LocalTensor, sources: Sequence[LocalTensor]
    ) -> None:
        """Instructions on all elements, the later ones on what the earlier ones left."""
        inner = dst.dtype if not sources else sources[0].dtype
        reads = list(sources)
        for name in names:
            kind = self._kind_for(name, inner)
            if kind is None:
                self.by_scalar(name, dst, len(reads))
            else:
                self._one(name, kind, inner, dst, reads)
            reads = [dst]

    def _one(
        self, name: str, kind: DType, own: DType, dst: LocalTensor, reads: Sequence[LocalTensor]
    ) -> None:
        core = self.core
        if kind is own or name == "vconv":
            flat = self._flat(dst, kind)
            core.issue(name, flat, tuple(reads), writes=dst)
            return
        wide = [new_tile(core, kind, (dst.numel,), dst.buffer) for _ in reads]
        for target, source in zip(wide, reads, strict=True):
            self.convert(target, source)
        result = new_tile(core, kind, (dst.numel,), dst.buffer)
        core.issue(name, result, tuple(wide), writes=result)
        self.convert(dst, result)

    def _kind_for(self, name: str, dtype: DType) -> DType | None:
        """The dtype that an instruction works in for another; None where the scalar unit does."""
        profile = self.core.profile
        if name in _BITS:
            return INT16
        if name in ("vconv", "vector_dup", "ub2ub"):
            return dtype
        if profile.supports_vector(name, dtype.intrinsic):
            return dtype
        if name == "vsel":
            return {1: FLOAT16, 2: FLOAT16}.get(dtype.itemsize, FLOAT)
        if dtype in (INT32, INT64) and name != "vdiv":
            return None
        wide = _BY_WAY_OF.get(dtype, FLOAT)
        return wide if profile.supports_vector(name, wide.intrinsic) else FLOAT

    def _flat(self, dst: LocalTensor, kind: DType) -> LocalTensor:
        lanes = max(1, ceil(dst.numel * dst.dtype.bits / kind.bits))
        if dst.dtype is kind or kind in (FLOAT, FLOAT16, INT32):
            lanes = dst.numel
        return LocalTensor(self.core, kind, (lanes,), dst.buffer, dst.slot, depth=0)

    def convert(self, dst: LocalTensor, src: LocalTensor) -> None:
        """dst = src in its dtype: one vconv, or several where the chip has no direct one."""
        core = self.core
        if dst.dtype is src.dtype:
            return
        way = self._way(src.dtype, dst.dtype)
        if way is None:
            self.by_scalar("conv", dst, 1)
            return
        chained = core.reads_last(src)
        for source, target in way:
            form = f"{source.intrinsic}->{target.intrinsic}"
            wide = max(source.itemsize, target.itemsize)
            if core.recording:
                cycles = core.costs.vector("vconv", form, wide, dst.numel, chained=chained)
                core.recorder.emit(Pipe.VECTOR, "vconv", cycles, detail=form)
            chained = True
        core.wrote(dst)

    def _way(self, source: DType, target: DType) -> list[tuple[DType, DType]] | None:
        """The conversions from one dtype to another, as few as there are."""
        source, target = (INT8 if each is BOOL else each for each in (source, target))
        if source is target:
            return []
        known = (FLOAT, FLOAT16, BFLOAT16, INT32, INT16, INT8, INT64)
        reached: dict[DType, list[tuple[DType, DType]]] = {source: []}
        front = [source]
        while front:
            here = front.pop(0)
            for other in known:
                if other in reached:
                    continue
                if self.core.profile.supports_convert(here.intrinsic, other.intrinsic):
                    reached[other] = [*reached[here], (here, other)]
                    front.append(other)
        return reached.get(target)

    def compare(self, mode: str, dst: LocalTensor, sources: Sequence[LocalTensor]) -> None:
        """Truth values, one bit each; of integers of 32 and 64 bits by the scalar unit."""
        name = f"vcmpv_{mode}"
        kind = self._kind_for(name, sources[0].dtype)
        if kind is None:
            self.by_scalar(name, dst, len(sources))
            return
        reads = list(sources)
        if kind is not sources[0].dtype:
            reads = [new_tile(self.core, kind, (dst.numel,), dst.buffer) for _ in sources]
            for wide, source in zip(reads, sources, strict=True):
                self.convert(wide, source)
        flat = LocalTensor(self.core, kind, (dst.numel,), dst.buffer, dst.slot, depth=0)
        self.core.issue(name, flat, tuple(reads), writes=dst)

    def fill(self, dst: LocalTensor) -> None:
        """One number in all elements."""
        self.core.issue("vector_dup", self._lanes(dst), (), writes=dst)

    def move(self, dst: LocalTensor, src: LocalTensor) -> None:
        """Elements at another place of UB, row by row."""
        self.core.issue("ub2ub", self._lanes(dst), (src,), writes=dst)

    def _lanes(self, dst: LocalTensor) -> LocalTensor:
        """The same place as lanes that the vector unit moves: 64 bits are two of them."""
        size = dst.dtype.itemsize
        kind = _WORDS.get(size, INT32)
        times = _STEPS_OF_64 if size > INT32.itemsize else 1
        shape = (*dst.shape[:-1], dst.shape[-1] * times) if dst.shape else (times,)
        return LocalTensor(self.core, kind, shape, dst.buffer, dst.slot, depth=0)

    def count_up(self, dst: LocalTensor) -> None:
        """0, 1, 2 ...: a block by the scalar unit, then twice as many with each instruction."""
        core = self.core
        block = max(1, core.block_bytes // dst.dtype.itemsize)
        core.emit_scalar("st_ub", stores=min(block, dst.numel), detail=dst.buffer)
        core.filled(dst)
        length = block
        for _ in range(max(0, ceil(log2(dst.numel / block))) if dst.numel > block else 0):
            piece = LocalTensor(
                core, INT32, (min(length, dst.numel),), dst.buffer, dst.slot, depth=0
            )
            core.issue("vadds", piece, (piece,), writes=dst)
            length *= 2

    def turn(self, dst: LocalTensor, src: LocalTensor) -> None:
        """Rows and columns exchanged, 16 lines at a time; elements of 32 bits as two halves."""
        core = self.core
        rows, columns = (1, *src.shape)[-2:]
        halves = max(1, dst.dtype.itemsize // FLOAT16.itemsize)
        repeats = ceil(rows / 16) * ceil(columns / 16) * halves * (dst.numel // (rows * columns))
        core.turn_lines(dst, src, repeats)

    def by_scalar(self, name: str, dst: LocalTensor, reads: int) -> None:
        """What the vector unit doesn't have for a dtype: element by element."""
        core = self.core
        core.wait_vector()
        n = dst.numel
        detail = f"{dst.buffer} {n} elements, {name}"
        core.emit_scalar(
            "scalar_loop", loads=reads * n, stores=n, operations=n, turns=n, detail=detail
        )
        core.filled(dst)
