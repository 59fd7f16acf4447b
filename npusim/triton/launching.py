"""Launches of Triton kernels: tensors become memory, numbers arguments, programs blocks."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GmBuffer
from npusim.ascendc.flat.copies import DeviceMemory
from npusim.pyasc.session import session
from npusim.triton import numbers
from npusim.triton.fitting import check_fits
from npusim.triton.grouping import VARIABLE
from npusim.triton.held import GlobalPiece
from npusim.triton.kernel import TritonKernel
from npusim.triton.launch import Launch
from npusim.triton.program import LoweredProgram
from npusim.triton.scalar import NeedsNumbersError
from npusim.values.dtypes import BOOL
from npusim.values.errors import ArgumentError, BufferOverflowError, KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.runtime.results import Result
    from npusim.triton.launch import Grid
    from npusim.triton.mlir import Type
    from npusim.values.dtypes import DType
    from npusim.values.tensors import TensorSpec

_programs: dict[Hashable, LoweredProgram] = {}
_timing: list[list[Result]] = []
_watching: list[list[LoweredProgram]] = []


def cores_for(profile: Profile, *, products: bool) -> int:
    """The cores that work on kernels at a time: cube cores on those with products."""
    cores = profile.cores
    return (cores.cube_cores if products else cores.vector_cores) or cores.most


def program_of(key: Hashable, text: str, options: dict[str, object]) -> LoweredProgram:
    """A compiled kernel, read once."""
    if key not in _programs:
        _programs[key] = LoweredProgram(text, options)
    return _programs[key]


class Shaped:
    """A tensor that has a shape and no numbers, as Triton's runtime asks of arguments."""

    def __init__(self, name: str, spec: TensorSpec) -> None:
        self.shape, self.dtype = spec.shape, _Spelled(spec.dtype)
        self.memory = GmBuffer(name, spec.dtype.nbytes(prod(spec.shape)))

    def data_ptr(self) -> int:
        """An address that is a multiple of whatever is asked."""
        return 0


class _Spelled:
    """A dtype whose text is torch's, which is what Triton reads."""

    def __init__(self, dtype: DType) -> None:
        self._name = f"torch.{dtype.numpy}" if dtype is not BOOL else "torch.bool"

    def __str__(self) -> str:
        return self._name


@contextmanager
def timing_only() -> Iterator[list[Result]]:
    """Launches inside are timed without numbers, and are none of the session's."""
    found: list[Result] = []
    _timing.append(found)
    try:
        yield found
    finally:
        _timing.pop()


@contextmanager
def launched_programs() -> Iterator[list[LoweredProgram]]:
    """The programs that are launched inside, those among them that the chip refuses."""
    found: list[LoweredProgram] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.pop()


def launch(program: LoweredProgram, grid: Grid, given: Mapping[str, object]) -> Result:
    """Plays a kernel on the session's chip. Raises KernelError for what the chip can't do."""
    for watcher in _watching:
        watcher.append(program)
    here = session()
    if not program.is_grouped:
        check_grid(program.name, grid, here.device.profile.launch.most_blocks)
    try:
        told = check_fits(program, here.device.profile.buffers.ub_bytes)
    except BufferOverflowError as error:
        raise _as_the_compilers(error) from None
    kernel, memories = made(program, grid, given)
    assumptions = (f"kernel {program.name}, {told}",) if told else ()
    if not _timing:
        return here.play(kernel, memories, assumptions=assumptions)
    before = len(here.launched)
    try:
        result = here.play(kernel, memories, numerics=False, assumptions=assumptions)
    except NeedsNumbersError:
        if any(isinstance(each, Shaped) for each in given.values()):
            raise
        result = _with_numbers(program, grid, given, assumptions)
    finally:
        del here.launched[before:]
    _timing[-1].append(result)
    return result


def _with_numbers(
    program: LoweredProgram, grid: Grid, given: Mapping[str, object], assumptions: tuple[str, ...]
) -> Result:
    """A launch whose work its numbers decide; they are put back behind it."""
    kernel, memories = made(program, grid, given)
    kept = [each.bytes.copy() for each in memories]
    try:
        return session().play(kernel, memories, assumptions=assumptions)
    finally:
        for memory, before in zip(memories, kept, strict=True):
            memory.bytes[...] = before


def _as_the_compilers(error: BufferOverflowError) -> BufferOverflowError:
    """The same as an error of Triton's compiler too, which programs and autotuners catch."""
    errors = sys.modules.get("triton.compiler.errors")
    own = getattr(errors, "MLIRCompilationError", None)
    if own is None:
        return error
    kind: Any = type("UbOverflowError", (BufferOverflowError, own), {})
    both: BufferOverflowError = kind.__new__(kind)
    both.args = error.args
    vars(both).update(vars(error))
    return both


def check_grid(name: str, grid: Grid, most: int) -> None:
    """Refuse grids that no launch has."""
    whole = grid[0] * grid[1] * grid[2]
    if 1 <= whole <= most:
        return
    raise KernelError(
        name,
        f"a grid of {grid[0]} x {grid[1]} x {grid[2]} = {whole} programs, but a launch has 1 to "
        f"{most} (the driver: grid should be less than {most + 1})",
        "Give each program more (a larger BLOCK), or launch as many programs as there are cores "
        "and let each loop over its share: for i in range(pid, tasks, tl.num_programs(0)). Where "
        f"programs don't wait for each other, {VARIABLE}=1 lets the compiler do that.",
    )


def made(
    program: LoweredProgram, grid: Grid, given: Mapping[str, object]
) -> tuple[TritonKernel, list[DeviceMemory]]:
    """The kernel of a launch, and the memories that it may touch."""
    if len(program.arguments) != len(given):
        raise ArgumentError(
            f"{program.name} takes {len(program.arguments)} arguments, not {len(given)}"
        )
    memories: dict[int, DeviceMemory] = {}
    pieces: list[Any] = []
    for value, (name, each) in zip(program.arguments, given.items(), strict=True):
        if value.type.is_memory:
            pieces.append(_piece(name, each, value.type, memories))
        else:
            pieces.append(_number(name, each, value.type))
    tensors = [memory.tensor for memory in memories.values()]
    cores = cores_for(session().device.profile, products=program.has_products)
    kernel = TritonKernel.named(program)(Launch(program, grid, pieces, cores), tensors)
    return kernel, list(memories.values())


def _number(name: str, value: Any, kind: Type) -> Any:
    element = kind.element
    if element not in numbers.DTYPES:
        raise ArgumentError(f"{name} of type {element}: the chip's cores have no such numbers")
    dtype = numbers.DTYPES[element]
    if hasattr(value, "item"):
        value = value.item()
    if dtype.is_float:
        return np.dtype(dtype.numpy).type(value)
    return numbers.wrapped(int(value), element) if element != "i1" else bool(value)


def _piece(name: str, value: Any, kind: Type, memories: dict[int, DeviceMemory]) -> GlobalPiece:
    dtype = numbers.DTYPES.get(kind.element)
    if dtype is None:
        raise ArgumentError(
            f"{name}: elements of type {kind.element} aren't simulated",
            f"Known: {', '.join(each for each in numbers.DTYPES if each != 'index')}.",
        )
    if isinstance(value, Shaped):
        return GlobalPiece(value.memory, None, dtype)
    raw, first = _bytes_of(name, value)
    place = raw.__array_interface__["data"][0]
    if place not in memories:
        memory = DeviceMemory(name, raw)
        memory.shape, memory.kind = tuple(value.shape), _kind_of(value)
        memories[place] = memory
    buffer = memories[place].buffer(dtype)
    return GlobalPiece(buffer, buffer.data, dtype, first // dtype.itemsize)


def _kind_of(value: Any) -> Any:
    return value.dtype if isinstance(value, np.ndarray) else str(value.dtype).removeprefix("torch.")


def _bytes_of(name: str, value: Any) -> tuple[NDArray[np.uint8], int]:
    """All bytes that a tensor's pointer can reach, and where it points to."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ArgumentError(f"{name} isn't contiguous", f"Pass a copy of {name}.")
        return value.reshape(-1).view(np.uint8), 0
    tensor = _tensor_of(value)
    if tensor is None:
        raise ArgumentError(f"{name} is a {type(value).__name__}, no tensor")
    raw = whole_storage(tensor, sys.modules["torch"].uint8).numpy()
    return raw, value.data_ptr() - tensor.untyped_storage().data_ptr()


def whole_storage(value: Any, dtype: Any = None) -> Any:
    """All that lies in the memory that a tensor shows a part of, as a tensor of one axis."""
    torch: Any = sys.modules["torch"]
    tensor = _tensor_of(value)
    return torch.empty(0, dtype=dtype or tensor.dtype).set_(tensor.untyped_storage())


def _tensor_of(value: Any) -> Any:
    """The tensor itself, or that which what shows its memory holds (tl.reinterpret and others)."""
    if hasattr(value, "untyped_storage"):
        return value
    held = getattr(value, "__dict__", {}).values()
    return next((each for each in held if hasattr(each, "untyped_storage")), None)
