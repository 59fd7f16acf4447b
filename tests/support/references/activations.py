"""References of activations and their gradients, which are those of PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.references.pointwise import Reference, of_one, pointwise
from support.references.row import Draw, Row, coarse, real, share, torch


def by_torch(function: Callable[..., Any]) -> Reference:
    """A function of tensors, given and returned as arrays."""

    def reference(*given: Any) -> Any:
        found = function(*(torch.as_tensor(e) if isinstance(e, np.ndarray) else e for e in given))
        return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)

    return reference


def gradient(function: Callable[..., Any], wrt: int = 0) -> Reference:
    """The gradient to one operand, from that of the result and the operands."""

    def reference(grad: Any, *given: Any) -> Any:
        tensors = [torch.as_tensor(e) if isinstance(e, np.ndarray) else e for e in given]
        tensors[wrt] = tensors[wrt].double().requires_grad_()
        outcome = function(*tensors)
        outcome.backward(torch.as_tensor(np.asarray(grad, np.float64)).expand_as(outcome))
        return tensors[wrt].grad.numpy()

    return reference


def backward(
    api: str, function: Callable[..., Any], tensors: str = "gradOutput self", **more: Any
) -> Row:
    """The gradient of a function of one tensor and numbers, element by element."""
    return pointwise(api, tensors, gradient(function), alike=True, **more)


def functional(name: str) -> Callable[..., Any]:
    """A function of torch.nn.functional."""

    def call(*given: Any) -> Any:
        return getattr(torch.nn.functional, name)(*given)

    return call


def _of(name: str, api: str, *, x: str = "self", **more: Any) -> Row:
    return of_one(api, by_torch(functional(name)), name=x, **more)


def _elu(x: Any, alpha: float, scale: float, inner: float) -> Any:
    return torch.where(x > 0, scale * x, scale * alpha * (torch.exp(x * inner) - 1))


def _elu_backward(
    grad: Any, alpha: float, scale: float, inner: float, is_result: bool, x: Any
) -> Any:
    slope = (x + alpha * scale) * inner if is_result else scale * alpha * inner * np.exp(x * inner)
    return grad * np.where(x > 0, scale, slope)


def _tanh_gelu(x: Any) -> Any:
    return torch.nn.functional.gelu(x, approximate="tanh")


def _gelu(x: Any, approximate: int) -> Any:
    del approximate  # the kernel computes the tanh form for both
    return _tanh_gelu(x)


def _fast_gelu(x: Any) -> Any:
    return x * torch.sigmoid(1.702 * x)


def _swish(x: Any, beta: float) -> Any:
    return x * torch.sigmoid(beta * x)


def _halves(d: Draw) -> Any:
    shape = list(d.sized(1, 5))
    axis = d.axis(len(shape))
    shape[axis] *= 2
    return shape, axis


def _glu(d: Draw) -> Any:
    shape, axis = _halves(d)
    return {"self": d.tensor("self", shape), "dim": axis}


def _glu_backward(d: Draw, grad: str = "gradOut", whole: str = "self") -> Any:
    shape, axis = _halves(d)
    half = list(shape)
    half[axis] //= 2
    x = d.tensor(whole, shape)
    return {grad: d.tensor(grad, half, kind=d.kind), whole: x, "dim": axis}


def _swiglu(d: Draw) -> Any:
    shape, axis = _halves(d)
    shape[-1] += shape[-1] % 2 if shape[-1] > 1 else 0  # an odd one loses its last column
    return {"x": d.tensor("x", shape), "dim": axis}


def _gated(x: Any, dim: int) -> Any:
    first, second = torch.chunk(x, 2, dim)
    return torch.nn.functional.silu(first) * second


def _prelu(d: Draw) -> Any:
    shape = d.sized(2, 4)
    x = d.tensor("self", shape)
    return {"self": x, "weight": d.tensor("weight", (d.one_of(1, shape[1]),))}


def _limits(**numbers: Any) -> Any:
    return {"numbers": numbers}


_SLOPES = _limits(negativeSlope=(0.01, 0.5))
_SELU = functional("selu")

ROWS = (
    of_one("Celu", by_torch(functional("celu")), **_limits(alpha=(1.0, 0.5))),
    of_one(
        "Elu", by_torch(_elu), **_limits(alpha=(1.0, 0.5), scale=(1.0, 2.0), inputScale=(1.0, 0.5))
    ),
    pointwise(
        "EluBackward",
        "gradOutput selfOrResult",
        _elu_backward,
        alike=True,
        order="gradOutput alpha scale inputScale isResult selfOrResult",
        numbers={
            "alpha": (1.0, 0.5),
            "scale": (1.0, 2.0),
            "inputScale": (1.0, 0.5),
            "isResult": (False,),
        },
    ),
    of_one("FastGelu", by_torch(_fast_gelu)),
    backward("FastGeluBackward", _fast_gelu),
    of_one("Gelu", by_torch(_tanh_gelu)),
    of_one("GeluV2", by_torch(_gelu), name="x", **_limits(approximate=(0, 1))),
    backward("GeluBackward", _tanh_gelu),
    pointwise(
        "GeluBackwardV2",
        "gradOutput self",
        lambda g, x, how: gradient(_tanh_gelu if how == "tanh" else functional("gelu"))(g, x),
        alike=True,
        **_limits(approximate=("none", "tanh")),
    ),
    Row("aclnnGlu", _glu, by_torch(functional("glu"))),
    Row("aclnnGluBackward", _glu_backward, gradient(functional("glu"))),
    of_one("Hardshrink", by_torch(functional("hardshrink")), **_limits(lambd=(0.5, 1.0))),
    backward("HardshrinkBackward", functional("hardshrink"), **_limits(lambd=(0.5, 1.0))),
    of_one("Hardsigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1).astype(x.dtype), off=1),
    backward("HardsigmoidBackward", functional("hardsigmoid")),
    _of("hardswish", "Hardswish"),
    backward("HardswishBackward", functional("hardswish")),
    backward("HardswishBackwardV2", functional("hardswish")),
    pointwise(
        "HardtanhBackward",
        "self gradOutput",
        lambda x, g, low, high: np.where((x > low) & (x < high), g, 0),
        alike=True,
        numbers={"min": (-1.0, 0.0), "max": (1.0, 2.0)},
    ),
    of_one("LeakyRelu", by_torch(functional("leaky_relu")), **_SLOPES),
    pointwise(
        "LeakyReluBackward",
        "gradOutput self",
        lambda g, x, slope, _: np.where(x > 0, g, g * slope),
        alike=True,
        numbers={"negativeSlope": (0.01, 0.5), "selfIsResult": (False, True)},
    ),
    _of("logsigmoid", "LogSigmoid"),
    Row(
        "aclnnLogSigmoidForward",
        lambda d: {"self": d.tensor("self", d.shape(1))},
        lambda x: (by_torch(functional("logsigmoid"))(x),),
    ),
    _of("mish", "Mish"),
    backward("MishBackward", functional("mish")),
    Row("aclnnPrelu", _prelu, by_torch(functional("prelu"))),
    of_one("Relu", lambda x: np.maximum(x, 0)),
    of_one("Selu", by_torch(lambda x: _SELU(x.double())), natural=False),
    pointwise(
        "SeluBackward",
        "gradOutput result",
        lambda g, y: g * np.where(y > 0, 1.0507009873554805, y + 1.7580993408473766),
        natural=False,
        alike=True,
    ),
    of_one("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    pointwise(
        "SigmoidBackward",
        "output gradOutput",
        lambda y, g: g * y * (1 - y),
        share,
        alike=True,
    ),
    _of("silu", "Silu"),
    backward("SiluBackward", functional("silu")),
    of_one(
        "Softplus",
        by_torch(functional("softplus")),
        **_limits(beta=(1.0, 2.0), threshold=(20.0, 1.0)),
    ),
    backward(
        "SoftplusBackward",
        functional("softplus"),
        **_limits(beta=(1.0, 2.0), threshold=(20.0, 1.0)),
    ),
    of_one("Softshrink", by_torch(functional("softshrink")), **_limits(lambd=(0.5, 1.0))),
    backward("SoftshrinkBackward", functional("softshrink"), **_limits(**{"lambda": (0.5, 1.0)})),
    of_one("SquaredRelu", lambda x: np.maximum(x, 0) ** 2, name="input"),
    Row("aclnnSwiGlu", _swiglu, by_torch(_gated)),
    Row("aclnnSwiGluGrad", lambda d: _glu_backward(d, "yGrad", "x"), gradient(_gated)),
    of_one("Swish", by_torch(_swish), **_limits(betaOptional=(1.0, 0.5))),
    backward("SwishBackward", _swish, **_limits(betaOptional=(1.0, 0.5))),
    pointwise("TanhBackward", "output gradOutput", lambda y, g: g * (1 - y * y), share, alike=True),
    of_one(
        "Threshold",
        lambda x, limit, value: np.where(x > limit, x, value),
        coarse,
        **_limits(threshold=(0, 1), value=(2, 7)),
    ),
    pointwise(
        "ThresholdBackward",
        "gradOutput self",
        lambda g, x, limit: np.where(x > limit, g, 0),
        real,
        alike=True,
        **_limits(threshold=(0, 1)),
    ),
    pointwise(
        "LogSigmoidBackward",
        "gradOutput self buffer",
        lambda g, x, _: g / (1 + np.exp(x)),
        alike=True,
        least=1,
    ),
)
