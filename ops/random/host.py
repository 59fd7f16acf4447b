"""What the aclnn functions of random numbers do on the host.

A2 and A3 have an engine for them (DSA) that takes limits or probability; elsewhere an AI CPU
makes plain ones, which further tasks scale. Source: ops-math random (op_api).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from numpy import broadcast_shapes

from npusim.values.dtypes import BOOL, FLOAT, INT32, INT64, LEAST_NORMAL, UINT8, UINT64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue

_WITH_ENGINE = ("A2", "A3")
_BITS, _MASK_BYTES = 8, 16  # masks are whole 16 bytes


def _stream(
    host: Host, told: tuple[GlobalTensor, ...], seed: int, offset: int
) -> tuple[GlobalTensor, GlobalTensor]:
    """Seed and offset, which tasks read from memory: numbers, or tensors and how far behind."""
    if told:
        number, start = told[0].view(1), told[1].view(1)
        return number, host.together("Add", start, offset, dtype=start.dtype)
    wrapped = 1 << 64
    return host.constant(seed % wrapped, UINT64), host.constant(offset % wrapped, UINT64)


def _random(
    host: Host, shape: Sequence[int], kind: str, stream: tuple[GlobalTensor, GlobalTensor],
    line: tuple[float, float], limits: dict[str, float],
) -> Any:  # fmt: skip
    """Numbers of a kind: by the engine with its `limits`, else plain ones moved onto a `line`.

    The line is what zero becomes, and how far one is from it.
    """
    host.assume("Random numbers have the distribution of the device's, not its bits.")
    out = host.empty(shape, FLOAT)
    if host.profile.family in _WITH_ENGINE:
        return host.run(f"DSARandom{kind}", *stream, outputs=(out,), **limits)
    drawn = host.run(f"StatelessRandom{kind}V2", *stream, outputs=(out,))
    start, step = line
    return host.together("Add", host.together("Mul", drawn, step), start)


def _numbers(
    host: Host, shape: Sequence[int], low: float, high: float,
    stream: tuple[GlobalTensor, GlobalTensor],
) -> Any:  # fmt: skip
    limits = {"low": low, "high": high}
    return _random(host, shape, "Uniform", stream, (low, high - low), limits)


def uniform(
    host: Host, x: GlobalTensor, *told: GlobalTensor,
    low: float, high: float, offset: int, seed: int = 0,
) -> Any:  # fmt: skip
    """Uniform numbers from one limit to below another."""
    return _numbers(host, x.shape, low, high, _stream(host, told, seed, offset))


def whole(
    host: Host, x: GlobalTensor, *told: GlobalTensor,
    low: int, high: int, offset: int, seed: int = 0,
) -> Any:  # fmt: skip
    """Whole numbers from one limit to below another, cut off towards zero."""
    found = _numbers(host, x.shape, low, high, _stream(host, told, seed, offset))
    return found if x.dtype is BOOL else host.cast(host.cast(found, INT32), x.dtype)


def _normal(
    host: Host, shape: Sequence[int], mean: float, std: float,
    stream: tuple[GlobalTensor, GlobalTensor],
) -> Any:  # fmt: skip
    return _random(host, shape, "Normal", stream, (mean, std), {"mean": mean, "std": std})


def normal(
    host: Host, x: GlobalTensor, *told: GlobalTensor,
    mean: float, std: float, offset: int, seed: int = 0,
) -> Any:  # fmt: skip
    """Normal numbers."""
    return _normal(host, x.shape, mean, std, _stream(host, told, seed, offset))


def normal_each(
    host: Host, first: GlobalTensor, second: GlobalTensor | None = None, *, seed: int, offset: int,
    mean: float | None = None, std: float | None = None,
) -> Any:  # fmt: skip
    """Normal numbers, each with a mean and a deviation of its own; one of them may be a number."""
    centre = first if mean is None else mean
    spread = (first if mean is not None else second) if std is None else std
    tensors = [each for each in (first, second) if each is not None]
    shape = broadcast_shapes(*(each.shape for each in tensors))
    drawn = _normal(host, shape, 0.0, 1.0, _stream(host, (), seed, offset))
    wide = host.together("Mul", drawn, spread, dtype=FLOAT)
    return host.cast(host.together("Add", wide, centre, dtype=FLOAT), first.dtype)


def _mask(host: Host, count: int, keep: float, stream: tuple[GlobalTensor, GlobalTensor]) -> Any:
    """A bit for each of so many elements, set with a probability."""
    host.assume("Random numbers have the distribution of the device's, not its bits.")
    size = -(-count // (_BITS * _MASK_BYTES)) * _MASK_BYTES
    has_engine = host.profile.family in _WITH_ENGINE
    op_type = "DSAGenBitMask" if has_engine else "StatelessDropOutGenMask"
    return host.run(op_type, *stream, outputs=(host.empty((size,), UINT8),), keep=keep)


def mask(
    host: Host, *told: GlobalTensor, shape: Sequence[int], drop: float, offset: int, seed: int = 0
) -> Any:
    """The mask that Dropout keeps elements by."""
    return _mask(host, prod(shape), 1.0 - drop, _stream(host, told, seed, offset))


def dropout(
    host: Host, x: GlobalTensor, *, drop: float, train: bool, seed: int, offset: int
) -> Any:
    """Elements dropped with a probability, the others scaled up; and the mask of what is kept.

    There is none where all are kept, or none. Source: ops-math
    random/dsa_gen_bit_mask/op_host/op_api/aclnn_dropout.cpp.
    """
    if not train or drop == 0:
        return host.run("TensorMove", x), None
    if drop == 1:
        return host.run("ZerosLike", x), None
    kept = _mask(host, x.numel, 1.0 - drop, _stream(host, (), seed, offset))
    share = host.constant(1.0 - drop, x.dtype)
    return host.run("DropOutDoMask", x, kept, share), kept


def bernoulli(host: Host, x: GlobalTensor, *, prob: ScalarValue, seed: int, offset: int) -> Any:
    """One with a probability, else zero: through a mask of bits where an engine makes that."""
    stream = _stream(host, (), seed, offset)
    if host.profile.family not in _WITH_ENGINE:
        share = host.constant(prob, FLOAT)
        return host.run(
            "StatelessBernoulli", share, *stream, outputs=(host.empty(x.shape, x.dtype),)
        )
    kept = _mask(host, x.numel, float(prob.real), stream)
    one = host.constant(1.0, FLOAT)
    ones = host.run("Fill", None, one, outputs=(host.empty(x.shape, FLOAT),))
    return host.run("DropOutDoMask", ones, kept, one)


def bernoulli_each(
    host: Host, x: GlobalTensor, prob: GlobalTensor, *, seed: int, offset: int
) -> Any:
    """One with a probability of its own for every element, else zero."""
    host.assume("Random numbers have the distribution of the device's, not its bits.")
    stream = _stream(host, (), seed, offset)
    out = host.empty(x.shape, x.dtype)
    return host.run("StatelessBernoulli", host.cast(prob, FLOAT), *stream, outputs=(out,))


def permutation(host: Host, *, n: int, seed: int, offset: int) -> Any:
    """The numbers below n in a random order."""
    host.assume("Random numbers have the distribution of the device's, not its bits.")
    out = host.empty((n,), INT64)
    return host.run("StatelessRandperm", *_stream(host, (), seed, offset), outputs=(out,))


def drawn(
    host: Host, weights: GlobalTensor, *told: GlobalTensor,
    count: int, replacement: bool, offset: int, seed: int = 0,
) -> Any:  # fmt: skip
    """Places drawn with the probability of their weights.

    With replacement, how many running shares a number is above; else the largest quotients.
    """
    stream = _stream(host, told, seed, offset)
    rows, columns = prod(weights.shape[:-1]), weights.shape[-1]
    given = host.cast(weights, FLOAT).view(rows, columns)
    shape = (*weights.shape[:-1], count)
    if replacement:
        total = host.run("ReduceSum", given, axes=[1], keep_dims=True)
        running = host.run("Cumsum", host.run("RealDiv", given, total), axis=1)
        numbers = _numbers(host, (rows, 1, count), 0.0, 1.0, stream)
        above = host.run("GreaterEqual", numbers, running.view(rows, columns, 1))
        found = host.run("ReduceSum", host.cast(above, FLOAT), axes=[1], keep_dims=False)
        return host.cast(found, INT64).view(*shape)
    plain = _numbers(host, (rows, columns), 0.0, 1.0, stream)
    waiting = host.run("Abs", host.run("Log", host.together("Sub", 1.0, plain)))
    quotients = host.run("RealDiv", given, host.together("Add", waiting, LEAST_NORMAL))
    order = host.empty((rows, columns), FLOAT), host.empty((rows, columns), INT64, "places")
    _, places = host.run("Sort", quotients, axis=1, descending=True, outputs=order)
    return host.run("Slice", places, offsets=[0, 0], size=[rows, count]).view(*shape)


def random_relu(
    host: Host, x: GlobalTensor, noise: GlobalTensor, *, lower: ScalarValue, upper: ScalarValue,
    training: bool, seed: int, offset: int,
) -> Any:  # fmt: skip
    """Negative elements times a number, a random one each in training; and those numbers."""
    low, high = float(lower.real), float(upper.real)
    if not training:
        return host.run("LeakyRelu", x, negative_slope=(low + high) / 2), noise
    numbers = _numbers(host, x.shape, low, high, _stream(host, (), seed, offset))
    negative = host.run("Less", x, host.run("ZerosLike", x))
    factors = host.run("SelectV2", negative, host.cast(numbers, x.dtype), host.run("OnesLike", x))
    return host.run("Mul", x, factors), factors
