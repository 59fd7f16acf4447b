"""A Triton kernel as a kernel of the simulated chip: a block for each program of the grid."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from npusim.ascendc import UINT8, GlobalTensor, GmBuffer, Kernel
from npusim.triton.player import Player
from npusim.triton.program import MATMULS
from npusim.triton.scouting import DependsOnDataError, Scout
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from npusim.ascendc import Core
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.triton.held import GlobalPiece
    from npusim.triton.mlir import Operation
    from npusim.triton.program import LoweredProgram

Grid = tuple[int, int, int]


class Crossing(NamedTuple):
    """Where one kind of core leaves a tile for the other: the flag, and the first byte."""

    flag: int
    at: int


class TritonKernel(Kernel):
    """A lowered ``program`` on a ``grid``, with pieces of memory and numbers for its arguments."""

    cores: ClassVar[Any] = "vector"
    generated = True

    def __init__(
        self,
        program: LoweredProgram,
        grid: Grid,
        given: Sequence[GlobalPiece | float],
        tensors: Sequence[GlobalTensor],
    ) -> None:
        self.program, self.grid, self.given = program, grid, tuple(given)
        self.reads = self.writes = tuple(tensors)
        self.block_dim = grid[0] * grid[1] * grid[2]
        self._kinds: dict[int, Hashable] = {}
        self._left: dict[object, list[Any]] = {}  # numbers that cores of a block have stored
        self._crossings: dict[object, Crossing] = {}
        self.workspace = GmBuffer("workspace", 0)
        if program.has_products:
            self._number_crossings()
            self.scratch = (GlobalTensor(self.workspace, UINT8, (self.workspace.nbytes,)),)

    def _number_crossings(self) -> None:
        """A flag and a region of the workspace for whatever cores leave for each other."""
        at = 0
        for operation in self.program.function.body.walk():
            values: list[tuple[int, Any]] = []
            if operation.name in MATMULS:
                values = list(enumerate(operation.ins))
            values += [(-1 - place, value) for place, value in enumerate(operation.results)]
            if operation.name in (*MATMULS, "scf.for"):
                for place, value in values:
                    self._crossings[operation, place] = Crossing(len(self._crossings), at)
                    size = prod(each for each in value.type.shape or ()) * 4
                    at += round_up(max(0, size), 512)
        self._region = at
        self.workspace = GmBuffer("workspace", at * self.block_dim)

    def crossing(self, operation: Operation, place: int) -> Crossing:
        """The flag and the region of an operation's operand, or (-1) of its result."""
        return self._crossings[operation, place]

    def workspace_at(self, core: Core, crossing: Crossing) -> int:
        """The first byte of a block's region."""
        return core.get_block_idx() * self._region + crossing.at

    def leave(self, core: Core, crossing: Crossing, values: Any) -> None:
        """Numbers for the cores of the other kind; both vector cores take a product."""
        block = core.get_block_idx()
        others = (None,) if core.unit.kind == "vector" else (0, 1)
        for other in others:
            self._left.setdefault((block, crossing.flag, other), []).append(values)

    def take(self, core: Core, crossing: Crossing) -> Any:
        """The oldest numbers that nobody here has taken."""
        other = core.unit.sub_block if core.unit.kind == "vector" else None
        return self._left[core.get_block_idx(), crossing.flag, other].pop(0)

    @staticmethod
    def named(program: LoweredProgram) -> type[TritonKernel]:
        """The class under a kernel's name."""
        told = {"op_type": program.name, "__module__": __name__, "is_mix": program.has_products}
        return cast("type[TritonKernel]", type(program.name, (TritonKernel,), told))

    def place(self, block: int) -> Grid:
        """Where a block's program stands along the three axes, the last of which goes first.

        The order in which a launch hands programs out is not published; it shows where programs
        share lines of L2, not in how much each of them does.
        """
        x, y, _ = self.grid
        return block % x, block // x % y, block // (x * y)

    def block_kind(self, block_idx: int) -> Hashable:
        """What a program does, up to addresses: turns of loops, lengths of copies."""
        if block_idx not in self._kinds:
            try:
                told: Hashable = Scout(self, block_idx).signature()
            except DependsOnDataError:
                told = block_idx
            self._kinds[block_idx] = told
        return self._kinds[block_idx]

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """The program's operations, one after the other."""
        return Player(self, core).run()
