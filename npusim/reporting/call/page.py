"""The report of one operator: how long, on which product, why, and how sure we are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import npusim
from npusim.engine.timeline import pipe_order
from npusim.engine.verdict import BOUND_RATIO
from npusim.reporting.call.figures import (
    pipes_figure,
    products_figure,
    roofline_figure,
    timeline_figure,
)
from npusim.reporting.call.tables import refused
from npusim.reporting.document import (
    Block,
    Bullets,
    Code,
    Page,
    Section,
    Table,
    Text,
    Verdict,
    cautions,
)
from npusim.reporting.explain import NOTHING_HELPS, pipes_table, suggested
from npusim.reporting.spelling import count, latency, percent, significant, size
from npusim.runtime.bands import values_behind
from npusim.runtime.explain import explain
from npusim.runtime.figures import SLICES_DRAWN, longest_work, roof_point
from npusim.values.drawing import colours_of
from npusim.values.dtypes import dtype
from npusim.values.language import say
from npusim.values.sites import source_line

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.reporting.call.answers import Answer
    from npusim.runtime.results import Result
    from npusim.runtime.timeline import TaskResult
    from npusim.runtime.work import TaskWork

_LINES_SHOWN = 15


def operator_page(
    operator: str,
    summary: str,
    arguments: Mapping[str, str],
    answers: Sequence[Answer],
    command: str,
) -> Page:
    """The report of one call on one or more products.

    `arguments` are the parameters in words, `answers` the products' in the order of the question;
    the fastest of them is looked at in detail. `command` is what makes the report again.
    """
    results = [answer.result for answer in answers if answer.result is not None]
    focus = min(results, key=lambda res: res.duration_us, default=None)
    played: Sequence[str] = ()
    sections = [Section("Products side by side", list(_products(answers, results, focus)))]
    if focus is not None:
        sections.append(
            Section(say("Where the time goes on {soc}").format(soc=focus.soc), list(_time(focus)))
        )
        played = suggested(focus)
        advice = Bullets(played or [NOTHING_HELPS])
        sections.append(Section(say("What would make it faster, each played"), [advice]))
        if (work := longest_work(focus.timeline)) is not None:
            sections.append(Section("Where the cycles go", list(_cycles(work))))
    if arguments:
        call = Table(("parameter", "value"), list(arguments.items()))
        sections.append(Section("The call", [call]))
    if focus is not None:
        sections.append(Section("Assumptions", [_assumptions(results)]))
        sections.append(Section("Evidence", list(_evidence(results, focus))))
    if command:
        sections.append(Section("Do it again", [Code(command)]))
    return Page(
        title=say("{operator}: how long, and why").format(operator=operator),
        subtitle=summary,
        verdicts=list(_verdicts(answers, results, focus, played)),
        facts=list(_facts(focus)) if focus else (),
        sections=sections,
        footer=say("Made by npusim {version}. Times are estimates with their 80 % bands.").format(
            version=npusim.__version__
        ),
    )


def _verdicts(
    answers: Sequence[Answer],
    results: Sequence[Result],
    focus: Result | None,
    played: Sequence[str],
) -> Iterator[Verdict]:
    if focus is None:
        yield Verdict(say("None of the products asked runs this call."), "bad")
    elif len(results) == 1:
        time = latency(focus.duration_us, focus.band_us)
        yield Verdict(
            say("{time} on {soc}, {bound}.").format(
                time=time, soc=focus.soc, bound=say(focus.bound)
            ),
            "good",
        )
    else:
        time = latency(focus.duration_us, focus.band_us)
        slowest = max(results, key=lambda res: res.duration_us)
        ratio = slowest.duration_us / focus.duration_us if focus.duration_us else 1.0
        times = significant(ratio, 2)
        yield Verdict(
            say("Fastest on {soc}: {time}, {bound}. {slowest} takes {times} times as long.").format(
                soc=focus.soc, time=time, bound=say(focus.bound), slowest=slowest.soc, times=times
            ),
            "good",
        )
    if focus is not None and focus.tasks:
        yield Verdict(
            what_limits(focus),
            "open",
            say("Played: {change}").format(change=played[0]) if played else "",
        )
    yield from cautions(each.soc for each in results)
    for reason, socs in refused(answers, alike=True).items():
        yield Verdict(
            say("Not on {socs}: {reason}").format(socs=", ".join(socs), reason=reason), "bad"
        )


def what_limits(res: Result) -> str:
    """What the bound of the longest task means here."""
    task = max(res.tasks, key=lambda each: each.duration_us)
    counted = {"VECTOR", "CUBE"} if task.bound == "compute bound" else set(task.pipes)
    shares = [(share, pipe) for pipe, share in task.pipes.items() if pipe in counted]
    busy, pipe = max(shares, default=(0.0, "no pipe"))
    most = say("{pipe} is busy for {busy} of the time that cores work").format(
        pipe=pipe, busy=percent(busy)
    )
    least = percent(BOUND_RATIO)
    match task.bound:
        case "compute bound":
            return say("Compute bound: {most}.").format(most=most)
        case "memory bound":
            return say("Memory bound: HBM or L2 carry more than {least} of what they can.").format(
                least=least
            )
        case "latency bound: pipeline caused":
            return say(
                "Latency bound: nothing is used for {least} of the time, "
                "{most}; pipes wait for each other."
            ).format(least=least, most=most)
    if pipe == "SCALAR" and busy >= BOUND_RATIO:
        return say(
            "Latency bound: {most}: it issues instructions that are too small for the others."
        ).format(most=most)
    share = (task.duration_us - task.launch_us) / task.duration_us if task.duration_us else 0.0
    return say(
        "Latency bound: {most}, but cores work for {share} of the "
        "task, or not all at once, so that no roof of the chip is "
        "reached to {least}."
    ).format(most=most, share=percent(share), least=least)


def _facts(res: Result) -> Iterator[tuple[str, str]]:
    yield "Latency (80 % band)", latency(res.duration_us, res.band_us)
    yield "Bound by", res.bound
    yield "Cycles", count(res.cycles)
    yield "Tasks", str(len(res.tasks))
    yield (
        "Read and written",
        (
            f"{size(sum(task.bytes_read for task in res.tasks))}, "
            f"{size(sum(task.bytes_written for task in res.tasks))}"
        ),
    )
    from_hbm = sum(task.hbm_bytes for task in res.tasks)
    yield "From HBM", size(from_hbm)
    if res.duration_us:
        yield from _rates(res, from_hbm)
    yield "Workspace", size(res.workspace_size)


def _rates(res: Result, from_hbm: float) -> Iterator[tuple[str, str]]:
    """What the call reaches of the chip's published peaks, launches included."""
    profile = res.timeline.profile
    gbps = from_hbm / res.duration_us / 1e3
    peak = percent(gbps / profile.memory.hbm_nominal_gbps)
    yield (
        "HBM rate",
        say("{gbps} GB/s, {peak} of the peak").format(gbps=significant(gbps), peak=peak),
    )
    work = res.timeline.work()
    cube = [task.cube_operations for task in work]
    yield from _unit("Matrix unit", cube, profile.cube_peak_tops, res.duration_us)
    vector = [task.vector_operations for task in work]
    yield from _unit("Vector units", vector, _vector_peak(profile), res.duration_us)


def _vector_peak(profile: Profile) -> Callable[[str], float]:
    return lambda name: profile.vector_peak_tops(dtype(name).itemsize)


def _unit(
    name: str,
    tasks: Sequence[Mapping[str, int]],
    peak_tops: Callable[[str], float],
    duration_us: float,
) -> Iterator[tuple[str, str]]:
    """Operations a second of a kind of unit, by dtype in `tasks`, and the share of its peak."""
    tops: dict[str, float] = {}
    for task in tasks:
        for kind, operations in task.items():
            tops[kind] = tops.get(kind, 0.0) + operations / duration_us / 1e6
    if tops:
        unit = "TOPS" if all("int" in kind for kind in tops) else "TFLOPS"
        share = sum(rate / peak_tops(kind) for kind, rate in tops.items())
        rate = f"{significant(sum(tops.values()))} {unit}"
        yield (
            name,
            say("{rate}, {share} of the {tops} peak").format(
                rate=rate, share=percent(share), tops=" and ".join(tops)
            ),
        )


def _products(
    answers: Sequence[Answer], results: Sequence[Result], focus: Result | None
) -> Iterator[Block]:
    columns = ("SoC", "products", "runs", "latency (80 % band)", "relative", "cycles", "bound by")
    rows = []
    for answer in answers:
        cells = ["", "", "", ""]
        if (res := answer.result) is not None and focus is not None:
            ratio = significant(res.duration_us / max(focus.duration_us, 1e-12), 2)
            cells = [latency(res.duration_us, res.band_us), ratio, count(res.cycles), res.bound]
        rows.append((answer.soc, answer.product_line, str(answer.verdict), *cells))
    chosen = next((i for i, answer in enumerate(answers) if answer.result is focus), None)
    numbers = ("latency (80 % band)", "relative", "cycles")
    yield Table(columns, rows, numbers, chosen=chosen if focus else None)
    if not results or focus is None:
        return
    points = [point for res in results if (point := roof_point(res.timeline)) is not None]
    families = {res.soc: res.timeline.profile.family for res in results}
    colours = colours_of(families.values())
    if len(results) > 1:
        yield products_figure(results, {soc: colours[each] for soc, each in families.items()})
    if points:
        yield roofline_figure(points, focus.soc, colours)


def _time(res: Result) -> Iterator[Block]:
    pipes = sorted({pipe for task in res.tasks for pipe in task.pipes}, key=pipe_order)
    numbers = ("cores", "start", "time", "launch", "read", "written", "from HBM", *pipes)
    rows = [_task_row(task, pipes) for task in res.tasks]
    yield Table(("task", "bound by", *numbers), rows, numbers)
    if (timeline := timeline_figure(res)) is not None:
        yield timeline
    elif (instructions := res.timeline.count(res.timeline.cores[:1])) > SLICES_DRAWN:
        yield Text(
            say(
                "The first core alone executes {instructions} instructions, of "
                "which a timeline would show a flat band. `npusim trace` "
                "writes a part of it: --cores 0 --window 0-100."
            ).format(instructions=count(instructions))
        )
    yield pipes_figure(res)
    if res.tasks:
        yield _waits(res)


def _waits(res: Result) -> Block:
    """What the pipes of the longest task worked on and waited for, as `exec --explain` has it."""
    pairs = zip(res.tasks, res.timeline.runs, strict=True)
    task, run = max(pairs, key=lambda pair: pair[0].duration_us)
    return pipes_table(task.name, explain(run, res.timeline.profile, path=False))


def _task_row(task: TaskResult, pipes: Sequence[str]) -> tuple[str, ...]:
    return (
        task.name,
        task.bound,
        str(task.block_dim),
        latency(task.start_us),
        latency(task.duration_us),
        latency(task.launch_us),
        size(task.bytes_read),
        size(task.bytes_written),
        size(task.hbm_bytes),
        *(percent(task.pipes.get(pipe, 0.0)) for pipe in pipes),
    )


def _cycles(work: TaskWork) -> Iterator[Block]:
    """By line of kernel code and by instruction, all cores together, of the longest task."""
    lines: dict[str, dict[str, float]] = {}
    calls: dict[tuple[str, str], list[float]] = {}
    for group in work.cores:
        for step in group.steps:
            cycles = step.cycles * len(group.places)
            pipes = lines.setdefault(step.site, {})
            pipes[step.pipe] = pipes.get(step.pipe, 0.0) + cycles
            totals = calls.setdefault((step.pipe, step.name), [0.0, 0.0])
            totals[0] += step.times * len(group.places)
            totals[1] += cycles
    whole = sum(cycles for pipes in lines.values() for cycles in pipes.values()) or 1.0
    yield Text(
        say(
            "Busy cycles of all pipes of all cores in {work}; pipes work "
            "at the same time, so this is where the work is, and the "
            "timeline shows what of it is waited for."
        ).format(work=work.name)
    )
    ranked = sorted(lines.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    rows = [
        (
            site or "launch",
            source_line(site),
            ", ".join(sorted(pipes, key=lambda pipe: -pipes[pipe])),
            count(sum(pipes.values())),
            percent(sum(pipes.values()) / whole),
        )
        for site, pipes in ranked[:_LINES_SHOWN]
    ]
    columns = ("line", "code", "pipes", "cycles", "share")
    yield Table(columns, rows, ("cycles", "share"), _title("By kernel line", len(ranked)))
    by_call = sorted(calls.items(), key=lambda item: (-item[1][1], item[0]))
    instructions = [
        (name, pipe, count(times), count(cycles), percent(cycles / whole))
        for (pipe, name), (times, cycles) in by_call[:_LINES_SHOWN]
    ]
    yield Table(
        ("instruction", "pipe", "times", "cycles", "share"),
        instructions,
        ("times", "cycles", "share"),
        _title("By instruction", len(by_call)),
    )


def _title(what: str, total: int) -> str:
    return (
        say("{what}: the first {lines_shown} of {total}").format(
            what=what, lines_shown=_LINES_SHOWN, total=total
        )
        if total > _LINES_SHOWN
        else what
    )


def _assumptions(results: Sequence[Result]) -> Block:
    said: dict[str, list[str]] = {}
    for res in results:
        for sentence in res.assumptions:
            said.setdefault(sentence, []).append(res.soc)
    if not said:
        return Text(say("Nothing was assumed beyond the call itself and the values below."))
    return Bullets(
        [
            sentence if len(socs) == len(results) else f"{sentence} ({', '.join(socs)})"
            for sentence, socs in said.items()
        ]
    )


def _evidence(results: Sequence[Result], focus: Result) -> Iterator[Block]:
    rows = [
        (res.soc, latency(res.duration_us, res.band_us), res.band_basis, percent(res.jumped_ratio))
        for res in results
    ]
    yield Table(
        ("SoC", "latency (80 % band)", say("where the band comes from"), "extrapolated"),
        rows,
        ("latency (80 % band)", "extrapolated"),
        say("Bands; extrapolated is the share of the cycles that repeat a steady state"),
    )
    profile = focus.timeline.profile
    used = {pipe for task in focus.tasks for pipe in task.pipes}
    values = []
    for key in values_behind(used):
        origin = profile.provenance_of(key)
        values.append((key, origin.confidence, origin.source))
    yield Table(
        ("value", "confidence", "source"),
        values,
        caption=say("The values of {soc} that set these times; `npusim profiles` shows all").format(
            soc=focus.soc
        ),
    )
