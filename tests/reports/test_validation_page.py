"""reports/validation.md is current, and as accurate as it has to be."""

from __future__ import annotations

import re
import runpy

import pytest

from npusim.hardware import load_profile
from npusim.reporting.validation import rows_csv
from npusim.validation.fitting import CONSTANTS, value_of
from npusim.validation.replay import replay
from npusim.validation.statistics import Accuracy, accuracy, grouped
from npusim.validation.table import read_rows
from support.paths import ROOT

REPORTS = ROOT / "reports"
MADE_BY = "python reports/validation.py"
TABLE = REPORTS / "data" / "measured_ops.csv.gz"
PAGE = (REPORTS / "validation.md").read_text(encoding="utf-8")
SCRIPT = runpy.run_path(str(REPORTS / "validation.py"), run_name="validation_page")


LIMITS = {"910 gen1 (30 cores)": 0.15, "910B1": 0.2, "910B2": 0.3, "910B4": 0.25}  # medians


EVERY = 12  # of the rows is replayed; `python reports/validation.py --check` replays them all


def test_the_page_and_the_accuracy_it_tells() -> None:
    predictions = list(SCRIPT["predicted"]())
    assert_within_limits(accuracy(predictions), 0.15)
    by_chip = grouped(predictions, lambda each: each.row.chip)
    for chip, limit in LIMITS.items():
        assert_better_than_the_roofline(by_chip[chip], limit)
    assert "\n".join(SCRIPT["page"](predictions)) + "\n" == PAGE, f"write anew: {MADE_BY}"


def cells(heading: str) -> dict[str, list[str]]:
    """A table of the page: columns by the first."""
    lines = PAGE.partition(f"## {heading}")[2].partition("![")[0].partition("\n## ")[0]
    table = [line for line in lines.splitlines() if line.startswith("| ")][1:]
    return {name: columns for name, *columns in (line[2:-2].split(" | ") for line in table)}


def test_other_pages_tell_the_accuracy_on_what_came_later() -> None:
    chips = cells("By chip\n")
    everything, later = chips["all"], cells("What came later")["all"]
    _, modelled, median, p90, _, _, in_band, roofline = later
    readme = (REPORTS.parent / "README.md").read_text(encoding="utf-8")
    assert f"{int(everything[1]):,} published kernel times" in readme
    assert f"{int(modelled):,} kernels of networks and sources that came later" in readme
    assert f"the median error is {median} (a roofline's {roofline})" in readme
    assert f"{in_band} lie in their band" in readme
    chinese = (REPORTS.parent / "README.zh.md").read_text(encoding="utf-8")
    assert f"{int(modelled):,} 条" in chinese
    assert f"{median}\uff08Roofline 为 {roofline}\uff09" in chinese
    certainty = (REPORTS.parent / "docs/explanation/certainty.md").read_text(encoding="utf-8")
    said = " ".join(certainty.split())
    assert f"the median error is {median}, where a roofline's is {roofline};" in said
    assert f"one in ten is off by more than {p90}." in said
    assert f"Over all {int(everything[1]):,} it is {everything[2]}." in said
    models = (REPORTS / "models.md").read_text(encoding="utf-8")
    rates = re.search(r"median error \| ([\d.]+)%", models)
    assert rates
    assert f"[{float(rates[1]):.0f} % median error]" in said


def test_what_is_recorded_is_what_is_simulated() -> None:
    recorded = SCRIPT["recorded"]().splitlines()[1:]
    for found in replay(list(read_rows(TABLE))[::EVERY]):
        line = found.row.line - 2  # below the header, and lines count from one
        assert rows_csv([found]).splitlines()[1] == recorded[line], f"write anew: {MADE_BY}"


def assert_within_limits(found: Accuracy, median: float) -> None:
    assert found.modelled >= 0.7 * found.rows
    assert (found.median_abs_error or 1) <= median
    assert (found.p90_abs_error or 1) <= 0.6
    assert (found.rank_correlation or 0) >= 0.97
    assert 0.72 <= (found.in_band or 0) <= 0.88


def assert_better_than_the_roofline(found: Accuracy, median: float) -> None:
    assert (found.median_abs_error or 1) <= min(median, found.roofline_median_abs_error or 0)


def test_every_fitted_constant_is_on_the_page_with_its_meaning() -> None:
    for each in CONSTANTS:
        assert f"| `{each.key}` | {each.meaning} |" in PAGE
    # Far fewer constants than chips times families.
    assert len(CONSTANTS) < 25


@pytest.mark.parametrize("soc", ["Ascend910B", "Ascend910B1", "Ascend910B4"])
def test_fitted_constants_say_on_what(soc: str) -> None:
    profile = load_profile(soc)
    known = [profile.provenance_of(each.key) for each in CONSTANTS if value_of(profile, each.key)]
    fitted = [each for each in known if each.confidence == "fitted"]
    assert len(fitted) >= 8
    for each in fitted:
        assert " rows of " in each.notes
