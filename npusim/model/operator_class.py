"""The class of an operator, by which times are summed up and deviations are shared."""

from __future__ import annotations

from npusim.operators.registry import band_class, prototype


def kind_of(op: str, engine: str) -> str:
    """The class of an operator: its kernel's, the engine's, or what its name says."""
    known = prototype(op)
    kind = known[0].band_class if known else band_class(op)
    if kind or engine:
        return kind or engine
    for kind, words in _KINDS:
        if any(word in op.lower() for word in words):
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
