"""The gradient of a convolution's weights: a product over the positions of all images.

Rows are output channels, columns what windows see of the input (load3d). Cores that share the
images add into one gradient in float32, which another task has cleared. Source: the vendor's public
schedule (op_tiling/dw_cache_tiling.cc) and ops-nn conv3d_backprop_filter_v2.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar, Literal

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition
from npusim.library.block_matmul import Block, BlockMatmul, Product
from npusim.library.operands import GmMatrix, Tile
from npusim.library.unfolded import Unfolded
from npusim.ops.convolution.filter_tiling import FilterShape, filter_partition
from npusim.ops.convolution.normalised import Normalised, Normalising
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import LocalTensor
    from npusim.ascendc.windows import Window
    from npusim.hardware.profile import Profile
    from npusim.library.operands import Factor, Span
    from npusim.ops.convolution.filter_tiling import FilterShare
    from npusim.ops.convolution.normalised import Normalisation


class FilterGradient(Kernel):
    """dw += dy^T x unfold(x), summed over images and positions.

    x (N, C1, H, W, C0), dy (N, Co1, Ho, Wo, C0), dw (C1 * taps, N1, 16, C0) in float32. With a
    ``normalisation`` dy is a result as well: what that makes of the first tensor, its gradient.
    """

    op_type: str = "Conv2DBackpropFilter"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"
    generated = True

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        dy: GlobalTensor,
        dw: GlobalTensor,
        window: Window,
        *,
        op_type: str = "",
        hf32: bool = False,
        groups: int = 1,
        normalisation: tuple[GlobalTensor, Normalisation] | None = None,
    ) -> None:
        self.op_type = op_type or self.op_type  # one kernel for operators of several names
        self.x, self.dy, self.dw, self.window, self.hf32 = x, dy, dw, window, hf32
        self.reads, self.writes, self.adds_into = (x, dy), (dw,), (dw,)
        self.normalisation, self.groups = normalisation, groups
        if normalisation is not None:
            grads, known = normalisation
            self.reads, self.writes = (x, grads, *known[:-1]), (dy, dw)
        images, slices, *plane, lanes = x.shape
        self.shape = FilterShape(
            images,
            dy.shape[1] * lanes // groups,
            slices // groups,
            (plane[0], plane[1]),
            window,
            x.dtype,
            lanes,
            hf32,
            normalisation is not None,
        )
        self.partition = filter_partition(profile, self.shape)
        self.block_dim = self.partition.block_dim
        # Results on their way out have half of UB, and the other half where no gradient is made.
        tiling, high = self.partition.blocks, profile.cube.fractal_m
        room = profile.buffers.ub_bytes // (2 * tiling.base_n * FLOAT.itemsize)
        self._staged = max(high, min(tiling.base_m, room // high * high))
        self._stages = 2 if normalisation is None else 1

    def block_kind(self, block_idx: int) -> Hashable:
        """Images, rows and slices of a core."""
        share = self.partition.share(block_idx)
        return share.images, share.rows, share.slices

    def process(self, core: Core) -> None:
        """The products of this core's part, a packed group after the other."""
        share, shape = self.partition.share(core.get_block_idx()), self.shape
        tiling, depth = self.partition.blocks, share.images * shape.positions
        blocks = BlockMatmul(
            core,
            tiling,
            self.x.dtype,
            depth,
            out_dtype=FLOAT,
            hf32=self.hf32,
            unit_flag=not self.generated,
            staged_rows=self._staged,
            stages=self._stages,
        )
        for group in range(self.groups):
            row, first = group * shape.rows + share.row, group * shape.slices + share.slice
            part = share._replace(row=row, slice=first)
            self._multiply(core, blocks, part, self._result(share, group))

    def _multiply(
        self, core: Core, blocks: BlockMatmul, share: FilterShare, result: GmMatrix
    ) -> None:
        """The gradient of a packed group's weights, as far as it is this core's."""
        product = Product(
            result,
            self._rows(core, share),
            Unfolded(self.x, self.window, (share.image, share.slice)),
            share.rows,
            share.slices * self.shape.depth,
            share.images * self.shape.positions,
        )
        self._separately(core, blocks, product, share.images)

    def _separately(self, core: Core, blocks: BlockMatmul, product: Product, images: int) -> None:
        """A product, its schedule and its numbers each by itself."""
        core.separately(
            lambda: self._block_by_block(core, blocks, product),
            lambda: self._image_by_image(core, blocks, product, images),
        )

    def _block_by_block(self, core: Core, blocks: BlockMatmul, product: Product) -> None:
        """The schedule of a core's part."""
        blocks.begin(product)
        for block in blocks.iterate():
            self._add(core, blocks, block, product.c)

    def _image_by_image(
        self, core: Core, blocks: BlockMatmul, product: Product, images: int
    ) -> None:
        """The numbers of a core's part, as few products as there are images."""
        rows, columns, size = (0, product.m), (0, product.n), self.shape.positions
        sums = _unlimited(core, TPosition.CO1).get(FLOAT, product.m, product.n)
        for image in range(images):
            k = (image * size, size)
            a = _whole(core, product.a, (TPosition.A1, TPosition.A2), rows, k)
            b = _whole(core, product.b, (TPosition.B1, TPosition.B2), k, columns)
            core.mmad(sums, a, b, accumulate=image > 0, hf32=self.hf32)
        self._add(core, blocks, Block(sums, rows, columns), product.c)

    def _add(self, core: Core, blocks: BlockMatmul, block: Block, c: GmMatrix) -> None:
        """Add a block to the gradient, as many of its rows at a time as UB has room for."""
        core.set_atomic_add(core.costs.adding_at_once(self.partition.sharers))
        first, rows = block.rows
        step = self._staged if core.recording else rows
        for start in range(0, rows, step):
            part = block.tensor[start : start + step]
            here = (first + start, min(step, rows - start))
            blocks.get_tensor_c(Block(part, here, block.columns), c)
        core.set_atomic_none()

    def _rows(self, core: Core, share: FilterShare) -> Factor:
        """The gradient of the output, a row for each channel and a column for each position."""
        dy = self._matrix(self.dy, share)
        if self.normalisation is None:
            return dy
        grads, known = self.normalisation
        blocks = self.partition.blocks
        taken = self._staged * blocks.base_n * FLOAT.itemsize
        room = core.capacity_bytes("UB") - taken
        through = Normalising(core, known, share.row, share.rows, room)
        given = self._matrix(grads, share), self._matrix(known.x, share)
        return Normalised(given, dy, through)

    def _matrix(self, tensor: GlobalTensor, share: FilterShare) -> GmMatrix:
        """A feature map like the output's gradient with its channels as rows."""
        _, slices, _, _, lanes = tensor.shape
        step = self.shape.positions * lanes
        start = ((share.image, slices * step), (share.row, step // lanes))
        return GmMatrix(tensor, start, step, True, lanes, self.shape.positions, slices * step)

    def _result(self, share: FilterShare, group: int) -> GmMatrix:
        """The gradient of a group's weights, as FRACTAL_Z has it: blocks of ``lanes`` columns."""
        _, high, rows, lanes = self.dw.shape
        step = high * rows * lanes
        first = (group * self.shape.slices + share.slice) * self.window.taps
        start = ((share.row, lanes), (first, step))
        return GmMatrix(self.dw, start, step, lanes=lanes)


def _whole(
    core: Core, factor: Factor, places: tuple[TPosition, TPosition], rows: Span, columns: Span
) -> LocalTensor:
    """Part of a factor on its way through L1 into L0, whatever its size."""
    in_l1, in_l0 = (_unlimited(core, place) for place in places)
    tile = in_l1.get(factor.dtype, *factor.tile_shape(rows[1], columns[1]))
    factor.load_l1(core, tile, rows, columns)
    piece = in_l0.get(factor.dtype, rows[1], columns[1])
    factor.load_l0(core, piece, Tile(tile, _first(rows), _first(columns)), rows, columns)
    return piece


def _first(span: Span) -> int:
    return span[0] if isinstance(span[0], int) else 0


def _unlimited(core: Core, place: TPosition) -> TBuf:
    """Memory for numbers alone, of any size."""
    buffer = TBuf(str(place).lower(), place)
    buffer.attach(core, 1, 0)
    return buffer
