"""`npusim plan` and `npusim recommend`: how many cards does this workload need."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import output
from npusim.cli.chips import names
from npusim.cli.options import SOC_FLAGS, AsJson, Force, MeasuredOn
from npusim.values.errors import UsageError

if TYPE_CHECKING:
    from npusim.capacity import Plan
    from npusim.serving.plan import LlmPlan

Markdown = Annotated[
    Path | None,
    typer.Option("--md", metavar="FILE", help="Write a Markdown report."),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write an HTML report."),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="The seed of everything random."),
]
Products = Annotated[
    list[str] | None,
    typer.Option(
        *SOC_FLAGS,
        metavar="PRODUCT",
        help="A product or chip to compare, or 'all' products; several with commas, or given "
        "several times.",
    ),
]


def plan(
    file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="The plan.")],
    as_json: AsJson = False,
    markdown: Markdown = None,
    html: Html = None,
    seed: Seed = None,
    force: Force = False,
) -> None:
    """How many cards? Workload and objective in, a card count for every product out.

    Exit code 1 when no product of the plan meets the objective.

    Example: npusim plan examples/plan.yaml --html plan.html
    """
    from npusim.serving.plan import is_llm_plan, read_llm_plan

    if is_llm_plan(file):
        _answer_llm(read_llm_plan(file), file, seed, as_json, markdown, html, force=force)
        return
    from npusim.capacity import read_plan
    from npusim.capacity.asking import seeded

    wanted = seeded(read_plan(file), seed)
    words = ["plan", str(file), *_given({"--seed": seed})]
    _answer(wanted, file, file.parent, words, as_json, markdown, html, force=force)


def recommend(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, as for `npusim model`.")],
    rate: Annotated[float, typer.Option("--rate", help="Requests per second at the peak.")],
    limit_ms: Annotated[float, typer.Option("--slo", metavar="MS", help="The limit in ms.")],
    products: Products = None,
    quantile: Annotated[
        str, typer.Option("--quantile", help="The share of requests within the limit.")
    ] = "p99",
    max_batch: Annotated[int | None, typer.Option("--max-batch", help="Items in a batch.")] = None,
    max_wait_ms: Annotated[
        float, typer.Option("--max-wait", metavar="MS", help="How long a batch may be awaited.")
    ] = 0.0,
    items: Annotated[int, typer.Option("--items", help="Items of one request.")] = 1,
    availability: Annotated[str, typer.Option("--availability", help="N, N+1 or N+2 cards.")] = "N",
    price: Annotated[
        list[str] | None,
        typer.Option("--price", metavar="PRODUCT=EUR", help="The price of a card; repeatable."),
    ] = None,
    measured_on: MeasuredOn = None,
    tpot_ms: Annotated[
        float, typer.Option("--tpot", metavar="MS", help="The limit of further tokens.")
    ] = 50.0,
    input_tokens: Annotated[int, typer.Option("--input", help="Tokens of a prompt.")] = 1024,
    output_tokens: Annotated[int, typer.Option("--output", help="Tokens of an answer.")] = 256,
    dtypes: Annotated[
        str, typer.Option("--dtype", help="Quantisations, with commas; default: the config's.")
    ] = "",
    as_json: AsJson = False,
    markdown: Markdown = None,
    html: Html = None,
    seed: Seed = None,
    force: Force = False,
) -> None:
    """How many cards for one model at one rate under one limit? Products side by side.

    For a language model (its config.json or folder) --slo is of the first token, and --tpot,
    --input, --output and --dtype say the rest.
    Everything else is as in a plan that says nothing about it: Poisson arrivals, 70 % target
    utilisation. Exit code 1 when no product meets the limit.

    Example: npusim recommend resnet50.onnx --rate 2000 --slo 20 -s 310p3
    """
    from npusim.capacity import plan_of
    from npusim.capacity.asking import plan_of_model, seeded
    from npusim.hardware.products import product_names

    named = names(products, product_names, "products")
    if model.name == "config.json" or (model / "config.json").is_file():
        from npusim.serving.plan import llm_plan_of

        if price:
            raise UsageError(
                "--price isn't known for language models", "Leave it out: cards are compared."
            )
        workload = {
            "config": str(model.resolve()), "dtypes": dtypes.split(","), "requests_per_s": rate,
            "input_tokens": input_tokens, "output_tokens": output_tokens,
        }  # fmt: skip
        limits = {"ttft_ms": limit_ms, "tpot_ms": tpot_ms, "quantile": quantile}
        asked = {"llm": workload, "objective": limits, "fleet": {"products": named}}
        wanted_llm = llm_plan_of(asked, model)
        _answer_llm(wanted_llm, model, seed, as_json, markdown, html, force=force)
        return
    batching: dict[str, Any] = {"max_wait_ms": max_wait_ms}
    if max_batch is not None:
        batching["max_batch"] = max_batch
    served: dict[str, Any] = {"items_per_request": items}
    if measured_on is not None:
        served["measured_on"] = measured_on
    objective = {"quantile": quantile, "limit_ms": limit_ms, "availability": availability}
    wanted = plan_of(plan_of_model(model, served, rate, batching, objective, named, _prices(price)))
    words = ["recommend", str(model), "--rate", _number(rate), "--slo", _number(limit_ms)]
    words += [word for name in products or () for word in ("-s", name)]
    words += [word for each in price or () for word in ("--price", each)]
    words += _given(
        {
            "--quantile": quantile,
            "--max-batch": max_batch,
            "--max-wait": _number(max_wait_ms),
            "--items": items,
            "--availability": availability,
            "--measured-on": measured_on,
            "--seed": seed,
        }
    )
    _answer(seeded(wanted, seed), model, Path(), words, as_json, markdown, html, force=force)


def _prices(given: list[str] | None) -> dict[str, float]:
    """EUR for a card by product, from PRODUCT=EUR."""
    found = {}
    for text in given or ():
        name, _, amount = text.rpartition("=")
        try:
            found[name] = float(amount)
        except ValueError:
            found[name] = 0.0
        if not name or not 0 < found[name] < float("inf"):
            raise UsageError(
                f"--price {text} isn't a product and its price",
                "Write the product as in -s and EUR for a card: --price 'Atlas 300I Pro=2500'.",
            )
    return found


def _answer_llm(
    wanted: LlmPlan,
    file: Path,
    seed: int | None,
    as_json: bool,
    markdown: Path | None,
    html: Path | None,
    *,
    force: bool,
) -> None:
    """The plan of a language model."""
    from npusim.reporting.files import claim_all, write_text
    from npusim.reporting.llm_plan import llm_plan_json, llm_plan_page
    from npusim.reporting.renderers.html import to_html, to_markdown
    from npusim.serving.planning import plan_llm

    claim_all(markdown, html, beside=(file,), force=force)
    if seed is not None:
        simulation = wanted.simulation.model_copy(update={"seed": seed})
        wanted = wanted.model_copy(update={"simulation": simulation})
    try:
        found = plan_llm(wanted, file.parent, output.progress)
    finally:
        output.progress("")
    page = llm_plan_page(found)
    for path, render in ((markdown, to_markdown), (html, to_html)):
        if path is not None:
            write_text(path, render(page), force=force)
            output.note(f"written: {path}")
    if as_json:
        output.emit_json(llm_plan_json(found))
    else:
        output.emit(page)
    if found.chosen is None:
        raise typer.Exit(1)


def _given(options: Mapping[str, object]) -> list[str]:
    """The options with a value, as words of a command line."""
    return [
        word for name, value in options.items() if value is not None for word in (name, str(value))
    ]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _command(words: list[str], markdown: Path | None, html: Path | None) -> str:
    """What makes the reports again; their names without their folders."""
    files = {"--md": markdown and markdown.name, "--html": html and html.name}
    return shlex.join(["npusim", *words, *_given(files)])


def _answer(
    wanted: Plan,
    file: Path,
    folder: Path,
    words: list[str],
    as_json: bool,
    markdown: Path | None,
    html: Path | None,
    *,
    force: bool,
) -> None:
    from npusim.capacity import SimulatedLatencies, evaluate
    from npusim.reporting.files import claim_all, write_text
    from npusim.reporting.plan.data import plan_json
    from npusim.reporting.plan.page import plan_page
    from npusim.reporting.renderers.html import to_html, to_markdown

    claim_all(markdown, html, beside=(file,), force=force)
    source = SimulatedLatencies(wanted, folder, output.progress)
    try:
        result = evaluate(wanted, source, folder=folder, progress=output.progress)
    finally:
        output.progress("")
    page = plan_page(result, source.results, _command(words, markdown, html))
    for path, render in ((markdown, to_markdown), (html, to_html)):
        if path is not None:
            write_text(path, render(page), force=force)
            output.note(f"written: {path}")
    if as_json:
        said = [page.subtitle, *(verdict.text for verdict in page.verdicts)]
        output.emit_json(plan_json(result, source.results, said))
    else:
        output.emit(page)
    if not result.meeting:
        raise typer.Exit(1)
