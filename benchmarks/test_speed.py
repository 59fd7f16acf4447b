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

import npusim

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = npusim.Device("Ascend910B3")
ELEMENTS = 2**24
LONGEST_ESTIMATE_S = 0.5
LARGEST_RATIO = 5.0


def group_norm() -> dict[str, Any]:
    x, statistics, gamma = (
        npusim.TensorSpec(shape, "bfloat16") for shape in ((32, 512, 4096), (32, 32), (512,))
    )
    sizes = {"N": 32, "C": 512, "HxW": 4096, "group": 32, "outputMask": [True, True, True]}
    return {
        "gradOut": x,
        "input": x,
        "mean": statistics,
        "rstd": statistics,
        "gamma": gamma,
        **sizes,
    }


def cross_entropy_of(tensor: object) -> dict[str, Any]:
    names = ("gradOutput", "self", "target", "weightOptional")
    return {**dict.fromkeys(names, tensor), "reduction": 0}


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("aclnnGroupNormBackward", group_norm()),
        (
            "aclnnBinaryCrossEntropyBackward",
            cross_entropy_of(npusim.TensorSpec((2**28,), "float32")),
        ),
    ],
    ids=["GroupNormBackward", "BinaryCrossEntropyBackward"],
)
def test_estimate(benchmark: Any, op: str, arguments: dict[str, Any]) -> None:
    benchmark(lambda: DEVICE.estimate(op, **arguments))  # one argument is called `self`
    assert benchmark.stats.stats.min < LONGEST_ESTIMATE_S


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
