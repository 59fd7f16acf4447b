"""Kernels that a program compiles while it runs (aclrtc), and launches by name from a binary."""

from __future__ import annotations

import ctypes
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.capi.launch_syntax import entries_of, lowered
from npusim.capi.runtime.handles import WrongHandleError
from npusim.capi.runtime.objects import Binary, Kernel, Source
from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.tables import Functions, need
from npusim.values.errors import RejectedError
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

COMPILING = Functions()

_ENTRY = "npusim_array_"  # of a kernel, npusim/kernel_launch.h
_SHARED = ("-shared", "-fPIC", "-fvisibility=hidden")


def _invalid(problem: str, remedy: str = "") -> Refusal:
    return Refusal(AclError.ACL_ERROR_RTC_INVALID_INPUT, problem, remedy)


def _source(session: Session, handle: int) -> Source:
    try:
        return session.tables.sources.get(handle)
    except WrongHandleError as wrong:
        raise Refusal(AclError.ACL_ERROR_RTC_INVALID_PROG, wrong.message) from None


def _texts(session: Session, addresses: int, count: int) -> list[str]:
    """The C strings of an array."""
    if count and not addresses:
        raise _invalid(f"{count} texts are said to be there, and their array is null")
    found = session.ffi.cast("uintptr_t *", addresses)
    return [session.text(found[place]) for place in range(count)]


@COMPILING.entry("aclrtcCreateProg")
def create(
    session: Session, prog: Any, text: int, name: int, count: int, headers: int, names: int
) -> None:
    """A program of kernels from its text, with headers by the names that it includes."""
    if not prog or not text:
        raise _invalid("prog and src are needed")
    included = zip(_texts(session, names, count), _texts(session, headers, count), strict=True)
    told = session.text(name) if name else "kernels"
    prog[0] = session.tables.sources.add(Source(session.text(text), told, dict(included)))


@COMPILING.entry("aclrtcDestroyProg")
def destroy(session: Session, prog: Any) -> None:
    """Forgets a program; what was loaded from it stays."""
    if not prog:
        raise _invalid("prog is null")
    _source(session, prog[0])
    session.tables.sources.remove(prog[0])
    prog[0] = 0


@COMPILING.entry("aclrtcAddNameExpr")
def add_name(session: Session, prog: int, expression: int) -> None:
    """A kernel that will be launched, as C++ names it: `Kernel::add<float>`."""
    source = _source(session, prog)
    if not expression:
        raise _invalid("nameExpression is null")
    if source.binary is not None:
        raise Refusal(
            AclError.ACL_ERROR_RTC_NO_NAME_EXPR_AFTER_COMPILATION,
            "the program is compiled already",
            "Name kernels before aclrtcCompileProg.",
        )
    source.expressions.append(session.text(expression))


@COMPILING.entry("aclrtcCompileProg")
def compile_(session: Session, prog: int, count: int, options: int) -> None:
    """Compiles a program; what the compiler says is its log."""
    from npusim.capi.compiling import compile_program  # most programs don't compile

    source = _source(session, prog)
    flags = _texts(session, options, count)
    folder = Path(tempfile.mkdtemp(prefix="npusim-rtc-"))
    try:
        for name, text in source.headers.items():
            header = folder / name
            if not header.resolve().is_relative_to(folder.resolve()):
                raise _invalid(f"a header is called {name}, which leads elsewhere")
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(text, encoding="utf-8")
        file, made = folder / "kernels.asc", folder / "kernels.so"
        whole = f'#include "kernel_operator.h"\n#line 1 "{source.name}"\n{source.text}'
        whole += entries_of(source.text, source.expressions)
        file.write_text(whole, encoding="utf-8")
        with (folder / "log").open("w+", encoding="utf-8", errors="replace") as log:
            try:
                compile_program([file], made, [f"-I{folder}", *flags, *_SHARED], log)
            except RejectedError as problem:
                log.seek(0)
                said = log.read()
                source.log = f"{said}{problem.message}\n\0".encode()
                lines = said.splitlines()
                why = next((each for each in lines if "error: " in each), problem.message)
                code = AclError.ACL_ERROR_RTC_COMPILATION
                raise Refusal(code, f"{source.name} doesn't compile: {why}") from None
            log.seek(0)
            source.log = f"{log.read()}\0".encode()
        source.binary = made.read_bytes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@COMPILING.entry("aclrtcGetLoweredName")
def lowered_name(session: Session, prog: int, expression: int, name: Any) -> None:
    """The name under which the binary has a kernel that was named before."""
    source = _source(session, prog)
    if source.binary is None:
        code = AclError.ACL_ERROR_RTC_NO_LOWERED_NAMES_BEFORE_COMPILATION
        raise Refusal(code, "the program isn't compiled yet", "Call aclrtcCompileProg first.")
    told = session.text(expression)
    if told not in source.expressions:
        code = AclError.ACL_ERROR_RTC_NAME_EXPR_NOT_VALID
        raise Refusal(code, f"{told} wasn't named before", "Name it with aclrtcAddNameExpr.")
    session.ffi.cast("uintptr_t *", name)[0] = session.keep(lowered(told))


def _give(session: Session, data: bytes, size: Any = None, to: int = 0) -> None:
    """The length of what a program asks for, or its bytes."""
    if size is not None:
        need(size=size)
        size[0] = len(data)
    else:
        need(data=to)
        session.ffi.memmove(session.ffi.cast("char *", to), data, len(data))


def _compiled(session: Session, prog: int) -> bytes:
    binary = _source(session, prog).binary
    if binary is None:
        raise _invalid("the program isn't compiled", "Call aclrtcCompileProg first.")
    return binary


@COMPILING.entry("aclrtcGetBinDataSize")
def binary_size(session: Session, prog: int, size: Any) -> None:
    """The bytes of a compiled program."""
    _give(session, _compiled(session, prog), size)


@COMPILING.entry("aclrtcGetBinData")
def binary_data(session: Session, prog: int, data: int) -> None:
    """A compiled program."""
    _give(session, _compiled(session, prog), to=data)


@COMPILING.entry("aclrtcGetCompileLogSize")
def log_size(session: Session, prog: int, size: Any) -> None:
    """The bytes of the compiler's words, the 0 behind them among them."""
    _give(session, _source(session, prog).log, size)


@COMPILING.entry("aclrtcGetCompileLog")
def compile_log(session: Session, prog: int, log: int) -> None:
    """The compiler's words."""
    _give(session, _source(session, prog).log, to=log)


@COMPILING.entry("aclrtBinaryLoadFromData")
def load(session: Session, data: int, length: int, options: Any, handle: Any) -> None:
    """A binary in memory becomes one whose kernels are launched."""
    del options
    need(data=data, binHandle=handle)
    session.current_device()
    with tempfile.TemporaryDirectory(prefix="npusim-rtc-") as folder:
        file = Path(folder, "kernels.so")
        file.write_bytes(session.ffi.buffer(session.ffi.cast("char *", data), length)[:])
        handle[0] = _loaded(session, file)


@COMPILING.entry("aclrtBinaryLoadFromFile")
def load_file(session: Session, path: int, options: Any, handle: Any) -> None:
    """A binary in a file becomes one whose kernels are launched."""
    del options
    need(binPath=path, binHandle=handle)
    session.current_device()
    handle[0] = _loaded(session, Path(session.text(path)))


def _loaded(session: Session, file: Path) -> int:
    try:
        return session.tables.binaries.add(Binary(ctypes.CDLL(str(file))))
    except OSError as problem:
        code = AclError.ACL_ERROR_RT_PARAM_INVALID
        remedy = "Binaries for a card can't be run; use those of aclrtcGetBinData."
        raise Refusal(code, f"no binary of npusim's kernels: {problem}", remedy) from None


@COMPILING.entry("aclrtBinaryUnLoad")
def unload(session: Session, handle: int) -> None:
    """Forgets a binary; launches that wait still run."""
    session.tables.binaries.remove(handle)


@COMPILING.entry("aclrtBinaryGetFunction")
def function(session: Session, handle: int, name: int, kernel: Any) -> None:
    """A kernel of a binary by its name."""
    need(kernelName=name, funcHandle=kernel)
    library, told = session.tables.binaries.get(handle).library, session.text(name)
    try:
        entry = library[f"{_ENTRY}{told}"]
    except AttributeError:
        code = AclError.ACL_ERROR_RT_PARAM_INVALID
        remedy = 'Declare it extern "C", or name it with aclrtcAddNameExpr.'
        raise Refusal(code, f"the binary has no kernel {told}", remedy) from None
    entry.argtypes = (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
    entry.restype = ctypes.c_uint32
    kernel[0] = session.tables.kernels.add(Kernel(entry))


@COMPILING.entry("aclrtLaunchKernelWithArgsArray")
def launch_array(
    session: Session, kernel: int, blocks: int, stream: int, settings: Any, arguments: Any
) -> int:
    """Launches a kernel with the values at these addresses, as many as it has parameters."""
    del settings
    given = int(session.ffi.cast("uintptr_t", arguments))
    return session.tables.kernels.get(kernel).launch(blocks, stream, given)
