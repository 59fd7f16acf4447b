"""Calls of BinaryCrossEntropyBackward, and what they must give."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from npusim import TensorSpec
from support.chips import ONE_OF_EACH, kinds
from support.inputs import Array, generator, numpy_kind

CROSS_ENTROPY = "aclnnBinaryCrossEntropyBackward"
TENSORS = ("gradOutput", "self", "target", "weightOptional")


def cross_entropy(
    *shape: int, kind: str = "float32", weight: bool = True, reduction: int = 0, seed: int = 1
) -> dict[str, Any]:
    """BinaryCrossEntropyBackward on tensors of one shape and dtype, away from saturation."""
    random, numpy = generator(seed), numpy_kind(kind)
    return {
        "gradOutput": random.standard_normal(shape).astype(numpy),
        "self": random.uniform(0.02, 0.98, shape).astype(numpy),
        "target": random.integers(0, 2, shape).astype(numpy),
        "weightOptional": random.uniform(0.5, 1.5, shape).astype(numpy) if weight else None,
        "reduction": reduction,
    }


def cross_entropy_reference(arguments: dict[str, Any]) -> Array:
    """The closed form in float64 on whole arrays; eps as the device holds it."""
    x = arguments["self"].astype(np.float64)
    y, go = (arguments[name].astype(np.float64) for name in ("target", "gradOutput"))
    weight = arguments["weightOptional"]
    w = 1.0 if weight is None else weight.astype(np.float64)
    eps = float(np.float32(1e-12))
    scale = 1.0 / x.size if arguments["reduction"] == 1 else 1.0
    result: Array = go * w * (x - y) / np.maximum(x * (1 - x), eps) * scale
    return np.broadcast_to(result, x.shape)


def shapes(*shape: int, kind: str = "float32") -> dict[str, Any]:
    """A call by its shapes alone."""
    return {**dict.fromkeys(TENSORS, TensorSpec(shape, kind)), "reduction": 0}


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A chip and a call: any shapes that broadcast, any mix of the chip's dtypes, any reduction."""
    chip = draw(st.sampled_from(ONE_OF_EACH))
    shape = tuple(draw(st.lists(st.integers(1, 40), max_size=4)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mixed = draw(st.booleans())
    common = draw(st.sampled_from(kinds(chip)))

    def tensor(low: float, high: float, of: tuple[int, ...]) -> Array:
        kind = draw(st.sampled_from(kinds(chip))) if mixed else common
        return np.asarray(random.uniform(low, high, of)).astype(numpy_kind(kind))

    def smaller() -> tuple[int, ...]:
        kept = shape[draw(st.integers(0, len(shape))) :]
        return tuple(1 if draw(st.integers(0, 2)) == 0 else size for size in kept)

    def operand() -> tuple[int, ...]:
        return smaller() if draw(st.booleans()) else shape

    weight = tensor(0.5, 1.5, operand()) if draw(st.booleans()) else None
    return chip, {
        "gradOutput": tensor(-2, 2, operand()),
        "self": tensor(0.02, 0.98, shape),
        "target": tensor(0, 1, operand()),
        "weightOptional": weight,
        "reduction": draw(st.integers(0, 2)),
    }
