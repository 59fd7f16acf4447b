"""The C headers and the library's functions follow from the contracts and from each other."""

from __future__ import annotations

import dataclasses
import subprocess
import typing
from typing import TYPE_CHECKING

import pytest

from npusim.capi import declarations
from npusim.capi.declarations import (
    C_TYPES,
    arguments_of,
    first_phase,
    header_name,
    headers,
    prototypes,
)
from npusim.capi.runtime.entries import FUNCTIONS
from npusim.operators.contract import Kind, Parameter
from npusim.operators.registry import operator
from npusim.values.dtypes import DTYPES
from npusim.values.formats import Format
from npusim.values.status import AclError, StatusCode
from support.capi import needs_capi

if TYPE_CHECKING:
    from pathlib import Path

# The parameter lists of the operator pages.
PAGES = {
    "aclnnRoiAlignV2Backward": "const aclTensor *gradOutput, const aclTensor *boxes, "
    "const aclIntArray *inputShape, int64_t pooledHeight, int64_t pooledWidth, float spatialScale, "
    "int64_t samplingRatio, bool aligned, aclTensor *gradInput",
    "aclnnUpsampleNearestExact1dBackward": "const aclTensor *gradOutput, "
    "const aclIntArray *outputSize, const aclIntArray *inputSize, double scales, aclTensor *out",
    "aclnnMultiScaleDeformableAttentionGrad": "const aclTensor *value, "
    "const aclTensor *spatialShape, const aclTensor *levelStartIndex, const aclTensor *location, "
    "const aclTensor *attnWeight, const aclTensor *gradOutput, aclTensor *gradValue, "
    "aclTensor *gradLocation, aclTensor *gradAttnWeight",
    "aclnnGroupNormBackward": "const aclTensor *gradOut, const aclTensor *input, "
    "const aclTensor *mean, const aclTensor *rstd, const aclTensor *gamma, int64_t N, int64_t C, "
    "int64_t HxW, int64_t group, const aclBoolArray *outputMask, aclTensor *gradInput, "
    "aclTensor *gradGammaOut, aclTensor *gradBetaOut",
    "aclnnBinaryCrossEntropyBackward": "const aclTensor *gradOutput, const aclTensor *self, "
    "const aclTensor *target, const aclTensor *weightOptional, int64_t reduction, aclTensor *out",
}
FILES = {
    "aclnnRoiAlignV2Backward": "aclnn_roi_align_v2_backward.h",
    "aclnnUpsampleNearestExact1dBackward": "aclnn_upsample_nearest_exact1d_backward.h",
    "aclnnMultiScaleDeformableAttentionGrad": "aclnn_multi_scale_deformable_attention_grad.h",
    "aclnnGroupNormBackward": "aclnn_group_norm_backward.h",
    "aclnnBinaryCrossEntropyBackward": "aclnn_binary_cross_entropy_backward.h",
    "aclnnBatchMatMul": "aclnn_batch_matmul.h",
    "aclnnSomethingNewV2": "aclnn_something_new_v2.h",
}


@pytest.mark.parametrize("op", PAGES)
def test_declarations_are_those_of_the_pages(op: str) -> None:
    tail = "uint64_t *workspaceSize, aclOpExecutor **executor"
    declared = f"aclnnStatus {op}GetWorkspaceSize({PAGES[op]}, {tail});"
    assert first_phase(op) == f"ACL_FUNC_VISIBILITY {declared}"
    assert declared in headers()[f"aclnnop/{FILES[op]}"]


@pytest.mark.parametrize(("op", "file"), FILES.items())
def test_header_files_are_named_as_cann_names_them(op: str, file: str) -> None:
    assert header_name(op) == file


def test_a_new_operator_has_its_functions_without_further_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, how, y = (
        Parameter("x", "tensor"),
        Parameter("how", "double"),
        Parameter("y", "tensor", "out"),
    )
    contract = dataclasses.replace(operator("aclnnMm"), name="aclnnAllNew", parameters=(x, how, y))
    monkeypatch.setattr(declarations, "operator", lambda name: {"aclnnAllNew": contract}[name])
    monkeypatch.setattr(declarations, "operators", lambda: ("aclnnAllNew",))
    monkeypatch.setattr(declarations, "c_operators", declarations.operators)
    texts = headers.__wrapped__()
    arguments_of.cache_clear()
    declared = (
        "ACL_FUNC_VISIBILITY aclnnStatus aclnnAllNewGetWorkspaceSize(const aclTensor *x, "
        "double how, aclTensor *y, uint64_t *workspaceSize, aclOpExecutor **executor);\n"
        "ACL_FUNC_VISIBILITY aclnnStatus aclnnAllNew(void *workspace, uint64_t workspaceSize, "
        "aclOpExecutor *executor, aclrtStream stream);\n"
    )
    assert declared in texts["aclnnop/aclnn_all_new.h"]
    assert texts["aclnnop/level2/aclnn_all_new.h"] == '#include "aclnnop/aclnn_all_new.h"\n'


def test_standard_operators_are_declared_as_in_cann() -> None:
    assert len(declarations.c_operators()) > 70
    texts = headers()
    add = (
        "aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, "
        "const aclScalar *alpha, aclTensor *out,"
    )
    assert add in texts["aclnnop/aclnn_add.h"]
    assert "aclnnAddsGetWorkspaceSize(" in texts["aclnnop/aclnn_add.h"]
    cast = "aclnnCastGetWorkspaceSize(const aclTensor *self, aclDataType dtype, aclTensor *out,"
    assert cast in texts["aclnnop/aclnn_cast.h"]


def test_numbers_are_as_wide_as_in_cann() -> None:
    assert "aclTensor *out, int8_t cubeMathType, uint64_t" in first_phase("aclnnMatmul")


def test_every_kind_of_parameter_has_a_c_type() -> None:
    assert set(typing.get_args(Kind)) <= set(C_TYPES)


def test_every_declared_function_does_something() -> None:
    declared = [each.name for each in prototypes()]
    phases = {name for op in declarations.c_operators() for name in (op, f"{op}GetWorkspaceSize")}
    assert set(declared) == set(FUNCTIONS) | phases
    assert len(declared) == len(set(declared))


def test_prototypes_keep_pointers_and_drop_const() -> None:
    by_name = {each.name: each for each in prototypes()}
    create = by_name["aclCreateTensorList"]
    assert create.returns == "aclTensorList *"
    assert [kind for kind, _ in create.parameters] == ["aclTensor **", "uint64_t"]
    assert by_name["aclFinalize"].parameters == ()


CHECKS = """
#define SAME(name, number) _Static_assert((name) == (number), #name)
{checks}
int use(void) {{ return {codes}; }}
"""


@needs_capi
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [("cc", "c11"), ("c++", "c++11"), ("c++", "c++14"), ("c++", "c++17"), ("c++", "c++20")],
)
def test_the_headers_compile_without_a_warning(
    tmp_path: Path, compiler: str, standard: str
) -> None:
    for name, text in headers().items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    kinds = {("BF16" if each.name == "BFLOAT16" else each.name): each.acl for each in DTYPES}
    checks = [f"SAME(ACL_{name}, {number});" for name, number in kinds.items()]
    checks += [f"SAME(ACL_FORMAT_{each.name}, {each.value});" for each in Format]
    checks += ["SAME(ACL_MEMCPY_DEVICE_TO_HOST, 2);", "SAME(ACL_MEM_MALLOC_HUGE_FIRST, 0);"]
    codes = " + ".join(each.name for family in (AclError, StatusCode) for each in family)
    source = "".join(f'#include "{name}"\n' for name in headers())
    source += CHECKS.format(checks="\n".join(checks), codes=codes)
    if compiler == "c++":
        source = source.replace("_Static_assert", "static_assert")
        source += "aclDataType scoped() { return aclDataType::ACL_FLOAT; }\n"
        source += "std::array<bool, 3> mask;\n"
    file = tmp_path / ("all.c" if compiler == "cc" else "all.cpp")
    file.write_text(source, encoding="utf-8")
    command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run(
        [*command, f"-I{tmp_path}", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
