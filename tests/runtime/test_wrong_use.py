"""Wrong use of the Python API: one clear message with what to do, and nothing half-written."""

from __future__ import annotations

import traceback
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import (
    AclnnError,
    Device,
    DeviceFault,
    NpusimError,
    TensorSpec,
    kernel,
    load_profile,
    plan,
    recommend,
)
from npusim.hardware import register_profile, relative_uncertainty, unregister_profile
from npusim.operators import Aclnn, Operator, family, real, register, unregister
from npusim.values.errors import (
    ArgumentError,
    BufferOverflowError,
    FileError,
    NotModelledError,
    ProfileError,
    UnknownNameError,
    UsageError,
)
from support import physics
from support.cross_entropy import CROSS_ENTROPY, cross_entropy
from support.group_norm import GROUP_NORM, group_norm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BCE, NORM = cross_entropy(4, 6), group_norm(2, 8, 16, 4)


def refused(kind: type[NpusimError], act: Callable[[], object]) -> Any:
    """The error that ``act`` raises: of our tree, and short."""
    with pytest.raises(kind) as caught:
        act()
    error = caught.value
    assert isinstance(error, NpusimError)
    assert error.exit_code in (1, 2, 3)
    unknown = 3 if isinstance(error, NotModelledError) else 1
    assert error.exit_code == (2 if isinstance(error, UsageError) else unknown)
    assert len(str(error).splitlines()) <= 2
    assert "Traceback" not in str(error)
    for text in (error.message, error.remedy):
        assert text == text.strip()
    return error


def code_of(chip: str, op: str, **arguments: Any) -> tuple[int | None, AclnnError]:
    """The return code of a run that is refused; check and estimate say the same."""
    error = refused(AclnnError, lambda: Device(chip).run(op, **arguments))
    status = Device(chip).check(op, **arguments)
    again = refused(AclnnError, lambda: Device(chip).estimate(op, **arguments))
    assert error.status == status == again.status
    assert ("unknown: " if error.code is None else f"({error.code})") in str(error)
    assert error.remedy
    return error.code, error


# -- what the operator refuses ---------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910ProB", "Ascend310P1", "Ascend310P3"])
def test_bfloat16_where_there_is_none(chip: str) -> None:
    for op, arguments in (
        (CROSS_ENTROPY, cross_entropy(4, kind="bfloat16")),
        (GROUP_NORM, group_norm(2, 4, 8, 2, kind="bfloat16")),
    ):
        code, error = code_of(chip, op, **arguments)
        assert code == 161002
        assert "BFLOAT16" in error.message
        assert chip in error.message
        # A remedy is one that helps: 310P lacks the second operator in every dtype.
        half_helps = not (chip.startswith("Ascend310P") and op == GROUP_NORM)
        assert ("BF16" if half_helps else "This") + " needs an Atlas A2 product" in error.remedy
        assert ("cast to FLOAT16" in error.remedy) is half_helps


def test_an_operator_that_the_product_lacks() -> None:
    code, error = code_of("Ascend310P3", GROUP_NORM, **NORM)
    assert (code, error.name) == (561003, "ACLNN_ERR_INNER_FIND_KERNEL_ERROR")
    assert "Atlas A2 product" in error.remedy


def test_parameters_are_judged_before_a_missing_kernel() -> None:
    assert code_of("Ascend310P3", GROUP_NORM, **NORM | {"group": 3})[0] == 161002


REJECTED = {
    "rank": (CROSS_ENTROPY, cross_entropy(*[1] * 9), 161002, "8 dimensions"),
    "null input": (CROSS_ENTROPY, BCE | {"target": None}, 161001, "argument target"),
    "null mask": (GROUP_NORM, NORM | {"outputMask": None}, 161001, "outputMask"),
    "null output": (GROUP_NORM, NORM | {"gradBetaOut": None}, 161001, "gradBetaOut"),
    "reduction": (CROSS_ENTROPY, BCE | {"reduction": 3}, 161002, "[0, 1, 2], but got 3"),
    "double": (CROSS_ENTROPY, BCE | {"self": np.zeros((4, 6))}, 161002, "DT_DOUBLE"),
    "shape": (CROSS_ENTROPY, BCE | {"target": np.zeros(5, np.float32)}, 161002, "[5]"),
    "output shape": (CROSS_ENTROPY, BCE | {"out": np.zeros(5, np.float32)}, 161002, "[5]"),
    "group": (GROUP_NORM, NORM | {"group": 3}, 161002, "divisible by group"),
    "no group": (GROUP_NORM, NORM | {"group": 0}, 161002, "at least 1, but got 0"),
    "count": (GROUP_NORM, NORM | {"HxW": 17}, 161002, "N*C*HxW = 272"),
    "mask length": (GROUP_NORM, NORM | {"outputMask": [True]}, 161002, "3 entries, but got 1"),
    "mixed": (GROUP_NORM, NORM | {"mean": NORM["mean"].astype(np.float16)}, 161002, "same dtype"),
}


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend910B3"])
@pytest.mark.parametrize("case", REJECTED.values(), ids=REJECTED)
def test_what_the_checks_reject(case: tuple[str, dict[str, Any], int, str], chip: str) -> None:
    op, arguments, wanted, words = case
    code, error = code_of(chip, op, **arguments)
    assert code == wanted
    assert words in error.message


def test_a_scale_that_is_no_number() -> None:
    box = {
        "gradOutput": TensorSpec((1, 1, 2, 2), "float32", format="NCHW"),
        "boxes": TensorSpec((1, 5), "float32"),
        "inputShape": [1, 1, 4, 4],
        "pooledHeight": 2,
        "pooledWidth": 2,
        "samplingRatio": 2,
        "aligned": False,
    }
    for scale in (float("nan"), 0.0, -1.0):
        status = Device("Ascend910B3").check("aclnnRoiAlignV2Backward", **box, spatialScale=scale)
        assert status.code == 161002
        assert f"but got {scale}" in status.message
        assert "npusim ops show aclnnRoiAlignV2Backward" in status.remedy


def test_whole_numbers_are_whole() -> None:
    for value in (float("nan"), 1.5, "mean", None, np.zeros(2)):
        error = refused(
            ArgumentError,
            lambda value=value: Device("910b3").check(CROSS_ENTROPY, **BCE | {"reduction": value}),
        )
        assert "reduction" in error.message
        assert "Give a whole number." in error.remedy


# -- questions put wrongly -------------------------------------------------------------------------


PLACES = {"x0": TensorSpec((3, 128, 3), "int64"), "y0": TensorSpec((3, 3), "int32")}
WINDOWS = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}
NO_CALL: dict[str, tuple[str, dict[str, Any], int | None]] = {
    "places of other rows": ("ArgMaxV2", PLACES, 561002),
    "whole numbers in windows": (
        "MaxPool",
        {"x": TensorSpec((1, 2, 9, 9, 16), "int64"), "y": TensorSpec((1, 2, 4, 4, 16), "int64")},
        None,
    ),
    "fewer lanes than the image": (
        "AvgPool",
        {"x": TensorSpec((3, 2, 17, 9, 16), "fp16"), "y": TensorSpec((3, 2, 9, 5, 8), "fp16")},
        561002,
    ),
    "heads of no elements": (
        "FlashAttentionScore",
        {**{name: TensorSpec((1, 3, 8, 0), "fp16") for name in ("query", "key", "value")},
         "scale_value": 0.2, "head_num": 3, "input_layout": "BNSD"},
        161002,
    ),
    "a reduction that isn't one": (
        "aclnnScatter",
        {"self": TensorSpec((6, 4), "fp32"), "index": TensorSpec((6, 4), "int64"),
         "src": TensorSpec((6, 4), "fp32"), "dim": 1, "reduce": 7},
        161002,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_CALL.values(), ids=NO_CALL)
def test_what_no_kernel_computes_is_refused_before_it_runs(
    case: tuple[str, dict[str, Any], int | None],
) -> None:
    op, given, code = case
    given |= WINDOWS if op.endswith("Pool") else {}
    arrays = {
        name: np.zeros(each.shape, each.dtype.numpy) if isinstance(each, TensorSpec) else each
        for name, each in given.items()
    }
    assert code_of("Ascend910B3", op, **arrays)[0] == code


def test_a_matrix_without_a_result_stops_the_ai_cpu() -> None:
    for op in ("Cholesky", "MatrixInverse"):
        assert Device("Ascend910B3").check(op, x=np.ones((2, 3, 3), np.float32)).ok
        fault = refused(
            DeviceFault, lambda op=op: Device("Ascend910B3").run(op, x=np.ones((2, 3, 3), "f4"))
        )
        assert fault.code == 507018
        assert op in str(fault)


class _Folder(PathLike[Any]):
    """A path that may be of bytes."""

    def __init__(self, path: Any) -> None:
        self._path = path

    def __fspath__(self) -> Any:
        return self._path


def _deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(5000):
        found = [found]
    return found


MISUSED: list[Callable[[], object]] = [
    lambda: register_profile(3),  # type: ignore[arg-type]
    lambda: register_profile("x" * 5000 + ".yaml"),
    lambda: register_profile("\ud800.yaml"),
    lambda: unregister_profile(None),  # type: ignore[arg-type]
    lambda: unregister_profile("\ud800.yaml"),
    lambda: load_profile(b"910b3"),  # type: ignore[arg-type]
    lambda: relative_uncertainty("certain"),
    lambda: relative_uncertainty([]),  # type: ignore[arg-type]
    lambda: kernel(3),  # type: ignore[arg-type]
    lambda: kernel(str),  # type: ignore[arg-type]
    lambda: kernel(print, writes=3),  # type: ignore[arg-type]
    lambda: kernel(print, cores="cubes"),  # type: ignore[arg-type]
    lambda: TensorSpec(_deep(), "fp16"),
    lambda: TensorSpec((2,), "fp16", _deep()),
    lambda: plan(_Folder(b"plan.yaml")),  # type: ignore[type-var]
    lambda: real("alpha", np.ones(2)),  # type: ignore[arg-type]
    lambda: family("mine", rows=3),  # type: ignore[arg-type]
    lambda: family("mine", rows=(3,)),  # type: ignore[arg-type]
    lambda: family("mine", checks=3),  # type: ignore[arg-type]
    lambda: register(Operator(None, "x -> y")),  # type: ignore[arg-type]
    lambda: register(Operator("  ", "x -> y")),
    lambda: register(Operator("Mine", 3)),  # type: ignore[arg-type]
    lambda: register(Operator("Mine", "x -> y", ("alpha",))),  # type: ignore[arg-type]
    lambda: register(Operator("Mine", "x -> y", (), Aclnn("aclnnMine", also=3))),  # type: ignore[arg-type]
    lambda: register(Operator("Mine", "x -> y", (), Aclnn("aclnnMine", 3))),  # type: ignore[arg-type]
    lambda: plan("plan.yaml", seed=-1),
    lambda: recommend("m.yaml", rate_per_s=1, limit_ms=1, products=["910b3"] * (2**20 + 1)),
    lambda: TensorSpec(range(10**18), "fp16"),
    lambda: register(Operator("Mine", "x -> y", checks=(("axes_in",),))),
    lambda: register(Operator("Mine", "x -> y", kernel=3)),  # type: ignore[arg-type]
    lambda: unregister(np.ones(2)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(MISUSED)))
def test_a_value_of_another_kind_is_no_traceback(number: int) -> None:
    refused(UsageError, MISUSED[number])
    assert Device("Ascend910B3").check("Add", x1="fp16[4]", x2="fp16[4]").ok  # as before


@pytest.mark.parametrize(
    ("name", "near"), [("Ascend910B9", "Ascend910B"), ("910b33", "910B3"), ("310p4", "310P")]
)
def test_a_chip_that_doesnt_exist(name: str, near: str) -> None:
    error = refused(UnknownNameError, lambda: Device(name))
    assert name in error.message
    assert "Did you mean" in error.remedy
    assert near in error.remedy


def test_an_operator_that_doesnt_exist() -> None:
    error = refused(UnknownNameError, lambda: Device("910b3").run("aclnnGroupNormBackwards"))
    assert "Did you mean aclnnGroupNormBackward" in error.remedy
    error = refused(UnknownNameError, lambda: Device("910b3").check("aclnnFlashAttention9"))
    assert "npusim ops list" in error.remedy


def test_a_parameter_that_is_missing_or_unknown() -> None:
    without = {name: value for name, value in BCE.items() if name != "target"}
    error = refused(ArgumentError, lambda: Device("910b3").run(CROSS_ENTROPY, **without))
    assert "target is missing" in error.message
    assert "null pointer" in error.remedy
    error = refused(
        UnknownNameError, lambda: Device("910b3").run(CROSS_ENTROPY, **without, targets=1)
    )
    assert "Did you mean target?" in error.remedy


@pytest.mark.parametrize("value", [[1, 2], 3.0, "float33[2]", "fp32[2", object()])
def test_a_tensor_that_is_none(value: object) -> None:
    error = refused(
        ArgumentError, lambda: Device("910b3").check(CROSS_ENTROPY, **BCE | {"target": value})
    )
    assert "target" in error.message


# -- profiles --------------------------------------------------------------------------------------

OWN = "{source: own_statement, confidence: assumed}"


def profile_file(folder: Path, text: str) -> str:
    path = folder / "my_chip.yaml"
    path.write_text(f"inherits: Ascend910B3\nname: Mine\n{text}", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("clocks: {cube_mhz: -900, provenance: {cube_mhz: %s}}", "clocks.cube_mhz", -900),
        ("buffers: {ub_bytes: 0, provenance: {ub_bytes: %s}}", "buffers.ub_bytes", 0),
        ("buffers: {ub_bytes: 256, provenance: {ub_bytes: %s}}", "buffers.ub_bytes", 256),
        ("memory: {l2_gbps: .nan, provenance: {l2_gbps: %s}}", "memory.l2_gbps", None),
        ("memory: {l2_gbps: 1.0e-9, provenance: {l2_gbps: %s}}", "memory.l2_gbps", None),
        (
            "launch: {kernel_head_cycles: 1000000000000, provenance: {kernel_head_cycles: %s}}",
            "launch.kernel_head_cycles",
            10**12,
        ),
        ("clocks: {cube_mhz: 1000000, provenance: {cube_mhz: %s}}", "clocks.cube_mhz", 10**6),
        ("vector: {repeat_bytes: 1, provenance: {repeat_bytes: %s}}", "vector.repeat_bytes", 1),
    ],
)
def test_a_profile_with_a_wrong_value(tmp_path: Path, text: str, key: str, value: object) -> None:
    path = profile_file(tmp_path, text % OWN)
    error = refused(ProfileError, lambda: Device(path))
    assert path in error.message
    assert key in error.message
    assert "expected" in error.message
    if value is not None:
        assert str(value) in error.message


def test_a_profile_that_isnt_there_or_no_yaml(tmp_path: Path) -> None:
    error = refused(FileError, lambda: Device(str(tmp_path / "nothing.yaml")))
    assert "nothing.yaml" in error.message
    (tmp_path / "broken.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(FileError, match="is no YAML"):
        Device(str(tmp_path / "broken.yaml"))


# -- kernels on a chip that is too small -----------------------------------------------------------


@pytest.mark.parametrize("nbytes", [256, 1024, 4096])
def test_a_kernel_that_doesnt_fit_says_so(nbytes: int) -> None:
    small = physics.with_ub("Ascend910B3", nbytes)
    arguments = group_norm(3, 400, 30, 2)
    error = refused(AclnnError, lambda: Device(small).run(GROUP_NORM, **arguments))
    assert isinstance(error, NotModelledError)
    assert error.verdict == "unknown"
    too_big = error.__cause__
    assert isinstance(too_big, BufferOverflowError)
    assert too_big.kernel == "GroupNormGrad"
    assert too_big.capacity_bytes == nbytes
    assert too_big.need_bytes > nbytes
    for part in ("kernel GroupNormGrad", "UB", str(too_big.need_bytes), str(nbytes)):
        assert part in error.message
    assert error.remedy


# -- nothing half-written --------------------------------------------------------------------------


def test_outputs_of_refused_calls_stay_as_they_are() -> None:
    out = np.full((4, 6), 7.0, np.float32)
    for chip, changed in (("Ascend910B3", {"reduction": 5}), ("Ascend910A", {"target": None})):
        with pytest.raises(AclnnError):
            Device(chip).run(CROSS_ENTROPY, **BCE | changed, out=out)
    with pytest.raises(AclnnError):
        Device("Ascend310P3").run(GROUP_NORM, **NORM, gradInput=out)
    assert (out == 7.0).all()


def test_inputs_are_never_written() -> None:
    for op, arguments in ((CROSS_ENTROPY, BCE), (GROUP_NORM, NORM)):
        before = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
        for array in before:
            arguments[array].setflags(write=False)
        Device("Ascend910B3").run(op, **arguments)
        for name, copy in before.items():
            np.testing.assert_array_equal(arguments[name], copy)
            arguments[name].setflags(write=True)


def test_an_error_doesnt_carry_the_machinery_with_it() -> None:
    """No chain of causes from libraries: the message says it all."""
    error = refused(UnknownNameError, lambda: Device("nothing"))
    shown = "".join(traceback.format_exception_only(error))
    assert "unknown chip or product 'nothing'" in shown
    assert error.__cause__ is None


def test_a_call_after_a_refused_one_works() -> None:
    device = Device("Ascend910B3")
    with pytest.raises(AclnnError):
        device.run(CROSS_ENTROPY, **BCE | {"reduction": 9})
    assert device.run(CROSS_ENTROPY, **BCE).outputs is not None
    assert load_profile("Ascend910B3") is device.profile
