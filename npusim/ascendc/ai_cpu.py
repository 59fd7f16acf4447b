"""Tasks of the device's AI CPUs: what no AI core does, at a fixed cost and a rate."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc.kernel import Kernel
from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor


_BITS = 8  # of a byte


@contextmanager
def faults_of(op_type: str) -> Iterator[None]:
    """Raise DeviceFault where numbers have no result: no inverse, an index outside."""
    try:
        yield
    except (np.linalg.LinAlgError, IndexError) as error:
        raise DeviceFault(
            AclError.ACL_ERROR_RT_AICPU_EXCEPTION,
            f"{op_type}: {error}",
            "Give numbers for which the result exists.",
        ) from error


class AiCpuKernel(Kernel):
    """A task of the AI CPUs: ``operations`` of them take a time, ``compute`` makes the numbers.

    An operation is what one step of the algorithm takes, a comparison or an addition with its loads
    and stores, while all AI CPUs share the work (``ai_cpu`` of the profile). ``compute`` takes the
    arrays of ``reads`` and returns those of ``writes``.
    """

    runs_on: ClassVar[str] = "AI CPU"
    block_dim = 1

    def __init__(
        self,
        op_type: str,
        reads: Sequence[GlobalTensor],
        writes: Sequence[GlobalTensor],
        operations: float,
        compute: Callable[..., Sequence[NDArray[Any]]],
    ) -> None:
        self.op_type, self.operations, self.compute = op_type, operations, compute
        self.reads, self.writes = tuple(reads), tuple(writes)

    def process(self, core: Core) -> None:
        """Everything at once, by processors of another kind."""
        self.take_time(core)
        if core.numerics:
            with faults_of(self.op_type):
                found = self.compute(*(each.array for each in self.reads))
            for target, made in zip(self.writes, found, strict=True):
                if target.array is not None:
                    target.array[...] = made.reshape(target.shape)

    def take_time(self, core: Core) -> None:
        """What it costs."""
        core.ai_cpu(self.operations)


class RandomKernel(AiCpuKernel):
    """A task of the engine that draws random numbers (``random_engine`` of the profile)."""

    runs_on: ClassVar[str] = "DSA"

    def take_time(self, core: Core) -> None:
        """A number for each element."""
        core.random_engine(numbers=self.writes[0].numel)


class RandomBitsKernel(RandomKernel):
    """Bits, packed into whatever the result consists of."""

    def take_time(self, core: Core) -> None:
        """A bit for each of the result's."""
        core.random_engine(bits=_BITS * self.writes[0].nbytes)
