"""References of quantisation: numbers to bytes by a scale, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from support.references.row import Draw, Row, positive, real

Array = np.ndarray[Any, Any]


def _static(d: Draw) -> Mapping[str, Any]:
    shape = d.sized(1, 5)
    x = d.tensor("x", shape, lambda r, s: r.integers(-40, 40, s) + 0.25)
    kind = d.kind
    size = (d.one_of(1, shape[-1]),)
    scale = d.tensor("scale", size, lambda r, s: r.choice([0.5, 1.0, 2.0], s), kind=kind)
    offset = d.tensor("offset", size, lambda r, s: r.integers(-3, 4, s), kind=kind)
    made = {"x": x, "scale": scale, "offset": offset, "sqrtMode": False, "roundMode": "round"}
    return {**made, "dstType": 2, **({"axis": -1} if d.api.endswith("V3") else {})}


def _to_bytes(x: Array, scale: Array, offset: Array, *_: Any) -> Any:
    return np.clip(np.rint(x * scale + offset), -128, 127).astype(np.int64)


def _back(d: Draw) -> Mapping[str, Any]:
    shape = d.sized(1, 5)
    x = d.tensor("x", shape, lambda r, s: r.integers(-100, 100, s), kind="INT8")
    d.kind = ""
    scale, kind = d.tensor("scale", (shape[-1],), positive), d.kind
    offset = d.tensor("offset", (shape[-1],), lambda r, s: r.integers(-3, 4, s), kind=kind)
    return {
        "x": x,
        "scale": scale,
        "offset": offset,
        "dstType": 27 if kind == "BFLOAT16" else 1,
        "sqrtMode": False,
    }


def _dynamic(d: Draw) -> Mapping[str, Any]:
    x = d.tensor("x", d.sized(2, 5), real)
    return {"x": x, "smoothScalesOptional": None}


def _by_row(x: Array, _: Any) -> Any:
    scale = np.abs(x).max(-1) / 127
    return np.rint(x / np.where(scale, scale, 1)[..., None]).astype(np.int64), scale


ROWS = (
    Row("aclnnAscendQuant", _static, _to_bytes, natural=False),
    Row("aclnnAscendQuantV3", _static, _to_bytes, natural=False),
    Row("aclnnAscendAntiQuant", _back, lambda x, s, o, *_: (x + o) * s, natural=False, loose=4),
    Row("aclnnDynamicQuant", _dynamic, _by_row, natural=False, off=1),
)
