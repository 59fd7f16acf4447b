"""Kernels whose work follows the data: what is written down stands for cores, boxes, points.

A reference run works off every box, task and slide itself. Where they are alike, the typical ones
that are written down otherwise are the same; where they aren't, they are close.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npusim.ascendc import GlobalTensor, Kernel
from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes
from npusim.ops.multi_scale_deformable_attention_grad.kernel import (
    MultiScaleDeformableAttentionGrad,
)
from npusim.ops.roi_align_v2_backward.kernel import ROIAlignGrad
from npusim.ops.roi_align_v2_backward.schedule import Attributes
from npusim.ops.upsample_nearest_exact1d_backward.kernel import UpsampleNearestExact2dGrad
from support import physics
from support.deformable import deformable
from support.kernels import gm
from support.reference import Observed, assert_like_the_reference, observed
from support.roi import roi_align
from support.tasks import kernels

Array = np.ndarray[Any, Any]
Built = tuple[Sequence[Kernel], Sequence[GlobalTensor]]

CHIP = "Ascend910B3"
FEW = settings(max_examples=12, deadline=None)
ROUNDING = 8.0  # steps of float32 that sums in another order may differ by


def both_ways(build: Any, profile: Any) -> tuple[Observed, Observed]:
    """The only task, as ever and in the reference mode; the numbers agree."""
    (fast,), (literal,) = (observed(build, profile, reference=each) for each in (False, True))
    for ours, theirs in zip(fast.outputs, literal.outputs, strict=True):
        allowed = ROUNDING * np.finfo(np.float32).eps * np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=allowed)
    return fast, literal


def assert_close(fast: Observed, literal: Observed, share: float) -> None:
    """Cycles of every pipe and bytes of every buffer, as far as typical work is like the own."""
    for ours, theirs in ((fast.cycles, literal.cycles), (fast.bytes, literal.bytes)):
        assert ours.keys() == theirs.keys()
        for key, count in theirs.items():
            assert ours[key] == pytest.approx(count, rel=share), key


# -- boxes -----------------------------------------------------------------------------------------


def boxes(
    count: int,
    slices: int,
    shape: tuple[int, int, int],
    bins: tuple[int, int],
    *,
    cores: int = 1,
    **given: Any,
) -> Any:
    """Makes the gradient of boxes; a ``ratio`` of 0 takes as many samples as each box needs."""
    call = roi_align(count, 16 * slices, shape, bins, scale=1.0, **given)
    split = call["gradOutput"].reshape(-1, slices, 16, *bins)
    attributes = Attributes(1.0, call["samplingRatio"], aligned=True)

    def build() -> Built:
        grad = gm(np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2)), "grad")
        out = gm(np.zeros((shape[0], slices, *shape[1:], 16), np.float32), "map")
        profile = physics.with_cores(CHIP, cores)
        rois = gm(call["boxes"].copy(), "boxes")
        return [ROIAlignGrad(profile, grad, rois, out, attributes=attributes)], (out,)

    return build


@settings(max_examples=8, deadline=None)
@given(
    count=st.sampled_from([1, 4, 7]),
    slices=st.sampled_from([1, 2]),
    shape=st.sampled_from([(2, 9, 20), (1, 1, 7), (1, 40, 900)]),
    bins=st.sampled_from([(1, 1), (2, 3)]),
    ratio=st.sampled_from([1, 2, 3]),
)
def test_one_core_works_on_boxes_with_equally_many_samples_as_written_down(
    count: int,
    slices: int,
    shape: tuple[int, int, int],
    bins: tuple[int, int],
    ratio: int,
) -> None:
    profile = physics.with_cores(CHIP, 1)
    build = boxes(count, slices, shape, bins, ratio=ratio)
    fast, literal = both_ways(build, profile)
    assert fast.instructions == literal.instructions
    assert fast.bytes == literal.bytes


def test_several_cores_work_on_about_the_boxes_that_are_written_down() -> None:
    build = boxes(24, 2, (2, 20, 20), (1, 2), ratio=2, cores=3)
    assert_close(*both_ways(build, physics.with_cores(CHIP, 3)), share=0.05)


def test_boxes_with_more_samples_than_a_batch_holds() -> None:
    """A batch of columns touches less of the map than its box does."""
    build = boxes(1, 1, (1, 9, 20), (1, 2), ratio=65)
    assert_close(*both_ways(build, physics.with_cores(CHIP, 1)), share=0.3)


def test_boxes_of_any_size_are_written_down_as_their_mean() -> None:
    build = boxes(24, 1, (2, 20, 20), (1, 2), ratio=0, pixels=(2.0, 8.0), cores=3)
    assert_close(*both_ways(build, physics.with_cores(CHIP, 3)), share=0.25)


# -- sampling points -------------------------------------------------------------------------------


def points(maps: list[tuple[int, int]], cores: int, ub: int, **sizes: int) -> tuple[Any, Any]:
    """Makes the gradient of sampling points, on a chip with a small UB."""
    profile = physics.with_ub(physics.with_cores(CHIP, cores), ub)
    call = deformable(maps, **sizes)  # type: ignore[arg-type]
    for name, order in (("location", (0, 2, 3, 4, 5, 1)), ("attnWeight", (0, 2, 3, 4, 1))):
        call[name] = np.ascontiguousarray(call[name].transpose(order))
    keys, queries = call["value"].shape[1], sizes["queries"]
    size = Sizes(
        sizes["batch"], keys, sizes["heads"], sizes["channels"], queries, len(maps), sizes["points"]
    )

    def build() -> Built:
        outputs = [
            gm(np.full(call[name].shape, 77, np.float32), f"{name}_out")
            for name in ("value", "location", "attnWeight")
        ]
        given = [gm(array.copy(), name) for name, array in call.items()]
        kernel = MultiScaleDeformableAttentionGrad(
            profile,
            *given,
            *outputs,
            sizes=size,
            given=None,
            shares=None,  # type: ignore[arg-type]
        )
        return [kernel], outputs

    return build, profile


@pytest.mark.parametrize("queries", [1, 5, 41])
@pytest.mark.parametrize("maps", [[(5, 7)], [(1, 1), (8, 9)]])
def test_one_core_works_on_its_points_as_written_down(
    maps: list[tuple[int, int]], queries: int
) -> None:
    """Bytes and instructions; whether a corner is added or taken off depends on which one it is."""
    build, profile = points(
        maps, 1, 24576, batch=2, queries=queries, heads=2, channels=16, points=2
    )
    fast, literal = both_ways(build, profile)
    assert fast.bytes == literal.bytes
    for each in (fast, literal):
        taken_off = each.instructions.pop(("VECTOR", "vsub"), 0)
        each.instructions["VECTOR", "vadd"] += taken_off
    assert Counter(fast.instructions) == Counter(literal.instructions)


def test_several_cores_work_on_about_what_is_written_down() -> None:
    build, profile = points(
        [(8, 8), (3, 2)], 3, 24576, batch=2, queries=41, heads=2, channels=16, points=2
    )
    assert_close(*both_ways(build, profile), share=0.05)


# -- slides ----------------------------------------------------------------------------------------


def slides(rows: int, length: int, size: int, scale: float, cores: int) -> tuple[Any, Any]:
    profile = physics.with_cores(CHIP, cores)
    grad = np.random.default_rng(0).integers(-3, 4, (rows, length)).astype(np.float32)

    def build() -> Built:
        given, out = gm(grad.copy(), "grad"), gm(np.full((rows, size), 77, np.float32), "out")
        kernel = UpsampleNearestExact2dGrad(profile, given, out, scale=scale)
        kernel.selection.buffer.data = np.zeros(kernel.selection.numel, np.float32)
        return [kernel], (out,)

    return build, profile


@FEW
@given(
    rows=st.integers(1, 80),
    whole=st.integers(0, 6),
    factor=st.integers(1, 9),
    cores=st.sampled_from([2, 6]),
)
@example(rows=70, whole=5, factor=2, cores=6)
def test_slides_over_whole_factors_are_written_down_as_they_are(
    rows: int, whole: int, factor: int, cores: int
) -> None:
    width = 64 if factor <= 5 else 48 if factor <= 8 else 32
    size = max(1, whole) * width
    build, profile = slides(rows, size * factor, size, 0.0, cores)
    assert_like_the_reference(build, profile)


@FEW
@given(
    rows=st.integers(1, 80),
    size=st.integers(200, 500),
    length=st.integers(100, 1200),
    cores=st.sampled_from([2, 6]),
)
def test_no_core_has_more_to_do_than_is_written_down(
    rows: int, size: int, length: int, cores: int
) -> None:
    """Typical slides are the largest of their sort, so that they take no less time."""
    build, profile = slides(rows, length, size, 0.0, cores)
    fast, literal = both_ways(build, profile)
    np.testing.assert_array_equal(fast.outputs[0], literal.outputs[0])
    assert fast.bytes.keys() == literal.bytes.keys()
    assert all(fast.bytes[key] >= count for key, count in literal.bytes.items())
    least = 1 - 1e-9  # sums of floats in another order
    assert all(fast.cycles[pipe] >= least * each for pipe, each in literal.cycles.items())


# -- attention -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "length", "masked"), [(3, 256, False), (1, 2048, False), (2, 1024, True)]
)
def test_attention_writes_down_what_its_blocks_do(batch: int, length: int, masked: bool) -> None:
    """With whole blocks only the last rounds of causal attention differ, which take their mean."""

    profile = physics.with_cores(CHIP, 2)

    def build() -> Built:
        q, k, v, out = (np.ones((batch, 1, length, 16), np.float16) for _ in range(4))
        mask = np.triu(np.ones((2048, 2048), np.uint8), 1) if masked else None
        given = {"head_num": 1, "input_layout": "BNSD", "sparse_mode": 3}
        return kernels(profile, "FlashAttentionScore", [q, k, v, *[None] * 3, mask], [out], given)

    fast, literal = both_ways(build, profile)
    if not masked:
        assert_close(fast, literal, 0.02)
    for pipe in ("CUBE", "VECTOR"):
        assert fast.cycles[pipe] == pytest.approx(literal.cycles[pipe], rel=0.25), pipe
