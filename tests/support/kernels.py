"""Small kernels for tests of the kernel language: a body, and the tensors it works on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmBuffer,
    Kernel,
    LocalTensor,
    TBuf,
    TPosition,
    TQue,
    trace,
)
from npusim.ascendc.issuing import ISSUE
from npusim.engine import CoreGroup, Instruction, KernelRun, L2State, machine_of, simulate
from npusim.hardware import Profile, load_profile
from npusim.values.dtypes import FLOAT, DType, dtype

Array = np.ndarray[Any, Any]
Body = Callable[[Core], Any]


class Probe(Kernel):
    """Runs ``body`` on every block."""

    op_type: str = "Probe"

    def __init__(
        self, body: Body, *tensors: GlobalTensor, blocks: int = 1, alike: bool = False
    ) -> None:
        self.body, self.block_dim = body, blocks
        self.alike = alike
        self.reads, self.writes = tensors, ()

    def process(self, core: Core) -> Any:
        return self.body(core)

    def block_kind(self, block_idx: int) -> Hashable:
        return 0 if self.alike else block_idx


def gm(array: Array, name: str = "x") -> GlobalTensor:
    """An array as a tensor in global memory, which it stays in."""
    kind = dtype(array.dtype)
    flat = array.reshape(-1)
    assert np.shares_memory(flat, array) or not array.size
    return GlobalTensor(GmBuffer(name, array.nbytes, flat), kind, array.shape)


def content(tensor: GlobalTensor) -> Array:
    """The numbers of a tensor."""
    assert tensor.array is not None
    return tensor.array


def profile(chip: str | Profile) -> Profile:
    return load_profile(chip) if isinstance(chip, str) else chip


def run(
    body: Body,
    *tensors: GlobalTensor,
    chip: str | Profile = "Ascend910B3",
    blocks: int = 1,
    alike: bool = False,
    numerics: bool = True,
) -> tuple[CoreGroup, ...]:
    """Trace a kernel: its numbers go to its tensors, its instruction streams are returned."""
    kernel = Probe(body, *tensors, blocks=blocks, alike=alike)
    return trace(kernel, profile(chip), numerics=numerics)


def timed(
    body: Body, *tensors: GlobalTensor, chip: str | Profile = "Ascend910B3", blocks: int = 1
) -> KernelRun:
    """The kernel's time on a chip whose L2 is cold."""
    found = profile(chip)
    groups = run(body, *tensors, chip=found, blocks=blocks, numerics=False)
    return simulate(groups, machine_of(found, blocks), L2State(found.memory.l2_bytes))


def instructions(groups: tuple[CoreGroup, ...]) -> list[tuple[Instruction, int]]:
    """What the first group executes, with counts; its head, issuing and bare flags left out."""
    return [
        (instruction, times)
        for instruction, times in groups[0].program.instructions()
        if not instruction.is_marker and instruction.name not in ("", "kernel_head", ISSUE)
    ]


def names(groups: tuple[CoreGroup, ...]) -> list[str]:
    """The mnemonics of the first group, each once however often it runs."""
    return [instruction.name for instruction, _ in instructions(groups)]


def numbers(*shape: int) -> Array:
    """Whole numbers from one on, in float32."""
    return (np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)


def queues(core: Core, elements: int, *, depth: int = 2, kind: DType = FLOAT) -> tuple[TQue, TQue]:
    """A queue in and a queue out, with slots of ``elements``."""
    into, out = TQue(TPosition.VECIN, depth, "in"), TQue(TPosition.VECOUT, depth, "out")
    for queue in (into, out):
        core.pipe.init_buffer(queue, depth, elements * kind.itemsize)
    return into, out


def doubling(x: GlobalTensor, y: GlobalTensor, tile: int) -> Callable[[Core], None]:
    """y = 2 x, tile by tile."""

    def body(core: Core) -> None:
        into, out = queues(core, tile)
        for first, length in core.tiles(0, x.numel, tile):
            loaded = into.copy_in(x.span(first, length))
            result = core.muls(out.alloc_tensor(FLOAT, length), loaded, 2.0)
            into.free_tensor(loaded)
            out.copy_out(y.span(first, length), result)

    return body


def scratch(core: Core, kind: DType, *shape: int, name: str = "t") -> LocalTensor:
    """A tensor in a buffer of its own."""
    buffer = TBuf(name)
    core.pipe.init_buffer(buffer, 1, int(np.prod(shape)) * kind.itemsize + 512)
    return buffer.get(kind, *shape)
