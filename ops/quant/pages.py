"""What the pages of quantising activations ask beside how their tensors fit together.

Sources: hicann/ops-nn quant/dynamic_quant, dynamic_quant_v2, ascend_quant_v2, ascend_anti_quant_v2,
trans_quant_param_v2, swi_glu_quant, dequant_swiglu_quant (docs; op_api of dynamic_quant).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.values.dtypes import DTYPES, INT4, INT4_IN_INT32, INT32
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_MOST_LONE, _MOST_GROUPED = 8192, 7232  # the longest row with a gate; with groups, dequantised
_OF_64, _OF_4 = 64, 4


def packed_alike(x: str, y: str) -> Check:
    """161002 for numbers of four bits that don't fill their bytes, and results of other sizes."""

    def test(call: Call) -> Finding:
        shape = call.spec(x).shape
        for name, spec in call.given(y):
            each = {INT4: 2, INT32: INT4_IN_INT32}.get(spec.dtype, 1)
            if shape and shape[-1] % each:
                return f"Rows of {x} {sizes(shape)} should be multiples of {each} for {spec.dtype}."
            wanted = (*shape[:-1], shape[-1] // INT4_IN_INT32) if spec.dtype is INT32 else shape
            if spec.shape != wanted:
                return f"{name} should have sizes {sizes(wanted)}, but has {sizes(spec.shape)}."
        return None

    return invalid(f"{y} hasn't the numbers of {x}", test)


def bytes_made(y: str) -> Check:
    """161002 for a result in numbers of four bits, which no kernel here makes."""

    def test(call: Call) -> Finding:
        for name, spec in call.given(y):
            if spec.dtype in (INT4, INT32):
                return f"not modelled (a device may run it): {name} in {spec.dtype.dt}."
        return None

    return invalid(f"{y} has numbers of four bits", test)


def dtype_is(attribute: str, y: str) -> Check:
    """161002 for a result in another dtype than an attribute says (aclDataType)."""

    def test(call: Call) -> Finding:
        asked = call.arguments.get(attribute)
        for name, spec in call.given(y):
            if isinstance(asked, int) and spec.dtype.acl != asked:
                said = next((kind.dt for kind in DTYPES if kind.acl == asked), str(asked))
                return f"{name} should be {said} with {attribute} {asked}, not {spec.dtype.dt}."
        return None

    return invalid(f"{y} isn't in the dtype of {attribute}", test)


def line_along(x: str, axis: str, *lines: str, last: int = 1, alone: bool = False) -> Check:
    """161002 for scales that aren't one, or one for each place along an axis, the last by default.

    ``last`` is how many of the last axes it may be; those that are ``alone`` have one axis.
    """

    def test(call: Call) -> Finding:
        whole = call.spec(x)
        told = call.arguments.get(axis)
        at = told if isinstance(told, int) else -1
        if not -whole.rank <= at < whole.rank or at % whole.rank < whole.rank - last:
            return f"{axis} should be one of the last {last} axes of {x}, but is {at}."
        count = whole.shape[at]
        if whole.dtype is INT32 and alone:
            count *= INT4_IN_INT32
        for name, spec in call.given(*lines):
            spread = [1] * whole.rank
            spread[at] = count
            allowed: list[tuple[int, ...]] = [(1,), (count,)]
            if not alone:
                allowed += [tuple(spread), (1,) * whole.rank]
            if spec.shape not in allowed:
                listed = " or ".join(map(sizes, dict.fromkeys(allowed)))
                return f"{name} should be {listed}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{', '.join(lines)} aren't a number for each place along {x}", test)


def scales_packed(scale: str, offset: str, out: str) -> Check:
    """161002 for scales, offsets and results that have no shape of products' scales."""

    def test(call: Call) -> Finding:
        given = dict(call.given(scale, offset, out))
        lines = given[scale].shape
        if offset in given:
            for name in (scale, offset):
                shape = given[name].shape
                if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
                    return f"{name} should be [n] or [1, n], but has sizes {sizes(shape)}."
            if len(lines) == 1:
                lines = (max(lines[0], prod(given[offset].shape)),)
        for name in (out,) if out in given else ():
            if given[name].shape != lines:
                return (
                    f"{name} should have sizes {sizes(lines)}, but has {sizes(given[name].shape)}."
                )
        return None

    return invalid(f"{scale}, {offset} and {out} have no shapes of products' scales", test)


def grouped_lines(x: str, groups: str, experts: int, *lines: str) -> Check:
    """161002 for smoothing that isn't a row, or one for each of at most ``experts`` groups."""

    def test(call: Call) -> Finding:
        width = call.spec(x).shape[-1:]
        count = dict(call.given(groups))
        if count and not any(call.is_given(name) for name in lines):
            return f"{groups} needs {lines[0]}."
        for name, spec in call.given(*lines):
            if not count and spec.shape != width:
                return f"{name} should have sizes {sizes(width)}, but has {sizes(spec.shape)}."
            for other, ends in count.items():
                wanted = (*ends.shape, *width)
                if ends.rank != 1 or spec.shape != wanted or wanted[0] > experts:
                    found = f"{name} {sizes(spec.shape)} and {other} {sizes(ends.shape)}"
                    return f"{found} should be [g, {width[0]}] and [g], g at most {experts}."
        return None

    return invalid(f"{', '.join(lines)} aren't rows of {x}", test)


def short_rows(x: str, groups: str) -> Check:
    """161002 for rows that gated quantisation with groups doesn't take."""

    def test(call: Call) -> Finding:
        width = call.spec(x).shape[-1]
        most = _MOST_GROUPED if call.is_given(groups) else width
        if width > most or width % _OF_64:
            return f"Rows of {x} should be multiples of {_OF_64}, {most} at most, not {width}."
        return None

    return invalid(f"rows of {x} are too long, or not of whole {_OF_64}", test)


def gated_row(x: str, y: str) -> Check:
    """161002 for rows that a gate with quantisation doesn't take."""

    def test(call: Call) -> Finding:
        width = call.spec(x).shape[-1]
        if width > _MOST_LONE:
            return f"Rows of {x} should be {_MOST_LONE} at most, but are {width}."
        for name, spec in call.given(y):
            if spec.dtype is INT4 and width % _OF_4:
                return f"Rows of {x} should be multiples of {_OF_4} for {name} in INT4."
        return None

    return invalid(f"rows of {x} are too long", test)


def only_of_sums(x: str, *names: str) -> Check:
    """161002 for scales and a bias beside x that is no sum of a product of whole numbers."""

    def test(call: Call) -> Finding:
        if call.spec(x).dtype is INT32:
            return None
        for name, _ in call.given(*names):
            said = f"{name} should be null where {x} isn't INT32."
            return said, f"Leave {name} out.", {name: None}
        return None

    return invalid(f"{', '.join(names)} without {x} in INT32", test)


def needed_by_sums(x: str, name: str) -> Check:
    """161001 for a null pointer in the place of the scales of sums."""

    def test(call: Call) -> Finding:
        if call.spec(x).dtype is not INT32 or call.is_given(name):
            return None
        return f"{name} should be given where {x} is INT32.", f"Give {name}."

    check = invalid(f"{name} is null and {x} INT32", test)
    return check._replace(code=StatusCode.ACLNN_ERR_PARAM_NULLPTR)
