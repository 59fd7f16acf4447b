"""Tasks run twice: as ever, and in the reference mode, tile by tile without any shortcut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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

    ``build`` makes the same tasks anew each time. ``rounding`` counts steps of the outputs' type,
    relative to the largest number of each output, that sums in another order may differ by; 0 asks
    for the same bits. Of kernels that write down ``typical`` work only the numbers agree, and the
    buffers that are read and written. Returns the reference's account.
    """
    literal = observed(build, profile, reference=True)
    fast = observed(build, profile, reference=False)
    for theirs, ours in zip(literal, fast, strict=True):
        where = f"{ours.op_type} on {profile.name}"
        for number, (mine, wanted) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
            _same_numbers(f"{where}, output {number}", mine, wanted, rounding)
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


def _same_numbers(where: str, ours: Array, theirs: Array, rounding: float) -> None:
    if not rounding or ours.dtype.kind in "iub":
        np.testing.assert_array_equal(ours, theirs, err_msg=where)
        return
    mine, wanted = ours.astype(np.float64), theirs.astype(np.float64)
    largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0)
    steps = np.finfo(np.float32)
    allowed = rounding * (steps.eps * largest + steps.smallest_subnormal)
    if ours.dtype.itemsize == 2:
        allowed += 2.0 ** (-8 if ours.dtype.name == "bfloat16" else -10) * largest
    np.testing.assert_allclose(mine, wanted, rtol=0, atol=allowed, err_msg=where)
