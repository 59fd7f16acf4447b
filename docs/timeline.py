"""Draws docs/images/timeline.png for the README: `python docs/timeline.py`.

One core of a simulated Softplus, pipe by pipe, under the verdict.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import npusim
from npusim.values.drawing import saved

TARGET = Path(__file__).parent / "images" / "timeline.png"
CHIP, SHAPE = "Ascend910B3", (2560, 4096)
COLOURS = {"MTE2": "#4477aa", "VECTOR": "#228833", "MTE3": "#ee7733", "SCALAR": "#777777"}
WHAT = {"MTE2": "copy in", "VECTOR": "compute", "MTE3": "copy out", "SCALAR": "issue"}


def figure() -> Figure:
    """The figure, from a simulation."""
    spec = npusim.TensorSpec(SHAPE, "float16")
    result = npusim.Device(CHIP).estimate("Softplus", x=spec)
    core = result.timeline.cores[0]
    drawn = Figure(figsize=(8.4, 2.6), layout="constrained")
    axes = drawn.add_subplot()
    for row, (pipe, colour) in enumerate(COLOURS.items()):
        spans = [
            (each.start_us, each.duration_us)
            for each in result.timeline.slices([core])
            if each.pipe == pipe
        ]
        axes.broken_barh(spans, (row - 0.38, 0.76), facecolor=colour, edgecolor="white", lw=0.3)
    axes.set_yticks(range(len(COLOURS)), [f"{pipe} ({WHAT[pipe]})" for pipe in COLOURS])
    axes.invert_yaxis()
    axes.set_xlim(0, result.duration_us)
    axes.set_xlabel("us")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    low, high = result.band_us
    axes.set_title(
        f"Softplus fp16[{SHAPE[0]},{SHAPE[1]}] on {CHIP}, "
        f"one of {result.tasks[0].block_dim} cores\n"
        f"{result.duration_us:.1f} us ({low:.1f}..{high:.1f}), {result.bound}",
        fontsize=9,
        loc="left",
    )
    return drawn


if __name__ == "__main__":
    TARGET.write_bytes(saved(figure(), "png", dpi=110))
