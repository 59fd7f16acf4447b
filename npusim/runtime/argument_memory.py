"""The memory behind the buffers of a call that computes numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.operators.contract import TensorArg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.runtime.call import Executor


def bind(executor: Executor) -> dict[str, NDArray[Any]]:
    """Give the arguments' buffers their memory; outputs that the caller left out are allocated."""
    call, chain = executor.call, executor.chain
    outputs: dict[str, NDArray[Any]] = {}
    for parameter in call.contract.parameters:
        argument = call.arguments.get(parameter.name)
        if not isinstance(argument, TensorArg):
            continue
        data = argument.data
        if data is None:
            flat = np.zeros(
                argument.spec.storage_bytes // argument.spec.dtype.itemsize,
                argument.spec.dtype.numpy,
            )
            data = flat if argument.spec.rank == 0 else _strided(flat, argument)
        if parameter.name in chain.arguments:
            chain.arguments[parameter.name].data = _storage(data, argument)
        if parameter.io == "out" or parameter.is_changed:
            outputs[parameter.name] = data.reshape(argument.spec.shape)
    return outputs


def _strided(flat: NDArray[Any], argument: TensorArg) -> NDArray[Any]:
    spec = argument.spec
    steps = tuple(step * flat.itemsize for step in spec.strides)
    return np.lib.stride_tricks.as_strided(flat[spec.offset :], spec.shape, steps)


def _storage(data: NDArray[Any], argument: TensorArg) -> NDArray[Any]:
    """The flat memory behind an array, from its first element to its last."""
    if data.flags.c_contiguous:
        return data.reshape(-1)
    count = argument.spec.storage_bytes // argument.spec.dtype.itemsize - argument.spec.offset
    return np.lib.stride_tricks.as_strided(data, (count,), (data.itemsize,))


def allocate_results(kernel: Kernel) -> None:
    """Allocate what a kernel writes and nobody has allocated yet."""
    for tensor in (*kernel.writes, *kernel.scratch):
        if tensor.buffer.data is None:
            tensor.buffer.data = _new(tensor)


def _new(tensor: GlobalTensor) -> NDArray[Any]:
    held = np.dtype(np.float32) if tensor.buffer.wide else tensor.dtype.numpy
    return np.empty(tensor.buffer.nbytes // tensor.dtype.itemsize, held)
