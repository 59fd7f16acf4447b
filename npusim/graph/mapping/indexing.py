"""What takes or puts elements where indices, boxes or grids say.

Source: the ONNX plugins of the public operator libraries (ScatterND, OneHot, Trilu, GridSample,
RoiAlign, NonMaxSuppression of ops-nn, ops-math and ops-cv).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from npusim.graph.mapping.rules import Rule, contents, renamed
from npusim.values.dtypes import INT32
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.graph.network import Network, Node

_BOX: Final = 5  # numbers of a box with the image it is in
_PLANES: Final = 4  # axes of images


def _gather(network: Network, node: Node) -> None:
    attributes = {"axis": node.attributes.get("axis", 0)}
    network.replace([node], "GatherV2D", node.inputs, node.outputs, attributes)


_SCATTERS: Final = {
    "none": "ScatterNdUpdate",
    "add": "ScatterNdAdd",
    "max": "ScatterNdMax",
    "min": "ScatterNdMin",
}


def _scatter(network: Network, node: Node) -> None:
    """The data copied, and updates put into the copy."""
    data, indices, updates = node.given
    copy = network.value(data)
    reduction = node.attributes.get("reduction", "none")
    if reduction not in _SCATTERS:
        problem = say("{op} {name} has the reduction {reduction}").format(
            op=node.op, name=node.name, reduction=reduction
        )
        raise ArgumentError(
            problem,
            say("The device's operators have {scatters}.").format(scatters=", ".join(_SCATTERS)),
        )
    op = _SCATTERS[reduction]
    network.add("TensorMove", [data], [copy], name=node.name, place=node.place)
    network.replace([node], op, [copy, indices, updates], node.outputs)


def _one_hot(network: Network, node: Node) -> None:
    """Off and on come as one tensor of two numbers, and are taken apart."""
    places, _, values = node.given
    depth = (contents(node, 1) or [0])[0]
    if values.contents is not None:
        parts = [network.weight(values, (1,), one) for one in values.contents.reshape(2, 1)]
    else:
        parts = [network.value(values, shape=(1,)) for _ in range(2)]
        network.add("SplitD", [values], parts, {"split_dim": 0, "num_split": 2},
                    name=node.name, place=node.place)  # fmt: skip
    off, on = parts
    attributes = {"depth": int(depth), "axis": node.attributes.get("axis", -1)}
    network.replace([node], "OneHot", [places, on, off], node.outputs, attributes)


def _triangle(network: Network, node: Node) -> None:
    op = "Triu" if node.attributes.get("upper", 1) else "Tril"
    attributes = {"diagonal": (contents(node, 1) or [0])[0]}
    network.replace([node], op, node.inputs[:1], node.outputs, attributes)


_MODES: Final = {"linear": "bilinear", "cubic": "bicubic"}
"""ONNX's words of later opsets, as the device's operator has them."""


def _sampled(network: Network, node: Node) -> None:
    mode = node.attributes.get("mode", "bilinear")
    attributes: dict[str, Any] = {
        "interpolation_mode": _MODES.get(mode, mode),
        "padding_mode": node.attributes.get("padding_mode", "zeros"),
        "align_corners": bool(node.attributes.get("align_corners", 0)),
    }
    op = "GridSampler2D" if len(node.given[0].shape) == _PLANES else "GridSampler3D"
    network.replace([node], op, node.inputs, node.outputs, attributes)


def _pooled_boxes(network: Network, node: Node) -> None:
    """The image that a box is in stands in front of its corners, as a number of their dtype."""
    x, boxes, images = node.given
    half = node.attributes.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    numbers = network.value(boxes, shape=images.shape)
    column = network.value(boxes, shape=(*images.shape, 1))
    joined = network.value(boxes, shape=(boxes.shape[0], _BOX))
    how: dict[str, Any] = {"name": node.name, "place": node.place}
    network.add("Cast", [images], [numbers], **how)
    network.add("Reshape", [numbers], [column], **how)
    network.add("ConcatD", [column, boxes], [joined], {"concat_dim": 1}, **how)
    attributes = {
        "pooled_height": node.attributes.get("output_height", 1),
        "pooled_width": node.attributes.get("output_width", 1),
        "spatial_scale": node.attributes.get("spatial_scale", 1.0),
        "sample_num": node.attributes.get("sampling_ratio", 0),
        "roi_end_mode": 2 if half and network.opset >= _HALF_PIXELS else 0,
    }
    network.replace([node], "ROIAlign", [x, joined], node.outputs, attributes)


_HALF_PIXELS: Final = 16  # the opset that lets a model say half_pixel, and has it by default


def _suppressed(network: Network, node: Node) -> None:
    """The kernel counts in int32, ONNX in int64."""
    (places,) = node.outputs
    found = network.value(places, dtype=INT32)
    centred = {"center_point_box": node.attributes.get("center_point_box", 0)}
    how: Any = {"name": node.name, "place": node.place}
    network.add("NonMaxSuppressionV6", node.inputs, [found], centred, **how)
    network.replace([node], "Cast", [found], [places])


RULES: Final[Mapping[str, Rule]] = {
    "Gather": _gather,
    "GatherElements": renamed("GatherElements", {"axis": "dim"}),
    "GatherND": renamed("GatherNd"),
    "GridSample": _sampled,
    "NonMaxSuppression": _suppressed,
    "OneHot": _one_hot,
    "RoiAlign": _pooled_boxes,
    "ScatterElements": renamed("ScatterElements", {"axis": "axis"}),
    "ScatterND": _scatter,
    "Trilu": _triangle,
}
