"""The gradient of a volume's weights: that of planes for every tap along the depth.

A result's gradient meets the plane that a tap sees; planes in the padding are left out. Cores share
the planes of all results as they share images. Source: ops-nn conv/conv3d_backprop_filter_v2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from npusim.library.block_matmul import BlockMatmul, Product
from npusim.library.unfolded import Unfolded
from npusim.ops.convolution.filter_gradient import FilterGradient
from npusim.ops.convolution.filter_tiling import filter_partition
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.windows import Window
    from npusim.hardware.profile import Profile
    from npusim.ops.convolution.filter_tiling import FilterShare
    from npusim.ops.convolution.volumes import Depth


class _Run(NamedTuple):
    """Results one after the other, and the first plane that a tap sees of them."""

    tap: int
    image: int
    images: int
    plane: int


class VolumeFilterGradient(FilterGradient):
    """dw += dy^T x unfold(x), for every tap along the depth.

    x (N, D, C1, H, W, C0), dy (N, Do, Co1, Ho, Wo, C0), dw (taps * C1, N1, 16, C0) in float32.
    """

    op_type: str = "Conv3DBackpropFilter"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        dy: GlobalTensor,
        dw: GlobalTensor,
        window: Window,
        depth: Depth,
        *,
        hf32: bool = False,
    ) -> None:
        volumes, planes, slices, *rest = x.shape
        self.depth, self.plane_slices = depth, slices
        super().__init__(
            profile,
            x.view(volumes * planes, slices, *rest),
            dy.view(volumes * depth.results, *dy.shape[2:]),
            dw,
            window,
            hf32=hf32,
        )
        self.reads = (x, dy)
        self.flat = x.view(1, volumes * planes * slices, *rest)
        self.shape = self.shape._replace(images=volumes * depth.results)
        self.partition = filter_partition(profile, self.shape)
        self.block_dim = self.partition.block_dim

    def block_kind(self, block_idx: int) -> Hashable:
        """Runs, rows and slices of a core."""
        share = self.partition.share(block_idx)
        runs = tuple((run.tap, run.images) for run in self._runs(share))
        return share.images, share.rows, share.slices, runs

    def process(self, core: Core) -> None:
        """Run by run."""
        share, shape = self.partition.share(core.get_block_idx()), self.shape
        tiling, deep = self.partition.blocks, share.images * shape.positions
        blocks = BlockMatmul(core, tiling, self.x.dtype, deep, out_dtype=FLOAT, hf32=self.hf32)
        for run in self._runs(share):
            part = share._replace(image=run.image, images=run.images)
            first = run.plane * self.plane_slices + share.slice
            apart = self.depth.stride * self.plane_slices
            product = Product(
                self._result(part, run.tap),
                self._rows(core, part),
                Unfolded(self.flat, self.window, (0, first), apart=apart),
                part.rows,
                part.slices * shape.depth,
                run.images * shape.positions,
            )
            self._separately(core, blocks, product, run.images)

    def _runs(self, share: FilterShare) -> Iterator[_Run]:
        """The runs of a core's results, for every tap along the depth."""
        depth = self.depth
        for tap in range(depth.kernel):
            shift = tap * depth.dilation - depth.before
            image, end = share.image, share.image + share.images
            while image < end:
                volume, result = divmod(image, depth.results)
                behind = min(end, (volume + 1) * depth.results)
                first = max(result, -(shift // depth.stride))
                last = min(
                    behind - volume * depth.results - 1,
                    (depth.planes - 1 - shift) // depth.stride,
                )
                if first <= last:
                    start = volume * depth.results + first
                    plane = volume * depth.planes + first * depth.stride + shift
                    yield _Run(tap, start, last - first + 1, plane)
                image = behind
