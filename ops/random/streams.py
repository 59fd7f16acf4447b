"""Streams of Philox4x32-10: every four words follow from a key (the seed) and a counter.

Published: J. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011). Which counter and
which word of it the device's engine takes for an element isn't published, so the numbers have its
distribution but not its bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel, RandomBitsKernel, RandomKernel
from npusim.schedules.on_ai_cpu import FUNCTION, OnAiCpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

    Array = NDArray[Any]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS, _WORDS = 10, 4
_LOW = np.uint64(0xFFFFFFFF)
_MANTISSA = 23  # bits of a float32


def words(seed: int, offset: int, count: int) -> Array:
    """The first words of a stream, in the order of the counter."""
    blocks = -(-count // _WORDS)
    at = np.arange(blocks, dtype=np.uint64)
    zero = np.zeros(blocks, np.uint64)
    state = [at & _LOW, at >> np.uint64(32), zero + np.uint64(offset & 0xFFFFFFFF),
             zero + np.uint64(offset >> 32 & 0xFFFFFFFF)]  # fmt: skip
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(_ROUNDS):
        first, second = (np.uint64(m) * state[i] for m, i in zip(_MULTIPLIERS, (0, 2), strict=True))
        state = [
            (second >> np.uint64(32)) ^ state[1] ^ np.uint64(keys[0]), second & _LOW,
            (first >> np.uint64(32)) ^ state[3] ^ np.uint64(keys[1]), first & _LOW,
        ]  # fmt: skip
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, _WEYL, strict=True)]
    found: Array = np.stack(state, axis=-1).reshape(-1)[:count].astype(np.uint32)
    return found


def uniform_numbers(seed: Array, offset: Array, count: int) -> Array:
    """From zero, below one."""
    drawn = words(int(seed.reshape(-1)[0]), int(offset.reshape(-1)[0]), count)
    return (drawn >> np.uint32(32 - _MANTISSA)).astype(np.float32) / np.float32(1 << _MANTISSA)


def normal_numbers(seed: Array, offset: Array, count: int) -> Array:
    """Around zero, by Box and Muller: two of two uniform ones."""
    pairs = -(-count // 2)
    drawn = uniform_numbers(seed, offset, 2 * pairs)
    radius = np.sqrt(-2.0 * np.log1p(-drawn[::2].astype(np.float64)))
    angle = 2.0 * np.pi * drawn[1::2]
    found: Array = np.stack((radius * np.cos(angle), radius * np.sin(angle)), -1).reshape(-1)
    return found[:count]


def _filled(
    task: Task, compute: Any, engine: type[RandomKernel] = RandomKernel
) -> tuple[Kernel, ...]:
    """A task whose results are as many numbers as its output has elements."""
    if not task.outputs:
        raise task.refused("how many numbers are wanted isn't known")
    shape = task.outputs[0].shape
    count = task.outputs[0].numel
    drawn = task.profile.random_engine.number_ns > 0 and task.op_type.startswith("DSA")
    row = OnAiCpu(
        task.op_type,
        lambda *given: compute(*given, count).reshape(shape),
        FUNCTION,
        kernel=engine if drawn else AiCpuKernel,
    )
    return row.from_task(task)


def uniform(task: Task) -> tuple[Kernel, ...]:
    """Numbers between two limits, the lower one among them."""
    low, high = task.number("low", 0.0), task.number("high", 1.0)

    def compute(seed: Array, offset: Array, count: int) -> Array:
        # Sums round up to the limit itself, which is none of the numbers.
        drawn = low + (high - low) * uniform_numbers(seed, offset, count).astype(np.float64)
        return np.minimum(drawn.astype(np.float32), np.nextafter(np.float32(high), np.float32(low)))

    return _filled(task, compute)


def normal(task: Task) -> tuple[Kernel, ...]:
    """Normal numbers of a mean and a spread."""
    mean, spread = task.number("mean", 0.0), task.number("std", 1.0)
    return _filled(task, lambda *given: mean + spread * normal_numbers(*given))


def bit_mask(task: Task) -> tuple[Kernel, ...]:
    """Bits that are set with a probability, eight to a byte."""
    keep = task.number("keep", 1.0)

    def compute(seed: Array, offset: Array, count: int) -> Array:
        return np.packbits(uniform_numbers(seed, offset, 8 * count) < keep, bitorder="little")

    return _filled(task, compute, RandomBitsKernel)


def bernoulli(task: Task) -> tuple[Kernel, ...]:
    """One with a probability, which may be another for every element, else zero."""

    def compute(prob: Array, seed: Array, offset: Array, count: int) -> Array:
        return uniform_numbers(seed, offset, count) < np.broadcast_to(prob.reshape(-1), (count,))

    return _filled(task, compute)


def permutation(task: Task) -> tuple[Kernel, ...]:
    """The numbers from zero in an order: that of random words."""

    def compute(seed: Array, offset: Array, count: int) -> Array:
        drawn = words(int(seed.reshape(-1)[0]), int(offset.reshape(-1)[0]), count)
        return np.argsort(drawn, kind="stable")

    return _filled(task, compute)
