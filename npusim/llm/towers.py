"""What a model sees or hears with, read from its config by a row of ``towers.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from npusim.llm.names import SEEING, TOWER, first_in
from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    file = Path(__file__).with_name("towers.yaml")
    return yaml_mapping(read_text(file), str(file))


def tower_of(raw: Mapping[str, Any], name: str, out: object) -> dict[str, Any] | None:
    """The values of a tower of the kind `name`, for a model `out` wide; None without one.

    `raw` is the whole config; where the tower has no mapping of its own, its keys are taken.
    """
    row = _rows().get(name, {})
    _, own = first_in(raw, SEEING)
    if not isinstance(own, Mapping):
        if "whole" not in row:
            return None
        own = raw
    names = {**TOWER, **{ours: (key,) for ours, key in row.get("keys", {}).items()}}
    usual = row.get("defaults", {})

    def said(ours: str, default: Any = None) -> Any:
        _, value = first_in(own, names[ours])
        return usual.get(ours, default) if value is None else value

    hidden = said("hidden")
    if not isinstance(hidden, int) or not said("layers"):
        return None
    patch, merge = said("patch"), said("merge", row.get("merge", 1))
    frames, channels = said("frames", 1), said("channels", 3)
    whole = all(isinstance(each, int) for each in (patch or 0, merge, frames, channels))
    merged = merge * merge if whole else 1
    inputs = prod((channels, frames, patch or row.get("taps", 1), patch or 1)) if whole else 1
    inputs += hidden * row.get("then_taps", 0)
    window, wide, deep = said("window", 0), said("wide"), said("deep")
    side = window // patch if isinstance(window, int) and isinstance(patch, int) else 0
    projected = {"merged": merged * hidden, "out": out}.get(row.get("projected", ""), 0)
    return {
        "layers": said("layers"),
        "hidden": hidden,
        "heads": said("heads"),
        "width": said("width") or round(said("ratio", 4) * hidden),
        "inputs": inputs,
        "gated": row.get("gated", False),
        "merged": merged,
        "projected": projected,
        "mergers": 1 + (len(deep) if isinstance(deep, list) else 0),
        "near": side * side if wide else 0,
        "wide_layers": len(wide) if isinstance(wide, list) else 0,
        "patch": patch,
        "fixed": _fixed(row, said("image"), patch),
        "positions": said("positions", 0) or _learned(row, said("image"), patch),
        "pooled": row.get("pooled", False),
    }


def _fixed(row: Mapping[str, Any], image: object, patch: object) -> int:
    """Patches of whatever is seen or heard, where a model always makes as many."""
    if "fixed" in row:
        return int(row["fixed"])
    return _squared(image, patch) if row.get("one_size") else 0


def _learned(row: Mapping[str, Any], image: object, patch: object) -> int:
    return _squared(image, patch) if row.get("learned") else 0


def _squared(image: object, patch: object) -> int:
    whole = isinstance(image, int) and isinstance(patch, int) and patch > 0
    return (image // patch) ** 2 if whole else 0  # type: ignore[operator]
