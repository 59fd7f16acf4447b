"""Connects the library's C functions with Python; failures become codes in one place."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

from npusim.capi.runtime.compiled_kernels import COMPILING
from npusim.capi.runtime.describing import DESCRIBING
from npusim.capi.runtime.handles import WrongHandleError
from npusim.capi.runtime.journal import LOG_VARIABLE
from npusim.capi.runtime.kernel_hosts import chip, matmul_tiling
from npusim.capi.runtime.kernel_launches import launch
from npusim.capi.runtime.life import LIFE
from npusim.capi.runtime.memory import AddressError
from npusim.capi.runtime.moving import MOVING
from npusim.capi.runtime.operators import FirstPhase, SecondPhase
from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.scheduling import SCHEDULING
from npusim.capi.runtime.session import Session, returned
from npusim.capi.runtime.storage import STORAGE
from npusim.values.errors import DeviceFault, HostMemoryError, NpusimError
from npusim.values.status import AclError, Status, StatusCode

# The C functions by name; each gets the session and the C arguments.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **LIFE, **MOVING, **SCHEDULING, **DESCRIBING, **STORAGE, **COMPILING,
}  # fmt: skip


def install(ffi: Any, lib: Any) -> Session:
    """Makes this process' interpreter answer the library's functions."""
    session = Session(ffi, lib)
    # The library may be older than we are: what it has counts, and not what it would have today.
    declared = set(dir(lib))
    for name in sorted(declared & FUNCTIONS.keys()):
        ffi.def_extern(name=name)(guarded(session, name, _with(session, FUNCTIONS[name])))
    for name, phase, suffix in (
        ("npusim_first_phase", FirstPhase, "GetWorkspaceSize"),
        ("npusim_second_phase", SecondPhase, ""),
    ):
        ffi.def_extern(name=name)(_of_operators(session, phase, suffix))
    if "npusim_kernel_launch" in declared:
        launch_entry = guarded(session, "npusim_kernel_launch", _with(session, launch))
        ffi.def_extern(name="npusim_kernel_launch")(launch_entry)
        ffi.def_extern(name="npusim_chip")(_with(session, chip))
        tiling = guarded(session, "npusim_matmul_tiling", _with(session, matmul_tiling))
        ffi.def_extern(name="npusim_matmul_tiling")(tiling)
    return session


def guarded(session: Session, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its failures as return codes; a pointer that fails is null."""
    gives_pointer = name.startswith(("aclCreate", "aclrtGetSocName", "aclGetRecentErrMsg"))

    def answer(*values: Any) -> Any:
        with session.lock:
            try:
                given = function(*values)
            except Exception as problem:  # noqa: BLE001 - nothing may pass into the program
                status = status_of(problem, is_aclnn=name.startswith("aclnn"))
                session.report(name, status)
                return 0 if gives_pointer else returned(status)
            return 0 if given is None else given

    return answer


def _of_operators(
    session: Session, phase: Callable[[Session, str], Callable[..., Any]], suffix: str
) -> Callable[..., Any]:
    """The entry of one phase of all operators, which are told apart by their names."""

    @cache
    def function(op: str) -> Callable[..., Any]:
        return guarded(session, f"{op}{suffix}", phase(session, op))

    def answer(op: Any, *values: Any) -> Any:
        return function(session.ffi.string(op).decode())(*values)

    return answer


def status_of(problem: Exception, *, is_aclnn: bool) -> Status:
    """The status that a failure gives."""
    if isinstance(problem, Refusal):
        return problem.status
    if isinstance(problem, DeviceFault):
        return Status(problem.code, problem.message.partition(": ")[2], problem.remedy)
    if isinstance(problem, WrongHandleError):
        code = StatusCode.ACLNN_ERR_PARAM_INVALID if is_aclnn else _WRONG
        return Status(code, problem.message)
    if isinstance(problem, AddressError):
        return Status(_WRONG, problem.message, problem.remedy)
    if isinstance(problem, MemoryError | HostMemoryError):
        why = getattr(problem, "message", "this computer hasn't the memory that is needed")
        return Status(AclError.ACL_ERROR_RT_MEMORY_ALLOCATION, why)
    code = StatusCode.ACLNN_ERR_INNER if is_aclnn else AclError.ACL_ERROR_INTERNAL_ERROR
    if isinstance(problem, NpusimError):
        return Status(code, problem.message, problem.remedy)
    if os.environ.get(LOG_VARIABLE):
        traceback.print_exception(problem)
    why = f"internal error, please report it: {type(problem).__name__}: {problem}"
    return Status(code, why, f"Set {LOG_VARIABLE}=1 for the traceback.")


_WRONG = AclError.ACL_ERROR_RT_PARAM_INVALID


def _with(session: Session, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        return function(session, *values)

    return call
