"""The files of chips, and the profiles in them, with what they inherit.

Built-in chips have names, and so have the YAML files in packages that are entry points of the group
``npusim.profiles`` and those handed to `add_profiles`; the file's name is the chip's.

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
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from npusim.hardware.profile import GROUPS, PARTS, Profile
from npusim.hardware.provenance import Problem, Provenance, Source, read_group, read_sources
from npusim.hardware.reading import built_in_sources, data_folder, refusal, stems, validated
from npusim.reading.files import entry_points, read_text
from npusim.reading.kept import remembered
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import FileError, ProfileError, UsageError
from npusim.values.language import say

# As the key is written in a block of YAML; a file that writes it otherwise isn't remembered.
_INHERITS = re.compile(r"""^["']?inherits["']?\s*:\s*["']?([\w.-]+)""", re.MULTILINE)
_DEEPEST = 8  # files that inherit from one another

_NOT_CHIPS = {"sources", "confidence", "products", "engines"}
_GROUP = "npusim.profiles"
_registered: list[Path] = []


@dataclass(frozen=True, slots=True)
class _Layer:
    """One file with what it inherits: plain values, the provenance of each, known sources."""

    values: Mapping[str, Any]
    provenance: Mapping[str, Provenance]
    sources: Mapping[str, Source]
    problems: tuple[Problem, ...] = ()


def profile_names() -> list[str]:
    """The names of the chips that are built in or registered, sorted."""
    return sorted(_files())


@cache
def _files() -> dict[str, Traversable]:
    """The files of all chips that have names; entry points are read here and not at start-up."""
    others = [files(entry.value) for entry in entry_points(_GROUP)]
    folders = [data_folder(), *others, *(path for path in _registered if path.is_dir())]
    found: dict[str, Traversable] = {}
    for folder in folders:
        for name in stems(folder):
            if folder is not data_folder() or name not in _NOT_CHIPS:
                found.setdefault(name, folder / f"{name}.yaml")
    return found | {path.stem: path for path in _registered if not path.is_dir()}


def add_profiles(added: Path) -> None:
    """Name the chip in a YAML file, or those in a folder; raises FileError for names taken."""
    for file in sorted(added.glob("*.yaml")) if added.is_dir() else [added]:
        name = profile_in(file).name
        if name in _files() or name != file.stem:
            problem = (
                say("is there already")
                if name in _files()
                else say("isn't what the file is called")
            )
            raise FileError(
                file,
                say("its chip {name} {problem}").format(name=name, problem=problem),
                say("Rename the chip and the file."),
            )
    _registered.append(added)
    _files.cache_clear()


def remove_profiles(added: Path) -> None:
    """Take an added file or folder out again; raises UsageError where it wasn't added."""
    if added not in _registered:
        raise UsageError(
            say("{added} isn't registered").format(added=added),
            say("Give what `register_profile` was given."),
        )
    _registered.remove(added)
    _files.cache_clear()


def profile_in(path: Path) -> Profile:
    """The profile in a file of the user's."""
    return _profile_of(read_text(path), str(path))


def profile_named(name: str) -> Profile:
    """The profile of a chip by its very name."""
    file = _files()[name]
    return _profile_of(read_text(file), str(file))


@lru_cache(maxsize=64)
def _profile_of(text: str, file: str) -> Profile:
    if "inherits" in text and not _INHERITS.search(text):
        return _validated(text, file)
    texts = [file, text, *_below(text), read_text(data_folder() / "sources.yaml")]
    name = f"profile-{Path(file).stem}"
    return remembered(name, texts, Profile, lambda: _validated(text, file), PARTS)


def _below(text: str) -> Iterator[str]:
    """The texts of the files that a text inherits from, without parsing anything."""
    for _ in range(_DEEPEST):
        found = _INHERITS.search(text)
        parent = _parents().get(found[1]) if found else None
        if parent is None:
            return
        text = read_text(parent)
        yield text


def _validated(text: str, file: str) -> Profile:
    layer = _read_layer(text, file)
    values = {**layer.values, "provenance": layer.provenance}
    return validated(file, Profile, values, layer.problems)


def _read_layer(text: str, file: str) -> _Layer:
    raw = yaml_mapping(text, file)
    base = _inherited(raw.pop("inherits", None), file)
    problems: list[Problem] = []
    if "provenance" in raw:
        problems.append(
            Problem("provenance", raw.pop("provenance"), say("a provenance in each group"))
        )
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


def _parents() -> dict[str, Traversable]:
    """What a file can inherit from: microarchitectures, then chips."""
    folder = data_folder() / "microarchitecture"
    return {name: folder / f"{name}.yaml" for name in stems(folder)} | _files()


def _inherited(parent: object, file: str) -> _Layer:
    if parent is None:
        return _Layer({}, {}, built_in_sources())
    found = _parents().get(str(parent))
    if found is None:
        raise ProfileError(
            file, "inherits", parent, say("one of {parents}").format(parents=", ".join(_parents()))
        )
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
