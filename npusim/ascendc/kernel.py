"""Kernels: one operator on the device each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, ClassVar, Literal, Self, cast

from npusim.ascendc.cluster import CoreWait
from npusim.engine.program import Barrier
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
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

    @classmethod
    def called(cls, op_type: str) -> type[Self]:
        """This kernel under another operator type."""
        return cast("type[Self]", _called(cls, op_type))

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


@cache
def _called(kind: type[Kernel], op_type: str) -> type[Kernel]:
    if kind.op_type == op_type:
        return kind
    return type(kind.__name__, (kind,), {"op_type": op_type, "__doc__": kind.__doc__})
