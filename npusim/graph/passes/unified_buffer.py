"""Elementwise work goes into the kernel before it, while its tile is in the unified buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.kinds import FUSED
from npusim.graph.passes.mul_add import is_row_of_each
from npusim.graph.passes.patterns import follower
from npusim.values.dtypes import INT64
from npusim.values.formats import Format
from npusim.values.layouts import c0

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_CUBE = ("Conv2D", "Conv3D", "DepthwiseConv2D", "MatMulV2", "BatchMatMulV2")
_ONLY = {"Conv3D": (["Add"], ["Relu"], ["Add", "Relu"]), "BNInfer": (["Relu"],)}
"""Chains behind heads that don't take any. Source: the operator tree's TbeConv3dElemwisePass.

BNInfer is a broadcast of its rows, scheduled as elementwise operators are (the tree's bn_infer.py),
so that TbeEltwiseFusionPass takes it; its kernel here knows Relu alone.
"""

# Source: hiascend.com, UB fusion patterns 0186/0190 (a chain of at most six elementwise operators)
# and 0195 (a convolution and two of them).
_IN_A_CHAIN = 6
_BEHIND_CUBE = 2
_WITH_BIAS = 3  # operands of a cube kernel
_BATCHES = "BatchMatMulV2"
_BEHIND_BATCHES = (
    frozenset(("Add", "Div", "FusedMulAdd", "RealDiv", "Relu", "ReluGrad")),
    frozenset(("Add", "FusedMulAdd", "Relu")),
)
"""What goes into products of batches, first and second; a product with a number doesn't.

Source: hiascend.com, UB fusion pattern 0185; the operator tree's
batch_matmul_elementwise_ub_fusion.cc.
"""


def run(network: Network, target: Target) -> int:
    """Fuse chains of elementwise operators, behind cube kernels first."""
    del target
    found = 0
    for heads, most in ((_CUBE, _BEHIND_CUBE), (("BNInfer", *sorted(FUSED)), _IN_A_CHAIN - 1)):
        for node in sorted(network.named(*heads), key=lambda node: node.place):
            if node.output.maker is node and not _is_wide(node):
                found += _fuse(network, node, most)
    return found


def _is_wide(node: Node) -> bool:
    """A cast between numbers of 64 bits, whose elements don't lie as those of the others do."""
    return node.op == "Cast" and INT64 in (node.given[0].dtype, node.output.dtype)


def _fuse(network: Network, head: Node, most: int) -> int:
    chain = _chain(network, head, most)
    if not chain:
        return 0
    inputs = list(head.inputs)
    if head.op in _CUBE:
        inputs += [None] * (_WITH_BIAS - len(inputs))
    attributes = dict(head.attributes)
    value = head.output
    for node in chain:
        inputs += [each for each in node.given if each is not value]
        value = node.output
    parts = [head.op, *(node.op for node in chain)]
    attributes["parts"] = tuple((node.op, node.attributes) for node in chain)
    fused = f"FusionOp_{'_'.join(parts)}"
    network.replace([head, *chain], fused, inputs, chain[-1].outputs, attributes)
    return len(chain)


def _chain(network: Network, head: Node, most: int) -> list[Node]:
    """The elementwise operators that follow, each the only reader of the one before it."""
    found: list[Node] = []
    last = head
    while len(found) < most:
        node = follower(network, last, *FUSED)
        if node is None or not _fits(last, node):
            break
        if head.op in _CUBE and not _are_tiles(head, last, node):
            break
        if head.op == _BATCHES and node.op not in _BEHIND_BATCHES[len(found)]:
            break
        found.append(node)
        last = node
    known = _ONLY.get(head.op)
    while known and found and [node.op for node in found] not in known:
        found.pop()
    return found


def _fits(last: Node, node: Node) -> bool:
    """Whether a node keeps the tile as it is: shape, format and width of elements."""
    before, after = last.output, node.output
    same = (before.shape, before.format, before.dtype) == (after.shape, after.format, after.dtype)
    once = sum(value is before for value in node.given) == 1
    return same and once


def _are_tiles(head: Node, last: Node, node: Node) -> bool:
    """Whether the other operands are as large as the result, or numbers, or masks of scores.

    A row comes as a bias does, if there is no other. Matrices that products of a batch share come
    as tiles again and again.
    """
    made = last.output
    row = last is head and head.op == _BATCHES and head.input(2) is None
    return all(
        value is made
        or value.numel == 1
        or (value.shape, value.format) == (made.shape, made.format)
        or (row and is_row_of_each(value, made) and _adds_rows(node, value))
        or (head.op == _BATCHES and _is_shared(value, made))
        for value in node.given
    )


def _adds_rows(node: Node, row: Value) -> bool:
    """Whether an operator adds a row as it lies; Add does so where it is whole blocks.

    Source: batchmatmul_elem_nd2nz of the operator tree (impl/util/util_compute.py).
    """
    whole = row.shape[-1] % c0(row.dtype) == 0
    return node.op == "FusedMulAdd" or (node.op == "Add" and row.format is Format.ND and whole)


def _is_shared(value: Value, made: Value) -> bool:
    """Whether it is matrices in fractals as large as those made, one for several of a batch.

    Source: batchmatmul_elem_reshape of the operator tree (impl/util/util_compute.py), by which Add
    and FusedMulAdd behind a product of batches take operands with batches of their own.
    """
    if value.format is not made.format or value.format is not Format.FRACTAL_NZ:
        return False
    *batch, rows, columns = (1,) * (len(made.shape) - len(value.shape)) + value.shape
    return (rows, columns) == made.shape[-2:] and all(
        own in (1, size) for own, size in zip(batch, made.shape[:-2], strict=True)
    )
