"""What the page of ScatterPaKvCache asks on A2 and A3: dtypes, and the shapes of each scenario.

Source: hicann/ops-transformer attention/scatter_pa_kv_cache/docs/aclnnScatterPaKvCache.md. Dtypes
and numbers of axes give 161002 there; shapes, which it gives no code, are the tiling's (561002).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.operators.contract import Check
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.operators.contract import Call, Finding

    Shape = tuple[int, ...]

_LAYOUTS = ("", "Norm", "PA_NZ")
_PLAIN, _HEADS_FIRST = ("", "None", "Nct"), "NHSD"
_COMPRESSED = {"Alibi": False, "Rope": True, "Omni": True}  # and whether they have offsets
_BLOCK_BYTES, _MOST_HEADS, _MOST_ROW_BYTES = 32, 4095, 196608
_MOST_PAGE = 65535  # tokens, in fractals
_AXES = (3, 4)


def paged_kinds(*names: str) -> Check:
    """161002 for other dtypes than those of keys, values and slots, or other numbers of axes."""
    key, keys, slots, value, values, *numbers, layout = names

    def test(call: Call) -> Finding:
        blocked = call.arguments.get(layout) == "PA_NZ"
        pairs = [(key, keys), (value, values), *((slots, each) for each in numbers)]
        pairs += [] if blocked else [(key, value)]
        for first, second in pairs:
            given = dict(call.given(first, second))
            if len(given) == len({first, second}) and given[first].dtype is not given[second].dtype:
                kind = given[first].dtype.name
                return f"{second} should be {kind} like {first}, but is {given[second].dtype.name}."
        for name in (key, value):
            spec = call.spec(name)
            if spec.rank not in _AXES and not (name == value and spec.is_empty):
                return f"{name} should have 3 or 4 axes, but has sizes {sizes(spec.shape)}."
        return None

    return Check(StatusCode.ACLNN_ERR_PARAM_INVALID, "dtypes or numbers of axes differ", test)


def paged_shapes(*names: str) -> Check:
    """561002 for tensors that are none of the page's scenarios on A2 and A3."""

    def test(call: Call) -> Finding:
        return next(_objections(call, *names), None)

    title = "tensors are none of the scenarios of the page"
    return Check(StatusCode.ACLNN_ERR_INNER_TILING_ERROR, title, test)


def _objections(call: Call, *names: str) -> Iterator[str]:
    key, keys, slots, value, values, lens, offsets, sequences, layout, mode = names
    said, how = (str(call.arguments.get(each) or "") for each in (layout, mode))
    yield from _modes(call, layout, mode)
    shape, empty = call.spec(key).shape, call.spec(value).is_empty
    if call.spec(key).is_empty or call.spec(keys).is_empty or call.spec(slots).is_empty:
        yield f"{key}, {keys} and {slots} can't be empty."
        return
    if len(shape) != _AXES[0]:
        yield f"{key} should have 3 axes on A2 and A3, but has sizes {sizes(shape)}."
        return
    if empty and (said == "PA_NZ" or how not in _PLAIN or not call.spec(values).is_empty):
        yield f"{value} can be empty in Norm alone, and {values} with it."
    if not empty and call.spec(value).shape[:2] != shape[:2]:
        given = sizes(call.spec(value).shape)
        yield f"{value} should be like {key} {sizes(shape)} but for columns, but is {given}."
    yield from _slots(call, shape[0], how, slots, lens, offsets, sequences)
    pages = call.spec(keys).shape[:1]
    for rows, cache in ((key, keys), (value, values)):
        if rows == key or not empty:
            yield from _cache(call, rows, cache, said, how)
            if call.spec(cache).shape[:1] != pages:
                yield f"{keys} and {values} should have as many pages."
    if how == _HEADS_FIRST and not empty:
        heads, size = shape[1], call.spec(key).dtype.itemsize
        row = sum(prod(call.spec(each).shape[1:]) for each in (key, value)) * size
        if heads >= _MOST_HEADS or row >= _MOST_ROW_BYTES:
            yield f"Less than {_MOST_HEADS} heads and {_MOST_ROW_BYTES} bytes of a token in {how}."


def _modes(call: Call, layout: str, mode: str) -> Iterator[str]:
    said, how = (str(call.arguments.get(each) or "") for each in (layout, mode))
    if said not in _LAYOUTS:
        yield f"{layout} should be Norm or PA_NZ, but is {said}."
    if how not in (*_PLAIN, _HEADS_FIRST, *_COMPRESSED):
        yield f"{mode} should be None, Nct, NHSD, Alibi, Rope or Omni, but is {how}."
    if said == "PA_NZ" and how not in _PLAIN:
        yield f"{mode} {how} isn't for {said}."
    for name in ("stridesOptional", "offsetsOptional"):
        found = call.arguments.get(name)
        if how == "Nct" and isinstance(found, tuple) and (len(found) != 2 or min(found) < 0):
            yield f"{name} should have 2 entries, for keys and values, but is {list(found)}."


def _slots(call: Call, tokens: int, how: str, *names: str) -> Iterator[str]:
    slots, lens, offsets, sequences = names
    count = call.spec(slots).numel
    if how not in _COMPRESSED:
        if count != tokens:
            yield f"{slots} should have a slot for each of {tokens} tokens, but has {count}."
        if given := [each for each in (lens, offsets, sequences) if call.is_given(each)]:
            yield f"{given[0]} is for compressed sequences (Alibi, Rope, Omni)."
        return
    needed = {lens: True, sequences: True, offsets: _COMPRESSED[how]}
    for name, wanted in needed.items():
        if call.is_given(name) is not wanted:
            yield f"{name} should be {'given' if wanted else 'null'} in {how}."
    for name in (lens, offsets):
        if call.is_given(name) and call.spec(name).numel != count:
            yield f"{name} should have {count} elements like {slots}."


def _cache(call: Call, rows: str, cache: str, said: str, how: str) -> Iterator[str]:
    (_, heads, columns), size = call.spec(rows).shape, call.spec(rows).dtype.itemsize
    shape = call.spec(cache).shape
    lanes = _BLOCK_BYTES // size
    forms: tuple[Shape, ...]
    at = 1
    if said == "PA_NZ":
        at = -2
        pages = shape[at] if len(shape) > 1 else 0
        forms = ((heads * columns // lanes, pages, lanes), (heads, columns // lanes, pages, lanes))
    elif how == _HEADS_FIRST:
        at = 2
        forms = ((heads, shape[at] if len(shape) > at else 0, columns),)
    else:
        page = shape[1] if len(shape) > 1 else 0
        forms = ((page, 1 if how in _COMPRESSED else heads, columns),)
    if columns * size % _BLOCK_BYTES and (said == "PA_NZ" or how == _HEADS_FIRST):
        yield f"Rows of {rows} should be multiples of {_BLOCK_BYTES} bytes, not {columns * size}."
    if shape[1:] not in forms:
        wanted = " or ".join(f"[pages, {str(list(each))[1:]}" for each in forms)
        where = " ".join(filter(None, (said or "Norm", how)))
        yield f"{cache} should have sizes {wanted} in {where}, but has {sizes(shape)}."
    if said == "PA_NZ" and shape[at] > _MOST_PAGE:
        yield f"A page of {cache} should have less than {_MOST_PAGE + 1} tokens."
