"""What may be called calibrated: classes of which enough kernels were measured."""

from __future__ import annotations

import pytest

from npusim.hardware import load_profile, profile_names
from npusim.hardware.residuals import Residuals, Spread, calibration
from npusim.operators.registry import band_class
from npusim.runtime.bands import grounds


def spread(rows: int, cases: int | None = None) -> Spread:
    return Spread(low=(0.9,), high=(1.1,), rows=rows, cases=cases)


@pytest.mark.parametrize(
    ("rows", "cases", "enough"),
    [(1, None, False), (2, None, False), (2, 2, False), (3, None, True), (3, 1, False),
     (40, 1, False), (3, 2, True)],
)  # fmt: skip
def test_three_rows_of_two_cases_calibrate(rows: int, cases: int | None, enough: bool) -> None:
    known = Residuals(everything=spread(99), classes={"x": spread(rows, cases)})
    assert (known.of("x") is not None) == enough
    assert known.of("y") is None


@pytest.mark.parametrize("chip", profile_names())
@pytest.mark.parametrize("op", ["DSARandomNormal", "DSAGenBitMask", "LayerNorm", "Add", "MatMulV3"])
def test_no_class_of_few_rows_is_called_measured(chip: str, op: str) -> None:
    profile, kind = load_profile(chip), band_class(op)
    known = calibration()
    own = known.chips.get(chip)
    shared = known.architectures.get(profile.architecture)
    rows = max((each.classes[kind].rows for each in (own, shared) if each and kind in each.classes),
               default=0)  # fmt: skip
    if grounds(op, profile) in ("chip", "sister"):
        assert rows >= 3
    elif shared is not None:
        assert rows < 3
