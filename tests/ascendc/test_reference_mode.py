"""A reference run takes no shortcut, and every kernel's fast run does the same as it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import Core, trace
from npusim.ascendc.issuing import ISSUE
from npusim.hardware import load_profile
from npusim.operators.registry import band_class
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError
from support import physics
from support.kernels import Probe, content, doubling, gm, numbers, queues
from support.reference import assert_like_the_reference
from support.row_cases import with_a_kernel_of_their_own
from support.task_cases import chips_of, task_of

if TYPE_CHECKING:
    from npusim.engine import CoreGroup


def _executed(groups: tuple[CoreGroup, ...]) -> Counter[str]:
    """Instructions by name, cycles of issuing them."""
    found: Counter[str] = Counter()
    for group in groups:
        for instruction, times in group.program.instructions():
            each = round(instruction.cycles) if instruction.name == ISSUE else 1
            found[instruction.name] += each * times * group.size
    return found


def test_a_reference_run_writes_every_iteration_down_by_itself() -> None:
    x, y = gm(numbers(100)), gm(np.zeros(100, np.float32), "y")
    kernel = Probe(doubling(x, y, 8), x, y, blocks=3, alike=True)
    profile = load_profile("Ascend910B3")
    fast = trace(kernel, profile, numerics=True)
    literal = trace(kernel, profile, numerics=True, reference=True)
    assert [group.size for group in fast] == [3]
    assert [group.size for group in literal] == [1, 1, 1]
    assert _executed(literal) == _executed(fast)
    assert all(times == 1 for _, times in literal[0].program.instructions())
    np.testing.assert_array_equal(content(y), 2 * numbers(100))


@pytest.mark.parametrize("reference", [False, True])
def test_a_separate_schedule_computes_by_itself_in_a_reference_run(reference: bool) -> None:
    """``separately`` writes one body down and computes the other; a reference run does both."""
    x, y = gm(numbers(32)), gm(np.zeros(32, np.float32), "y")
    ran = []

    def body(core: Core) -> None:
        into, out = queues(core, 32)

        def work(factor: float, length: int) -> None:
            ran.append((factor, core.numerics, core.recording))
            for first, count in core.tiles(0, 32, length):
                loaded = into.copy_in(x.span(first, count))
                result = core.muls(out.alloc_tensor(FLOAT, count), loaded, factor)
                into.free_tensor(loaded)
                out.copy_out(y.span(first, count), result)

        core.separately(lambda: work(3.0, 8), lambda: work(2.0, 32))

    groups = trace(Probe(body, x, y), load_profile("910B3"), numerics=True, reference=reference)
    assert _executed(groups)["vmuls"] == 4
    assert ran == ([(3.0, True, True)] if reference else [(3.0, False, True), (2.0, True, False)])
    np.testing.assert_array_equal(content(y), (3 if reference else 2) * numbers(32))


# -- every kernel ----------------------------------------------------------------------------------

# Steps of float32, of an output's largest number, that sums in another order may differ by: of
# operator types or of all in a folder. Everywhere else the bits are the same.
ROUNDING = {
    "attention": 16.0,
    "matmul": 8.0,
    "grouped_matmul": 8.0,
    "convolution": 8.0,
    "rms_norm": 32.0,
    "layer_norm": 32.0,
    "softmax": 32.0,
    "SoftmaxCrossEntropyWithLogits": 32.0,
    "recurrent": 16.0,
    "reduction": 16.0,
    "GridSampler2DGrad": 32.0,
    "GridSampler3DGrad": 32.0,
    "MaximumGrad": 16.0,  # an operand of one number gets the sum of its gradients
    "MinimumGrad": 16.0,
    "roi_align_v2_backward": 8.0,
    "multi_scale_deformable_attention_grad": 8.0,
}

# What they write down stands for cores, boxes and points that differ; test_reference_typical_work
# compares those that don't.
TYPICAL = (
    "ROIAlignGrad",
    "MultiScaleDeformableAttentionGrad",
    "UpsampleNearestExact2dGrad",
)

CORES = 3  # so that small tensors keep cores busy with several tiles
UB_PARTS = (1, 8)  # of the chip's UB, so that small tensors are cut into tiles
EXAMPLES = 2


@pytest.mark.parametrize("op_type", with_a_kernel_of_their_own())
def test_a_fast_run_does_what_the_reference_does(op_type: str) -> None:
    """The same numbers, bytes per buffer, instructions and cycles, whatever the shapes."""

    rounding = ROUNDING.get(op_type, ROUNDING.get(band_class(op_type), 0.0))

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(data=st.data(), parts=st.sampled_from(UB_PARTS))
    def agrees(data: st.DataObject, parts: int) -> None:
        for chip in chips_of(op_type):
            whole = physics.with_cores(chip, CORES)
            task = task_of(op_type, data, whole)
            small = physics.with_ub(whole, whole.buffers.ub_bytes // parts)
            compare = partial(
                assert_like_the_reference,
                rounding=rounding,
                typical=op_type in TYPICAL or band_class(op_type) == "attention",
            )
            try:
                compare(partial(task.kernels, small, op_type), small)
            except KernelError:  # tiles of this kernel don't fit into a small UB
                compare(partial(task.kernels, whole, op_type), whole)

    agrees()
