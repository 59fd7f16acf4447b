"""What a user's kernel carries, compares and leaves: computed as it is written, or refused."""

# ruff: noqa: ARG001 - all bodies are called alike

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.ascendc import FLOAT, Core, GlobalTensor, Pipe, TBuf, TPosition, TQue
from npusim.values.errors import KernelError

T, N = 64, 4
X = np.arange(N * T, dtype=np.float32)
ROWS = X.reshape(N, T)

Body = Callable[..., Any]


def queues(core: Core) -> tuple[TQue, TQue]:
    come, go = TQue(TPosition.VECIN, 1, "come"), TQue(TPosition.VECOUT, 1, "go")
    core.pipe.init_buffer(come, 2, T * 4)
    core.pipe.init_buffer(go, 2, T * 4)
    return come, go


class Lines:
    """What the bodies below have in common: z[i] = x[i] + number, a tile at a time."""

    def __init__(self, core: Core, x: GlobalTensor, z: GlobalTensor) -> None:
        self.core, self.x, self.z = core, x, z
        self.come, self.go = queues(core)

    def line(self, turn: Any, number: float = 1.0) -> None:
        tile = self.come.copy_in(self.x.span(turn * T, T))
        result = self.core.adds(self.go.alloc_tensor(FLOAT, T), tile, number)
        self.come.free_tensor(tile)
        self.go.copy_out(self.z.span(turn * T, T), result)

    def fill(self, target: Any, number: float) -> None:
        result = self.core.duplicate(self.go.alloc_tensor(FLOAT, T), number)
        self.go.copy_out(target, result)

    def store(self, target: Any, tile: Any) -> None:
        result = self.core.adds(self.go.alloc_tensor(FLOAT, T), tile, 0.0)
        self.go.copy_out(target, result)


def run(
    body: Callable[[Lines, Core, Any, Any], Any], *, literal: bool = False
) -> tuple[Any, Any, float]:
    """x and z behind the launch of a body, and its time."""

    @npusim.kernel(writes=("x", "z"))
    def kernel(core: Core, x: GlobalTensor, z: GlobalTensor) -> Any:
        return body(Lines(core, x, z), core, x, z)

    kernel.literal = literal
    x, z = X.copy(), np.zeros_like(X)
    result = npusim.Device("910b3").launch(kernel, x, z, block_dim=1)
    return x, z, result.duration_us


# -- tiles keep their numbers ----------------------------------------------------------------------


def overwritten_tile(lines: Lines, core: Core, x: Any, z: Any) -> None:
    tile = lines.come.copy_in(x.span(0, T))
    lines.fill(x.span(0, T), 7.0)
    lines.store(z.span(0, T), tile)
    lines.come.free_tensor(tile)


def added_to(lines: Lines, core: Core, x: Any, z: Any) -> None:
    tile = lines.come.copy_in(x.span(0, T))
    core.set_atomic_add()
    lines.fill(x.span(0, T), 7.0)
    core.set_atomic_none()
    lines.store(z.span(0, T), tile)
    lines.come.free_tensor(tile)


def scratch(lines: Lines, core: Core, x: Any, z: Any) -> None:
    buffer = TBuf("s")
    core.pipe.init_buffer(buffer, 1, T * 4)
    tile = buffer.get(FLOAT, T)
    core.data_copy(tile, x.span(0, T))
    core.pipe_barrier()
    lines.fill(x.span(0, T), 7.0)
    lines.store(z.span(0, T), tile)


def overlapping(lines: Lines, core: Core, x: Any, z: Any) -> None:
    both = TQue(TPosition.VECIN, 1, "both", consumer=Pipe.MTE3)
    core.pipe.init_buffer(both, 1, T * 4)
    tile = both.alloc_tensor(FLOAT, T)
    core.data_copy(tile, x.span(0, T))
    both.enque(tile)
    tile = both.deque()
    core.data_copy(x.span(8, T), tile)
    core.data_copy(z.span(0, T), tile)
    both.free_tensor(tile)


def swapped(lines: Lines, core: Core, x: Any, z: Any) -> None:
    one, two = lines.come.copy_in(x.span(0, T)), lines.come.copy_in(x.span(T, T))
    lines.store(x.span(0, T), two)
    lines.store(x.span(T, T), one)
    lines.store(z.span(0, T), one)
    lines.come.free_tensor(two)
    lines.come.free_tensor(one)


def of_a_scalar(lines: Lines, core: Core, x: Any, z: Any) -> None:
    tile = lines.come.copy_in(x.span(0, T))
    number = core.get_value(tile, 5)
    lines.fill(x.span(0, T), 7.0)
    result = core.duplicate(lines.go.alloc_tensor(FLOAT, T), number)
    core.sub(result, result, result)
    core.add(result, result, tile)
    lines.come.free_tensor(tile)
    lines.go.copy_out(z.span(0, T), result)


@pytest.mark.parametrize("literal", [False, True], ids=["fast", "reference"])
@pytest.mark.parametrize(
    "body", [overwritten_tile, added_to, scratch, overlapping, swapped, of_a_scalar]
)
def test_a_tile_keeps_its_numbers(body: Body, literal: bool) -> None:
    x, z, _ = run(body, literal=literal)
    np.testing.assert_array_equal(z[:T], X[:T])
    if body is swapped:
        np.testing.assert_array_equal(x[: 2 * T], np.roll(X[: 2 * T], T))


def test_a_broadcast_column_keeps_its_numbers() -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any) -> None:
        buffer, eight = TBuf("s"), (((0, 1),), (8, 8), (8, 1))
        core.pipe.init_buffer(buffer, 1, T * 4)
        column = core.duplicate(buffer.get(FLOAT, 8), 2.0)
        spread = core.broadcast_column(column)
        core.duplicate(column, 5.0)
        tile = lines.come.copy_in(x.window(*eight))
        result = core.mul(lines.go.alloc_tensor(FLOAT, 8, 8), tile, spread)
        lines.come.free_tensor(tile)
        lines.go.copy_out(z.window(*eight), result)

    np.testing.assert_array_equal(run(body)[1][:T], 2 * X[:T])


def test_slots_may_be_freed_in_any_order() -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any) -> None:
        one = core.duplicate(lines.go.alloc_tensor(FLOAT, T), 1.0)
        lines.fill(z.span(T, T), 2.0)
        lines.fill(z.span(2 * T, T), 3.0)
        lines.go.copy_out(z.span(0, T), one)

    np.testing.assert_array_equal(run(body)[1].reshape(N, T)[:, 0], [1, 2, 3, 0])


# -- an index is a number, or refuses --------------------------------------------------------------

QUESTIONS: dict[str, Callable[[Any], bool]] = {
    "i == 0": lambda i: bool(i == 0),
    "i != 0": lambda i: bool(i != 0),
    "not i": lambda i: not i,
    "i % 2": lambda i: bool(i % 2),
    "i // 2": lambda i: bool(i // 2),
    "i in": lambda i: i in (0, 2),
    "key": lambda i: {0: True}.get(i, False),
    "text": lambda i: f"{i}" == "1",
    "str": lambda i: str(i) == "1",
    "<": lambda i: bool(i < 2),
    "min": lambda i: min(i, 1) == 1,
    "place": lambda i: [True, False, True, True][i],
    "int": lambda i: int(i) == 3,
    "range": lambda i: len(range(i)) == 2,
    "float": lambda i: i * 0.5 == 1.0,
    "power": lambda i: bool(i**2 == 4),
    "and": lambda i: bool(i & 1),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_index_answers_as_a_number_or_refuses(name: str) -> None:
    asked = QUESTIONS[name]

    def body(lines: Lines, core: Core, x: Any, z: Any, *, sequential: bool) -> None:
        for turn in core.loop(N, sequential=sequential):
            lines.line(turn, 5.0 if asked(turn) else 1.0)

    wanted = (ROWS + np.array([[5.0 if asked(i) else 1.0] for i in range(N)], np.float32)).ravel()
    for literal in (False, True):
        np.testing.assert_array_equal(
            run(partial(body, sequential=True), literal=literal)[1], wanted
        )
    with pytest.raises(KernelError, match=r"index .*\n.*sequential=True"):
        run(partial(body, sequential=False))


def test_a_sequential_index_is_a_number() -> None:
    found: list[Any] = []

    def body(lines: Lines, core: Core, x: Any, z: Any) -> None:
        for turn in core.loop(N, sequential=True):
            found.append(turn)
            lines.line(turn)

    run(body)
    assert found == 2 * [0, 1, 2, 3]  # the first launch is followed beforehand
    assert all(isinstance(each, int) for each in found)


def test_the_time_is_that_of_each_iterations_branch() -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any, *, special: Any) -> None:
        for turn in core.loop(N, sequential=True):
            if turn == special:
                for _ in range(40):
                    lines.line(turn)
            lines.line(turn)

    alike, first, last = (run(partial(body, special=special))[2] for special in (None, 0, N - 1))
    assert first > 2 * alike
    assert last > 2 * alike


# -- what a body carries ---------------------------------------------------------------------------


class Counted:
    number = 0.0


def counter(lines: Lines, core: Core, turns: Any) -> None:
    number = 0.0
    for turn in turns:
        number += 1.0
        lines.line(turn, number)


def long_list(lines: Lines, core: Core, turns: Any) -> None:
    known: list[Any] = []
    for turn in turns:
        known.append(turn)
        lines.line(turn, float(len(known)))


def enumerated(lines: Lines, core: Core, turns: Any) -> None:
    for number, turn in enumerate(turns):
        lines.line(turn, number + 1.0)


def zipped(lines: Lines, core: Core, turns: Any) -> None:
    for turn, number in zip(turns, (1.0, 2.0, 3.0, 4.0), strict=True):
        lines.line(turn, number)


def iterated(lines: Lines, core: Core, turns: Any) -> None:
    numbers = iter((1.0, 2.0, 3.0, 4.0))
    for turn in turns:
        lines.line(turn, next(numbers))


def attribute(lines: Lines, core: Core, turns: Any) -> None:
    held = Counted()
    for turn in turns:
        held.number += 1.0
        lines.line(turn, {3.0: 3.0, 4.0: 4.0, 2.0: 2.0}.get(held.number, 1.0))


def third_only(lines: Lines, core: Core, turns: Any) -> None:
    count = 1.0
    for turn in turns:
        lines.line(turn, count if count > 2.0 else 2.0 if count == 2.0 else 1.0)
        count += 1.0


CARRIED = [counter, long_list, enumerated, zipped, iterated, attribute, third_only]


@pytest.mark.parametrize("carries", CARRIED)
def test_values_are_carried_through_sequential_loops_alone(carries: Body) -> None:
    wanted = (ROWS + np.arange(1, N + 1, dtype=np.float32)[:, None]).ravel()
    for literal in (False, True):
        _, z, _ = run(
            lambda lines, core, *_: carries(lines, core, core.loop(N, sequential=True)),
            literal=literal,
        )
        np.testing.assert_array_equal(z, wanted)
    with pytest.raises(KernelError, match=r"iteration(.|\n)*sequential=True"):
        run(lambda lines, core, *_: carries(lines, core, core.loop(N)))


def through_memory(lines: Lines, core: Core, turns: Any) -> None:
    for turn in turns:
        core.pipe_barrier()
        tile = lines.come.copy_in(lines.x.span(turn * T, T))
        result = core.adds(lines.go.alloc_tensor(FLOAT, T), tile, 1.0)
        lines.come.free_tensor(tile)
        lines.go.copy_out(lines.x.span(turn * T + T, T), result)


def stored_twice(lines: Lines, core: Core, turns: Any) -> None:
    for turn in turns:
        lines.fill(lines.x.span(turn * T, T), 1.0)
        lines.fill(lines.x.span(turn * T + T, T), 2.0)


def previous(lines: Lines, core: Core, turns: Any) -> None:
    before = lines.come.copy_in(lines.x.span(0, T))
    for turn in turns:
        tile = lines.come.copy_in(lines.x.span(turn * T + T, T))
        lines.store(lines.x.span(turn * T + T, T), core.add(before, before, tile))
        lines.come.free_tensor(before)
        before = tile
    lines.come.free_tensor(before)


@pytest.mark.parametrize(
    ("carries", "wanted"),
    [
        (through_memory, [ROWS[0], ROWS[0] + 1, ROWS[0] + 2, ROWS[0] + 3]),
        (stored_twice, [0 * X[:T] + 1] * 3 + [0 * X[:T] + 2]),
        (previous, [ROWS[0], *(ROWS[:-1] + ROWS[1:])]),
    ],
)
def test_memory_and_tiles_carry_through_sequential_loops_alone(carries: Body, wanted: Any) -> None:
    x, _, _ = run(lambda lines, core, *_: carries(lines, core, core.loop(N - 1, sequential=True)))
    np.testing.assert_array_equal(x, np.concatenate(wanted))
    with pytest.raises(KernelError, match=r"iterations(.|\n)*sequential=True"):
        run(lambda lines, core, *_: carries(lines, core, core.loop(N - 1)))


@pytest.mark.parametrize("sequential", [False, True])
def test_a_number_of_the_scalar_unit_is_carried_through_sequential_loops_alone(
    sequential: bool,
) -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any) -> None:
        buffer, total = TBuf("s"), None
        core.pipe.init_buffer(buffer, 1, 32)
        for turn in core.loop(N, sequential=sequential):
            tile = lines.come.copy_in(x.span(turn * T, T))
            number = core.get_value(core.reduce_max(buffer.get(FLOAT, 1), tile), 0)
            lines.come.free_tensor(tile)
            total = number if total is None else total + number
        lines.go.copy_out(z.span(0, T), core.duplicate(lines.go.alloc_tensor(FLOAT, T), total))

    if sequential:
        np.testing.assert_array_equal(run(body)[1][:T], ROWS.max(1).sum())
    else:
        with pytest.raises(KernelError, match="carried from one iteration to the next"):
            run(body)


# -- loops that are left, indices that are kept ----------------------------------------------------


def test_sequential_loops_may_be_left() -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any, *, count: int, sequential: bool) -> None:
        for turn in core.loop(count, sequential=sequential):
            lines.line(turn)
            break

    _, z, left = run(partial(body, count=N, sequential=True))
    _, same, alone = run(partial(body, count=1, sequential=False))
    np.testing.assert_array_equal(z[: 2 * T], np.concatenate([X[:T] + 1, 0 * X[:T]]))
    np.testing.assert_array_equal(z, same)
    assert left == alone
    with pytest.raises(KernelError, match=r"left before its end(.|\n)*sequential=True"):
        run(partial(body, count=N, sequential=False))


def test_an_index_is_used_within_its_loop() -> None:
    def behind(lines: Lines, core: Core, x: Any, z: Any, *, sequential: bool) -> None:
        for turn in core.loop(N, sequential=sequential):
            last = turn
        lines.line(last)

    def listed(lines: Lines, core: Core, x: Any, z: Any) -> None:
        for turn in list(core.loop(N)):
            lines.line(turn)

    _, z, _ = run(partial(behind, sequential=True))
    np.testing.assert_array_equal(z[-T:], X[-T:] + 1)
    for body in (listed, partial(behind, sequential=False)):
        with pytest.raises(KernelError, match="used outside of its loop"):
            run(body)


def test_two_indices_are_two_places() -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any, *, sequential: bool) -> None:
        for one in core.loop(2, sequential=sequential):
            for two in core.loop(2, sequential=sequential):
                lines.line(one * 2 + two)

    np.testing.assert_array_equal(run(partial(body, sequential=True))[1], X + 1)
    with pytest.raises(KernelError, match=r"two loops' indices(.|\n)*x\.window"):
        run(partial(body, sequential=False))


@pytest.mark.parametrize("step", [-32, 32, 8])
def test_overlapping_stores_come_in_the_order_of_their_iterations(step: int) -> None:
    def body(lines: Lines, core: Core, x: Any, z: Any) -> None:
        for turn in core.loop(N):
            tile = lines.come.copy_in(x.window(((turn, T),), (2, 32), (32, 1)))
            result = core.adds(lines.go.alloc_tensor(FLOAT, 2, 32), tile, 1.0)
            lines.come.free_tensor(tile)
            lines.go.copy_out(z.window(((turn, step), (96, 1)), (2, 32), (16, 1)), result)

    _, z, _ = run(body)
    wanted = np.zeros_like(X)
    for turn in range(N):
        for row in range(2):
            first = 96 + step * turn + 16 * row
            wanted[first : first + 32] = ROWS[turn].reshape(2, 32)[row] + 1
    np.testing.assert_array_equal(z, wanted)


# -- barriers, and what is returned ----------------------------------------------------------------


def test_a_barrier_is_yielded() -> None:
    def silent(lines: Lines, core: Core, x: Any, z: Any) -> None:
        core.sync_all()

    with pytest.raises(KernelError, match=r"Write yield core\.sync_all"):
        run(silent)

    def forgotten(lines: Lines, core: Core, x: Any, z: Any) -> Any:
        core.sync_all()
        yield core.sync_all()

    with pytest.raises(KernelError, match=r"Write yield core\.sync_all"):
        run(forgotten)


@pytest.mark.parametrize("what", [None, 5, "x", ()])
def test_nothing_else_is_yielded_or_returned(what: object) -> None:
    def yields(lines: Lines, core: Core, x: Any, z: Any) -> Any:
        yield what

    with pytest.raises(KernelError, match="its code yields"):
        run(yields)
    if what is not None:
        with pytest.raises(KernelError, match="its code returns"):
            run(lambda *_: what)


# -- strided operands ------------------------------------------------------------------------------


@npusim.kernel
def plus_one(core: Core, x: GlobalTensor, z: GlobalTensor, *, windows: bool) -> None:
    lines = Lines(core, x, z)
    for turn in core.loop(N):
        if windows:
            tile = lines.come.copy_in(x.window(((turn, T),), (T,), (1,)))
            result = core.adds(lines.go.alloc_tensor(FLOAT, T), tile, 1.0)
            lines.come.free_tensor(tile)
            lines.go.copy_out(z.window(((turn, T),), (T,), (1,)), result)
        else:
            lines.line(turn)


def test_a_span_follows_the_strides_of_its_tensor() -> None:
    npu, whole, into = npusim.Device("910b3"), np.arange(2 * N * T, dtype=np.float32), X.copy()
    npu.launch(plus_one, whole[::2], into, block_dim=1, windows=False)
    np.testing.assert_array_equal(into, whole[::2] + 1)
    out = np.zeros_like(whole)
    npu.launch(plus_one, X, out[::2], block_dim=1, windows=False)
    np.testing.assert_array_equal(out[::2], X + 1)
    assert not out[1::2].any()


def test_elements_that_nobody_passed_are_left_alone() -> None:
    npu, whole = npusim.Device("910b3"), np.zeros((16, 32), np.float32)
    for windows, operand in ((False, whole[:, :16]), (True, whole.reshape(-1)[::2])):
        with pytest.raises(KernelError, match="strides"):
            npu.launch(plus_one, X, operand, block_dim=1, windows=windows)
        assert not whole.any()
