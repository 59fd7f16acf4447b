"""Numbers at the edges through operators, held against NumPy in float64, each with its tolerance.

NaN, infinities, -0.0, subnormal and large numbers, the ends of integers, empty axes, tensors
without axes, negative and zero strides. What a chip does otherwise, docs/numerics.md says with its
source: where a row is `plain`, nothing but finite, moderate numbers are compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import erf
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_Dice = random.Random
Array = np.ndarray[Any, Any]


class Row(NamedTuple):
    """An interface, what it computes, how near it comes, and what is compared."""

    api: str
    want: Callable[..., Any]
    relative: float = 0.0
    absolute: float = 0.0
    tensors: int = 1
    plain: bool = False
    kinds: str = "feh"  # float32, float16, bfloat16; i, b, B: int32, int8, uint8
    most: float = 30.0  # of what is compared where it is plain
    attributes: tuple[tuple[str, Any], ...] = ()


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_R = 3e-7  # two or three roundings of float32
ROWS = (
    Row("aclnnAbs", np.abs),
    Row("aclnnNeg", np.negative, kinds="fehib"),
    Row("aclnnRelu", lambda x: np.maximum(x, 0), kinds="fehi"),
    Row("aclnnSqrt", np.sqrt, _R, 0),
    Row("aclnnExp", np.exp, _R, 0, most=80, plain=True),
    Row("aclnnLog", np.log, _R, 1e-7),
    Row("aclnnReciprocal", lambda x: 1 / x, _R, 0, plain=True),
    Row("aclnnSquare", np.square, _R, 0, plain=True),
    Row("aclnnTanh", np.tanh, 0, 2e-7, plain=True),
    Row("aclnnSigmoid", _sigmoid, 1e-6, 1e-12, plain=True),
    Row("aclnnErf", np.vectorize(erf, otypes=[float]), 0, 1e-6, plain=True),
    Row("aclnnSin", np.sin, 0, 1e-5, plain=True),
    Row("aclnnCos", np.cos, 0, 1e-5, plain=True),
    Row("aclnnSign", np.sign, 0, 0, plain=True),
    Row("aclnnFloor", np.floor, plain=True),
    Row("aclnnCeil", np.ceil, plain=True),
    Row("aclnnRound", np.rint, plain=True),
    Row("aclnnIsFinite", np.isfinite),
    Row("aclnnSignbit", lambda x: x < 0),
    Row("aclnnHardshrink", lambda x, lambd: np.where(np.abs(x) <= lambd, 0, x), attributes=(("lambd", 0.5),)),
    Row("aclnnAdd", np.add, _R, 0, 2, kinds="fehibB", attributes=(("alpha", 1),)),
    Row("aclnnSub", np.subtract, _R, 0, 2, kinds="fehibB", attributes=(("alpha", 1),)),
    Row("aclnnMul", np.multiply, _R, 0, 2, kinds="fehibB"),
    Row("aclnnDiv", np.divide, _R, 0, 2, plain=True),
    Row("aclnnMaximum", np.maximum, 0, 0, 2, kinds="fehi"),
    Row("aclnnMinimum", np.minimum, 0, 0, 2, kinds="fehi"),
    Row("aclnnAtan2", np.arctan2, 0, 1e-5, 2),
    Row("aclnnGtTensor", np.greater, 0, 0, 2),
    Row("aclnnEqTensor", np.equal, 0, 0, 2),
    Row("aclnnReduceSum", lambda x, dims: x.sum(dims), 1e-5, 1e-4, plain=True,
        attributes=(("dims", [-1]), ("keepDims", False), ("dtype", "float32"))),
    Row("aclnnAmax", lambda x, dim: x.max(dim), attributes=(("dim", [-1]), ("keepDim", False))),
    Row("aclnnAmin", lambda x, dim: x.min(dim), attributes=(("dim", [-1]), ("keepDim", False))),
    Row("aclnnSort", lambda x: np.sort(x, -1), plain=True, most=1e4,
        attributes=(("dim", -1), ("descending", False), ("stable", True))),
    Row("aclnnCumsum", lambda x, dim: np.cumsum(x, axis=dim), 1e-5, 1e-4, plain=True,
        attributes=(("dim", -1), ("dtype", "float32"))),
)  # fmt: skip
_KINDS = {
    "f": np.float32, "e": np.float16, "h": ml_dtypes.bfloat16, "i": np.int32, "b": np.int8, "B": np.uint8,
}  # fmt: skip
_STEP = {"f": 0.0, "e": 2.0**-10, "h": 2.0**-7}  # of what the result is rounded to
_EDGES = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-45, 6e-8, 1.0, -1.0, 0.5, 3e38, -3e38, 65504.0, 2.0**31, -(2.0**63),
)  # fmt: skip


def _tensor(dice: _Dice, kind: str, *, plain: bool, most: float) -> Array:
    """An array of a shape and strides that nobody means."""
    seed, dtype = np.random.default_rng(dice.getrandbits(32)), _KINDS[kind]
    shape = dice.choice(
        ((), (1,), (0,), (3, 0), (0, 4), (7,), (33,), (4, 5), (2, 3, 17), (1, 1), (5, 1))
    )
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        values = seed.choice([info.min, info.max, 0, 1, info.min + 1, 7], shape).astype(dtype)
    elif plain:
        values = seed.uniform(-min(most, 100), min(most, 100), shape).astype(dtype)
    else:
        with np.errstate(all="ignore"):
            values = seed.choice(np.array(_EDGES), shape).astype(dtype)
    values = np.asarray(values)
    if values.ndim and dice.random() < 0.3:
        values = values[..., ::-1]
    elif values.ndim and dice.random() < 0.3:
        values = np.repeat(values, 2, axis=-1)[..., ::2]
    elif values.ndim and dice.random() < 0.2:
        values = np.broadcast_to(values[..., :1], values.shape)
    return values


def numbers(dice: _Dice, made: Any) -> None:
    """One call; AssertionError where the numbers are further off than the row says."""
    row, chip = dice.choice(ROWS), dice.choice(("Ascend910B3", "Ascend310P3", "Ascend910A"))
    kind, state = dice.choice(row.kinds), dice.getrandbits(64)
    made.shown = f"numbers {row.api} {_KINDS[kind].__name__} on {chip} {state}"
    made.call = lambda: compare(row, chip, kind, _Dice(state))


def compare(row: Row, chip: str, kind: str, dice: _Dice) -> None:
    """Run a row on a chip with tensors of a kind and hold what comes out against NumPy."""
    from npusim import Device
    from npusim.operators.oracle import contract_of

    device = Device(chip)
    ieee = device.profile.features.inf_nan
    plain = row.plain or (not ieee and kind in _STEP)
    first = _tensor(dice, kind, plain=plain, most=row.most)
    tensors = [
        first,
        *(first[..., ::-1].copy() if first.ndim else first for _ in range(1, row.tensors)),
    ]
    parameters = contract_of(row.api, {}).parameters
    names = [each.name for each in parameters if each.kind == "tensor" and each.io == "in"]
    given = dict(zip(names, tensors, strict=False))
    named = {**dict(row.attributes)}
    result = device.run(row.api, **given, **named)
    if result.outputs is None:
        return
    found = next(iter(result.outputs.values()))
    wide = [each if kind not in _STEP else each.astype(np.float64) for each in tensors]
    told = {name: named[name] for name in ("lambd", "dims", "dim") if name in named}
    told = {name: tuple(each) if isinstance(each, list) else each for name, each in told.items()}
    told = {} if row.api == "aclnnSort" else told
    with np.errstate(all="ignore"):
        want = np.asarray(row.want(*(np.atleast_1d(each) for each in wide), **told))
        want = want if first.ndim else want.reshape(())
        want = want.astype(found.dtype).astype(np.float64)
    if not ieee and row.api == "aclnnSort" and kind == "f" and chip == "Ascend910A":
        want = want.astype(np.float16).astype(np.float64)
    if not ieee and kind in _STEP:
        largest = float(ml_dtypes.finfo(_KINDS[kind]).max)
        want = np.nan_to_num(want, posinf=largest, neginf=-largest)
    assert found.shape == want.shape, (row.api, found.shape, want.shape)
    step = _STEP.get(kind, 0.0)
    np.testing.assert_allclose(
        found.astype(np.float64), want, rtol=row.relative + 2 * step * (row.relative + row.absolute > 0),
        atol=row.absolute + 2 * step * (row.absolute > 0), err_msg=f"{row.api} {chip} {tensors!r:.400}",
    )  # fmt: skip
