"""Networks as graphs: read from ONNX or torch, compiled as for the device, timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.takes import takes

if TYPE_CHECKING:
    from npusim.graph.aten.reader import Program

__all__ = ["from_torch"]


@takes()
def from_torch(
    program: Any, *inputs: Any, name: str = "program", backward: bool = False
) -> Program:
    """A torch program as a model: ``npusim.Model.read(from_torch(module, x))``.

    `program` is a module or function with the `inputs` that it is called with, which is traced
    on fake tensors: nothing is computed. With `backward` it may call ``loss.backward()``, which
    gives a step of training; attention comes in parts then. Without `inputs` it is a program of
    torch.export.export. Raises ArgumentError for anything else, and where Python looks at what
    tensors hold; UsageError without torch.
    """
    if inputs:
        from npusim.graph.aten.tracing import traced

        return traced(program, inputs, name=name, backward=backward)
    from npusim.graph.aten.reader import from_torch as read

    return read(program, name=name)
