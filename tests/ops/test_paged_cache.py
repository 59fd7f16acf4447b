"""Tokens stored into caches in pages: numbers, and what 32-byte pieces cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.ascendc import trace
from npusim.hardware import load_profile
from npusim.values.errors import DeviceFault
from support.tasks import BFLOAT16, cycles, kernels

A2 = "Ascend910B3"
Array = np.ndarray[Any, Any]


def case(tokens: int, heads: int, wide: tuple[int, int], size: int, mode: str, kind: Any) -> Any:
    """Keys, values, their caches, slots; and what the caches become."""
    dice = np.random.default_rng(tokens)
    pages = tokens // size + 3
    slots = dice.permutation(pages * size)[:tokens].astype(np.int32)
    given: list[Array] = []
    want: list[Array] = []
    for columns in wide:
        rows = dice.integers(-9, 9, (tokens, heads, columns)).astype(kind)
        flat = np.zeros((pages * size, heads * columns), kind)
        flat[slots] = rows.reshape(tokens, -1)
        lanes = 32 // rows.dtype.itemsize
        cache = flat.reshape(pages, size, heads, columns)
        if mode == "PA_NZ":
            cache = flat.reshape(pages, size, -1, lanes).swapaxes(1, 2)
        given += [rows, np.zeros(cache.shape, kind)]
        want.append(np.ascontiguousarray(cache))
    key, keys, value, values = given
    return [key, keys, slots, value, values], want


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
@pytest.mark.parametrize("kind", [np.float16, BFLOAT16, np.int8])
@pytest.mark.parametrize("shape", [(7, 3, (64, 32), 16), (200, 1, (192, 128), 128)])
def test_rows_come_to_their_slots(mode: str, kind: Any, shape: Any) -> None:
    inputs, want = case(*shape, mode, kind)
    names = ("key", "keyCacheRef", "slotMapping", "value", "valueCacheRef")
    call = dict(zip(names, inputs, strict=True))
    found = Device(A2).run("aclnnScatterPaKvCache", **call, cacheModeOptional=mode).outputs
    np.testing.assert_array_equal(found["keyCacheRef"], want[0])
    np.testing.assert_array_equal(found["valueCacheRef"], want[1])


def test_pieces_of_a_row_take_longer_than_the_row() -> None:
    times = []
    for mode in ("Norm", "PA_NZ"):
        inputs, want = case(256, 8, (256, 256), 16, mode, np.float16)
        given = {"cache_mode": mode}
        times.append(cycles(A2, "ScatterPaKvCache", inputs, want, **given))
    assert 2 < times[1] / times[0] < 40


def test_a_slot_outside_of_the_cache_is_a_fault() -> None:
    inputs, want = case(5, 2, (32, 32), 16, "Norm", np.float16)
    inputs[2][3] = 10_000
    made, _ = kernels(A2, "ScatterPaKvCache", inputs, want, {"cache_mode": "Norm"})
    with pytest.raises(DeviceFault, match="index 10000"):
        trace(made[0], load_profile(A2), numerics=True)
