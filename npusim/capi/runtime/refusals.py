"""A call that is refused: its return code and the sentences that the program can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.errors import AclnnError, DeviceFault, NpusimError, UsageError
from npusim.values.status import AclError, Status, StatusCode

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile


class Refusal(Exception):  # noqa: N818 - an answer to the program, not an error of ours
    """Ends a C function with a code other than 0."""

    def __init__(self, code: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.status = Status(int(code), message, remedy)


def null_pointer(name: str) -> Refusal:
    """An acl function was given a null pointer for `name`."""
    return Refusal(
        AclError.ACL_ERROR_INVALID_PARAM,
        f"{name} is a null pointer",
        f"Give the address of a variable for {name}.",
    )


def aclnn_refusal(problem: NpusimError) -> Refusal:
    """The answer of a first phase that ended with an error of the tree.

    A C function has to return some code where npusim can't tell what a device would return: that of
    a missing kernel, with a sentence that says whose it is.
    """
    if isinstance(problem, AclnnError):
        status = problem.status
        if status.code is not None:
            return Refusal(status.code, status.message, status.remedy)
        why = f"unknown: npusim can't tell, a device may return another code: {status.message}"
        return Refusal(StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR, why, status.remedy)
    is_usage = isinstance(problem, UsageError)
    code = StatusCode.ACLNN_ERR_PARAM_INVALID if is_usage else StatusCode.ACLNN_ERR_INNER
    return Refusal(code, problem.message, problem.remedy)


def task_fault(problem: NpusimError, profile: Profile) -> DeviceFault:
    """What a synchronise reports of a task that couldn't run."""
    if isinstance(problem, DeviceFault):
        return problem
    return DeviceFault(exception_code(profile), problem.message, problem.remedy)


def exception_code(profile: Profile) -> int:
    """The code of an exception in a kernel: the vector cores have their own where they are apart.

    Source: CANN 8.1.RC1 include/acl/error_codes/rt_error_codes.h.
    """
    if profile.cores.style == "split":
        return AclError.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION
    return AclError.ACL_ERROR_RT_AICORE_EXCEPTION
