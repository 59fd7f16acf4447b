"""Networks as graphs: read from ONNX or torch, compiled as for the device, timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.graph.aten.reader import Program

__all__ = ["from_torch"]


def from_torch(exported: Any, *, name: str = "program") -> Program:
    """A program of torch.export.export as a model: ``npusim.Model.read(from_torch(exported))``.

    Raises ArgumentError for anything else, UsageError where torch isn't installed.
    """
    from npusim.graph.aten.reader import from_torch as read

    return read(exported, name=name)
