"""One kernel of several: phases on all cores, with a barrier behind each.

As fused kernels are made that multiply, normalise and multiply again: each phase is kernels that
don't depend on each other, products on the cube cores and rows on the vector cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile


class PhasedKernel(Kernel):
    """Kernels without barriers of their own, on as many cores as there are."""

    is_mix = True

    def __init__(
        self,
        profile: Profile,
        op_type: str,
        phases: Sequence[Sequence[Kernel]],
        reads: tuple[GlobalTensor, ...],
        writes: tuple[GlobalTensor, ...],
    ) -> None:
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
        return tuple(
            tuple(
                part.block_kind(number) if number < part.block_dim else None
                for number in ((block_idx,) if part.cores == "cube" else numbers)
            )
            for phase in self.phases
            for part in phase
        )

    def process(self, core: Core) -> Iterator[Barrier]:
        """What this core has to do of each phase."""
        kind = core.unit.kind
        number = core.get_block_idx() + core.get_sub_block_idx() * self.block_dim
        for place, phase in enumerate(self.phases):
            if place:
                yield core.sync_all()
            for part in phase:
                if part.cores == kind and number < part.block_dim:
                    core.pipe.reset()
                    with core.numbered(number, part.block_dim):
                        part.process(core)
