"""Is a random layout cheaper than the one that a plan names?

    python benchmarks/layouts.py [product] [TPOT in ms] [layouts] [config]

A config of reports/data/llm_configs, DeepSeek-R1 as w8a8 by default: 50 requests a second with
prompts of 1,024 and answers of 256 tokens, the first one within a second. Layouts are drawn of all
that are legal on the product (cards that do both, and pairs of cards that read and cards that
answer) with a limit of a step from 1 to 256 sequences; what no card can beat by its bound isn't
simulated. A layout is cheaper where it takes fewer cards than any of the plan, or fewer than the
named one where steps are at the slow end of their band. Exit code 1 where there is one.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import product
from math import inf
from pathlib import Path
from time import process_time

from npusim.capacity.boards import find_board
from npusim.hardware import load_profile
from npusim.llm import Batch, LanguageModel, Layout, read_model
from npusim.llm.engines import load_engine
from npusim.llm.memory import memory_of
from npusim.llm.precision import CONVERTED
from npusim.llm.step import precision_on
from npusim.serving.asking import llm_plan_of_model, wanted_plan
from npusim.serving.bounds import Bound, bound_of
from npusim.serving.layouts import layouts_of, server_ranks
from npusim.serving.options import Candidate
from npusim.serving.plan import LlmPlan
from npusim.serving.planning import Planner, plan_llm
from npusim.serving.sizing import Sizer
from npusim.values.errors import ArgumentError

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "reports" / "data" / "llm_configs"
RATE_PER_S, TTFT_MS, TOKENS = 50.0, 1000.0, (1024, 256)
LIMITS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def dtype_of(config: Path) -> str:
    """As what it is deployed: in bytes where 8-bit floats are published."""
    return "w8a8" if read_model(config).quantisation in CONVERTED else ""


def plan_on(where: str, tpot_ms: float, config: Path) -> LlmPlan:
    """The question about one product."""
    limits = (TTFT_MS, tpot_ms)
    dtypes = (dtype_of(config),)
    asked = llm_plan_of_model(config, RATE_PER_S, limits, TOKENS, "p90", dtypes, [where])
    plan = wanted_plan(config, asked)
    if not isinstance(plan, LlmPlan):
        raise TypeError(where)
    return plan


def legal(plan: LlmPlan, model: LanguageModel) -> dict[Layout, Bound]:
    """The layouts of the product that have room for a request, with their bounds."""
    board = find_board(plan.fleet.products[0].product)
    chip, found = load_profile(board.soc), {}
    precision = precision_on(model, chip, plan.llm.dtypes[0] or None)
    for layout in layouts_of(model.architecture, server_ranks(board), None):
        try:
            layout.check(model.architecture)
            memory = memory_of(model.architecture, layout, precision, Batch(1), chip, load_engine())
        except ArgumentError:
            continue
        if memory.kv_tokens >= sum(TOKENS):
            found[layout] = bound_of(
                model, chip, layout, precision, memory,
                context=TOKENS[0] + TOKENS[1] // 2, tpot_ms=plan.objective.tpot_ms,
            )  # fmt: skip
    return found


def least(bounds: dict[Layout, Bound], layout: Layout, decode: Layout | None, chips: int) -> float:
    """Cards that these layouts take at least."""
    reads, answers = (RATE_PER_S * each for each in TOKENS)
    if decode is None:
        return bounds[layout].ranks(layout, reads, answers) / chips
    both = bounds[layout].ranks(layout, reads, 0.0) + bounds[decode].ranks(decode, 0.0, answers)
    return both / chips


def main(
    where: str = "Atlas 800I A3", tpot_ms: float = 50.0, count: int = 200, name: str = "DeepSeek-R1"
) -> int:
    """Draw layouts and compare; how many are cheaper."""
    config = CONFIGS / f"{name}.json"
    plan, model = plan_on(where, tpot_ms, config), read_model(config)
    before, planner = process_time(), Planner(plan, model, None)
    found = plan_llm(plan, ROOT)
    fewest = min((each.cards for each in found.options if each.meets), default=sys.maxsize)
    named = found.chosen
    surely = named.surely if named else inf
    print(f"named: {named and (named.cards, named.slow_cards, named.candidate.where)}, fewest ")
    print(f"{fewest} ({process_time() - before:.0f} s of processor time)")
    bounds, board = legal(plan, model), find_board(plan.fleet.products[0].product)
    every = list(product(bounds, (None, *bounds), LIMITS))
    drawn = random.Random(0).sample(every, min(count, len(every)))  # noqa: S311
    sizer = Sizer(plan, model)
    sizer.coarse = True
    most = max(fewest, surely)
    simulated = cheaper = 0
    for layout, decode, limit in drawn:
        if least(bounds, layout, decode, board.devices_per_card) >= most:
            continue
        like = Candidate(
            board.name, board.soc, plan.llm.dtypes[0], layout, limit, board.devices_per_card
        )
        option = sizer.sized(replace(like, decode=decode))
        simulated += 1
        if not option.meets or option.cards >= most:
            continue
        option = planner.confirmed(option)
        if option.meets and (option.cards < fewest or option.surely < surely):
            cheaper += 1
            cards = option.cards, option.slow_cards
            print(f"! {cards} cards: {option.candidate.where}, {limit} sequences")
    print(
        f"{len(drawn)} of {len(every)} drawn: {len(drawn) - simulated} can't be cheaper by their "
        f"bound, {simulated} simulated, {cheaper} cheaper ({process_time() - before:.0f} s)"
    )
    return cheaper


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(bool(main(*said[:1], *map(float, said[1:2]), *map(int, said[2:3]), *said[3:4])))
