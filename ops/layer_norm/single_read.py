"""LayerNormV4 of Atlas A2, which is written by hand: for rows of 1,024 and 4,096 halves.

As many rows as UB holds are loaded together and then worked on one by one, their sums going through
the scalar unit; cores are dealt out such groups. Short rows that end within a block are turned
around on the device; here they are worked on as in LayerNormV3.
Source: ops-nn norm/layer_norm_v4, layer_norm_v4_single_read_tiling.cpp and its kernel.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from npusim.ops.layer_norm.kernel import LayerNormV3
from npusim.schedules.rows.kernel import RowKernel, kernel_of
from npusim.schedules.rows.layouts import Need, RowLayout, RowsLayout
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

ROWS_OF = (1024, 4096)  # elements, of BFLOAT16
_SHORT = 64  # elements: fewer are turned around
_MOST_ROWS = 32  # that are loaded together
_BUFFERS, _RESERVED_BLOCKS = 2, 8  # of UB: tiles of float32, and what is left for sums


def is_by_hand(profile: Profile, x: GlobalTensor, gains: GlobalTensor, columns: int) -> bool:
    """Whether aclnnLayerNorm takes LayerNormV4.

    Source: ops-nn norm/layer_norm_v4/op_host/op_api/aclnn_layer_norm.cpp (IsV4SocCheck).
    """
    if profile.cores.style != "split":
        return False
    if x.dtype is gains.dtype is BFLOAT16 and columns in ROWS_OF:
        return True
    lanes = profile.buffers.block_bytes // x.dtype.itemsize
    return columns < _SHORT and columns % lanes > 0


class _Groups(RowsLayout):
    """Rows that are loaded together go to one core."""

    def plan(self, need: Need) -> None:
        cores, block = self.profile.cores.vector_cores, self.profile.buffers.block_bytes
        room = int(self.profile.buffers.ub_bytes) - _RESERVED_BLOCKS * block
        group = min(_MOST_ROWS, room // FLOAT.itemsize // _BUFFERS // self.columns)
        self.rows_at_once = 1 if self.rows <= cores else group
        self.share = round_up(ceil(self.rows / cores), self.rows_at_once)
        self.block_dim = ceil(self.rows / self.share)
        super().plan(need)


class LayerNormV4(RowKernel):
    """x, gains and shifts; y, means and reciprocal deviations."""

    op_type = "LayerNormV4"
    row = replace(LayerNormV3.row, op_type=op_type, generated=False, depth=1, most_columns=1)

    def make_layout(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor | None],
        attributes: Mapping[str, object],
    ) -> RowLayout:
        layout = super().make_layout(profile, inputs, outputs, attributes)
        assert isinstance(layout, RowsLayout)
        found = _Groups(profile, layout.rows, layout.columns, layout.itemsize, generated=False)
        found.one_by_one = True
        return found


_Turned = kernel_of(replace(LayerNormV3.row, op_type=LayerNormV4.op_type))


def layer_norm_v4(task: Task) -> tuple[Kernel, ...]:
    """x, which axes are normalised, gains and shifts; y, means and reciprocal deviations."""
    given: tuple[GlobalTensor | None, ...] = (*task.inputs, None, None, None)
    x, _, gains, shifts, *_ = given
    if gains is None or shifts is None:
        raise task.refused("gains or shifts that are left out aren't modelled")
    kind = LayerNormV4 if gains.numel in ROWS_OF else _Turned
    return kind.from_task(replace(task, inputs=(x, gains, shifts)))
