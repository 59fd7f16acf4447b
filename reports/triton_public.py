"""Writes reports/triton.md: Triton kernels of public repositories, and what others measured.

python reports/triton_public.py               the page, from what is kept in reports/data
python reports/triton_public.py --run NAME=CHECKOUT/TESTS [--path FOLDER]
                                              runs the first case of every test function below TESTS
                                              (a folder or a file) by npusim exec, and keeps the
                                              counts under NAME; --path is a folder of modules that
                                              they import

Nothing of a checkout is kept but its commit and the counts.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import triton_measured  # noqa: E402

_KEPT = HERE / "data" / "triton_public.csv"
_COLUMNS = ("source", "commit", "run", "right", "not_right")
_SOC = "910b3"
_FILE_SECONDS = 600


def main() -> None:
    """The page, or the counts of one checkout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", metavar="NAME=TESTS", default="")
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    if given.run:
        name, _, place = given.run.partition("=")
        _keep(name, Path(place).absolute(), given.path)
    else:
        (HERE / "triton.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page."""
    rows = "".join(f"| {' | '.join(each.values())} |\n" for each in _rows("triton_public.csv"))
    measured = list(triton_measured.measured())
    reasons = "".join(f"| {' | '.join(each.values())} |\n" for each in _rows("triton_reasons.csv"))
    return (HERE / "data" / "triton_page.md").read_text(encoding="utf-8").format(
        rows=rows, reasons=reasons, times=triton_measured.times(measured),
        sizes=triton_measured.sizes(), answers=triton_measured.answers(measured),
        chip=triton_measured.CHIP,
    )  # fmt: skip


def _rows(name: str) -> list[dict[str, str]]:
    with (HERE / "data" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _keep(name: str, place: Path, modules: Path | None) -> None:
    outcomes: Counter[str] = Counter()
    for file in sorted(place.rglob("test_*.py")) if place.is_dir() else [place]:
        found = _outcomes(file, modules)
        sys.stdout.write(f"{file.name}: {dict(found)}\n")
        outcomes += found
    right = outcomes.pop("right", 0)
    told = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
    commit = subprocess.run(  # noqa: S603
        ("git", "-C", str(place if place.is_dir() else place.parent), "rev-parse", "HEAD"),  # noqa: S607
        capture_output=True, text=True, check=False,
    ).stdout[:9]  # fmt: skip
    row = (name, commit, str(right + outcomes.total()), str(right), told)
    rows = [each for each in _rows(_KEPT.name) if each["source"] != name]
    rows.append(dict(zip(_COLUMNS, row, strict=True)))
    with _KEPT.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _outcomes(file: Path, modules: Path | None) -> Counter[str]:
    """How the first cases of a file end."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        folders = [str(HERE), *([str(modules.absolute())] if modules else [])]
        command = (
            str(Path(sys.executable).with_name("npusim")), "exec", "-s", _SOC, "--", "-m",
            "pytest", str(file), "-q", "-p", "first_cases", f"--junitxml={report}",
        )  # fmt: skip
        try:
            subprocess.run(  # noqa: S603
                command, cwd=file.parent, capture_output=True, check=False, timeout=_FILE_SECONDS,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Counter({"files too slow": 1})
        if not report.is_file():
            return Counter({"files that don't begin": 1})
        cases = ET.parse(report).iter("testcase")  # noqa: S314 - written by pytest, just now
        return Counter(map(_outcome, cases))


def _outcome(case: ET.Element) -> str:
    for tag, what in (("skipped", "skipped"), ("error", "errors"), ("failure", "failed")):
        found = case.find(tag)
        if found is not None:
            slow = "took more than" in (found.get("message") or "")
            return "too slow" if slow else what
    launched = [each.get("value") for each in case.iter("property")]
    return "without a kernel" if launched == ["0"] else "right"


if __name__ == "__main__":
    main()
