"""How people spell names and values on the command line and in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALL: Final = "all"


def names_in(words: Iterable[str], every: Callable[[], Iterable[str]]) -> list[str]:
    """The names that the words list, each once; `all` among them stands for what `every` gives."""
    parts = (part.strip() for word in words for part in word.split(","))
    found: dict[str, None] = {}
    for part in parts:
        found.update(dict.fromkeys(every() if part.lower() == ALL else [part]))
    return list(found)


def is_profile_path(name: str) -> bool:
    """Whether the name of a chip is the path of a user's profile."""
    return name.lower().endswith((".yaml", ".yml"))
