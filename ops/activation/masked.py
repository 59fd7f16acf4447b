"""Gradients that a mask of bits lets through."""

from __future__ import annotations

from npusim.dialect import Core, LocalTensor
from npusim.dialect.masks import BitMaskKernel


class ReluGradV2(BitMaskKernel):
    """out = grad where the bit that ReluV2 stored is set, else 0."""

    op_type = "ReluGradV2"

    def transform(self, core: Core, dst: LocalTensor, x: LocalTensor) -> LocalTensor:
        return x
