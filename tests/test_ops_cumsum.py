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
    (found,) = run(chip, "Cumsum", [x], [like(x)], axis=axis)
    np.testing.assert_allclose(found, x.cumsum(axis), rtol=1e-5, atol=1e-4)


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
