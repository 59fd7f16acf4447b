"""Spare replicas for cards that fail, and requests that don't take turns in a plan."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.llm import Layout, Popularity, read_model
from npusim.serving.options import Candidate
from npusim.serving.plan import LlmPlan
from npusim.serving.sizing import Sizer
from npusim.serving.spares import fewest_spares, spares_of
from npusim.values.errors import ArgumentError
from support.paths import ROOT

CONFIG = ROOT / "reports" / "data" / "llm_configs" / "Qwen3-0.6B.json"


def plan_of(**fleet: object) -> LlmPlan:
    llm = {"config": str(CONFIG), "input_tokens": 500, "output_tokens": 50, "requests_per_s": 120}
    return LlmPlan.model_validate({
        "llm": llm, "objective": {"ttft_ms": 500, "tpot_ms": 30, "availability": 0.99},
        "fleet": {"products": ["Atlas 800T A2"], **fleet}, "simulation": {"requests": 100},
    })  # fmt: skip


def candidate_of(layout: Layout, decode: Layout | None = None, chips: int = 1) -> Candidate:
    return Candidate("Atlas 800T A2", "Ascend910B3", "", layout, 32, chips, decode=decode)


def works_for(installed: int, needed: int, works: float) -> float:
    return sum(
        comb(installed, up) * works**up * (1 - works) ** (installed - up)
        for up in range(needed, installed + 1)
    )


@given(needed=st.integers(1, 30), works=st.floats(0.5, 0.9999), share=st.floats(0.5, 0.9999))
def test_the_fewest_spares_are_enough_and_one_fewer_is_not(
    needed: int, works: float, share: float
) -> None:
    spare = fewest_spares(needed, works, share)
    assert works_for(needed + spare, needed, works) >= share - 1e-9
    assert not spare or works_for(needed + spare - 1, needed, works) < share + 1e-9


def test_what_never_works_has_no_number_of_spares() -> None:
    assert fewest_spares(3, 1.0, 0.999) == 0
    with pytest.raises(ArgumentError, match="no spare replicas make 2 of them"):
        fewest_spares(2, 1e-6, 0.999)


def test_larger_replicas_fail_more_often() -> None:
    plan = plan_of(card_mtbf_h=1000)
    small, large = (spares_of(plan, candidate_of(Layout(tp)), 8)[0] for tp in (1, 8))
    assert 0 < small < large
    assert spares_of(plan, candidate_of(Layout(8), chips=2), 8)[0] <= large
    apart = candidate_of(Layout(4), Layout(1, 1, 32))
    reading, answering = spares_of(plan, apart, 4, 1)
    assert reading > 0
    assert answering > 1  # one replica of 32 cards works for less than half of the time
    assert spares_of(plan_of(spare_replicas=2), candidate_of(Layout(8)), 8) == (2, 0)


def test_who_has_least_to_read_gets_the_request_in_a_plan_too() -> None:
    """Prompts of uneven lengths wait less where the router looks at them."""
    waits = {}
    for router in ("round_robin", "least_loaded"):
        plan = plan_of(router=router)
        uneven = plan.model_copy(update={"llm": plan.llm.model_copy(update={"spread": 0.9})})
        sizer = Sizer(uneven, read_model(CONFIG))
        candidate = candidate_of(Layout())
        ready = sizer.deployed(candidate, candidate.layout)
        found = sizer.at(ready, 40.0, number=2000)
        assert found.requests == 2000
        assert found.output_tokens == pytest.approx(2000 * 50, rel=0.1)
        waits[router] = found.ttft_ms.mean
    assert sizer.together(40.0) == 3
    assert waits["least_loaded"] < waits["round_robin"]


def test_what_was_served_once_is_kept() -> None:
    """For other numbers of requests a second too, where a replica gets as many."""
    plan = plan_of()
    sizer, candidate = Sizer(plan, read_model(CONFIG)), candidate_of(Layout())
    ready = sizer.deployed(candidate, candidate.layout)
    found = sizer.at(ready, 20.0, number=50)
    twice = plan.llm.model_copy(update={"requests_per_s": 2 * plan.llm.requests_per_s})
    other = sizer.otherwise(plan.model_copy(update={"llm": twice}))
    assert other.at(ready, 20.0, number=50) is found
    for changed in (other.at(ready, 20.0, number=51), other.at(ready, 21.0, number=50),
                    other.at(ready, 20.0, number=50, seed=7)):  # fmt: skip
        assert changed != found
    longer = plan.llm.model_copy(update={"input_tokens": 2 * plan.llm.input_tokens})
    again = sizer.otherwise(plan.model_copy(update={"llm": longer}))
    assert again.at(ready, 20.0, number=50) != found


def test_how_popular_experts_are_is_a_key(tmp_path: Path) -> None:
    plan = plan_of()
    assert Sizer(plan, read_model(CONFIG)).options("")["popularity"] is None
    skewed = plan.llm.model_copy(update={"expert_skew": 0.5})
    assert skewed.popularity == Popularity(0.5)
    counts = tmp_path / "counts.json"
    counts.write_text("[3, 2, 1, 1]")
    counted = plan.llm.model_copy(update={"expert_counts": str(counts)})
    assert counted.popularity is not None
    assert counted.popularity.counts == (3, 2, 1, 1)
