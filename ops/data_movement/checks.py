"""What the attributes of slices, frames, repetitions and splits may say of a tensor's axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.operators.shape_checks import entries

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding


def inside(offsets: str, lengths: str, of: str) -> Check:
    """161002 for a part that isn't inside a tensor; a length of -1 is the rest of an axis."""

    def test(call: Call) -> Finding:
        begin, length = (entries(call, name) for name in (offsets, lengths))
        for name, spec in call.given(of):
            places = begin or (0,) * spec.rank
            parts = (-1,) * spec.rank if length is None else length
            for size, first, taken in zip(spec.shape, places, parts, strict=False):
                if first < 0 or taken < -1 or first + max(taken, 0) > size:
                    part = f"{offsets} {sizes(places)} and {lengths} {sizes(parts)}"
                    return f"{part} reach beyond {name} with sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{offsets} and {lengths} reach beyond {of}", test)


def same_length(*attributes: str) -> Check:
    """161002 for lists that differ in length."""

    def test(call: Call) -> Finding:
        lists = [found for name in attributes if (found := entries(call, name)) is not None]
        if len({len(each) for each in lists}) > 1:
            return (
                f"{', '.join(attributes)} should be equally long: {', '.join(map(sizes, lists))}."
            )
        return None

    return invalid(f"{', '.join(attributes)} differ in length", test)


def covers(attribute: str, of: str) -> Check:
    """161002 for a list with fewer entries than a tensor has axes."""

    def test(call: Call) -> Finding:
        named = entries(call, attribute)
        for name, spec in call.given(of):
            if named is not None and len(named) < spec.rank:
                sized = f"{name} with sizes {sizes(spec.shape)}"
                return f"{attribute} {sizes(named)} has fewer entries than {sized} has axes."
        return None

    return invalid(f"{attribute} has fewer entries than {of} has axes", test)


def spreads(attribute: str, of: str) -> Check:
    """161002 for a shape that a tensor doesn't broadcast to; -1 keeps an axis."""

    def test(call: Call) -> Finding:
        named = entries(call, attribute) or ()
        for name, spec in call.given(of):
            old = (1,) * (len(named) - spec.rank) + spec.shape
            for place, (size, wanted) in enumerate(zip(old, named, strict=False)):
                kept = wanted == -1 and place >= len(named) - spec.rank
                if not kept and size not in (1, wanted):
                    goal = f"{attribute} {sizes(named)}"
                    return f"{name} with sizes {sizes(spec.shape)} can't be broadcast to {goal}."
                if wanted < 0 and not kept:
                    return f"{attribute} {sizes(named)} has a size of {wanted} for a new axis."
        return None

    return invalid(f"{of} can't be broadcast to {attribute}", test)


def splits(axis: str, of: str, count: str, lengths: str) -> Check:
    """161002 for parts that don't make up an axis: so many alike, or of these lengths."""

    def test(call: Call) -> Finding:
        place = (entries(call, axis) or (0,))[0]
        for _, spec in call.given(of):
            size, parts = spec.shape[place], entries(call, lengths)
            whole = f"{size}, the size of axis {place}"
            for number in (entries(call, count) or ()) if parts is None else ():
                if number < 1 or size % number:
                    return (
                        f"{count} should divide {size}, the size of axis {place}, but is {number}."
                    )
            if parts is not None:
                open_, rest = parts.count(-1), size - sum(each for each in parts if each > 0)
                fits = rest >= 0 if open_ == 1 else rest == 0 and not open_
                if not parts or min(parts) < -1 or not fits:
                    return f"{lengths} {sizes(parts)} don't make up {whole}."
        return None

    return invalid(f"the parts don't make up the axis of {of}", test)
