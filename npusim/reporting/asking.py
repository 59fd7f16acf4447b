"""Pages and traces from Python: a result in, a file out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from npusim.capacity.results import PlanResult
from npusim.model.results import StepResult
from npusim.reporting.files import claim_all, write_text
from npusim.reporting.trace import TraceSummary, write_trace
from npusim.runtime.results import Result
from npusim.serving.planning import LlmPlanResult
from npusim.values.errors import ArgumentError, UsageError
from npusim.values.language import say
from npusim.values.takes import CALL, FLAG, PATH, REAL, WHOLE, each, maybe, of, takes

if TYPE_CHECKING:
    from npusim.reporting.against import Estimates
    from npusim.reporting.call.answers import Answer as OneAnswer
    from npusim.reporting.document import Page

_FORMS: Final = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}

Answer = Result | PlanResult | LlmPlanResult | StepResult
Answers = Sequence[Result] | Sequence[StepResult]
_Kind = TypeVar("_Kind")


@takes(path=PATH, force=FLAG)
def report(
    answer: Answer | Answers,
    path: str | PathLike[str],
    *,
    against: Answer | Answers | str | PathLike[str] | None = None,
    force: bool = False,
) -> Path:
    """Write a page about a result: ``npusim.report(npu.estimate(...), "page.html")``.

    `answer` is what a call or a model's step returned (several: products side by side) or a plan;
    `path` ends in .html or .md. With `against`, earlier results of the same kind or a file that
    `npusim estimate` or `model` printed with ``--json``, it begins with what changed, and why.
    Raises ArgumentError for another ending and for chips that both don't have, FileError for
    another file, OutputExistsError for a file that exists unless `force`d.
    """
    target = Path(path)
    form_of(target)
    kept = Path(against) if isinstance(against, str | PathLike) else None
    claim_all(target, beside=(kept,), force=force)
    page = _page(answer)
    if against is not None:
        page = _against(page, answer, cast("Any", against) if kept is None else kept)
    write_page(page, target, force=force)
    return target


@takes(
    result=of(Result), path=PATH, cores=maybe(each(WHOLE)), window_us=maybe(each(REAL)), force=FLAG,
    progress=maybe(CALL),
)  # fmt: skip
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
    if window_us is not None and len(window_us) != 2:
        raise ArgumentError(
            say("a window of {window_us} times").format(window_us=len(window_us)),
            say("Give its begin and its end."),
        )
    return write_trace(
        result, Path(path), cores=chosen, window_us=window_us, force=force, progress=progress
    )


def form_of(path: Path) -> str:
    """``html`` or ``md`` by a file's ending; ArgumentError for any other."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise ArgumentError(
            say("{path}: a report is HTML or Markdown").format(path=path),
            say("Name a file that ends in .html or .md."),
        )
    return form


def write_page(page: Page, path: Path, *, force: bool) -> None:
    """A page as a file, all of it or nothing, in the form that the file's ending says."""
    from npusim.reporting.renderers.html import to_html, to_markdown

    render = to_html if form_of(path) == "html" else to_markdown
    write_text(path, render(page), force=force)


def write_figures(page: Page, folder: Path, *, force: bool) -> int:
    """Every figure of a page as .svg, as .png and with its numbers as .csv; how many there are."""
    from npusim.reporting.document import Figure
    from npusim.reporting.files import atomic_folder

    found = [block for each in page.sections for block in each.blocks if isinstance(block, Figure)]
    with atomic_folder(folder, force=force) as whole:
        for figure in found:
            for kind in ("svg", "png", "csv"):
                file = whole / f"{figure.drawing.name}.{kind}"
                file.write_bytes(figure.drawing.file(figure.label, kind))
    return len(found)


def _page(answer: Answer | Answers) -> Page:
    if isinstance(answer, PlanResult):
        from npusim.reporting.plan.page import plan_page

        return plan_page(answer)
    if isinstance(answer, LlmPlanResult):
        from npusim.reporting.llm_plan import llm_plan_page

        return llm_plan_page(answer)
    if steps := _all_of(answer, StepResult):
        from npusim.reporting.network import network_page

        return network_page(steps)
    from npusim.reporting.call.page import operator_page

    results = _calls(answer)
    return operator_page(_name(results), "", {}, _answers(results), "")


def _against(page: Page, answer: Answer | Answers, earlier: Answer | Answers | Path) -> Page:
    from npusim.reporting.against import against

    if isinstance(answer, PlanResult | LlmPlanResult):
        raise UsageError("plans aren't compared", say("Leave `against` out."))
    of_model = bool(_all_of(answer, StepResult))
    return against(page, _before(earlier, of_model=of_model), _told(answer))


def _before(earlier: Answer | Answers | Path, *, of_model: bool) -> Estimates:
    from npusim.reporting.against import comparable, estimates_of, read_estimates

    if isinstance(earlier, Path):
        return read_estimates(earlier, of_model=of_model)
    name = "before"
    return comparable(estimates_of(_told(earlier), name), Path(name), of_model=of_model)


def _told(answer: Answer | Answers) -> dict[str, Any]:
    """What ``--json`` prints of it; arguments aren't known any more."""
    if steps := _all_of(answer, StepResult):
        from npusim.reporting.model import step_json

        return {"answers": [step_json(each) for each in steps]}
    results = _calls(answer)
    return {"op": _name(results), "answers": [each.as_json() for each in _answers(results)]}


def _all_of(answer: object, kind: type[_Kind]) -> list[_Kind]:
    """The results of that kind; none where it is, or has in it, anything else."""
    several = isinstance(answer, Sequence) and not isinstance(answer, str)
    every: list[Any] = list(cast("Any", answer)) if several else [answer]
    return every if all(isinstance(each, kind) for each in every) else []


def _calls(answer: Answer | Answers) -> list[Result]:
    results = _all_of(answer, Result)
    if not results:
        raise UsageError(
            say("a report is about results of calls, steps of a model, or one plan"),
            say("Give what npu.estimate(...), npusim.plan(...) or Model.estimate(...) returned."),
        )
    return results


def _name(results: Sequence[Result]) -> str:
    return " and ".join(dict.fromkeys(each.op for each in results))


def _answers(results: Sequence[Result]) -> list[OneAnswer]:
    from npusim.reporting.call.answers import Answer as OneAnswer
    from npusim.values.status import SUCCESS

    return [
        OneAnswer(each.soc, each.timeline.profile.product_line, status=SUCCESS, result=each)
        for each in results
    ]
