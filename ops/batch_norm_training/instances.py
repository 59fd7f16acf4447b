"""Instance normalisation of images in NC1HWC0: sums of every plane first, then all of its pixels.

The kernels are those of batch normalisation with the slices of all images as those of one batch of
one; factors and shifts, which all images share, come again for each. Source of the formulas and
types: public operator sources (impl/in_training_reduce_v2.py, impl/in_training_update_v2.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ops.batch_norm_training.sums import BNTrainingReduce
from npusim.ops.batch_norm_training.update import BNTrainingUpdateV2

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task


class INTrainingReduceV2(BNTrainingReduce):
    """Sums of x and of its squares for each channel of each image."""

    op_type = "INTrainingReduceV2"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x to both sums."""
        x, *sums = (_as_one_image(each) for each in task.present(1, 2))
        return (cls(task.profile, x, *sums),)


class INTrainingUpdateV2(BNTrainingUpdateV2):
    """y = x * factor + shift from sums for each channel of each image; mean and variance."""

    op_type: str = "INTrainingUpdateV2"

    def block_kind(self, block_idx: int) -> Hashable:
        """As of a batch, and where in an image the first slice is."""
        of_image = self.per_channel[-1].numel // self.planes.lanes
        first = self.cut.share(block_idx).first_slice % of_image
        return super().block_kind(block_idx), first

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """x, both sums, gamma and beta to y, the means and the variances."""
        x, total, squares, gamma, beta, *results = task.present(5, 3)
        y, mean, variance = (_as_one_image(each) for each in results)
        sums = _as_one_image(total), _as_one_image(squares)
        kernel = cls(
            task.profile,
            _as_one_image(x),
            (*sums, gamma, beta),
            None,
            y,
            None,
            (mean, variance),
            epsilon=task.number("epsilon", 1e-5),
            factor=0.0,
        )
        return (kernel,)


def _as_one_image(tensor: GlobalTensor) -> GlobalTensor:
    """[N, C1, H, W, C0] as [1, N * C1, H, W, C0], the same bytes."""
    images, slices, *rest = tensor.shape
    return replace(tensor, shape=(1, images * slices, *rest))
