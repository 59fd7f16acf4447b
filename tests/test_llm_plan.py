"""Plans for language models: the cheapest fleet in time, what-ifs, wrong plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.serving.plan import LlmPlan, read_llm_plan
from npusim.serving.planning import LlmPlanResult, plan_llm
from npusim.values.errors import FileError
from support import commands

CONFIGS = Path(__file__).parent.parent / "reports" / "data" / "llm_configs"
PLAN = f"""
llm:
  config: {CONFIGS / "Qwen3-0.6B.json"}
  input_tokens: 500
  output_tokens: 100
  requests_per_s: 60
objective: {{ttft_ms: 500, tpot_ms: 30}}
fleet: {{products: [Atlas 800T A2, Atlas 300I Duo], tensor_parallel: [1, 2]}}
simulation: {{requests: 100}}
"""


def written(folder: Path, text: str = PLAN) -> Path:
    file = folder / "plan.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> LlmPlanResult:
    return plan_llm(read_llm_plan(written(tmp_path_factory.mktemp("plan"))), CONFIGS)


def test_the_cheapest_comes_first_and_carries_the_load(found: LlmPlanResult) -> None:
    met = [each for each in found.options if each.meets]
    assert [each.cards for each in met] == sorted(each.cards for each in met)
    for each in met:
        assert each.rate_per_s * each.replicas >= found.plan.llm.requests_per_s
        assert each.served is not None
        assert each.served.goodput_req_s >= 0.9 * each.served.req_s
    assert found.chosen is met[0]


def test_two_chips_of_a_card_are_one_card(found: LlmPlanResult) -> None:
    duo = [each for each in found.options if each.candidate.soc == "Ascend310P3" and each.meets]
    for each in duo:
        assert each.cards == -(-each.replicas * each.candidate.layout.tp // 2)


def test_what_ifs_take_no_fewer_cards(found: LlmPlanResult) -> None:
    chosen = found.chosen
    assert chosen is not None
    assert len(found.what_ifs) == 4
    for each in found.what_ifs:
        assert each.cards is None or each.cards >= chosen.cards


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    said = commands.npusim(capsys, "plan", written(tmp_path), "--html", page)
    assert said.code == 0
    assert "what if" in said.out
    assert "cards of" in page.read_text(encoding="utf-8")
    hasty = PLAN.replace("ttft_ms: 500", "ttft_ms: 0.001")
    said = commands.npusim(capsys, "plan --json", written(tmp_path, hasty))
    assert said.code == 1
    assert said.json["cards"] is None
    assert "in time" in said.json["options"][0]["problem"]


def test_a_recommendation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_bytes((CONFIGS / "Qwen3-0.6B.json").read_bytes())
    line = f"recommend {config} --rate 5 --slo 800 --tpot 40 -s 910b3 --quantile p90 --json"
    said = commands.npusim(capsys, line).json
    assert said["cards"] >= 1
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
        read_llm_plan(written(tmp_path, PLAN.replace(*changed)))


def test_the_defaults() -> None:
    assert LlmPlan.model_fields["simulation"].default.requests == 300
