"""One block of a kernel: its cores, and the order in which their code runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from npusim.ascendc.cluster import Cluster, CoreWait, Progress
from npusim.ascendc.core import Core
from npusim.ascendc.mistakes import home_of, is_own_code, is_shipped
from npusim.engine.program import VECTOR, Barrier, Unit
from npusim.values.errors import KernelError, brief

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.chains import Engine
    from npusim.ascendc.costs import InstructionCosts
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.watching import WatchedCore
    from npusim.hardware.profile import Profile

Storage = dict[object, "NDArray[Any]"]

_ENDED = object()  # instead of what a core waits for


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
        kind = _watched() if is_own_code(type(kernel)) else Core
        self.cores = [
            kind(
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
            core.recorder.home = home_of(type(kernel))
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
                self._enter(self.cores[place])
                step = next(self._phases[place], _ENDED)
                self.cores[place].chain.run()
                self._check_step(self.cores[place], step)
                if isinstance(step, CoreWait):
                    self._waits[place] = step
                else:
                    if step is _ENDED:
                        self.cores[place].pipe.check_freed()
                    running.remove(place)
                    arrived += step is not _ENDED
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
        self._enter(core)
        phases = self._kernel.process(core)
        core.chain.run()
        if phases is None:
            return iter(())
        if not isinstance(phases, Iterator):
            raise KernelError(
                self._kernel.op_type,
                f"its code returns a {type(phases).__name__}",
                "Return nothing: results are what it stores to its tensors.",
            )
        return phases

    def _enter(self, core: Core) -> None:
        """A core's code runs next."""
        if core.follower is not None:
            core.follower.goes_on()

    def _check_step(self, core: Core, step: object) -> None:
        """Refuse code that yields something else than what it waits for, or forgets to."""
        awaited, core.awaited = core.awaited, []
        if not core.own_code or not isinstance(core, _watched()):
            return
        core.check_loops()
        if awaited == ([] if step is _ENDED else [step]):
            return
        if awaited:
            barrier = isinstance(awaited[0], Barrier)
            name = "sync_all()" if barrier else "cross_core_wait_flag(...)"
            raise KernelError(
                self._kernel.op_type,
                f"core.{name} without yield: nobody waits",
                f"Write yield core.{name}.",
                site=core.waits_at,
            )
        raise KernelError(
            self._kernel.op_type,
            f"its code yields {brief(step)}",
            "Yield what it waits for: yield core.sync_all(), yield core.cross_core_wait_flag(...).",
        )

    def _may_go_on(self, place: int) -> bool:
        wait = self._waits.get(place)
        if wait is None:
            return True
        if not self._cluster.take(wait):
            return False
        self._waits[place] = None
        return True


class SharedBlock(Block):
    """A block whose tasks others compute, unless it comes first: it has cores if any are left.

    Of a kernel that ``shares_all``, where nothing is written down.
    """

    def __init__(
        self,
        kernel: Kernel,
        costs: InstructionCosts,
        block_idx: int,
        *others: Any,
        progress: Progress | None,
        **options: Any,
    ) -> None:
        self.cores, self._block_idx, self._progress = [], block_idx, progress
        given = (kernel, costs, block_idx, *others)
        self._begin = partial(super().__init__, *given, progress=progress, **options)

    def advance(self) -> bool:
        """As of any block, if it has tasks left."""
        if not self.cores:
            if self._progress is not None and self._progress.has_had(self._block_idx):
                return False
            self._begin()
        return super().advance()


def _watched() -> type[WatchedCore]:
    """What runs code that isn't ours; most runs have none."""
    from npusim.ascendc.watching import WatchedCore

    return WatchedCore


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
