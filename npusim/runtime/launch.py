"""Kernels of one's own: tensors from what the caller gives, one task, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.operators.arguments import tensor_of
from npusim.runtime.argument_memory import storage_of
from npusim.runtime.grids import require_blocks
from npusim.runtime.listening import Operand, all_overridden
from npusim.values.errors import ArgumentError, KernelError, brief, expect
from npusim.values.takes import WHOLE

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import TensorArg


class Launch:
    """A kernel with the tensors it was launched on; ``numerics`` if all of them have data.

    Raises ArgumentError for operands and blocks that the kernel can't be launched with, KernelError
    for a mistake in the kernel's ``__init__``.
    """

    def __init__(
        self,
        kind: type[Kernel],
        profile: Profile,
        operands: Sequence[object],
        block_dim: int | None,
        attributes: Mapping[str, object],
    ) -> None:
        expect(kind, type, "a kernel")
        if not issubclass(kind, Kernel):
            raise ArgumentError(f"{kind!r:.80} is no kernel", "Give a class that inherits Kernel.")
        attributes = all_overridden(_attributes(kind), attributes)
        self.arguments = dict(_named(kind, profile, operands, attributes))
        self.numerics = all(each.data is not None for each in self.arguments.values())
        tensors = {
            name: _placed(name, each, numerics=self.numerics)
            for name, each in self.arguments.items()
        }
        self.kernel = _built(kind, profile, tuple(tensors.values()), attributes)
        if block_dim is not None or not hasattr(self.kernel, "block_dim"):
            self.kernel.block_dim = _blocks(self.kernel, profile, block_dim)
        written = {tensor.buffer.number for tensor in self.kernel.writes}
        self._outputs = [name for name, each in tensors.items() if each.buffer.number in written]

    def operands(self) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """The tensors that the kernel reads, and those that it writes."""
        told = {
            name: Operand(name, each.spec.shape, each.spec.dtype)
            for name, each in self.arguments.items()
        }
        return (
            tuple(each for name, each in told.items() if name not in self._outputs),
            tuple(told[name] for name in self._outputs),
        )

    @property
    def outputs(self) -> dict[str, Any] | None:
        """The caller's arrays that the kernel wrote, by the names of its parameters."""
        if not self.numerics:
            return None
        return {name: self.arguments[name].data for name in self._outputs}


def _attributes(kind: type[Kernel]) -> dict[str, Parameter]:
    """The parameters of a kernel that are no tensors: behind ``*``, or with a default."""
    return {
        name: each
        for name, each in signature(kind).parameters.items()
        if each.kind is Parameter.KEYWORD_ONLY or each.default is not Parameter.empty
    }


def _named(
    kind: type[Kernel],
    profile: Profile,
    operands: Sequence[object],
    attributes: Mapping[str, object],
) -> list[tuple[str, TensorArg]]:
    """The operands by the names of the kernel's parameters."""
    try:
        signature(kind).bind(profile, *operands, **attributes)
    except TypeError as error:
        expected = f"{kind.__name__}{signature(kind)}"
        raise ArgumentError(
            f"launch of {kind.__name__}: {error}",
            f"Its __init__ takes {expected}; the first parameter is the chip's profile.",
        ) from None
    names: list[str] = []
    for parameter in list(signature(kind).parameters.values())[1:]:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            more = len(operands) - len(names)
            names += [f"{parameter.name}{index}" for index in range(more)]
        else:
            names.append(parameter.name)
    return [(name, _tensor(name, each)) for name, each in zip(names, operands, strict=False)]


def _tensor(name: str, value: object) -> TensorArg:
    try:
        return tensor_of(value)
    except TypeError:
        raise ArgumentError(
            f"{name} is {brief(value)}, not a tensor",
            "Give tensors as NumPy arrays or TensorSpec, and attributes by name.",
        ) from None


def _placed(name: str, argument: TensorArg, *, numerics: bool) -> GlobalTensor:
    """A tensor of the caller's in global memory, where it stays."""
    spec, data = argument.spec, argument.data
    strides = None if spec.is_contiguous else spec.strides
    size = spec.storage_bytes
    flat = storage_of(data, argument) if numerics and data is not None else None
    return GlobalTensor(GmBuffer(name, size, flat), spec.dtype, spec.shape, 0, strides)


def _built(
    kind: type[Kernel],
    profile: Profile,
    tensors: tuple[GlobalTensor, ...],
    attributes: Mapping[str, object],
) -> Kernel:
    kernel = kind.built(profile, *tensors, **attributes)
    if not (hasattr(kernel, "reads") and hasattr(kernel, "writes")):
        raise KernelError(
            kind.op_type,
            "doesn't say which tensors it reads and writes",
            "Set self.reads = (x, ...) and self.writes = (y, ...) in its __init__.",
        )
    return kernel


def _blocks(kernel: Kernel, profile: Profile, wanted: int | None) -> int:
    """The blocks to launch: by default one on each core; more than those run in rounds."""
    if wanted is None:
        cube = kernel.is_mix or kernel.cores == "cube"
        return profile.cores.cube_cores if cube else profile.cores.vector_cores
    require_blocks(WHOLE(wanted, "block_dim"), profile)
    return int(wanted)
