"""A pass as machine code: a loop over each row, compiled by LLVM where llvmlite is installed.

What is compiled is IEEE 754 arithmetic in the order of the steps, with no licence to reorder, so
that bits are those of :mod:`npusim.ascendc.blockwise`, which computes what has no row in the tables
of :mod:`npusim.ascendc.loop_text`. Code is kept for the process by what the steps are; compiling
takes some 20 ms.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from platform import machine
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import blockwise
from npusim.ascendc.loop_text import MOST_OUTER_AXES, Operand, Structure, name_of, text_of
from npusim.values.locks import lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.passes import Pass, Shape

Code = Callable[[int], None]

_compiling = lock()


@cache
def is_available() -> bool:
    """Whether llvmlite is installed, and knows this host."""
    try:
        _compiler()
    except (ImportError, OSError, RuntimeError):
        return False
    return True


def run(work: Pass) -> None:
    """Compute a pass."""
    space, found = work.flattened()
    known = [*work.inputs, *(output.array for output in work.outputs)]
    shared = {
        len(work.inputs) + n for n, each in enumerate(work.outputs) if each.shares is not None
    }
    own = [number for number in range(len(known)) if number not in shared]
    arrays, strides = [known[number] for number in own], [found[number] for number in own]
    operands = [_operand(*pair) for pair in zip(arrays, strides, strict=True)]
    code = None
    if len(space) <= MOST_OUTER_AXES + 1 and None not in operands:
        with _compiling:
            code = _code(Structure.of(work, tuple(filter(None, operands))))
    if code is None:
        blockwise.run(work)
        return
    scratch = [np.empty(space[-1], np.float32) for step in work.steps if step.work.folds]
    table = _table(space, arrays, strides, scratch)
    code(table.ctypes.data)


def _operand(array: NDArray[Any], strides: Shape) -> Operand | None:
    """How a row of an array lies in memory; None where neither packed nor one number."""
    if strides[-1] not in (0, array.itemsize):
        return None
    return Operand(name_of(array.dtype), packed=strides[-1] != 0)


def _table(
    space: Shape,
    arrays: Sequence[NDArray[Any]],
    strides: Sequence[Shape],
    scratch: Sequence[NDArray[Any]],
) -> NDArray[np.int64]:
    """Sizes, and the address and steps in bytes of each array: what the code reads."""
    missing = MOST_OUTER_AXES + 1 - len(space)
    found = [1] * missing + [*space]
    for array, steps in zip(arrays, strides, strict=True):
        found += [array.__array_interface__["data"][0], *[0] * missing, *steps[:-1]]
    found += [array.__array_interface__["data"][0] for array in scratch]
    return np.array(found, np.int64)


@cache
def _code(structure: Structure) -> Code | None:
    text = text_of(structure)
    dtypes = [each.dtype for each in structure.arrays] + [step.dtype for step in structure.steps]
    if text is None or ("float16" in dtypes and not _converts_halves()):
        return None
    return _compiler()(text)


@cache
def _converts_halves() -> bool:
    """Whether the host has instructions for that; LLVM calls a library elsewhere."""
    features = import_module("llvmlite.binding").get_host_cpu_features()
    return machine().lower() in ("aarch64", "arm64") or bool(features.get("f16c"))


@cache
def _compiler() -> Callable[[str], Code]:
    """Compiles for this host; llvmlite is imported here and nowhere else."""
    llvm: Any = import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(target, options)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)

    def compiled(text: str) -> Code:
        name = f"pass_{len(kept)}"
        module = llvm.parse_assembly(text.replace("@run", f"@{name}"))
        module.verify()
        builder.getModulePassManager().run(module, builder)
        engine.add_module(module)
        engine.finalize_object()
        code = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(name))
        kept.append(code)
        return code

    kept: list[Code] = []
    return compiled
