"""Return codes of aclnn and acl calls; a status pairs a code with a reason and a remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Verdict(StrEnum):
    """Will it run? `UNKNOWN` where npusim can't tell: a device may run it or refuse it."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """What a command with this answer ends with; 2 is for a question that is put wrongly."""
        return {Verdict.YES: 0, Verdict.NO: 1, Verdict.UNKNOWN: 3}[self]


def best_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The answer of several products: one yes is enough, and one unknown leaves it open."""
    found = set(verdicts)
    return next((each for each in (Verdict.YES, Verdict.UNKNOWN) if each in found), Verdict.NO)


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The answer for all parts of a thing together: one no refuses it, one unknown leaves it open.

    Nothing to judge is a yes.
    """
    found = set(verdicts)
    return next((each for each in (Verdict.NO, Verdict.UNKNOWN) if each in found), Verdict.YES)


class StatusCode(IntEnum):
    """What an aclnn call returns (aclnnStatus).

    Source: hicann/ops-nn docs/zh/context/aclnn_return_code.md; CANN 8.1.RC1
    include/aclnn/opdev/op_errno.h.
    """

    ACLNN_SUCCESS = 0
    ACLNN_ERR_PARAM_NULLPTR = 161001
    ACLNN_ERR_PARAM_INVALID = 161002
    ACLNN_ERR_RUNTIME_ERROR = 361001
    ACLNN_ERR_INNER = 561000
    ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001
    ACLNN_ERR_INNER_TILING_ERROR = 561002
    ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003
    ACLNN_ERR_INNER_CREATE_EXECUTOR = 561101
    ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR = 561102
    ACLNN_ERR_INNER_NULLPTR = 561103
    ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE = 561104
    ACLNN_ERR_INNER_KEY_CONFLICT = 561105
    ACLNN_ERR_INNER_INVALID_IMPL_MODE = 561106
    ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND = 561107
    ACLNN_ERR_INNER_LOAD_JSON_FAILED = 561108
    ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND = 561109
    ACLNN_ERR_INNER_JSON_FORMAT_INVALID = 561110
    ACLNN_ERR_INNER_JSON_DTYPE_INVALID = 561111
    ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND = 561112
    ACLNN_ERR_INNER_OP_FILE_INVALID = 561113
    ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND = 561114
    ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH = 561115
    ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE = 561116
    ACLNN_ERR_INNER_INPUT_JSON_IS_NULL = 561117
    ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID = 561118
    ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID = 561119


class AclError(IntEnum):
    """The acl and runtime codes (aclError) that a simulated call can surface.

    Source: CANN 8.1.RC1 include/acl/acl_base.h and include/acl/error_codes/rt_error_codes.h;
    the codes of compiling at run time (RTC): asc-devkit, docs/zh/api/Utils-API/RTC.
    """

    ACL_SUCCESS = 0
    ACL_ERROR_INVALID_PARAM = 100000
    ACL_ERROR_UNINITIALIZE = 100001
    ACL_ERROR_REPEAT_INITIALIZE = 100002
    ACL_ERROR_REPEAT_FINALIZE = 100037
    ACL_ERROR_RT_PARAM_INVALID = 107000
    ACL_ERROR_RT_INVALID_DEVICEID = 107001
    ACL_ERROR_RT_CONTEXT_NULL = 107002
    ACL_ERROR_RT_STREAM_CONTEXT = 107003
    ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006
    ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL = 107007
    ACL_ERROR_RT_WAIT_TIMEOUT = 107019
    ACL_ERROR_RTC_INVALID_PROG = 176000
    ACL_ERROR_RTC_INVALID_INPUT = 176001
    ACL_ERROR_RTC_INVALID_OPTION = 176002
    ACL_ERROR_RTC_COMPILATION = 176003
    ACL_ERROR_RTC_NO_NAME_EXPR_AFTER_COMPILATION = 176005
    ACL_ERROR_RTC_NO_LOWERED_NAMES_BEFORE_COMPILATION = 176006
    ACL_ERROR_RTC_NAME_EXPR_NOT_VALID = 176007
    ACL_ERROR_BAD_ALLOC = 200000
    ACL_ERROR_INVALID_DEVICE = 200002
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000
    ACL_ERROR_RT_MEMORY_ALLOCATION = 207001
    ACL_ERROR_RT_MEMORY_FREE = 207002
    ACL_ERROR_STORAGE_OVER_LIMIT = 300000
    ACL_ERROR_INTERNAL_ERROR = 500000
    ACL_ERROR_FAILURE = 500001
    ACL_ERROR_RT_FAILURE = 500003
    ACL_ERROR_RT_AICORE_EXCEPTION = 507015
    ACL_ERROR_RT_AICPU_EXCEPTION = 507018
    ACL_ERROR_RT_VECTOR_CORE_EXCEPTION = 507035


# The log code that precedes the text in plog, by first digit (hicann/opbase, operator log macros).
_LOG_CODES = {"1": "EZ1001", "3": "EZ9903", "5": "EZ9999"}


def code_name(code: int | None) -> str:
    """The name of an aclnn or acl code, e.g. ``ACLNN_ERR_PARAM_INVALID``, or ``UNKNOWN``."""
    for family in (StatusCode, AclError):
        if code is not None and code in family._value2member_map_:
            return family(code).name
    return "UNKNOWN"


@dataclass(frozen=True)
class Action:
    """A way out of a refusal that has been tried: who follows it is accepted.

    The same call with these `arguments` in the place of its own, on the chip `soc_version` (empty:
    the one that was asked).
    """

    arguments: Mapping[str, object] = field(default_factory=dict)
    soc_version: str = ""


@dataclass(frozen=True)
class Status:
    """The answer of a call: code, the sentence that says what is wrong, and what to do about it.

    `code` is what the device returns, None where npusim can't tell what that is (`unknown`).
    `actions` are the ways out that the remedy speaks of. `is_modelled` is false where npusim has
    neither numbers nor time for the call, though a device may run it; it is true of an unknown
    where only the product is in doubt. `rules_source` names the
    page or code all of whose rules were asked; it is empty where some of them may not have been.
    """

    code: int | None
    message: str = ""
    remedy: str = ""
    actions: tuple[Action, ...] = field(default=(), compare=False)
    is_modelled: bool = True
    rules_source: str = field(default="", compare=False)

    @classmethod
    def unknown(cls, message: str, remedy: str = "") -> Status:
        """The answer where npusim can't tell: `message` says what isn't known, and why."""
        return cls(None, message, remedy, is_modelled=False)

    @property
    def verdict(self) -> Verdict:
        """Will it run? Everybody who says so, in whatever form, takes it from here."""
        if self.code is None:
            return Verdict.UNKNOWN
        return Verdict.NO if self.code else Verdict.YES

    @property
    def name(self) -> str:
        """The name of the code, as printed in the documents."""
        return code_name(self.code)

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.verdict is Verdict.YES

    @property
    def rules_checked(self) -> bool:
        """True where every rule of the operator's page was asked."""
        return bool(self.rules_source)

    @property
    def log_code(self) -> str:
        """The ``EZ....`` code that CANN logs with it; empty for success and where unknown."""
        return _LOG_CODES.get(str(self.code)[0], "") if self.verdict is Verdict.NO else ""

    @property
    def sentence(self) -> str:
        """``NAME (code): message``, or ``unknown: message`` where there is no code."""
        head = str(self.verdict) if self.code is None else f"{self.name} ({self.code})"
        return f"{head}: {self.message}" if self.message else head

    def render(self) -> str:
        """The sentence and, on a second line, the remedy."""
        return f"{self.sentence}\n{self.remedy}" if self.remedy else self.sentence

    def __str__(self) -> str:
        return self.render()


SUCCESS = Status(int(StatusCode.ACLNN_SUCCESS))
