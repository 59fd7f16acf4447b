"""The words for a wrong plan: pydantic's findings as sentences about the keys of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from npusim.values.errors import brief
from npusim.values.language import say
from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# By pydantic's type of error; the braces are filled from its context.
_DEMANDS: Final = {
    "greater_than": "it must be greater than {gt:g}",
    "greater_than_equal": "it must be at least {ge:g}",
    "less_than": "it must be less than {lt:g}",
    "less_than_equal": "it must be at most {le:,}",
    "finite_number": "it must be finite",
    "float_type": "it must be a number",
    "int_type": "it must be a whole number",
    "bool_type": "it must be true or false",
    "string_type": "it must be text",
    "string_too_short": "it mustn't be empty",
    "literal_error": "it must be {expected}",
    "tuple_type": "it must be a list",
    "too_short": "it needs at least one entry",
    "dict_type": "it must be a mapping of keys to values",
    "model_type": "it must be a mapping of keys to values",
    "model_attributes_type": "it must be a mapping of keys to values",
}

_TAGGED: Final = "arrivals"
"""The key whose `kind` chooses a model; pydantic's path has that kind, the file's hasn't."""


def sentences(error: ValidationError) -> list[str]:
    """One sentence for each thing that is wrong, in the order of the file."""
    return [_sentence(entry) for entry in error.errors(include_url=False)]


def _sentence(entry: ErrorDetails) -> str:
    kind, value, context = entry["type"], entry["input"], entry.get("ctx", {})
    steps = entry["loc"]
    if _TAGGED in steps[:-1]:
        tag = steps.index(_TAGGED) + 1
        steps = (*steps[:tag], *steps[tag + 1 :])
    key = ".".join(str(step) for step in steps)
    if kind == "missing":
        return say("{key} is missing").format(key=key)
    if kind == "value_error":
        text = entry["msg"].removeprefix("Value error, ")
        return f"{key}: {text}" if key else text
    if kind == "union_tag_not_found":
        return say("{key}.kind is missing").format(key=key)
    if kind == "union_tag_invalid":
        known = [tag.strip("' ") for tag in context["expected_tags"].split(",")]
        hint = did_you_mean(context["tag"], known)
        given, names = brief(context["tag"]), ", ".join(known)
        return (
            say("{key} is {given}; it must be one of {names}. {hint}")
            .format(key=key, given=given, names=names, hint=hint)
            .strip()
        )
    demand = say(_DEMANDS[kind]).format(**context) if kind in _DEMANDS else entry["msg"]
    return f"{key} is {brief(value)}; {demand}{_hint(value, kind)}"


def _hint(value: object, kind: str) -> str:
    """YAML takes 1e3 for text, which nobody expects."""
    if isinstance(value, str) and kind in {"float_type", "int_type"}:
        try:
            return say(" (write {float:g} without quotes or exponent)").format(float=float(value))
        except ValueError:
            return ""
    return ""
