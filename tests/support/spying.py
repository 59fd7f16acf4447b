"""Watching a run from inside: which elements it writes, what it reads, what it computes on.

The watchers wrap the functions of the kernel language, so they see what happened to the numbers,
independently of the instruction streams that the time comes from.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from npusim.ascendc import Core, GlobalTensor, GmBuffer, GmSlice, Kernel, LocalTensor
from npusim.ascendc import host_threads as blocks
from npusim.ascendc.block import Block
from npusim.ascendc.intrinsics.copy import Copies
from npusim.ascendc.intrinsics.cube import Cube
from npusim.ascendc.intrinsics.elementwise import Intrinsic

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = np.ndarray[Any, Any]

# The elementwise ones have a table; these are methods.
METHODS = [
    "copy",
    "duplicate",
    "cast",
    "select",
    "compare",
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "fold_rows",
]


@dataclass
class TaskWatch:
    """What one task did: plain and added stores per element of every buffer, and traffic."""

    kernel: Kernel
    writes: dict[int, Array] = field(default_factory=dict)
    adds: dict[int, Array] = field(default_factory=dict)
    overwritten_sums: set[str] = field(default_factory=set)
    bytes_read: int = 0
    bytes_written: int = 0
    loads: int = 0
    stores: int = 0
    largest_tile_bytes: int = 0
    storing: Core | None = None
    elements: Counter[str] = field(default_factory=Counter)

    def count(self, table: dict[int, Array], buffer: GmBuffer) -> Array:
        """How often each element of a buffer was stored to."""
        if buffer.number not in table:
            assert buffer.data is not None
            table[buffer.number] = np.zeros(buffer.data.size, np.int64)
        return table[buffer.number]

    def of_tensor(self, table: dict[int, Array], tensor: GlobalTensor) -> Array:
        """The counts of a tensor's own elements, in its shape."""
        counts = table.get(tensor.buffer.number)
        if counts is None:
            return np.zeros(tensor.shape, np.int64)
        spot = GlobalTensor(
            GmBuffer(tensor.buffer.name, 0, counts),
            tensor.dtype,
            tensor.shape,
            tensor.start,
            tensor.strides,
        )
        shown = spot.array
        assert shown is not None
        return shown


@contextmanager
def watching() -> Iterator[list[TaskWatch]]:
    """Everything that runs inside is watched, task by task (runs with numbers only)."""
    watches: list[TaskWatch] = []
    with (
        patch.object(blocks, "host_cores", lambda: 1),  # one task and one core after the other
        patch.object(Block, "__init__", _started(watches)),
        patch.object(GmSlice, "write", _stored(watches, GmSlice.write, plain=True)),
        patch.object(GmSlice, "accumulate", _stored(watches, GmSlice.accumulate, plain=False)),
        patch.object(Copies, "_load", _moved(watches, Copies._load, loads=True)),
        patch.object(Copies, "_store", _moved(watches, Copies._store, loads=False)),
        patch.object(Copies, "_load_l1", _moved(watches, Copies._load_l1, loads=True)),
        patch.object(Cube, "_fix", _moved(watches, Cube._fix, loads=False)),
        patch.object(Cube, "mmad", _multiplied(watches, Cube.mmad)),
        patch.object(Intrinsic, "__call__", _called(watches, Intrinsic.__call__)),
    ):
        patches = [
            patch.object(Core, name, _computed(watches, name, getattr(Core, name)))
            for name in METHODS
        ]
        for each in patches:
            each.start()
        try:
            yield watches
        finally:
            for each in patches:
                each.stop()


def _started(watches: list[TaskWatch]) -> Any:
    original = Block.__init__

    @wraps(original)
    def start(self: Block, kernel: Kernel, *args: Any, **kwargs: Any) -> None:
        if not watches or watches[-1].kernel is not kernel:
            watches.append(TaskWatch(kernel))
        original(self, kernel, *args, **kwargs)

    return start


def _stored(watches: list[TaskWatch], original: Any, *, plain: bool) -> Any:
    @wraps(original)
    def store(self: GmSlice, values: Array, depth: int) -> None:
        original(self, values, depth)
        watch, buffer = watches[-1], self.tensor.buffer
        core = watch.storing
        assert core is not None, "numbers stored by something that is no copy"
        stack = [core.stack_size(level, level + 1) for level in range(depth)]
        moving = tuple(size if level in self.depths else 1 for level, size in enumerate(stack))
        times = prod(stack) // prod(moving)  # iterations that store to one place all count
        offsets = np.broadcast_to(self._offsets(depth), moving + self.shape)
        if plain:
            added = watch.adds.get(buffer.number)
            if added is not None and added[offsets].any():
                watch.overwritten_sums.add(buffer.name)
        np.add.at(watch.count(watch.writes if plain else watch.adds, buffer), offsets, times)

    return store


def _moved(watches: list[TaskWatch], original: Any, *, loads: bool) -> Any:
    @wraps(original)
    def copy(self: Core, dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
        watch = watches[-1]
        watch.storing = self
        original(self, dst, src, *args, **kwargs)
        if not self.numerics:
            return
        gm: GmSlice = src if loads else dst
        run, runs = gm.bursts()
        nbytes = run * runs * gm.tensor.dtype.itemsize
        times = self.stack_size(0, self.depth)
        watch.largest_tile_bytes = max(watch.largest_tile_bytes, nbytes)
        if loads:
            watch.loads += times
            watch.bytes_read += times * nbytes
        else:
            watch.stores += times
            watch.bytes_written += times * nbytes

    return copy


def _multiplied(watches: list[TaskWatch], original: Any) -> Any:
    @wraps(original)
    def mmad(self: Core, c: LocalTensor, a: LocalTensor, *args: Any, **kwargs: Any) -> Any:
        result = original(self, c, a, *args, **kwargs)
        if self.numerics:
            products = self.stack_size(0, self.depth) * c.numel * a.shape[-1]
            watches[-1].elements["mmad"] += products
        return result

    return mmad


def _called(watches: list[TaskWatch], original: Any) -> Any:
    @wraps(original)
    def call(self: Any, core: Core, dst: LocalTensor, *operands: Any) -> Any:
        result = original(self, core, dst, *operands)
        if core.numerics:
            watches[-1].elements[self.__name__] += core.stack_size(0, core.depth) * dst.numel
        return result

    return call


def _computed(watches: list[TaskWatch], name: str, original: Any) -> Any:
    @wraps(original)
    def intrinsic(self: Core, dst: LocalTensor, *operands: Any, **options: Any) -> Any:
        result = original(self, dst, *operands, **options)
        if self.numerics:
            shape_of = operands[0] if name.startswith(("reduce", "fold", "compare")) else dst
            watches[-1].elements[name] += self.stack_size(0, self.depth) * shape_of.numel
        return result

    return intrinsic
