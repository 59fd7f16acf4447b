"""YAML and JSON, measured before anything is built from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from os import PathLike
from typing import Any, Final

from npusim.reading.limits import LONGEST_NUMBER, MOST_DEPTH, MOST_NODES
from npusim.values.errors import FileError
from npusim.values.language import say

_SCANNER_LIMIT: Final = "exceeded maximum nesting depth"  # LibYAML's own, since 0.2.6
# Possessive, its end optional: a string that never ends is passed over once, not from each quote.
_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NO_BRACKETS: Final = re.compile(r"[^][{}]+")
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_DATE: Final = "tag:yaml.org,2002:timestamp"


def json_value(text: str | bytes, file: str | PathLike[str]) -> Any:
    """What a JSON text holds; FileError for one that is none or is nested too deep."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        if _depth(decoded) > MOST_DEPTH:
            raise FileError(file, _too_deep())
        return json.loads(decoded)
    except (ValueError, RecursionError) as error:
        raise FileError(file, say("is not JSON: {error}").format(error=error)) from None


def _depth(text: str) -> int:
    """How deep the brackets of a JSON text are nested, those in strings left out."""
    brackets = _NO_BRACKETS.sub("", _STRINGS.sub("", text))
    steps = (1 if bracket in "[{" else -1 for bracket in brackets)
    return max(accumulate(steps), default=0)


def yaml_mapping(text: str, file: str) -> dict[str, Any]:
    """The mapping that a YAML text holds; raises FileError for anything else.

    Dates are text, as nothing here takes a date.
    """
    import yaml  # not needed for what is remembered

    try:
        _measure(text, file)
        raw = yaml.load(text, Loader=_loader())  # noqa: S506 - a SafeLoader, in C
    except yaml.YAMLError as error:
        raise FileError(file, _words(error)) from error
    if not isinstance(raw, dict):
        raise FileError(file, say("holds no mapping of keys to values"))
    return raw


def _measure(text: str, file: str) -> None:
    """Refuse what is nested too deep, or too large once every alias is what it stands for."""
    import yaml

    total, begun = 0, [("", 0)]
    sizes: dict[str, int] = {}
    events: Iterator[Any] = yaml.parse(text, Loader=_loader())
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            begun.append((event.anchor or "", total))
            total += 1
            if len(begun) > MOST_DEPTH + 1:
                raise FileError(file, f"{_line(event)} {_too_deep()}")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            sizes[event.anchor or ""] = 1
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in begun):
                raise FileError(
                    file,
                    say("{line} has *{anchor}, which stands for what it is a part of").format(
                        line=_line(event), anchor=event.anchor
                    ),
                )
            total += sizes.get(event.anchor or "", 0)
        if total > MOST_NODES:
            problem = say("is one of more than {most_nodes:,} values, aliases written out").format(
                most_nodes=MOST_NODES
            )
            raise FileError(file, f"{_line(event)} {problem}")


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"


@cache
def _loader() -> Any:
    """PyYAML's safe loader, in C where it is built so, with words for scalars that are none."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_object(self, node: Any, deep: bool = False) -> Any:
            is_long = node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER
            try:
                if node.tag == _DATE and base.timestamp_regexp.match(node.value):
                    return node.value
                if not is_long:
                    return super().construct_object(node, deep)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                pass
            shown = str(node.value)[:40] + ("..." if len(node.value) > 40 else "")
            problem = say("{shown!r} is no {tag}").format(
                shown=shown, tag=node.tag.rpartition(":")[2]
            )
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    return Loader


def _words(error: Exception) -> str:
    """What is wrong and where, in one line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or not problem:
        return say("is no YAML: {error}").format(error=" ".join(str(error).split()))
    if problem == _SCANNER_LIMIT:  # reached before the first of the events that _measure counts
        return f"line {mark.line + 1} {_too_deep()}"
    return say("is no YAML: line {line}, column {column}: {problem}").format(
        line=mark.line + 1, column=mark.column + 1, problem=problem
    )


def _too_deep() -> str:
    return say("has more than {most} lists and mappings inside one another").format(most=MOST_DEPTH)
