"""Times the parts with pytest-benchmark: `pytest benchmarks`; a plain `pytest` leaves them out.

`benchmarks/speed.py` holds the whole program against its limits; this file is for comparing two
states of the code (``--benchmark-save``, ``--benchmark-compare``).  The figure of merit of a run on
numbers is its ratio to the same formula in NumPy on whole arrays, on the same machine.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from calls import CHIP, DEVICE, LARGE, SMALL, estimate

import npusim

if TYPE_CHECKING:
    from collections.abc import Callable

ELEMENTS = 2**24
LONGEST_ESTIMATE_S = 0.05
LONGEST_SMALL_ESTIMATE_S = 0.01
LARGEST_RATIO = 5.0


@pytest.mark.parametrize("name", LARGE)
def test_estimate_again(benchmark: Any, name: str) -> None:
    benchmark(estimate, LARGE[name][0])
    limit = LONGEST_SMALL_ESTIMATE_S if name in SMALL else LONGEST_ESTIMATE_S
    assert benchmark.stats.stats.min < limit


@pytest.mark.parametrize("name", LARGE)
def test_estimate_of_a_new_shape(benchmark: Any, name: str) -> None:
    def afresh() -> float:
        return estimate(LARGE[name][0], npusim.Device(CHIP))  # nothing has been played before

    benchmark.pedantic(afresh, rounds=5, warmup_rounds=1)


def formula(go: Any, x: Any, y: Any, w: Any) -> Any:
    return go * w * (x - y) / np.maximum(x * (1 - x), np.float32(1e-12))


def best(work: Callable[[], object], times: int = 3) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def test_run_against_numpy(benchmark: Any) -> None:
    random = np.random.default_rng(0)
    go, x, y, w = (random.random(ELEMENTS, dtype=np.float32) for _ in range(4))
    arguments = {"gradOutput": go, "self": x, "target": y, "weightOptional": w, "reduction": 0}
    plain = best(lambda: formula(go, x, y, w))
    result = benchmark.pedantic(
        DEVICE.run,
        args=("aclnnBinaryCrossEntropyBackward",),
        kwargs=arguments,
        rounds=5,
        warmup_rounds=1,
    )
    np.testing.assert_allclose(result.outputs["out"], formula(go, x, y, w), rtol=1e-5)
    ratio = benchmark.stats.stats.min / plain
    benchmark.extra_info["ratio to NumPy"] = round(ratio, 2)
    assert ratio < LARGEST_RATIO


def test_run_group_norm(benchmark: Any) -> None:
    """Numbers through the kernel with scalars and reductions, not only elementwise work."""
    random = np.random.default_rng(0)
    x = random.standard_normal((8, 256, 1024), dtype=np.float32)
    groups = x.reshape(8, 32, -1)
    benchmark.pedantic(
        DEVICE.run,
        args=("aclnnGroupNormBackward",),
        kwargs={
            "gradOut": random.standard_normal(x.shape, dtype=np.float32),
            "input": x,
            "mean": groups.mean(axis=2),
            "rstd": 1 / groups.std(axis=2),
            "gamma": np.ones(256, np.float32),
            "N": 8,
            "C": 256,
            "HxW": 1024,
            "group": 32,
            "outputMask": [True, True, True],
        },
        rounds=5,
        warmup_rounds=1,
    )
