"""Reports for people: one file that needs nothing, says the answer first, looks right anywhere."""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import lru_cache, partial, update_wrapper
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree as ET

import pytest

import npusim
from npusim.cli.calls import ask_all
from npusim.cli.chips import chips
from npusim.cli.model import timed
from npusim.model.changes import changes
from npusim.model.findings import findings
from npusim.model.judging import judge
from npusim.model.profile_table import read_launches
from npusim.model.reading import read_model
from npusim.model.reasons import Reasons
from npusim.reporting.against import against, estimates_of
from npusim.reporting.call.page import operator_page, what_limits
from npusim.reporting.comparison import comparison_page, judged_page
from npusim.reporting.llm_plan import llm_plan_page
from npusim.reporting.msprof.step import step_tasks
from npusim.reporting.msprof.summary import op_summary
from npusim.reporting.network import network_page
from npusim.reporting.plan.page import plan_page
from npusim.reporting.renderers.html import to_html, to_markdown
from npusim.values.drawing import SERIES, axes_of, draw
from npusim.values.sites import source_line
from support import commands, kept_pages
from support.browser import Browser, axe_path, browser_path
from support.llm_plans import found_llm_plan
from support.paths import ROOT
from support.plans import small_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from npusim.reporting.call.answers import Answer

VOID = {"meta", "link", "br", "hr", "img", "input"}
NORM = (
    "gradOut=fp16[2,8,64] input=fp16[2,8,64] mean=fp16[2,4] rstd=fp16[2,4] gamma=fp16[8] "
    "N=2 C=8 HxW=64 group=4 outputMask=true,true,true"
)
COMMAND = f"npusim report GroupNormBackward -s 910b3 -s 910a -s 310p3 {NORM} -o page.html"


@dataclass(frozen=True)
class Part:
    """A class of operators of a timed step."""

    kind: str
    duration_us: float


@dataclass(frozen=True)
class Step:
    """A timed step, as far as a report looks at it."""

    classes: tuple[Part, ...]
    duration_us: float = 4000.0
    band_us: tuple[float, float] = (3000.0, 6000.0)
    band_basis: str = "matmul kernels measured on Ascend910B3"
    calibrated_share: float = 0.75
    simulated_share: float = 0.95
    assumptions: tuple[str, ...] = ("boxes are spread evenly",)


STEP = Step((Part("matmul", 2500.0), Part("softmax", 1000.0), Part("data movement", 500.0)))
MODELS = {("head", "Ascend910B3"): {1: STEP, 4: STEP}, ("head", "Ascend910A"): {4: STEP}}


FORMS = {"html": to_html, "md": to_markdown}


@lru_cache(maxsize=1)
def answers() -> list[Answer]:
    spec = npusim.TensorSpec
    call: dict[str, Any] = {
        "gradOut": spec((2, 8, 16), "float16"),
        "input": spec((2, 8, 16), "float16"),
        "mean": spec((2, 4), "float16"),
        "rstd": spec((2, 4), "float16"),
        "gamma": spec((8,), "float16"),
        "N": 2,
        "C": 8,
        "HxW": 16,
        "group": 4,
        "outputMask": [True, True, True],
    }
    asked = chips(["910b3", "910a", "310p3"])
    return ask_all(asked, lambda device: device.estimate("aclnnGroupNormBackward", **call))


@lru_cache
def operator_text(form: Any = "html") -> str:
    words = {"gradOut": "FLOAT16 [2, 8, 16]", "group": "4"}
    summary = "Gradients of group normalisation."
    page = operator_page("aclnnGroupNormBackward", summary, words, answers(), COMMAND)
    told = {"answers": [each.as_json() for each in answers()]}
    earlier = json.loads(json.dumps(told))
    for task in earlier["answers"][0]["tasks"]:
        task["duration_us"] *= 2
    earlier["answers"][0]["duration_us"] *= 2
    return FORMS[form](against(page, estimates_of(earlier, "old.json"), told))


@lru_cache
def plan_text(form: Any = "html", **changes: Any) -> str:
    result = replace(small_plan(), **changes) if changes else small_plan()
    page = plan_page(result, MODELS, "npusim plan plan.yaml --html plan.html")  # type: ignore[arg-type]
    return FORMS[form](page)


@lru_cache
def model_text(form: Any = "html") -> str:
    asked = chips(["910b3", "910a", "310p3"])
    results = timed(read_model(ROOT / "examples" / "model.yaml"), asked, [None])
    return FORMS[form](network_page(results, "npusim report model.yaml -o page.html"))


@lru_cache
def llm_text(form: Any = "html") -> str:
    return FORMS[form](llm_plan_page(found_llm_plan(), "npusim plan chat.yaml --html chat.html"))


@lru_cache
def profile_text(form: Any = "html") -> str:
    """A step's own times, one of its kernels three times as slow, and what changed since."""
    step = npusim.Model.read(ROOT / "examples" / "model.yaml").estimate("910b3")
    tasks = step_tasks(step)
    slow = [replace(tasks[0], duration_us=9 * tasks[0].duration_us), *tasks[1:]]
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{name}.csv" for name in ("before", "after")]
        for file, rows in zip(files, (tasks, slow), strict=True):
            file.write_text(op_summary(rows, step.profile), encoding="utf-8")
        compared = judge(files[1], "910b3")
        since = changes(read_launches(files[0]), read_launches(files[1]))
    explained = [(each, Reasons(compared).of(each)) for each in compared.unusual]
    command = "npusim judge after.csv -s 910b3 --against before.csv --html page.html"
    page = comparison_page(compared, explained, findings(compared), 10, since, command)
    return FORMS[form](judged_page(page, compared))


@lru_cache
def kept_text(name: str, form: Any = "html") -> str:
    return FORMS[form](getattr(kept_pages, name)())


def _kept(name: str) -> Any:
    """A page of `support.kept_pages`; without memory under ``__wrapped__``, as the others."""

    def text(form: Any = "html") -> str:
        return kept_text(name, form)

    return update_wrapper(text, partial(kept_text.__wrapped__, name))


PAGES = {
    "operator": operator_text,
    "plan": plan_text,
    "model": model_text,
    "llm": llm_text,
    "profile": profile_text,
    "sweep": _kept("of_sweep"),
    "validation": _kept("of_validation"),
    "steps": _kept("of_steps"),
    "served": _kept("of_served"),
    "comparison": _kept("of_comparison"),
    "catalogue": _kept("of_catalogue"),
}
SEARCHED = 'class="sortable"'
"""In pages with a table to look things up in, which have a script."""


@pytest.fixture(scope="module", params=list(PAGES))
def page(request: pytest.FixtureRequest) -> str:
    """One of the kinds of report."""
    return PAGES[request.param]()


class Outline(HTMLParser):
    """What a page is made of; every tag has to be closed where it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1:] not in (["style"], ["script"]):
            self.words.append((self.open[-1] if self.open else "", data.strip()))

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def svgs(text: str) -> list[str]:
    return re.findall(r"<svg\b.*?</svg>", text, flags=re.DOTALL)


def without_drawings(text: str) -> str:
    """A page without its figures, whose letters another matplotlib may put elsewhere."""
    return re.sub(r"<svg\b.*?</svg>", "<svg></svg>", text, flags=re.DOTALL)


# -- one file ----------------------------------------------------------------------------------


def test_a_page_is_well_formed_and_its_ids_are_its_own(page: str) -> None:
    outline = Outline(page)
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    known = {f"#{each}" for each in ids}
    assert {each for each in outline.values("href") if each.startswith("#")} <= known
    assert set(re.findall(r"url\((#[^)]+)\)", page)) <= known


def test_a_page_needs_nothing_from_anywhere(page: str) -> None:
    outline = Outline(page)
    assert ("script" in outline.tags) == (SEARCHED in page)
    assert not outline.values("src")
    assert all(each.startswith(("#", "data:,")) for each in outline.values("href"))
    assert "@import" not in page
    for drawing in svgs(page):
        assert "://" not in drawing


def test_figures_are_svg_in_the_colours_of_the_page(page: str) -> None:
    drawings = svgs(page)
    assert len(drawings) >= 1
    assert len(drawings) == Outline(page).tags.count("figure")
    for drawing in drawings:
        ET.fromstring(drawing)  # noqa: S314 - our own
        assert re.search(r'<svg viewBox="[\d. ]+">', drawing)
        assert "var(--ink)" in drawing
        assert not re.findall(r"(?:fill|stroke|color): ?#", drawing)
        assert "<style" not in drawing


def test_every_figure_says_what_it_shows_without_being_seen(page: str) -> None:
    labels = re.findall(r'role="img" aria-label="(.+?)"', page)
    assert len(labels) == len(svgs(page)) == len(set(labels))
    captions = re.findall(r"<figcaption>(.+?)</figcaption>", page, flags=re.DOTALL)
    assert len(captions) == len(labels)


def test_the_answer_comes_first(page: str) -> None:
    words = [text for tag, text in Outline(page).words if tag == "p"][:4]
    said = r" us \(| us at least| cards? | cards|kernels took|rows are|ms a step|tokens/s"
    assert any(re.search(rf"{said}|numbers are|interfaces", each) for each in words)
    assert re.search("verdict (good|changed)", page[: page.index("<table")])


@pytest.mark.parametrize("kind", list(PAGES))
@pytest.mark.parametrize("form", ["html", "md"])
def test_the_same_input_gives_the_same_bytes(kind: str, form: str) -> None:
    assert PAGES[kind](form) == PAGES[kind].__wrapped__(form)


def test_another_process_writes_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = (tmp_path / name / "page.html" for name in ("here", "there"))
    for path in (here, there):
        path.parent.mkdir()
    line = f"report GroupNormBackward -s 910b3 {NORM} -o"
    assert commands.npusim(capsys, line, here).code == 0
    command = [sys.executable, "-m", "npusim", *line.split(), str(there)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "77"})
    assert here.read_bytes() == there.read_bytes()


def test_a_users_matplotlibrc_changes_nothing() -> None:
    import matplotlib as mpl

    def paint(figure: Figure) -> None:
        axes_of(figure, "x", "y").plot([0, 1], [1, 0], color=SERIES[0])

    plain = draw("f", paint).embedded("title")
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "svg.fonttype": "path"}):
        assert draw("f", paint).embedded("title") == plain
        assert mpl.rcParams["font.size"] == 30


def test_drawings_have_no_date_however_odd_that_of_the_build_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def paint(figure: Figure) -> None:
        axes_of(figure, "x", "y").plot([0, 1], [1, 0], color=SERIES[0])

    plain = draw("f", paint).embedded("title")
    for date in ("\u00b2", "99999999999999999999", "86400"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", date)
        assert draw("f", paint).embedded("title") == plain
        assert os.environ["SOURCE_DATE_EPOCH"] == date


def test_what_the_user_wrote_is_text_and_not_markup() -> None:
    title = "<script>alert(1)</script> & co"
    result = small_plan()
    titled = replace(result, plan=result.plan.model_copy(update={"title": title}))
    text = to_html(plan_page(titled))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in text
    Outline(text)


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("[x](javascript:alert(1))", r"[x\](javascript:alert(1))"),
        ("![x](http://a.b/c.png)", r"![x\](http://a.b/c.png)"),
        ("[x][y] [y]: http://a.b", r"[x\][y] [y\]: http://a.b"),
        ("a\x1b[2J\x1b]0;b\x07c\x00d\u202ee", r"a\x1b[2J\x1b]0;b\x07c\x00d\u202ee"),
        (r"[x\\](a) [x\](a)", r"[x\\\](a) [x\](a)"),
        ("fp16[2,3] of [1]", "fp16[2,3] of [1]"),
    ],
)
def test_names_make_no_links_and_send_no_commands_to_a_terminal(title: str, shown: str) -> None:
    result = small_plan()
    titled = plan_page(replace(result, plan=result.plan.model_copy(update={"title": title})))
    text = to_markdown(titled)
    assert f"# {shown}" in text
    for rendered in (text, to_html(titled)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rendered)


# -- the words ---------------------------------------------------------------------------------


def test_an_operator_page_has_all_its_parts() -> None:
    text = operator_text()
    for heading in (
        "Against old.json",
        "Products side by side",
        "Where the time goes on",
        "Where the cycles go",
        "The call",
        "Assumptions",
        "Evidence",
        "Do it again",
    ):
        assert f"<h2>{heading}" in text
    for label in ("Latency by product", "Timeline on", "Pipes on"):
        assert f'aria-label="{label}' in text
    assert 'aria-label="Roofline' not in text  # too small a call to have a place in it
    assert "Not on Ascend310P3" in text
    assert COMMAND in text


def test_cycles_are_told_by_line_and_the_line_is_shown() -> None:
    text = operator_text("md")
    found = re.search(r"\| (group_norm_backward/\w+\.py:\d+) \| ([^|]+) \|", text)
    assert found is not None
    file, _, line = found[1].partition(":")
    source = (ROOT / "ops" / file).read_text().splitlines()[int(line) - 1].strip()
    assert found[2].strip() == source


@pytest.mark.parametrize("site", ["", "launch", "no/such.py:3", "matmul/kernel.py:x", ":1"])
def test_a_line_that_is_not_there_is_empty(site: str) -> None:
    assert source_line(site) == ""


def test_pipes_say_what_they_waited_for_and_rates_what_they_reach() -> None:
    spec = npusim.TensorSpec((4096, 4096), "float16")
    asked = chips(["910b3"])
    found = ask_all(
        asked, lambda device: device.estimate("aclnnMatmul", self=spec, mat2=spec, cubeMathType=0)
    )
    res = found[0].result
    assert res is not None
    assert res.timeline.work()[-1].cube_operations == {"float16": 2 * 4096**3}
    tflops = 2 * 4096**3 / res.duration_us / 1e6
    share = tflops / res.timeline.profile.cube_peak_tops("float16")
    page = operator_page("aclnnMatmul", "", {}, found, "")
    assert 'aria-label="Roofline' in to_html(page)
    text = to_markdown(page)
    assert f"Matrix unit: {tflops:.0f} TFLOPS, {share * 100:.0f} % of the float16 peak" in text
    assert " GB/s, " in text
    assert "Vector units" not in text
    row = next(line for line in text.splitlines() if line.startswith("| CUBE |"))
    assert "mad (" in row
    assert "MTE1: " in row


def test_vector_units_have_their_rate_and_their_peak() -> None:
    spec = npusim.TensorSpec((1024, 512), "float16")
    (found,) = ask_all(chips(["910b3"]), lambda device: device.estimate("Add", x1=spec, x2=spec))
    assert found.result is not None
    (work,) = found.result.timeline.work()
    assert work.vector_operations == {"float16": 1024 * 512}
    peak = found.result.timeline.profile.vector_peak_tops(2)
    tflops = 1024 * 512 / found.result.duration_us / 1e6
    text = to_markdown(operator_page("Add", "", {}, [found], ""))
    said = re.search(r"Vector units: ([\d.]+) TFLOPS, ([\d.]+) % of the float16 peak", text)
    assert said is not None
    assert float(said[1]) == pytest.approx(tflops, rel=0.01)
    assert float(said[2]) == pytest.approx(100 * tflops / peak, rel=0.05)
    assert "Matrix unit" not in text


def test_a_busy_scalar_unit_is_told_what_helps() -> None:
    task = SimpleNamespace(
        bound="latency bound: compute caused", pipes={"SCALAR": 0.96, "MTE2": 0.6},
        duration_us=100.0, launch_us=1.0,
    )  # fmt: skip
    said = what_limits(cast("Any", SimpleNamespace(tasks=[task])))
    assert "SCALAR is busy for 96 %" in said
    assert "instructions that are too small" in said
    task.pipes = {"SCALAR": 0.5, "VECTOR": 0.7}
    assert "no roof of the chip is reached" in what_limits(
        cast("Any", SimpleNamespace(tasks=[task]))
    )


def test_memory_is_over_time_only_where_lifetimes_are_known() -> None:
    text = model_text()
    assert "<h2>Memory</h2>" in text
    assert "Memory over time" not in text


def test_shares_of_the_cycles_add_up() -> None:
    text = operator_text("md")
    table = text[text.index("By instruction") :]
    rows = itertools.takewhile(lambda line: line.startswith("|"), table.splitlines()[4:])
    shares = [float(row.split("|")[-2].replace("%", "")) for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=len(shares) * 0.6)


def test_a_plan_page_has_all_its_parts() -> None:
    text = plan_text()
    for heading in ("The plan", "The models", "What if", "Assumptions", "Evidence", "Do it again"):
        assert f"<h2>{heading}" in text
    for label in (
        "Latency against the limit",
        "Cards against load",
        "Utilisation over time",
        "Latency of a batch",
        "Time by class of operator",
    ):
        assert f'aria-label="{label}' in text
    assert "boxes are spread evenly" in text
    assert "per hour, EUR" in text
    assert "seed 7" in text
    assert "Ascend310P3 is too slow for the limit" in text


def test_the_plan_of_a_language_model_has_all_its_parts() -> None:
    text = llm_text()
    for heading in ("Options", "Memory", "What if", "Not possible", "Definitions", "Do it again"):
        assert f"<h2>{heading}" in text
    assert "needs 3 cards (27,000 EUR) to answer 60 requests/s" in text
    assert "3,600 W" in text
    assert "It is 4 cards at the slow end of the estimate." in text
    assert "Atlas 300I Pro inference card w8a8 TP1: no room for a cache" in text
    assert "no number of cards" in text


def test_prices_and_power_that_nobody_gave_are_not_shown() -> None:
    result = small_plan()
    bare = tuple(replace(each, power_w=None, cost=None, memory=None) for each in result.products)
    text = plan_text(products=bare)
    assert "EUR" not in text
    assert '<th scope="col" class="number">power' not in text


def test_a_plan_that_nobody_meets_says_so_first() -> None:
    failed = tuple(each for each in small_plan().products if not each.meets)
    text = plan_text(products=failed)
    assert "No product of the plan meets the objective" in text
    assert "verdict good" not in text
    Outline(text)


@pytest.mark.parametrize("kind", list(PAGES))
def test_markdown_has_whole_tables_and_no_markup(kind: str) -> None:
    lines = PAGES[kind]("md").splitlines()
    assert lines[0].startswith("# ")
    assert not [line for line in lines if re.search(r"</?(div|svg|p|td|span)\b", line)]
    widths: set[int] = set()
    for line in [*lines, ""]:
        if line.startswith("|"):
            widths.add(len(re.findall(r"(?<!\\)\|", line)))
        else:
            assert len(widths) <= 1
            widths = set()


# -- the command line --------------------------------------------------------------------------


def test_report_writes_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("page.html", "page.md"):
        line = f"report GroupNormBackward -s 910b3 {NORM} -o"
        said = commands.npusim(capsys, line, tmp_path / name)
        assert said.code == 0
        assert f"-o {name}" in (tmp_path / name).read_text()
        again = commands.npusim(capsys, line, tmp_path / name)
        assert (again.code, "already exists" in again.err) == (2, True)


def test_a_report_of_a_refusal_is_written_and_is_a_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    said = commands.npusim(capsys, f"report GroupNormBackward -s 310p3 {NORM} -o {path}")
    assert said.code == 1
    text = path.read_text()
    assert "None of the products asked runs this call" in text
    Outline(text)


@pytest.mark.parametrize("name", ["page", "page.pdf", "page.html/x.html"])
def test_other_files_are_refused_before_the_work(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = commands.npusim(capsys, f"report GroupNormBackward -s 910b3 {NORM} -o {tmp_path / name}")
    assert said.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "report", ["operator_report", pytest.param("plan_report", marks=pytest.mark.slow)]
)
def test_the_example_report_is_current(report: str, tmp_path: Path) -> None:
    """If this fails: python reports/operator_report.py or reports/plan_report.py."""
    runpy.run_path(str(ROOT / "reports" / f"{report}.py"))["write"](tmp_path)
    for name in (f"{report}.html", f"{report}.md"):
        made, kept = (folder / name for folder in (tmp_path, ROOT / "reports"))
        assert without_drawings(made.read_text()) == without_drawings(kept.read_text())
        assert len(svgs(made.read_text())) == len(svgs(kept.read_text()))


# -- in a browser ------------------------------------------------------------------------------

QUESTIONS = {
    "width": "document.documentElement.scrollWidth",
    "figures": "document.querySelectorAll('figure svg').length",
    "visible": """[...document.querySelectorAll('figure svg')].filter(svg => {
        const box = svg.getBoundingClientRect();
        return box.width > 200 && box.height > 60 && svg.querySelector('text');
    }).length""",
    "verdict": "document.querySelector('.verdict').getBoundingClientRect().bottom",
    "page": "getComputedStyle(document.body).backgroundColor",
    "ink": "getComputedStyle(document.body).color",
    "inks of figures": """[...new Set([...document.querySelectorAll('figure svg text')].map(
        text => getComputedStyle(text).fill))]""",
    "letters": """Math.min(...[...document.querySelectorAll('figure svg text')].map(
        text => text.getBoundingClientRect().height).filter(height => height > 0))""",
    "cut tables": """[...document.querySelectorAll('.table')].filter(
        table => table.scrollWidth > table.clientWidth + 1).length""",
    "clipped": """[...document.querySelectorAll('body *')].filter(each => {
        if (![...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
            return false;
        const words = document.createRange();
        words.selectNodeContents(each);
        const text = words.getBoundingClientRect();
        if (!text.width) return false;
        for (let around = each; around; around = around.parentElement) {
            const how = getComputedStyle(around).overflowX;
            if (how === 'auto' || how === 'scroll') return false;  // can be scrolled to
            const box = around.getBoundingClientRect();
            if (how !== 'visible' && (text.left < box.left - 1 || text.right > box.right + 1 ||
                                      text.top < box.top - 1 || text.bottom > box.bottom + 1))
                return true;
        }
        return text.left < -1 || text.right > document.documentElement.clientWidth + 1;
    }).map(each => each.textContent.trim())""",
    "navigation": "getComputedStyle(document.querySelector('nav')).display",
    "verdict colours": """[...document.querySelectorAll('.verdict')].map(each => [
        getComputedStyle(each).color, getComputedStyle(each).backgroundColor])""",
}
# axe can't tell the contrast of text on a gradient, such as the shadows of tables, nor in drawings,
# the ink of which is looked at above. What else it leaves open counts as found, except where
# tables are scrolled: there their first column may stand above others.
SERIOUS = """(() => {
    const plain = document.createElement('style');
    plain.textContent = '.table { background-image: none !important }';
    document.head.append(plain);
    return axe.run({resultTypes: ['violations', 'incomplete']}).then(found =>
        [...found.violations, ...found.incomplete]
            .filter(each => each.impact === 'serious' || each.impact === 'critical')
            .flatMap(each => each.nodes
                .filter(node => found.violations.includes(each) || innerWidth >= 1280 &&
                        !document.querySelector(node.target[0]).closest('svg'))
                .map(node => `${each.id}: ${node.html} ${node.failureSummary}`)));
})()"""
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"width": 1280},
    "dark": {"width": 1920, "dark": True},
    "tablet": {"width": 768},
    "phone": {"width": 360},
    "print": {"width": 800, "media": "print"},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless browser, where the machine has one."""
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium: install Debian's chromium-headless-shell or set NPUSIM_BROWSER")
    with Browser(path, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.mark.parametrize("view", list(VIEWS))
def test_a_browser_shows_all_of_it(view: str, page: str, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    shown = browser.show(file, questions=QUESTIONS, **VIEWS[view])
    (tmp_path / f"{view}.png").write_bytes(shown.picture)  # to look at: pytest --basetemp
    said = shown.answers
    assert shown.problems == []
    assert shown.picture.startswith(b"\x89PNG")
    assert said["figures"] == said["visible"] == len(svgs(page))
    assert said["width"] <= VIEWS[view]["width"]
    assert said["clipped"] == []
    assert said["verdict"] < 900
    if view in ("light", "dark"):  # where there is less room they scroll
        assert said["cut tables"] == 0
    assert said["letters"] >= 7
    assert said["inks of figures"] == [said["ink"]]
    assert contrast(said["ink"], said["page"]) > 7
    for ink, back in said["verdict colours"]:
        assert contrast(ink, back) > 4.5
    assert (brightness(said["page"]) < 0.1) == (view == "dark")
    assert (said["navigation"] == "none") == (view == "print")


def test_the_browser_test_can_fail(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "broken.html"
    file.write_text(
        "<meta name='viewport' content='width=device-width'>"
        "<img src='http://example.org/x.png'><script>nothing.there()</script>"
        "<p style='white-space: nowrap; width: 2000px'>as wide as it is</p>"
        "<p style='white-space: nowrap; width: 2em; overflow: hidden'>cut off here</p>"
        "<p style='white-space: nowrap; width: 2em; overflow: auto'>to be scrolled</p>"
        "<p style='margin-left: 390px; width: 9em'>beyond</p>"
        "<svg width='50' height='50' viewBox='0 0 50 50'><text x='30' y='20'>label</text></svg>"
    )
    shown = browser.show(
        file, width=400, questions={name: QUESTIONS[name] for name in ("width", "clipped")}
    )
    assert len(shown.problems) >= 2
    assert "nothing is not defined" in "".join(shown.problems)
    assert shown.answers["width"] > 1200
    assert shown.answers["clipped"] == ["cut off here", "beyond", "label"]


@pytest.fixture(scope="module")
def axe() -> Path:
    """axe-core's script, where the machine has it."""
    path = axe_path()
    if path is None:
        pytest.skip("no axe-core: install axe-core-python or set NPUSIM_AXE to an axe.min.js")
    return path


@pytest.mark.parametrize("view", ["light", "dark", "phone"])
def test_axe_finds_nothing_serious(
    view: str, page: str, axe: Path, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    shown = browser.show(file, questions={"serious": SERIOUS}, script=axe, **VIEWS[view])
    assert shown.answers["serious"] == []


def test_the_axe_test_can_fail(axe: Path, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "broken.html"
    file.write_text(
        "<!doctype html><html><title>Broken</title><h1>Broken</h1>"
        "<p style='color: #ccc; background: #fff'>pale</p>"
        "<img src='data:,'><div role='img'></div>"
    )
    shown = browser.show(file, questions={"serious": SERIOUS}, script=axe)
    rules = {each.partition(":")[0] for each in shown.answers["serious"]}
    assert rules == {"html-has-lang", "color-contrast", "image-alt", "role-img-alt"}


def brightness(colour: str) -> float:
    """Relative luminance of a computed colour, 0 to 1 (WCAG)."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two computed colours, 1 to 21 (WCAG)."""
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("view", ["light", "phone"])
def test_a_browser_shows_all_of_a_chinese_page(
    view: str, browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    call = f"report Gelu -s 910b3,310p3 x=fp16[64,64] -o {file} --lang zh"
    assert commands.npusim(capsys, call).code == 0
    assert '<html lang="zh">' in file.read_text(encoding="utf-8")
    shown = browser.show(file, questions=QUESTIONS, **VIEWS[view])
    assert shown.problems == []
    assert shown.answers["width"] <= VIEWS[view]["width"]
    assert shown.answers["clipped"] == []
    for ink, back in shown.answers["verdict colours"]:
        assert contrast(ink, back) > 4.5
