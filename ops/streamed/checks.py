"""Which shapes belong together: halves of rows, bytes of signs, lines of images, windows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import each_tensor, invalid, sizes
from npusim.operators.contract import Check
from npusim.operators.shape_checks import entries
from npusim.schedules.masks import BITS
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Finding
    from npusim.values.tensors import TensorSpec

_LEAST_AXES = 2


def _axis(call: Call, dim: str, rank: int) -> int:
    named = (entries(call, dim) or (-1,))[0] if dim else -1
    return named if -rank <= named < rank else rank


def in_halves(x: str, dim: str = "") -> Check:
    """161002 for a tensor that can't be cut into halves along an axis."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        axis = _axis(call, dim, spec.rank)
        if axis == spec.rank or spec.shape[axis] % 2:
            return f"{name} {sizes(spec.shape)} should have two halves along axis {axis}."
        return None

    return each_tensor(f"{x} has no halves", (x,), objection)


def rows_within(x: str, width: int, rows: int) -> Check:
    """561002 for rows that are longer, or more, than the tiling takes; they need an axis of rows.

    Source: public page and host tiling of the operator.
    """

    def test(call: Call) -> Finding:
        for name, spec in call.given(x):
            if spec.rank < _LEAST_AXES:
                return f"{name} {sizes(spec.shape)} should have 2 axes or more."
            if spec.shape[-1] > width or prod(spec.shape[:-1]) > rows:
                return (
                    f"{name} {sizes(spec.shape)} should have {width} in a row, {rows} rows at most."
                )
        return None

    code = StatusCode.ACLNN_ERR_INNER_TILING_ERROR
    return Check(code, f"{x} has more, or longer, rows than the tiling takes", test)


def halved(x: str, dim: str, y: str) -> Check:
    """161002 for a tensor that isn't as large as half of another along an axis."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        shape = list(call.spec(x).shape)
        axis = _axis(call, dim, len(shape))
        if axis < len(shape):
            shape[axis] //= 2
        if list(spec.shape) != shape:
            return f"{name} {sizes(spec.shape)} should have sizes {sizes(shape)}."
        return None

    return each_tensor(f"{y} isn't half of {x}", (y,), objection)


def rows_of_signs(x: str, y: str, size: str) -> Check:
    """161002 for bytes that aren't a bit for each element, in rows alike."""

    def test(call: Call) -> Finding:
        rows = (entries(call, size) or (1,))[0]
        for (_, whole), (name, packed) in zip(call.given(x), call.given(y), strict=False):
            wanted = -(-whole.numel // (BITS * rows)) * rows
            if rows < 1 or packed.numel != wanted:
                return f"{name} {sizes(packed.shape)} should have {wanted} bytes in {rows} rows."
        return None

    return invalid(f"{y} hasn't a bit for each element of {x}", test)


def attribute_of_three(x: str, dim: str) -> Check:
    """161002 for an axis that isn't three long."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        axis = _axis(call, dim, spec.rank)
        if axis == spec.rank or spec.shape[axis] != 3:
            return f"{name} {sizes(spec.shape)} should be 3 long along axis {axis}."
        return None

    return each_tensor(f"{x} isn't three long along {dim}", (x,), objection)


def grouped_ends(x: str, ends: str) -> Check:
    """161002 for groups of a matrix without their ends, or ends of groups that are an axis."""

    def test(call: Call) -> Finding:
        rank, given = call.spec(x).rank, [spec for _, spec in call.given(ends)]
        if (rank == 2) != bool(given) or any(each.rank != 1 or each.is_empty for each in given):
            return f"{ends} should be a row of ends where {x} has two axes, and is missing else."
        return None

    return invalid(f"{ends} doesn't fit {x}", test)


def lines_of_images(x: str, *lines: str) -> Check:
    """161002 for lines that aren't one for each image."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        batch, _, width = call.spec(x).shape
        if spec.shape not in ((batch, 1, width), (batch, width)):
            return f"{name} {sizes(spec.shape)} should be a row of {width} for each of {batch}."
        return None

    return each_tensor(f"{', '.join(lines)} aren't one for each image", lines, objection)


def stretches(x: str, scale: str, axis: str) -> Check:
    """161002 for a scale that isn't as large as axes of a tensor from one on."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        whole = call.spec(x).shape
        at = (entries(call, axis) or (0,))[0] % max(1, len(whole))
        if spec.numel != 1 and spec.shape != whole[at : at + spec.rank]:
            return f"{name} {sizes(spec.shape)} should be {sizes(whole[at:])} or its first axes."
        return None

    return each_tensor(f"{scale} doesn't fit {x} from {axis} on", (scale,), objection)


def axes_of_images(grad: str, x: str, count: int) -> Check:
    """161002 for maps whose images and channels differ."""

    def test(call: Call) -> Finding:
        outer, inner = call.spec(grad), call.spec(x)
        if inner.rank not in (count + 1, count + 2) or outer.rank != inner.rank:
            return f"{grad} and {x} should have {count + 1} or {count + 2} axes."
        if outer.shape[:-count] != inner.shape[:-count] or outer.is_empty:
            return f"{grad} {sizes(outer.shape)} and {x} {sizes(inner.shape)} differ in channels."
        return None

    return invalid(f"{grad} doesn't fit {x}", test)


def thirds_of(x: str, heads: str) -> Check:
    """161002 for rows that aren't queries, keys and values of all heads."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        count = (entries(call, heads) or (1,))[0]
        if count < 1 or not spec.rank or spec.shape[-1] % (3 * count) or not spec.shape[-1]:
            return f"{name} {sizes(spec.shape)} should have 3 * {count} heads in a row."
        return None

    return each_tensor(f"{x} isn't three times {heads}", (x,), objection)


def unfolds(grad: str, whole: str) -> Check:
    """161002 for windows that don't lie in what they are windows of."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        shape = entries(call, whole) or ()
        dim, size, step = ((entries(call, each) or (0,))[0] for each in ("dim", "size", "step"))
        if not shape or not -len(shape) <= dim < len(shape) or step < 1 or size < 1:
            return "dim should name an axis, size and step should be at least 1."
        wanted, axis = list(shape), dim % len(shape)
        wanted[axis] = (shape[axis] - size) // step + 1
        if list(spec.shape) != [*wanted, size] or prod(wanted) <= 0:
            return f"{name} {sizes(spec.shape)} should have sizes {sizes([*wanted, size])}."
        return None

    return each_tensor(f"{grad} aren't windows of {whole}", (grad,), objection)


def alike_but_one(dim: str, *tensors: str) -> Check:
    """161002 for tensors that differ in front of an axis."""

    def test(call: Call) -> Finding:
        given = list(call.given(*tensors))
        axis = (entries(call, dim) or (0,))[0]
        for name, spec in given:
            if spec.rank <= axis or spec.shape[:axis] != given[0][1].shape[:axis] or spec.is_empty:
                return f"{name} {sizes(spec.shape)} should be as {given[0][0]} up to axis {axis}."
        return None

    return invalid(f"{', '.join(tensors)} differ in front of {dim}", test)


def channels_of(x: str, rows: str) -> Check:
    """161002 for rows that haven't a number for each channel."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = call.spec(x).shape[1]
        if spec.shape[-1:] != (wanted,):
            return f"{name} {sizes(spec.shape)} should have {wanted} numbers in a row, as {x}."
        return None

    return each_tensor(f"{rows} hasn't a number for each channel of {x}", (rows,), objection)


def times(whole: str, part: str, count: int) -> Check:
    """161002 for a tensor whose rows aren't so many times as long as another's."""

    def test(call: Call) -> Finding:
        given = dict(call.given(whole, part))
        if len(given) == 2 and given[whole].shape[-1] != count * given[part].shape[-1]:
            return f"{whole} should have {count} times the columns of {part}."
        return None

    return invalid(f"{whole} isn't {count} times as wide as {part}", test)


def nought(name: str) -> Check:
    """161002 for a number that has to be nought."""

    def test(call: Call) -> Finding:
        value = call.arguments.get(name)
        return f"{name} should be 0, but is {value}." if value else None

    return invalid(f"{name} isn't 0", test)


def reduction_is(name: str) -> Check:
    """161002 for a word that is no reduction."""

    def test(call: Call) -> Finding:
        value = call.arguments.get(name)
        if value in (None, "mean", "sum", "none"):
            return None
        return f"{name} should be mean, sum or none, but is {value}."

    return invalid(f"{name} is none of mean, sum and none", test)


def groups_of(x: str, groups: str) -> Check:
    """161002 for channels that can't be divided into so many groups."""

    def test(call: Call) -> Finding:
        count = (entries(call, groups) or (1,))[0]
        for name, spec in call.given(x):
            if count < 1 or spec.shape[1] % count:
                return f"{spec.shape[1]} channels of {name} don't make {count} groups."
        return None

    return invalid(f"the channels of {x} don't make so many groups", test)


def windows_of(x: str, mask: str, bias: str) -> Check:
    """161002 for a mask or a bias that doesn't fit windows [..., heads, rows, columns]."""

    def test(call: Call) -> Finding:
        given = dict(call.given(x, mask, bias))
        heads, rows, columns = given[x].shape[-3:]
        if given[bias].numel != heads * rows * columns:
            return f"{bias} {sizes(given[bias].shape)} should be [{heads}, {rows}, {columns}]."
        if mask not in given:
            return None
        windows, rest = divmod(given[mask].numel, rows * columns)
        count = prod(given[x].shape[:-3])
        if rest or not windows or (count and count % windows):
            return f"{mask} {sizes(given[mask].shape)} isn't a mask for each of {count} windows."
        return None

    return invalid(f"{mask} or {bias} doesn't fit {x}", test)
