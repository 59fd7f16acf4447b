"""Recurrent layers against the formula: directions, first states, layers, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.hardware import load_profile
from support.tasks import CHIPS, assert_time_needs_no_numbers, run

Array = np.ndarray[Any, Any]

SIZES = ((3, 2, 16, 16), (3, 3, 7, 31), (2, 50, 33, 40), (1, 1, 1, 1))
WAYS = ("UNIDIRECTIONAL", "REDIRECTIONAL")
KINDS = {"DynamicRNN": ("ifjo", 8), "DynamicGRUV2": ("rzn", 6)}


def numbers(*shape: int, seed: int, kind: Any = np.float32) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype(kind)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def states(
    gates: str, x: Array, weights: list[Array], first: list[Array], *, backward: bool
) -> tuple[Array, list[Array]]:
    """All states and the last ones; weights of input and state are (inputs, gates x columns)."""
    w, r, bias, other = (each.astype(np.float64) for each in weights)
    x, columns = x.astype(np.float64), r.shape[0]
    h, c = (each.astype(np.float64) for each in first) if len(first) > 1 else (*first, 0.0)
    found = np.zeros((len(x), x.shape[1], columns))
    for step in range(len(x))[:: -1 if backward else 1]:
        own, hidden = x[step] @ w + bias, h @ r + other
        at = {name: slice(n * columns, (n + 1) * columns) for n, name in enumerate(gates)}
        both = {name: own[:, place] + hidden[:, place] for name, place in at.items()}
        if "n" in gates:
            reset, update = sigmoid(both["r"]), sigmoid(both["z"])
            h = (1 - update) * np.tanh(own[:, at["n"]] + reset * hidden[:, at["n"]]) + update * h
        else:
            c = sigmoid(both["f"]) * c + sigmoid(both["i"]) * np.tanh(both["j"])
            h = sigmoid(both["o"]) * np.tanh(c)
        found[step] = h
    return found, [h, c]


@settings(max_examples=8, deadline=None)
@given(
    chip=st.sampled_from(CHIPS),
    kind=st.sampled_from(tuple(KINDS)),
    sizes=st.sampled_from(SIZES),
    half=st.booleans(),
    starts=st.booleans(),
    way=st.sampled_from(WAYS),
)
def test_states_are_those_of_the_formula(
    chip: str, kind: str, sizes: tuple[int, ...], half: bool, starts: bool, way: str
) -> None:
    steps, rows, depth, columns = sizes
    gates, results = KINDS[kind]
    wide = len(gates) * columns
    dtype = np.float16 if half or chip != "Ascend910B3" else np.float32
    x, w, r = (
        numbers(*shape, seed=n, kind=dtype)
        for n, shape in enumerate(((steps, rows, depth), (depth, wide), (columns, wide)))
    )
    bias, other = (numbers(wide, seed=n, kind=dtype) for n in (3, 4))
    first = [numbers(1, rows, columns, seed=n, kind=dtype) * starts for n in (5, 6)]
    given = [*first] if starts else []
    said = {"gate_order": gates.replace("n", "h"), "direction": way}
    if kind == "DynamicRNN":
        other = np.zeros_like(other)
        inputs = [x, np.concatenate((w, r)), bias, None, *given]
    else:
        inputs, first = [x, w, r, bias, other, None, *given[:1]], first[:1]
    outputs = [np.zeros((steps, rows, columns), dtype)] * results
    got = run(chip, kind, inputs, outputs, **said)
    begun = [each[0] for each in first]
    wanted = states(gates, x, [w, r, bias, other], begun, backward=way == WAYS[1])[0]
    tolerance = 2e-3 if dtype is np.float16 else 3e-6
    for each in got[:2]:
        np.testing.assert_allclose(each.astype(np.float64), wanted, atol=tolerance)
    if steps > 1:
        assert_time_needs_no_numbers(chip, kind, inputs, outputs, **said)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_layers_and_directions_follow_each_other(kind: str, both: bool) -> None:
    gates, ways = "ifjo" if kind == "LSTM" else "rzn", 2 if both else 1
    x, columns = numbers(3, 4, 10, seed=0), 12
    rows = 3 if both else 4
    first = [numbers(2 * ways, rows, columns, seed=n) for n in (1, 2)][: len(gates) - 2]
    wide, call, current, lasts = len(gates) * columns, {}, x.swapaxes(0, 1) if both else x, []
    for layer in range(2):
        each_way = []
        for way in range(ways):
            place = layer * ways + way
            shapes = ((wide, current.shape[2]), (wide, columns), (wide,), (wide,))
            own = [numbers(*shape, seed=9 + 4 * place + n) for n, shape in enumerate(shapes)]
            call |= {f"params{4 * place + n}": each for n, each in enumerate(own)}
            turned = [each.T for each in own]
            begun = [each[place] for each in first]
            y, last = states(gates, current, turned, begun, backward=way == 1)
            each_way.append(y)
            lasts.append(last[0])
        current = np.concatenate(each_way, 2)
    call |= {"hx0": first[0], "hx1": first[1]} if kind == "LSTM" else {"hx": first[0]}
    call |= {"hasBias": True, "numLayers": 2, "dropout": 0.0, "train": True, "batchFirst": both}
    call["bidirectional" if kind == "LSTM" else "bidirection"] = both
    found = Device("Ascend910B3").run(f"aclnn{kind}", input=x, **call)
    wanted = current.swapaxes(0, 1) if both else current
    np.testing.assert_allclose(found.outputs["output"], wanted, atol=2e-6)
    np.testing.assert_allclose(found.outputs["hy"], np.stack(lasts), atol=2e-6)
    assert f"hOut{ways * 2 - 1}" in found.outputs
    assert f"hOut{ways * 2}" not in found.outputs
    operator = "DynamicRNN" if kind == "LSTM" else "Gru"
    assert [task.name for task in found.tasks].count(operator) == ways * 2


def test_a_step_costs_the_same_however_many_there_are() -> None:
    device = Device("Ascend910B2")

    def time(steps: int) -> float:
        call = {"x": f"fp16[{steps},3,64]", "w": "fp16[96,128]", "b": "fp16[128]"}
        return device.estimate("DynamicRNN", **call).duration_us

    assert time(180) > 2 * time(60)
    assert time(300) - time(60) == pytest.approx(2 * (time(180) - time(60)), rel=0.02)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"w": "fp16[97,128]"}, 561002),
        ({"init_h": "fp16[1,3,32]"}, 561002),
        ({"seq_length": "int32[3]"}, None),
        ({"activation": "relu"}, None),
        ({"b": "fp16[127]"}, 161002),
    ],
)
def test_what_is_refused(change: dict[str, Any], code: int | None) -> None:
    call = {"x": "fp16[5,3,64]", "w": "fp16[96,128]", "b": "fp16[128]"}
    assert Device("Ascend910B3").check("DynamicRNN", **call).code == 0
    assert Device("Ascend910B3").check("DynamicRNN", **call | change).code == code


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_framework_has_layers_of_weights_in_rows(layers: int, both: bool, kind: Any) -> None:
    steps, rows, depth, columns, ways = 4, 3, 7, 9, 1 + both
    x = numbers(steps, rows, depth, seed=0).astype(kind)
    begin = [numbers(layers * ways, rows, columns, seed=5 + n).astype(kind) for n in range(2)]
    params: list[list[Any]] = [[], [], [], []]
    for layer in range(layers):
        below = ways * columns if layer else depth
        for n, shape in enumerate(((36, below), (36, columns), (36,), (36,))):
            seeds = (10 * n + 100 * layer + way for way in range(ways))
            params[n] += [numbers(*shape, seed=seed).astype(kind) for seed in seeds]
    want = x
    for layer in range(layers):
        found = []
        for way in range(ways):
            place = layer * ways + way
            w, r, *biases = (each[place] for each in params)
            start = [each[place] for each in begin]
            own, _ = states("ifjo", want, [w.T, r.T, *biases], start, backward=bool(way))
            found.append(own)
        want = np.concatenate(found, -1)
    flat = [each for kinds in params for each in kinds]
    out = np.zeros((steps, rows, ways * columns), kind)
    said = {"bidirectional": both, "hiddenSize": columns, "numLayers": layers}
    (got,) = run("Ascend910B3", "LSTM", [x, *flat, *begin], [out], **said)
    fits = 3e-2 if kind is ml_dtypes.bfloat16 else 1e-4
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), atol=fits)


def test_cores_meet_once_more_in_a_step_of_float32_than_of_halves() -> None:
    device, meeting_us = Device("Ascend910B2"), load_profile("Ascend910B2").launch.sync_all_us

    def step_us(kind: str) -> float:
        call = {"x": f"{kind}[{{}},3,32]", "w": f"{kind}[64,128]", "b": f"{kind}[128]"}
        few, many = (
            device.estimate("DynamicRNN", **call | {"x": call["x"].format(steps)}).duration_us
            for steps in (60, 160)
        )
        return (many - few) / 100

    halves, whole = step_us("fp16"), step_us("fp32")
    assert halves > 2 * meeting_us + load_profile("Ascend910B2").launch.message_us
    assert meeting_us * 0.9 < whole - halves < meeting_us * 1.6
