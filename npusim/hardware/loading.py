"""Loading profiles: built-in by name or a user's file by path, with inheritance.

A file has the fields of `Profile`, each group with its ``provenance``, and two keys of its own:
``inherits`` (a microarchitecture such as ``dav-c220``, or a built-in chip) and ``sources`` (further
source keys, as in ``hw_profiles/sources.yaml``).
A key that a file gives replaces the inherited one together with its provenance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from npusim.hardware.cache import remembered
from npusim.hardware.profile import GROUPS, Profile
from npusim.hardware.provenance import Problem, Provenance, Source, read_group, read_sources
from npusim.hardware.reading import (
    built_in_sources,
    data_folder,
    parse,
    problems_of,
    read_text,
    refusal,
    stems,
)
from npusim.values.errors import ProfileError

# As the key is written in a block of YAML; a file that writes it otherwise isn't remembered.
_INHERITS = re.compile(r"""^["']?inherits["']?\s*:\s*["']?([\w.-]+)""", re.MULTILINE)
_DEEPEST = 8  # files that inherit from one another

_NOT_CHIPS = {"sources", "confidence", "products"}


@dataclass(frozen=True, slots=True)
class _Layer:
    """One file with what it inherits: plain values, the provenance of each, known sources."""

    values: Mapping[str, Any]
    provenance: Mapping[str, Provenance]
    sources: Mapping[str, Source]
    problems: tuple[Problem, ...] = ()


@cache
def profile_names() -> list[str]:
    """The names of the built-in chips, sorted."""
    return [name for name in stems(data_folder()) if name not in _NOT_CHIPS]


def load_profile(name_or_path: str | Path) -> Profile:
    """The profile of a chip: a built-in one in any accepted spelling, or your file (``*.yaml``).

    Raises UnknownNameError for a name that we don't know, FileError for a file that can't be read,
    and ProfileError for one with wrong keys.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")):
        path = Path(text)
        return _profile_of(read_text(path), str(path))
    return _built_in(text)


@lru_cache(maxsize=256)
def _built_in(text: str) -> Profile:
    from npusim.hardware.naming import resolve_soc  # naming asks this module what there is

    file = data_folder() / f"{resolve_soc(text).name}.yaml"
    return _profile_of(read_text(file), str(file))


@lru_cache(maxsize=64)
def _profile_of(text: str, file: str) -> Profile:
    if "inherits" in text and not _INHERITS.search(text):
        return _validated(text, file)
    texts = [file, text, *_below(text), read_text(data_folder() / "sources.yaml")]
    name = f"profile-{Path(file).stem}"
    return remembered(name, texts, Profile, lambda: _validated(text, file))


def _below(text: str) -> Iterator[str]:
    """The texts of the files that a text inherits from, without parsing anything."""
    folder = data_folder()
    for _ in range(_DEEPEST):
        found = _INHERITS.search(text)
        parent = found[1] if found else ""
        for place in (folder / "microarchitecture", folder):
            if parent in stems(place):
                text = read_text(place / f"{parent}.yaml")
                yield text
                break
        else:
            return


def _validated(text: str, file: str) -> Profile:
    layer = _read_layer(text, file)
    problems = list(layer.problems)
    try:
        profile = Profile.model_validate({**layer.values, "provenance": layer.provenance})
    except ValidationError as error:
        raise refusal(file, [*problems, *problems_of(error, Profile)]) from None
    if problems:
        raise refusal(file, problems)
    return profile


def _read_layer(text: str, file: str) -> _Layer:
    raw = parse(text, file)
    base = _inherited(raw.pop("inherits", None), file)
    problems: list[Problem] = []
    if "provenance" in raw:
        problems.append(Problem("provenance", raw.pop("provenance"), "a provenance in each group"))
    sources = dict(base.sources)
    if "sources" in raw:
        sources |= read_sources(raw.pop("sources"), "sources", problems)
    provenance = dict(base.provenance)
    for group in GROUPS:
        values = raw.get(group)
        if isinstance(values, dict):
            entries = values.pop("provenance", None)
            provenance |= read_group(group, values, entries, sources, problems)
    return _Layer(_merge(base.values, raw), provenance, sources, tuple(problems))


def _inherited(parent: object, file: str) -> _Layer:
    if parent is None:
        return _Layer({}, {}, built_in_sources())
    folder = data_folder()
    architectures = stems(folder / "microarchitecture")
    if parent in architectures:
        found = folder / "microarchitecture" / f"{parent}.yaml"
    elif parent in profile_names():
        found = folder / f"{parent}.yaml"
    else:
        allowed = f"one of {', '.join([*architectures, *profile_names()])}"
        raise ProfileError(file, "inherits", parent, allowed)
    layer = _read_layer(read_text(found), str(found))
    if layer.problems:
        raise refusal(str(found), layer.problems)
    return layer


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged
