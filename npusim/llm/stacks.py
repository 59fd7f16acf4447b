"""Which layers a model has: what each mixes tokens by, and which of them have experts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from npusim.llm.parts import Mixer

Said = Callable[..., Any]


class MisfitError(Exception):
    """A key that says something else than what layers there are: our name of it, what it is."""


_WORDS: Final[Mapping[str, Mixer]] = {
    "slid": "window", "chunk": "window", "local": "window", "swa": "window", "linear": "linear",
    "mamba": "linear", "kda": "linear", "delta": "linear", "recurrent": "linear",
}  # fmt: skip


def stack_of(
    said: Said, layers: int, traits: Mapping[str, Any], window: object
) -> list[dict[str, Any]]:
    """Blocks of layers alike, in the order in which they first come; a `window` of 0 is none."""
    mixers = _mixers(said, layers, traits, bool(window))
    kinds = zip(mixers, _mixed(said, layers), strict=True)
    return [
        {"count": count, "mixer": mixer, "mixed": mixed}
        for (mixer, mixed), count in Counter(kinds).items()
    ]


def _mixers(said: Said, layers: int, traits: Mapping[str, Any], windows: bool) -> list[Mixer]:
    other: Mixer = traits.get("others", "window")
    numbered = traits.get("numbered", {0: "linear", 1: "full"})
    kinds, full = _listed(said, "kinds"), _listed(said, "full_listed")
    every = said("full_every")
    if kinds and len(kinds) >= layers and (windows or other != "window"):
        return [_named(each, numbered) for each in kinds[:layers]]
    if full:
        return ["full" if number + 1 in full else other for number in range(layers)]
    if other == "window" and not windows:
        return ["full"] * layers
    if isinstance(every, str) and every:
        pattern = every * (layers // len(every) + 1)
        return ["full" if letter.upper() == "G" else other for letter in pattern[:layers]]
    if isinstance(every, int) and every > 0:
        return ["full" if (number + 1) % every == 0 else other for number in range(layers)]
    if other == "linear" or said("windowed") is False:
        return ["full"] * layers
    first = _whole(said, "windows_first") if said("windowed") else 0
    return ["full" if number < first else "window" for number in range(layers)]


def _named(kind: object, numbered: Mapping[int, Mixer]) -> Mixer:
    if isinstance(kind, int):
        return numbered.get(kind, "full")
    return next((mixer for word, mixer in _WORDS.items() if word in str(kind).lower()), "full")


def _mixed(said: Said, layers: int) -> list[bool]:
    """For every layer whether it has experts."""
    if not said("experts"):
        return [False] * layers
    listed, every = said("mixed_listed"), said("mixed_every")
    if isinstance(listed, str):
        listed = [int(each) for each in listed.split(",") if each.strip().isdecimal()]
    if isinstance(listed, list) and listed:
        return [number in listed for number in range(layers)]
    if isinstance(every, list) and len(every) >= layers:
        return [bool(each) for each in every[:layers]]
    dense, first = _listed(said, "dense_listed"), _whole(said, "dense_first")
    step = max(1, _whole(said, "mixed_every"))
    return [
        number >= first and number not in dense and (number + 1) % step == 0
        for number in range(layers)
    ]


def _whole(said: Said, name: str) -> int:
    """A number of layers, 0 where there is none; MisfitError for anything else."""
    value = said(name) or 0
    if not isinstance(value, int):
        raise MisfitError(name, value)
    return value


def _listed(said: Said, name: str) -> list[Any]:
    """A list, empty where there is none; MisfitError for anything else."""
    value = said(name) or []
    if not isinstance(value, list):
        raise MisfitError(name, value)
    return value
