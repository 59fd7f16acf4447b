"""Is a random layout cheaper than the one that a plan names?

    python benchmarks/layouts.py [product] [TPOT in ms] [layouts]

DeepSeek-R1 as w8a8, 50 requests a second with prompts of 1,024 and answers of 256 tokens, the first
one within a second. Layouts are drawn from all that are legal on the product (cards that do both,
and pairs of cards that read and cards that answer) with a limit of a step from 1 to 256 sequences;
what no card can beat by its bound isn't simulated. Exit code 1 where one takes fewer cards.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from time import process_time

from npusim.capacity.boards import find_board
from npusim.hardware import load_profile
from npusim.llm import Batch, LanguageModel, Layout, read_model
from npusim.llm.engines import load_engine
from npusim.llm.memory import memory_of
from npusim.llm.precision import precision_of
from npusim.serving.asking import llm_plan_of_model, wanted_plan
from npusim.serving.bounds import Bound, bound_of
from npusim.serving.layouts import layouts_of, server_ranks
from npusim.serving.options import Candidate
from npusim.serving.plan import LlmPlan
from npusim.serving.planning import plan_llm
from npusim.serving.sizing import Sizer
from npusim.values.errors import ArgumentError

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "reports" / "data" / "llm_configs" / "DeepSeek-R1.json"
RATE_PER_S, TTFT_MS, TOKENS, DTYPE = 50.0, 1000.0, (1024, 256), "w8a8"
LIMITS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def plan_on(where: str, tpot_ms: float) -> LlmPlan:
    """The question about one product."""
    limits = (TTFT_MS, tpot_ms)
    asked = llm_plan_of_model(CONFIG, RATE_PER_S, limits, TOKENS, "p90", (DTYPE,), [where])
    plan = wanted_plan(CONFIG, asked)
    if not isinstance(plan, LlmPlan):
        raise TypeError(where)
    return plan


def legal(plan: LlmPlan, model: LanguageModel) -> dict[Layout, Bound]:
    """The layouts of the product that have room for a request, with their bounds."""
    board = find_board(plan.fleet.products[0].product)
    chip, found = load_profile(board.soc), {}
    precision = precision_of(DTYPE, "bf16")
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


def main(where: str = "910_93", tpot_ms: float = 50.0, count: int = 200) -> int:
    """Draw layouts and compare; how many are cheaper."""
    plan, model = plan_on(where, tpot_ms), read_model(CONFIG)
    before = process_time()
    chosen = plan_llm(plan, ROOT).chosen
    named = chosen.cards if chosen else sys.maxsize
    told = chosen.candidate.where if chosen else "no layout"
    print(f"named: {named} cards, {told} ({process_time() - before:.0f} s of processor time)")
    bounds, board = legal(plan, model), find_board(plan.fleet.products[0].product)
    every = list(product(bounds, (None, *bounds), LIMITS))
    drawn = random.Random(0).sample(every, min(count, len(every)))  # noqa: S311
    sizer = Sizer(plan, model)
    sizer.coarse = True
    simulated = cheaper = 0
    for layout, decode, limit in drawn:
        if least(bounds, layout, decode, board.devices_per_card) >= named:
            continue
        like = Candidate(board.name, board.soc, DTYPE, layout, limit, board.devices_per_card)
        option = sizer.sized(replace(like, decode=decode))
        simulated += 1
        if option.meets and option.cards < named:
            cheaper += 1
            print(f"! {option.cards} cards: {option.candidate.where}, {limit} sequences")
    print(
        f"{len(drawn)} of {len(every)} drawn: {len(drawn) - simulated} can't be cheaper by their "
        f"bound, {simulated} simulated, {cheaper} cheaper ({process_time() - before:.0f} s)"
    )
    return cheaper


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(bool(main(*said[:1], *map(float, said[1:2]), *map(int, said[2:3]))))
