"""The device tasks of aclnnMultiScaleDeformableAttentionGrad."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from npusim.ops.multi_scale_deformable_attention_grad.contract import Sizes, sizes_of
from npusim.ops.multi_scale_deformable_attention_grad.points import Maps, Shares
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain

_QUERIES_LAST = {"location": (0, 2, 3, 4, 5, 1), "attnWeight": (0, 2, 3, 4, 1)}
_NO_SHARES = Shares(0.0, 0.0, 1.0)


def build(call: Call, chain: Chain) -> None:
    """Contiguous, Transpose, Cast to float32 and int32, the kernel, Transpose, Cast, ViewCopy."""
    names = ("value", "spatialShape", "levelStartIndex", "location", "attnWeight", "gradOutput")
    given = {name: chain.input(name) for name in names}
    for name, order in _QUERIES_LAST.items():
        given[name] = _transpose(chain, given[name], order)
    inputs = [
        chain.cast(tensor, INT32 if name in ("spatialShape", "levelStartIndex") else FLOAT)
        for name, tensor in given.items()
    ]
    location, weight = inputs[3:5]
    grad_value = chain.output("gradValue", FLOAT)
    grad_location = chain.empty(location.shape, FLOAT, "gradLocation_transposed")
    grad_weight = chain.empty(weight.shape, FLOAT, "gradAttnWeight_transposed")
    sizes, maps = sizes_of(call), _maps(call)
    chain.launch(
        "MultiScaleDeformableAttentionGrad",
        *inputs,
        grad_value,
        grad_location,
        grad_weight,
        sizes=sizes,
        given=maps,
        shares=_supposed(chain, sizes) if maps is None else _NO_SHARES,
    )
    results = {
        "gradValue": grad_value,
        "gradLocation": _transpose_back(chain, grad_location, "gradLocation"),
        "gradAttnWeight": _transpose_back(chain, grad_weight, "gradAttnWeight"),
    }
    for name, result in results.items():
        chain.finish(name, result)


def _transpose(chain: Chain, tensor: GlobalTensor, order: tuple[int, ...]) -> GlobalTensor:
    """The axes of a tensor in another order, in memory of its own; always a task."""
    view = tensor.permuted(order)
    turned = chain.empty(view.shape, tensor.dtype, f"{tensor.buffer.name}_transposed")
    chain.launch("Transpose", view, turned)
    return turned


def _transpose_back(chain: Chain, tensor: GlobalTensor, name: str) -> GlobalTensor:
    """A gradient with its queries second again, in the caller's memory if that will do."""
    axes = len(tensor.shape)
    turned = chain.output(name, FLOAT)
    chain.launch("Transpose", tensor.permuted((0, axes - 1, *range(1, axes - 1))), turned)
    return turned


def _maps(call: Call) -> Maps | None:
    """The caller's arrays that tell where the points lie, if they are there."""
    location, shapes, starts = (
        call.tensor(name).data for name in ("location", "spatialShape", "levelStartIndex")
    )
    if location is None or shapes is None or starts is None:
        return None
    return Maps(np.transpose(location, _QUERIES_LAST["location"]), shapes, starts)


def _supposed(chain: Chain, sizes: Sizes) -> Shares:
    """What to suppose about the points: spread evenly over square maps that share the keys."""
    side = max(1.0, sqrt(sizes.keys / sizes.levels))
    inside = chain.assumed(
        "points_inside",
        1.0,
        "{value} of the sampling points lie inside their maps (points_inside)",
        at_most=1.0,
    )
    border = chain.assumed(
        "points_at_border",
        1.0 - (1.0 - 1.0 / side) ** 2,
        "{value} of the points inside touch two cells instead of four (points_at_border), as evenly"
        " spread ones do at the borders of square maps",
        at_most=1.0,
    )
    sharers = chain.assumed(
        "cores_per_line",
        1.0,
        "{value} cores at a time add into the same line of gradValue (cores_per_line)",
        at_least=1.0,
        at_most=float(chain.profile.cores.vector_cores),
    )
    return Shares(inside, border, sharers)
