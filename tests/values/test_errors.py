"""Errors and statuses: one tree, each with a remedy, fit for worker processes."""

from __future__ import annotations

import pickle

import pytest

from npusim.values import errors
from npusim.values.errors import (
    AclnnError,
    AlignmentError,
    BufferOverflowError,
    DeadlockError,
    DeviceFault,
    FileError,
    NpusimError,
    OutputExistsError,
    ProfileError,
    UnknownNameError,
    UnsupportedIntrinsicError,
)
from npusim.values.status import AclError, Status, StatusCode, code_name
from npusim.values.suggest import did_you_mean, near

EXAMPLES = [
    UnknownNameError("chip", "Ascend910B33", ["Ascend910B3", "Ascend910A"]),
    FileError("x.yaml", "not there"),
    ProfileError("x.yaml", "cores.ai_cores", 0, "a positive number"),
    OutputExistsError("out"),
    AclnnError(Status(161002, "reduction should be in [0, 1, 2], but got 3.", "Pass 0, 1 or 2.")),
    BufferOverflowError("GroupNormGrad", "queue x", 300_000, 196_608),
    UnsupportedIntrinsicError("Add", "vadd", "bfloat16", "Ascend910B3", ["float16", "float32"]),
    AlignmentError("Add", "GM offset", 30, 32),
    DeadlockError(core=3, pipe="MTE2"),
    DeviceFault(507035, "vector core exception"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_says_what_to_do_and_survives_a_trip_between_processes(error: NpusimError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    assert error.exit_code in (1, 2, 3)
    assert error.message


def test_usage_exits_2_rejection_1_and_what_isnt_known_3() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.UsageError):
            assert kind.exit_code == 2, name
        elif isinstance(kind, type) and issubclass(kind, errors.RejectedError):
            assert kind.exit_code == (3 if kind is errors.NotModelledError else 1), name


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = {word for word in (errors.__doc__ or "").split() if word.endswith(("Error", "Fault"))}
    defined = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, NpusimError)
    }
    assert drawn == defined


def test_an_unknown_name_comes_with_what_was_meant() -> None:
    error = EXAMPLES[0]
    assert isinstance(error, UnknownNameError)
    assert str(error) == "unknown chip 'Ascend910B33'\nDid you mean Ascend910B3 or Ascend910A?"
    assert UnknownNameError("verb", "zzz", ["run", "check"]).remedy == "Known: run, check."


def test_near_misses_ignore_case_and_find_parts() -> None:
    names = ["aclnnGroupNormBackward", "aclnnBinaryCrossEntropyBackward"]
    assert near("groupnorm", names) == ["aclnnGroupNormBackward"]
    assert near("ACLNNGROUPNORMBACKWARDS", names)[0] == "aclnnGroupNormBackward"
    assert near("zzz", names) == []
    assert near("", names) == []
    assert did_you_mean("zzz", names) == ""


def test_a_status_reads_like_the_log_and_adds_a_remedy() -> None:
    status = Status(161002, "group should be at least 1, but got 0.", "Pass a divisor of C.")
    assert status.render() == (
        "ACLNN_ERR_PARAM_INVALID (161002): group should be at least 1, but got 0.\n"
        "Pass a divisor of C."
    )
    assert (status.ok, status.log_code) == (False, "EZ1001")
    assert Status(0).ok
    assert Status(0).render() == "ACLNN_SUCCESS (0)"
    error = AclnnError(status)
    assert (error.code, error.name, error.ok) == (161002, "ACLNN_ERR_PARAM_INVALID", False)
    assert str(error) == status.render()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (161001, "ACLNN_ERR_PARAM_NULLPTR"),
        (561003, "ACLNN_ERR_INNER_FIND_KERNEL_ERROR"),
        (507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION"),
        (100002, "ACL_ERROR_REPEAT_INITIALIZE"),
        (42, "UNKNOWN"),
    ],
)
def test_codes_have_names(code: int, name: str) -> None:
    assert code_name(code) == name


def test_codes_are_unique_across_both_families_but_for_success() -> None:
    shared = {int(code) for code in StatusCode} & {int(code) for code in AclError}
    assert shared == {0}
