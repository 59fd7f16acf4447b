"""InstanceNorm: every channel of every image less its mean, over its deviation.

A plane is a row, its channel's factor and shift stand beside it. Source of the formula and of the
formats, in which planes lie as a whole: public operator sources (impl/instance_norm.py).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.loops import looked_up
from npusim.schedules.formula import Share
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.kernel import RowKernel, RowOperator, kernel_of
from npusim.schedules.rows.layouts import RowsLayout
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.ascendc import GlobalTensor, GmSlice
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Term
    from npusim.schedules.rows.layouts import Need, Piece, RowLayout
    from npusim.schedules.rows.program import Results

_IMAGES, _CHANNELS, _PLANE = 0, 1, 2  # the first axes


class PlaneLayout(RowsLayout):
    """Planes as rows; a column has a number for each channel, the same for all images."""

    computes_together = False  # columns are looked up by a single index

    def __init__(self, profile: Profile, shape: tuple[int, ...], itemsize: int) -> None:
        self._images, self._channels = shape[_IMAGES], shape[_CHANNELS]
        rows = self._images * self._channels
        super().__init__(profile, rows, prod(shape[_PLANE:]), itemsize)

    def plan(self, need: Need) -> None:
        super().plan(need)
        if self._images > 1:
            self.tile_rows = 1  # the rows of a tile needn't be channels that follow each other

    def place(
        self, tensor: GlobalTensor, form: Form, piece: Piece, begin: Index, length: int
    ) -> GmSlice:
        if form is not Form.COLUMN:
            return super().place(tensor, form, piece, begin, length)
        channel = looked_up(piece.indices[0], np.arange(self.rows) % self._channels)
        return tensor.view(tensor.numel).window(((channel, 1),), (piece.rows,), (1,))


class _PlaneKernel(RowKernel):
    """A kernel over the planes of images."""

    def make_layout(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor | None],
        attributes: Mapping[str, object],
    ) -> RowLayout:
        del attributes
        x, *parameters = inputs
        if x is None or len(x.shape) <= _PLANE or not x.numel:
            raise KernelError(self.op_type, "images with channels and planes are needed")
        for each in parameters:
            if each is None or each.numel != x.shape[_CHANNELS]:
                raise KernelError(self.op_type, "a factor and a shift for each channel are needed")
        itemsize = min(each.dtype.itemsize for each in (*inputs, *outputs) if each is not None)
        return PlaneLayout(profile, x.shape, itemsize)


def _instance_norm(f: RowFormula, x: Term, gamma: Term, beta: Term, epsilon: float) -> Results:
    share = Share(1.0)
    mean = f.sum(f.mul(x, share))
    centred = f.sub(x, mean)
    variance = f.sum(f.mul(f.mul(centred, centred), share))
    factor = f.mul(f.rsqrt(f.add(variance, epsilon)), gamma)
    return (f.add(f.mul(centred, factor), beta),)


InstanceNorm = kernel_of(
    RowOperator(
        "InstanceNorm",
        _instance_norm,
        operands=(Form.TILE, Form.COLUMN, Form.COLUMN),
        attributes={"epsilon": 1e-5},
    ),
    _PlaneKernel,
)
