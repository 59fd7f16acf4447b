"""Matrix products on one cube core from global memory to global memory.

What the vendor's matmul library does for one core. The schedule is written down block by block;
the numbers are computed in as few products as the host likes best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from npusim.library.block_matmul import Block, BlockMatmul, Product
from npusim.library.operands import GmMatrix

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.library.matmul_tiling import MatmulTiling
    from npusim.values.dtypes import DType

__all__ = ["Block", "Finish", "GmMatrix", "Matmul", "Product"]

# Moves a block of results from L0C to where it belongs.
Finish = Callable[[Block], None]


class Matmul:
    """Matrix products on one cube core, as often as wanted, with one set of buffers.

    ``k`` is the longest sum, for which ``tiling`` was made. ``finish`` takes over what happens to
    results.
    """

    def __init__(
        self,
        core: Core,
        tiling: MatmulTiling,
        dtype: DType,
        out_dtype: DType,
        k: int,
        *,
        bias: DType | None = None,
        scaled: DType | None = None,
        hf32: bool = False,
        unit_flag: bool = True,
        finish: Callable[[Product], Finish] | None = None,
        step_operations: int = 0,
    ) -> None:
        self._core, self._finish = core, finish
        own = out_dtype if finish is None else None
        self._blocks = BlockMatmul(
            core,
            tiling,
            dtype,
            k,
            out_dtype=own,
            bias=bias,
            scaled=scaled,
            hf32=hf32,
            unit_flag=unit_flag,
            step_operations=step_operations,
        )

    def multiply(self, c: GmMatrix, a: GmMatrix, b: GmMatrix, m: int, n: int, k: int) -> None:
        """c = a @ b for (m, k) by (k, n), all three in global memory."""
        self.run(Product(c, a, b, m, n, k))

    def run(self, product: Product) -> None:
        """Carry out a product."""
        blocks = self._blocks
        blocks.begin(product)
        self._core.separately(
            lambda: self._take_out(product, blocks.iterate()),
            lambda: self._take_out(product, blocks.whole_rows()),
        )

    def _take_out(self, product: Product, blocks: Iterable[Block]) -> None:
        finish = None if self._finish is None else self._finish(product)
        for block in blocks:
            if finish is None:
                self._blocks.get_tensor_c(block, product.c)
            else:
                finish(block)
