"""Heads turned by angles of a cache, against complex numbers in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npusim import AclnnError, Device
from npusim.values.errors import DeviceFault

Array = np.ndarray[Any, Any]

ROPE = "aclnnRopeWithSinCosCache"
CHIP = "Ascend910B3"
BFLOAT16 = ml_dtypes.bfloat16
TOLERANCES: dict[Any, float] = {np.float32: 1e-5, np.float16: 5e-3, BFLOAT16: 4e-2}


def call(
    tokens: int, heads: tuple[int, int], head: int, turned: int, *, kind: Any = np.float32,
    neox: bool = True, sections: tuple[int, ...] = (), rows: int = 50,
) -> dict[str, Any]:  # fmt: skip
    random = np.random.default_rng(tokens)
    angles = random.uniform(-3, 3, (rows, turned // 2))
    cache = np.concatenate((np.cos(angles), np.sin(angles)), axis=-1)
    lists = (len(sections),) if sections else ()
    query, key = (random.standard_normal((tokens, each * head)) for each in heads)
    return {
        "positions": random.integers(0, rows, (*lists, tokens)),
        "queryIn": query.astype(kind), "keyIn": key.astype(kind),
        "cosSinCache": cache.astype(kind), "mropeSection": list(sections) or None,
        "headSize": head, "isNeoxStyle": neox,
    }  # fmt: skip


def expected(arguments: dict[str, Any], name: str) -> Array:
    """Pairs as complex numbers times cos + i sin; the rest of a head as it is."""
    x, head = arguments[name].astype(np.float64), arguments["headSize"]
    cache, places = arguments["cosSinCache"].astype(np.float64), arguments["positions"]
    turned = cache.shape[1]
    half = turned // 2
    found = cache[places]
    if places.ndim > 1:
        ends = np.cumsum([0, *arguments["mropeSection"]])
        parts = [
            np.concatenate(
                [found[n, :, at + ends[n] : at + ends[n + 1]] for n in range(len(places))], axis=-1
            )
            for at in (0, half)
        ]
        found = np.concatenate(parts, axis=-1)
    angle = (found[:, :half] + 1j * found[:, half:])[:, None]
    heads = x.reshape(len(x), -1, head)
    result = heads.copy()
    pairs = (slice(half), slice(half, turned))
    if not arguments["isNeoxStyle"]:
        pairs = (slice(0, turned, 2), slice(1, turned, 2))
    z = (heads[..., pairs[0]] + 1j * heads[..., pairs[1]]) * angle
    result[..., pairs[0]], result[..., pairs[1]] = z.real, z.imag
    return result.reshape(x.shape)


@pytest.mark.parametrize("kind", list(TOLERANCES))
@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize(
    ("tokens", "heads", "head", "turned", "sections"),
    [
        (1, (1, 1), 64, 64, ()),
        (7, (8, 1), 128, 64, ()),
        (41, (3, 5), 64, 64, ()),
        (301, (32, 8), 128, 128, ()),
        (13, (4, 2), 128, 128, (16, 24, 24)),
        (90, (2, 2), 64, 64, (8, 12, 12)),
    ],
)
def test_heads_are_turned_by_the_angles_of_their_positions(
    kind: Any, neox: bool, tokens: int, heads: tuple[int, int], head: int, turned: int,
    sections: tuple[int, ...],
) -> None:  # fmt: skip
    arguments = call(tokens, heads, head, turned, kind=kind, neox=neox, sections=sections)
    done = Device(CHIP).run(ROPE, **arguments)
    assert done.outputs is not None
    for name, out in (("queryIn", "queryOut"), ("keyIn", "keyOut")):
        got, want = done.outputs[out], expected(arguments, name)
        assert got.dtype == arguments[name].dtype
        limit = TOLERANCES[kind]
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=limit, atol=limit)
    assert [task.name for task in done.tasks] == ["RopeWithSinCosCache"]
    assert done.duration_us == pytest.approx(Device(CHIP).estimate(ROPE, **arguments).duration_us)


def test_time_grows_with_tokens_heads_and_neighbours() -> None:
    def time(*sizes: Any, **more: Any) -> float:
        arguments = call(*sizes, kind=np.float16, **more)
        return Device(CHIP).estimate(ROPE, **arguments).duration_us

    plain = time(4096, (8, 2), 128, 128)
    assert time(8192, (8, 2), 128, 128) > 1.5 * plain
    assert time(4096, (16, 2), 128, 128) > plain
    assert time(4096, (8, 2), 128, 128, neox=False) > plain
    assert time(4096, (8, 2), 128, 128, sections=(16, 24, 24)) > plain


def test_what_isnt_there_is_refused() -> None:
    device, good = Device(CHIP), call(6, (2, 1), 64, 64)
    assert device.check(ROPE, **good).ok
    assert device.check(ROPE, **{**good, "positions": None}).code == 161001
    assert device.check(ROPE, **{**good, "headSize": 0}).code == 161002
    assert device.check(ROPE, **{**good, "keyIn": "fp32[5,64]"}).code == 161002
    assert device.check(ROPE, **{**good, "keyIn": "fp16[6,64]"}).code == 161002
    assert not device.check(ROPE, **{**good, "headSize": 48}).ok
    assert not device.check(ROPE, **{**good, "mropeSection": [8, 8, 8]}).ok
    with pytest.raises(DeviceFault, match="outside of an axis of 50"):
        device.run(ROPE, **{**good, "positions": np.full(6, 50)})
    with pytest.raises(AclnnError):
        Device("310P3").estimate(ROPE, **good)
