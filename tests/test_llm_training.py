"""Training steps: against published rates, and what holds between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.hardware import load_profile
from npusim.llm import Layout, read_model
from npusim.llm.training import Training, TrainingStep, train
from npusim.values.errors import ArgumentError
from support import commands

CONFIGS = Path(__file__).parent.parent / "reports" / "data" / "llm_configs"


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


def test_computing_again_costs_time_and_spares_memory() -> None:
    plain, again = (
        trained(Layout(tp=4), Training(2048, 1, 4, recompute=how)) for how in ("none", "full")
    )
    assert again.backward_ms == pytest.approx(plain.backward_ms + plain.forward_ms, rel=0.05)
    assert again.memory.activation_bytes < plain.memory.activation_bytes


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
