"""Tasks run twice: as ever, and in the reference mode, tile by tile without any shortcut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GlobalTensor, Kernel, trace
from npusim.ascendc.issuing import ISSUE

if TYPE_CHECKING:
    from npusim.engine import CoreGroup
    from npusim.hardware import Profile

Array = np.ndarray[Any, Any]
Built = tuple[Sequence[Kernel], Sequence[GlobalTensor]]

_SAME_CYCLES = 1e-9  # sums of floats in another order
_STEP = float(np.finfo(np.float32).eps)
_AWAY = 2.0**-7  # a part of every input: the step of the coarsest type, so that all of them move


@dataclass
class Observed:
    """What a kernel did: all its cores together, each instruction as often as it ran."""

    op_type: str
    instructions: Counter[tuple[str, str]] = field(default_factory=Counter)
    bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    cycles: dict[str, float] = field(default_factory=dict)
    outputs: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, kernel: Kernel, groups: tuple[CoreGroup, ...]) -> Observed:
        found = cls(kernel.op_type)
        names = _names(kernel)
        for group in groups:
            for instruction, runs in group.program.instructions():
                times = runs * group.size
                if not instruction.name:
                    continue  # a flag that no instruction carries
                pipe = str(instruction.pipe)
                if instruction.name != ISSUE:  # one for as many as there are, so cycles tell
                    found.instructions[pipe, instruction.name] += times
                found.cycles[pipe] = found.cycles.get(pipe, 0.0) + times * instruction.cycles
                if (moved := instruction.transfer) is not None:
                    side = "written" if moved.write else "read"
                    name = names.get(moved.buffer, "?")
                    found.bytes[name, side] += times * moved.payload_bytes
        found.outputs = [
            array.copy() for each in kernel.writes if (array := each.array) is not None
        ]
        return found


def _names(kernel: Kernel) -> dict[int, str]:
    tensors = (*kernel.reads, *kernel.writes, *kernel.scratch)
    return {
        each.buffer.number: f"{each.buffer.name} ({index})"
        for index, each in reversed(list(enumerate(tensors)))
    }


def observed(build: Callable[[], Built], profile: Profile, *, reference: bool) -> list[Observed]:
    """The tasks that ``build`` makes, run one after the other."""
    kernels, _ = build()
    return [
        Observed.of(kernel, trace(kernel, profile, numerics=True, reference=reference))
        for kernel in kernels
    ]


def assert_like_the_reference(
    build: Callable[[], Built], profile: Profile, rounding: float = 0.0, *, typical: bool = False
) -> list[Observed]:
    """A fast run and the reference agree in numbers, bytes per buffer, instructions and cycles.

    ``build`` makes the same tasks anew each time. ``rounding`` counts steps of float32 that sums in
    another order may differ by, relative to the largest number of each output; or, where that is
    more, by what so many steps in every input do to it: what cancels, and exponentials of large
    numbers, lose that much in any order. 0 asks for the same bits. Of kernels that write down
    ``typical`` work only the numbers agree, and the buffers that are read and written. Returns the
    reference's account.
    """
    literal = observed(build, profile, reference=True)
    fast = observed(build, profile, reference=False)
    moved = cache(partial(observed, partial(_moved, build), profile, reference=True))
    for task, (theirs, ours) in enumerate(zip(literal, fast, strict=True)):
        where = f"{ours.op_type} on {profile.name}"
        for number, (mine, wanted) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
            if rounding and not _are_near(mine, wanted, rounding):
                away = moved()[task].outputs[number]
                _assert_near(f"{where}, output {number}", mine, wanted, rounding, away)
            elif not rounding:
                np.testing.assert_array_equal(mine, wanted, err_msg=f"{where}, output {number}")
        if typical:
            assert ours.bytes.keys() == theirs.bytes.keys(), where
            continue
        _same_counts(where, "instructions", ours.instructions, theirs.instructions)
        _same_counts(where, "bytes", ours.bytes, theirs.bytes)
        for pipe, cycles in theirs.cycles.items():
            assert abs(ours.cycles[pipe] - cycles) <= _SAME_CYCLES * cycles, (
                f"{where}: {ours.cycles[pipe]} cycles on {pipe}, the reference has {cycles}"
            )
    return literal


def _same_counts(
    where: str, what: str, ours: Counter[tuple[str, str]], theirs: Counter[tuple[str, str]]
) -> None:
    wrong = {
        key: (ours[key], theirs[key])
        for key in ours.keys() | theirs.keys()
        if ours[key] != theirs[key]
    }
    assert not wrong, f"{where}: {what} (fast run, reference) {wrong}"


def _are_near(ours: Array, theirs: Array, rounding: float) -> bool:
    """Whether numbers are as near as sums that lose nothing are."""
    if ours.dtype.kind in "iub":
        return np.array_equal(ours, theirs)
    mine, wanted = ours.astype(np.float64), theirs.astype(np.float64)
    allowed = _steps(ours, wanted, rounding)
    return np.allclose(mine, wanted, rtol=0, atol=allowed, equal_nan=True)


def _assert_near(where: str, ours: Array, theirs: Array, rounding: float, away: Array) -> None:
    """The same beside what steps of the inputs do: ``away`` is the output :data:`_AWAY` off."""
    if ours.dtype.kind in "iub":
        np.testing.assert_array_equal(ours, theirs, err_msg=where)
    mine, wanted, other = (each.astype(np.float64) for each in (ours, theirs, away))
    both = np.isfinite(wanted) & np.isfinite(other)
    moved = float(np.max(np.abs(wanted - other)[both], initial=0.0))
    allowed = _steps(ours, wanted, rounding) + rounding * moved * _STEP / _AWAY
    np.testing.assert_allclose(mine, wanted, rtol=0, atol=allowed, err_msg=where)


def _steps(ours: Array, wanted: Array, rounding: float) -> float:
    largest = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
    allowed = rounding * (_STEP * largest + float(np.finfo(np.float32).smallest_subnormal))
    if ours.dtype.itemsize == 2:
        allowed += 2.0 ** (-8 if ours.dtype.name == "bfloat16" else -10) * largest
    return allowed


def _moved(build: Callable[[], Built]) -> Built:
    """The tasks on inputs that are larger and smaller by :data:`_AWAY`, by turns."""
    kernels, outputs = build()
    reads = {id(each.buffer): each for kernel in kernels for each in kernel.reads}
    for array in (each.array for each in reads.values()):
        if array is not None and array.dtype.kind not in "iub":
            flat = array.reshape(-1)
            for first, share in ((0, 1.0 + _AWAY), (1, 1.0 - _AWAY)):
                flat[first::2] = (flat[first::2].astype(np.float32) * share).astype(array.dtype)
    return kernels, outputs
