"""Cumsum: running sums against NumPy's, and what they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.values.errors import KernelError
from support.tasks import CHIPS, cycles, like, run

Array = np.ndarray[Any, Any]


@settings(max_examples=20, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    shape=st.sampled_from([(7,), (1, 5), (3, 17), (2, 3, 37), (9, 4, 2, 3)]),
    kind=st.sampled_from([np.float32, np.int32]),
    data=st.data(),
)
def test_sums_so_far(chip: str, shape: tuple[int, ...], kind: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(kind)
    without, turned = data.draw(st.booleans()), data.draw(st.booleans())
    told = {"axis": axis, "exclusive": without, "reverse": turned}
    (found,) = run(chip, "Cumsum", [x], [like(x)], **told)
    ordered = np.flip(x, axis) if turned else x
    want = ordered.cumsum(axis) - (ordered if without else 0)
    want = np.flip(want, axis) if turned else want
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32])
def test_sums_at_once_are_those_place_by_place(kind: Any) -> None:
    """Bit for bit as a core adds them, with zeros of both signs, and over the host's pieces."""
    x = (np.random.default_rng(0).standard_normal((3, 2**19 + 7, 2)) * 9).astype(kind)
    x[0, :3], x[1, 5] = -0.0, -0.0
    (found,) = run("Ascend910B3", "Cumsum", [x], [like(x)], axis=1)
    so_far = np.zeros_like(x[:, 0])
    for place in (0, 1, 2, 3, 4, 5):
        so_far = so_far + x[:, place]
        np.testing.assert_array_equal(found[:, place].view(np.uint8), so_far.view(np.uint8))
    np.testing.assert_array_equal(found, np.add.accumulate(x, axis=1, dtype=kind))


def test_long_axes_are_followed_place_by_place() -> None:
    """Twice as many places take twice as long."""
    short, long = (
        cycles("Ascend310P3", "Cumsum", [x], [like(x)], axis=1)
        for x in (np.zeros((8, size), np.int32) for size in (200, 400))
    )
    assert 1.9 < long / short < 2.1


def test_an_axis_that_isn_t_there_is_refused() -> None:
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(KernelError, match="axis 2"):
        run("Ascend310P3", "Cumsum", [x], [x], axis=2)
