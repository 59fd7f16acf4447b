"""References of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from support.references.activations import by_torch
from support.references.row import Draw, Row, small, torch

SIZES = (1, 2, 5, 16, 17, 33)
_HALVES = ("FLOAT16", "BFLOAT16")


def product(
    api: str,
    reference: Callable[..., Any],
    tensors: Mapping[str, str],
    *,
    numbers: Mapping[str, Any] | None = None,
    order: str = "",
    changed: str = "",
    sizes: Sequence[int] = SIZES,
) -> Row:
    """Tensors by the letters of their axes, as in einsum; of one dtype."""

    def make(d: Draw) -> Mapping[str, Any]:
        axes = {letter: d.one_of(*sizes) for letter in "bmkn"}
        made: dict[str, Any] = {}
        for name, letters in tensors.items():
            made[name] = d.tensor(name, [axes[letter] for letter in letters], small)
        made |= {name: d.one_of(*options) for name, options in (numbers or {}).items()}
        return {name: made[name] for name in order.split() or made}

    return Row(f"aclnn{api}", make, reference, loose=4, changed=changed, natural=False)


_BETA_ALPHA = {"beta": (1, 0.5), "alpha": (1, 2.0), "cubeMathType": (0,)}
_PLAIN = {"cubeMathType": (0,)}


def _addmm(x: Any, a: Any, b: Any, beta: float, alpha: float, _: int) -> Any:
    return beta * x + alpha * (a @ b)


def _addbmm(x: Any, a: Any, b: Any, beta: float, alpha: float, _: int) -> Any:
    return beta * x + alpha * (a @ b).sum(0)


def _addmv(x: Any, a: Any, b: Any, alpha: float, beta: float, _: int) -> Any:
    return beta * x + alpha * (a @ b)


def _addr(x: Any, a: Any, b: Any, beta: float, alpha: float) -> Any:
    return beta * x + alpha * np.outer(a, b)


def _gemm(a: Any, b: Any, c: Any, alpha: float, beta: float, left: int, right: int, _: int) -> Any:
    return alpha * ((a.T if left else a) @ (b.T if right else b)) + beta * c


def _convolution(d: Draw) -> Mapping[str, Any]:
    axes = d.one_of(1, 2, 2, 3)
    groups = d.one_of(1, 1, 2)
    inputs, results = groups * d.whole(1, 5), groups * d.whole(1, 5)
    x = d.tensor("input", (d.whole(1, 3), inputs, *(d.whole(4, 9) for _ in range(axes))), small)
    weight = d.tensor(
        "weight",
        (results, inputs // groups, *(d.whole(1, 3) for _ in range(axes))),
        small,
        kind=d.kind,
    )
    bias = d.tensor("bias", (results,), small, kind=d.kind) if d.one_of(True, False) else None
    return {
        "input": x,
        "weight": weight,
        "bias": bias,
        "stride": [d.whole(1, 2) for _ in range(axes)],
        "padding": [d.whole(0, 1) for _ in range(axes)],
        "dilation": [1] * axes,
        "transposed": False,
        "outputPadding": [0] * axes,
        "groups": groups,
        "cubeMathType": 0,
    }


def _convolved(
    x: Any,
    w: Any,
    b: Any,
    stride: Any,
    pad: Any,
    dilation: Any,
    _: Any,
    __: Any,
    groups: int,
    ___: int,
) -> Any:
    run = getattr(torch.nn.functional, f"conv{len(stride)}d")
    return run(x, w, b, stride, pad, dilation, groups)


def _depthwise(d: Draw) -> Mapping[str, Any]:
    channels, kernel = d.whole(1, 9), [d.whole(1, 3), d.whole(1, 3)]
    x = d.tensor("self", (d.whole(1, 3), channels, d.whole(4, 9), d.whole(4, 9)), small)
    return {
        "self": x,
        "weight": d.tensor("weight", (channels, 1, *kernel), small, kind=d.kind),
        "kernelSize": kernel,
        "bias": d.tensor("bias", (channels,), small, kind=d.kind)
        if d.one_of(True, False)
        else None,
        "stride": [d.whole(1, 2)] * 2,
        "padding": [d.whole(0, 1)] * 2,
        "dilation": [1, 1],
        "cubeMathType": 0,
    }


def _convolution_backward(d: Draw) -> Mapping[str, Any]:
    made = dict(_convolution(d))
    x, w, stride, pad = made["input"], made["weight"], made["stride"], made["padding"]
    sizes = [
        (n + 2 * p - k) // s + 1
        for n, p, k, s in zip(x.shape[2:], pad, w.shape[2:], stride, strict=True)
    ]
    grad = d.tensor("gradOutput", (x.shape[0], w.shape[0], *sizes), small, kind=d.kind)
    made.pop("bias")
    rest = {
        "biasSizes": [w.shape[0]],
        **{
            name: made[name]
            for name in ("stride", "padding", "dilation", "transposed", "outputPadding", "groups")
        },
    }
    return {
        "gradOutput": grad,
        "input": x,
        "weight": w,
        **rest,
        "outputMask": [True, True, True],
        "cubeMathType": 0,
    }


def _convolution_gradients(
    grad: Any,
    x: Any,
    w: Any,
    _: Any,
    stride: Any,
    pad: Any,
    dilation: Any,
    __: Any,
    ___: Any,
    groups: int,
    *____: Any,
) -> Any:
    first, second = torch.as_tensor(x).requires_grad_(), torch.as_tensor(w).requires_grad_()
    run = getattr(torch.nn.functional, f"conv{len(stride)}d")
    run(first, second, None, stride, pad, dilation, groups).backward(torch.as_tensor(grad))
    return first.grad.numpy(), second.grad.numpy(), grad.sum((0, *range(2, grad.ndim)))


ROWS = (
    product("Matmul", lambda a, b, _: a @ b, {"self": "mk", "mat2": "kn"}, numbers=_PLAIN),
    product("Matmul", lambda a, b, _: a @ b, {"self": "bmk", "mat2": "kn"}, numbers=_PLAIN),
    product("Mm", lambda a, b, _: a @ b, {"self": "mk", "mat2": "kn"}, numbers=_PLAIN),
    product("BatchMatMul", lambda a, b, _: a @ b, {"self": "bmk", "mat2": "bkn"}, numbers=_PLAIN),
    product(
        "MatmulWeightNz",
        lambda a, b, _: a @ b,
        {"self": "mk", "mat2": "kn"},
        numbers=_PLAIN,
        sizes=SIZES[1:],
    ),
    product(
        "BatchMatMulWeightNz",
        lambda a, b, _: a @ b,
        {"self": "bmk", "mat2": "bkn"},
        numbers=_PLAIN,
        sizes=SIZES[1:],
    ),
    product(
        "AddmmWeightNz",
        _addmm,
        {"self": "mn", "mat1": "mk", "mat2": "kn"},
        numbers=_BETA_ALPHA,
        sizes=SIZES[1:],
    ),
    product("Mv", lambda a, b, _: a @ b, {"self": "mk", "vec": "k"}, numbers=_PLAIN),
    product("Dot", np.dot, {"self": "k", "tensor": "k"}),
    product("Ger", np.outer, {"self": "m", "vec2": "n"}),
    product("Addmm", _addmm, {"self": "mn", "mat1": "mk", "mat2": "kn"}, numbers=_BETA_ALPHA),
    product(
        "InplaceAddmm",
        _addmm,
        {"selfRef": "mn", "mat1": "mk", "mat2": "kn"},
        numbers=_BETA_ALPHA,
        changed="selfRef",
    ),
    product(
        "Addbmm", _addbmm, {"self": "mn", "batch1": "bmk", "batch2": "bkn"}, numbers=_BETA_ALPHA
    ),
    product(
        "InplaceAddbmm",
        _addbmm,
        {"selfRef": "mn", "batch1": "bmk", "batch2": "bkn"},
        numbers=_BETA_ALPHA,
        changed="selfRef",
    ),
    product(
        "Baddbmm", _addmm, {"self": "bmn", "batch1": "bmk", "batch2": "bkn"}, numbers=_BETA_ALPHA
    ),
    product(
        "InplaceBaddbmm",
        _addmm,
        {"selfRef": "bmn", "batch1": "bmk", "batch2": "bkn"},
        numbers=_BETA_ALPHA,
        changed="selfRef",
    ),
    product(
        "Addmv",
        _addmv,
        {"self": "m", "mat": "mk", "vec": "k"},
        numbers={"alpha": (1, 2), "beta": (1, 3), "cubeMathType": (0,)},
    ),
    product(
        "Addr",
        _addr,
        {"self": "mn", "vec1": "m", "vec2": "n"},
        numbers={"betaOptional": (1, 2), "alphaOptional": (1, 3)},
    ),
    product(
        "InplaceAddr",
        _addr,
        {"selfRef": "mn", "vec1": "m", "vec2": "n"},
        numbers={"betaOptional": (1, 2), "alphaOptional": (1, 3)},
        changed="selfRef",
    ),
    product(
        "Gemm",
        _gemm,
        {"A": "mk", "B": "kn", "C": "mn"},
        numbers={
            "alpha": (1.0, 2.0),
            "beta": (1.0, 0.5),
            "transA": (0,),
            "transB": (0,),
            "cubeMathType": (0,),
        },
        order="A B C alpha beta transA transB cubeMathType",
    ),
    Row("aclnnConvolution", _convolution, by_torch(_convolved), loose=4, natural=False),
    Row(
        "aclnnConvolutionBackward",
        _convolution_backward,
        _convolution_gradients,
        loose=8,
        natural=False,
    ),
    Row(
        "aclnnConvDepthwise2d",
        _depthwise,
        by_torch(
            lambda x, w, _, b, s, p, d, __: torch.nn.functional.conv2d(x, w, b, s, p, d, x.shape[1])
        ),
        loose=4,
        natural=False,
    ),
)
