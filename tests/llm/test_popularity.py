"""Experts that get more tokens than others: who is the busiest, and what that costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from npusim.hardware import load_profile
from npusim.llm import Batch, Layout, Popularity, read_counts, read_model, step
from npusim.values.errors import ArgumentError, FileError
from support import commands
from support.paths import ROOT

CONFIG = ROOT / "reports" / "data" / "llm_configs" / "Qwen3-30B-A3B.json"


def test_even_counts_are_no_skew() -> None:
    for popularity in (Popularity(), Popularity(counts=(7.0,) * 128)):
        found = popularity.busiest(128, 8, 16, 256)
        assert found.times == pytest.approx(1)
        assert found.hit == pytest.approx(8 * (1 - (1 - 8 / 128) ** 256))


def test_the_busiest_rank_has_the_popular_experts() -> None:
    counts = [1.0] * 16
    counts[4:8] = [4.0, 2.0, 2.0, 4.0]  # all on the second of four ranks
    found = Popularity(counts=tuple(counts)).busiest(16, 2, 4, 1000)
    assert found.times == pytest.approx(4 * 12 / 24)
    assert found.hit == pytest.approx(4)
    # An expert is chosen once by a token, however popular it is.
    alone = Popularity(counts=(1000.0, *[1.0] * 15)).busiest(16, 2, 16, 1000)
    assert alone.times == pytest.approx(16 / 2, rel=1e-3)


@pytest.mark.parametrize("ranks", [1, 4, 16])
def test_more_skew_is_more_of_it_on_one_rank(ranks: int) -> None:
    times = [Popularity(skew).busiest(128, 8, ranks, 256).times for skew in (0, 0.3, 0.6, 1.2)]
    if ranks == 1:
        assert times == pytest.approx([1.0] * 4)
        return
    assert times == sorted(times)
    assert times[-1] > 1.5


def test_a_step_waits_for_the_busiest_rank() -> None:
    model, chip = read_model(CONFIG), load_profile("Ascend910_9391")
    even, same, skewed = (
        step(model, chip, Layout(1, 1, 8, 8), Batch(640, 1000), popularity=popularity)
        for popularity in (None, Popularity(), Popularity(1.0))
    )
    assert even.step_ms == same.step_ms < skewed.step_ms
    assert even.communication_ms < skewed.communication_ms


def test_counts_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "counts.json"
    file.write_text("[[1, 2.5],\n [3, 4]]")
    assert read_counts(file).counts == (1, 2.5, 3, 4)
    said = commands.npusim(capsys, f"llm step {CONFIG} -s 910b3 --expert-counts {file}")
    assert said.code == 2
    assert "4 experts" in said.err
    for wrong in ("", "[]", "1 -2", "1, x", "0 0"):
        file.write_text(wrong)
        with pytest.raises(FileError, match="counts"):
            read_counts(file)
    with pytest.raises(ArgumentError, match="--expert-skew"):
        Popularity(-1.0)
