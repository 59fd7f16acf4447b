"""Dropout: elements kept by a mask of bits and scaled up, the others zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.schedules.masks import BitMaskKernel

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.hardware.profile import Profile


class DropOutDoMask(BitMaskKernel):
    """out = x / keep_prob where the mask's bit is set, else 0."""

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

    def prepare(self, core: Core) -> None:
        """Read what all tiles need."""
        self.scale = 1.0 / core.load_scalar(self.keep_prob.view(1).span(0, 1))

    def transform(self, core: Core, dst: LocalTensor, x: LocalTensor) -> LocalTensor:
        """What becomes of the elements that are kept."""
        return core.muls(dst, x, self.scale)
