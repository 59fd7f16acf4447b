"""The gradient of a convolution's input: a convolution of the output's gradient.

Its window has the taps in reverse and moves by one over the gradient, between whose elements there
are zeros where the convolution had a stride; input and output channels of the weight are exchanged.
Transposed convolutions are the same. Sources: the vendor's public schedules and tilings
(conv2d_backprop_input, op_tiling/conv2d_bp_input_cache_tiling.cc): images in up to as many parts as
there are cores, the last ones smaller.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from npusim.ascendc.windows import Padding, Window
from npusim.library.epilogue import Epilogue
from npusim.library.operands import GmMatrix
from npusim.ops.convolution.dilated import Dilated, Filling, dilated
from npusim.ops.convolution.forward import Conv2D
from npusim.ops.convolution.spread_out import SpreadEpilogue
from npusim.ops.convolution.turned import TurnedWeight
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor
    from npusim.hardware.profile import Profile
    from npusim.library.matmul import Product
    from npusim.library.operands import Factor
    from npusim.ops.convolution.geometry import Geometry
    from npusim.ops.convolution.tiling import Share


class InputGradient(Conv2D):
    """dx = the gradient of x, of a convolution as ``geometry`` describes it.

    dy (N, Co1, Ho, Wo, C0), weight in FRACTAL_Z, dx (N, C1, H, W, C0).
    """

    op_type: str = "Conv2DBackpropInput"
    may_gather = False
    uneven = True

    def __init__(
        self,
        profile: Profile,
        dy: GlobalTensor,
        weight: GlobalTensor,
        dx: GlobalTensor,
        geometry: Geometry,
        *,
        bias: GlobalTensor | None = None,
        epilogue: Epilogue | None = None,
        hf32: bool = False,
        op_type: str = "Conv2DBackpropInput",
    ) -> None:
        if geometry.is_line and not geometry.window.is_point:
            geometry = geometry.upright()
            dy = dy.view(*dy.shape[:2], *geometry.out_plane, dy.shape[4])
        self.stride = geometry.window.stride
        self._filling: Filling | None = None
        build = partial(
            super().__init__, profile, dy, weight, dx, bias=bias, hf32=hf32, op_type=op_type
        )
        mirror = mirrored(op_type, geometry)
        if profile.paths.l0c_to_gm is None and bias is None and _is_spread(geometry):
            plane, plain = geometry.out_plane, epilogue or Epilogue.plain(profile, dx)
            apart = SpreadEpilogue(**vars(plain), plane=plane, stride=self.stride)
            self.dilated = False
            point = replace(mirror, plane=plane, out_plane=plane, window=Window((1, 1)))
            build(point, epilogue=apart)
            if self._in_whole_rows(profile, apart):
                return
        self.dilated = self.stride != (1, 1)
        build(mirror, epilogue=epilogue)

    def _in_whole_rows(self, profile: Profile, apart: SpreadEpilogue) -> bool:
        """Have blocks of whole rows of planes; False where these don't fit."""
        blocks, wide = self.tiling.blocks, apart.plane[1]
        high = profile.cube.fractal_m
        base_m = blocks.base_m // high * high // wide * wide
        fitting = apart.positions(profile.buffers.ub_bytes, self.geometry.lanes)
        if not base_m or not fitting or self.tiling.grid.rows > 1:
            return False
        self.tiling = replace(self.tiling, blocks=replace(blocks, base_m=base_m))
        return True

    def process(self, core: Core) -> None:
        """As a convolution; planes with zeros between are made in UB where the core has one."""
        if self.dilated and core.profile.paths.ub_to_l1 is not None:
            *_, wide, lanes = self.x.shape
            self._filling = Filling(core, self.x.dtype, wide, lanes, self.stride)
        super().process(core)

    def _feature_map(self, share: Share) -> Factor:
        if not self.dilated:
            return super()._feature_map(share)
        first = share.image, share.group * self.geometry.group_slices
        part = share.row, share.rows
        window = self.geometry.window
        return Dilated(self.x, window, first, part, stride=self.stride, filling=self._filling)

    def _product(self, share: Share) -> Product:
        geometry = self.geometry
        width = self.weight.shape[-1]
        first = (share.group * geometry.out_channels + share.column) // width
        b = TurnedWeight(self.weight, geometry.window.taps, geometry.lanes, first)
        product = super()._product(share)._replace(b=b)
        if not isinstance(self.epilogue, SpreadEpilogue):
            return product
        return product._replace(c=self._result(share, self.epilogue.spread))

    def _result(self, share: Share, spread: int) -> GmMatrix:
        """The gradient with a row for each element of its planes."""
        _, slices, high, wide, lanes = self.y.shape
        step, height = high * wide * lanes, share.rows * spread
        column = share.group * self.geometry.out_channels + share.column
        start = (share.image, slices * step), (column, step // lanes)
        return GmMatrix(self.y, start, step, lanes=lanes, height=height, apart=slices * step)


def _is_spread(geometry: Geometry) -> bool:
    """True where a window of one tap saw every so-manieth element of whole rows and columns."""
    window = geometry.window
    if window.taps > 1 or window.stride == (1, 1) or any(window.padding):
        return False
    high, wide = geometry.out_plane
    return geometry.plane == (high * window.stride[0], wide * window.stride[1])


def mirrored(op_type: str, geometry: Geometry) -> Geometry:
    """The convolution of the output's gradient that makes that of the input.

    Raises KernelError for windows that don't reach over their padding.
    """
    window = geometry.window
    (rows, columns), padding = window.extent, window.padding
    high, wide = dilated(geometry.out_plane, window.stride)
    top, left = rows - 1 - padding.top, columns - 1 - padding.left
    bottom = geometry.plane[0] + rows - 1 - high - top
    right = geometry.plane[1] + columns - 1 - wide - left
    if min(top, left, bottom, right) < 0:
        kernel = " x ".join(map(str, window.extent))
        raise KernelError(op_type, f"padding {(*padding,)} of a window of {kernel} elements")
    around = Padding(top, bottom, left, right)
    return replace(
        geometry,
        slices=geometry.out_slices,
        lanes=geometry.out_lanes,
        plane=(high, wide),
        out_slices=geometry.slices,
        out_lanes=geometry.lanes,
        out_plane=geometry.plane,
        window=Window(window.kernel, (1, 1), window.dilation, around),
        weight_lanes=geometry.out_lanes,
    )
