"""Kernels, and the one pass over a kernel's code that yields its numbers and its instruction streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.cost import InstructionCosts
from npusim.dialect.core import Core
from npusim.dialect.gm import GlobalTensor
from npusim.engine.program import Barrier, CoreGroup, Pipe, Program
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

Phases = Iterator[Barrier] | None


class Kernel(ABC):
    """One operator on the device: a tiling, and the code that every block runs.

    Subclasses set ``op_type`` (the profiler's OpType) and ``block_dim`` and write :meth:`process`.
    ``reads`` and ``writes`` are the tensors the task depends on and produces, ``scratch`` its own workspace.
    ``is_mix`` marks kernels that run on cube and vector cores at once.
    """

    op_type: ClassVar[str]
    buffer_num: ClassVar[int] = 2
    is_mix: ClassVar[bool] = False

    block_dim: int
    reads: tuple[GlobalTensor, ...]
    writes: tuple[GlobalTensor, ...]
    scratch: tuple[GlobalTensor, ...] = ()

    @classmethod
    def from_task(
        cls,
        profile: Profile,
        inputs: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        attributes: Mapping[str, object],
    ) -> Kernel:
        """The kernel for a task as a profiler records it: tensors in the operator's order, attributes by name.

        Raises KernelError for a combination that the kernel doesn't cover.
        """
        tensors = [tensor for tensor in inputs if tensor is not None]
        return cls(profile, *tensors, *outputs, **attributes)  # type: ignore[arg-type]

    @abstractmethod
    def process(self, core: Core) -> Phases:
        """The work of block ``core.get_block_idx()``; a generator if it has ``yield core.sync_all()``."""

    def work(self, block_idx: int) -> Hashable:
        """What block ``block_idx`` has to do, up to addresses: blocks with equal work share one instruction stream."""
        return block_idx

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace the kernel asks for, system workspace included."""
        return 0


def trace(kernel: Kernel, profile: Profile, *, numerics: bool) -> tuple[CoreGroup, ...]:
    """Run a kernel's code once: returns the instruction streams, and leaves the numbers in its tensors.

    Without ``numerics`` only one block of each kind is run.
    """
    kinds: dict[Hashable, list[int]] = {}
    for block in range(kernel.block_dim):
        kinds.setdefault(kernel.work(block), []).append(block)
    first = {blocks[0] for blocks in kinds.values()}
    costs = InstructionCosts(profile)
    storage: dict[object, NDArray[Any]] = {}
    cores = {
        block: Core(
            kernel,
            profile,
            costs,
            block,
            kernel.block_dim,
            numerics=numerics,
            recording=block in first,
            storage=storage,
        )
        for block in range(kernel.block_dim)
        if numerics or block in first
    }
    with np.errstate(all="ignore"):  # the device has no floating-point traps
        _run(kernel, cores)
    return tuple(
        CoreGroup(tuple(blocks), _with_head(cores[blocks[0]].recorder.program, profile))
        for blocks in kinds.values()
    )


def _run(kernel: Kernel, cores: dict[int, Core]) -> None:
    """Run all blocks from one barrier to the next, in the order of their index."""
    running: list[tuple[int, Iterator[Barrier]]] = []
    for block, core in cores.items():
        phases = kernel.process(core)
        if phases is not None:
            running.append((block, phases))
    while running:
        arrived = [(block, phases) for block, phases in running if next(phases, None) is not None]
        if arrived and len(arrived) < len(running):
            missing = sorted({block for block, _ in running} - {block for block, _ in arrived})
            raise KernelError(
                kernel.op_type, f"blocks {missing} end while the others wait in sync_all"
            )
        running = arrived


def _with_head(program: Program, profile: Profile) -> Program:
    """Put the entry code of every kernel (argument loading, pipe set-up) in front."""
    flag_cycles = profile.launch.kernel_head_cycles
    from npusim.engine.program import Instruction
    from npusim.engine.schedule import pipes_of

    others = [pipe for pipe in pipes_of(program) if pipe is not Pipe.SCALAR]
    flags = list(range(len(program.flags), len(program.flags) + len(others)))
    program.flags.extend(0 for _ in others)
    head = Instruction(Pipe.SCALAR, "kernel_head", flag_cycles, sets=tuple(flags))
    gates = [
        Instruction(pipe, "", 0.0, waits=(flag,)) for pipe, flag in zip(others, flags, strict=True)
    ]
    program.body = [head, *gates, *program.body]
    return program
