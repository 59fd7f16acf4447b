"""MultiScaleDeformableAttentionGrad: gather cells around points, add to their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from npusim.ops.multi_scale_deformable_attention_grad.problem import Problem
from npusim.ops.multi_scale_deformable_attention_grad.worker import Worker

if TYPE_CHECKING:
    from npusim.ascendc import Core
    from npusim.engine.program import Barrier


class MultiScaleDeformableAttentionGrad(Problem):
    """Every core clears its share of the outputs and works on its tasks."""

    def process(self, core: Core) -> Iterator[Barrier]:
        """Clear the outputs, wait for each other, work on the points."""
        worker = Worker(self, core)
        worker.clear()
        yield core.sync_all()
        worker.read_maps()
        block, corners = core.get_block_idx(), self.survey.corners
        if core.reference and corners is not None:
            worker.follow(self.tiling.tasks_of(block), corners)
            return
        core.separately(
            lambda: worker.schedule(self.loads[block]),
            lambda: (
                None if corners is None else worker.compute(self.tiling.points_of(block), corners)
            ),
        )
