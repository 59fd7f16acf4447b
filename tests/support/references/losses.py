"""References of losses with every reduction, and of their gradients: PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.references.activations import by_torch, gradient
from support.references.movement import index
from support.references.row import Draw, Row, as_dtype, positive, real, share, torch

Loss = Callable[..., Any]
REDUCTIONS = ("none", "mean", "sum")


def _loss(name: str, **more: Any) -> Loss:
    """A loss of torch.nn.functional by the number of its reduction, then further numbers."""

    def compute(x: Any, target: Any, reduction: int = 1, *numbers: Any) -> Any:
        named = dict(zip(more, numbers, strict=False))
        wide = (each if each.is_floating_point() else each.double() for each in (x, target))
        found = getattr(torch.nn.functional, name)(*wide, reduction=REDUCTIONS[reduction], **named)
        return found if x.is_floating_point() else found.long()

    return compute


def pair(
    api: str,
    loss: Loss,
    backward: str,
    *numbers: tuple[str, tuple[Any, ...]],
    grad: str = "gradOutput",
    fills: tuple[Any, Any] = (real, real),
    wrt: int = 0,
) -> list[Row]:
    """A loss of two tensors and its gradient."""

    def made(d: Draw) -> dict[str, Any]:
        shape = d.sized(1, 5)
        found = {
            "self": d.tensor("self", shape, fills[0]),
            "target": d.tensor("target", shape, fills[1]),
        }
        found["reduction"] = d.whole(0, 2)
        return found | {name: d.one_of(*options) for name, options in numbers}

    def back(d: Draw) -> dict[str, Any]:
        found = made(d)
        shape = found["self"].shape if not found["reduction"] else (1,)
        return {grad: d.tensor(grad, shape, positive, kind=d.kind), **found}

    rows = [Row(f"aclnn{api}", made, by_torch(loss), loose=2)] if api else []
    if backward:
        rows.append(Row(f"aclnn{backward}", back, gradient(_reshaped(loss), wrt), loose=2))
    return rows


def _reshaped(loss: Loss) -> Loss:
    return lambda *given: loss(*given).reshape(-1) if given[2] else loss(*given)


def _kl(x: Any, target: Any, reduction: int, log_target: bool) -> Any:
    loss = torch.nn.functional.kl_div(x, target, reduction="none", log_target=log_target)
    return (loss, loss.mean(), loss.sum())[reduction]


def _soft_margin(x: Any, target: Any, reduction: int) -> Any:
    return torch.nn.functional.soft_margin_loss(x, target, reduction=REDUCTIONS[reduction])


def _bce(x: Any, target: Any, weight: Any, reduction: int) -> Any:
    return torch.nn.functional.binary_cross_entropy(
        x, target, weight, reduction=REDUCTIONS[reduction]
    )


def _bce_logits(x: Any, target: Any, weight: Any, positives: Any, reduction: int) -> Any:
    return torch.nn.functional.binary_cross_entropy_with_logits(
        x, target, weight, reduction=REDUCTIONS[reduction], pos_weight=positives
    )


def _entropy(
    api: str,
    loss: Loss,
    weight: str,
    more: tuple[str, ...] = (),
    *,
    grad: bool = False,
    wrt: int = 0,
) -> Row:
    def make(d: Draw) -> dict[str, Any]:
        shape = d.sized(1, 5)
        x = d.tensor("self", shape, real if more else share)
        found = {"self": x, "target": d.tensor("target", shape, share, kind=d.kind)}
        found |= {
            name: d.tensor(name, shape, positive, kind=d.kind) if d.one_of(True, False) else None
            for name in (weight, *more)
        }
        found["reduction"] = d.whole(0, 2)
        if not grad:
            return found
        return {"gradOutput": d.tensor("gradOutput", shape, positive, kind=d.kind), **found}

    reference = _broadcast_gradient(loss, wrt) if grad else by_torch(loss)
    return Row(f"aclnn{api}", make, reference, loose=4)


def _broadcast_gradient(loss: Loss, wrt: int) -> Any:
    """The gradient of all results weighed: those of a reduction each by its own weight."""

    def reference(grad: Any, *given: Any) -> Any:
        *tensors, reduction = given
        plain = gradient(lambda *each: loss(*each, 0), wrt)
        return plain(grad / (tensors[0].size if reduction == 1 else 1), *tensors)

    return reference


def _classes(d: Draw, *, flat: bool) -> dict[str, Any]:
    count = d.whole(2, 9)
    shape = (d.whole(1, 9), count) if flat else (d.whole(1, 3), count, d.whole(1, 5), d.whole(1, 5))
    x = d.tensor("self", shape, real)
    at = index(d, "target", (shape[0], *shape[2:]), count)
    return {
        "self": x,
        "target": at,
        "weight": d.tensor("weight", (count,), positive, kind=d.kind),
        "reduction": d.whole(0, 2),
        "ignoreIndex": d.one_of(-100, 0, 1),
    }


def _nll(x: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Any:
    return torch.nn.functional.nll_loss(
        x, target.long(), weight, ignore_index=ignored, reduction=REDUCTIONS[reduction]
    )


def _nll_both(x: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Any:
    loss = by_torch(_nll)(x, target, weight, reduction, ignored)
    total = np.where(target == ignored, 0, weight[np.clip(target, 0, len(weight) - 1)]).sum()
    return loss, (np.float64(total) if reduction else None)


def _nll_backward(d: Draw, *, flat: bool) -> Mapping[str, Any]:
    made = _classes(d, flat=flat)
    grad = d.tensor(
        "gradOutput",
        made["target"].shape if not made["reduction"] else (1,),
        positive,
        kind=d.kind,
    )
    weight, target = made["weight"].astype(np.float64), made["target"].astype(np.int64)
    total = np.where(target == made["ignoreIndex"], 0, weight[target]).sum()
    made["ignoreIndex"] = made["ignoreIndex"] if total else -100
    total = np.where(target == made["ignoreIndex"], 0, weight[target]).sum()
    tensors = (
        {"self": made["self"], "gradOutput": grad}
        if flat
        else {"gradOutput": grad, "self": made["self"]}
    )
    made.pop("self")
    found = {**tensors, **made}
    found["totalWeight"] = as_dtype(np.array([total]), d.kind)
    return found


def _nll_gradient(*given: Any) -> Any:
    first, second, target, weight, reduction, ignored, _ = given
    x, grad = (
        (first, second) if first.ndim > second.ndim or first.size > second.size else (second, first)
    )
    return gradient(
        lambda x, *rest: _nll(x, *rest) if not reduction else _nll(x, *rest).reshape(-1)
    )(grad, x, target, weight, reduction, ignored)


def _cross_entropy(d: Draw) -> Mapping[str, Any]:
    shape = (d.whole(1, 9), d.whole(1, 33))
    x = d.tensor("features", shape)
    labels = np.abs(d.rng.random(shape)) + 0.1
    return {"features": x, "labels": as_dtype(labels / labels.sum(1, keepdims=True), d.kind)}


def _softmax_cross(x: Any, labels: Any) -> Any:
    log = x - x.max(1, keepdims=True)
    log = log - np.log(np.exp(log).sum(1, keepdims=True))
    return -(labels * log).sum(1), np.exp(log) - labels


_SMOOTH = ("beta", (1.0, 0.5))

ROWS = (
    *pair("L1Loss", _loss("l1_loss"), "L1LossBackward"),
    *pair("MseLoss", _loss("mse_loss"), "MseLossBackward"),
    *pair("MseLossOut", _loss("mse_loss"), ""),
    *pair(
        "SmoothL1Loss",
        _loss("smooth_l1_loss", beta=1.0),
        "SmoothL1LossBackward",
        _SMOOTH,
        grad="gradOut",
    ),
    *pair("SoftMarginLoss", _soft_margin, "SoftMarginLossBackward"),
    *pair("KlDiv", _kl, "KlDivBackward", ("logTarget", (False, True)), fills=(real, share)),
    *pair("", _kl, "KlDivTargetBackward", ("logTarget", (False, True)), fills=(real, share), wrt=1),
    _entropy("BinaryCrossEntropy", _bce, "weight"),
    _entropy("BinaryCrossEntropyBackward", _bce, "weightOptional", grad=True),
    _entropy("BinaryCrossEntropyWithLogits", _bce_logits, "weightOptional", ("posWeightOptional",)),
    _entropy(
        "BinaryCrossEntropyWithLogitsBackward",
        _bce_logits,
        "weightOptional",
        ("posWeightOptional",),
        grad=True,
    ),
    _entropy(
        "BinaryCrossEntropyWithLogitsTargetBackward",
        _bce_logits,
        "weightOptional",
        ("posWeightOptional",),
        grad=True,
        wrt=1,
    ),
    Row("aclnnNLLLoss", lambda d: _classes(d, flat=True), _nll_both, natural=False, loose=2),
    Row("aclnnNLLLoss2d", lambda d: _classes(d, flat=False), _nll_both, natural=False, loose=2),
    Row(
        "aclnnNLLLossBackward",
        lambda d: _nll_backward(d, flat=True),
        _nll_gradient,
        natural=False,
        loose=2,
    ),
    Row(
        "aclnnNLLLoss2dBackward",
        lambda d: _nll_backward(d, flat=False),
        _nll_gradient,
        natural=False,
        loose=2,
    ),
    Row("aclnnSoftmaxCrossEntropyWithLogits", _cross_entropy, _softmax_cross, loose=4),
)
