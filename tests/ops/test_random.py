"""Random numbers: Philox by its published vectors, distributions, and what is made of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.random.streams import words
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.task import run_tasks
from npusim.values.tensors import parse_tensor

A2, FIRST = "Ascend910B3", "Ascend910A"
COUNT = 8_000
X = np.zeros((4, COUNT // 4), np.float32)
SEED = {"seed": 7, "offset": 3}
STREAM = {"seedTensor": np.array([7]), "offsetTensor": np.array([1]), "offset": 2}


@cache
def device(chip: str) -> Device:
    return Device(chip)


def outputs(chip: str, op: str, **arguments: Any) -> list[Any]:
    result = device(chip).run(op, **arguments)
    assert result.outputs is not None
    return [each.astype(np.float64) for each in result.outputs.values()]


def test_the_stream_is_philox() -> None:
    """Random123's vector for a counter and a key of zeros."""
    want = ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert [f"{each:08x}" for each in words(0, 0, 4)] == want


# Call, arguments, mean, spread, least, largest.
DRAWN = (
    ("Uniform", {"from": -2.0, "to": 4.0}, 1.0, 6 / 12**0.5, -2.0, 4.0),
    ("Normal", {"mean": 2.0, "std": 0.5}, 2.0, 0.5, -1.0, 5.0),
    ("Random", {"from": 3, "to": 9}, 5.5, (35 / 12) ** 0.5, 3.0, 8.0),
)


@pytest.mark.parametrize("chip", [A2, FIRST])
@pytest.mark.parametrize(("name", "arguments", "mean", "spread", "least", "most"), DRAWN)
def test_numbers_have_the_distribution(
    chip: str, name: str, arguments: dict[str, Any],
    mean: float, spread: float, least: float, most: float,
) -> None:  # fmt: skip
    (found,) = outputs(chip, f"aclnnInplace{name}", selfRef=X.copy(), **arguments, **SEED)
    assert abs(found.mean() - mean) < 5 * spread / COUNT**0.5
    assert abs(found.std() / spread - 1) < 0.05
    assert least <= found.min() < found.max() <= most
    (again,) = outputs(chip, f"aclnnInplace{name}", selfRef=X.copy(), **arguments, **SEED)
    assert (again == found).all()
    if chip == A2:
        kind = np.uint64 if name == "Uniform" else np.int64
        stream = {"seedTensor": np.array([7], kind), "offsetTensor": np.array([1], kind)}
        told_by = {**arguments, **stream, "offset": 2}
        (told,) = outputs(chip, f"aclnnInplace{name}Tensor", selfRef=X.copy(), **told_by)
        assert (told == found).all()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aclnnNormalFloatTensor", {"mean": 3.0, "std": np.linspace(1, 2, COUNT)}),
        ("aclnnNormalTensorFloat", {"mean": np.linspace(-5, 5, COUNT), "std": 2.0}),
        ("aclnnNormalTensorTensor", {"mean": np.full(COUNT, 3.0), "std": np.linspace(1, 2, COUNT)}),
    ],
)
def test_each_number_has_a_mean_and_a_spread_of_its_own(
    name: str, arguments: dict[str, Any]
) -> None:
    given = {
        key: each.astype(np.float32) if isinstance(each, np.ndarray) else each
        for key, each in arguments.items()
    }
    (found,) = outputs(A2, name, **given, **SEED)
    plain = (found - arguments["mean"]) / arguments["std"]
    assert abs(plain.mean()) < 5 / COUNT**0.5
    assert abs(plain.std() - 1) < 0.05


def test_elements_are_kept_with_their_probability() -> None:
    x = np.full((4, COUNT // 4), 3.0, np.float32)
    kept, mask = outputs(A2, "aclnnDropout", input=x, p=0.3, train=True, **SEED)
    bits = np.unpackbits(mask.astype(np.uint8), bitorder="little")[:COUNT].reshape(x.shape)
    np.testing.assert_allclose(kept, np.where(bits, 3 / 0.7, 0), rtol=1e-6)
    assert abs(bits.mean() - 0.7) < 0.02
    for p, train, left in ((0.3, False, x), (0.0, True, x), (1.0, True, 0 * x)):  # no mask is made
        (still,) = outputs(A2, "aclnnDropout", input=x, p=p, train=train, **SEED)
        np.testing.assert_array_equal(still, left)


@pytest.mark.parametrize(("form", "name"), [("", "self"), ("Inplace", "selfRef")])
def test_each_element_is_drawn_with_its_probability(form: str, name: str) -> None:
    for chip in (A2, FIRST):
        (drawn,) = outputs(chip, f"aclnn{form}Bernoulli", **{name: X.copy()}, prob=0.25, **SEED)
        assert set(np.unique(drawn)) == {0, 1}
        assert abs(drawn.mean() - 0.25) < 0.02
    each = np.tile(np.array([0, 1, 0.5, 0.5], np.float32)[:, None], (1, COUNT // 4))
    (drawn,) = outputs(A2, f"aclnn{form}BernoulliTensor", **{name: X.copy()}, prob=each, **SEED)
    assert drawn.mean(1).round(1).tolist() == [0, 1, 0.5, 0.5]


@pytest.mark.parametrize(
    ("form", "said"), [("", SEED), ("V2", SEED | {"probDataType": 0}),
    ("V2Tensor", STREAM | {"probDataType": 0})],
)  # fmt: skip
def test_a_mask_has_a_bit_for_each_element(form: str, said: dict[str, Any]) -> None:
    out = np.zeros(COUNT // 8 + 8, np.uint8)  # whole 128 bits
    outputs(A2, f"aclnnDropoutGenMask{form}", shape=[4, COUNT // 4], prob=0.3, out=out, **said)
    bits = np.unpackbits(out)[:COUNT]
    assert abs(bits.mean() - 0.7) < 0.02


def test_orders_and_draws() -> None:
    order = np.zeros(50, np.int64)
    (found,) = outputs(A2, "aclnnRandperm", n=50, out=order, **SEED)
    assert sorted(found) == list(range(50))
    assert list(found) != list(range(50))
    weights = np.array([[0, 1, 3], [5, 0, 5]], np.float32)
    many = np.zeros((2, 4000), np.int64)
    (found,) = outputs(A2, "aclnnMultinomial", self=weights, numsamples=4000, replacement=True,
                       out=many, **SEED)  # fmt: skip
    shares = [np.bincount(row.astype(int), minlength=3) / 4000 for row in found]
    np.testing.assert_allclose(shares, weights / weights.sum(1, keepdims=True), atol=0.03)
    again = {"self": weights, "numsamples": 4000, "replacement": True, "out": many.copy()}
    (told,) = outputs(A2, "aclnnMultinomialTensor", **again, **STREAM)
    assert (told == found).all()
    (found,) = outputs(A2, "aclnnMultinomial", self=weights, numsamples=2, replacement=False,
                       out=np.zeros((2, 2), np.int64), **SEED)  # fmt: skip
    assert [sorted(row) for row in found.tolist()] == [[1, 2], [0, 2]]


def test_negative_numbers_are_damped_at_random_in_training() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    arguments = {"self": x, "lower": 0.1, "upper": 0.3, **SEED}
    noise = x.copy()
    out = outputs(A2, "aclnnRReluWithNoise", noise=noise, training=True, **arguments)[-1]
    np.testing.assert_allclose(out, x * noise, rtol=1e-6)
    assert (noise[x >= 0] == 1).all()
    assert ((noise[x < 0] >= 0.1) & (noise[x < 0] < 0.3)).all()
    changed = {**arguments, "self": x.copy(), "noise": x.copy(), "training": True}
    assert (outputs(A2, "aclnnInplaceRReluWithNoise", **changed)[0] == out).all()
    out = outputs(A2, "aclnnRReluWithNoise", noise=noise, training=False, **arguments)[-1]
    np.testing.assert_allclose(out, np.where(x < 0, 0.2 * x, x), rtol=1e-6)


def rows_of(op: str, output: str) -> float:
    profile = load_profile("Ascend910B4" if "Normal" in op or "Uniform" in op else "Ascend910B1")
    kernels = kernels_of(profile, TaskSpec(op, (), (parse_tensor(output),)))
    return run_tasks(kernels, profile, empty_cache(profile)).duration_us


@pytest.mark.parametrize(
    ("op", "output", "measured_us"),
    [
        ("DSARandomNormal", "fp32[1024,1024,1024]", 101_400),
        ("DSARandomNormal", "fp32[147456]", 15.1),
        ("DSARandomNormal", "fp32[384]", 1.46),
        ("DSAGenBitMask", "uint8[6291456]", 395.5),
        ("DSAStatelessGenBitMask", "uint8[6291456]", 395.5),
        ("DSAStatelessGenBitMask", "uint8[1572864]", 99.5),
    ],
)
def test_the_engine_takes_as_long_as_recorded(op: str, output: str, measured_us: float) -> None:
    assert rows_of(op, output) == pytest.approx(measured_us, rel=0.1)


@pytest.mark.parametrize(
    ("name", "said", "op", "output"),
    [
        ("aclnnInplaceNormal", {"mean": 0.0, "std": 1.0}, "DSARandomNormal", "fp32[4096,999]"),
        ("aclnnInplaceUniform", {"from": 0.0, "to": 1.0}, "DSARandomUniform", "fp32[4096,999]"),
        ("aclnnInplaceRandom", {"from": 0, "to": 9}, "DSARandomUniform", "fp32[4096,999]"),
        ("aclnnDropoutGenMask", {"shape": [4096, 1024], "prob": 0.1}, "DSAGenBitMask",
         "uint8[524288]"),
        ("aclnnBernoulli", {"prob": 0.5}, "DSAGenBitMask", "uint8[524288]"),
        ("aclnnDropout", {"p": 0.5, "train": True}, "DSAGenBitMask", "uint8[524288]"),
    ],
)  # fmt: skip
def test_a_generator_has_one_rate_in_calls_and_in_rows(
    name: str, said: dict[str, Any], op: str, output: str
) -> None:
    chip = "Ascend910B1" if "Mask" in op else "Ascend910B4"
    given: dict[str, Any] = {"seed": 1, "offset": 0, **said}
    if "Inplace" in name:
        given["selfRef"] = parse_tensor(output)
    elif name != "aclnnDropoutGenMask":
        given["self" if "Bern" in name else "input"] = parse_tensor("fp32[4096,1024]")
    found = Device(chip).estimate(name, **given)
    (drawn,) = [task for task in found.tasks if task.name == op]
    assert drawn.duration_us == pytest.approx(rows_of(op, output), rel=1e-6)
