"""BNTrainingReduceGrad: the gradient of the input, once the sums per channel are known.

Source: operator sources (impl/bn_training_reduce_grad.py): the order of the computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ops.batch_norm_training.cut import Planes, Share, cut_leading
from npusim.ops.batch_norm_training.maps import ChannelMap, Where

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.hardware.profile import Profile


class BNTrainingReduceGrad(ChannelMap):
    """y = (grads - diff_offset / n - xh * diff_scale / n) * rstd * scale, xh = (x - mean) * rstd.

    ``count`` is n, the elements of a channel; by default what the shape says.
    """

    op_type = "BNTrainingReduceGrad"
    names = ("grads", "x")
    kept = ("mean", "slope", "offset", "factor", "ones")

    def __init__(
        self,
        profile: Profile,
        grads: GlobalTensor,
        x: GlobalTensor,
        diff_scale: GlobalTensor,
        diff_offset: GlobalTensor,
        scale: GlobalTensor,
        mean: GlobalTensor,
        variance: GlobalTensor,
        y: GlobalTensor,
        *,
        epsilon: float = 1e-4,
        count: int = 0,
    ) -> None:
        planes = Planes.of(self.op_type, x)
        cores, exact = profile.cores.vector_cores, profile.software.compiled_for_shape
        cut = cut_leading(planes, y.dtype.itemsize, cores, slices=True, exact=exact)
        super().__init__(profile, (grads, x), y, cut)
        self.per_channel = (diff_scale, diff_offset, scale, mean, variance)
        self.epsilon, self.count = epsilon, count or planes.batch * planes.rows
        self.reads, self.writes = (grads, x, *self.per_channel), (y,)

    def prepare(self, core: Core, share: Share) -> None:
        """x * slope + offset is what to add to grads, factor what to multiply the sum by."""
        del share
        diff_scale, diff_offset, scale, mean, variance = self.per_channel
        rows = self.statistics
        factor = rows.rstd("factor", rows.load("factor", variance), self.epsilon, "ones")
        slope = rows.load("slope", diff_scale)
        core.muls(slope, slope, -1.0 / self.count)
        core.mul(slope, slope, factor)
        centre = rows.load("mean", mean)
        core.mul(centre, centre, slope)
        offset = rows.load("offset", diff_offset)
        core.muls(offset, offset, -1.0 / self.count)
        core.sub(offset, offset, centre)
        core.mul(factor, factor, rows.load("ones", scale))

    def compute(self, core: Core, where: Where, tiles: list[LocalTensor]) -> LocalTensor:
        grads, x = tiles
        self.by_channel(core, "vmul", x, x, where, "slope")
        core.add(x, x, grads)
        self.by_channel(core, "vadd", x, x, where, "offset")
        return self.result(core, "vmul", x, where, "factor")
