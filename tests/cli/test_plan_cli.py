"""Plans on the command line: timed by the simulator, one clear message for a wrong one."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

from npusim.capacity import (
    PlanResult,
    ServiceCurve,
    SimulatedLatencies,
    evaluate,
    find_board,
    plan_of,
    read_plan,
)
from npusim.hardware.products import product_names
from npusim.reporting.plan.page import plan_page
from npusim.reporting.renderers.html import to_markdown
from npusim.values import drawing
from npusim.values.errors import ArgumentError, RejectedError
from support.commands import npusim
from support.paths import ROOT

EXAMPLES = ROOT / "reports" / "plans"

TOWER = """
name: Tower
calls:
  - op: aclnnMatmul
    count: 4
    arguments: {self: "fp16[{B*64},512]", mat2: "fp16[512,512]", cubeMathType: 0}
    weights: [mat2]
  - op: Relu
    count: 4
    inputs: ["fp16[{B*64},512]"]
    outputs: ["fp16[{B*64},512]"]
"""

NORM = """
calls:
  - op: aclnnGroupNormBackward
    arguments:
      gradOut: bf16[{B},64,256]
      input: bf16[{B},64,256]
      mean: bf16[{B},8]
      rstd: bf16[{B},8]
      gamma: bf16[64]
      N: "{B}"
      C: 64
      HxW: 256
      group: 8
      outputMask: [true, true, true]
"""

PROFILE = (
    "Name,Type,Accelerator Core,Duration(us),Block Num,Input Shapes,Input Data Types,"
    "Input Formats,Output Shapes,Output Data Types,Output Formats\n"
    'a,Add,AI_CORE,90.0,1,"65536,64;65536,64",FLOAT;FLOAT,ND;ND,"65536,64",FLOAT,ND\n'
)

BASE: dict[str, Any] = {
    "workload": {
        "models": [{"name": "tower", "reference": "tower.yaml"}],
        "peak_requests_per_s": 4000,
        "batching": {"max_batch": 4, "max_wait_ms": 1},
    },
    "objective": {"quantile": "p90", "limit_ms": 10, "availability": "N+1"},
    "fleet": {"products": ["Atlas 300I Pro", "Ascend910B3"]},
    "simulation": {"runs": 2, "requests": 600, "max_cards": 64},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with models and the base plan."""
    for name, text in (
        ("tower.yaml", TOWER),
        ("norm.yaml", NORM),
        ("kernel_details.csv", PROFILE),
        ("empty.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"),
        ("plan.yaml", yaml.safe_dump(BASE)),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def changed(folder: Path, path: str, value: Any) -> Path:
    """The base plan with one value replaced, or removed where it is ``...``."""
    raw = json.loads(json.dumps(BASE))
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place: Any = raw
    for step in steps:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    if value is ...:
        del place[last]
    else:
        place[last] = value
    file = folder / "changed.yaml"
    file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return file


def source_of(plan_file: Path) -> tuple[SimulatedLatencies, Any]:
    plan = read_plan(plan_file)
    return SimulatedLatencies(plan, plan_file.parent), plan


# The latency source


def test_a_curve_is_timed_at_powers_of_two_and_at_what_the_plan_names(folder: Path) -> None:
    file = changed(folder, "workload.batching.max_batch", 6)
    source, plan = source_of(file)
    model, board = plan.workload.models[0], find_board("Atlas 300I Pro")
    curve = source.curve(model, board)
    assert [point.batch for point in curve.points] == [1, 2, 4, 6]
    assert source.curve(model, board) is curve
    timed = source.results["tower", "Ascend310P3"]
    assert list(timed) == [1, 2, 4, 6]
    assert isinstance(curve, ServiceCurve)
    for point in curve.points:
        assert point.latency_us >= timed[point.batch].duration_us
        assert point.lo_us < point.latency_us < point.hi_us
        assert point.memory_bytes == timed[point.batch].memory.total_bytes
    assert "Ascend310P3" in curve.basis
    assert "no host dispatch" in curve.basis


def test_an_open_batch_is_timed_far_enough_to_choose(folder: Path) -> None:
    source, plan = source_of(changed(folder, "workload.batching", {}))
    curve = source.curve(plan.workload.models[0], find_board("Ascend910B3"))
    assert curve.max_batch == 32


def test_host_dispatch_is_a_parameter_of_the_plan(folder: Path) -> None:
    graph, plan = source_of(folder / "plan.yaml")
    eager, hosted = source_of(changed(folder, "workload.models.0.host_dispatch_us", 100))
    board = find_board("Ascend910B3")
    quick = graph.curve(plan.workload.models[0], board).latency_us(1)
    slow = eager.curve(hosted.workload.models[0], board)
    assert slow.latency_us(1) > quick + 500
    assert "with 100 us of host time" in slow.basis


def test_a_profile_is_one_item_and_refuses_to_be_more(folder: Path) -> None:
    model = {"name": "step", "reference": "kernel_details.csv", "measured_on": "Ascend910A"}
    raw = json.loads(json.dumps(BASE))
    raw["workload"]["models"] = [model]
    raw["workload"]["batching"] = {}
    plan = plan_of(raw)
    curve = SimulatedLatencies(plan, folder).curve(plan.workload.models[0], find_board("910A"))
    assert curve.max_batch == 1
    raw["workload"]["batching"] = {"max_batch": 4}
    plan = plan_of(raw)
    with pytest.raises(ArgumentError, match="has no batch axis") as caught:
        SimulatedLatencies(plan, folder).curve(plan.workload.models[0], find_board("910A"))
    assert "Set max_batch and items_per_request to 1" in caught.value.remedy


def test_a_model_that_can_t_run_is_the_product_s_answer(folder: Path) -> None:
    source, plan = source_of(changed(folder, "workload.models.0.reference", "norm.yaml"))
    model = plan.workload.models[0]
    with pytest.raises(RejectedError, match="aclnnGroupNormBackward"):
        source.curve(model, find_board("Atlas 300I Pro"))
    half = source.curve(model, find_board("Atlas 300T training card"))
    assert "in FLOAT16 instead of BFLOAT16: aclnnGroupNormBackward" in half.basis


# npusim plan


def test_the_verdict_comes_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, "plan", folder / "plan.yaml")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert "4,000 requests/s at the peak, p90 within 10 ms, N+1" in lines[0]
    assert "Atlas 300I Pro" in said.out
    assert "Ascend910B3" in said.out
    for words in ("The plan", "The models", "What if", "load grows twofold", "Assumptions"):
        assert words in said.out


def test_a_budget_that_ends_too_early_is_no_no(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = npusim(capsys, "plan --budget 1e-6 --json", folder / "plan.yaml")
    assert said.code == 3
    found = json.loads(said.out)
    assert found["verdict"][1].startswith("Undecided")
    assert any(each["budget_spent"] for each in found["products"])
    assert npusim(capsys, "plan --budget 0", folder / "plan.yaml").code == 2
    assert npusim(capsys, "plan --budget 10", EXAMPLES / "chat.yaml").code == 2


def test_json_has_everything_and_the_same_seed_the_same_bytes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = npusim(capsys, "plan --json", folder / "plan.yaml")
    again = npusim(capsys, "plan --json --seed 1", folder / "plan.yaml")
    other = npusim(capsys, "plan --json --seed 2", folder / "plan.yaml")
    assert first.code == 0, first.err
    assert first.out == again.out
    assert first.out != other.out
    answer = first.json
    assert answer["peak_requests_per_s"] == 4000
    for each in answer["products"]:
        assert each["meets"]
        assert each["cards"]["installed"] == each["cards"]["working"] + 1
        assert each["at_peak"]["meets"]
        (model,) = each["models"]
        assert [point["batch"] for point in model["curve"]] == [1, 2, 4]
        assert model["evidence"][0]["simulated_share"] == 1
        assert {what["name"] for what in each["what_if"]} == {
            "load grows twofold",
            "latencies at the slow end",
        }


def test_markdown_is_a_whole_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = folder / "plan.md"
    said = npusim(capsys, "plan", folder / "plan.yaml", "--md", page)
    assert said.code == 0, said.err
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Capacity plan\n\n4,000 requests/s at the peak")
    for heading in (
        "## The models",
        "## What if",
        "Cards over load",
        "Where the time goes",
        "## Assumptions",
    ):
        assert heading in text
    assert f"npusim plan {folder / 'plan.yaml'}" in text
    again = npusim(capsys, "plan", folder / "plan.yaml", "--md", page)
    assert again.code == 2
    assert "already exists" in again.err
    assert page.read_text(encoding="utf-8") == text


def test_html_and_markdown_say_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html, page = folder / "plan.html", folder / "page.md"
    said = npusim(capsys, "plan", folder / "plan.yaml", "--html", html, "--md", page)
    assert said.code == 0, said.err
    text = unescape(html.read_text(encoding="utf-8"))
    for line in page.read_text(encoding="utf-8").splitlines():
        words = line.strip("#*- ")
        if line.startswith(("#", "**", "- ")):
            assert words.split(": ")[-1] in text
    for verdict in said.out.splitlines()[1:3]:
        assert verdict.strip() in text


def test_arrivals_come_from_a_trace_beside_the_plan(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamps = (f"2023-11-16 18:15:{number // 10:02d}.{number % 10}805900" for number in range(400))
    lines = "".join(f"{stamp},374,44\n" for stamp in stamps)
    trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + lines
    (folder / "azure.csv").write_text(trace, encoding="utf-8")
    file = changed(folder, "workload.arrivals", {"kind": "trace", "file": "azure.csv"})
    said = npusim(capsys, "plan --json", file)
    assert said.code == 0, said.err
    assert "azure.csv" in said.json["arrivals"]
    assert said.json["peak_requests_per_s"] == pytest.approx(4000)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("workload.peak_requests_per_s", -5, "workload.peak_requests_per_s is -5; it must be"),
        ("objective.limit_ms", 0.001, "and the limit is 0.001 ms"),
        ("fleet.products", ["Atlas 300I Prq"], "Did you mean Atlas 300I Pro"),
        ("workload.arrivals", {"kind": "trace", "file": "empty.csv"}, "empty.csv"),
        ("workload.batching", {"max_batch": 1, "max_wait_ms": 3}, "waits for nobody"),
        ("workload.models.0.items_per_request", 9, "no batch could hold it"),
        ("workload.models.0.reference", "missing.yaml", "there is no such file"),
        ("workload.models.0.reference", "plan.yaml", "unknown key"),
        ("workload.models.0.reference", "kernel_details.csv", "has no batch axis"),
        ("workload.models.0.l2", "hot", "it must be 'order', 'busy', 'in_graph', 'cold' or 'warm'"),
        ("workload.models.0.measured_on", "Ascend999", "unknown"),
        ("workload.models.0.reference", ..., "needs one of reference, curve and curves"),
        ("objective", ..., "objective is missing"),
    ],
)
def test_a_wrong_plan_gets_one_clear_message(
    folder: Path, capsys: pytest.CaptureFixture[str], path: str, value: Any, complaint: str
) -> None:
    if path == "workload.batching":
        value = dict(value)
    if path == "objective.limit_ms":
        file = changed(folder, "workload.batching.max_wait_ms", 0)
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
        raw["objective"]["limit_ms"] = value
        file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    else:
        file = changed(folder, path, value)
    said = npusim(capsys, "plan", file)
    assert said.code == 2
    assert complaint in said.err
    assert said.err.count("error: ") == 1
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_product_that_can_t_run_the_model_doesn_t_hide_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = changed(folder, "workload.models.0.reference", "norm.yaml")
    said = npusim(capsys, "plan --json", file)
    assert said.code == 0, said.err
    cant, does = said.json["products"]
    assert (cant["meets"], cant["verdict"]) == (False, "can't run a model")
    assert "561003" in cant["reason"]
    assert does["meets"]
    raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    raw["fleet"]["products"] = ["Atlas 300I Pro"]
    file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    alone = npusim(capsys, "plan", file)
    assert alone.code == 1
    assert "No product of the plan meets the objective." in alone.out


def test_both_reports_say_how_to_make_them_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, page = folder / "a page.html", folder / "page.md"
    file = folder / "tower.yaml"
    line = "recommend --rate 50 --slo 12.5 --quantile p90 --items 2 --max-batch 4 -s 310P3 --seed 5"
    said = npusim(capsys, line, file, "--html", html, "--md", page)
    assert said.code == 0, said.err
    command = (
        f"npusim recommend {file} --rate 50 --slo 12.5 -s 310P3 --quantile p90 --max-batch 4 "
        "--max-wait 0 --items 2 --availability N --seed 5 --md page.md --html 'a page.html'"
    )
    assert command in page.read_text(encoding="utf-8")
    assert command in unescape(html.read_text(encoding="utf-8"))


def test_one_file_can_t_hold_both_reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = folder / "page"
    said = npusim(capsys, "plan", folder / "plan.yaml", "--html", both, "--md", both)
    assert (said.code, said.out, both.exists()) == (2, "", False)
    assert "is named twice" in said.err


def test_figures_are_drawn_for_pages_that_show_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(
        drawing.Drawing, "embedded", lambda each, _: drawn.append(each.name) or "<svg></svg>"
    )
    line = "recommend --rate 50 --slo 12.5 -s 310P3"
    assert npusim(capsys, line, folder / "tower.yaml", "--md", folder / "a.md").code == 0
    assert not drawn
    assert npusim(capsys, line, folder / "tower.yaml", "--html", folder / "a.html").code == 0
    assert {"by-cards", "latency", "utilisation"} <= set(drawn)
    assert len(drawn) == len(set(drawn))


# npusim recommend


def test_a_recommendation_is_a_plan_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = npusim(
        capsys,
        "recommend --rate 2000 --slo 10 --quantile p90 --max-batch 4 -s 310P3,910B3 --json",
        folder / "tower.yaml",
    )
    assert said.code == 0, said.err
    answer = said.json
    assert [each["product"] for each in answer["products"]] == ["Ascend310P3", "Ascend910B3"]
    assert answer["plan"]["objective"]["limit_ms"] == 10
    assert all(each["meets"] for each in answer["products"])


def test_a_recommendation_ranks_by_prices_where_all_are_known(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["310P3", "Atlas 300V Pro", "Atlas 300I Pro"]
    line = ["recommend --rate 20 --slo 50", *(word for each in asked for word in ("-s", each))]
    line += ["--price", "Atlas 300I Pro=2500", "--price", "310P3=3000"]
    said = npusim(capsys, *line, folder / "tower.yaml")
    assert said.code == 0, said.err
    assert said.out.splitlines()[1].strip().startswith("Ascend310P3 needs 1 card (3,000 EUR) to ")
    assert "a card of one isn't a card of another" in " ".join(said.out.split())
    said = npusim(capsys, *line, "--price", "Atlas 300V Pro=2800", folder / "tower.yaml")
    lines = [line.strip() for line in said.out.splitlines()]
    assert lines[1].startswith("Atlas 300I Pro inference card needs 1 card (72 W, 2,500 EUR) to ")
    table = said.out[said.out.index("The plan") :]
    places = [table.index(each) for each in ("300I Pro", "300V Pro", "310P3")]
    assert places == sorted(places)


def test_prices_come_from_a_sheet(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert npusim(capsys, "init prices").code == 0
    text = (folder / "prices.yaml").read_text(encoding="utf-8")
    line = "recommend tower.yaml --rate 20 --slo 50 -s 310P3 -s"
    said = npusim(capsys, line, "Atlas 300I Pro", "--prices", "prices.yaml")
    assert said.code == 0, said.err
    first = "{product: Atlas 300I Pro, price_per_card: null"
    known = text.replace(first, first.replace("null", "2500"))
    (folder / "mine.yaml").write_text(known, encoding="utf-8")
    said = npusim(capsys, line, "Atlas 300I Pro", "--json", "--prices", "mine.yaml")
    costs = {each["product"]: each["cost"] for each in said.json["products"]}
    assert costs["Ascend310P3"] is None
    assert costs["Atlas 300I Pro inference card"]["purchase"] == 2500
    (folder / "wrong.yaml").write_text(known.replace("2500", "-1"), encoding="utf-8")
    said = npusim(capsys, line, "Atlas 300I Pro", "--prices", "wrong.yaml")
    assert said.code == 2
    assert "price_per_card is -1; it must be greater than 0" in said.err


@pytest.mark.slow
def test_all_products_can_be_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, "recommend --rate 20 --slo 50 -s all --json", folder / "tower.yaml")
    assert said.code == 0, said.err
    assert [each["product"] for each in said.json["products"]] == list(product_names())


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("--rate 100 --slo 10", "which products?"),
        ("--rate -1 --slo 10 -s 310P3", "peak_requests_per_s is -1"),
        ("--rate nan --slo 10 -s 310P3", "'--rate': nan isn't a finite number"),
        ("--rate 10 --slo inf -s 310P3", "'--slo': inf isn't"),
        ("--rate 10 --slo 10 --max-wait nan -s 310P3", "'--max-wait': nan isn't"),
        ("--rate 100 --slo 0.001 -s 310P3", "and the limit is 0.001 ms"),
        ("--rate 100 --slo 10 -s 310P9", "unknown"),
        ("--rate 100 --slo 10 -s 310P3 --quantile 99", "objective.quantile"),
        ("--rate 100 --slo 10 -s 310P3 --availability N+9", "objective.availability"),
        ("--rate 100 --slo 10 -s 310P3 --price 310P3", "isn't a product and its price"),
        ("--rate 100 --slo 10 -s 310P3 --price 310P3=nan", "isn't a product and its price"),
        ("--rate 100 --slo 10 -s 310P3 --price 910A=9", "which isn't compared"),
    ],
)
def test_a_wrong_recommendation_gets_one_message(
    folder: Path, capsys: pytest.CaptureFixture[str], more: str, complaint: str
) -> None:
    said = npusim(capsys, f"recommend {more}", folder / "tower.yaml")
    assert said.code == 2
    assert complaint in said.err
    assert said.out == ""


# The plans that the repository shows


@pytest.mark.parametrize("name", ["detection_head", "inference_mix"])
def test_the_example_plans_are_answered(name: str) -> None:
    plan = read_plan(EXAMPLES / f"{name}.yaml")
    small = plan.simulation.model_copy(update={"runs": 1, "requests": 500})
    quick = plan.objective.model_copy(update={"quantile": 0.9})
    plan = plan.model_copy(update={"simulation": small, "objective": quick})
    source = SimulatedLatencies(plan, EXAMPLES)
    result = evaluate(plan, source, folder=EXAMPLES)
    assert isinstance(result, PlanResult)
    assert len(result.meeting) >= 2
    assert all(product.price_per_card is None for product in plan.fleet.products)
    text = to_markdown(plan_page(result, source.results, "npusim plan"))
    for product in result.products:
        assert product.board.name in text
