"""One launch of a kernel: its grid, its arguments, and what cores leave for each other."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.ascendc import UINT8, GlobalTensor, GmBuffer
from npusim.triton.program import MATMULS
from npusim.triton.sharing import shared_of
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import Core
    from npusim.triton.held import GlobalPiece
    from npusim.triton.mlir import Operation
    from npusim.triton.program import LoweredProgram

Grid = tuple[int, int, int]


class Crossing(NamedTuple):
    """Where one kind of core leaves a tile for the other: the flag, and the first byte."""

    flag: int
    at: int


class Launch:
    """A lowered ``program`` on a ``grid``, with pieces of memory and numbers for its arguments.

    ``cores`` are those of the chip that can work on it at a time.
    """

    def __init__(
        self, program: LoweredProgram, grid: Grid, given: Sequence[GlobalPiece | float], cores: int
    ) -> None:
        self.program, self.grid, self.given = program, grid, tuple(given)
        self.programs = prod(grid)
        self.blocks = min(self.programs, cores) if program.is_grouped else self.programs
        self.shared = shared_of(program)
        self.told: set[object] = set()  # operations that something has been said about
        self._left: dict[object, list[Any]] = {}  # numbers that cores of a block have stored
        self._crossings: dict[object, Crossing] = {}
        self.workspace = GmBuffer("workspace", 0)
        self.scratch: tuple[GlobalTensor, ...] = ()
        if program.has_products:
            self._number_crossings()
            self.scratch = (GlobalTensor(self.workspace, UINT8, (self.workspace.nbytes,)),)

    def place(self, block: int) -> Grid:
        """Where a block's program stands along the three axes, the last of which goes first.

        Where programs are grouped: the block, and the numbers of blocks and programs.
        Source: AscendNPU-IR, Auto Blockify, whose examples show what becomes of program ids.
        """
        if self.program.is_grouped:
            return block, self.blocks, self.programs
        _, y, z = self.grid
        return block // (y * z), block // z % y, block % z

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
        self.workspace = GmBuffer("workspace", at * self.blocks)

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
