"""The kernel language refuses what the chip would object to: where, why, and what to write."""

from __future__ import annotations

from inspect import currentframe
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.ascendc import (
    FLOAT,
    FLOAT16,
    CmpMode,
    Core,
    Event,
    GlobalTensor,
    Kernel,
    LocalTensor,
    Pipe,
    TBuf,
    TPosition,
    TQue,
    TQueBind,
)
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.values.errors import (
    BufferOverflowError,
    DeadlockError,
    KernelCodeError,
    KernelError,
    TileStateError,
)
from support.kernels import content, gm, numbers, queues, run, scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Body = "Callable[[Core], Any]"
HERE = "ascendc/test_language_checks.py"


class Line:
    """Remembers a line of this file: ``line.here()`` stands where an error is expected."""

    number = 0

    def here(self) -> None:
        frame = currentframe()
        assert frame is not None
        assert frame.f_back is not None
        self.number = frame.f_back.f_lineno + 1


def refused(body: Callable[[Core], Any], line: Line, *, numerics: bool = True) -> KernelError:
    """The error of a kernel, which names the kernel and the line behind ``line.here()``."""
    with pytest.raises(KernelError) as error:
        run(body, *TENSORS, numerics=numerics)
    assert error.value.kernel == "Probe"
    assert error.value.site == f"{HERE}:{line.number}"
    assert error.value.message.startswith(f"kernel Probe, {HERE}:{line.number}: ")
    assert error.value.remedy
    return error.value


X, Y = gm(numbers(16, 64)), gm(np.zeros((16, 64), np.float32), "y")
TENSORS = (X, Y)
BOTH = pytest.mark.parametrize("numerics", [True, False], ids=["run", "estimate"])


# -- tiles of queues -------------------------------------------------------------------------------


@BOTH
def test_a_tile_that_is_enqueued_and_not_dequeued_cant_be_used(numerics: bool) -> None:
    line = Line()

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        tile = into.alloc_tensor(FLOAT, 64)
        core.data_copy(tile, X[0])
        into.enque(tile)
        line.here()
        core.muls(out.alloc_tensor(FLOAT, 64), tile, 2.0)

    error = refused(body, line, numerics=numerics)
    assert isinstance(error, TileStateError)
    assert "tile of queue in is used, but it is enqueued and not dequeued" in error.message
    assert error.remedy == "Write tile = in.deque() first; it waits for the producer."


@BOTH
def test_a_tile_that_is_enqueued_and_not_dequeued_cant_be_freed(numerics: bool) -> None:
    line = Line()

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        tile = into.alloc_tensor(FLOAT, 64)
        into.enque(tile)
        line.here()
        into.free_tensor(tile)

    error = refused(body, line, numerics=numerics)
    assert "queue in is freed, but it is enqueued and not dequeued" in error.message
    assert "tile = in.deque() between enque and the first use" in error.remedy


def test_a_tile_that_is_never_enqueued_cant_be_freed() -> None:
    line = Line()

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        tile = into.alloc_tensor(FLOAT, 64)
        core.data_copy(tile, X[0])
        line.here()
        into.free_tensor(tile)

    assert "in.enque(tile) when it is filled" in refused(body, line).remedy


def test_a_tile_that_is_not_enqueued_cant_be_dequeued() -> None:
    line = Line()

    def body(core: Core, *, named: bool) -> None:
        into, _ = queues(core, 64)
        tile = into.alloc_tensor(FLOAT, 64)
        line.here()
        into.deque(tile if named else None)

    error = refused(lambda core: body(core, named=True), line)
    assert "queue in is dequeued, but it is not enqueued" in error.message
    error = refused(lambda core: body(core, named=False), line)
    assert "deque of queue in, in which nothing is enqueued" in error.message
    assert "in.enque(tile)" in error.remedy


USES: dict[str, Callable[[Core, LocalTensor, LocalTensor], object]] = {
    "source": lambda core, tile, other: core.adds(other, tile, 1.0),
    "destination": lambda core, tile, other: core.adds(tile, other, 1.0),
    "part": lambda core, tile, other: core.adds(other[:8], tile[8:16], 1.0),
    "fill": lambda core, tile, _: core.duplicate(tile, 1.0),
    "sum": lambda core, tile, other: core.reduce_sum(other[:1], tile),
    "load": lambda core, tile, _: core.data_copy(tile, X[0]),
    "store": lambda core, tile, _: core.data_copy(Y[0], tile),
    "scalar": lambda core, tile, _: core.get_value(tile, 3),
    "comparison": lambda core, tile, other: core.compare(tile, other, other, CmpMode.LT),
}


@BOTH
@pytest.mark.parametrize("use", USES)
def test_a_tile_cant_be_used_after_it_is_freed(use: str, numerics: bool) -> None:
    line = Line()

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        other = core.duplicate(scratch(core, FLOAT, 64), 1.0)
        tile = into.copy_in(X[0])
        into.free_tensor(tile)
        line.here()
        USES[use](core, tile, other)

    with pytest.raises(TileStateError, match="queue in is used, but it is freed") as error:
        run(body, *TENSORS, numerics=numerics)
    assert error.value.kernel == "Probe"
    assert "freed (at ascendc/test_language_checks.py:" in error.value.message
    assert error.value.remedy == "Call in.free_tensor(tile) behind its last use."


def test_a_tile_is_freed_and_enqueued_and_dequeued_once() -> None:
    steps: dict[str, tuple[Callable[[TQue, LocalTensor], object], str]] = {
        "freed": (lambda queue, tile: queue.free_tensor(tile), "Free a tile once."),
        "enqueued": (lambda queue, tile: queue.enque(tile), "Allocate a new tile"),
        "dequeued": (lambda queue, tile: queue.deque(tile), "Allocate a new tile"),
    }
    for tried, (step, remedy) in steps.items():
        line = Line()

        def body(
            core: Core, step: Callable[[TQue, LocalTensor], object] = step, line: Line = line
        ) -> None:
            into, _ = queues(core, 64)
            tile = into.copy_in(X[0])
            into.free_tensor(tile)
            step(into, tile)
            del line

        with pytest.raises(TileStateError, match=f"queue in is {tried}, but it is freed") as error:
            run(body, *TENSORS)
        assert remedy in error.value.remedy


@BOTH
def test_no_more_tiles_than_the_queue_has(numerics: bool) -> None:
    line = Line()

    def body(core: Core) -> None:
        into, _ = queues(core, 64, depth=2)
        into.copy_in(X[0])
        into.copy_in(X[1])
        line.here()
        into.copy_in(X[2])

    error = refused(body, line, numerics=numerics)
    assert "queue in has 2 tiles and all of them are in use" in error.message
    assert "in.free_tensor(tile) before the next alloc_tensor" in error.remedy


@BOTH
def test_no_tile_is_left_behind(numerics: bool) -> None:
    line = Line()

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        line.here()
        into.copy_in(X[0])

    error = refused(body, line, numerics=numerics)
    assert "tile of queue in is dequeued and not freed when the kernel ends" in error.message
    assert error.remedy == "Write in.free_tensor(tile) when its last use is over."


def test_a_tile_from_outside_isnt_freed_in_every_iteration() -> None:
    line = Line()

    def body(core: Core) -> None:
        into, _ = queues(core, 64)
        tile = into.copy_in(X[0])
        for _ in core.loop(4):
            line.here()
            into.free_tensor(tile)

    error = refused(body, line)
    assert "allocated once" in error.message
    assert "each of 4 iterations" in error.message


def test_a_tile_goes_back_to_its_own_queue() -> None:
    line = Line()

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        tile = into.copy_in(X[0])
        line.here()
        out.enque(tile)

    assert "in is no tile of queue out" in refused(body, line).message


def test_tiles_worked_on_in_place_have_states_too() -> None:
    line = Line()

    def body(core: Core) -> None:
        both = TQueBind(1, "both")
        core.pipe.init_buffer(both, 1, 256)
        tile = both.copy_in(X[0])
        both.copy_out(Y[0], tile)
        line.here()
        core.muls(tile, tile, 2.0)

    assert "queue both is used, but it is freed" in refused(body, line).message


def test_deque_without_a_tile_takes_the_oldest() -> None:
    def body(core: Core) -> None:
        into, out = queues(core, 64)
        for row in (0, 1):
            tile = into.alloc_tensor(FLOAT, 64)
            core.data_copy(tile, X[row])
            into.enque(tile)
        for row in (0, 1):
            tile = into.deque()
            result = core.muls(out.alloc_tensor(FLOAT, 64), tile, 1.0 + row)
            into.free_tensor(tile)
            out.copy_out(Y[row], result)

    run(body, *TENSORS)
    np.testing.assert_array_equal(content(Y)[:2], content(X)[:2] * [[1.0], [2.0]])


# -- numbers carried through loops -----------------------------------------------------------------


def summing(line: Line, *, sequential: bool = False, fetched: str = "inside") -> Any:
    """Adds rows up in scratch memory."""

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        total = TBuf("total")
        core.pipe.init_buffer(total, 1, 256)
        sums = core.duplicate(total.get(FLOAT, 64), 0.0)
        for row in core.loop(16, sequential=sequential):
            tile = into.copy_in(X[row])
            if fetched == "inside":
                sums = total.get(FLOAT, 64)
            line.here()
            core.add(sums, sums, tile)
            into.free_tensor(tile)
        out.copy_out(Y[0], core.muls(out.alloc_tensor(FLOAT, 64), total.get(FLOAT, 64), 1.0))

    return body


@BOTH
def test_a_sum_in_a_buffer_fetched_inside_the_loop_is_refused(numerics: bool) -> None:
    line = Line()
    error = refused(summing(line), line, numerics=numerics)
    assert "total carries numbers into or out of a loop" in error.message
    assert error.remedy.startswith("Loop with sequential=True")


@BOTH
def test_a_sum_in_a_buffer_fetched_outside_the_loop_is_refused(numerics: bool) -> None:
    line = Line()
    error = refused(summing(line, fetched="outside"), line, numerics=numerics)
    assert "total is written in a loop and shared by all its iterations" in error.message
    assert error.remedy.startswith("Loop with sequential=True if iterations build on each other")


@pytest.mark.parametrize("fetched", ["inside", "outside"])
def test_what_the_message_recommends_gives_the_right_sum(fetched: str) -> None:
    run(summing(Line(), sequential=True, fetched=fetched), *TENSORS)
    np.testing.assert_allclose(content(Y)[0], content(X).sum(axis=0), rtol=1e-6)


def test_scratch_memory_that_nobody_filled_cant_be_read() -> None:
    line = Line()

    def body(core: Core) -> None:
        tile = scratch(core, FLOAT, 64)
        line.here()
        core.muls(tile, tile, 2.0)

    assert "t is read before anything is written to it" in refused(body, line).message


# -- operands --------------------------------------------------------------------------------------

MIXES: dict[str, Callable[[Core, LocalTensor, LocalTensor], object]] = {
    "vmul": lambda core, single, half: core.mul(single, half, single),
    "vadds": lambda core, single, half: core.adds(single, half, 1.0),
    "vmax": lambda core, single, half: core.max(half, single, single),
    "vcmpv_lt": lambda core, single, half: core.compare(half, single, half, CmpMode.LT),
    "vsel": lambda core, single, half: core.select(single, half, single, half),
    "copy": lambda core, single, half: core.copy(half, single),
    "vadd": lambda core, single, half: core.reduce_sum(half[:1], single),
}


@BOTH
@pytest.mark.parametrize("name", MIXES)
def test_operands_of_one_intrinsic_have_one_dtype(name: str, numerics: bool) -> None:
    def body(core: Core) -> None:
        single = core.duplicate(scratch(core, FLOAT, 64, name="single"), 1.0)
        half = core.duplicate(scratch(core, FLOAT16, 64, name="half"), 1.0)
        MIXES[name](core, single, half)

    with pytest.raises(KernelError, match=f"{name} on operands of different dtypes") as error:
        run(body, *TENSORS, numerics=numerics)
    for part in (
        "single FLOAT",
        "half FLOAT16",
        "kernel Probe, ascendc/test_language_checks.py:",
    ):
        assert part in error.value.message
    assert "core.cast" in error.value.remedy


# -- the rest of what goes wrong in a kernel -------------------------------------------------------


class Uneven(Kernel):
    """The last block has twice the work; ``alike`` says that all have the same."""

    block_dim = 4

    def __init__(self, *tensors: GlobalTensor, alike: bool) -> None:
        self.reads, self.writes, self.alike = tensors[:1], tensors[1:], alike

    def block_kind(self, block_idx: int) -> Hashable:
        return 0 if self.alike else block_idx == 3

    def process(self, core: Core) -> None:
        into, out = queues(core, 64)
        for _ in core.loop(2 if core.get_block_idx() == 3 else 1):
            tile = into.copy_in(X[core.get_block_idx()])
            out.copy_out(Y[core.get_block_idx()], core.abs(out.alloc_tensor(FLOAT, 64), tile))
            into.free_tensor(tile)


def test_blocks_that_are_called_alike_have_to_be_alike() -> None:
    from npusim.ascendc import trace

    profile = Device("Ascend910B3").profile
    trace(Uneven(*TENSORS, alike=False), profile, numerics=True)
    with pytest.raises(KernelError, match="block_kind calls blocks 0 and 3 alike") as error:
        trace(Uneven(*TENSORS, alike=True), profile, numerics=True)
    assert error.value.kernel == "Uneven"
    assert "tells them apart" in error.value.remedy


class Deadlocked(Kernel):
    """MTE2 waits for an event that the vector unit never sets."""

    def __init__(self, _: object, x: GlobalTensor, y: GlobalTensor) -> None:
        self.x, self.y, self.reads, self.writes = x, y, (x,), (y,)

    def process(self, core: Core) -> None:
        never = Event(core, Pipe.VECTOR, Pipe.MTE2)
        into, out = queues(core, 64)
        never.wait()
        tile = into.copy_in(self.x.span(0, 64))
        out.copy_out(self.y.span(0, 64), core.abs(out.alloc_tensor(FLOAT, 64), tile))
        into.free_tensor(tile)


def test_a_deadlock_names_what_each_pipe_waits_for_and_where() -> None:
    spec = TensorSpec((64,), "float32")
    with pytest.raises(DeadlockError) as error:
        Device("Ascend910B3").launch(Deadlocked, spec, spec, block_dim=1)
    assert error.value.kernel == "Deadlocked"
    waits = "\n".join(error.value.waits)
    for part in (
        "MTE2 of core 0 waits for an event set by VECTOR",
        "VECTOR of core 0 waits for an enqueued tile of queue in",
        "MTE3 of core 0 waits for an enqueued tile of queue out",
    ):
        assert part in waits
    assert waits.count("ascendc/test_language_checks.py:") == 3
    assert all(wait in error.value.message for wait in error.value.waits)


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda core: core.ad(1), "AttributeError: 'Core' object has no attribute 'ad'"),
        (lambda core: core.add(), "TypeError"),
        (lambda core: core.cast(scratch(core, FLOAT, 8), 3.0), "AttributeError: 'float'"),
        (lambda _: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_mistake_in_python_is_told_with_its_line(
    mistake: Callable[[Core], object], text: str
) -> None:
    with pytest.raises(KernelCodeError, match=text) as error:
        run(mistake, *TENSORS)
    assert error.value.message.startswith("kernel Probe, ascendc/test_language_checks.py:")
    assert error.value.exit_code == 1


def test_a_buffer_that_doesnt_fit_is_told_with_its_line() -> None:
    line = Line()

    def body(core: Core) -> None:
        queue = TQue(TPosition.VECIN, 2, "wide")
        line.here()
        core.pipe.init_buffer(queue, 2, 1 << 20)

    assert isinstance(refused(body, line), BufferOverflowError)


def test_a_queue_without_memory_says_so() -> None:
    line = Line()

    def body(_: Core) -> None:
        queue = TQue(TPosition.VECIN, 2, "bare")
        line.here()
        queue.alloc_tensor(FLOAT, 64)

    assert "core.pipe.init_buffer(bare" in refused(body, line).remedy


def test_a_tensor_isnt_used_behind_the_loop_in_which_it_was_fetched() -> None:
    line = Line()

    def body(core: Core) -> None:
        ones = TBuf("ones")
        core.pipe.init_buffer(ones, 1, 256)
        for _ in core.loop(4):
            tile = core.duplicate(ones.get(FLOAT, 64), 1.0)
        line.here()
        core.muls(tile, tile, 2.0)

    assert "ones is used behind the loop in which it was fetched" in refused(body, line).message


@BOTH
@pytest.mark.parametrize("moved", [False, True], ids=["at all", "a second time"])
def test_numbers_dont_move_in_ub_without_an_instruction(moved: bool, numerics: bool) -> None:
    line = Line()

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        row, result = into.copy_in(X[0]), out.alloc_tensor(FLOAT, 64)
        if moved:
            core.move_blocks(result, row, 256)
            core.arrange(result, row)
        line.here()
        core.arrange(result, row, how=lambda values: values[..., ::-1])

    error = refused(body, line, numerics=numerics)
    assert "no instruction brings what in has to out" in error.message
    assert "move_bursts" in error.remedy


def test_numbers_move_in_ub_as_the_kernel_says() -> None:
    x, y = gm(numbers(64)), gm(np.zeros(64, np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        row, result = into.copy_in(x[:]), out.alloc_tensor(FLOAT, 64)
        core.move_elements(result, row, 64)
        core.arrange(result, row, how=lambda values: values[..., ::-1])
        into.free_tensor(row)
        out.copy_out(y[:], result)

    run(body, x, y)
    np.testing.assert_array_equal(content(y), numbers(64)[::-1])


@pytest.mark.parametrize("op_type", ["Relu", "AddN", "SoftmaxV2", "MatMulV2", "ReduceSum"])
def test_the_kernels_that_come_along_are_known_as_such(op_type: str) -> None:
    """Their errors are faults of the library, whoever has made their classes."""
    x = TensorSpec((64, 64), "float16")
    count = {"AddN": 2, "MatMulV2": 2}.get(op_type, 1)
    task = TaskSpec(op_type, (x,) * count, (x,))
    for kernel in kernels_of(load_profile("Ascend910B3"), task):
        assert type(kernel).__module__.startswith("npusim.")
