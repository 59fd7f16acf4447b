"""The device tasks of aclnnBinaryCrossEntropyBackward."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.values.promotion import promote

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain

_MEAN = 1


def build(call: Call, chain: Chain) -> None:
    """Contiguous, OnesLike for a null weight, Casts, BinaryCrossEntropyGrad, Cast, ViewCopy."""
    names = [
        name for name in ("self", "target", "gradOutput", "weightOptional") if call.is_given(name)
    ]
    dtype = promote(*(call.spec(name).dtype for name in names))
    assert dtype is not None  # the checks have made sure of it
    shape = call.spec("self").shape
    tensors = {name: chain.cast(chain.input(name), dtype) for name in names}
    weight = tensors.get("weightOptional")
    if weight is None:
        weight = chain.empty(shape, dtype, "ones")
        chain.launch("OnesLike", tensors["self"], weight)
    # The kernel reads target and weight as if they had self's shape; smaller ones are spread out
    # first.
    target = _spread(chain, tensors["target"], shape)
    weight = _spread(chain, weight, shape)
    out = chain.output("out", dtype)
    scale = 1.0 / prod(shape) if call.integer("reduction") == _MEAN else 1.0
    chain.launch(
        "BinaryCrossEntropyGrad",
        tensors["self"],
        target,
        tensors["gradOutput"],
        weight,
        out,
        scale=scale,
    )
    chain.finish("out", out)


def _spread(chain: Chain, tensor: GlobalTensor, shape: tuple[int, ...]) -> GlobalTensor:
    if tensor.shape == shape:
        return tensor
    if tensor.numel == prod(shape):
        return tensor.view(*shape)
    wide = chain.empty(shape, tensor.dtype, f"{tensor.buffer.name}_wide")
    chain.launch("BroadcastTo", tensor, wide)
    return wide
