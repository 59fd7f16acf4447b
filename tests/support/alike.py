"""What several threads and processes are asked, where fresh processes can import it."""

from __future__ import annotations

from typing import Any

import numpy as np

import npusim


def answers(chip: str) -> list[Any]:
    """Numbers and cycles of a run, and the cycles of two estimates."""
    device = npusim.Device(chip)
    x = np.linspace(-2, 2, 99, dtype=np.float32)
    found = device.run("aclnnAbs", self=x)
    times = [
        device.estimate("aclnnRelu", self=npusim.TensorSpec((n,), "fp16")).cycles for n in (9, 999)
    ]
    return [found.outputs["out"].tolist(), found.cycles, *times]
