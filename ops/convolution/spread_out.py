"""Results that are spread out on their way: windows of one tap saw only every so-manieth element.

The product is that of the output's gradient as it is; in UB its elements are laid apart over zeros,
what is fused follows, and whole rows of planes are stored. Source: the vendor's public schedule
(conv2d_backprop_input_opti_schedule, dilation of the results).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.loops import mapped
from npusim.ascendc.queues import BUFFER_NUM, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.library.epilogue import Epilogue, mask_of
from npusim.schedules.masks import keep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import Core, LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.library.matmul import Block, Finish, Product
    from npusim.library.matmul_tiling import MatmulTiling


@dataclass(frozen=True)
class SpreadEpilogue(Epilogue):
    """An epilogue of sums and a mask behind spreading; ``plane`` is that of the product."""

    plane: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)

    @property
    def spread(self) -> int:
        """Elements of a plane that is stored for each of a product's."""
        return self.stride[0] * self.stride[1]

    def positions(self, core_bytes: int, lanes: int) -> int:
        """Positions, whole rows of the product's planes, that UB has room for at a time."""
        size = self.product.dtype.itemsize
        each = BUFFER_NUM * lanes * size * (1 + self.spread * (1 + len(self.sides)))
        each += 0 if self.mask is None else BUFFER_NUM * self.spread * lanes
        return core_bytes // each // self.plane[1] * self.plane[1]

    def start(self, core: Core, blocks: MatmulTiling, *, bias: bool) -> SpreadOut:  # type: ignore[override]
        """Reserve UB on a core."""
        del bias
        return SpreadOut(core, self, blocks)


class SpreadOut:
    """A spreading epilogue on one core: its queues in UB."""

    totals = None

    def __init__(self, core: Core, epilogue: SpreadEpilogue, blocks: MatmulTiling) -> None:
        self._core, self._epilogue = core, epilogue
        self._kind = epilogue.product.dtype
        self._lanes = core.block_bytes // self._kind.itemsize
        fitting = epilogue.positions(core.capacity_bytes("UB"), self._lanes)
        self._rows = min(fitting, blocks.base_m)
        product = self._rows * core.block_bytes
        self._product = TQue(TPosition.VECOUT, BUFFER_NUM, "product")
        self._out = TQue(TPosition.VECOUT, BUFFER_NUM, "out")
        self._sides = [
            TQue(TPosition.VECIN, BUFFER_NUM, f"side{n}") for n in range(len(epilogue.sides))
        ]
        self._mask = TQue(TPosition.VECIN, BUFFER_NUM, "mask")
        core.pipe.init_buffer(self._product, BUFFER_NUM, product)
        for queue in (self._out, *self._sides):
            core.pipe.init_buffer(queue, BUFFER_NUM, product * epilogue.spread)
        if epilogue.mask is not None:
            core.pipe.init_buffer(
                self._mask, BUFFER_NUM, self._rows * epilogue.spread * self._lanes
            )

    def of(self, product: Product) -> Finish:
        """What takes a block of this product out."""

        def finish(block: Block) -> None:
            sums, rows, columns = block
            step = self._rows if self._core.recording else rows[1]
            for column in range(0, columns[1], self._lanes):
                for first in range(0, rows[1], step):
                    count = min(step, rows[1] - first)
                    part = sums[first : first + count, column : column + self._lanes]
                    self._part(product, part, rows[0] + first, columns[0] + column)

        return finish

    def _part(self, product: Product, sums: LocalTensor, row: Index, column: Index) -> None:
        """Some rows of a plane: out of L0C, apart, through what is fused, and away."""
        core, epilogue, lanes = self._core, self._epilogue, self._lanes
        tile = self._product.alloc_tensor(self._kind, sums.numel)
        core.take_out(tile, sums)
        elements = sums.numel * epilogue.spread
        out = core.duplicate(self._out.alloc_tensor(self._kind, elements), 0.0)
        core.record_vector("vadds", out, sums.numel)
        core.arrange(out, tile, how=self._apart)
        self._product.free_tensor(tile, by=Pipe.VECTOR)
        rows, columns = (self._place(row), elements // lanes), (column, lanes)
        for queue, side in zip(self._sides, epilogue.sides, strict=True):
            source = replace(product.c, tensor=side.tensor).block(*rows, *columns)
            more = queue.copy_in(source, (elements,))
            core.add(out, out, more)
            queue.free_tensor(more)
        if epilogue.mask is not None:
            source = mask_of(epilogue.mask, product, rows, columns)
            bits = self._mask.copy_in(source, (source.numel,))
            keep(core, out, bits, out)
            self._mask.free_tensor(bits)
        self._out.copy_out(product.c.block(*rows, *columns), out)

    def _apart(self, values: NDArray[Any]) -> NDArray[Any]:
        """Elements of rows of the product's planes, by the stride."""
        (down, right), wide = self._epilogue.stride, self._epilogue.plane[1]
        *stack, elements = values.shape
        high = elements // (wide * self._lanes)
        found = np.zeros((*stack, high * down, wide * right, self._lanes), values.dtype)
        found[..., ::down, ::right, :] = values.reshape(*stack, high, wide, self._lanes)
        return found

    def _place(self, row: Index) -> Index:
        """The row of the result where a row of the product begins a row of a plane."""
        (high, wide), spread = self._epilogue.plane, self._epilogue.spread
        return mapped(row, lambda rows: rows * spread, 1, "spread", high, wide, spread)
