"""The class of an operator, by which times are summed up and deviations are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.registry import band_class, prototype

if TYPE_CHECKING:
    from npusim.model.step import Item


def kind_of(item: Item) -> str:
    """The class of an operator: its kernel's, or what its name says."""
    known = prototype(item.op)
    kind = known[0].band_class if known else band_class(item.op)
    if kind:
        return kind
    if item.engine:
        return item.engine
    for kind, words in _KINDS:
        if any(word in item.op.lower() for word in words):
            return kind
    return "other"


_KINDS = (
    ("convolution", ("conv2d", "conv3d", "convolution", "depthwise", "deformable", "dbn")),
    ("pooling", ("pool",)),
    ("attention", ("attention", "flash")),
    ("matmul", ("matmul", "gemm")),
    ("normalisation", ("norm",)),
    ("sorting", ("sort", "topk", "unique", "argmax", "argmin", "cumsum")),
    ("routing", ("moe",)),
    ("random", ("random", "dropout", "dropoutgen", "bernoulli")),
)
