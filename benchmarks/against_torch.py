"""Numbers through the kernels, next to torch: `python benchmarks/against_torch.py OPERATOR WHO`.

Prints the best time in seconds and the peak memory in MiB beyond inputs and outputs as JSON. WHO is
npusim, plain (npusim without its extra ``fast``) or torch, each in a process of its own, with two
threads.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import npusim

if TYPE_CHECKING:
    from collections.abc import Callable

CHIP = "Ascend910B3"
ELEMENTS = 2**24
TIMES = 7
SIZES = (8, 512, 4096, 32)  # N, C, HxW, group: 2**24 elements

Array = np.ndarray[Any, Any]


def best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TIMES):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cross_entropy() -> dict[str, Array]:
    random = np.random.default_rng(0)
    names = ("gradOutput", "self", "weightOptional")
    found: dict[str, Array] = {name: random.random(ELEMENTS, dtype=np.float32) for name in names}
    found["target"] = (random.random(ELEMENTS, dtype=np.float32) < 0.5).astype(np.float32)
    return found


def group_norm() -> dict[str, Array]:
    import ml_dtypes

    batch, channels, size, group = SIZES
    random, half = np.random.default_rng(0), ml_dtypes.bfloat16
    x = random.standard_normal((batch, channels, size), dtype=np.float32)
    groups = x.reshape(batch, group, -1)
    found = {
        "gradOut": random.standard_normal(x.shape, dtype=np.float32),
        "input": x,
        "mean": groups.mean(axis=2),
        "rstd": 1 / groups.std(axis=2),
        "gamma": np.ones(channels, np.float32),
    }
    return {name: value.astype(half) for name, value in found.items()}


def ours(operator: str) -> list[float]:
    npu = npusim.Device(CHIP)
    batch, channels, size, group = SIZES
    if operator == "cross_entropy":
        name, arguments, rest = "aclnnBinaryCrossEntropyBackward", cross_entropy(), {"reduction": 0}
    else:
        rest = {"N": batch, "C": channels, "HxW": size, "group": group}
        name, arguments = "aclnnGroupNormBackward", group_norm()
        rest["outputMask"] = [True, True, True]  # type: ignore[assignment]
    npu.estimate(name, **arguments, **rest)  # imports everything
    before = peak_mib()
    seconds = best(lambda: npu.run(name, **arguments, **rest))
    outputs = ELEMENTS * next(iter(arguments.values())).itemsize / 2**20
    return [seconds, max(0.0, peak_mib() - before - outputs)]


def theirs(operator: str) -> list[float]:
    import torch

    torch.set_num_threads(2)
    if operator == "cross_entropy":
        given = cross_entropy()
        names = ("gradOutput", "self", "target", "weightOptional")
        tensors = [torch.from_numpy(given[name]) for name in names]
        aten = torch.ops.aten.binary_cross_entropy_backward
        return [best(lambda: aten(*tensors, 0)), 0.0]
    given = group_norm()
    halves = [
        torch.from_numpy(value.view(np.int16)).view(torch.bfloat16) for value in given.values()
    ]
    sizes, mask = SIZES, [True, True, True]
    return [
        best(lambda: torch.ops.aten.native_group_norm_backward(*halves, *sizes, mask)),
        0.0,
    ]


if __name__ == "__main__":
    if sys.argv[2] == "plain":
        sys.modules["llvmlite"] = None  # type: ignore[assignment]  # as if it weren't installed
    print(json.dumps((theirs if sys.argv[2] == "torch" else ours)(sys.argv[1])))
