"""NaN, infinities, subnormal and huge numbers: what the language and the page say of them."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from support.chips import A2
from support.paths import ROOT

HALF_MAX, FLOAT_MAX = 65504.0, np.finfo(np.float32).max
CHIPS = ("Ascend910A", "Ascend310P3", "Ascend910B3")
SPECIAL = np.float32([np.nan, np.inf, -np.inf, 1e-40, -0.0, 3e38, -3e38, 1.5, -1.5])

pytestmark = pytest.mark.filterwarnings("error")


def run(chip: str, op: str, **arguments: object) -> np.ndarray[Any, Any]:
    outputs = Device(chip).run(op, **arguments).outputs
    assert outputs is not None
    return next(iter(outputs.values()))


def test_the_page_of_numbers_is_what_runs_give() -> None:
    made = runpy.run_path(str(ROOT / "reports" / "numerics.py"))["page"]()
    assert made == (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("chip", "want"),
    [("Ascend910A", HALF_MAX), ("Ascend310P3", HALF_MAX), ("Ascend910B3", np.inf)],
)
def test_a_result_that_is_too_large(chip: str, want: float) -> None:
    """Source: the example of INF_NAN_MODE_ENABLE, e ** 12 in float16."""
    assert run(chip, "Exp", x=np.float16([12, 1]))[0] == want
    large = np.float16([[600, 600]])
    assert run(chip, "MatMulV3", x1=large, x2=large.T)[0, 0] == want  # 720,000, leaving the cube


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum"]),
    st.lists(st.sampled_from(SPECIAL.tolist()), min_size=2, max_size=2),
)
def test_a_saturating_chip_leaves_what_ieee_754_would_leave_cut_off(
    op: str, pair: list[float]
) -> None:
    """One instruction each: infinities are the largest number, NaN is 0; nothing else differs."""
    x1, x2 = (np.float32([number]) for number in pair)
    ieee, cut = (run(chip, op, x1=x1, x2=x2) for chip in ("Ascend910B3", "Ascend910A"))
    np.testing.assert_array_equal(cut, np.nan_to_num(ieee))


def test_what_is_only_moved_stays() -> None:
    for chip in ("Ascend910A", "Ascend910B3"):
        moved = run(chip, "TensorMove", x=SPECIAL)
        np.testing.assert_array_equal(moved.view(np.uint32), SPECIAL.view(np.uint32))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", *A2[:1]])
def test_equal_infinities_are_equal(chip: str) -> None:
    infinite = np.float32([np.inf, -np.inf])
    assert run(chip, "Equal", x1=infinite, x2=infinite).all()
    assert not run(chip, "NotEqual", x1=infinite, x2=infinite).any()


def test_integers_end_where_their_range_does() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 3e9, -3e9, 2147483520.0])
    want = [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2147483520]
    for chip in ("Ascend910A", "Ascend910B3"):
        assert run(chip, "Cast", x=x, dst_type=3).tolist() == want


_PRODUCTS = """
import numpy as np, npusim
a = np.random.default_rng(1).standard_normal((700, 520)).astype(np.float16)
for chip in ("910A", "910B3"):
    result = npusim.Device(chip).run("MatMulV3", x1=a, x2=a[:520].T.copy())
    print(next(iter(result.outputs.values())).tobytes().hex())
"""


def test_products_are_the_same_bits_whatever_the_threads_of_blas() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", _PRODUCTS],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2", "7")
    }
    assert len(said) == 1
    assert len(said.pop()) > 1000


def test_zeros_with_signs_infinities_and_nan_of_an_arc() -> None:
    """Mended afterwards where the chip has infinities and NaN; source: impl/dynamic/atan2.py."""
    y = np.float32([0, -0.0, 0, -0.0, 0, -0.0, 1, -1, 1, -1, np.inf, -np.inf, np.inf, np.nan, 1])
    x = np.float32(
        [1, 1, -1, -1, -0.0, -0.0, 0, -0.0, np.inf, np.inf, np.inf, -np.inf, 3, 1, np.nan]
    )
    found = run("Ascend910B3", "Atan2", x1=y, x2=x)
    np.testing.assert_allclose(found, np.arctan2(y, x), atol=1e-6)
    np.testing.assert_array_equal(np.signbit(found[:13]), np.signbit(np.arctan2(y, x)[:13]))
    older = run("Ascend910A", "Atan2", x1=y[:6], x2=x[:6])
    np.testing.assert_allclose(older, np.float32([0, 0, np.pi, np.pi, np.pi / 2, np.pi / 2]))


@pytest.mark.parametrize(("chip", "nan"), [("Ascend910B3", np.nan), ("Ascend310P3", 0.0)])
def test_what_a_comparison_puts_in_the_place_of_nan(chip: str, nan: float) -> None:
    x = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.4, -2])
    np.testing.assert_array_equal(run(chip, "HardShrink", input_x=x), [nan, *x[1:3], 0, 0, -2])
    kept = run(chip, "Threshold", x=x, threshold=0.25, value=7.0)
    np.testing.assert_array_equal(kept, np.float32([np.nan, np.inf, 7, 7, 0.4, 7]))
    slope = run(chip, "LeakyRelu", x=x[1:], negative_slope=0.0)
    largest = np.inf if np.isnan(nan) else FLOAT_MAX
    np.testing.assert_array_equal(slope, np.float32([largest, nan, 0, 0.4, 0]))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integers_of_eight_bits_wrap_around(chip: str, kind: type[np.generic]) -> None:
    every = np.arange(256, dtype=np.uint8).astype(kind)
    a, b = np.meshgrid(every, every)
    for op, want in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)):
        np.testing.assert_array_equal(run(chip, op, x1=a, x2=b), want(a, b))


@pytest.mark.parametrize("chip", CHIPS)
def test_tanh_is_as_near_as_its_formulas(chip: str) -> None:
    x = np.linspace(-12, 12, 20_001, dtype=np.float32)
    off = np.abs(run(chip, "Tanh", x=x) - np.tanh(x.astype(np.float64)))
    assert off.max() < 1.5e-7
    near = np.float32([1e-3, -1e-3, 1e-6, -0.0])
    found = run(chip, "Tanh", x=near)
    np.testing.assert_allclose(found, np.tanh(near), rtol=0, atol=1e-7)
    if chip == "Ascend910B3":
        np.testing.assert_allclose(found, np.tanh(near), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "kind", "tasks"),
    [
        ("aclnnAdd", np.float32, ["Axpy"]),
        ("aclnnAdd", np.int32, ["Axpy"]),
        ("aclnnSub", np.float16, ["Axpy"]),
        ("aclnnSub", np.int32, ["Mul", "Sub"]),
        ("aclnnRsub", np.float32, ["Mul", "Sub"]),
    ],
)
def test_a_factor_is_multiplied_by_the_task_that_the_host_chooses(
    op: str, kind: type[np.generic], tasks: list[str]
) -> None:
    x, y = np.arange(4).astype(kind), np.arange(4)[::-1].astype(kind)
    result = Device("Ascend910B3").run(op, self=x, other=y, alpha=3)
    want = {"aclnnAdd": x + 3 * y, "aclnnSub": x - 3 * y, "aclnnRsub": y - 3 * x}[op]
    assert [task.name for task in result.tasks] == tasks
    np.testing.assert_array_equal(result.outputs["out"], want)


def test_a_sort_of_halves_says_so() -> None:
    x = np.float32([2.8670993, 1.0, 2.8670])
    call = {"self": x, "dim": 0, "descending": True, "stable": True}
    older, newer = (Device(chip).run("aclnnSort", **call) for chip in ("Ascend910A", "Ascend910B3"))
    np.testing.assert_array_equal(older.outputs["valuesOut"], np.float32([2.8671875, 2.8671875, 1]))
    np.testing.assert_array_equal(newer.outputs["valuesOut"], np.sort(x)[::-1])
    assert "float32 as float16" in older.assumptions[0]
    assert not newer.assumptions
