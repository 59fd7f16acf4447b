"""Dtypes: every spelling that people use leads to one interned value."""

from __future__ import annotations

import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from npusim.values import dtypes
from npusim.values.dtypes import DTYPES, DType, dtype, from_acl
from npusim.values.errors import DTypeError


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        (
            "FLOAT DT_FLOAT DT_FP32 ACL_FLOAT float32 fp32 f32 torch.float32 np.float32",
            dtypes.FLOAT,
        ),
        ("FLOAT16 DT_FLOAT16 ACL_FLOAT16 float16 fp16 f16 half torch.half", dtypes.FLOAT16),
        ("BFLOAT16 DT_BFLOAT16 DT_BF16 ACL_BF16 bfloat16 bf16 ml_dtypes.bfloat16", dtypes.BFLOAT16),
        ("DOUBLE DT_DOUBLE float64 fp64 torch.double", dtypes.DOUBLE),
        ("INT64 DT_INT64 aclDataType::ACL_INT64 int64 s64 torch.long", dtypes.INT64),
        ("UINT8 DT_UINT8 u8 torch.uint8", dtypes.UINT8),
        ("BOOL DT_BOOL bool np.bool_ torch.bool", dtypes.BOOL),
        ("COMPLEX32 c32 torch.chalf", dtypes.COMPLEX32),
        ("FLOAT8_E4M3FN float8_e4m3fn e4m3 fp8_e4m3", dtypes.FLOAT8_E4M3FN),
        ("HIFLOAT8 hif8", dtypes.HIFLOAT8),
    ],
)
def test_every_layer_s_spelling_is_understood(spellings: str, expected: DType) -> None:
    for spelling in spellings.split():
        assert dtype(spelling) is expected
        assert dtype(f" {spelling.upper()} ") is expected


@pytest.mark.parametrize("each", DTYPES, ids=str)
def test_a_dtype_is_one_object_under_all_its_names(each: DType) -> None:
    assert dtype(each) is dtype(each.name) is dtype(each.dt) is dtype(each.intrinsic) is each
    assert from_acl(each.acl) is each
    assert pickle.loads(pickle.dumps(each)) is each  # noqa: S301 - our own bytes
    if each.numpy is not None:
        assert dtype(each.numpy) is dtype(each.numpy.type) is each


def test_the_numbers_are_those_of_acl_data_type() -> None:
    numbers = {each.name: each.acl for each in DTYPES}
    assert len(set(numbers.values())) == len(numbers)
    known = {
        "FLOAT": 0,
        "FLOAT16": 1,
        "INT32": 3,
        "INT64": 9,
        "BOOL": 12,
        "BFLOAT16": 27,
        "COMPLEX32": 33,
    }
    assert {name: numbers[name] for name in known} == known


def test_numpy_s_own_dtypes_have_the_width_and_kind_that_numpy_gives_them() -> None:
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex"}
    native = [each for each in DTYPES if each.numpy is not None and each.numpy.kind in kinds]
    assert len(native) > 10
    for each in native:
        assert each.numpy is not None
        assert (each.itemsize, each.category) == (each.numpy.itemsize, kinds[each.numpy.kind])


def test_bfloat16_is_a_float_although_numpy_calls_it_void() -> None:
    assert np.dtype(ml_dtypes.bfloat16).kind == "V"
    assert dtype(ml_dtypes.bfloat16).is_float
    assert dtypes.BFLOAT16.numpy == np.dtype(ml_dtypes.bfloat16)


def test_small_elements_are_packed() -> None:
    assert dtypes.INT4.itemsize == 1
    assert dtypes.INT4.nbytes(7) == 4
    assert dtypes.UINT1.nbytes(9) == 2
    assert dtypes.FLOAT.nbytes(3) == 12


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("bloat16", "Did you mean bfloat16"),
        ("BF17", "bf16"),
        ("i8", ""),  # one byte to some, eight to others
        (float, "float32"),
        (int, "int32"),
        (None, "NoneType"),
        (3, "type int"),
        (object(), "type object"),
        (np.dtype(">f4"), "newbyteorder"),
        (np.dtype("V2"), "view(ml_dtypes.bfloat16)"),
        (np.dtype("U3"), "astype"),
    ],
)
def test_what_is_no_dtype_is_refused_with_a_hint(value: object, says: str) -> None:
    with pytest.raises(DTypeError) as caught:
        dtype(value)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_unknown_number_is_refused() -> None:
    with pytest.raises(DTypeError, match="aclDataType 5"):
        from_acl(5)


def test_naming_dtypes_needs_neither_numpy_nor_ml_dtypes() -> None:
    code = (
        "import sys; from npusim.values import tensors, promotion, status, formats;"
        "assert tensors.parse_tensor('bf16[2]').nbytes == 4;"
        "sys.exit('numpy' in sys.modules or 'ml_dtypes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
