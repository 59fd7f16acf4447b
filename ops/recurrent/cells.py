"""What a recurrent layer does to a tile of its gates: states of one step from those before.

Cells are written once for sums of gates that come from global memory and for those that are in UB.
Source: ops-nn rnn/dynamic_rnn (LstmFP16, dynamic_rnn_common) and rnn/gru; Sigmoid and Tanh of the
Ascend C library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from npusim.ascendc import CmpMode, TBuf
from npusim.values.dtypes import FLOAT, UINT8

if TYPE_CHECKING:
    from npusim.ascendc import Core, LocalTensor

# tanh near zero as a polynomial of the square, highest power first, and how far that reaches.
_TANH = (0.016090461204, -0.052421370438, 0.133147126779, -0.333324134737, 0.999999873294)
_TANH_REACH = 0.55
_TANH_MOST = 8.8  # where tanh is 1 in float32
_WORK_BUFFERS = 6

Store = Callable[[str, "LocalTensor"], None]


class Source(Protocol):
    """Where a cell's operands come from: float32 tiles, given back once they have been used."""

    def gate(self, name: str) -> LocalTensor:
        """What a gate gets from the input and from the state together."""

    def halves(self, name: str) -> tuple[LocalTensor, LocalTensor]:
        """The same apart."""

    def state(self, name: str) -> LocalTensor | None:
        """A state of the step before; None for the first one, where it is zero."""

    def free(self, *tiles: LocalTensor) -> None:
        """They may be overwritten."""


class Work:
    """Buffers of float32 on a core, and functions on tiles."""

    def __init__(self, core: Core, elements: int) -> None:
        self._core = core
        self._buffers = [TBuf(f"work{number}") for number in range(_WORK_BUFFERS)]
        self._mask = TBuf("mask")
        for buffer in self._buffers:
            core.pipe.init_buffer(buffer, 1, elements * FLOAT.itemsize)
        core.pipe.init_buffer(self._mask, 1, elements)

    @staticmethod
    def nbytes(elements: int) -> int:
        """Bytes of UB that it takes."""
        return elements * (_WORK_BUFFERS * FLOAT.itemsize + UINT8.itemsize)

    def tile(self, number: int, like: LocalTensor) -> LocalTensor:
        """A buffer's tile."""
        return self._buffers[number].get(FLOAT, *like.shape)

    def sigmoid(self, y: LocalTensor, x: LocalTensor) -> LocalTensor:
        """1 / (1 + e**-x); y is another place."""
        core, ones = self._core, self.tile(5, x)
        core.muls(y, x, -1.0)
        core.exp(y, y)
        core.adds(y, y, 1.0)
        core.duplicate(ones, 1.0)
        return core.div(y, ones, y)

    def tanh(self, y: LocalTensor, x: LocalTensor) -> LocalTensor:
        """(e**2x - 1) / (e**2x + 1); near zero, where the chip compares, a polynomial."""
        core, square, power = self._core, self.tile(4, x), self.tile(5, x)
        core.mins(power, x, _TANH_MOST)
        core.maxs(power, power, -_TANH_MOST)
        core.muls(power, power, 2.0)
        core.exp(power, power)
        core.adds(y, power, -1.0)
        core.adds(power, power, 1.0)
        core.div(y, y, power)
        if core.profile.cores.style != "split":
            return y
        core.mul(square, x, x)
        core.muls(power, square, _TANH[0])
        for factor in _TANH[1:]:
            core.adds(power, power, factor)
            if factor is not _TANH[-1]:
                core.mul(power, power, square)
        core.mul(power, power, x)
        core.abs(square, x)
        near = self._mask.get(UINT8, *x.shape)
        core.compare(near, square, _TANH_REACH, CmpMode.LE)
        return core.select(y, near, power, y)


class Cell(Protocol):
    """A kind of recurrent layer: its gates in order, and what one step computes."""

    @property
    def gates(self) -> str:
        """Their letters, in the order of the columns."""

    states: ClassVar[tuple[str, ...]]  # that a step takes from the one before
    has_halves: ClassVar[bool]  # a gate needs both of its parts apart

    def step(self, core: Core, work: Work, source: Source, store: Store) -> None:
        """Compute a tile and store what there is to store, by name."""


@dataclass(frozen=True, slots=True)
class LstmCell:
    """c = sigmoid(f) c + sigmoid(i) tanh(j), h = sigmoid(o) tanh(c).

    With a ``mask`` of steps that count, the others leave the state as it is.
    """

    gates: str
    forget_bias: float = 0.0
    clip: float = -1.0
    mask: bool = False
    states: ClassVar[tuple[str, ...]] = ("c", "h")
    has_halves: ClassVar[bool] = False

    def step(self, core: Core, work: Work, source: Source, store: Store) -> None:
        """Gates in the order in which the device takes them."""
        forget = source.gate("f")
        before = source.state("c")
        gated, c = work.tile(0, forget), work.tile(1, forget)
        core.adds(forget, forget, self.forget_bias)
        work.sigmoid(gated, forget)
        source.free(forget)
        store("f", gated)
        if before is not None:
            core.mul(c, before, gated)
            source.free(before)
        new = source.gate("j")
        j = work.tanh(work.tile(2, new), new)
        source.free(new)
        store("j", j)
        entering = source.gate("i")
        work.sigmoid(gated, entering)
        source.free(entering)
        store("i", gated)
        core.mul(work.tile(3, j), j, gated)
        if before is not None:
            core.add(c, c, work.tile(3, j))
        else:
            c = work.tile(3, j)
        c = self._kept(core, work, source, c, "c")
        if self.clip > 0:
            core.mins(c, c, self.clip)
        store("c", c)
        h = work.tanh(work.tile(2, c), c)
        store("tanhc", h)
        leaving = source.gate("o")
        work.sigmoid(gated, leaving)
        source.free(leaving)
        store("o", gated)
        core.mul(h, h, gated)
        self._finish(core, work, source, h, store)

    def _kept(
        self, core: Core, work: Work, source: Source, new: LocalTensor, name: str
    ) -> LocalTensor:
        """The new state where the step counts, and that from before where it doesn't."""
        counts = source.state("mask") if self.mask else None
        if counts is None:
            return new
        core.mul(new, new, counts)
        before = source.state(name)
        if before is not None:
            rest = work.tile(4, new)
            core.muls(rest, counts, -1.0)
            core.adds(rest, rest, 1.0)
            core.mul(rest, rest, before)
            core.add(new, new, rest)
            source.free(before)
        source.free(counts)
        return new

    def _finish(self, core: Core, work: Work, source: Source, h: LocalTensor, store: Store) -> None:
        if not self.mask:
            store("y", h)
            store("h", h)
            return
        counts = source.state("mask")
        assert counts is not None
        y = core.mul(work.tile(0, h), h, counts)
        source.free(counts)
        store("y", y)
        store("h", self._kept(core, work, source, h, "h"))


@dataclass(frozen=True, slots=True)
class GruCell:
    """h = (1 - z) n + z h with z, r = sigmoid(...), n = tanh(x_n + r h_n)."""

    gates: str
    states: ClassVar[tuple[str, ...]] = ("h",)
    has_halves: ClassVar[bool] = True

    def step(self, core: Core, work: Work, source: Source, store: Store) -> None:
        """Reset gate, update gate, new state."""
        first = source.gate("r")
        reset = work.sigmoid(work.tile(0, first), first)
        source.free(first)
        store("r", reset)
        second = source.gate("z")
        update = work.sigmoid(work.tile(1, second), second)
        source.free(second)
        store("z", update)
        own, hidden = source.halves("n")
        store("hn", hidden)
        core.mul(hidden, reset, hidden)
        core.add(own, own, hidden)
        new = work.tanh(work.tile(2, own), own)
        source.free(own, hidden)
        store("n", new)
        kept = work.tile(3, new)
        core.muls(kept, update, -1.0)
        core.adds(kept, kept, 1.0)
        core.mul(new, kept, new)
        before = source.state("h")
        if before is not None:
            core.mul(update, update, before)
            core.add(new, new, update)
            source.free(before)
        store("y", new)
        store("h", new)
