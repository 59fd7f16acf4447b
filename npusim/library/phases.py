"""One kernel of several: phases on all cores, with a barrier behind each.

As fused kernels are made that multiply, normalise and multiply again: each phase is kernels that
don't depend on each other, products on the cube cores and rows on the vector cores. A phase of
none is one more barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.kernel import Kernel
from npusim.ascendc.loops import first_of
from npusim.library.asking import FLAGS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from npusim.ascendc.cluster import CoreWait
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.asking import Asking


class Repeats(NamedTuple):
    """``times`` groups of ``length`` phases from ``first`` on that differ in addresses only."""

    first: int
    length: int
    times: int


class PhasedKernel(Kernel):
    """Kernels without barriers of their own, on as many cores as there are.

    Phases that come again in ``repeats`` are written down once, as a loop. ``asking`` is how vector
    cores have products done; the barriers stand for the flags of each.
    """

    is_mix = True

    def __init__(
        self,
        profile: Profile,
        op_type: str,
        phases: Sequence[Sequence[Kernel]],
        reads: tuple[GlobalTensor, ...],
        writes: tuple[GlobalTensor, ...],
        repeats: Repeats | None = None,
        asking: Asking = FLAGS,
    ) -> None:
        self.repeats, self.asking = repeats or Repeats(len(phases), 0, 0), asking
        self.op_type, self.phases, self.reads, self.writes = op_type, phases, reads, writes
        self.block_dim = profile.cores.cube_cores
        self.lanes = profile.cores.vector_cores // profile.cores.cube_cores
        known = {each.buffer.number for each in (*reads, *writes)}
        between: dict[int, GlobalTensor] = {}
        for part in (part for phase in phases for part in phase):
            for each in (*part.writes, *part.scratch):
                if each.buffer.number not in known:
                    between.setdefault(each.buffer.number, each)
        self.scratch = tuple(between.values())

    @property
    def workspace_bytes(self) -> int:
        """Bytes of what passes from phase to phase."""
        return sum(each.buffer.nbytes for each in self.scratch)

    def block_kind(self, block_idx: int) -> Hashable:
        numbers = [lane * self.block_dim + block_idx for lane in range(self.lanes)]
        first, length, times = self.repeats
        again = max(0, times - 1) * length
        phases = [*self.phases[: first + length], *self.phases[first + length + again :]]
        return tuple(
            tuple(
                part.block_kind(number) if number < part.block_dim else None
                for number in ((block_idx,) if part.cores == "cube" else numbers)
            )
            for phase in phases
            for part in phase
        )

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """What this core has to do of each phase."""
        yield from self.asking.begin(core, self.lanes)
        first, length, times = self.repeats
        last = first + length * times
        for place in range(first):
            yield from self._phase(core, place)
        for turn in core.loop(times, sequential=True):
            for place in range(length):
                yield from self._phase(core, first + first_of(turn) * length + place)
        for place in range(last, len(self.phases)):
            yield from self._phase(core, place)

    def _phase(self, core: Core, place: int) -> Iterator[Barrier]:
        """A phase, behind a barrier."""
        number = core.get_block_idx() + core.get_sub_block_idx() * self.block_dim
        if place:
            yield core.sync_all()
        for part in self.phases[place]:
            if part.cores == core.unit.kind and number < part.block_dim:
                core.pipe.reset()
                if part.cores == "cube":
                    core.take_messages(self.asking.a_product)
                with core.numbered(number, part.block_dim):
                    part.process(core)
