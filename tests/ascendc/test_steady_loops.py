"""Loops with ``sequential=True`` take the same time on shapes, where few turns are executed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device, TensorSpec, kernel
from npusim.ascendc import FLOAT, Core, GlobalTensor, TBuf, TPosition, TQue
from npusim.ascendc.recorder import Recorder
from npusim.values.errors import KernelError, TileStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

T, TURNS = 64, 40
CHIP = "Ascend910B3"
SIZES = [T] * TURNS
SIZES[20] = T // 2
MANY = [0]  # what calls have counted


class Lines:
    """A queue in, one out, and what a body may carry."""

    def __init__(self, core: Core, x: GlobalTensor, z: GlobalTensor, slots: int = 2) -> None:
        self.core, self.x, self.z = core, x, z
        self.a = TQue(TPosition.VECIN, slots, "a")
        self.o = TQue(TPosition.VECOUT, slots, "o")
        self.s = TBuf("s")
        for each in (self.a, self.o, self.s):
            core.pipe.init_buffer(each, slots, 4 * T)
        self.counted = 0
        self.lengths: Iterator[int] | None = None

    def step(self, place: Any, length: int = T, times: int = 1) -> None:
        """One tile through the core."""
        tile = self.a.copy_in(self.x.span(place, length))
        out = self.o.alloc_tensor(FLOAT, length)
        for _ in range(times):
            self.core.adds(out, tile, 1.0)
        self.a.free_tensor(tile)
        self.o.copy_out(self.z.span(place, length), out)


Body = Callable[["Lines", Core], object]
STEADY: dict[str, Body] = {}
ASKING: dict[str, Body] = {}


def steady(body: Body) -> Body:
    """A body of which few turns need to be executed."""
    return STEADY.setdefault(body.__name__, body)


def asking(body: Body) -> Body:
    """A body of which all turns have to be."""
    return ASKING.setdefault(body.__name__, body)


@steady
def places(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T)


@steady
def backwards(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step((TURNS - 1) * T - i * T)
        lines.step(0 - (0 - i) * T)


@steady
def slices(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        tile = lines.a.copy_in(lines.x[i * T : (i + 1) * T])
        lines.a.free_tensor(tile)


@steady
def tiles(lines: Lines, core: Core) -> None:
    for first, length in core.tiles(0, TURNS * T - 8, T, sequential=True):
        lines.step(first, length)


@steady
def sums(lines: Lines, core: Core) -> None:
    total = lines.s.get(FLOAT, T)
    core.duplicate(total, 0.0)
    for i in core.loop(TURNS, sequential=True):
        tile = lines.a.copy_in(lines.x.span(i * T, T))
        core.add(total, total, tile)
        lines.a.free_tensor(tile)


@steady
def settles_later(lines: Lines, core: Core) -> None:
    first = True
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times=3 if first else 1)
        first = False


@steady
def loads_ahead(lines: Lines, core: Core) -> None:
    lines.a.enque(_loaded(lines, 0))
    for i in core.loop(TURNS - 1, sequential=True):
        lines.a.enque(_loaded(lines, (i + 1) * T))
        tile = lines.a.deque()
        core.adds(lines.s.get(FLOAT, T), tile, 1.0)
        lines.a.free_tensor(tile)
    lines.a.free_tensor(lines.a.deque())


def _loaded(lines: Lines, place: Any) -> Any:
    tile = lines.a.alloc_tensor(FLOAT, T)
    lines.core.copy_runs(tile, lines.x.span(place, T))
    return tile


@steady
def number_behind(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T)
    for _ in range(int(i)):
        lines.step(0)


@asking
def first_or_last(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times=5 if i == 0 else 2 if i >= TURNS - 1 else 1)


@asking
def in_the_middle(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times=4 if i == TURNS // 2 else 1)


@asking
def remainder(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times=4 if not i % 7 else 1)


@asking
def table(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, SIZES[i])


@asking
def table_of_numpy(lines: Lines, core: Core) -> None:
    sizes = np.array(SIZES)
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, int(sizes[i]))


@asking
def ranges(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        for _ in range(i):
            lines.step(i * T)


@asking
def keys(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times={9: 3}.get(i, 1) + (f"{i}" == "12") + (i in (14, 15)))


@asking
def smaller(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, min(T, TURNS * T - 16 - i * T))


@asking
def pairs(lines: Lines, core: Core) -> None:
    for i, length in zip(core.loop(TURNS, sequential=True), SIZES, strict=True):
        lines.step(i * T, length)


@asking
def numbered(lines: Lines, core: Core) -> None:
    for turn, i in enumerate(core.loop(TURNS, sequential=True)):
        lines.step(i * T, times=1 + (turn == 30))


@asking
def hidden_iterator(lines: Lines, core: Core) -> None:
    lines.lengths = iter(SIZES)
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, next(lines.lengths or iter(())))


@asking
def hidden_counter(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times=_counted())


def _counted() -> int:
    MANY[0] += 1
    return 1 + (MANY[0] % TURNS == 25)


@asking
def counter_of_an_object(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.counted += 1
        lines.step(i * T, times=1 + (lines.counted == 25))


@asking
def drawn(lines: Lines, core: Core) -> None:
    draws = random.Random(7)  # noqa: S311 - any numbers
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T, times=1 + (draws.random() < 0.2))


@asking
def leaves(lines: Lines, core: Core) -> None:
    for i in core.loop(TURNS, sequential=True):
        lines.step(i * T)
        if i == 25:
            break


@asking
def of_a_generator(lines: Lines, core: Core) -> None:
    def own() -> Iterator[Any]:
        for i in core.loop(TURNS, sequential=True):
            yield i * T

    sizes = iter(SIZES)
    for place in own():
        lines.step(place, next(sizes))


def run(body: Body, *, shapes: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[float, int]:
    """The time of a body, and how many instructions were written down for it."""
    given, emit = [0], Recorder.emit

    def counting(self: Recorder, *arguments: Any, **options: Any) -> Any:
        given[0] += 1
        return emit(self, *arguments, **options)

    def process(core: Core, x: GlobalTensor, z: GlobalTensor) -> None:
        body(Lines(core, x, z), core)

    MANY[0] = 0
    own = kernel(process)
    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "emit", counting)
        spec = TensorSpec((TURNS * T,), "float32")
        arrays = [np.zeros(TURNS * T, np.float32) for _ in range(2)]
        tensors = [spec, spec] if shapes else arrays
        return Device(CHIP).launch(own, *tensors, block_dim=1).duration_us, given[0]


@pytest.mark.parametrize("name", [*STEADY, *ASKING])
def test_shapes_take_the_time_of_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {**STEADY, **ASKING}[name]
    wanted, _ = run(body, shapes=False, monkeypatch=monkeypatch)
    found, given = run(body, shapes=True, monkeypatch=monkeypatch)
    assert found == wanted
    turns_behind = TURNS if name == "number_behind" else 0
    assert name in ASKING or given < 3 * (10 + turns_behind)


def test_a_turn_that_leaves_its_tensor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one does, which is executed; the first ones do not."""

    def beyond(lines: Lines, core: Core) -> None:
        for i in core.loop(TURNS, sequential=True):
            lines.step(i * T + 8)

    with pytest.raises(KernelError, match="a copy goes from element"):
        run(beyond, shapes=True, monkeypatch=monkeypatch)


def test_tiles_that_are_kept_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps(lines: Lines, core: Core) -> None:
        lines.a = TQue(TPosition.VECIN, 8, "kept")
        core.pipe.init_buffer(lines.a, 8, 4 * T)
        for i in core.loop(TURNS, sequential=True):
            lines.a.copy_in(lines.x.span(i * T, T))

    with pytest.raises(TileStateError, match="has 8 tiles and all of them are in use"):
        run(keeps, shapes=True, monkeypatch=monkeypatch)
