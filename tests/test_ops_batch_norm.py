"""Sums of batch normalisation per channel, over batch, height and width, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from support.tasks import CHIPS, run


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(1, 2, 3, 5, 16), (3, 1, 5, 7, 16), (100, 2, 3, 3, 16)])
def test_sums_and_sums_of_squares(chip: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    empty = np.zeros((1, shape[1], 1, 1, 16), np.float32)
    total, squares = run(chip, "BNTrainingReduce", [x], [empty, empty.copy()])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(total, wide.sum((0, 2, 3), keepdims=True), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(squares, (wide**2).sum((0, 2, 3), keepdims=True), rtol=1e-4)
