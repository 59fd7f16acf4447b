"""What the host code of the interfaces asks of boxes, in its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.values.dtypes import LEAST_NORMAL

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_MAPS, _BOXES = 4, 2


def bins_of_boxes(maps: str, boxes: str, out: str, high: str, wide: str, images: str = "") -> Check:
    """161002 for shapes; the maps of boxes that name their image have pixels."""

    def test(call: Call) -> Finding:
        known = {name: spec.shape for name, spec in call.given(maps, boxes, images, out)}
        for name, rank in ((maps, _MAPS), (boxes, _BOXES), (images, 1), (out, _MAPS)):
            if name in known and len(known[name]) != rank:
                return f"{name} should have {rank} dimensions, but has {sizes(known[name])}."
        n, c, h, w = known[maps]
        if not images and not n * h * w:
            return f"{maps} {sizes(known[maps])} has no element in N, H or W."
        count, width = known[boxes]
        if images and known[images] != (count,):
            return f"{images} should have {count} elements, but has {sizes(known[images])}."
        if width != (4 if images else 5):
            return f"{boxes} should have {4 if images else 5} columns, but has {width}."
        wanted = (count, c, call.arguments[high], call.arguments[wide])
        if out in known and known[out] != wanted:
            return f"{out} should be {list(wanted)}, but has sizes {sizes(known[out])}."
        return None

    return invalid(f"the shapes of {boxes}, {maps} and {out} don't fit", test)


def samples_are(ratio: str, scale: str, *, least: float = LEAST_NORMAL, mode: str = "") -> Check:
    """161002 for attributes: pooling by mean or maximum, no fewer than no samples, a scale."""

    def test(call: Call) -> Finding:
        known = call.arguments
        if mode and known[mode] not in ("avg", "max"):
            return f"{mode} should be avg or max, but is {known[mode]}."
        samples, factor = known[ratio], known[scale]
        if isinstance(samples, int) and samples < 0:
            return f"{ratio} should be at least 0, but got {samples}."
        if isinstance(factor, float | int) and not factor > least:
            return f"{scale} should be greater than 0, but got {factor}."
        return None

    return invalid(f"{ratio} or {scale} is out of range", test)
