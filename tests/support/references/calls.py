"""Calls of a row: arguments by name, the results that must come out, and what came out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume

from npusim import Device, TensorSpec
from npusim.values.dtypes import dtype
from npusim.values.errors import AclnnError
from npusim.values.promotion import castable, promote
from support.references.in_c import CLibrary, Done, twin
from support.references.on_device import strangers
from support.references.row import Array, Draw, Row, as_dtype, dtypes_of, exact, outputs_of

# How far results may be from those of float64, as a share of them and of one.
CLOSE = {"FLOAT": 3e-5, "FLOAT16": 3e-3, "BFLOAT16": 2.4e-2, "DOUBLE": 1e-11}
_GUARD = 77  # stands between the elements of a result that isn't contiguous


@dataclass(frozen=True)
class Called:
    """A call: its arguments with lists spelled out, and the results by name."""

    row: Row
    family: str
    arguments: dict[str, Any]
    wanted: dict[str, Any]
    limit: float

    def described(self) -> dict[str, Any]:
        """The arguments without data."""
        return {
            name: TensorSpec.of(each) if isinstance(each, np.ndarray) else each
            for name, each in self.arguments.items()
        }


def called(row: Row, draw: Callable[[Any], Any], family: str) -> Called:
    """A call as the row makes it, with results of its own or those that the interface describes."""
    return called_by(row, Draw(draw, row.api, family))


def called_by(row: Row, d: Draw) -> Called:
    """The same by a chooser of one's own."""
    family = d.family
    given = dict(row.make(d))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        known = given.values() if row.raw else map(exact, given.values())
        found = row.reference(
            *(each.copy() if isinstance(each, np.ndarray) else each for each in known)
        )
    wanted = _by_name(row, found if isinstance(found, tuple) else (found,))
    arguments = dict(spelled(given))
    kinds = [dtype(each.dtype).name for each in arguments.values() if isinstance(each, np.ndarray)]
    if row.changed:
        assume(castable(natural(row, arguments), arguments[row.changed].dtype))
        arguments[row.changed] = d.laid_out(arguments[row.changed])
    elif row.given or d.one_of(False, False, True):
        joint = natural(row, arguments)
        for name, want in wanted.items():
            if name in arguments:
                continue  # changed in place
            kind = result_dtype(row, name, np.asarray(want), joint, family)
            kinds.append(kind)
            arguments[name] = _room(d, np.shape(want), kind)
    limit = max((CLOSE[kind] for kind in kinds if kind in CLOSE), default=CLOSE["FLOAT"])
    return Called(row, family, arguments, wanted, limit * row.loose)


def spelled(given: Mapping[str, Any]) -> Any:
    """Arguments with the tensors of a list by a name each."""
    for name, value in given.items():
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            yield from ((f"{name}{place}", each) for place, each in enumerate(value))
        else:
            yield name, value


def _by_name(row: Row, found: tuple[Any, ...]) -> dict[str, Any]:
    if row.changed and len(found) == 1:
        return {row.changed: found[0]}
    named: dict[str, Any] = {}
    for name, each in zip(outputs_of(row.api), found, strict=False):
        if isinstance(each, list):
            named |= {f"{name}{place}": part for place, part in enumerate(each)}
        elif each is not None:
            named[name] = each
    return named


def natural(row: Row, arguments: Mapping[str, Any]) -> str:
    """The dtype that the tensors and the promoting numbers have together, empty where none."""
    kinds = [dtype(each.dtype) for each in arguments.values() if isinstance(each, np.ndarray)]
    joint = promote(*(kinds if row.natural else kinds[:1])) if kinds else None
    if joint is None:
        return ""
    numbers = [arguments[name] for name in row.promoting if name in arguments]
    name: str = joint.name
    if any(isinstance(each, float) for each in numbers) and joint.category != "float":
        name = "FLOAT"
    elif any(isinstance(each, int) and not isinstance(each, bool) for each in numbers):
        name = "INT64" if name == "BOOL" else name
    return name


def result_dtype(row: Row, name: str, want: Array, joint: str, family: str) -> str:
    """The dtype of a result: truth values, places, or as the inputs; one that the page lists."""
    listed = dtypes_of(row.api, name.rstrip("0123456789"), family) if name else ()
    if want.dtype == np.bool_:
        first = "BOOL"
    elif joint and dtype(joint).category == "float" and want.dtype.kind in "iu":
        first = "INT64"
    elif joint and dtype(joint).category != "float" and want.dtype.kind == "f":
        first = "FLOAT"
    else:
        first = joint or ("INT64" if want.dtype.kind in "iu" else "FLOAT")
    if first in listed or not listed:
        return first
    category = dtype(first).category
    return next((each for each in listed if dtype(each).category == category), listed[0])


def _room(d: Draw, shape: tuple[int, ...], kind: str) -> Array:
    """A tensor for a result, full of something else: whole, or every second of a wider one."""
    numpy = dtype(kind).numpy
    if shape and d.one_of(True, False):
        return np.full((*shape[:-1], 2 * shape[-1]), _GUARD, numpy)[..., ::2]
    return np.full(shape, _GUARD, numpy)


def compare(call: Called, device: Device, library: CLibrary | None = None) -> str:
    """Run a call: empty where it does what the reference says, else what is wrong or refused.

    ``check``, ``estimate``, ``run`` and the C function have to agree. Raises
    AssertionError where they don't, and for numbers, shapes and dtypes that are wrong.
    """
    described = call.described()
    status = device.check(call.row.api, **described)
    if not status.ok:
        for ask, arguments in ((device.estimate, described), (device.run, call.arguments)):
            with pytest.raises(AclnnError) as refused:
                ask(call.row.api, **arguments)
            assert refused.value.status.code == status.code
        named = {name.rstrip("0123456789") for name in call.arguments} | call.arguments.keys()
        if library and named >= set(outputs_of(call.row.api)):
            code = library.call(call.row.api, call.arguments).code
            assert code == status.code, f"{code} from C, not {status}"
        kind = "" if status.is_modelled else " not modelled"
        return f"{int(status.code)}{kind}: {status.message}"
    estimate = device.estimate(call.row.api, **described)
    other = strangers(call.row.api, (task.name for task in estimate.tasks))
    assert not other, f"{call.row.api} is {other}, which the device's host code doesn't launch"
    given = {
        name: twin(each) if isinstance(each, np.ndarray) else each
        for name, each in (call.arguments.items() if library else ())
    }
    before = {
        name: each.copy()
        for name, each in call.arguments.items()
        if isinstance(each, np.ndarray) and name not in call.wanted
    }
    done = device.run(call.row.api, **call.arguments)
    for name, each in before.items():
        assert each.tobytes() == call.arguments[name].tobytes(), f"{name} was changed"
    outputs = done.outputs or {}
    finite = all(map(_is_finite, (*call.arguments.values(), *call.wanted.values())))
    for name, want in call.wanted.items():
        assert name in outputs, f"{name} isn't among the results {list(outputs)}"
        got = outputs[name]
        assert got.shape == np.shape(want), f"{name}: shape {got.shape}, not {np.shape(want)}"
        if name in call.arguments:
            kept(call.arguments[name], got, name)
        elif call.row.natural:
            joint = natural(call.row, call.arguments)
            kind = result_dtype(call.row, name, np.asarray(want), joint, call.family)
            assert dtype(got.dtype).name == kind, f"{name}: {dtype(got.dtype).name}, not {kind}"
        limit = max(call.limit, CLOSE.get(dtype(got.dtype).name, 0.0) * call.row.loose)
        if device.profile.features.inf_nan or finite:
            alike(got, want, limit, name, call.row.off)
    if library:
        room = {name: np.zeros_like(each) for name, each in outputs.items()}
        _in_c(library.call(call.row.api, room | given), outputs, estimate.duration_us)
    return ""


def _is_finite(value: Any) -> bool:
    """Whether there are numbers alone; chips without infinities have something else for them."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fV":
        return True
    return bool(np.isfinite(value.astype(np.float64)).all())


def _in_c(done: Done, outputs: Mapping[str, Array], duration_us: float) -> None:
    """The C function gives the same bits in the same time, which C has as a float."""
    assert done.code == 0, f"{done.code} from C"
    for name, want in outputs.items():
        assert done.tensors[name].tobytes() == want.tobytes(), f"{name} differs from C"
    np.testing.assert_allclose(done.duration_us, duration_us, rtol=1e-6, err_msg="time in C")


def kept(given: Array, got: Array, name: str) -> None:
    """The caller's tensor has the result, and nothing stands between its elements but as before."""
    np.testing.assert_array_equal(given, got, f"{name} isn't in the caller's tensor")
    base = given.base
    if base is not None and base.ndim == given.ndim and base.size == 2 * given.size:
        between = base[..., 1::2]
        clean = (between == np.asarray(_GUARD).astype(base.dtype)) | (between == 0)
        assert clean.all(), f"{name}: stored between its elements"


def alike(got: Array, want: Any, limit: float, name: str, off: int = 0) -> None:
    """Numbers within the error; whole ones and truth values are the same."""
    want = np.asarray(want)
    if got.dtype.kind == "c":
        alike(got.real, want.real, limit, f"{name}, real")
        alike(got.imag, want.imag, limit, f"{name}, imaginary")
        return
    kind = dtype(got.dtype).name
    with np.errstate(all="ignore"):
        if dtype(kind).category != "float":
            rounded = want if want.dtype.kind != "f" else np.trunc(want)
            ends = (0, 1) if kind == "BOOL" else (np.iinfo(got.dtype).min, np.iinfo(got.dtype).max)
            beyond = (rounded < ends[0]) | (rounded > ends[1])  # each chip has its own way
            wanted = np.where(beyond, 0, rounded).astype(got.dtype)
            same = beyond | (got == wanted)
            if off:
                same |= np.abs(got.astype(np.int64) - wanted) <= off
            assert same.all(), f"{name} {kind}: {got[~same][:5]}, not {want[~same][:5]}"
            return
        ours = got.astype(np.float64)
        theirs = want.astype(np.float64)
        bounded = as_dtype(theirs, kind).astype(np.float64)  # beyond the largest is infinite
        theirs = np.where(np.isinf(bounded), bounded, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit, err_msg=f"{name} {kind}")
