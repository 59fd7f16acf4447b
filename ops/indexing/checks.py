"""Which shapes of tables, indices and updates belong together, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.operators.checks import each_tensor, invalid, same_shape, size_mismatch, sizes
from npusim.operators.results import described
from npusim.operators.shape_checks import axes_in, entries
from npusim.values.dtypes import BOOL, FLOAT
from npusim.values.tensors import broadcastable

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec


def only_adds(name: str, reduce: str, include: str) -> Check:
    """161002 for anything but sums of float32 with what is there. Source: aclnnScatterReduce."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.dtype is not FLOAT:
            return f"{name} should be FLOAT on {call.profile.name}, but is {spec.dtype}."
        if call.arguments.get(reduce) != 1 or not call.arguments.get(include):
            return f"{reduce} should be 1 and {include} true on {call.profile.name}."
        return None

    return each_tensor("it isn't a sum of float32 with what is there", (name,), objection)


def tuples_of(indices: str, of: str) -> Check:
    """161002 for index tuples with more numbers than a tensor has axes."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        for table, whole in call.given(of):
            if not spec.rank or not 0 < spec.shape[-1] <= whole.rank:
                axes = f"{table} with sizes {sizes(whole.shape)} has axes"
                return f"The last axis of {name} {sizes(spec.shape)} should be as most as {axes}."
        return None

    return each_tensor(f"{indices} has more numbers than {of} has axes", (indices,), objection)


def rows_at(var: str, indices: str, updates: str, *, tuples: bool = False) -> Check:
    """161002 for updates that aren't a row for each index, or for each tuple of one number.

    With ``tuples`` these may have several numbers, and a row is what they leave of the axes.
    """

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        places, row = call.spec(indices).shape, call.spec(var).shape[1:]
        if not call.spec(var).rank:
            return f"{var} has no rows."
        if spec.shape in ((*places, *row), (*places[:-1], *row)):
            return None
        if tuples and spec.shape == (*places[:-1], *call.spec(var).shape[places[-1] :]):
            return None
        return size_mismatch(name, spec.shape, (*places, *row), f"{indices} and the rows of {var}")

    return each_tensor(f"{updates} isn't a row of {var} for each index", (updates,), objection)


def added_along(axis: str, var: str, indices: str, updates: str) -> Check:
    """161002 for updates that aren't like a variable but along an axis, which indices name."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        whole, places = call.spec(var), call.spec(indices)
        if not whole.rank or places.rank != 1:
            return f"{indices} {sizes(places.shape)} should be a row of places in {var}."
        place = (entries(call, axis) or (0,))[0] % whole.rank
        wanted = (*whole.shape[:place], places.numel, *whole.shape[place + 1 :])
        return size_mismatch(name, spec.shape, wanted, f"{var} along axis {place}")

    return each_tensor(f"{updates} doesn't fit {var} along {axis}", (updates,), objection)


def places_in(axis: str, of: str, *inputs: str) -> Check:
    """161002 for indices, the second input, beyond a tensor in axes other than ``axis``."""
    indices = inputs[1]

    def test(call: Call) -> Finding:
        whole, places = call.spec(of), call.spec(indices)
        place = (entries(call, axis) or (0,))[0] % max(1, whole.rank)
        pairs = enumerate(zip(whole.shape, places.shape, strict=False))
        beyond = any(given > own for at, (own, given) in pairs if at != place)
        if beyond or whole.rank != places.rank:
            limit = f"{of} with sizes {sizes(whole.shape)} but for axis {place}"
            return f"{indices} {sizes(places.shape)} should lie inside {limit}."
        return None

    return invalid(f"{indices} isn't inside {of}", test)


def reads_something(axis: str, of: str, indices: str) -> Check:
    """161002 for places along an axis that has no elements."""

    def test(call: Call) -> Finding:
        whole = call.spec(of)
        place = (entries(call, axis) or (0,))[0]
        if not whole.rank or whole.shape[place] or call.spec(indices).is_empty:
            return None
        return f"Axis {place} of {of} {sizes(whole.shape)} has nothing to take."

    return invalid(f"{of} has nothing along {axis}", test)


def takes_from(of: str, indices: str) -> Check:
    """161002 for indices into a tensor without elements (ops-nn aclnn_take.cpp)."""

    def test(call: Call) -> Finding:
        if not call.spec(of).is_empty or call.spec(indices).is_empty:
            return None
        return f"{of} should have elements to take, but has sizes {sizes(call.spec(of).shape)}."

    return invalid(f"{of} is empty and {indices} isn't", test)


def holding(*names: str) -> Check:
    """161002 for a tensor without elements."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        return f"{name} {sizes(spec.shape)} should have elements." if spec.is_empty else None

    return each_tensor(f"{' or '.join(names)} is empty", names, objection)


def cached(axis: str, data: str, indices: str, updates: str) -> Check:
    """161002 for updates of another rank, indices of more than two axes, and what doesn't fit.

    Source: ops-nn index/scatter, op_api/aclnn_scatter_update.cpp, then the operator's page.
    """

    def test(call: Call) -> Finding:
        whole, places, new = (call.spec(each) for each in (data, indices, updates))
        if new.rank != whole.rank:
            return f"{updates} {sizes(new.shape)} should have as many axes as {data}."
        if not places.rank and new.shape[:1] != (1,):
            return f"The first axis of {updates} should be 1 for one index, but is {new.shape[:1]}."
        if places.rank > 2:
            return f"{indices} should have no more than two axes, but has {places.rank}."
        at = (entries(call, axis) or (-2,))[0]  # recorded ones leave the axis of tokens out
        if not at % max(1, whole.rank) or not -whole.rank < at < whole.rank:
            return f"{axis} should name an axis of {data} behind the first, but is {at}."
        at %= whole.rank
        if places.rank and places.shape not in ((new.shape[0],), (new.shape[0], 2)):
            wanted = f"{sizes(new.shape[:1])} or {sizes((new.shape[0], 2))}"
            return f"{indices} should have sizes {wanted}, but has {sizes(places.shape)}."
        like = (new.shape[0], *whole.shape[1:at], new.shape[at], *whole.shape[at + 1 :])
        if new.shape != like or any(a > b for a, b in zip(new.shape, whole.shape, strict=True)):
            within = f"{data} {sizes(whole.shape)} but for the first axis and axis {at}"
            return f"{updates} {sizes(new.shape)} should be {within}, and nowhere larger."
        return None

    return invalid(f"{updates} or {indices} don't fit {data}", test)


def scattered(axis: str, var: str, indices: str, updates: str) -> Check:
    """161002 for updates that fit neither a cache of keys nor, one by one, their indices."""
    cache = (cached(axis, var, indices, updates),)
    elements = (
        axes_in(axis, var),
        places_in(axis, var, var, indices),
        same_shape(indices, updates),
    )

    def test(call: Call) -> Finding:
        is_cache = call.spec(indices).shape != call.spec(updates).shape
        chosen = cache if is_cache else elements
        return next((found for each in chosen if (found := each.test(call))), None)

    return invalid(f"{updates} and {indices} don't fit {var}", test)


def selected(of: str, index: str, out: str, axis: str) -> Check:
    """161002 for a result that isn't as long along the axis as there are indices.

    One index is a row of one; of a single element there can be no more than one.
    """

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted, count = list(call.spec(of).shape), call.spec(index).numel
        if not wanted and count != 1:
            return f"{index} should be one for a single element, but there are {count}."
        if wanted:
            wanted[(entries(call, axis) or (0,))[0]] = count
        if list(spec.shape) == wanted:
            return None
        return f"The shape of {name} should be {sizes(wanted)}, but got {sizes(spec.shape)}."

    return each_tensor(f"{out} isn't as long as {index}", (out,), objection)


def encodes(of: str, classes: str, axis: str, out: str) -> Check:
    """161002 for a number of classes below zero, or none of an empty tensor, and other results."""

    def test(call: Call) -> Finding:
        (count, *_), places = entries(call, classes) or (0,), call.spec(of)
        if count < places.is_empty:
            return f"{classes} should be at least {int(places.is_empty)}, but got {count}."
        told = {"axis": call.arguments.get(axis, -1), "depth": count}
        wanted = one_hot([places, places], told)[0].shape
        for name, spec in call.given(out):
            if spec.shape != wanted:
                return f"{name} should have sizes {sizes(wanted)}, but has {sizes(spec.shape)}."
        return None

    return invalid(f"{out} isn't {of} with an axis of {classes}", test)


def gathered(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """The indices in the place of the axis."""
    x, indices, *_ = given
    axis = int(attributes.get("axis", 0)) % max(1, x.rank)
    return [described((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)]


def gathered_parts(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """A part of the tensor for each tuple of indices."""
    x, indices = given
    return [described((*indices.shape[:-1], *x.shape[indices.shape[-1] :]), x.dtype)]


def one_hot(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """One more axis, as long as there are classes."""
    depth = attributes.get("depth")
    if depth is None:
        return []
    shape, axis = given[0].shape, int(attributes.get("axis", -1)) % (given[0].rank + 1)
    return [described((*shape[:axis], int(depth), *shape[axis:]), given[1].dtype)]


def covered(part: str, whole: str) -> Check:
    """161002 for a tensor that is larger along an axis than the one it takes a part of."""

    def test(call: Call) -> Finding:
        specs = dict(call.given(part, whole))
        if len(specs) < len((part, whole)):
            return None
        small, large = specs[part].shape, specs[whole].shape
        if len(small) == len(large) and all(a <= b for a, b in zip(small, large, strict=True)):
            return None
        return f"{part} {sizes(small)} should be no larger than {whole} {sizes(large)}."

    return invalid(f"{part} is larger than {whole}", test)


def together(*names: str) -> Check:
    """161002 for tensors that don't broadcast to one shape."""

    def test(call: Call) -> Finding:
        given = dict(call.given(*names))
        try:
            np.broadcast_shapes(*(spec.shape for spec in given.values()))
        except ValueError:
            shapes = " and ".join(f"{name} {sizes(spec.shape)}" for name, spec in given.items())
            return f"{shapes} can't be broadcast to one shape."
        return None

    return invalid(f"{', '.join(names)} don't broadcast", test)


def indexed(of: str, out: str, *indices: str) -> Check:
    """161002 for more indices than axes, or a result that isn't their shape and the axes behind.

    An index without elements takes its axis as it is.
    """

    def test(call: Call) -> Finding:
        whole, given = call.spec(of), [spec for _, spec in call.given(*indices)]
        if len(given) > whole.rank:
            return f"{of} with sizes {sizes(whole.shape)} has fewer axes than there are indices."
        try:
            wanted = indexed_shape(whole.shape, [each.shape for each in given])
        except ValueError:
            return "The indices can't be broadcast to one shape."
        for name, spec in call.given(out):
            if spec.numel != prod(wanted):
                return size_mismatch(name, spec.shape, wanted, f"what is indexed of {of}")
        return None

    return invalid(f"the indices don't fit {of}", test)


def indexed_shape(whole: Sequence[int], indices: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of what indices take of a tensor: NumPy's rule for those that are apart."""
    there = [axis for axis, each in enumerate(indices) if 0 not in each]
    shape = np.broadcast_shapes(*(indices[axis] for axis in there))
    rest = [size for axis, size in enumerate(whole) if axis not in there]
    neighbours = there == list(range(there[0], there[0] + len(there))) if there else False
    at = there[0] if neighbours else 0
    return (*rest[:at], *shape, *rest[at:])


def put_at(of: str, values: str, *indices: str) -> Check:
    """161002 for values that don't broadcast to what indices, of the first axes, take."""

    def test(call: Call) -> Finding:
        whole, given = call.spec(of), [spec for _, spec in call.given(*indices)]
        if not given or len(given) > whole.rank or any(each.is_empty for each in given):
            return f"There should be an index for each of the first axes of {of}."
        if any(each.dtype is BOOL for each in given):
            return None  # how many places a mask takes, its values tell
        try:
            wanted = indexed_shape(whole.shape, [each.shape for each in given])
        except ValueError:
            return "The indices can't be broadcast to one shape."
        for name, spec in call.given(values):
            if not broadcastable(spec.shape, wanted):
                return size_mismatch(name, spec.shape, wanted, f"what is indexed of {of}")
        return None

    return invalid(f"{values} don't fit what is indexed of {of}", test)


def counts_rows(counts: str, of: str, axis: str = "") -> Check:
    """161002 for counts that are neither one number nor one for each row."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        whole = call.spec(of)
        place = (entries(call, axis) or (0,))[0] if axis else 0
        rows = whole.shape[place % whole.rank] if axis and whole.rank else whole.numel
        if spec.numel in (1, rows) and spec.rank <= 1:
            return None
        return f"{name} {sizes(spec.shape)} should be one number, or {rows} for the rows of {of}."

    return each_tensor(f"{counts} isn't a count for each row of {of}", (counts,), objection)
