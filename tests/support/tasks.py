"""Single device tasks on arrays: the kernels of an operator type, run one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel, trace
from npusim.ascendc.task import Task
from npusim.engine import CoreGroup, L2State
from npusim.hardware import Profile, load_profile
from npusim.operators.tasks import kernels_on
from npusim.runtime.task import play
from npusim.values.dtypes import dtype
from npusim.values.formats import Format
from support import physics
from support.one_pass import in_one_pass
from support.streams import told

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array | GlobalTensor | None]  # tensors where a format is wanted

BFLOAT16 = ml_dtypes.bfloat16
CHIPS = ("Ascend910A", "Ascend910B3", "Ascend310P3")

_UNTOUCHED = 77  # what outputs hold before


def tensor(array: Array, name: str = "x") -> GlobalTensor:
    """A copy of an array as a tensor in global memory."""
    flat = np.ascontiguousarray(array).reshape(-1).copy()
    return GlobalTensor(GmBuffer(name, flat.nbytes, flat), dtype(array.dtype), array.shape)


def kernels(
    chip: str | Profile,
    op_type: str,
    inputs: Arrays,
    outputs: Sequence[Array],
    attributes: Mapping[str, object] | None = None,
) -> tuple[list[Kernel], list[GlobalTensor]]:
    """The kernels of a task on arrays, and its output tensors."""
    profile = load_profile(chip) if isinstance(chip, str) else chip
    given = tuple(
        each if each is None or isinstance(each, GlobalTensor) else tensor(each, f"x{n}")
        for n, each in enumerate(inputs)
    )
    made = tuple(tensor(each, f"y{n}") for n, each in enumerate(outputs))
    tasks = kernels_on(Task(profile, op_type, given, made, attributes or {}))
    for kernel in tasks:
        for each in (*kernel.writes, *kernel.scratch):
            if each.buffer.data is None:
                count = each.buffer.nbytes // each.dtype.itemsize
                each.buffer.data = np.zeros(count, each.dtype.numpy)
    return list(tasks), list(made)


def run(
    chip: str | Profile,
    op_type: str,
    inputs: Arrays,
    outputs: Sequence[Array],
    **attributes: object,
) -> list[Array]:
    """The outputs of a task on arrays; ``outputs`` are what they hold before."""
    profile = load_profile(chip) if isinstance(chip, str) else chip
    tasks, made = kernels(profile, op_type, inputs, outputs, attributes)
    groups = _traced(tasks, profile, numerics=True)
    found = [each.array for each in made if each.array is not None]
    call = _Call(profile, op_type, list(inputs), _specs(outputs), repr(attributes))
    _RAN.appendleft(_Ran(call, tasks, groups, found))
    return found


def _traced(
    tasks: Sequence[Kernel], profile: Profile, *, numerics: bool
) -> list[tuple[CoreGroup, ...]]:
    """From one line of ours, which is the site of what happens in none of theirs."""
    return [trace(kernel, profile, numerics=numerics) for kernel in tasks]


@dataclass(frozen=True, eq=False)
class _Call:
    """A task on arrays, as far as what cores are given may follow from it."""

    profile: Profile
    op_type: str
    inputs: list[Array | GlobalTensor | None]
    outputs: list[tuple[object, ...]]
    attributes: str

    def is_like(self, other: _Call) -> bool:
        """Whether it is of the very same inputs, into outputs of the same kind."""
        mine, theirs = (
            (each.profile.name, each.profile, each.op_type, each.outputs, each.attributes)
            for each in (self, other)
        )
        if mine != theirs or len(self.inputs) != len(other.inputs):
            return False
        return all(a is b for a, b in zip(self.inputs, other.inputs, strict=True))


def _specs(arrays: Sequence[Array]) -> list[tuple[object, ...]]:
    return [(each.shape, each.dtype) for each in arrays]


class _Ran(NamedTuple):
    """A task that ran: its kernels, what the cores were given, and what came out."""

    call: _Call
    kernels: list[Kernel]
    groups: list[tuple[CoreGroup, ...]]
    found: list[Array]


_RAN: deque[_Ran] = deque(maxlen=8)  # the last ones


def _ran(
    profile: Profile, op_type: str, inputs: Arrays, outputs: Sequence[Array], given: Any
) -> _Ran:
    """A task on arrays as it ran before, or runs now."""
    call = _Call(profile, op_type, list(inputs), _specs(outputs), repr(given))
    if not any(each.call.is_like(call) for each in _RAN):
        run(profile, op_type, inputs, outputs, **given)
    return next(each for each in _RAN if each.call.is_like(call))


def like(array: Array, kind: Any = None) -> Array:
    """An output shaped like ``array``, filled with something that no result is."""
    return np.full(array.shape, _UNTOUCHED, array.dtype if kind is None else kind)


def cycles(
    chip: str | Profile,
    op_type: str,
    inputs: Arrays,
    outputs: Sequence[Array],
    *,
    numerics: bool = False,
    **attributes: object,
) -> float:
    """Cycles of a task without its launches; L2 is cold."""
    profile = load_profile(chip) if isinstance(chip, str) else chip
    tasks, _ = kernels(profile, op_type, inputs, outputs, attributes)
    cache = L2State(profile.memory.l2_bytes)
    with in_one_pass():
        return sum(play(kernel, profile, cache, numerics=numerics).core_cycles for kernel in tasks)


def assert_time_needs_no_numbers(
    chip: str | Profile, op_type: str, inputs: Arrays, outputs: Sequence[Array], **given: object
) -> None:
    """Cores are given by a task's shapes what they were given when it ran with its numbers."""
    profile = load_profile(chip) if isinstance(chip, str) else chip
    ran = _ran(profile, op_type, inputs, outputs, given)
    by_shapes = _traced(ran.kernels, profile, numerics=False)
    for alone, together in zip(by_shapes, ran.groups, strict=True):
        assert told(alone) == told(together), op_type


def assert_above_roofline(
    chip: str | Profile, op_type: str, inputs: Arrays, outputs: Sequence[Array], **given: object
) -> None:
    """No task moves its tensors faster than the fastest memory of the chip can."""
    profile = physics.profile_of(chip)
    moved = sum(each.nbytes for each in (*inputs, *outputs) if each is not None)
    core_us = cycles(profile, op_type, inputs, outputs, **given) / profile.clock_mhz
    least = physics.roofline_us(profile, moved, {})
    assert core_us >= least, (
        f"{op_type} on {profile.name}: {core_us} us, the roofline is {least} us"
    )


def assert_tiling_changes_no_number(
    chip: str, op_type: str, inputs: Arrays, outputs: Sequence[Array], **given: object
) -> None:
    """Fewer cores and a smaller UB give the same numbers, up to the order of sums."""
    whole = physics.profile_of(chip)
    want = _ran(whole, op_type, inputs, outputs, given).found
    few = physics.with_cores(whole, max(1, whole.cores.vector_cores // 4))
    small = physics.with_ub(few, whole.buffers.ub_bytes // 2)
    for profile in (few, small):
        got = run(profile, op_type, inputs, outputs, **given)
        for ours, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs.astype(np.float64), rtol=1e-3, atol=1e-4
            )


def fractals(matrix: Array) -> Array:
    """FRACTAL_NZ: blocks of 16 columns, then blocks of 16 rows; edges filled with zeros."""
    rows, columns = matrix.shape[-2:]
    high, across = ceil(rows / 16), ceil(columns / 16)
    padded = np.zeros((*matrix.shape[:-2], high * 16, across * 16), matrix.dtype)
    padded[..., :rows, :columns] = matrix
    cut = padded.reshape(*matrix.shape[:-2], high, 16, across, 16)
    return np.ascontiguousarray(np.moveaxis(cut, -2, -4))


def in_fractals(array: Array, name: str) -> GlobalTensor:
    data = fractals(array)
    buffer = GmBuffer(name, data.nbytes, data.reshape(-1).copy())
    return GlobalTensor(buffer, dtype(data.dtype), data.shape, format=Format.FRACTAL_NZ)
