"""The tensors and the tiling of MultiScaleDeformableAttentionGrad, and where its points lie."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING

from npusim.ascendc import GlobalTensor, Kernel
from npusim.ops.multi_scale_deformable_attention_grad.loads import Load, deal
from npusim.ops.multi_scale_deformable_attention_grad.points import (
    Maps,
    Shares,
    Survey,
    look,
    suppose,
)
from npusim.ops.multi_scale_deformable_attention_grad.tiling import KERNEL_WORKSPACE_BYTES, Tiling

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes


class Problem(Kernel):
    """All tensors are float32, but for shapes and starts, which are int32.

    location and grad_location are [batch, heads, levels, points, 2, queries], weight and
    grad_weight the same without the 2; grad_output is [batch, queries, heads * channels]. What the
    points look like is read from location's memory; in a run without numbers from ``given``, and
    where that is None, too, it is ``shares``.
    """

    op_type = "MultiScaleDeformableAttentionGrad"

    def __init__(
        self,
        profile: Profile,
        value: GlobalTensor,
        shapes: GlobalTensor,
        starts: GlobalTensor,
        location: GlobalTensor,
        weight: GlobalTensor,
        grad_output: GlobalTensor,
        grad_value: GlobalTensor,
        grad_location: GlobalTensor,
        grad_weight: GlobalTensor,
        *,
        sizes: Sizes,
        given: Maps | None,
        shares: Shares,
    ) -> None:
        self.value, self.shapes, self.starts = value, shapes, starts
        self.location, self.weight, self.grad_output = location, weight, grad_output
        self.grad_value, self.grad_location, self.grad_weight = (
            grad_value,
            grad_location,
            grad_weight,
        )
        self.reads = (value, shapes, starts, location, weight, grad_output)
        self.writes = (grad_value, grad_location, grad_weight)
        self.sizes = sizes
        self.tiling = Tiling.of(profile, sizes)
        self.block_dim = self.tiling.block_dim
        self._line_bytes = profile.memory.l2_line_bytes
        self._given, self._shares = given, shares

    @property
    def workspace_bytes(self) -> int:
        """Bytes of system workspace."""
        return KERNEL_WORKSPACE_BYTES

    @cached_property
    def survey(self) -> Survey:
        """Where the points lie; raises DeviceFault where one needs a key that value lacks."""
        maps = self._given
        arrays = (self.location.array, self.shapes.array, self.starts.array)
        if all(array is not None for array in arrays):
            maps = Maps(*arrays)  # type: ignore[arg-type]
        if maps is None:
            return suppose(self.tiling, self._shares)
        return look(self.tiling, maps, self._line_bytes)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """The load of every core."""
        return deal(self.tiling, self.survey.mixes)

    def block_kind(self, block_idx: int) -> Hashable:
        """What a core clears, and its load."""
        cleared = self.to_clear(block_idx)
        return cleared.buffer.number if cleared else None, self.loads[block_idx]

    def to_clear(self, block_idx: int) -> GlobalTensor | None:
        """The output that a core sets to zero first of all: one each for the first three cores."""
        return self.writes[block_idx] if block_idx < len(self.writes) else None
