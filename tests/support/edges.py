"""Calls of the references' rows with numbers at the edges, held against what they give in float64.

NaN, infinities, signed zeros, subnormal and large numbers, the ends of integers, axes without an
element, tensors without an axis, negative and zero strides. A row makes its call as always; where
it draws any number (not places or counts), some become such ones. What a chip is known to do
otherwise stands in a table of docs/numerics.md.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

import numpy as np
from hypothesis.errors import UnsatisfiedAssumption

from npusim import Device, TensorSpec
from npusim.values.dtypes import dtype
from npusim.values.errors import NpusimError
from support.paths import ROOT
from support.references import row as _row
from support.references import rows, running
from support.references.calls import CLOSE, Called, called_by
from support.references.row import Array, Draw, Fill, Row, as_dtype, real

NUMBERS: tuple[Fill, ...] = (
    _row.real, _row.positive, _row.above_one, _row.small, _row.share, _row.coarse, _row.nonzero,
    _row.odd,
)  # fmt: skip
"""What a row draws where any number will do."""

KINDS = {
    "special": (np.nan, np.inf, -np.inf),
    "large": (3e38, -3e38, 65504.0, -65504.0, 1e5, -3e9),
    "small": (0.0, -0.0, 1e-40, -1e-45, 6e-8, -6e-8),
    "plain": (1.0, -1.0, 0.5, -2.5, 100.0),
}
_LARGE_SUMMANDS = (65504.0, -65504.0, 4096.0, -1e4)  # whose sums stay finite in float32
WHOLE = "whole"  # of calls without a fraction

ELEMENTWISE = ("pointwise", "activations", "foreach")
TABLES = (*ELEMENTWISE, "losses", "movement", "reductions", "selection", "streamed", "trained")
"""Modules of references of kernels that work element by element, reduce, sort or index."""


_WHOLE_BY_FLOATS = (
    *(f"{kind}Pad{axes}d" for kind in ("Reflection", "Replication") for axes in (1, 2, 3)),
    *("Round", "L1Loss", "FloorDivides", "SearchSorteds", "DivMods"),
)
_SUMS = (
    *("LogSumExp", "LogSoftmax", "ReduceLogSum", "SoftMarginLoss", "SoftmaxBackward", "Logdet"),
    *(f"{kind}Pad3dBackward" for kind in ("Circular", "Reflection", "Replication")),
    *("ReflectionPad2dBackward", "BinaryCrossEntropyWithLogitsBackward", "TfScatterAdd"),
)
REFERENCES = {
    **dict.fromkeys(_WHOLE_BY_FLOATS, WHOLE),
    **dict.fromkeys(_SUMS, "large"),
    **dict.fromkeys(("TriangularSolve", "Inverse"), "special"),
}
"""What isn't compared: integers that the reference takes by float64, exponentials that overflow
there, sorted places that no longer are, and sums in which large numbers cancel."""


class Edges(Draw):
    """Chooses by a seed; the numbers of a call are of one kind among ordinary ones."""

    def __init__(self, api: str, family: str, seed: int, kind: str, *, sums: bool) -> None:
        self.random = Random(seed)  # noqa: S311 - calls, no secrets
        super().__init__(_never, api, family)
        self.pool = _LARGE_SUMMANDS if sums and kind == "large" else KINDS[kind]
        self.are_ends = kind in ("special", "large")

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.random.getrandbits(32))

    def one_of(self, *options: Any) -> Any:
        return self.random.choice(options)

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def shape(
        self, low: int = 0, high: int = 8, sizes: Sequence[int] = _row.SIZES
    ) -> tuple[int, ...]:
        count = self.whole(low, max(low, min(high, 4)))
        return _row.bounded([self.random.choice(sizes) for _ in range(count)])

    def axes(self, rank: int, *, some: bool = False) -> list[int]:
        chosen = [axis for axis in range(rank) if self.one_of(True, False)]
        chosen = chosen or ([self.whole(0, rank - 1)] if some and rank else [])
        return [self.one_of(axis, axis - rank) for axis in chosen]

    def tensor(
        self,
        parameter: str,
        shape: Sequence[int],
        fill: Fill = real,
        *,
        kind: str = "",
        among: Sequence[str] = (),
    ) -> Array:
        kind = kind or self.dtype(parameter, among)
        values = np.asarray(fill(self.rng, tuple(shape)))
        values = as_dtype(np.abs(values) if kind == "BOOL" else values, kind)
        if fill in NUMBERS and kind != "BOOL":
            edges = self.rng.choice(self._edges(kind), values.shape)
            values = np.where(self.rng.random(values.shape) < 0.4, edges, values)
        return self.laid_out(np.asarray(values))

    def _edges(self, kind: str) -> Array:
        numpy = dtype(kind).numpy
        if dtype(kind).category == "float":
            with np.errstate(all="ignore"):
                return np.asarray(self.pool).astype(numpy)
        ends = np.iinfo(numpy)
        found = (ends.min, ends.max, ends.min + 1, ends.max - 1, 0, 1)
        return np.asarray(found if self.are_ends else (0, 1, 2, 7), numpy)

    def laid_out(self, values: Array) -> Array:
        way = self.one_of("whole", "reversed", "repeated", "other")
        if not values.ndim or way == "whole":
            return values
        if way == "reversed":
            return np.ascontiguousarray(values[..., ::-1])[..., ::-1]
        if way == "repeated" and values.shape[-1] == 1:
            return np.broadcast_to(values[..., :1], values.shape)
        return super().laid_out(values)


def _never(strategy: Any) -> Any:
    raise AssertionError(strategy)


@cache
def places() -> dict[str, str]:
    """The tables of interfaces that are compared; in-place forms are with what they change."""
    found = {
        row.api: table
        for table in TABLES
        for row in import_module(f"support.references.{table}").ROWS
    }
    in_place = {api.replace("aclnnInplace", "aclnn"): api for api in rows() if "Inplace" in api}
    return found | {own: found[api] for api, own in in_place.items() if api in found}


@cache
def listed() -> dict[tuple[str, str], str]:
    """What docs/numerics.md lists: by interface and kind of numbers, what comes out and why."""
    text = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")
    found = {}
    for line in re.findall(r"^\| aclnn: .*", text, re.MULTILINE):
        names, kinds, why, *_ = (each.strip() for each in line.strip("|").split("|"))
        for name in names.removeprefix("aclnn: ").split():
            found |= {(f"aclnn{name}", kind.strip()): why for kind in kinds.split(",")}
    return found


def differences(
    family: str, device: Device, seeds: Sequence[int], every: int = 1
) -> Iterator[tuple[str, str, str]]:
    """Interfaces, kinds of numbers and what differs there, of some calls of each row and kind."""
    known = sorted(places().items())
    for each, table in (pair for pair in known[::every] if pair[0] in running(family)):
        for row in rows()[each]:
            for kind in KINDS:
                for seed in seeds:
                    edges = Edges(
                        each, family, seed * 4 + len(kind), kind, sums=table not in ELEMENTWISE
                    )
                    label, wrong = _difference(row, device, edges, kind)
                    own = each.replace("Inplace", "")
                    if wrong and REFERENCES.get(own.removeprefix("aclnn")) != label:
                        yield own, label, f"{wrong} (seed {seed})"


def _difference(row: Row, device: Device, edges: Edges, kind: str) -> tuple[str, str]:
    """The kind of numbers in a call and what is wrong with its results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = called_by(row, edges)
        except (UnsatisfiedAssumption, RuntimeError, ValueError, np.linalg.LinAlgError):
            return kind, ""  # the reference takes no such numbers
    tensors = [each for each in call.arguments.values() if isinstance(each, np.ndarray)]
    shown = {name: each for name, each in call.arguments.items() if name not in call.wanted}
    fractions = any(dtype(each.dtype).category == "float" for each in tensors)
    label = kind if fractions else WHOLE
    saturates = not device.profile.features.inf_nan
    if saturates and (label in ("special", "large") or not all(map(_is_finite, tensors))):
        return label, ""  # what its formula makes of them
    given = {name: each.copy() for name, each in shown.items() if isinstance(each, np.ndarray)}
    try:
        outputs = device.run(row.api, **call.arguments).outputs
    except NpusimError:
        return label, ""
    for name, each in given.items():
        if each.tobytes() != call.arguments[name].tobytes():
            return label, f"{name} was changed"
    for name, want in call.wanted.items() if outputs is not None else ():
        if name not in outputs or outputs[name].shape != np.shape(want):
            return label, f"{name} isn't there, or of another shape"
        wrong = _off(outputs[name], np.asarray(want), call, name, finite=saturates)
        if wrong:
            return label, f"{wrong} of {_described(shown, given)}"
    return label, ""


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float64)).all())


def _described(shown: dict[str, Any], given: dict[str, Array]) -> str:
    words = (
        f"{name}={TensorSpec.of(each) if name in given else each}" for name, each in shown.items()
    )
    return ", ".join(words)


def _off(got: Array, want: Array, call: Called, name: str, *, finite: bool) -> str:
    """The first number that is off; whole ones wrap around, as PyTorch's do."""
    if got.dtype.kind == "c":
        return ""  # pairs of what is compared elsewhere
    kind = dtype(got.dtype).name
    with np.errstate(all="ignore"):
        if dtype(kind).category != "float":
            whole = want if want.dtype.kind != "f" else np.trunc(want)
            far = ~(np.abs(whole) < 2.0**53) if whole.dtype.kind == "f" else False
            whole = np.where(far, 0, whole).astype(np.int64)
            apart = np.abs(got.astype(np.int64) - whole.astype(got.dtype).astype(np.int64))
            wrong = ~(far | (apart <= call.row.off))
        else:
            theirs = want.astype(np.float64)
            rounded = as_dtype(theirs, kind).astype(np.float64)
            theirs = np.where(np.isinf(rounded), rounded, theirs)
            limit = max(call.limit, CLOSE.get(kind, 0.0) * call.row.loose)
            near = np.isclose(got.astype(np.float64), theirs, limit, limit, equal_nan=True)
            wrong = ~(near | (finite & ~np.isfinite(theirs)))
    if not wrong.any():
        return ""
    place = tuple(int(each) for each in np.argwhere(wrong)[0])
    return f"{name}{list(place)} {kind}: {got[place]}, not {want[place]}"
