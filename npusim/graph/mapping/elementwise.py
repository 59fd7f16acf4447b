"""Activations, arithmetic, comparisons: what works on each element."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from npusim.graph.mapping.rules import Rule, a_number, per_channel, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.network import Network, Node, Value

_SAME: Final = (
    "Abs Acos Add And:LogicalAnd Asin Atan Ceil Cos Cosh Div:RealDiv Equal Erf Exp Floor Gelu "
    "Greater GreaterOrEqual:GreaterEqual HardSwish Less LessOrEqual:LessEqual Log Mish Mul Neg "
    "Not:LogicalNot Or:LogicalOr Pow Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus "
    "Softsign Sqrt Sub Tan Tanh Where:SelectV2 Xor:LogicalXor"
)
"""ONNX:CANN, one name where they are the same."""


def _many(two: str, more: str) -> Rule:
    """An operator of two operands, or the one for lists of them."""

    def rule(network: Network, node: Node) -> None:
        if len(node.inputs) == 1:
            network.replace([node], "Identity", node.inputs, node.outputs)
        elif len(node.inputs) == 2 or more:
            op = two if len(node.inputs) == 2 else more
            network.replace([node], op, node.inputs, node.outputs)
        else:
            _in_turn(network, node, two)

    return rule


def _in_turn(network: Network, node: Node, op: str) -> None:
    """Operand by operand."""
    network.remove(node)
    so_far = node.inputs[0]
    for number, each in enumerate(node.inputs[1:], 2):
        last = number == len(node.inputs)
        made = node.output if last else network.value(node.output)
        network.add(op, [so_far, each], [made], name=node.name, covers=node.covers,
                    place=node.place)  # fmt: skip
        so_far = made


def _clip(network: Network, node: Node) -> None:
    """The device's operator takes both bounds: one that is left out bounds nothing."""
    x = node.given[0]
    low, high = (_bound(network, node, *which) for which in (("min", 1), ("max", 2)))
    bounds = tuple(None if each is None else each.scalar() for each in (low, high))
    op = "Relu6" if bounds == (0.0, 6.0) else "Relu" if (bounds[0], high) == (0.0, None) else ""
    if op:
        network.replace([node], op, [x], node.outputs)
    else:
        filled = [each or a_number(network, x, end) for each, end in ((low, -inf), (high, inf))]
        network.replace([node], "ClipByValue", [x, *filled], node.outputs)


def _bound(network: Network, node: Node, name: str, place: int) -> Value | None:
    if name in node.attributes:
        return a_number(network, node.given[0], float(node.attributes[name]))
    return node.input(place)


def _slopes(network: Network, node: Node) -> None:
    """PRelu, whose slopes are one for each channel."""
    x, slope = node.given
    if slope.weight and slope.numel in (1, x.shape[1]) and len(x.shape) > 1:
        slope = per_channel(network, slope, len(x.shape))
    network.replace([node], "PRelu", [x, slope], node.outputs)


def _cast(network: Network, node: Node) -> None:
    if node.output.dtype is node.given[0].dtype:
        network.replace([node], "Identity", node.inputs, node.outputs)
    else:
        network.replace([node], "Cast", node.inputs, node.outputs)


def _pairs() -> Mapping[str, Rule]:
    pairs = (word.partition(":") for word in _SAME.split())
    return {onnx: renamed(cann or onnx) for onnx, _, cann in pairs}


RULES: Final[Mapping[str, Rule]] = {
    **_pairs(),
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Elu": renamed("Elu", {"alpha": "alpha"}),
    "HardSigmoid": renamed("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    "LeakyRelu": renamed("LeakyRelu", {"alpha": "negative_slope"}),
    "Max": _many("Maximum", ""),
    "Min": _many("Minimum", ""),
    "PRelu": _slopes,
    "Selu": renamed("Selu"),
    "Sum": _many("Add", "AddN"),
}
