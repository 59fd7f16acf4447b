"""Decode context parallelism: what each rank keeps, and what it takes to put it together again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npusim.hardware import load_profile
from npusim.llm import Batch, LanguageModel, Layout, LlmStep, read_model, step
from npusim.llm.layout import layout_of
from npusim.llm.workload import batch_of
from npusim.serving.layouts import layouts_of
from npusim.values.errors import ArgumentError
from support import commands
from support.llm_recent import RECENT
from support.paths import ROOT

CONFIGS = ROOT / "reports" / "data" / "llm_configs"
A3 = "Ascend910_9391"


def model(name: str) -> LanguageModel:
    return read_model(CONFIGS / f"{name}.json")


def timed(name: str, dcp: int, batch: Batch, tp: int = 8) -> LlmStep:
    return step(model(name), load_profile(A3), Layout(tp, dcp=dcp), batch, dtype="w8a8")


def sent(found: LlmStep) -> dict[str, int]:
    """Bytes of an exchange by its reason."""
    return {each.why: each.nbytes for each in found.exchanges}


@pytest.mark.parametrize(("name", "times"), [("Qwen3-30B-A3B", 2), ("DeepSeek-R1", 8)])
def test_a_rank_keeps_its_part_of_every_sequence(name: str, times: int) -> None:
    batch = Batch(4, 50_000)
    whole, apart = (timed(name, dcp, batch).memory for dcp in (1, times))
    assert apart.kv_bytes_per_token == pytest.approx(whole.kv_bytes_per_token / times)
    assert apart.kv_bytes == pytest.approx(whole.kv_bytes / times, abs=1)
    assert apart.weights_bytes == whole.weights_bytes
    assert apart.kv_tokens == pytest.approx(whole.kv_tokens * times, rel=0.01)


@pytest.mark.parametrize(("name", "times"), [("Qwen3-30B-A3B", 2), ("DeepSeek-R1", 8)])
def test_it_pays_for_long_contexts_and_costs_in_short_ones(name: str, times: int) -> None:
    """More queries for a rank, fewer keys, and two exchanges with a merge."""
    for context, pays in ((200, False), (60_000, True)):
        whole, apart = (timed(name, dcp, Batch(4, context)) for dcp in (1, times))
        assert (apart.step_ms < whole.step_ms) is pays
        assert apart.communication_ms > whole.communication_ms


def test_what_is_exchanged() -> None:
    """Queries of a rank before attention; what its part comes to, for all heads, and sums after."""
    heads, sequences = 32 // 8, 3
    found = sent(timed("Qwen3-30B-A3B", 2, Batch(sequences, 1000)))
    assert found["queries"] == sequences * heads * 128 * 2
    assert found["attention"] == sequences * 2 * heads * (128 + 1) * 4
    assert not {"queries", "attention"} & sent(timed("Qwen3-30B-A3B", 1, Batch(3, 1000))).keys()
    latent = sent(timed("DeepSeek-R1", 4, Batch(sequences, 1000)))
    assert latent["queries"] == sequences * (128 // 8) * (512 + 64) * 2
    assert latent["attention"] == sequences * 128 // 8 * 4 * (512 + 1) * 4


@pytest.mark.parametrize("name", ["Qwen3-30B-A3B", "DeepSeek-R1"])
def test_chunks_of_prompts_fetch_what_was_read_before(name: str) -> None:
    chunk = batch_of("prefill", 1, 8192, chunk=2048)
    first = batch_of("prefill", 1, 2048)
    assert chunk.before
    for batch, fetches in ((first, False), (chunk, True)):
        found = timed(name, 2, batch).exchanges
        assert {"queries", "keys of prompts"}.isdisjoint(each.why for each in found) is not fetches


def test_keys_that_only_one_rank_has_stay_whole() -> None:
    for name, tp, dcp, problem in (
        ("Qwen3-30B-A3B", 4, 2, "keep keys 1 times"),
        ("Qwen3-30B-A3B", 8, 4, "keep keys 2 times"),
        ("DeepSeek-R1", 8, 16, "keep keys 8 times"),
    ):
        with pytest.raises(ArgumentError, match=problem):
            timed(name, dcp, Batch(1, 100), tp)


@pytest.mark.parametrize("name", ["gpt-oss-20b", "DeepSeek-V3.2-Exp"])
def test_what_isnt_modelled_is_said(tmp_path: Path, name: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(RECENT[name][0]))
    read = read_model(path)
    with pytest.raises(ArgumentError, match="isn't modelled"):
        Layout(8, dcp=8).check(read.architecture)


def test_layouts_as_they_are_written_and_searched() -> None:
    assert layout_of("tp=8,dcp=8") == Layout(8, dcp=8)
    assert str(Layout(8, dcp=8)) == "TP8 DCP8"
    searched = set(layouts_of(model("DeepSeek-R1").architecture, 16, [8]))
    assert {Layout(8, sp=True), Layout(8, sp=True, dcp=8)} <= searched
    dense = layouts_of(model("Qwen3-32B").architecture, 8, None)  # 8 heads of keys
    assert all(each.dcp == 1 for each in dense)


def test_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIGS / "Qwen3-30B-A3B.json"
    line = f"{config} -s {A3} --tp 8 --dcp 2"
    found = commands.npusim(capsys, f"llm step {line} --context 4000 --json").json
    assert "queries" in {each["why"] for each in found["collectives"]}
    said = commands.npusim(capsys, f"llm step {config} -s {A3} --tp 8 --dcp 3")
    assert said.code == 2
    assert "divisor" in said.err
