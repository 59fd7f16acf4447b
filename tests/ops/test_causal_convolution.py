"""CausalConv1d against sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.ops.recurrent.causal_convolution import update_tile
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, cycles, like, run

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"


def drawn(lengths: tuple[int, ...], channels: int, taps: int, seed: int = 0) -> list[Any]:
    """Rows, taps, a bias, states in places that are shuffled, and where sequences begin."""
    rng, total = np.random.default_rng(seed + channels), sum(lengths)
    x = rng.standard_normal((total, channels)).astype(BFLOAT16)
    weight = rng.standard_normal((taps, channels)).astype(BFLOAT16)
    bias = rng.standard_normal(channels).astype(BFLOAT16)
    states = rng.standard_normal((len(lengths) + 2, taps, channels)).astype(BFLOAT16)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    places = rng.permutation(len(lengths) + 2)[: len(lengths)].astype(np.int32)
    return [x, weight, bias, states, ends, places]


def wanted(given: list[Any], begun: Array, *, active: bool) -> tuple[Array, Array]:
    x, weight, bias, states = (None if e is None else e.astype(np.float64) for e in given[:4])
    ends, places = given[4:6]
    taps, out, new = len(weight), np.zeros(x.shape), states.copy()
    for sequence, place in enumerate(places):
        own = x[ends[sequence] : ends[sequence + 1]]
        before = states[place, : taps - 1] * begun[sequence]
        rows = np.concatenate([before, own])
        for token in range(len(own)):
            found = (rows[token : token + taps] * weight).sum(0) + (0 if bias is None else bias)
            out[ends[sequence] + token] = found / (1 + np.exp(-found)) if active else found
        if len(own):
            new[place, : taps - 1] = rows[len(own) :]
    return out, new


@pytest.mark.parametrize(
    ("lengths", "channels", "taps", "update", "biased"),
    [
        ((1,) * 5, 48, 4, True, False),
        ((1,) * 3, 4224, 4, True, True),
        ((1,) * 44, 4096, 4, True, True),
        ((1, 2, 7, 0), 192, 3, True, True),
        ((40,), 64, 4, False, False),
        ((1, 3, 70, 130), 208, 4, False, True),
        ((33, 20), 4608, 2, False, False),
    ],
)
@pytest.mark.parametrize("active", [False, True])
def test_rows_are_convolved_and_the_last_ones_kept(
    lengths: tuple[int, ...], channels: int, taps: int, update: bool, biased: bool, active: bool
) -> None:
    given = drawn(lengths, channels, taps)
    if not biased:
        given[2] = None
    begun = np.arange(len(lengths)) % 2 == 0 if not update else np.ones(len(lengths), bool)
    flags = None if update else begun.astype(np.int32)
    want, kept = wanted(given, begun, active=active)
    said = {"runMode": int(update), "activationMode": int(active)}
    outputs = [like(given[0]), given[3].copy()]
    y, states = run(CHIP, "CausalConv1d", [*given, flags], outputs, **said)
    np.testing.assert_allclose(y.astype(np.float64), want, atol=0.02 * np.abs(want).max())
    for sequence, place in enumerate(given[5]):
        # Rows before a sequence that hasn't begun aren't read by anybody.
        first = 0 if begun[sequence] else max(0, taps - 1 - lengths[sequence])
        got = states[place, first : taps - 1].astype(np.float64)
        np.testing.assert_array_equal(got, kept[place, first : taps - 1])
    assert_time_needs_no_numbers(CHIP, "CausalConv1d", [*given, flags], outputs, **said)


def test_channels_are_cut_so_that_tasks_are_as_many_as_cores() -> None:
    assert update_tile(64, 8192, 48) == 4096
    assert update_tile(8, 8192, 40) == 1024
    assert update_tile(1, 8192, 48) == 512  # 16 exact tiles are the most
    assert update_tile(40, 100, 40) == 4096


def test_more_tokens_take_longer() -> None:
    def taken(count: int, length: int, **said: int) -> float:
        given = drawn((length,) * count, 2048, 4)
        return cycles(CHIP, "CausalConv1d", given, [like(given[0]), given[3].copy()], **said)

    assert taken(8, 1, runMode=1) < taken(256, 1, runMode=1)
    assert taken(1, 512) < taken(1, 4096) / 3
