"""Kernels: one operator on the device each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from functools import cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, cast

from npusim.ascendc.cluster import CoreWait
from npusim.ascendc.mistakes import is_shipped, told
from npusim.engine.program import Barrier, Unit

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.task import Task

Phases = Iterator[Barrier | CoreWait] | None


class Division(Protocol):
    """How the work of a kernel is divided among its blocks."""

    def block_kind(self, block: int) -> Hashable: ...


class Kernel(ABC):
    """One operator on the device: a tiling, and the code that every block runs.

    Subclasses set ``op_type`` (the profiler's OpType; by default the name of the class) and
    ``block_dim`` (unless the launch gives it), and write :meth:`process`. ``reads`` and ``writes``
    are the tensors the task depends on and produces, ``scratch`` its own workspace. ``adds_into``
    are those of ``writes`` that it adds into: a task of its own clears them first; ``unset`` are
    those of ``reads`` that nobody needs to have written, ``cold`` those that a step uses once:
    weights, and what optimizers keep. ``cores`` says which cores the blocks
    are. ``is_mix`` marks kernels that run on cube and vector cores at once: a block is then a cube
    core with its vector cores, and each of them runs :meth:`process`, which looks at
    ``core.unit``. ``generated`` marks kernels that the device's operator compiler (TBE) makes for
    a shape, unlike those written in Ascend C. ``many_variants`` marks those of them that reduce or
    work on rows: made for any shape, they hold a variant for each way of cutting it, unless their
    name ends in D, as that of operators does whose axes are known when they are compiled.
    ``hard_sync`` marks kernels of vector cores of which a variant waits for all others, so that all
    are launched as mixed ones (KERNEL_TYPE_MIX_AIV_1_0, MIX_AIV in profiles), but for such names;
    ``broadcasts`` generated ones of which an operand repeats along some axes, which they learn of
    when they run unless they are made for one shape.
    ``division`` is how the work is divided, where that says which blocks are alike. ``guarded``
    counts the operands of which a block only finds out when it runs how much it has: those of
    kernels whose cut the compiler derives for a shape, if not all blocks have as much to do.
    ``begins_us`` is what it takes to begin beside what all kernels take.
    ``runs_on`` names what runs it where that is no AI core.
    ``independent`` marks kernels whose blocks may be computed at the same time: no two of them
    store to one place (adding is no storing), none reads what another stores before the next
    barrier, and what :meth:`process` changes in the kernel are its attributes, not what is in them.
    ``shares_all`` says that all a block does lies in its :meth:`Core.share`, so that one whose
    tasks were computed together with another's has nothing left to do.
    ``literal`` marks kernels that are always run as a reference, block by block and iteration by
    iteration; blocks that turn out to be alike are played together. ``follows_numbers`` tells that
    what it does depends on numbers that it takes without asking for them. ``digest`` tells classes
    of one name apart that calls make: what they are made from (`npusim.values.contents`).
    """

    op_type: str = ""
    digest: ClassVar[str] = ""
    buffer_num: ClassVar[int] = 2
    cores: ClassVar[Literal["vector", "cube"]] = "vector"
    is_mix: ClassVar[bool] = False
    runs_on: ClassVar[str] = ""
    generated: bool = False
    many_variants: bool = False
    hard_sync: bool = False
    broadcasts: bool = False
    independent: bool = False
    shares_all: bool = False
    literal: ClassVar[bool] = False
    follows_numbers: ClassVar[bool] = False

    block_dim: int
    division: Division | None = None
    guarded: int = 0
    begins_us: float = 0.0
    reads: tuple[GlobalTensor, ...]
    writes: tuple[GlobalTensor, ...]
    scratch: tuple[GlobalTensor, ...] = ()
    cold: tuple[GlobalTensor, ...] = ()
    adds_into: tuple[GlobalTensor, ...] = ()
    unset: tuple[GlobalTensor, ...] = ()

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.op_type = cls.op_type or cls.__name__
        if cls.__module__ == "abc":  # made by calling type(): whose kernel it is its base tells
            cls.__module__ = cls.__mro__[1].__module__

    @classmethod
    def built(cls, *arguments: object, **attributes: object) -> Self:
        """A kernel of this class; a mistake in its ``__init__`` is told with its line."""
        with told(cls.op_type, shipped=is_shipped(cls)):
            return cls(*arguments, **attributes)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernels of a task, one after the other; here one.

        Its constructor takes the tensors that are there, and attributes that it has keywords for.
        Others override this. Raises KernelError for a combination that the kernel doesn't cover.
        """
        tensors = [tensor for tensor in (*task.inputs, *task.outputs) if tensor is not None]
        takes = signature(cls)
        attributes = {
            name: task.attributes[name]
            for name, parameter in takes.parameters.items()
            if parameter.kind is Parameter.KEYWORD_ONLY and name in task.attributes
        }
        try:
            takes.bind(task.profile, *tensors, **attributes)
        except TypeError as error:
            raise task.unsaid(f"a record doesn't tell enough: {error}") from None
        return (cls(task.profile, *tensors, **attributes),)  # type: ignore[call-arg]

    @classmethod
    def called(cls, op_type: str) -> type[Self]:
        """This kernel under another operator type."""
        return cast("type[Self]", _called(cls, op_type))

    @abstractmethod
    def process(self, core: Core) -> Phases:
        """The work of block ``core.get_block_idx()``; a generator if it waits for other cores.

        That is where it has ``yield core.sync_all()`` or ``yield core.cross_core_wait_flag(...)``.
        """

    def for_numbers(self) -> Kernel:
        """The kernel that is run where nothing but numbers is asked for: the same in fewer blocks.

        What blocks have in common, and what Python does for each, is done once.
        """
        return self

    def block_kind(self, block_idx: int) -> Hashable:
        """What block ``block_idx`` has to do, up to addresses.

        Blocks with equal work share one instruction stream.
        """
        return block_idx if self.division is None else self.division.block_kind(block_idx)

    def unit_kind(self, block_idx: int, unit: Unit) -> Hashable:  # noqa: ARG002
        """What one core of a block has to do, where it meets the others in ``sync_all`` alone.

        Cores with equal work share one instruction stream, whatever the others of their blocks do.
        None for kernels whose cores tell each other more.
        """
        return None

    @property
    def chooses(self) -> bool:
        """Whether it chooses among variants by tiling data that it reads field by field."""
        return self.cores == "vector" and not self.generated

    @property
    def finds_axes(self) -> bool:
        """Whether it works out the axes of its operands when it runs, unless made for one shape.

        Generated elementwise kernels do where operands repeat, those that multiply always.
        """
        return self.broadcasts or (self.cores == "cube" and self.generated)

    @property
    def code(self) -> Hashable:
        """What the kernel's binary is known by: its OpType and the dtypes of its operands.

        None where it is larger than the instruction caches: those written in Ascend C for vector
        cores have all their variants in one.
        """
        if self.chooses and not self.many_variants:
            return None
        return (self.op_type, *(each.dtype for each in (*self.reads, *self.writes)))

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace the kernel asks for, system workspace included."""
        return 0


@cache
def _called(kind: type[Kernel], op_type: str) -> type[Kernel]:
    if kind.op_type == op_type:
        return kind
    return type(kind.__name__, (kind,), {"op_type": op_type, "__doc__": kind.__doc__})
