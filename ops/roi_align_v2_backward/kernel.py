"""ROIAlignGrad: which boxes a core works on, and which of them are alike.

What happens with a box is in :mod:`npusim.ops.roi_align_v2_backward.accumulation`. Instructions are
recorded for groups of boxes, as the schedule counts them; numbers are computed for boxes with
equally many samples at once. Source: CANN 8.1.RC1 tbe/impl/dynamic/roi_align_grad.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, IndexArray, Kernel
from npusim.ops.roi_align_v2_backward import schedule as schedules
from npusim.ops.roi_align_v2_backward.accumulation import Accumulation
from npusim.ops.roi_align_v2_backward.geometry import Boxes, Geometry
from npusim.ops.roi_align_v2_backward.schedule import Attributes, Group, Samples, Schedule
from npusim.ops.roi_align_v2_backward.tiling import BATCH, Share, Tiling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_USUAL_SAMPLES = 2  # per bin and axis: the default of the vendor's operator


class ROIAlignGrad(Kernel):
    """map += gradients, each spread over the samples of its bin.

    Shapes: grad [boxes, C1, bins_y, bins_x, 16], boxes [boxes, 5], map [images, C1, height, width,
    16]. In a run without numbers the schedule follows from `known` boxes, or else from `samples`
    per bin and axis and bins of `pixels`.
    """

    op_type = "ROIAlignGrad"
    generated = True

    def __init__(
        self,
        profile: Profile,
        grad: GlobalTensor,
        boxes: GlobalTensor,
        map_: GlobalTensor,
        *,
        attributes: Attributes,
        known: NDArray[np.float32] | None = None,
        samples: int = 1,
        pixels: float = 1.0,
    ) -> None:
        self.grad, self.boxes, self.map = grad, boxes, map_
        self.reads, self.writes = (grad, boxes), (map_,)
        self.attributes, self.known = attributes, known
        self.samples, self.pixels = samples, pixels
        self.tiling = Tiling.of(profile, grad.shape, map_.shape)
        self.block_dim = self.tiling.block_dim

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel of a recorded task: unknown boxes, samples per bin as recorded or else 2."""
        grad, boxes, out = task.present(2, 1)
        if len(grad.shape) != 5 or len(out.shape) != 5:
            raise task.refused("gradients and map are NC1HWC0, and boxes are needed")
        if boxes.shape != (grad.shape[0], 5) or grad.shape[1::3] != out.shape[1::3]:
            raise task.unfit(f"gradients {grad.shape} of boxes {boxes.shape} in {out.shape}")
        recorded = task.attributes.get("sample_num")
        samples = recorded if isinstance(recorded, int) and recorded > 0 else _USUAL_SAMPLES
        found = Attributes(1.0, samples, aligned=False)
        kernel = cls(
            task.profile,
            grad,
            boxes,
            task.outputs[0],
            attributes=found,
            samples=samples,
            pixels=samples,
        )
        return (kernel,)

    @cached_property
    def schedule(self) -> Schedule:
        """What every core does; made when the task runs, since it may depend on the boxes."""
        known = self.boxes.array if self.boxes.array is not None else self.known
        if known is None:
            return schedules.assumed(self.tiling, self.samples, self.pixels)
        return schedules.measured(self.tiling, self._samples_of(known))

    def block_kind(self, block_idx: int) -> Hashable:
        """Groups of boxes, as scheduled."""
        return self.schedule.groups(block_idx)

    def process(self, core: Core) -> None:
        """Record what the schedule says, compute what the boxes say."""
        geometry = Geometry(core, self.tiling, self.attributes)
        accumulation = Accumulation(core, geometry, self.tiling, self.grad, self.map)
        geometry.prepare()
        core.separately(
            lambda: self._schedule(core, geometry, accumulation),
            lambda: self._work_off(core, geometry, accumulation),
        )

    def _schedule(self, core: Core, geometry: Geometry, accumulation: Accumulation) -> None:
        """The instructions of this core, or of one like it: all boxes of a group in one loop."""
        if core.reference:
            self._work_off(core, geometry, accumulation)
            return
        groups = self.schedule.groups(core.get_block_idx())
        for first, count in core.tiles(0, sum(group.boxes for group in groups), BATCH):
            boxes = self._load(geometry, first, count)
        core.wait_vector()
        for group in groups:
            core.set_atomic_add(self._sharers(group))
            for box in core.loop(group.boxes):
                accumulation.add(boxes, group, box, 0)

    def _work_off(self, core: Core, geometry: Geometry, accumulation: Accumulation) -> None:
        """The boxes of this core itself, those that are alike at once."""
        for share in self._shares(core):
            for first in range(share.first_box, share.first_box + share.boxes, BATCH):
                count = min(BATCH, share.first_box + share.boxes - first)
                boxes = self._load(geometry, first, count)
                core.wait_vector()
                for group, slots in self._alike(core, share, first, count):
                    core.set_atomic_add(self._sharers(group))
                    for turn in core.loop(group.boxes, at_once=accumulation.at_once(group)):
                        slot = IndexArray(turn.depth, slots[turn.first : turn.last], (first, group))
                        accumulation.add(boxes, group, slot + first, slot)

    def _shares(self, core: Core) -> tuple[Share, ...]:
        """What is computed in this block's turn: where nobody looks, whole boxes that begin here.

        Slices share no memory, so each is summed in the order of its boxes either way.
        """
        shares = self.tiling.shares(core.get_block_idx())
        if core.recording or core.observer is not None:
            return shares
        begun = [share for share in shares if share.first_slice == 0]
        boxes = sum(share.boxes for share in begun)
        return (Share(begun[0].first_box, boxes, 0, self.tiling.slices),) if begun else ()

    def _alike(
        self, core: Core, share: Share, first: int, count: int
    ) -> Iterator[tuple[Group, NDArray[np.intp]]]:
        """Boxes with equally many samples and their places; columns touched only matter to time."""
        here, samples, tiling = slice(first, first + count), self._samples, self.tiling
        left, right = samples.columns
        span = (right[here] - left[here] + 1) * (tiling.sums_rows and core.recording)
        sizes = np.stack((samples.y[here], samples.x[here] * tiling.bins_x, span))
        sizes *= sizes[0] > 0
        kinds, kind = np.unique(sizes, axis=1, return_inverse=True)
        for index, size in enumerate(kinds.T.tolist()):
            slots = np.flatnonzero(kind.reshape(-1) == index)
            yield Group(len(slots), share.first_slice, share.slices, *size), slots

    def _load(self, geometry: Geometry, first: Index, count: int) -> Boxes:
        return geometry.load_boxes(self.boxes.span(first * 5, count * 5), count)

    @cached_property
    def _samples(self) -> Samples:
        return self._samples_of(np.asarray(self.boxes.array))

    def _samples_of(self, boxes: NDArray[np.float32]) -> Samples:
        return schedules.samples_of(boxes, self.tiling, self.attributes)

    def _sharers(self, group: Group) -> float:
        """Cores in the lines that one store of a group writes to, on average."""
        return 1 + (self.schedule.sharers - 1) * self.tiling.lines_per_store(group.span)
