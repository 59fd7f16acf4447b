"""Gradients that a mask of bits lets through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.block_split import Axes
from npusim.schedules.masks import BitMaskKernel

if TYPE_CHECKING:
    from npusim.ascendc import Core, LocalTensor


class ReluGradV2(BitMaskKernel):
    """out = grad where the bit that ReluV2 stored is set, else 0."""

    op_type = "ReluGradV2"
    axes = Axes.KEPT

    def transform(self, core: Core, dst: LocalTensor, x: LocalTensor) -> LocalTensor:
        """Nothing: elements are kept as they are."""
        del core, dst
        return x
