"""Dropout: elements kept by a mask of bits and scaled up, the others zero."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.schedules.elementwise import FlatTiling
from npusim.schedules.masks import BitMaskKernel

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.hardware.profile import Profile

_SEGMENT = 128  # elements that cores share


class DropOutDoMask(BitMaskKernel):
    """out = x / keep_prob where the mask's bit is set, else 0.

    For any shape all cores are launched, and some may have nothing to do. Source: public host
    tiling (op_tiling/drop_out_do_mask.cc).
    """

    op_type = "DropOutDoMask"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        mask: GlobalTensor,
        keep_prob: GlobalTensor,
        out: GlobalTensor,
    ) -> None:
        super().__init__(profile, x, mask, out)
        self.keep_prob = keep_prob
        self.reads = (x, mask, keep_prob)

    def _tiled(self, profile: Profile) -> FlatTiling:
        plain, cores = super()._tiled(profile), profile.cores.vector_cores
        if profile.software.compiled_for_shape:
            return plain
        each = max(1, ceil(ceil(plain.rows / _SEGMENT) / cores)) * _SEGMENT
        tile = min(each, plain.tile)
        return FlatTiling(plain.rows, each, tile, cores, double_buffer=tile < each)

    def prepare(self, core: Core) -> None:
        """Read what all tiles need."""
        self.scale = 1.0 / core.load_scalar(self.keep_prob.view(1).span(0, 1))

    def transform(self, core: Core, dst: LocalTensor, x: LocalTensor) -> LocalTensor:
        """What becomes of the elements that are kept."""
        return core.muls(dst, x, self.scale)
