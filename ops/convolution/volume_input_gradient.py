"""The gradient of a volume's input, and transposed convolutions of volumes.

A plane of the input is made of the planes of the result that saw it, one behind the other, and of
the taps along the depth by which they did, the last one first; planes of zeros between them, where
the window moved by more than one, aren't multiplied. Within planes it is the gradient of images.
Source: ops-nn conv/conv3d_backprop_input_v2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.ascendc.loops import first_of, mapped
from npusim.library.operands import GmMatrix
from npusim.library.unfolded import Unfolded
from npusim.ops.convolution.dilated import Dilated
from npusim.ops.convolution.geometry import Geometry
from npusim.ops.convolution.input_gradient import InputGradient
from npusim.ops.convolution.turned import TurnedWeight, scaled
from npusim.ops.convolution.volumes import as_images, kind_of_runs
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.library.matmul import Product
    from npusim.library.operands import Factor, Span
    from npusim.ops.convolution.tiling import Share
    from npusim.ops.convolution.volumes import Depth, Run


class VolumeInputGradient(InputGradient):
    """dx = the gradient of x; dy (N, Do, Co1, Ho, Wo, C0), dx (N, D, C1, H, W, C0)."""

    op_type: str = "Conv3DBackpropInput"

    def __init__(
        self,
        profile: Profile,
        dy: GlobalTensor,
        weight: GlobalTensor,
        dx: GlobalTensor,
        depth: Depth,
        attributes: Mapping[str, object],
        *,
        bias: GlobalTensor | None = None,
        hf32: bool = False,
        op_type: str = "Conv3DBackpropInput",
    ) -> None:
        volumes, results, slices, *rest = dy.shape
        self.depth, self.out_slices = depth, slices
        count, *fractal = weight.shape
        images = as_images(dx)
        of_tap = replace(weight, shape=(count // depth.kernel, *fractal))
        seen = replace(dy, shape=(volumes * depth.planes, slices, *rest))
        planar = Geometry.of(op_type, images, of_tap, seen, attributes)
        if planar.groups > 1 or depth.dilation != 1:
            raise KernelError(op_type, "groups and a dilation of the depth aren't modelled")
        self.taps = planar.window.taps
        most = -(-depth.kernel // depth.stride)
        flat = dy.view(1, volumes * results * slices, *rest)
        geometry = replace(planar, out_slices=most * slices)
        super().__init__(
            profile, flat, weight, images, geometry, bias=bias, hf32=hf32, op_type=op_type
        )
        if sum(run.images for run in depth.back(0, depth.planes)) < depth.planes:
            if bias is not None:
                raise KernelError(op_type, "a bias of planes that no result sees isn't modelled")
            self.adds_into = (images,)  # whose planes that nothing is added to stay zero

    def block_kind(self, block_idx: int) -> Hashable:
        """Runs, channels and positions of a core."""
        return kind_of_runs(self.tiling.shares(block_idx), self._runs)

    def products(self, share: Share) -> Iterator[Product]:
        """A run after the other, of the taps that see it."""
        for run in self._runs(share):
            product = super()._product(share._replace(image=run.image, images=run.images))
            assert isinstance(product.b, TurnedWeight)
            b = TurnedVolume(
                self.weight,
                self.taps,
                product.b.lanes,
                product.b.first,
                own=self.out_slices,
                tap=run.tap,
                step=self.depth.stride,
                deep=self.depth.kernel,
            )
            k = run.taps * self.out_slices * b.depth
            yield product._replace(a=self._planes(share, run), b=b, k=k)

    def _runs(self, share: Share) -> Iterator[Run]:
        return self.depth.back(share.image, share.images)

    def _planes(self, share: Share, run: Run) -> Factor:
        """The planes of a run's gradients as rows of positions."""
        geometry, part = self.geometry, (share.row, share.rows)
        place, apart = (0, run.plane * self.out_slices), self.out_slices
        if self.dilated:
            return Dilated(
                self.x, geometry.window, place, part, apart,
                stride=self.stride, filling=self._filling,
            )  # fmt: skip
        if not geometry.window.is_point:
            return Unfolded(self.x, geometry.window, place, part, apart)
        step = geometry.positions * geometry.lanes
        places = ((place[1], step), (share.row, geometry.lanes))
        return GmMatrix(
            self.x, places, step, lanes=geometry.lanes, height=share.rows, apart=apart * step
        )


@dataclass(frozen=True, slots=True)
class TurnedVolume(TurnedWeight):
    """Further rows for the taps along the depth that came before: ``tap`` first, in steps.

    Every tap along the depth has ``own`` slices of output channels; there are ``deep`` of them.
    """

    own: int = 1
    tap: int = 0
    step: int = 1
    deep: int = 1

    def load_l1(self, core: Core, tile: LocalTensor, rows: Span, columns: Span) -> None:
        """Tap by tap along the depth; a slice of output channels is never of two."""
        slices, taps, channels, width = tile.shape
        done = 0
        while done < channels:
            place = first_of(rows[0]) + done // self.lanes * self.depth
            left = self.own * self.lanes - place // self.depth * self.lanes % (
                self.own * self.lanes
            )
            count = min(left, channels - done)
            start = self._start(rows[0], done, taps)
            places = ((self.first * self.taps, self._of_tap), (start, 1), self._across(columns))
            steps = self.taps * self._of_tap, self._of_tap, width, 1
            shape = slices, taps, count, width
            part = tile if count == channels else tile[:, :, done : done + count]
            core.load_l1(part, self.tensor.window(places, shape, steps))
            done += count

    def _across(self, columns: Span) -> tuple[Index, int]:
        """Where the slices of input channels begin."""
        return scaled(columns[0], self.tensor.shape[-1]), self.taps * self._of_tap

    def _start(self, row: Index, channels: int, taps: int) -> Index:
        """The element of so many output channels behind those of a row."""
        width, own = self.tensor.shape[-1], self.own * self.depth
        of_plane = self.tensor.shape[0] // self.deep * self._of_tap

        def place(rows: NDArray[np.int64]) -> NDArray[np.int64]:
            at = rows + channels // self.lanes * self.depth
            tap = self.tap - at // own * self.step
            channel = at % own // self.depth * self.lanes
            planar = self.taps - taps - at // self.lanes % self.taps
            return tap * of_plane + channel * width + planar * self._of_tap

        which = self.own, self.depth, self.tap, self.step, channels, taps, of_plane
        return mapped(row, place, width, "turned volume", *which)
