"""Training steps: against published rates, and what holds between them."""

from __future__ import annotations

import pytest

from npusim.hardware import load_profile
from npusim.llm import Layout, read_model
from npusim.llm.architecture import Architecture
from npusim.llm.parts import Block
from npusim.llm.training import Training, TrainingStep, memory_of, train
from npusim.values.errors import ArgumentError
from support import commands
from support.paths import ROOT

CONFIGS = ROOT / "reports" / "data" / "llm_configs"


def trained(
    layout: Layout, training: Training, *, name: str = "Llama-2-7B", soc: str = "910b1"
) -> TrainingStep:
    return train(read_model(CONFIGS / f"{name}.json"), load_profile(soc), layout, training)


def test_a_published_rate() -> None:
    """Llama 2 7B on eight cards of an Atlas 900 A2 PoD: 4672 tokens/s per card."""
    found = trained(Layout(pp=2, dp=4), Training(4096, 1, 256, zero=1))
    assert found.tok_s_per_card == pytest.approx(4672, rel=0.15)
    assert found.memory.fits
    assert found.simulated_share > 0.95


def test_parts_and_the_bubble() -> None:
    whole, piped = (trained(Layout(pp=pp), Training(512, 1, 16)) for pp in (1, 4))
    assert whole.bubble_ms == 0
    assert piped.bubble_ms > 0
    chunked = trained(Layout(pp=4), Training(512, 1, 16, virtual=2))
    assert chunked.bubble_ms == pytest.approx(piped.bubble_ms / 2)
    longer = trained(Layout(pp=4), Training(512, 1, 64))
    assert longer.tok_s_per_card > piped.tok_s_per_card
    assert piped.band_ms[0] < piped.step_ms < piped.band_ms[1]


def test_more_cards_take_little_longer_however_many() -> None:
    """A group of the data's parallel parts has members far apart: 16 cards from one to the next."""
    few, many = (trained(Layout(tp=8, pp=2, dp=dp), Training(4096, 1, dp)) for dp in (64, 1024))
    assert many.layout.cards == 16_384
    assert few.step_ms < many.step_ms < 1.2 * few.step_ms


def test_computing_again_costs_time_and_spares_memory() -> None:
    plain, again = (
        trained(Layout(tp=4), Training(2048, 1, 4, recompute=how)) for how in ("none", "full")
    )
    assert again.backward_ms == pytest.approx(plain.backward_ms + plain.forward_ms, rel=0.05)
    assert again.memory.activation_bytes < plain.memory.activation_bytes


def test_the_last_stage_has_the_logits_and_the_first_most_micro_batches() -> None:
    """A model of two layers on TP2 PP2 has 5,526.6 MiB allocated (MindSpeed-LLM's baseline)."""
    sizes = Architecture(
        name="GLM-4-9B, 2 layers", stack=(Block(count=2),), hidden=4096, heads=32, kv_heads=2,
        head_dim=128, width=13696, vocabulary=151552,
    )  # fmt: skip
    chip, layout = load_profile("910b3"), Layout(2, 2, 2)
    found = memory_of(sizes, chip, layout, Training(1024, 1, 16, zero=1), 2)
    allocated = found.total_bytes - found.buffer_bytes
    assert allocated / 2**20 == pytest.approx(5526.6, rel=0.12)
    few = sizes.model_copy(update={"vocabulary": 128})  # two micro-batches of a layer, one of two
    piped, whole = (
        memory_of(few, chip, Layout(2, pp, 2), Training(1024, 1, 16), 2) for pp in (2, 1)
    )
    assert piped.activation_bytes == pytest.approx(whole.activation_bytes, rel=0.02)


def test_shared_states_spare_memory() -> None:
    alone, shared = (trained(Layout(dp=8), Training(512, 1, 8, zero=zero)) for zero in (0, 1))
    assert shared.memory.optimizer_bytes * 8 == pytest.approx(
        alone.memory.optimizer_bytes, rel=1e-6
    )
    assert not alone.memory.fits


def test_experts_and_latent_attention_are_trained_too() -> None:
    experts = trained(Layout(tp=2, dp=2, experts=4), Training(512, 1, 2), name="Qwen3-30B-A3B")
    assert experts.communication_ms > 0
    latent = trained(Layout(tp=8), Training(256, 1, 1), name="DeepSeek-R1")
    assert not latent.memory.fits


def test_an_older_product_composes_attention() -> None:
    found = trained(Layout(tp=8), Training(512, 1, 1), soc="910a")
    assert dict(found.replaced)["FlashAttentionScore"].startswith("BatchMatMulV2")


@pytest.mark.parametrize(
    "wrong",
    [
        Training(512, 3, 16),
        Training(10**12),
        Training(512, recompute="some"),
        Training(0),
        Training(512, zero=3),
        Training(512, global_batch=2**40),
        Training(512, global_batch=2, virtual=33),
    ],
)
def test_what_cannot_be_is_refused(wrong: Training) -> None:
    with pytest.raises(ArgumentError):
        trained(Layout(dp=2), wrong)


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"llm train {CONFIGS / 'Llama-2-7B.json'} -s 910b3 --tp 8 --seq 512 --global-batch 4"
    said = commands.npusim(capsys, f"{line} --json").json
    assert said["tok_s_per_card"] == pytest.approx(4 * 512 / said["step_ms"] * 1e3 / 8)
    assert said["memory"]["total_bytes"] < said["memory"]["capacity_bytes"]
    page = commands.npusim(capsys, line)
    assert page.code == 0
    assert "bubble" in page.out
    assert commands.npusim(capsys, line.replace("--tp 8", "--tp 1")).code == 1
