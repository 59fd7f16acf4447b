"""A program's function as a kernel: run on every core by itself, every instruction written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar, cast

from npusim.ascendc.flat.global_order import GlobalOrder
from npusim.ascendc.flat.station import Station
from npusim.ascendc.flat.strand import Strand
from npusim.ascendc.kernel import Kernel

if TYPE_CHECKING:
    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.engine.program import Barrier


class ProgramKernel(Kernel):
    """``code`` on ``block_dim`` blocks; on the cube cores of a mix, ``served`` instead of it.

    Its ``tensors`` may be read and written; ``shared`` is what its cores have in common,
    and ``ending`` what every core does at the end.
    """

    literal: ClassVar[bool] = True

    def __init__(
        self,
        code: Callable[[Station], object],
        tensors: Sequence[GlobalTensor],
        block_dim: int,
        *,
        served: Callable[[Station], object] | None = None,
        links: bool = False,
        shared: object = None,
        ending: Callable[[Station], object] | None = None,
    ) -> None:
        self._code, self._served, self._links, self._shared = code, served, links, shared
        self._ending, self._across = ending, GlobalOrder()
        self.reads = self.writes = tuple(tensors)
        self.block_dim = block_dim

    @staticmethod
    def named(
        name: str, module: str, cores: Literal["vector", "cube"], *, is_mix: bool
    ) -> type[ProgramKernel]:
        """The class under a function's name, whose errors are told as those of ``module``."""
        return named_kernel(ProgramKernel, name, module, cores, is_mix=is_mix)

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """The function's work on one core."""
        cube = self.is_mix and core.unit.kind == "cube"
        code = self._served if cube and self._served is not None else self._code

        def run() -> None:
            station.enter()
            code(station)
            if self._ending is not None:
                self._ending(station)
            station.finish()

        strand = Strand(run)
        station = Station(core, strand, self._across, links=self._links, shared=self._shared)
        return strand.steps()


Found = TypeVar("Found", bound=Kernel)


def named_kernel(
    base: type[Found], name: str, module: str, cores: Literal["vector", "cube"], *, is_mix: bool
) -> type[Found]:
    """A class of kernels under a function's name, whose errors are told as those of ``module``."""
    told = {"op_type": name, "__module__": module, "cores": cores, "is_mix": is_mix}
    return cast("type[Found]", type(name, (base,), told))
