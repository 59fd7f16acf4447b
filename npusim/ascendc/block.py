"""One block of a kernel: its cores, and the order in which their code runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from npusim.ascendc.cluster import Cluster, CoreWait, Progress
from npusim.ascendc.core import Core
from npusim.ascendc.mistakes import is_shipped
from npusim.engine.program import VECTOR, Barrier, Unit
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.chains import Engine
    from npusim.ascendc.costs import InstructionCosts
    from npusim.ascendc.kernel import Kernel
    from npusim.hardware.profile import Profile

Storage = dict[object, "NDArray[Any]"]


class Block:
    """The cores of one block, each with its own run through the kernel's code."""

    def __init__(
        self,
        kernel: Kernel,
        costs: InstructionCosts,
        block_idx: int,
        storage: Mapping[Unit, Storage],
        *,
        numerics: bool,
        recording: bool,
        reference: bool,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> None:
        widened = any(tensor.buffer.wide for tensor in (*kernel.reads, *kernel.writes))
        self._kernel = kernel
        self._cluster = Cluster(
            kernel.op_type,
            block_idx,
            kernel.block_dim,
            widened=widened,
            reference=reference,
            progress=progress,
        )
        self.cores = [
            Core(
                self._cluster,
                costs,
                unit,
                memory,
                numerics=numerics,
                recording=recording,
                engine=engine,
            )
            for unit, memory in storage.items()
        ]
        for core in self.cores:
            core.users_code = not is_shipped(type(kernel))
        self._phases: list[Iterator[Barrier | CoreWait]] = []
        self._waits: dict[int, CoreWait | None] = {}

    def advance(self) -> bool:
        """Run every core to its next barrier, vector cores first; False when all have ended.

        A core that waits for another is left where it is until the other has come far enough.
        """
        if not self._phases:
            self._phases = [self._started(core) for core in self.cores]
        running = list(range(len(self.cores)))
        arrived, name = 0, f"block {self._cluster.block_idx}"
        while running:
            ready = [place for place in running if self._may_go_on(place)]
            if not ready:
                waiting = ", ".join(str(self.cores[place].unit) for place in running)
                raise KernelError(
                    self._kernel.op_type,
                    f"{name}: {waiting} wait for each other",
                )
            for place in ready:
                step = next(self._phases[place], None)
                self.cores[place].chain.run()
                if isinstance(step, CoreWait):
                    self._waits[place] = step
                else:
                    if step is None:
                        self.cores[place].pipe.check_freed()
                    running.remove(place)
                    arrived += step is not None
        if 0 < arrived < len(self.cores):
            raise KernelError(
                self._kernel.op_type,
                f"{name}: some of its cores end while the others wait in sync_all",
                "Every core has to come to it as often.",
                site=max(core.waits_at for core in self.cores),
            )
        return arrived > 0

    def _started(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """The kernel's code on a core; without waits in it, it has run when this returns."""
        phases = self._kernel.process(core) or iter(())
        core.chain.run()
        return phases

    def _may_go_on(self, place: int) -> bool:
        wait = self._waits.get(place)
        if wait is None:
            return True
        if not self._cluster.take(wait):
            return False
        self._waits[place] = None
        return True


def units_of(kernel: Kernel, profile: Profile) -> tuple[Unit, ...]:
    """The cores that run one block of ``kernel``; vector cores come first, with what they leave."""
    if not kernel.is_mix:
        return (VECTOR if kernel.cores == "vector" else Unit("cube"),)
    if profile.cores.style != "split":
        raise KernelError(
            kernel.op_type, f"needs cube and vector cores of their own; {profile.name} has none"
        )
    vectors = profile.cores.vector_cores // profile.cores.cube_cores
    return (*(Unit("vector", sub_block) for sub_block in range(vectors)), Unit("cube"))
