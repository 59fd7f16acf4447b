"""Constants added per channel or per column become the bias of a convolution or a product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.passes.patterns import follower, other

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2D", "Conv2DTranspose")
_PRODUCTS = ("MatMulV2", "BatchMatMulV2")


def run(network: Network, target: Target) -> int:
    """Fold additions of weights into what makes their other operand."""
    del target
    found = 0
    for node in network.named(*_CONVOLUTIONS, *_PRODUCTS):
        if node.input(2) is not None:
            continue
        add, view = _addition(network, node)
        if add is None:
            continue
        value = node.output if view is None else view.output
        bias = other(add, value)
        if bias is None or not bias.weight or not _is_bias(bias, node, value):
            continue
        if view is None:
            inputs = [*node.inputs[:2], bias]
            network.replace([node, add], node.op, inputs, add.outputs, node.attributes)
        else:
            _before_view(network, node, view, add, bias)
        found += 1
    return found


def _addition(network: Network, node: Node) -> tuple[Node | None, Node | None]:
    """The addition behind a node, and the view between them."""
    user = follower(network, node, "Add", "Reshape")
    if user is not None and user.op == "Reshape":
        same = user.output.shape[-1:] == node.output.shape[-1:]
        return (follower(network, user, "Add") if same else None), user
    return user, None


def _is_bias(bias: Value, node: Node, sum_of: Value) -> bool:
    axis = 1 if node.op in _CONVOLUTIONS else len(sum_of.shape) - 1
    sizes = [1] * len(sum_of.shape)
    sizes[axis] = sum_of.shape[axis]
    shape = list(bias.shape)
    return [1] * (len(sizes) - len(shape)) + shape == sizes


def _before_view(network: Network, node: Node, view: Node, add: Node, bias: Value) -> None:
    made = network.value(node.output)
    inputs = [*node.inputs[:2], bias]
    network.replace([node, add], node.op, inputs, [made], node.attributes)
    network.remove(view)
    network.add("Reshape", [made], add.outputs, name=view.name, place=add.place)
