"""Convolutions of feature maps on the cube cores: Conv2D, with a bias and what a fusion adds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from dataclasses import replace
from math import gcd, prod
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.library.epilogue import Epilogue
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.unfolded import Gathered, Unfolded
from npusim.ops.convolution.block_sizes import Job
from npusim.ops.convolution.geometry import C04, Geometry, lanes_of
from npusim.ops.convolution.tiling import Share, Tiling, tiling_of
from npusim.values.dtypes import FLOAT, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.library.operands import Factor


class Conv2D(Kernel):
    """y = the convolution of x in NC1HWC0 with a weight in FRACTAL_Z, and a bias per channel.

    Images are products of their own: positions by output channels, summed over channels and taps.
    A window of one tap is read as it lies, others are unfolded between L1 and L0A. Results pass UB
    where the chip has no fixpipe; an ``epilogue`` is what a fused kernel computes with them there.
    """

    op_type: str = "Conv2D"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"
    generated = True
    uneven: ClassVar[bool] = False  # whether images are shared in unequal parts
    may_gather: ClassVar[bool] = True  # from memory, what load3d can't unfold
    dilated: bool = False  # whether planes get zeros between their elements

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        weight: GlobalTensor,
        y: GlobalTensor,
        geometry: Geometry,
        *,
        bias: GlobalTensor | None = None,
        epilogue: Epilogue | None = None,
        hf32: bool = False,
        op_type: str = "Conv2D",
    ) -> None:
        self.op_type = op_type  # one kernel for operators of several names
        most = geometry.out_channels * geometry.groups
        if bias is not None and not 0 < bias.numel <= most:
            raise KernelError(op_type, f"a bias of {bias.numel} numbers for {most} channels")
        through_ub = profile.paths.l0c_to_gm is None
        if epilogue is not None and not through_ub:
            raise KernelError(op_type, f"{profile.name} doesn't fuse vector work into convolutions")
        if geometry.is_line and not geometry.window.is_point and not self.dilated:
            geometry = geometry.upright()
            x = x.view(*x.shape[:2], *geometry.plane, x.shape[4])
        _check(profile, op_type, x, weight, y, geometry)
        self.x, self.weight, self.y, self.bias, self.hf32 = x, weight, y, bias, hf32
        self.window = geometry.window
        self.epilogue = epilogue or (Epilogue.plain(profile, y) if through_ub else None)
        wanted = y.dtype if through_ub else FLOAT if x.dtype.is_float else INT32
        if bias is not None and bias.dtype not in (wanted, y.dtype):
            raise KernelError(op_type, f"a bias in {bias.dtype} is added in {wanted}")
        steps = 0 if self.epilogue is None else len(self.epilogue.formula.steps)
        totals = () if self.epilogue is None else self.epilogue.totals
        self.adds_into = tuple(side.tensor for side in totals)
        steps += len(totals)
        out_bytes, has_bias = y.dtype.itemsize, bias is not None
        given = x.dtype, out_bytes, hf32, has_bias, steps, bool(totals), self.uneven, self.dilated
        self.tiling = self._tiled(profile, Job(geometry, *given))
        self._line_bytes = profile.memory.l2_line_bytes
        self.geometry = self.tiling.job.geometry
        self.block_dim = self.tiling.block_dim
        others = () if self.epilogue is None else self.epilogue.reads
        self.reads = (x, weight, *(() if bias is None else (bias,)), *others)
        self.writes = (y,) if self.epilogue is None else self.epilogue.writes

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x, the weight and perhaps a bias to y."""
        x, weight, y = task.present(2, 1)
        bias = task.inputs[2] if len(task.inputs) > 2 else None
        geometry = Geometry.of(task.op_type, x, weight, y, task.attributes)
        hf32 = bool(task.first("enable_hf32", "hf32"))
        kernel = cls(
            task.profile, x, weight, y, geometry, bias=bias, hf32=hf32, op_type=task.op_type
        )
        return (kernel,)

    def _tiled(self, profile: Profile, job: Job) -> Tiling:
        """A tiling for load3d where it can unfold the planes, else one for what is gathered.

        Source: TBE, conv2d: fields of load3d that are too small for the window, and planes of
        which L1 has no room for what a fractal of positions sees.
        """
        geometry = job.geometry
        self.gathers = False
        may = self.may_gather and not self.dilated and geometry.lanes != C04
        if geometry.fits_load3d(profile):
            try:
                return tiling_of(profile, job)
            except KernelError:
                if not may or geometry.window.is_point:
                    raise
        elif not may:
            raise KernelError(self.op_type, f"load3d of {profile.name} has no such windows")
        self.gathers = True
        run = geometry.window.run * geometry.lanes * job.dtype.itemsize
        return tiling_of(profile, replace(job, geometry=geometry.laid_out(), gathered_bytes=run))

    def for_numbers(self) -> Kernel:
        """One block does what all do, one after the other, unless it makes more of results."""
        if self.epilogue is not None:
            return self
        alone = copy(self)
        alone.block_dim = 1
        return alone

    def block_kind(self, block_idx: int) -> Hashable:
        """Images, channels and positions of a core, and what matters of where these begin."""
        shares = self.tiling.shares(block_idx)
        return tuple(
            (share.images, share.columns, share.rows, self._begin(share.row)) for share in shares
        )

    def _begin(self, row: int) -> Hashable:
        """What loads and stores of positions from one on follow from.

        That is where in a line they begin, and whether a row of positions begins there. What is
        gathered, or gets zeros between its elements, differs from position to position.
        """
        if self.gathers or self.dilated:
            return row
        geometry, tensors = self.geometry, (*self.reads, *self.writes)
        lanes = min(geometry.lanes, geometry.out_lanes)
        position_bytes = lanes * min(tensor.dtype.itemsize for tensor in tensors)
        starts_row = not self.window.is_point and row % geometry.out_plane[1] == 0
        return starts_row, gcd(row * position_bytes, self._line_bytes)

    def process(self, core: Core) -> None:
        """A packed group after the other."""
        blocks, epilogue, bias = self.tiling.blocks, self.epilogue, self.bias
        out = None if epilogue is None else epilogue.start(core, blocks, bias=bias is not None)
        matmul = Matmul(
            core,
            blocks,
            self.x.dtype,
            self.y.dtype,
            self.geometry.depth,
            bias=bias.dtype if bias is not None and epilogue is None else None,
            hf32=self.hf32,
            unit_flag=not self.generated,
            finish=None if out is None else out.of,
        )
        adds_up = out is not None and out.totals is not None
        for share in self._shares(core, alike=not adds_up):
            for product in self.products(share):
                matmul.run(product)
            if out is not None and out.totals is not None:
                columns = share.group * self.geometry.out_channels + share.column, share.columns
                grid = self.tiling.grid
                sharers = core.costs.adding_at_once(grid.images * grid.rows)
                out.totals.store(columns, sharers)

    def _shares(self, core: Core, *, alike: bool) -> Iterator[Share]:
        """What a core does, as loops over packed groups where what they do is `alike`."""
        alone = self.block_dim == 1
        for block in range(self.tiling.block_dim) if alone else (core.get_block_idx(),):
            shares = self.tiling.shares(block)
            if len(shares) < 2 or not alike:
                yield from shares
            else:
                yield from self._in_loop(core, shares)

    def _in_loop(self, core: Core, shares: list[Share]) -> Iterator[Share]:
        geometry, first = self.geometry, shares[0]
        seen = first.images * (geometry.group_slices * prod(geometry.plane) * geometry.lanes
            + first.rows * (first.columns + geometry.depth)) * FLOAT.itemsize  # fmt: skip
        for turn in core.loop(len(shares), inner_bytes=seen):
            # Places are made of it as of a number.
            yield first._replace(group=cast("int", turn + first.group))

    def products(self, share: Share) -> Iterator[Product]:
        """The products of a share."""
        yield self._product(share)

    def _product(self, share: Share) -> Product:
        geometry, weight = self.geometry, self.weight
        out_lanes, positions = geometry.out_lanes, geometry.positions
        inner = geometry.weight_lanes
        block = weight.shape[1] * weight.shape[2] * inner  # all output channels at one tap
        first = share.group * (geometry.depth // inner * block)
        b = GmMatrix(weight, ((first, 1), (share.column, inner)), block, True, inner)
        column = share.group * geometry.out_channels + share.column
        image = geometry.out_slices * positions * out_lanes
        c = GmMatrix(
            self.y,
            ((share.image, image), (share.row, out_lanes), (column, positions)),
            positions * out_lanes,
            lanes=out_lanes,
            height=share.rows,
            apart=image,
        )
        bias = None
        if self.bias is not None:
            channels = geometry.out_channels * geometry.groups
            bias = GmMatrix(filled_up(self.bias, channels), ((column, 1),), 0)
        a = self._feature_map(share)
        sizes = share.rows, share.columns, geometry.depth
        return Product(c, a, b, *sizes, bias, share.images, column=column, keeps_b=True)

    def _feature_map(self, share: Share) -> Factor:
        """The images as rows of positions."""
        geometry = self.geometry
        part, slices = (share.row, share.rows), share.group * geometry.group_slices
        if self.gathers:
            slices = share.group * (geometry.group_slices // self.window.taps)
            return Gathered(self.x, self.window, (share.image, slices), part)
        if not geometry.window.is_point:
            return Unfolded(self.x, geometry.window, (share.image, slices), part)
        lanes, positions = geometry.lanes, geometry.positions
        image = geometry.slices * positions * lanes
        first = ((share.image, image), (slices, positions * lanes), (share.row, lanes))
        step = positions * lanes
        return GmMatrix(self.x, first, step, lanes=lanes, height=share.rows, apart=image)


def _check(
    profile: Profile,
    op_type: str,
    x: GlobalTensor,
    weight: GlobalTensor,
    y: GlobalTensor,
    geometry: Geometry,
) -> None:
    """Raise KernelError for what the cube doesn't multiply, load3d can't say, fixpipe not store."""
    lanes, high = lanes_of(profile, x.dtype), profile.cube.fractal_n
    if x.dtype is not weight.dtype or x.dtype.intrinsic not in profile.cube.dtypes:
        problem = f"the cube of {profile.name} has no {x.dtype} times {weight.dtype}"
        raise KernelError(op_type, problem)
    if geometry.weight_lanes != lanes or geometry.lanes not in (lanes, C04):
        raise KernelError(op_type, f"{x.dtype} lies in slices of {lanes} channels")
    if weight.shape[2] != high:
        raise KernelError(op_type, f"a weight has blocks of {high} output channels")
    sums = FLOAT if x.dtype.is_float else INT32
    if x.dtype.is_float != y.dtype.is_float or not profile.supports_fixpipe(
        sums.intrinsic, y.dtype.intrinsic
    ):
        raise KernelError(op_type, f"{profile.name} doesn't store sums of {x.dtype} as {y.dtype}")
    geometry.refuse_beyond(op_type, profile)


def filled_up(bias: GlobalTensor, channels: int) -> GlobalTensor:
    """A bias for whole slices of channels, of which it may have fewer."""
    if bias.numel < channels and (data := bias.buffer.data) is not None:
        padded = np.zeros(channels, data.dtype)
        padded[: bias.numel] = data[bias.start : bias.start + bias.numel]
        bias = replace(bias, buffer=bias.buffer.shown_as(padded), start=0)
    return replace(bias, shape=(bias.numel,))
