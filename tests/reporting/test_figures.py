"""Figures as files: what they look like alone, and the numbers that they are drawn from."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

import npusim
from npusim.hardware import load_profile
from npusim.reporting.asking import write_figures
from npusim.reporting.call.figures import products_figure, roofline_figure
from npusim.runtime.figures import roof_point
from npusim.values.drawing import SERIES, Drawing, colours_of, draw
from npusim.values.errors import OutputExistsError
from npusim.values.language import speak
from support import commands, kept_pages

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from npusim.runtime.results import Result


def numbers(drawing: Drawing) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(drawing.file("title", "csv").decode())))


def matmul(chip: str) -> Result:
    spec = npusim.TensorSpec((2048, 2048), "float16")
    return npusim.Device(chip).estimate("MatMulV3", x1=spec, x2=spec)


def test_the_numbers_of_a_figure_are_those_it_is_drawn_from() -> None:
    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set(xlabel="load in requests/s", ylabel="latency in ms")
        axes.plot([1, 2], [3.5, 4.25], label="A2")
        axes.axhline(9.0)  # guides the eye
        axes.stairs([5.0, 6.0], [0, 1, 2], baseline=None, label="steps")

    assert numbers(draw("f", paint)) == [
        {"panel": "latency in ms", "series": series, "load in requests/s": across,
         "load in requests/s to": to, "latency in ms": up}
        for series, across, to, up in (
            ("A2", "1", "", "3.5"), ("A2", "2", "", "4.25"),
            ("steps", "0", "1", "5"), ("steps", "1", "2", "6"),
        )
    ]  # fmt: skip


def test_bars_are_told_by_the_names_of_their_rows() -> None:
    results = [matmul(chip) for chip in ("910b3", "310p3")]
    rows = numbers(products_figure(results).drawing)
    bars = {row["up"]: float(row[next(key for key in row if key.endswith(" to"))])
            for row in rows if row["series"] == ""}  # fmt: skip
    assert bars == pytest.approx({each.soc: each.duration_us for each in results}, rel=1e-4)


def test_a_roofline_has_units_and_its_points_lie_below_the_roofs() -> None:
    points = [point for chip in ("910b3", "910a") if (point := roof_point(matmul(chip).timeline))]
    chip, other = (load_profile(each) for each in ("Ascend910B3", "Ascend910A"))
    for point, profile in zip(points, (chip, other), strict=True):
        peak = profile.cube_peak_tops("float16")
        assert point.ceilings == {"cube float16": peak}
        assert 0 < point.tops <= peak
        # Two for each multiply-add, on what comes from HBM: at least both inputs.
        most = 2 * 2048**3 / (2 * 2 * 2048**2)
        assert point.work_per_byte["HBM"] <= most * (1 + 1e-9)
        assert point.tops <= point.work_per_byte["HBM"] * profile.memory.hbm_nominal_gbps / 1e3
    colours = colours_of(["A2", "910"])
    assert colours == {"A2": SERIES[0], "910": SERIES[1]}
    svg = roofline_figure(points, chip.name, colours).svg
    for word in ("TFLOP/s", "operations on each byte", "cube float16: ", "HBM: ", "L2: "):
        assert word in svg


def test_every_figure_of_a_page_is_written_in_three_forms(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    assert write_figures(kept_pages.of_steps(), folder, force=False) == 2
    names = {path.name for path in folder.iterdir()}
    assert names == {f"{name}.{kind}" for name in ("parts", "operators")
                     for kind in ("svg", "png", "csv")}  # fmt: skip
    svg = (folder / "parts.svg").read_text()
    assert "Where a step goes" in svg
    assert "var(--" not in svg
    assert "#0a0a0" not in svg  # placeholders
    assert (folder / "parts.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OutputExistsError):
        write_figures(kept_pages.of_steps(), folder, force=False)


def test_figures_speak_chinese_where_letters_can() -> None:
    figure = kept_pages.of_steps().sections[0].blocks[1]
    speak("zh")
    try:
        assert "通信" in figure.drawing.file(figure.label, "svg").decode()  # type: ignore[union-attr]
        png = figure.drawing.file(figure.label, "png")  # type: ignore[union-attr]
    finally:
        speak("en")
    assert png.startswith(b"\x89PNG")


def test_a_report_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "figures"
    line = "report Relu -s 910b3 x=fp16[4096] -o"
    assert commands.npusim(capsys, line, page, "--figures", folder).code == 0
    assert {"pipes.csv", "pipes.png", "timeline.svg"} <= {path.name for path in folder.iterdir()}
    again = commands.npusim(capsys, line, tmp_path / "other.html", "--figures", folder)
    assert again.code != 0
    assert not (tmp_path / "other.html").exists()
