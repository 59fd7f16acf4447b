"""How the tensors of a call fit together, and what attributes may say of their axes.

`Operator.checks` names these constructors, as tuples with their arguments: ``(same_shape, "x",
"dy")``. The words among the arguments are the operator's tensors and attributes (by the kernel's
name); ``<`` are all inputs, ``>`` all outputs, and the name of a list stands for its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.checks import each_tensor, invalid, sizes
from npusim.values.dtypes import INT8, INT32
from npusim.values.formats import Format
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_PACKED = 8  # numbers of four bits in one of INT32
_PLAIN = (Format.ND, Format.NCHW, Format.NHWC, Format.UNDEFINED)


def entries(call: Call, name: str) -> tuple[int, ...] | None:
    """A whole number or a list of them as a list; None where it isn't given."""
    value = call.arguments.get(name)
    found = value if isinstance(value, tuple) else (value,)
    whole = tuple(each for each in found if isinstance(each, int))
    return whole if len(whole) == len(found) else None


# Shapes ------------------------------------------------------------------------------------------


def broadcast(result: str, *names: str, folds: bool = False) -> Check:
    """161002 for tensors that don't broadcast together, or to more or less than the result.

    A result that ``folds`` them may be one number.
    """

    def test(call: Call) -> Finding:
        given = dict(call.given(*names))
        wanted: list[int] = []
        for name, spec in given.items():
            shape = (1,) * (len(wanted) - spec.rank) + spec.shape
            wanted = [1] * (len(shape) - len(wanted)) + wanted
            for axis, size in enumerate(shape):
                if size != 1 and wanted[axis] not in (1, size):
                    others = f"the others' {sizes(wanted)}"
                    return f"{name} with sizes {sizes(spec.shape)} can't be broadcast to {others}."
                wanted[axis] = wanted[axis] if size == 1 else size
        for name, spec in call.given(result):
            if given and spec.shape != tuple(wanted) and not (folds and spec.numel == 1):
                got = f"{name} should have the broadcast shape {sizes(wanted)}"
                return f"{got}, but has {sizes(spec.shape)}."
        return None

    return invalid(f"{', '.join(names)} can't be broadcast to {result}", test)


def fits(
    *pattern: str, told: Mapping[str, str] | None = None, within: Mapping[str, range] | None = None
) -> Check:
    """161002 for tensors whose shapes don't match: names and patterns in turn.

    Equal words of a pattern are equal sizes, a number is that size, ``2h`` twice and ``h/2`` half
    of it, ``t*k`` a product; ``*word`` stands for any number of axes; a pattern with two that no
    tensor before it tells fits anything. ``told`` are words that attributes tell, ``within`` the
    sizes that words may stand for, with their step.
    """
    wanted = dict(zip(pattern[::2], pattern[1::2], strict=True))

    def test(call: Call) -> Finding:
        known: dict[str, tuple[int, ...]] = {}
        for word, attribute in (told or {}).items():
            for size in entries(call, attribute) or ():
                known[word] = (size,)
        for name, spec in call.given(*wanted):
            if spec.format in _PLAIN and not _matches(wanted[name].split(), spec.shape, known):
                listed = "".join(f", {word} {sizes(size)}" for word, size in known.items())
                return (
                    f"{name} should be [{wanted[name]}]{listed}, but has sizes {sizes(spec.shape)}."
                )
        for word, allowed in (within or {}).items():
            for size in known.get(word, ()):
                if size not in allowed:
                    return f"{word} should be {_said(allowed)}, but is {size}."
        return None

    return invalid(f"the shapes of {', '.join(wanted)} don't fit", test)


def _said(allowed: range) -> str:
    if len(allowed) == 1:
        return str(allowed[0])
    step = "" if allowed.step == 1 else f"a multiple of {allowed.step} "
    return f"{step}from {allowed[0]} to {allowed[-1]}"


def _product(word: str, known: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """The size that ``2h``, ``h/2`` or ``t*k`` stands for, None where that isn't known."""
    size = 1
    for factor in word.split("*"):
        whole, _, part = factor.partition("/")
        name = whole.lstrip("0123456789")
        times = int(whole.removesuffix(name) or 1)
        found = known.get(name, ()) if name else (1,)
        if len(found) != 1:
            return None
        if part and found[0] * times % int(part):
            return (-1,)  # no size at all
        size *= found[0] * times // int(part or 1)
    return (size,)


def _matches(
    words: Sequence[str], shape: tuple[int, ...], known: dict[str, tuple[int, ...]]
) -> bool:
    """Whether a shape is as the words say; what they tell is added to what is known."""
    open_ = [word for word in words if word.startswith("*") and word not in known]
    if len(open_) > 1:
        return True
    length = len(shape) - sum(len(known.get(word, (1,))) for word in words if word not in open_)
    at = 0
    for word in words:
        taken = length if word in open_ else len(known.get(word, (1,)))
        part = shape[at : at + taken]
        told = _product(word, known) or part if _is_product(word) else known.setdefault(word, part)
        if told != part or taken < 0:
            return False
        at += taken
    return at == len(shape)


def _is_product(word: str) -> bool:
    return word[0].isdigit() or "/" in word or "*" in word[1:]


def one_element(*names: str) -> Check:
    """161002 for a tensor among `names` that isn't a single element."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = f"{name} should be a single element, but has sizes {sizes(spec.shape)}."
        return None if spec.numel == 1 else wanted

    return each_tensor(f"{', '.join(names)} isn't a single element", names, objection)


def one_per_row(of: str, row: str, *names: str) -> Check:
    """161002 for a tensor that hasn't one element for each row of a tensor, as long as `row`."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        for (_, whole), (_, line) in zip(call.given(of), call.given(row), strict=False):
            if spec.numel * line.numel != whole.numel:
                rows = f"one element for each row of {of} {sizes(whole.shape)}"
                return f"{name} should have {rows}, but has sizes {sizes(spec.shape)}."
        return None

    return each_tensor(f"{', '.join(names)} hasn't one element per row", names, objection)


def one_per_part(of: str, attribute: str, *names: str) -> Check:
    """161002 for a tensor that hasn't one element for each part of each image."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        parts = (entries(call, attribute) or (1,))[0]
        for _, whole in call.given(of):
            if spec.numel != whole.shape[0] * parts:
                wanted = f"{whole.shape[0]} * {attribute} {parts} elements"
                return f"{name} should have {wanted}, but has sizes {sizes(spec.shape)}."
        return None

    return each_tensor(f"{', '.join(names)} hasn't one element per part", names, objection)


def same_but_along(attribute: str, *names: str) -> Check:
    """161002 for tensors that differ elsewhere than along the axis of the attribute."""

    def test(call: Call) -> Finding:
        given = list(call.given(*names))
        axis = (entries(call, attribute) or (0,))[0] if given else 0
        for name, spec in given:
            first = given[0][1]
            if spec.rank != first.rank or _without(spec, axis) != _without(first, axis):
                shape = f"{sizes(spec.shape)} should be {sizes(first.shape)} but for axis {axis}"
                return f"The shape of {name} {shape}, as that of {given[0][0]}."
        return None

    return invalid(f"{', '.join(names)} differ elsewhere than along {attribute}", test)


def _without(spec: TensorSpec, axis: int) -> tuple[int, ...]:
    axis = axis % spec.rank if spec.rank else 0
    return spec.shape[:axis] + spec.shape[axis + 1 :]


def lists_alike(*lists: tuple[str, ...]) -> Check:
    """161002 for lists of tensors of different lengths or, place by place, shapes."""

    def test(call: Call) -> Finding:
        first, *others = ([spec for _, spec in call.given(*names)] for names in lists)
        for names, specs in zip(lists[1:], others, strict=True):
            if specs and [each.shape for each in specs] != [each.shape for each in first]:
                return f"{', '.join(names)} should have the shapes of {', '.join(lists[0])}."
        return None

    return invalid("the lists of tensors differ in length or shapes", test)


def bits_of(of: str, mask: str) -> Check:
    """161002 for a mask with fewer bits than a tensor has elements."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        short = [whole for _, whole in call.given(of) if 8 * spec.nbytes < whole.numel]
        need = f"{name} {sizes(spec.shape)} should have a bit for each element of {of}"
        return f"{need} {sizes(short[0].shape)}." if short else None

    return each_tensor(f"{mask} has fewer bits than {of} has elements", (mask,), objection)


def parts_of(of: str, axis: int, attribute: str) -> Check:
    """161002 for a number of parts that doesn't divide an axis of a tensor."""

    def test(call: Call) -> Finding:
        for parts in entries(call, attribute) or ():
            for name, spec in call.given(of):
                if parts < 1 or spec.shape[axis] % parts:
                    size = f"axis {axis} of {name} {sizes(spec.shape)}"
                    return f"{attribute} should divide {size}, but is {parts}."
        return None

    return invalid(f"{attribute} doesn't divide axis {axis} of {of}", test)


# Axes --------------------------------------------------------------------------------------------


def axes_in(attribute: str, of: str = "", *_: str, more: int = 0) -> Check:
    """161002 for axes that the tensor hasn't, or that are named twice; -1 is the last one.

    ``more`` counts axes that the result has beside those of the tensor.
    """

    def test(call: Call) -> Finding:
        named = entries(call, attribute) or ()
        for name, spec in call.given(of):
            rank = max(1, spec.rank + more)
            for axis in named:
                if not -rank <= axis < rank:
                    return (
                        f"{attribute} should be in range [{-rank}, {rank - 1}] for {name} with "
                        f"sizes {sizes(spec.shape)}, but got {axis}."
                    )
            if len({axis % rank for axis in named}) < len(named):
                return f"{attribute} {sizes(named)} names an axis of {name} twice."
        return None

    return invalid(f"{attribute} names an axis that {of} hasn't, or one twice", test)


def for_each_axis(attribute: str, of: str, *, each: int = 1, most: bool = False) -> Check:
    """161002 for a list without ``each`` entries for every axis (``most``: with more)."""

    def test(call: Call) -> Finding:
        named = entries(call, attribute)
        for name, spec in call.given(of) if named is not None else ():
            wanted, got = each * spec.rank, len(named or ())
            if got > wanted or (got < wanted and not most):
                limit = "at most " if most else ""
                return (
                    f"{attribute} should have {limit}{wanted} entries for {name} with sizes "
                    f"{sizes(spec.shape)}, but got {got}."
                )
        return None

    return invalid(f"{attribute} hasn't as many entries as {of} has axes", test)


def no_zero(attribute: str) -> Check:
    """161002 for a step of zero."""

    def test(call: Call) -> Finding:
        named = entries(call, attribute) or ()
        return f"{attribute} {sizes(named)} has a step of 0." if 0 in named else None

    return invalid(f"{attribute} has a step of 0", test)


def needs(attribute: str, *instead: str) -> Check:
    """161001 for an argument that is missing, unless another tells the same."""

    def test(call: Call) -> Finding:
        if any(call.is_given(name) for name in (attribute, *instead)):
            return None
        way = "".join(f" or {name}" for name in instead)
        sentence = f"Expected a value for argument {attribute} but instead found nullptr."
        return sentence, f"Give {attribute}{way}."

    return invalid(f"{attribute} is missing", test)._replace(
        code=StatusCode.ACLNN_ERR_PARAM_NULLPTR
    )


def _is_same(spec: TensorSpec, wanted: TensorSpec) -> bool:
    """Whether it is one element in any number of axes, or bytes as eight numbers of four bits."""
    if spec.dtype is INT32 and wanted.dtype is INT8 and spec.rank:
        return (*spec.shape[:-1], spec.shape[-1] * _PACKED) == wanted.shape
    return spec.numel == wanted.numel == 1


# Results -----------------------------------------------------------------------------------------


def as_inferred(names: Sequence[str], infer: Any) -> Check:
    """161002 for an output that hasn't the shape that follows from the inputs.

    A single element may have any number of axes.
    """

    def test(call: Call) -> Finding:
        found: Mapping[str, TensorSpec] = infer(call)
        for name, spec in call.given(*(each for each in names if each in found)):
            if spec.shape != found[name].shape and not _is_same(spec, found[name]):
                wanted = sizes(found[name].shape)
                return f"{name} should have the shape {wanted}, but has {sizes(spec.shape)}."
        return None

    return invalid(f"the shape of {', '.join(names)} isn't what comes out", test)
