"""`npusim plan` and `npusim recommend`: how many cards does this workload need."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from npusim.cli import output
from npusim.cli.chips import names
from npusim.cli.completion import chips_beginning
from npusim.cli.llm_options import InputTokens, OutputTokens
from npusim.cli.options import SOC_FLAGS, AsJson, Figures, Force, Html, MeasuredOn
from npusim.cli.pages import Files, figure_kind
from npusim.values.errors import ArgumentError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity import Plan
    from npusim.reporting.document import Page
    from npusim.serving.plan import LlmPlan

Markdown = Annotated[
    Path | None,
    typer.Option("--md", metavar="FILE", help="Write a Markdown report."),
]
Front = Annotated[
    Path | None,
    typer.Option(
        "--front",
        metavar="FILE",
        help="Write what layouts of a language model were tried and the best of them: .csv, .svg, "
        ".png.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="The seed of everything random."),
]
BudgetS = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        help="Processor time for the fleets; what it leaves open is undecided.",
    ),
]
Products = Annotated[
    list[str] | None,
    typer.Option(
        *SOC_FLAGS,
        metavar="PRODUCT",
        autocompletion=chips_beginning,
        help="A product or chip to compare, or 'all' products; several with commas, or given "
        "several times.",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model, as for `npusim model`.")]
Rate = Annotated[float, typer.Option("--rate", help="Requests per second at the peak.")]
LimitMs = Annotated[float, typer.Option("--slo", metavar="MS", help="The limit in ms.")]
Quantile = Annotated[
    str, typer.Option("--quantile", help="The share of requests within the limit.")
]
MaxBatch = Annotated[int | None, typer.Option("--max-batch", help="Items in a batch.")]
MaxWaitMs = Annotated[
    float, typer.Option("--max-wait", metavar="MS", help="How long a batch may be awaited.")
]
Items = Annotated[int, typer.Option("--items", help="Items of one request.")]
Availability = Annotated[str, typer.Option("--availability", help="N, N+1 or N+2 cards.")]
Prices = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="PRODUCT=EUR", help="The price of a card; repeatable."),
]
PriceSheet = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="What cards cost and take, in YAML: `npusim init prices` writes one to fill in.",
    ),
]
TpotMs = Annotated[float, typer.Option("--tpot", metavar="MS", help="The limit of further tokens.")]
Dtypes = Annotated[
    str, typer.Option("--dtype", help="Quantisations, with commas; default: the config's.")
]


_FRONTS: Final = ("csv", "svg", "png")


class Delivery(NamedTuple):
    """Where a plan's answer goes: files, which may be overwritten, and standard output."""

    as_json: bool
    markdown: Path | None
    files: Files
    front: Path | None = None

    def claim(self, beside: Path) -> None:
        """Refuse files that can't be written, or that the plan is read from."""
        if self.front is not None:
            figure_kind("--front", self.front, _FRONTS)
        self.files.claim(self.markdown, self.front, beside=(beside,))

    def command(self, words: list[str]) -> str:
        """What makes the reports again; their names without their folders."""
        names = {"--md": self.markdown, "--front": self.front}
        files = {flag: path and path.name for flag, path in names.items()}
        return shlex.join(["npusim", *words, *_given(files), *self.files.words()])

    def send(self, page: Page, as_data: Callable[[], dict[str, Any]]) -> None:
        """Write the files, and print the page or the data."""
        if self.markdown is not None:
            from npusim.reporting.files import write_text
            from npusim.reporting.renderers.html import to_markdown

            write_text(self.markdown, to_markdown(page), force=self.files.force)
            output.note(say("written: {path}").format(path=self.markdown))
        self.files.write(page)
        if self.as_json:
            output.emit_json(as_data())
        else:
            output.emit(page)


def plan(
    file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="The plan.")],
    as_json: AsJson = False,
    markdown: Markdown = None,
    html: Html = None,
    figures: Figures = None,
    front: Front = None,
    seed: Seed = None,
    budget_s: BudgetS = None,
    force: Force = False,
) -> None:
    """How many cards? Workload and objective in, a card count for every product out.

    Exit code 1 when no product of the plan meets the objective, 3 when the budget ended before one
    was known to.

    Example: npusim plan examples/plan.yaml --html plan.html
    """
    from npusim.serving.asking import wanted_plan

    words = ["plan", str(file), *_given({"--seed": seed, "--budget": budget_s})]
    delivery = Delivery(as_json, markdown, Files(html, figures, force), front)
    _answer(wanted_plan(file, seed=seed, budget_s=budget_s), file, words, delivery)


def recommend(
    model: ModelFile,
    rate: Rate,
    limit_ms: LimitMs,
    products: Products = None,
    quantile: Quantile = "p99",
    max_batch: MaxBatch = None,
    max_wait_ms: MaxWaitMs = 0.0,
    items: Items = 1,
    availability: Availability = "N",
    price: Prices = None,
    price_sheet: PriceSheet = None,
    measured_on: MeasuredOn = None,
    tpot_ms: TpotMs = 50.0,
    input_tokens: InputTokens = 1024,
    output_tokens: OutputTokens = 256,
    dtypes: Dtypes = "",
    as_json: AsJson = False,
    markdown: Markdown = None,
    html: Html = None,
    figures: Figures = None,
    front: Front = None,
    seed: Seed = None,
    budget_s: BudgetS = None,
    force: Force = False,
) -> None:
    """How many cards for one model at one rate under one limit? Products side by side.

    For a language model (its config.json or folder) --slo is of the first token, and --tpot,
    --input, --output and --dtype say the rest.
    Everything else is as in a plan that says nothing about it: Poisson arrivals, 70 % target
    utilisation. Exit code 1 when no product meets the limit.

    Example: npusim recommend resnet50.onnx --rate 2000 --slo 20 -s 310p3
    """
    from npusim.capacity.asking import plan_of_model, read_prices
    from npusim.hardware.products import product_names
    from npusim.serving.asking import llm_plan_of_model, wanted_plan
    from npusim.serving.plan import is_language_model

    named = names(products, product_names, "products")
    if price and price_sheet:
        raise UsageError("--price and --prices", say("Write all prices into the file."))
    prices = read_prices(price_sheet) if price_sheet else _prices(price)
    words = ["recommend", str(model), "--rate", _number(rate), "--slo", _number(limit_ms)]
    words += [word for name in products or () for word in ("-s", name)]
    words += [word for each in price or () for word in ("--price", each)]
    words += _given({"--prices": price_sheet, "--quantile": quantile})
    if is_language_model(model):
        words += _given({"--tpot": _number(tpot_ms), "--input": input_tokens})
        words += _given({"--output": output_tokens, "--dtype": dtypes or None})
        asked = llm_plan_of_model(
            model, rate, (limit_ms, tpot_ms), (input_tokens, output_tokens), quantile,
            dtypes.split(","), named, prices,
        )  # fmt: skip
    else:
        words += _given({"--max-batch": max_batch, "--max-wait": _number(max_wait_ms)})
        words += _given({"--items": items, "--availability": availability})
        words += _given({"--measured-on": measured_on})
        objective = {"quantile": quantile, "limit_ms": limit_ms, "availability": availability}
        batching = _said(max_wait_ms=max_wait_ms, max_batch=max_batch)
        served = _said(items_per_request=items, measured_on=measured_on)
        asked = plan_of_model(model, served, rate, batching, objective, named, prices)
    words += _given({"--seed": seed, "--budget": budget_s})
    delivery = Delivery(as_json, markdown, Files(html, figures, force), front)
    wanted = wanted_plan(model, asked, seed=seed, budget_s=budget_s)
    _answer(wanted, model, words, delivery)


def _said(**values: object) -> dict[str, Any]:
    """What isn't None; a plan that says nothing about the rest has its own defaults."""
    return {name: value for name, value in values.items() if value is not None}


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
                say(
                    "Write the product as in -s and EUR for a card: --price 'Atlas 300I Pro=2500'."
                ),
            )
    return found


def _given(options: Mapping[str, object]) -> list[str]:
    """The options with a value, as words of a command line."""
    return [
        word for name, value in options.items() if value is not None for word in (name, str(value))
    ]


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _answer(wanted: Plan | LlmPlan, file: Path, words: list[str], delivery: Delivery) -> None:
    """Evaluate a plan whose files lie beside `file`; the exit code is the verdict."""
    from npusim.serving.plan import LlmPlan

    delivery.claim(file)
    if delivery.front is not None and not isinstance(wanted, LlmPlan):
        raise ArgumentError("--front of a network's plan", "Leave it away: --html has its figures.")
    if isinstance(wanted, LlmPlan):
        code = _llm_answer(wanted, file.parent, words, delivery)
    else:
        code = _capacity_answer(wanted, file.parent, words, delivery)
    if code:
        raise typer.Exit(code)


def _llm_answer(wanted: LlmPlan, folder: Path, words: list[str], delivery: Delivery) -> int:
    from npusim.reporting.files import atomic_write
    from npusim.reporting.llm_figures import front_file
    from npusim.reporting.llm_plan import llm_plan_json, llm_plan_page
    from npusim.serving.planning import plan_llm

    try:
        found = plan_llm(wanted, folder, output.progress)
    finally:
        output.progress("")
    page = llm_plan_page(found, delivery.command(words))
    if delivery.front is not None:
        with atomic_write(delivery.front, force=delivery.files.force) as stream:
            stream.write(front_file(found, figure_kind("--front", delivery.front, _FRONTS)))
        output.note(f"written: {delivery.front}")
    delivery.send(page, lambda: llm_plan_json(found))
    return 0 if found.chosen else 1


def _capacity_answer(wanted: Plan, folder: Path, words: list[str], delivery: Delivery) -> int:
    from npusim.capacity import SimulatedLatencies, evaluate
    from npusim.reporting.plan.data import plan_json
    from npusim.reporting.plan.page import plan_page

    source = SimulatedLatencies(wanted, folder, output.progress)
    try:
        result = evaluate(wanted, source, folder=folder, progress=output.progress)
    finally:
        output.progress("")
    page = plan_page(result, source.results, delivery.command(words))
    said = [page.subtitle, *(verdict.words for verdict in page.verdicts)]
    delivery.send(page, lambda: plan_json(result, source.results, said))
    return 0 if result.meeting else 3 if result.is_open else 1
