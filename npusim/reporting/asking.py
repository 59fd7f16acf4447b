"""Pages and traces from Python: a result in, a file out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.capacity.results import PlanResult
from npusim.model.results import StepResult
from npusim.reporting.files import claim, write_text
from npusim.reporting.trace import TraceSummary, write_trace
from npusim.runtime.results import Result
from npusim.values.errors import ArgumentError, UsageError

if TYPE_CHECKING:
    from npusim.reporting.document import Page

_FORMS: Final = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
_TOP: Final = 20  # operators of a step on its page

Answer = Result | PlanResult | StepResult


def report(
    answer: Answer | Sequence[Result], path: str | PathLike[str], *, force: bool = False
) -> Path:
    """Write a page about a result: ``npusim.report(npu.estimate(...), "page.html")``.

    `answer` is what a call returned (several: products side by side), a plan or a step of a model;
    `path` ends in .html or .md. Raises ArgumentError for another ending, OutputExistsError for a
    file that exists unless `force`d.
    """
    target = Path(path)
    form = form_of(target)
    claim(target, force=force)
    write_page(_page(answer), target, form, force=force)
    return target


def trace(
    result: Result,
    path: str | PathLike[str],
    *,
    cores: Sequence[int] | None = None,
    window_us: tuple[float, float] | None = None,
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> TraceSummary:
    """Write a result's timeline for MindStudio Insight, Perfetto or chrome://tracing.

    `cores` keeps the cores with these numbers, `window_us` what lies between two microseconds;
    `progress` hears how many instructions were looked at. Says how many slices it wrote. Raises
    ArgumentError where none of the cores is used, OutputExistsError for a file that exists unless
    `force`d.
    """
    chosen = None if cores is None else tuple(cores)
    return write_trace(
        result, Path(path), cores=chosen, window_us=window_us, force=force, progress=progress
    )


def form_of(path: Path) -> str:
    """``html`` or ``md`` by a file's ending; ArgumentError for any other."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise ArgumentError(
            f"{path}: a report is HTML or Markdown", "Name a file that ends in .html or .md."
        )
    return form


def write_page(page: Page, path: Path, form: str, *, force: bool) -> None:
    """A page as a file, all of it or nothing."""
    from npusim.reporting.renderers.html import to_html, to_markdown

    write_text(path, to_html(page) if form == "html" else to_markdown(page), force=force)


def _page(answer: Answer | Sequence[Result]) -> Page:
    if isinstance(answer, PlanResult):
        from npusim.reporting.plan.page import plan_page

        return plan_page(answer)
    if isinstance(answer, StepResult):
        from npusim.reporting.model import step_page

        return step_page(answer, _TOP)
    results = [answer] if isinstance(answer, Result) else list(answer)
    if not results or not all(isinstance(each, Result) for each in results):
        raise UsageError(
            "a report is about a result, a plan or a step",
            "Give what npu.estimate(...), npusim.plan(...) or Model.estimate(...) returned.",
        )
    return _call_page(results)


def _call_page(results: Sequence[Result]) -> Page:
    from npusim.reporting.call.answers import Answer as OneAnswer
    from npusim.reporting.call.page import operator_page
    from npusim.values.status import SUCCESS

    answers = [
        OneAnswer(each.soc, each.timeline.profile.product_line, status=SUCCESS, result=each)
        for each in results
    ]
    nothing: Mapping[str, str] = {}
    names = list(dict.fromkeys(each.op for each in results))
    return operator_page(" and ".join(names), "", nothing, answers, "")
