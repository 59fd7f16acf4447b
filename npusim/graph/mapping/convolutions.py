"""Convolutions, pooling and what else slides a window; images of rank 3 get a height of 1."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from npusim.graph.mapping.rules import Rule, reshaped
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from npusim.graph.network import Network, Node, Value

_PLANE: Final = 2  # axes of an image
_LARGEST_WINDOW, _FURTHEST = 255, 63  # elements, steps
_OF_A_NORM: Final = 5  # images, scale, bias, mean, variance


def _tall(network: Network, node: Node) -> Node:
    """Rank 3 is rank 4 with a height of 1, weights too; the vendor unsqueezes and squeezes."""
    if len(node.output.shape) != 3:
        return node
    inputs = [
        _heightened(network, value, node) if value and len(value.shape) == 3 else value
        for value in node.inputs
    ]
    flat = node.output
    made = network.value(flat, shape=(*flat.shape[:2], 1, flat.shape[2]))
    attributes = dict(node.attributes)
    for name in {"kernel_shape", "strides", "dilations"} & set(attributes):
        attributes[name] = [1, *attributes[name]]
    if "pads" in attributes:
        before, after = attributes["pads"]
        attributes["pads"] = [0, before, 0, after]
    network.remove(node)
    network.add("Reshape", [made], [flat], name=node.name, place=node.place)
    return network.add(node.op, inputs, [made], attributes, name=node.name, covers=node.covers,
                       place=node.place)  # fmt: skip


def _heightened(network: Network, value: Value, node: Node) -> Value:
    shape = (*value.shape[:2], 1, value.shape[2])
    if not value.weight:
        return reshaped(network, value, shape, node)
    return network.weight(value, shape)


def _window(node: Node, sizes: Sequence[int]) -> dict[str, list[int]]:
    """Strides, dilations and pads (begin and end of each axis in turn) of a window of `sizes`."""
    planes = len(sizes)
    strides = list(node.attributes.get("strides", [1] * planes))
    dilations = list(node.attributes.get("dilations", [1] * planes))
    pads = list(node.attributes.get("pads", [0] * 2 * planes))
    automatic = node.attributes.get("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(node, sizes, strides, dilations, upper=automatic == "SAME_UPPER")
    pairs = [pads[end] for axis in range(planes) for end in (axis, axis + planes)]
    return {"ksize": list(sizes), "strides": strides, "dilations": dilations, "pads": pairs}


def _same(
    node: Node, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], *,
    upper: bool,
) -> list[int]:  # fmt: skip
    """Pads that make an output of the input's size over the stride."""
    first, last = [], []
    given, made = node.given[0].shape[2:], node.output.shape[2:]
    for size, stride, dilation, before, after in zip(
        sizes, strides, dilations, given, made, strict=True
    ):
        total = max(0, (after - 1) * stride + (size - 1) * dilation + 1 - before)
        low, high = total // 2, total - total // 2
        first.append(low if upper else high)
        last.append(high if upper else low)
    return first + last


def _framed(window: Mapping[str, list[int]]) -> dict[str, Any]:
    """The attributes as CANN's operators have them: strides and dilations for all axes."""
    return {
        "kernel_size": window["ksize"],
        "ksize": [1, 1, *window["ksize"]],
        "strides": [1, 1, *window["strides"]],
        "pads": window["pads"],
        "dilations": [1, 1, *window["dilations"]],
    }


def _convolution(network: Network, node: Node) -> None:
    node = _tall(network, node)
    x, weights = node.given[:2]
    attributes = _framed(_window(node, weights.shape[2:]))
    groups = node.attributes.get("group", 1)
    if x.shape[1] != weights.shape[1] * groups or weights.shape[0] % groups:
        problem = say("{shape} in {groups} groups is no weight for {x_shape}").format(
            shape=list(weights.shape), groups=groups, x_shape=list(x.shape)
        )
        raise ArgumentError(f"{node.op} {node.name}: {problem}")
    op = "Conv3D" if len(x.shape) == 5 else "Conv2D"
    if op == "Conv2D" and groups > 1 and groups == x.shape[1] and weights.shape[1] == 1:
        op = "DepthwiseConv2D"
    attributes |= {"groups": groups, "data_format": "NCDHW" if op == "Conv3D" else "NCHW"}
    network.replace([node], op, node.inputs, node.outputs, attributes)


def _transposed(network: Network, node: Node) -> None:
    node = _tall(network, node)
    weights = node.given[1]
    attributes = _framed(_window(node, weights.shape[2:]))
    op = "Conv3DTranspose" if len(node.output.shape) == 5 else "Conv2DTranspose"
    attributes |= {"groups": node.attributes.get("group", 1), "input_size": node.output.shape}
    network.replace([node], op, node.inputs, node.outputs, attributes)


def _pool(flat: str, deep: str) -> Callable[[Network, Node], None]:
    def rule(network: Network, node: Node) -> None:
        node = _tall(network, node)
        window = _window(node, node.attributes["kernel_shape"])
        plane = node.given[0].shape[2:]
        if tuple(window["ksize"]) == plane and not any(window["pads"]) and len(node.outputs) == 1:
            _whole_plane("ReduceMaxD" if flat.startswith("Max") else "ReduceMeanD")(network, node)
            return
        if _is_too_large(window) and len(node.outputs) == 1:
            _plain_pool(network, node, window, "MaxPool" if flat.startswith("Max") else "AvgPool")
            return
        attributes = _framed(window) | {
            "ceil_mode": bool(node.attributes.get("ceil_mode", 0)),
            "exclusive": not node.attributes.get("count_include_pad", 0),
        }
        op = deep if len(node.output.shape) == 5 else flat
        network.replace([node], op, node.inputs, node.outputs[:1], attributes)

    return rule


def _is_too_large(window: Mapping[str, list[int]]) -> bool:
    """Whether the AI cores take no windows of the size, or none that are so far apart.

    Source: average_pool_plugin.cc, max_pool_plugin.cc (ksize[2] * ksize[3] > 255, strides > 63).
    """
    sizes, strides = window["ksize"], window["strides"]
    return len(sizes) == _PLANE and (prod(sizes) > _LARGEST_WINDOW or max(strides) > _FURTHEST)


def _plain_pool(network: Network, node: Node, window: Mapping[str, list[int]], op: str) -> None:
    """On the AI CPU, which has its channels last: transposed before and after, zeros around it."""
    x, y = node.given[0], node.output
    images, channels, *plane = x.shape
    turned = network.value(x, shape=(images, *plane, channels))
    name, place = node.name, node.place
    network.add("TransposeD", [x], [turned], {"perm": [0, 2, 3, 1]}, name=name, place=place)
    pads = window["pads"]
    if any(pads):
        sizes = [size + sum(pads[2 * at : 2 * at + 2]) for at, size in enumerate(plane)]
        framed = network.value(x, shape=(images, *sizes, channels))
        paddings = {"paddings": [0, 0, *pads, 0, 0], "mode": "constant", "value": 0}
        network.add("PadD", [turned], [framed], paddings, name=name, place=place)
        turned = framed
    made = network.value(y, shape=(images, *y.shape[2:], channels))
    attributes = {
        "ksize": [1, *window["ksize"], 1],
        "strides": [1, *window["strides"], 1],
        "pads": [0, 0, 0, 0],
        "data_format": "NHWC",
    }
    network.replace([node], op, [turned], [made], attributes)
    network.add("TransposeD", [made], [y], {"perm": [0, 3, 1, 2]}, name=name, place=place)


def _whole_plane(op: str) -> Callable[[Network, Node], None]:
    """A pool over everything is a reduction."""

    def rule(network: Network, node: Node) -> None:
        axes = list(range(2, len(node.given[0].shape)))
        network.replace([node], op, node.inputs, node.outputs, {"axes": axes, "keep_dims": True})

    return rule


def _batch_norm(network: Network, node: Node) -> None:
    node = _tall(network, node)
    if len(node.given) < _OF_A_NORM:
        raise ArgumentError(
            say("{op} {name} has no scale, bias, mean and variance").format(
                op=node.op, name=node.name
            )
        )
    attributes = {"epsilon": node.attributes.get("epsilon", 1e-5)}
    network.replace([node], "BatchNorm", node.inputs, node.outputs[:1], attributes)


def _instance_norm(network: Network, node: Node) -> None:
    attributes = {"epsilon": node.attributes.get("epsilon", 1e-5)}
    network.replace([node], "InstanceNorm", node.inputs, node.outputs, attributes)


RULES: Final[Mapping[str, Rule]] = {
    "AveragePool": _pool("AvgPoolV2", "AvgPool3D"),
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "GlobalAveragePool": _whole_plane("ReduceMeanD"),
    "GlobalMaxPool": _whole_plane("ReduceMaxD"),
    "InstanceNormalization": _instance_norm,
    "MaxPool": _pool("MaxPoolV3", "MaxPool3D"),
}
