"""A Triton kernel as a kernel of the simulated chip: a block for each program or share of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from npusim.ascendc import Kernel
from npusim.triton.player import Player
from npusim.triton.scouting import DependsOnDataError, Scout
from npusim.triton.scouting_all import kinds_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.triton.launch import Launch
    from npusim.triton.program import LoweredProgram


class TritonKernel(Kernel):
    """A launch of a lowered program; a block for each program of the grid, or share of them."""

    cores: ClassVar[Any] = "vector"
    generated = True
    follows_numbers = True

    def __init__(self, launch: Launch, tensors: Sequence[GlobalTensor]) -> None:
        self.launch = launch
        self.reads = self.writes = tuple(tensors)
        self.scratch = launch.scratch
        self.block_dim = launch.blocks
        self._kinds: dict[int, Hashable] = {}

    @staticmethod
    def named(program: LoweredProgram) -> type[TritonKernel]:
        """The class under a kernel's name."""
        told = {"op_type": program.name, "__module__": __name__, "is_mix": program.has_products}
        return cast("type[TritonKernel]", type(program.name, (TritonKernel,), told))

    def block_kind(self, block_idx: int) -> Hashable:
        """What a program does, up to addresses: turns of loops, lengths of copies."""
        if not self._kinds:
            self._kinds = dict(enumerate(kinds_of(self.launch) or ()))
        if block_idx not in self._kinds:
            try:
                told: Hashable = Scout(self.launch, block_idx).signature()
            except DependsOnDataError:
                told = block_idx
            self._kinds[block_idx] = told
        return self._kinds[block_idx]

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """The program's operations, one after the other."""
        return Player(self.launch, core).run()
