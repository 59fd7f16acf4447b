"""What moves elements without computing: transposes, joins, parts, frames, resizing, looking up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from npusim.graph.mapping.rules import Rule, contents, renamed, told

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    flat = [each for pair in pairs for each in pair]
    attributes = {"paddings": flat, "mode": mode, "value": value}
    network.replace([node], op, node.inputs[:1], node.outputs, attributes)


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


def _gather(network: Network, node: Node) -> None:
    attributes = {"axis": node.attributes.get("axis", 0)}
    network.replace([node], "GatherV2D", node.inputs, node.outputs, attributes)


def _expand(network: Network, node: Node) -> None:
    if node.given[0].shape == node.output.shape:
        _identity(network, node)
        return
    attributes = {"shape": list(node.output.shape)}
    network.replace([node], "BroadcastToD", node.inputs[:1], node.outputs, attributes)


def _tile(network: Network, node: Node) -> None:
    times = contents(node, 1) or []
    network.replace([node], "TileD", node.inputs[:1], node.outputs, {"multiples": times})


RULES: Final[Mapping[str, Rule]] = {
    "Concat": _concat,
    "Dropout": _identity,
    "Expand": _expand,
    "Flatten": _view,
    "Gather": _gather,
    "GatherElements": renamed("GatherElements", {"axis": "dim"}),
    "GatherND": renamed("GatherNd"),
    "Identity": _identity,
    "Pad": _pad,
    "Reshape": _view,
    "Resize": _resize,
    "ScatterElements": renamed("ScatterElements", {"axis": "axis"}),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _view,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _view,
    "Upsample": _resize,
}
