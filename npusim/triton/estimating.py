"""The time of a Triton kernel from Python, from shapes alone or from tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.pyasc.session import held
from npusim.runtime.device import Device
from npusim.triton.launching import Shaped, timing_only
from npusim.triton.programs import triton_on_npu
from npusim.values.errors import ArgumentError, KernelError
from npusim.values.takes import takes
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.runtime.results import Result

Grid = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]


@takes()
def estimate(
    kernel: Any, grid: Grid, arguments: Mapping[str, Any], *, device: Device | str = "Ascend910B3"
) -> Result:
    """The time of ``kernel[grid](**arguments)``, without numbers.

    ``arguments`` are those of the kernel by name, ``tl.constexpr`` ones among them: numbers,
    tensors of torch, NumPy arrays, or ``npusim.TensorSpec`` where the shape says enough. Raises
    KernelError for what the chip refuses, and for a kernel whose work depends on what is in a
    TensorSpec.
    """
    chip = device if isinstance(device, Device) else Device(device)
    given = {name: _argument(name, each) for name, each in arguments.items()}
    with held(chip), triton_on_npu(), timing_only() as found:
        try:
            kernel[grid](**given)
        except RuntimeError as error:  # Triton's own check of the grid
            raise KernelError(getattr(kernel, "__name__", ""), str(error)) from None
    if len(found) != 1:
        raise ArgumentError(
            f"{len(found)} kernels were launched", "Give one of @triton.jit, without autotune."
        )
    return found[0]


def _argument(name: str, value: Any) -> Any:
    return Shaped(name, value) if isinstance(value, TensorSpec) else value
