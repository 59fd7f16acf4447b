"""Numbers through the kernels, next to torch: `python benchmarks/against_torch.py [OPERATOR ...]`.

Prints a table: for every operator the best processor time in ms of npusim with its extra ``fast``,
of npusim without it and of torch, each in a process of its own with two threads, and their ratios.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

import npusim

if TYPE_CHECKING:
    from collections.abc import Callable

CHIP = "Ascend910B3"
TIMES = 7
GROUPS = (8, 512, 4096, 32)  # N, C, HxW, group: 2**24 elements

Array = np.ndarray[Any, Any]
Given = dict[str, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def uniform(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def group_norm() -> Given:
    batch, channels, size, group = GROUPS
    x = normal(batch, channels, size)
    groups = x.reshape(batch, group, -1)
    halves = {
        "gradOut": x,
        "input": x,
        "mean": groups.mean(axis=2),
        "rstd": 1 / groups.std(axis=2),
        "gamma": np.ones(channels, np.float32),
    }
    return {name: value.astype(ml_dtypes.bfloat16) for name, value in halves.items()}


LINE = (2048, 8192)
CALLS: dict[str, tuple[Callable[[], Given], Given]] = {
    "aclnnBinaryCrossEntropyBackward": (
        lambda: {
            "gradOutput": uniform(2**24),
            "self": uniform(2**24),
            "target": (uniform(2**24) < 0.5).astype(np.float32),
            "weightOptional": uniform(2**24),
        },
        {"reduction": 0},
    ),
    "aclnnGroupNormBackward": (
        group_norm,
        {**dict(zip(("N", "C", "HxW", "group"), GROUPS, strict=True)), "outputMask": [True] * 3},
    ),
    "aclnnLayerNorm": (
        lambda: {
            "input": normal(*LINE),
            "weightOptional": normal(LINE[1]),
            "biasOptional": normal(LINE[1]),
        },
        {"normalizedShape": [LINE[1]], "eps": 1e-5},
    ),
    "aclnnGelu": (lambda: {"self": normal(*LINE)}, {}),
    "aclnnSoftmax": (lambda: {"self": normal(*LINE)}, {"dim": 1}),
    "aclnnMatmul": (
        lambda: {"self": normal(2048, 2048), "mat2": normal(2048, 2048)},
        {"cubeMathType": 0},
    ),
    "aclnnConvolution": (
        lambda: {"input": normal(8, 128, 56, 56), "weight": normal(128, 128, 3, 3)},
        {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False}
        | {"outputPadding": [0, 0], "groups": 1, "cubeMathType": 0},
    ),
    "aclnnGatherV2": (
        lambda: {"self": normal(*LINE), "index": np.arange(4096, dtype=np.int64) * 7 % LINE[0]},
        {"dim": 0},
    ),
    "aclnnReduceSum": (
        lambda: {"self": normal(*LINE)},
        {"dims": [0], "keepDims": False, "dtype": "float32"},
    ),
}


def torch_calls() -> dict[str, Callable[[Given], object]]:
    """What torch calls them, of tensors by the names of ours."""
    import torch
    from torch.nn import functional

    aten = torch.ops.aten
    return {
        "aclnnBinaryCrossEntropyBackward": lambda a: aten.binary_cross_entropy_backward(
            *a.values(), 0
        ),
        "aclnnGroupNormBackward": lambda a: aten.native_group_norm_backward(
            *a.values(), *GROUPS, [True] * 3
        ),
        "aclnnLayerNorm": lambda a: functional.layer_norm(
            a["input"], [LINE[1]], *list(a.values())[1:]
        ),
        "aclnnGelu": lambda a: functional.gelu(a["self"]),
        "aclnnSoftmax": lambda a: torch.softmax(a["self"], 1),
        "aclnnMatmul": lambda a: a["self"] @ a["mat2"],
        "aclnnConvolution": lambda a: functional.conv2d(a["input"], a["weight"], padding=1),
        "aclnnGatherV2": lambda a: torch.index_select(a["self"], 0, a["index"]),
        "aclnnReduceSum": lambda a: a["self"].sum(0),
    }


def best_ms(work: Callable[[], object]) -> float:
    found = []
    for _ in range(TIMES):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found) * 1e3


def ours(operator: str) -> float:
    npu = npusim.Device(CHIP)
    make, rest = CALLS[operator]
    arguments = make() | rest
    npu.estimate(operator, **arguments)  # imports everything
    return best_ms(lambda: npu.run(operator, **arguments))


def theirs(operator: str) -> float:
    import torch

    def tensor(value: Array) -> Any:
        if value.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(value)

    torch.set_num_threads(2)
    call = torch_calls()[operator]
    tensors = {name: tensor(value) for name, value in CALLS[operator][0]().items()}
    return best_ms(lambda: call(tensors))


def one(operator: str, who: str) -> float:
    if who == "plain":
        sys.modules["llvmlite"] = None  # type: ignore[assignment]  # as if it weren't installed
    return (theirs if who == "torch" else ours)(operator)


def in_a_process(operator: str, who: str) -> float:
    command = [sys.executable, __file__, "--one", operator, who]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(operators: list[str]) -> None:
    print("| operator | fast (ms) | plain (ms) | torch (ms) | fast / torch | plain / torch |")
    print("|---|---|---|---|---|---|")
    for operator in operators:
        fast, plain, torch = (in_a_process(operator, who) for who in ("fast", "plain", "torch"))
        times = f"{fast:.1f} | {plain:.1f} | {torch:.1f}"
        print(f"| {operator} | {times} | {fast / torch:.2f} | {plain / torch:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(one(*sys.argv[2:]))
    else:
        main(sys.argv[1:] or list(CALLS))
