"""What moves elements without computing: transposes, joins, parts, frames, resizing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from npusim.graph.mapping.rules import Rule, contents, reshaped, told
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.graph.network import Network, Node

_FURTHEST: Final = 1 << 31


def _view(network: Network, node: Node) -> None:
    """The same bytes under another shape: nothing to do for the device."""
    network.replace([node], "Reshape", node.inputs[:1], node.outputs[:1])


def _identity(network: Network, node: Node) -> None:
    network.replace([node], "Identity", node.inputs[:1], node.outputs[:1])


def _transpose(network: Network, node: Node) -> None:
    rank = len(node.given[0].shape)
    perm = list(node.attributes.get("perm", range(rank)[::-1]))
    network.replace([node], "TransposeD", node.inputs, node.outputs, {"perm": perm})


def _concat(network: Network, node: Node) -> None:
    axis = node.attributes["axis"] % max(len(node.output.shape), 1)
    network.replace([node], "ConcatD", node.inputs, node.outputs, {"concat_dim": axis})


def _split(network: Network, node: Node) -> None:
    axis = node.attributes.get("axis", 0) % max(len(node.given[0].shape), 1)
    sizes = [value.shape[axis] for value in node.outputs]
    attributes: dict[str, Any] = {"split_dim": axis, "num_split": len(sizes)}
    op = "SplitD" if len(set(sizes)) == 1 else "SplitVD"
    if op == "SplitVD":
        attributes["size_splits"] = sizes
    network.replace([node], op, node.inputs[:1], node.outputs, attributes)


def _slice(network: Network, node: Node) -> None:
    shape = node.given[0].shape
    starts, ends = told(node, "starts", 1) or [], told(node, "ends", 2) or []
    axes = told(node, "axes", 3) or list(range(len(starts)))
    steps = contents(node, 4) or [1] * len(starts)
    begin, end, strides = [0] * len(shape), list(shape), [1] * len(shape)
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        part = range(shape[axis])[_within(first) : _within(last) : step]
        place = axis % len(shape)
        begin[place], strides[place] = part.start, step
        end[place] = part.stop if step > 0 or part.stop >= 0 else -shape[axis] - 1
    attributes = {"begin": begin, "end": end, "strides": strides}
    network.replace([node], "StridedSliceD", node.inputs[:1], node.outputs, attributes)


def _within(place: int) -> int:
    return max(-_FURTHEST, min(_FURTHEST, place))


_INSIDE: Final = {"reflect": "ReflectionPad", "edge": "ReplicationPad"}
"""Frames of what is inside, by ONNX's modes."""

_MOST_FRAMED = 3  # axes of such a frame


def _pad(network: Network, node: Node) -> None:
    pads = told(node, "pads", 1) or []
    half = len(pads) // 2
    pairs = [(pads[axis], pads[axis + half]) for axis in range(half)]
    mode = node.attributes.get("mode", "constant")
    framed = half - next((axis for axis, pair in enumerate(pairs) if any(pair)), half)
    if mode in _INSIDE and 0 < framed <= _MOST_FRAMED:
        padding = [each for pair in pairs[: -framed - 1 : -1] for each in pair]
        op = f"{_INSIDE[mode]}{framed}d"
        network.replace([node], op, node.inputs[:1], node.outputs, {"padding": padding})
        return
    op = "PadD" if mode == "constant" else "MirrorPad"
    value = (told(node, "value", 2) or [0])[0]
    _cut_off(network, node, pairs)
    flat = [max(0, each) for pair in pairs for each in pair]
    attributes = {"paddings": flat, "mode": mode, "value": value}
    op = op if any(flat) else "Identity"
    network.replace([node], op, node.inputs[:1], node.outputs, attributes)


def _cut_off(network: Network, node: Node, pairs: Sequence[tuple[int, int]]) -> None:
    """Frames of less than nothing: what they take away is sliced off before."""
    x = node.given[0]
    begin = [max(0, -first) for first, _ in pairs]
    end = [size + min(0, last) for size, (_, last) in zip(x.shape, pairs, strict=True)]
    if (begin, end) == ([0] * len(pairs), list(x.shape)):
        return
    cut = network.value(x, shape=[max(0, b - a) for a, b in zip(begin, end, strict=True)])
    attributes = {"begin": begin, "end": end, "strides": [1] * len(pairs)}
    network.add("StridedSliceD", [x], [cut], attributes, name=node.name, place=node.place)
    network.rewire(node, x, cut)


def _resize(network: Network, node: Node) -> None:
    linear = node.attributes.get("mode", "nearest") in ("linear", "bilinear")
    cubic = node.attributes.get("mode") == "cubic"
    how = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    op = "ResizeBicubic" if cubic else "ResizeBilinearV2" if linear else "ResizeNearestNeighborV2"
    attributes = {
        "size": list(node.output.shape[2:]),
        "align_corners": how == "align_corners",
        "half_pixel_centers": how == "half_pixel",
    }
    network.replace([node], op, node.inputs[:1], node.outputs, attributes)


def _expand(network: Network, node: Node) -> None:
    if node.given[0].shape == node.output.shape:
        _identity(network, node)
        return
    attributes = {"shape": list(node.output.shape)}
    network.replace([node], "BroadcastToD", node.inputs[:1], node.outputs, attributes)


def _tile(network: Network, node: Node) -> None:
    times = contents(node, 1) or []
    network.replace([node], "TileD", node.inputs[:1], node.outputs, {"multiples": times})


def _blocks(node: Node) -> tuple[list[int], list[int]]:
    """The axes of space and depth apart, and their order: blocks of pixels become channels."""
    images, channels, high, wide = node.given[0].shape
    edge = node.attributes.get("blocksize", 1)
    whole = (high, wide) if node.op == "SpaceToDepth" else (channels,)
    if any(size % edge ** (2 // len(whole)) for size in whole):
        problem = say("cuts {shape} into blocks of {edge}").format(
            shape=list(node.given[0].shape), edge=edge
        )
        raise ArgumentError(f"{node.op} {node.name} {problem}")
    if node.op == "SpaceToDepth":
        return [images, channels, high // edge, edge, wide // edge, edge], [0, 3, 5, 1, 2, 4]
    deep = channels // edge**2
    if node.attributes.get("mode", "DCR") == "DCR":
        return [images, edge, edge, deep, high, wide], [0, 3, 4, 1, 5, 2]
    return [images, deep, edge, edge, high, wide], [0, 1, 4, 2, 5, 3]


def _pixels(network: Network, node: Node) -> None:
    """Depth to space and back: a transposition of blocks, as the vendor's kernel has it.

    Source: canndev ops/built-in/tbe/impl, depth_to_space.py and space_to_depth.py.
    """
    apart, perm = _blocks(node)
    x = reshaped(network, node.given[0], apart, node)
    made = network.value(node.output, shape=[apart[axis] for axis in perm])
    out = node.output
    turn = network.replace([node], "TransposeD", [x], [made], {"perm": perm})
    network.add("Reshape", [made], [out], name=turn.name, place=turn.place)


RULES: Final[Mapping[str, Rule]] = {
    "Concat": _concat,
    "DepthToSpace": _pixels,
    "Dropout": _identity,
    "Expand": _expand,
    "Flatten": _view,
    "Identity": _identity,
    "Pad": _pad,
    "Reshape": _view,
    "Resize": _resize,
    "Slice": _slice,
    "SpaceToDepth": _pixels,
    "Split": _split,
    "Squeeze": _view,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _view,
    "Upsample": _resize,
}
