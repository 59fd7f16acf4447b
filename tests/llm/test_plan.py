"""Plans for language models: the cheapest fleet in time, what-ifs, wrong plans."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import npusim
from npusim.capacity.boards import find_board
from npusim.hardware import load_profile
from npusim.llm import Batch
from npusim.llm.engines import load_engine
from npusim.llm.memory import memory_of
from npusim.llm.step import precision_on
from npusim.reporting.llm_figures import front, front_file, places_of
from npusim.reporting.llm_plan import llm_plan_page, serve_command
from npusim.serving.asking import wanted_plan
from npusim.serving.bounds import bound_of
from npusim.serving.engine import Outcome
from npusim.serving.layouts import server_ranks
from npusim.serving.plan import LlmPlan
from npusim.serving.planning import LlmPlanResult, plan_llm
from npusim.serving.requests import even_lengths
from npusim.serving.results import course_of
from npusim.values.errors import FileError
from support import commands
from support.paths import ROOT

CONFIGS = ROOT / "reports" / "data" / "llm_configs"
PLAN = f"""
llm:
  config: {CONFIGS / "Qwen3-0.6B.json"}
  input_tokens: 500
  output_tokens: 100
  requests_per_s: 60
objective: {{ttft_ms: 500, tpot_ms: 30}}
fleet: {{products: [Atlas 800T A2, Atlas 300I Duo], tensor_parallel: [1, 2], serving: mixed}}
simulation: {{requests: 100}}
"""


def written(folder: Path, text: str = PLAN) -> Path:
    file = folder / "plan.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> LlmPlanResult:
    answer = npusim.plan(written(tmp_path_factory.mktemp("plan")))
    assert isinstance(answer, LlmPlanResult)
    return answer


def test_the_cheapest_comes_first_and_carries_the_load(found: LlmPlanResult) -> None:
    met = [each for each in found.options if each.meets]
    assert [each.cards for each in met] == sorted(each.cards for each in met)
    for each in met:
        assert each.rate_per_s * each.replicas >= found.plan.llm.requests_per_s
        assert each.served is not None
        assert each.served.goodput_req_s >= 0.9 * each.served.req_s
    assert found.chosen is met[0]


def test_the_runs_of_the_search_are_kept(found: LlmPlanResult) -> None:
    for each in found.options:
        rates = [rate for rate, _ in each.tried]
        assert rates == sorted(rates)
        assert each.confirmed or (each.rate_per_s in rates) == each.meets
    points = [place for each in places_of(found.options).values() for place in each]
    best = front(points)
    assert best == sorted(best)
    for across, up in points:  # whatever was tried is beaten by the front, or lies on it
        assert any(a <= across and u >= up for a, u in best)
    assert all(not (a < c and u >= v) for a, u in points for c, v in best)


def test_the_cache_holds_what_is_alive() -> None:
    requests = even_lengths(2, 100, 11, rate_per_s=None, spread=0.0, seed=0)
    outcome = Outcome([0.0, 0.0], [10.0, 30.0], [20.0, 40.0], [11, 11], 0, 0, 0.0, 0)
    course = course_of(requests, outcome, points=9)  # every 5 ms
    assert course.times_s == pytest.approx([0.005 * number for number in range(9)])
    grown = [0, 0, 101, 106, 0, 0, 101, 106, 0]
    assert course.tokens == pytest.approx(grown)


@pytest.mark.slow
def test_prices_decide_among_equals(found: LlmPlanResult, tmp_path: Path) -> None:
    priced = "[{product: Atlas 800T A2, price_per_card: 9}], currency: EUR, "
    text = PLAN.replace("[Atlas 800T A2, Atlas 300I Duo], ", priced)
    text = text.replace("tensor_parallel: [1, 2]", "tensor_parallel: [1]")
    wanted = wanted_plan(written(tmp_path, text))
    assert isinstance(wanted, LlmPlan)
    chosen = plan_llm(wanted, CONFIGS).chosen
    assert found.chosen is not None
    assert chosen is not None
    assert chosen.price == 9 * chosen.cards == 9 * found.chosen.cards
    with pytest.raises(FileError, match="no currency"):
        wanted_plan(written(tmp_path, text.replace("currency: EUR, ", "")))


def test_two_chips_of_a_card_are_one_card(found: LlmPlanResult) -> None:
    duo = [each for each in found.options if each.candidate.soc == "Ascend310P3" and each.meets]
    for each in duo:
        assert each.cards == -(-each.replicas * each.candidate.layout.tp // 2)


def test_what_ifs_take_no_fewer_cards(found: LlmPlanResult) -> None:
    chosen = found.chosen
    assert chosen is not None
    *harder, slower = found.what_ifs
    assert len(harder) == 5
    for each in harder:
        assert each.cards is None or each.cards >= chosen.cards
    assert slower.cards is not None
    assert slower.cards <= chosen.cards


# What is asked of one layout, where more of them would only be searched once more.
SMALL = PLAN.replace(", Atlas 300I Duo", "").replace(
    "tensor_parallel: [1, 2]", "tensor_parallel: [1]"
)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    said = commands.npusim(capsys, "plan", written(tmp_path, SMALL), "--html", page)
    assert said.code == 0
    assert "what if" in said.out
    text = page.read_text(encoding="utf-8")
    for label in ("Latency against load", "Tokens of a card against TPOT", "Memory and cache"):
        assert f'aria-label="{label}' in text
    assert f"--html {page.name}" in text
    hasty = SMALL.replace("ttft_ms: 500", "ttft_ms: 0.001")
    said = commands.npusim(capsys, "plan --json", written(tmp_path, hasty))
    assert said.code == 1
    assert said.json["cards"] is None
    assert "in time" in said.json["options"][0]["problem"]


@pytest.mark.slow
def test_a_recommendation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_bytes((CONFIGS / "Qwen3-0.6B.json").read_bytes())
    line = f"recommend {config} --rate 5 --slo 800 --tpot 40 -s 910b3 --quantile p90 --json"
    said = commands.npusim(capsys, line, "--price", "910b3=700").json
    assert said["cards"] >= 1
    assert f"({700 * said['cards']} EUR)" in said["verdict"][0]
    assert said["options"][0]["price"] == 700 * said["options"][0]["cards"]
    assert {each["tp"] for each in said["options"]} >= {1}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("requests_per_s: 60", "requests_per_s: 0"), "llm.requests_per_s"),
        (("tpot_ms: 30", "tpott_ms: 30"), "tpott_ms"),
        (("input_tokens: 500", "input_tokens: many"), "llm.input_tokens"),
        (("tensor_parallel: [1, 2]", "tensor_parallel: []"), "fleet.tensor_parallel"),
    ],
)
def test_a_wrong_plan_is_refused(tmp_path: Path, changed: tuple[str, str], said: str) -> None:
    with pytest.raises(FileError, match=said):
        wanted_plan(written(tmp_path, PLAN.replace(*changed)))


@pytest.mark.parametrize(("name", "ranks"), [("910_93", 16), ("Atlas 800I A3", 16), ("910B3", 8)])
def test_a_bare_chip_has_the_servers_that_it_is_sold_in(name: str, ranks: int) -> None:
    assert server_ranks(find_board(name)) == ranks


def test_the_defaults() -> None:
    assert LlmPlan.model_fields["simulation"].default.requests == 300


MIXTURE = f"""
llm:
  config: {CONFIGS / "Qwen3-30B-A3B.json"}
  dtypes: [w8a8]
  input_tokens: 1000
  output_tokens: 100
  requests_per_s: 40
objective: {{ttft_ms: 500, tpot_ms: 25}}
fleet: {{products: [Atlas 800I A3], most_layouts: 3}}
simulation: {{requests: 100}}
"""


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> LlmPlanResult:
    answer = npusim.plan(written(tmp_path_factory.mktemp("mixture"), MIXTURE))
    assert isinstance(answer, LlmPlanResult)
    return answer


@pytest.mark.slow
def test_a_search_says_of_every_layout_what_became_of_it(mixture: LlmPlanResult) -> None:
    """Simulated, impossible, too dear by its bound, or left out: each with its reason."""
    layouts = {(each.candidate.layout, each.candidate.decode) for each in mixture.options}
    assert len(layouts) > 20
    assert {each.candidate.layout.tp for each in mixture.options} == {1, 2, 4, 8, 16}
    for each in mixture.options:
        assert each.meets or each.problem
        assert each.simulated or "not s" in each.problem or "at least" in each.problem
    page = "\n".join(each.text for each in llm_plan_page(mixture).verdicts)
    assert "can't" not in page


@pytest.mark.slow
def test_the_command_of_a_plan_gives_what_it_promises(
    mixture: LlmPlanResult, capsys: pytest.CaptureFixture[str]
) -> None:
    option = mixture.chosen
    assert option is not None
    line = serve_command(mixture, option).removeprefix("npusim ")
    said = commands.npusim(capsys, f"{line} --json").json
    assert option.served is not None
    assert said["ttft_ms"]["p90"] == pytest.approx(option.served.ttft_ms.p90)
    assert said["tpot_ms"]["p90"] == pytest.approx(option.served.tpot_ms.p90)
    assert said["goodput_req_s"] >= 0.9 * said["req_s"]


@pytest.mark.slow
def test_no_layout_takes_fewer_cards_than_its_bound(mixture: LlmPlanResult) -> None:
    model, chip = mixture.model, load_profile("A3")
    precision = precision_on(model, chip, "w8a8")
    for option in [each for each in mixture.options if each.meets]:
        layout = option.candidate.decode or option.candidate.layout
        memory = memory_of(model.architecture, layout, precision, Batch(1), chip, load_engine())
        bound = bound_of(model, chip, layout, precision, memory, context=1000, tpot_ms=25)
        ranks = bound.ranks(layout, 0.0, 40 * 100)
        assert option.cards * option.candidate.chips_per_card >= ranks


@pytest.mark.slow
def test_a_draft_and_a_sampler_are_keys(tmp_path: Path) -> None:
    text = PLAN.replace(
        "requests_per_s: 60",
        "requests_per_s: 60\n  draft: 1\n  accepted: 0.7\n  sampling: {greedy: true}",
    ).replace("[Atlas 800T A2, Atlas 300I Duo]", "[Atlas 800T A2]")
    text = text.replace("tensor_parallel: [1, 2]", "tensor_parallel: [1]")
    answer = npusim.plan(written(tmp_path, text))
    assert isinstance(answer, LlmPlanResult)
    assert {each.candidate.draft for each in answer.options} == {0, 1}
    assert "--greedy" in serve_command(answer, answer.options[0])
    with pytest.raises(FileError, match="accepted of a draft"):
        wanted_plan(written(tmp_path, text.replace("accepted: 0.7", "accepted: 3")))


def test_from_python_it_is_a_line_a_notebook_table_and_a_page(
    found: LlmPlanResult, tmp_path: Path
) -> None:
    assert found.chosen is not None
    product = found.chosen.candidate.product
    assert repr(found).startswith(f"<LlmPlanResult language model: {product} {found.chosen.cards} ")
    assert found._repr_html_().count("<tr>") == len(found.options) + 1
    page = npusim.report(found, tmp_path / "plan.md").read_text(encoding="utf-8")
    assert f"{product} needs" in page


def test_recommend_takes_the_id_of_a_language_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--Qwen--Qwen3-0.6B" / "snapshots" / "1a2b"
    place.mkdir(parents=True)
    config = json.loads((CONFIGS / "Qwen3-0.6B.json").read_text(encoding="utf-8"))
    config |= {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1}
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokens = {"input_tokens": 200, "output_tokens": 20}
    answer = npusim.recommend(
        "Qwen/Qwen3-0.6B",
        rate_per_s=2,
        limit_ms=0.001,  # which nothing is worth simulating for
        products=["Atlas 300I Duo"],
        quantile="p90",
        **tokens,
    )
    assert isinstance(answer, LlmPlanResult)
    assert answer.model.name == "Qwen3-0.6B"
    assert answer.plan.llm.input_tokens == 200
    with pytest.raises(FileError, match="ttft_ms"):
        npusim.recommend(place, rate_per_s=2, limit_ms=-1, products=["Atlas 300I Duo"])


def test_the_front_as_a_file(found: LlmPlanResult) -> None:
    lines = front_file(found, "csv").decode().splitlines()
    rows = list(csv.DictReader(lines))
    assert len(rows) == sum(len(each.tried) for each in found.options)
    points = [place for each in places_of(found.options).values() for place in each]
    on_front = {
        (float(row["tpot_p90_ms"]), float(row["tokens_per_s_of_a_card"]))
        for row in rows
        if row["on_front"] == "1"
    }
    assert on_front == set(front(points))
    assert front_file(found, "png").startswith(b"\x89PNG")
    drawn = front_file(found, "svg").decode()
    assert "<svg" in drawn
    assert "#0a0a" not in drawn  # colours that only pages know


def test_what_is_published_in_8_bit_floats_is_tried_in_whole_numbers_too(tmp_path: Path) -> None:
    """Unless the plan names dtypes: weights converted to bf16 take twice the memory."""
    raw = json.loads((CONFIGS / "Qwen3-0.6B.json").read_text())
    raw["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (tmp_path / "config.json").write_text(json.dumps(raw))
    text = PLAN.replace(str(CONFIGS / "Qwen3-0.6B.json"), "config.json")
    text = text.replace("Atlas 800T A2, Atlas 300I Duo", "Atlas 800T A2")
    text = text.replace("tpot_ms: 30", "tpot_ms: 0.001")  # which nothing is worth simulating for
    for said, dtypes in (("", {"", "w8a8"}), ("  dtypes: [bf16]\n", {"bf16"})):
        file = written(tmp_path, text.replace("  requests_per_s", f"{said}  requests_per_s"))
        answer = npusim.plan(file)
        assert isinstance(answer, LlmPlanResult)
        assert {each.candidate.dtype for each in answer.options} == dtypes
