"""Formats: cube kernels choose, what follows goes on in theirs, TransData stands at the borders."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from npusim.graph.kinds import ELEMENTWISE, PLANES, PRODUCTS, VIEWS, VOLUMES
from npusim.graph.passes.rows import in_whole_fractals
from npusim.values.formats import Format
from npusim.values.layouts import c0

if TYPE_CHECKING:
    from npusim.graph.network import Network, Node, Value
    from npusim.graph.target import Target

_HEAVY = (Format.NC1HWC0, Format.NDC1HWC0, Format.FRACTAL_NZ)
_CHANNELS = 1
_FRACTAL_ROWS = frozenset(("SoftmaxV2", "LayerNorm", "ConfusionTransposeD"))
_PARTS = frozenset(("ConcatD", "SplitD", "SplitVD"))
_SAME_PLACES = (ELEMENTWISE | _FRACTAL_ROWS) - {"Cast", "ConfusionTransposeD"}
"""What leaves elements where they are, so that formats spread back through it."""

_PLAIN = frozenset(("SelectV2",))
"""Elementwise, but for plain layouts. Source: operator information of Ascend310P (op_info_cfg)."""

_OF_VOLUMES_TOO = frozenset(("BNInfer",))
"""Kernels for images that take volumes as well. Source: the operator tree's bn_infer."""

_POOLED = frozenset(("ReduceMeanD", "ReduceMaxD", "ReduceSumD"))


def run(network: Network, target: Target) -> int:
    """Choose a format for every tensor; returns how many TransData that takes."""
    turned: dict[tuple[int, Format], Value] = {}
    asked = _asked_for(network, target)
    for node in network.ordered():
        wanted = _wanted(node, target, asked)
        for value in dict.fromkeys(node.given):
            if value.weight:
                value.format = _prepared(node, value, wanted)
            elif value.format is not wanted and not _stays(node, value, wanted):
                network.rewire(node, value, _turned(network, turned, value, wanted, node))
        for value in node.outputs:
            value.format = wanted if _fits(value, wanted) else Format.ND
    for value in tuple(network.outputs):
        if value.format in _HEAVY:
            _give_back(network, value)
    return len(turned)


def _asked_for(network: Network, target: Target) -> dict[int, Format]:
    """Formats by the id of values: what a cube kernel reads spreads to those before it, too.

    Source: hicann/ge compiler/engines/nn_engine, heavy format propagation, which goes backward
    from all inputs of a node as well as forward from its outputs. Casts stand at the edges of
    what runs in another precision, beside the TransData: nothing spreads back through them. Where
    somebody reads a value as it is, a TransData is needed either way, and nothing spreads either.
    """
    asked: dict[int, Format] = {}
    others = Counter(id(value) for node in network.nodes for value in node.given)
    others.update(id(value) for value in network.outputs)
    for node in reversed(network.ordered()):
        form = _own(node, target)
        if form is None:
            form = _asked_of(node, asked)
            if form is None or not _goes_on(node, form):
                continue
        if form not in _HEAVY or node.op in VIEWS:
            continue
        for value in node.activations():
            if node.op not in _SAME_PLACES or value.shape == node.output.shape:
                others[id(value)] -= 1
                if not others[id(value)]:
                    asked[id(value)] = form
    return asked


def _asked_of(node: Node, asked: dict[int, Format]) -> Format | None:
    """The format that readers ask a node for, if it is one that passes it on."""
    if node.op not in _SAME_PLACES:
        return None
    return next((asked[id(each)] for each in node.outputs if id(each) in asked), None)


def _own(node: Node, target: Target) -> Format | None:
    """The format that a node works in, whatever its operands have; None if it has no wish."""
    if node.op == "PhonyConcat":  # of what convolutions write
        return Format.NC1HWC0
    if node.op in PLANES:
        if _fits(node.output, Format.NC1HWC0):
            return Format.NC1HWC0
        return Format.NDC1HWC0 if node.op in _OF_VOLUMES_TOO else Format.ND
    if node.op in VOLUMES:
        return Format.NDC1HWC0
    if node.op in PRODUCTS:
        return Format.FRACTAL_NZ if target.fractal_products else Format.ND
    if node.op in VIEWS:
        if _same_planes(node):
            return Format.NC1HWC0
        return Format.FRACTAL_NZ if _same_matrices(node) else Format.ND
    return None


def _wanted(node: Node, target: Target, asked: dict[int, Format]) -> Format:
    """The format that a node works in."""
    own = _own(node, target)
    if own is not None:
        return own
    spread = next((value.format for value in node.activations() if value.format in _HEAVY), None)
    if spread is None:
        spread = _asked_of(node, asked)
    if spread is None or not _goes_on(node, spread):
        return Format.ND
    return spread


def _goes_on(node: Node, spread: Format) -> bool:
    """Whether an operator without a wish of its own works in the format of its operand."""
    shape = node.output.shape
    if node.op in _PLAIN or _widens(node):
        return False
    if node.op in ELEMENTWISE:
        # Lanes of another width lie in other fractals.
        alike = len({c0(value.dtype) for value in (*node.given, node.output)}) == 1
        return (
            alike
            and _fits(node.output, spread)
            and all(_goes_along(value, shape, spread) for value in node.given)
        )
    if spread is Format.FRACTAL_NZ:
        if node.op == "ConfusionTransposeD" and not _in_fractals(node):
            return False
        if node.op == "LayerNorm" and not in_whole_fractals(node.output):
            return False
        return node.op in _FRACTAL_ROWS and all(_fits(each, spread) for each in node.activations())
    if node.op in _POOLED:
        return node.attributes["keep_dims"] and _CHANNELS not in node.attributes["axes"]
    if node.op == "PadD":
        return spread is Format.NC1HWC0 and _frames_planes(node)
    if node.op in _PARTS:
        axis = node.attributes.get("concat_dim", node.attributes.get("split_dim"))
        parts = node.given if node.op == "ConcatD" else node.outputs
        block = c0(node.output.dtype)
        return axis != _CHANNELS or all(part.shape[axis] % block == 0 for part in parts)
    return False


def _frames_planes(node: Node) -> bool:
    """Whether a frame of a constant lies around planes alone.

    Source: op_select_format of PadV3 (canndev ops/built-in/tbe/impl/dynamic/pad_v3.py).
    """
    attributes = node.attributes
    framed = any(attributes["paddings"][: 2 * (_CHANNELS + 1)])
    return (
        attributes.get("mode", "constant") == "constant"
        and not framed
        and _fits(node.output, Format.NC1HWC0)
    )


def _widens(node: Node) -> bool:
    """A cast to more bits: TransData goes before it, as there are fewer bytes to turn.

    Source: hicann/ge compiler/engines/nn_engine, trans_node_insertion.cc: which of both is first.
    """
    return node.op == "Cast" and node.output.dtype.itemsize > node.given[0].dtype.itemsize


def _same_matrices(node: Node) -> bool:
    """Whether a view of matrices in fractals deals them out to other axes and leaves them alone.

    Source: the operator tree's TransdataTransposeFusionPass, whose third case this is.
    """
    x = node.given[0]
    return x.format is Format.FRACTAL_NZ and x.shape[-2:] == node.output.shape[-2:]


def _same_planes(node: Node) -> bool:
    """Whether a view of images leaves their slices as they are: no task is needed to turn them.

    Source: hicann/ge compiler/graph/passes, transop_symmetry_elimination_pass.cc: TransData before
    and behind a removed reshape cancel where planes have as many pixels, and as many channels
    unless those are whole slices before and after.
    """
    x, out = node.given[0], node.output
    if x.format is not Format.NC1HWC0 or not _fits(out, Format.NC1HWC0):
        return False
    before, after = x.shape[_CHANNELS], out.shape[_CHANNELS]
    alike = before == after or (before % c0(x.dtype) == 0 and after % c0(x.dtype) == 0)
    return alike and prod(x.shape[2:]) == prod(out.shape[2:])


def _in_fractals(node: Node) -> bool:
    """Whether heads are whole fractals before and after: then they move block by block."""
    block = c0(node.output.dtype)
    values = (*node.given, node.output)
    return all(size % block == 0 for value in values for size in value.shape[-2:])


def _fits(value: Value, form: Format) -> bool:
    rank = {Format.NC1HWC0: (4,), Format.NDC1HWC0: (5,)}.get(form, range(2, 9))
    return form not in _HEAVY or len(value.shape) in rank


def _goes_along(value: Value, shape: tuple[int, ...], form: Format) -> bool:
    """Whether an operand combines with results of `shape` block by block."""
    if value.numel == 1:
        return True
    if form is Format.FRACTAL_NZ:
        return value.shape[-2:] == shape[-2:] or _is_row(value, shape) or _is_edge(value, shape)
    same_channels = len(value.shape) == len(shape) and value.shape[_CHANNELS] == shape[_CHANNELS]
    return same_channels and _fits(value, form)


def _is_row(value: Value, shape: tuple[int, ...]) -> bool:
    """One row of whole fractals for all, which a kernel for FRACTAL_NZ takes as it is, in ND.

    Source: op_select_format of the open kernels of Add and Mul (canndev ops/built-in/tbe/impl).
    """
    whole = shape[-1] % c0(value.dtype) == 0
    return whole and value.numel == shape[-1] == value.shape[-1]


def _is_edge(value: Value, shape: tuple[int, ...]) -> bool:
    """A row or a column for each of several matrices of whole fractals, in ND.

    Source: op_select_format of Add (canndev ops/built-in/tbe/impl): one operand of multiples of 16.
    """
    whole = all(size % c0(value.dtype) == 0 for size in shape[-2:])
    return whole and len(value.shape) >= 2 and 1 in value.shape[-2:]


def _prepared(node: Node, value: Value, wanted: Format) -> Format:
    """The format in which a constant lies on the device; it is brought into it offline."""
    if node.op in ("Conv2D", "DepthwiseConv2D", "Conv2DTranspose") and value is node.input(1):
        return Format.FRACTAL_Z
    if node.op in ("Conv3D", "Conv3DTranspose") and value is node.input(1):
        return Format.FRACTAL_Z_3D
    if node.op in PRODUCTS and value is not node.input(2):
        return wanted
    if node.op in ("BNInfer", "INTrainingUpdateV2"):
        return wanted
    if wanted not in _HEAVY or node.op not in ELEMENTWISE or value.numel == 1:
        return Format.ND
    if wanted is Format.FRACTAL_NZ:
        return wanted if value.shape[-2:] == node.output.shape[-2:] else Format.ND
    return wanted if len(value.shape) == len(node.output.shape) else Format.ND


def _stays(node: Node, value: Value, wanted: Format) -> bool:
    """Whether an operand in another format does as it is: rows, and planes that are views.

    A plane of one pixel is its channels, if they are whole blocks: a view of it needs no task.
    """
    if wanted is Format.FRACTAL_NZ and node.op in ELEMENTWISE:
        return value.format is Format.ND and value.shape[-2:] != node.output.shape[-2:]
    if node.op != "Reshape" or wanted is not Format.ND or value.format is not Format.NC1HWC0:
        return False
    return value.shape[2:] == (1, 1) and value.shape[1] % c0(value.dtype) == 0


def _turned(
    network: Network,
    turned: dict[tuple[int, Format], Value],
    value: Value,
    wanted: Format,
    node: Node,
) -> Value:
    """The value in another format; one TransData serves all who want it."""
    form = wanted if _fits(value, wanted) and value.numel > 1 else Format.ND
    if form is value.format:
        return value
    key = (id(value), form)
    if key not in turned:
        turned[key] = network.value(value, format=form)
        network.add("TransData", [value], [turned[key]], name=f"TransData {value.name}",
                    place=node.place)  # fmt: skip
    return turned[key]


def _give_back(network: Network, value: Value) -> None:
    """A result of the network goes out in the layout of the file."""
    plain = network.value(value, format=Format.ND)
    network.give_instead(value, plain)
    network.add("TransData", [value], [plain], name=f"TransData {value.name}")
