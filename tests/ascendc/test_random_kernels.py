"""Random correct kernels compute what NumPy does, in fast and in reference runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import npusim
from support.random_kernels import OnChip, Program, execute, expected, written

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor

COUNT = int(os.environ.get("NPUSIM_RANDOM_KERNELS", "200"))
FIRST = int(os.environ.get("NPUSIM_RANDOM_KERNELS_FIRST", "0"))


@npusim.kernel(writes=("x", "y", "z"))
def fast(
    core: Core, x: GlobalTensor, y: GlobalTensor, z: GlobalTensor, *, program: Program
) -> Iterator[Any]:
    for _ in execute(program, OnChip(program, core, {"x": x, "y": y, "z": z})):
        yield core.sync_all()


class Literal(fast):  # type: ignore[misc, valid-type]
    """The same in a reference run."""

    literal = True


@pytest.mark.parametrize("kernel", [fast, Literal], ids=["fast", "reference"])
def test_random_kernels_compute_what_numpy_does(kernel: Any) -> None:
    device = npusim.Device("910b3")
    for seed in range(FIRST, FIRST + COUNT):
        program = written(seed)
        arrays = program.arrays()
        device.launch(kernel, *arrays, block_dim=program.blocks, program=program)
        for name, found, wanted in zip("xyz", arrays, expected(program), strict=True):
            assert np.array_equal(found, wanted), f"seed {seed}: {name}, {program}"
