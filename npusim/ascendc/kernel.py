"""Kernels, and the one pass over their code that yields numbers and instruction streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from npusim.ascendc import host_threads as all_blocks
from npusim.ascendc.cluster import Cluster, CoreWait, units_of
from npusim.ascendc.core import Core
from npusim.ascendc.costs import InstructionCosts
from npusim.engine.program import Barrier, CoreGroup, Instruction, Pipe, Program, Unit
from npusim.engine.schedule import pipes_of
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm import GlobalTensor
    from npusim.hardware.profile import Profile

Phases = Iterator[Barrier | CoreWait] | None


class Kernel(ABC):
    """One operator on the device: a tiling, and the code that every block runs.

    Subclasses set ``op_type`` (the profiler's OpType) and ``block_dim`` and write :meth:`process`.
    ``reads`` and ``writes`` are the tensors the task depends on and produces, ``scratch`` its own
    workspace. ``adds_into`` are those of ``writes`` that it adds into: a task of its own clears
    them first. ``cores`` says which cores the blocks are. ``is_mix`` marks kernels that run on cube
    and vector cores at once: a block is then a cube core with its vector cores, and each of them
    runs :meth:`process`, which looks at ``core.unit``. ``generated`` marks kernels that the
    device's operator compiler (TBE) makes for a shape, unlike those written in Ascend C.
    ``independent`` marks kernels whose blocks may be computed at the same time: no two of them
    store to one place (adding is no storing), none reads what another stores before the next
    barrier, and what :meth:`process` changes in the kernel are its attributes, not what is in them.
    """

    op_type: ClassVar[str]
    buffer_num: ClassVar[int] = 2
    cores: ClassVar[Literal["vector", "cube"]] = "vector"
    is_mix: ClassVar[bool] = False
    generated: ClassVar[bool] = False
    independent: ClassVar[bool] = False

    block_dim: int
    reads: tuple[GlobalTensor, ...]
    writes: tuple[GlobalTensor, ...]
    scratch: tuple[GlobalTensor, ...] = ()
    stale: tuple[GlobalTensor, ...] = ()
    adds_into: tuple[GlobalTensor, ...] = ()

    @classmethod
    def from_task(
        cls,
        profile: Profile,
        inputs: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        attributes: Mapping[str, object],  # noqa: ARG003 - for kernels that have some
    ) -> Kernel:
        """The kernel for a task as a profiler records it.

        Tensors in the operator's order, attributes by name.

        Kernels that have attributes of their own read them here, and make do without where a record
        has none. Raises KernelError for a combination that the kernel doesn't cover.
        """
        tensors = [tensor for tensor in (*inputs, *outputs) if tensor is not None]
        try:
            signature(cls).bind(profile, *tensors)
        except TypeError as error:
            raise KernelError(cls.op_type, f"a record doesn't tell enough: {error}") from None
        return cls(profile, *tensors)  # type: ignore[call-arg]

    @abstractmethod
    def process(self, core: Core) -> Phases:
        """The work of block ``core.get_block_idx()``; a generator if it waits for other cores.

        That is where it has ``yield core.sync_all()`` or ``yield core.cross_core_wait_flag(...)``.
        """

    def block_kind(self, block_idx: int) -> Hashable:
        """What block ``block_idx`` has to do, up to addresses.

        Blocks with equal work share one instruction stream.
        """
        return block_idx

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace the kernel asks for, system workspace included."""
        return 0


def trace(
    kernel: Kernel, profile: Profile, *, numerics: bool, reference: bool = False
) -> tuple[CoreGroup, ...]:
    """Run a kernel's code once.

    Returns the instruction streams, and leaves the numbers in its tensors.

    Without ``numerics`` only one block of each kind is run. A ``reference`` run takes no shortcut:
    every block is written down by itself, and every iteration of its loops.
    """
    kinds: dict[Hashable, list[int]] = {}
    for block in range(kernel.block_dim):
        kinds.setdefault(block if reference else kernel.block_kind(block), []).append(block)
    first = {blocks[0] for blocks in kinds.values()}
    costs = InstructionCosts(profile)
    wanted = range(kernel.block_dim) if numerics else sorted(first)
    parts = all_blocks.shares(kernel, wanted, numerics=numerics and not reference)
    clusters: dict[int, Cluster] = {}
    for own, part in zip(all_blocks.copies(kernel, len(parts)), parts, strict=True):
        storage: dict[Unit, dict[object, NDArray[Any]]]
        storage = {unit: {} for unit in units_of(kernel, profile)}
        for block in part:
            clusters[block] = Cluster(own, block)
            for unit, memory in storage.items():
                Core(
                    own,
                    profile,
                    costs,
                    block,
                    kernel.block_dim,
                    numerics=numerics,
                    recording=block in first,
                    storage=memory,
                    unit=unit,
                    cluster=clusters[block],
                    reference=reference,
                )
    all_blocks.run(kernel, clusters, parts)
    return tuple(
        CoreGroup(
            tuple(blocks),
            _with_head(core.recorder.program, profile),
            core.unit,
            blocks[0] if kernel.is_mix else None,
        )
        for blocks in kinds.values()
        for core in clusters[blocks[0]].cores
    )


def _with_head(program: Program, profile: Profile) -> Program:
    """Put the entry code of every kernel (argument loading, pipe set-up) in front."""
    others = [pipe for pipe in pipes_of(program) if pipe is not Pipe.SCALAR]
    flags = list(range(len(program.flags), len(program.flags) + len(others)))
    program.flags.extend(0 for _ in others)
    head = Instruction(
        Pipe.SCALAR, "kernel_head", profile.launch.kernel_head_cycles, sets=tuple(flags)
    )
    gates = [
        Instruction(pipe, "", 0.0, waits=(flag,)) for pipe, flag in zip(others, flags, strict=True)
    ]
    program.body = [head, *gates, *program.body]
    return program
