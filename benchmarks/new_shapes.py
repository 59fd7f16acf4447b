"""Estimates of shapes that a process hasn't seen: `python benchmarks/new_shapes.py [KIND ...]`.

Prints for every kind of operator how many random shapes a second of processor time answers, one
process and one thread; the first call, which imports and loads, isn't counted.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import npusim

CHIP = "Ascend910B3"
COUNT = 150
Call = tuple[str, dict[str, Any]]


def product(some: random.Random) -> Call:
    m, k, n = (some.randint(1, 4096) for _ in range(3))
    return "aclnnMatmul", {"self": f"fp16[{m},{k}]", "mat2": f"fp16[{k},{n}]", "cubeMathType": 0}


def layer_norm(some: random.Random) -> Call:
    rows, columns = some.randint(1, 8192), some.randint(1, 8192)
    line = f"fp16[{columns}]"
    parameters = {"weightOptional": line, "biasOptional": line, "eps": 1e-5}
    given = {"input": f"fp16[{rows},{columns}]", "normalizedShape": [columns]}
    return "aclnnLayerNorm", given | parameters


def softmax(some: random.Random) -> Call:
    rows, columns = some.randint(1, 8192), some.randint(1, 8192)
    return "aclnnSoftmax", {"self": f"fp16[{rows},{columns}]", "dim": 1}


def convolution(some: random.Random) -> Call:
    batch, into, out = some.randint(1, 8), some.randint(1, 256), some.randint(1, 256)
    size, kernel = some.randint(7, 112), some.choice([1, 3])
    return "aclnnConvolution", {
        "input": f"fp16[{batch},{into},{size},{size}]",
        "weight": f"fp16[{out},{into},{kernel},{kernel}]",
        "stride": [1, 1], "padding": [kernel // 2] * 2, "dilation": [1, 1], "transposed": False,
        "outputPadding": [0, 0], "groups": 1, "cubeMathType": 0,
    }  # fmt: skip


def attention(some: random.Random) -> Call:
    batch, heads = some.randint(1, 8), some.randint(1, 32)
    tensor = f"fp16[{batch},{heads},{some.randint(1, 4096)},{some.choice([64, 128])}]"
    return "aclnnFusedInferAttentionScoreV3", {
        "query": tensor, "key": [tensor], "value": [tensor], "numHeads": heads,
        "numKeyValueHeads": heads, "scaleValue": 0.1, "inputLayout": "BNSD",
    }  # fmt: skip


KINDS: dict[str, Callable[[random.Random], Call]] = {
    "matrix products": product,
    "LayerNorm": layer_norm,
    "softmax": softmax,
    "convolutions": convolution,
    "attention": attention,
}


def per_second(kind: str) -> float:
    """Estimates of random shapes a second of processor time."""
    npu, some = npusim.Device(CHIP), random.Random(kind)  # noqa: S311
    (name, first), *calls = [KINDS[kind](some) for _ in range(COUNT + 1)]
    npu.estimate(name, **first)
    start = time.process_time()
    for name, arguments in calls:
        npu.estimate(name, **arguments)
    return COUNT / (time.process_time() - start)


if __name__ == "__main__":
    for kind in sys.argv[1:] or KINDS:
        print(f"{kind:<16} {per_second(kind):6.1f} a second", flush=True)
