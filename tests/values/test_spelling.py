"""The spelling of names and values: one reader for the command line, sweeps and model files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.values.dtypes import DTYPES
from npusim.values.errors import ArgumentError
from npusim.values.formats import Format
from npusim.values.spelling import guessed, is_null, is_tensor, names_in, tensor_text, value_of
from npusim.values.tensors import TensorSpec, parse_tensor

SPECS = st.builds(
    TensorSpec,
    st.lists(st.integers(0, 99), max_size=4),
    st.sampled_from(sorted(DTYPES, key=str)),
    st.sampled_from(list(Format)),
)


@given(SPECS)
def test_a_tensor_is_read_as_it_was_written(spec: TensorSpec) -> None:
    assert is_tensor(tensor_text(spec))
    assert parse_tensor(tensor_text(spec)) == spec
    assert value_of("x", "tensor", tensor_text(spec)) == spec


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int_array", "1,2, 3", [1, 2, 3]),
        ("int_array", "[1]", [1]),
        ("int_array", "[]", []),
        ("int_array", ["1", 2], [1, 2]),
        ("bool_array", "[true,False,yes]", [True, False, True]),
        ("int64", " -3 ", -3),
        ("double", "1e-5", 1e-5),
        ("float", "inf", float("inf")),
        ("bool", "no", False),
        ("text", "none", "none"),
        ("tensor", "NULL", None),
        ("int64", 3, 3),
    ],
)
def test_text_becomes_what_the_parameter_takes(kind: str, text: object, value: Any) -> None:
    assert value_of("p", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("int_array", "1,x", "p=1,x is not a list of whole numbers"),
        ("int64", "1.5", "p=1.5 is not a whole number"),
        ("bool", "maybe", "p=maybe is not a boolean"),
        ("tensor", "3", "p=3 is not a tensor"),
        ("tensor", "fp16[-1]", "can't read"),
    ],
)
def test_other_text_is_refused_with_the_name(kind: str, text: str, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint) as caught:
        value_of("p", kind, text)
    assert caught.value.remedy


def test_text_of_an_unknown_kind_is_guessed() -> None:
    words = ["3", "1e-5", "true", "[1,2]", "[3]", "[]", "1,x", "mean", 7]
    assert [guessed(word) for word in words] == [
        3,
        1e-5,
        True,
        [1, 2],
        [3],
        [],
        [1, "x"],
        "mean",
        7,
    ]


def test_null_has_three_names_and_is_no_tensor() -> None:
    assert all(is_null(word) for word in (None, "null", "None", "nullptr"))
    assert not any(is_null(word) for word in ("", "0", 0, "fp16[2]"))
    assert not is_tensor("null")


def test_a_list_of_chips_may_hold_commas_and_all() -> None:
    assert names_in(["a, b", "ALL", "c"], lambda: ["b", "d"]) == ["a", "b", "d", "c"]
