"""aten calls that are several calls of the device, or take their parameters from shapes.

Source: Ascend/op-plugin @ 517f2e7d, op_plugin/ops/opapi, and what PyTorch's composite operators
call (pytorch aten/src/ATen/native: Linear.cpp, layer_norm.cpp, Convolution.cpp, Copy.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

from npusim.graph.aten.calls import by_table, call, pair
from npusim.graph.network import Value
from npusim.values.dtypes import BOOL, FLOAT, INT8
from npusim.values.tensors import contiguous_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.graph.network import Network, Node

Rule = Callable[["Network", "Node", str], None]

_CUBE: Final = {"cubeMathType": 1}
"""ALLOW_FP32_DOWN_PRECISION, torch_npu's default."""

_FUSED_ATTENTION: Final = ("A2", "A3")
_MOST_HEADS, _MOST_DEPTH = 2048, 512
"""Source: ScaledDotProductAttentionKernelNpuOpApi.cpp, N_LIMIT and D_LIMIT."""


def view(network: Network, node: Node, base: Value, shape: Sequence[int]) -> Value:
    """The elements of a tensor that lies in a row, in another shape."""
    made = network.value(base, shape=shape)
    network.add("Identity", [base], [made], name=node.name, place=node.place)
    return made


def turned(network: Network, node: Node, base: Value) -> Value:
    """A matrix, or a stack of them, with rows and columns exchanged: a view."""
    steps = base.strides or contiguous_strides(base.shape)
    shape = (*base.shape[:-2], base.shape[-1], base.shape[-2])
    made = network.value(base, shape=shape)
    made.strides = (*steps[:-2], steps[-1], steps[-2])
    made.offset = base.offset
    network.add("Identity", [base], [made], name=node.name, place=node.place)
    return made


def _linear(network: Network, node: Node, family: str) -> None:
    """Rows with a bias are one product with it; else a product, and a sum."""
    del family
    x, weight, bias = (node.attributes[name] for name in ("input", "weight", "bias"))
    transposed = turned(network, node, weight)
    out = node.output
    if bias is None:
        call(network, node, "aclnnMatmul", {"self": x, "mat2": transposed, **_CUBE}, ("out",))
    elif len(x.shape) <= 2 or x.strides is None:
        rows, depth = prod(x.shape[:-1]), x.shape[-1]
        flat = x if len(x.shape) == 2 else view(network, node, x, (rows, depth))
        made = network.value(out, shape=(rows, weight.shape[0]))
        factors = {"mat1": flat, "mat2": transposed, "beta": 1.0, "alpha": 1.0, **_CUBE}
        call(network, node, "aclnnAddmm", {"self": bias, **factors}, ("out",), [made])
        network.add("Identity", [made], [out], name=node.name, place=node.place)
    else:
        made = network.value(out)
        product = {"self": x, "mat2": transposed, **_CUBE}
        call(network, node, "aclnnMatmul", product, ("out",), [made], last=False)
        call(network, node, "aclnnAdd", {"self": made, "other": bias, "alpha": 1}, ("out",))


def _convolution(network: Network, node: Node, family: str) -> None:
    """Convolutions of images and sequences; rank 3 too is the operator's own business."""
    del family
    given = node.attributes
    planes = len(given["weight"].shape) - 2
    transposed = "transpose" in node.op
    arguments = {name: _for_axes(given[name], planes) for name in ("stride", "padding", "dilation")}
    if given["padding"] in ("same", "valid"):
        arguments["padding"] = _named_padding(given, planes)
    call(
        network,
        node,
        "aclnnConvolution",
        {
            "input": given["input"],
            "weight": given["weight"],
            "bias": given["bias"],
            **arguments,
            "transposed": transposed,
            "outputPadding": _for_axes(given.get("output_padding", 0), planes),
            "groups": given["groups"],
            **_CUBE,
        },
        ("output",),
    )


def _for_axes(value: Any, axes: int) -> list[int]:
    sizes = [value] if isinstance(value, int) else [0] if isinstance(value, str) else list(value)
    return sizes * axes if len(sizes) == 1 else sizes


def _named_padding(given: Mapping[str, Any], planes: int) -> list[int]:
    if given["padding"] == "valid":
        return [0] * planes
    dilations = _for_axes(given["dilation"], planes)
    return [step * (size - 1) // 2
            for step, size in zip(dilations, given["weight"].shape[2:], strict=True)]  # fmt: skip


def _layer_norm(network: Network, node: Node, family: str) -> None:
    del family
    given = node.attributes
    x = given["input"]
    axes = len(given["normalized_shape"])
    moments = (*x.shape[: len(x.shape) - axes], *(1,) * axes)
    outputs = [node.output, *(network.value(x, shape=moments, dtype=FLOAT) for _ in range(2))]
    call(
        network,
        node,
        "aclnnLayerNorm",
        {
            "input": x,
            "normalizedShape": list(given["normalized_shape"]),
            "weightOptional": given["weight"],
            "biasOptional": given["bias"],
            "eps": given["eps"],
        },
        ("out", "meanOutOptional", "rstdOutOptional"),
        outputs if len(node.outputs) == 1 else node.outputs,
    )


def _group_norm(network: Network, node: Node, family: str) -> None:
    del family
    given = node.attributes
    x, groups = given["input"], given["num_groups"]
    count, channels, *planes = x.shape
    moments = [network.value(x, shape=(count, groups)) for _ in range(2)]
    call(
        network,
        node,
        "aclnnGroupNorm",
        {
            "self": x,
            "gamma": given["weight"],
            "beta": given["bias"],
            "N": count,
            "C": channels,
            "HxW": prod(planes),
            "group": groups,
            "eps": given["eps"],
        },
        ("out", "meanOut", "rstdOut"),
        [node.output, *moments],
    )


def _gelu(network: Network, node: Node, family: str) -> None:
    del family
    if node.attributes.get("approximate", "none") == "none":
        by_table(network, node)
        return
    arguments = {"x": node.attributes["self"], "approximate": "tanh"}
    call(network, node, "aclnnGeluV2", arguments, ("y",))


def _max_pool(network: Network, node: Node, family: str) -> None:
    """The second result is a mask of bits for every window element, in fractals.

    Source: MaxPool2dWithIndicesKernelNpuOpApi.cpp.
    """
    del family
    kernel = pair(node, node.attributes["kernel_size"])
    *before, high, wide = node.output.shape
    lines = (-(-high * wide // 16) + 1) * 32
    mask = network.value(node.output, shape=(*before, prod(kernel), lines), dtype=INT8)
    for indices in node.outputs[1:]:  # what the backward pass reads
        for reader in dict.fromkeys(indices.users):
            named = reader.attributes.items()
            reader.attributes = {key: mask if each is indices else each for key, each in named}
        network.redirect(indices, mask)
    node.outputs = [node.output, mask]
    mask.maker = node
    by_table(network, node)


def _copied(network: Network, node: Node, family: str) -> None:
    """A copy in a row, or with another dtype."""
    del family
    x = next(value for value in node.given)
    if x.dtype is node.output.dtype:
        out, made = node.output, network.value(x)
        call(network, node, "aclnnInplaceCopy", {"src": x}, ("selfRef",), [made])
        network.add("Identity", [made], [out], name=node.name, place=node.place)
    else:
        arguments = {"self": x, "dtype": node.output.dtype.name}
        call(network, node, "aclnnCast", arguments, ("out",))


def _masked_fill(network: Network, node: Node, family: str) -> None:
    """A copy, and the value where the mask is set."""
    del family
    x, mask, value = (node.attributes[name] for name in ("self", "mask", "value"))
    changed = x
    if "_." not in node.op:
        changed = network.value(node.output)
        call(network, node, "aclnnInplaceCopy", {"src": x}, ("selfRef",), [changed], last=False)
    kind = "Tensor" if isinstance(value, Value) else "Scalar"
    arguments = {"mask": mask, "value": value}
    api = f"aclnnInplaceMaskedFill{kind}"
    call(network, node, api, arguments, ("selfRef",), changes=[changed])


def _dropout(network: Network, node: Node, family: str) -> None:
    """Nothing while it isn't trained."""
    del family
    if node.attributes.get("train"):
        by_table(network, node)
    else:
        x = next(iter(node.given))
        network.replace([node], "Identity", [x], node.outputs[:1])


def _attention(network: Network, node: Node, family: str) -> None:
    """The fused kernel where it takes the tensors, else products and a softmax."""
    query, key, value = (node.attributes[name] for name in ("query", "key", "value"))
    mask, causal = node.attributes.get("attn_mask"), node.attributes.get("is_causal")
    fits = (
        family in _FUSED_ATTENTION
        and len(query.shape) == len(key.shape) == len(value.shape) == 4
        and (mask is None or mask.dtype is BOOL)
        and query.shape[1] <= _MOST_HEADS
        and query.shape[1] % key.shape[1] == 0
        and query.shape[3] <= _MOST_DEPTH
    )
    scale = node.attributes.get("scale") or query.shape[-1] ** -0.5
    if not fits:
        _written_out(network, node, scale)
        return
    sums = [network.value(query, shape=(*query.shape[:3], 8), dtype=FLOAT) for _ in range(2)]
    call(
        network,
        node,
        "aclnnFlashAttentionScore",
        {
            "query": query,
            "key": key,
            "value": value,
            "attenMaskOptional": _causal_mask(network, node) if causal else mask,
            "scaleValue": scale,
            "keepProb": 1.0,
            "preTokens": 2147483647,
            "nextTokens": 0 if causal else 2147483647,
            "headNum": query.shape[1],
            "inputLayout": "BNSD",
            "innerPrecise": 0,
            "sparseMode": 2 if causal else 0,
        },
        ("attentionOutOut", "softmaxMaxOut", "softmaxSumOut"),
        [node.output, *sums],
    )


def _causal_mask(network: Network, node: Node) -> Value:
    """Source: convert_boolean_attn_mask: ones of 2048 x 2048, above the diagonal."""
    ones, mask = (network.value(node.output, shape=(2048, 2048), dtype=BOOL) for _ in range(2))
    call(network, node, "aclnnInplaceOne", {}, ("selfRef",), [ones], last=False)
    call(network, node, "aclnnTriu", {"self": ones, "diagonal": 1}, ("out",), [mask], last=False)
    return mask


def _written_out(network: Network, node: Node, scale: float) -> None:
    """Source: _scaled_dot_product_attention_math: both operands are scaled by its root."""
    query, key, value = (node.attributes[name] for name in ("query", "key", "value"))
    mask = node.attributes.get("attn_mask")

    def queue(api: str, arguments: dict[str, Any], made: Value) -> Value:
        call(network, node, api, arguments, ("out",), [made], last=False)
        return made

    q, k = (
        queue("aclnnMuls", {"self": each, "other": scale**0.5}, network.value(each))
        for each in (query, key)
    )
    shape = (*query.shape[:-1], key.shape[-2])
    mat2 = turned(network, node, k)
    scores = queue("aclnnMatmul", {"self": q, "mat2": mat2, **_CUBE},
                   network.value(node.output, shape=shape))  # fmt: skip
    if mask is not None:
        sum_of = {"self": scores, "other": mask, "alpha": 1}
        scores = queue("aclnnAdd", sum_of, network.value(scores))
    weights = queue("aclnnSoftmax", {"self": scores, "dim": -1}, network.value(scores))
    call(network, node, "aclnnMatmul", {"self": weights, "mat2": value, **_CUBE}, ("out",))


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        ("clone", "contiguous", "reshape", "_to_copy", "to.dtype", "to.device", "to.dtype_layout",
         "type_as", "copy", "flatten.using_ints", "unflatten.int"),
        _copied,
    ),
    **dict.fromkeys(
        ("conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d", "conv3d.padding",
         "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"),
        _convolution,
    ),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _layer_norm),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices"), _max_pool),
    **dict.fromkeys(("masked_fill.Scalar", "masked_fill.Tensor", "masked_fill_.Scalar",
                     "masked_fill_.Tensor"), _masked_fill),
    **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout", "native_dropout"), _dropout),
    "gelu": _gelu,
    "group_norm": _group_norm,
    "linear": _linear,
    "scaled_dot_product_attention": _attention,
}  # fmt: skip
"""By aten name; what isn't here is in the table."""
