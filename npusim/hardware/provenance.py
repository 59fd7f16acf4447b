"""Where a number of a profile comes from, and how sure we are of it.

A profile file says so beside the values of each group::

    memory:
      l2_bytes: 201326592
      l2_gbps: 4216
      provenance:
        default: {source: rt, confidence: vendor_file}
        l2_gbps: {source: asc, confidence: derived, notes: "5200 GB/s on 24 cores at 1.85 GHz"}

An entry speaks for its key and everything below it (``gm_to_ub`` for ``gm_to_ub.setup_cycles``);
the most specific entry wins.  Every value must be covered, and no entry may speak for nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from npusim.values.language import say

# From the surest to the least sure; hw_profiles/confidence.yaml puts a number to each.
CONFIDENCES = ("vendor_file", "measured", "vendor_document", "fitted", "derived", "assumed")
SOURCE_KINDS = ("vendor_file", "vendor_document", "vendor_tool", "measurement", "secondary", "own")

_DEFAULT = "default"
_ENTRY_KEYS = {"source", "confidence", "notes"}


@dataclass(frozen=True, slots=True)
class Source:
    """A published place: repository (or publication), snapshot and path within it."""

    key: str
    repository: str
    kind: str
    snapshot: str = ""
    path: str = ""

    def __str__(self) -> str:
        version = f" @{self.snapshot}" if self.snapshot else ""
        path = f" {self.path}" if self.path else ""
        return f"{self.repository}{version}{path}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of one value, the word for how sure we are of it, and other values seen."""

    sources: tuple[Source, ...]
    confidence: str
    notes: str = ""

    @property
    def source(self) -> str:
        """The citation: every source written out, separated by semicolons."""
        return "; ".join(str(source) for source in self.sources)


@dataclass(frozen=True, slots=True)
class Problem:
    """A wrong key of a file, before we know which file it belongs to."""

    key: str
    value: object
    allowed: str


def leaves(values: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """The dotted keys of every value that isn't itself a mapping, in file order."""
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from leaves(value, f"{key}.")
        else:
            yield key


def read_sources(raw: object, where: str, problems: list[Problem]) -> dict[str, Source]:
    """The sources of a file's mapping ``key -> {repository, snapshot, path, kind}``."""
    found: dict[str, Source] = {}
    if not isinstance(raw, Mapping):
        problems.append(
            Problem(where, raw, say("a mapping from source keys to repository, path, kind"))
        )
        return found
    for key, entry in raw.items():
        at = f"{where}.{key}"
        if not isinstance(entry, Mapping) or not {"repository", "kind"} <= set(entry):
            problems.append(Problem(at, entry, say("a mapping with at least repository and kind")))
            continue
        if extra := set(entry) - {"repository", "kind", "snapshot", "path"}:
            problems.append(
                Problem(at, sorted(extra), say("repository, snapshot, path and kind only"))
            )
            continue
        if entry["kind"] not in SOURCE_KINDS:
            allowed = say("one of {source_kinds}").format(source_kinds=", ".join(SOURCE_KINDS))
            problems.append(Problem(f"{at}.kind", entry["kind"], allowed))
            continue
        found[key] = Source(key=key, **{name: str(text) for name, text in entry.items()})
    return found


def read_group(
    group: str,
    values: Mapping[str, object],
    raw: object,
    sources: Mapping[str, Source],
    problems: list[Problem],
) -> dict[str, Provenance]:
    """The provenance of each value of a group, by dotted key; appends mistakes to `problems`."""
    at = f"{group}.provenance"
    if not isinstance(raw, Mapping):
        problems.append(Problem(at, raw, say("a mapping that says where the values come from")))
        return {}
    entries: dict[str, Provenance] = {}
    broken = False
    for key, entry in raw.items():
        read = _read_entry(f"{at}.{key}", entry, sources, problems)
        broken = broken or read is None
        if read is not None:
            entries[str(key)] = read
    if broken:
        return {}
    found: dict[str, Provenance] = {}
    used: set[str] = set()
    for leaf in leaves(values):
        name = _most_specific(leaf, entries)
        if name is None:
            problems.append(
                Problem(f"{at}.{leaf}", None, say("a source, or a default for the group"))
            )
        else:
            used.add(name)
            found[f"{group}.{leaf}"] = entries[name]
    problems += [
        Problem(
            f"{at}.{name}",
            say("an entry"),
            say("only keys that {group} has in this file").format(group=group),
        )
        for name in entries
        if name not in used and name != _DEFAULT
    ]
    return found


def _most_specific(leaf: str, entries: Mapping[str, Provenance]) -> str | None:
    key = leaf
    while key not in entries:
        key, dot, _ = key.rpartition(".")
        if not dot:
            return _DEFAULT if _DEFAULT in entries else None
    return key


def _read_entry(
    at: str, entry: object, sources: Mapping[str, Source], problems: list[Problem]
) -> Provenance | None:
    if not isinstance(entry, Mapping) or not {"source", "confidence"} <= set(entry):
        problems.append(Problem(at, entry, say("a mapping with source and confidence")))
        return None
    if extra := set(entry) - _ENTRY_KEYS:
        problems.append(
            Problem(at, sorted(map(str, extra)), say("source, confidence and notes only"))
        )
        return None
    confidence = entry["confidence"]
    if not isinstance(confidence, str) or confidence not in CONFIDENCES:
        problems.append(
            Problem(
                f"{at}.confidence",
                confidence,
                say("one of {confidences}").format(confidences=", ".join(CONFIDENCES)),
            )
        )
        return None
    named = entry["source"]
    keys = named if isinstance(named, list) else [named]
    unknown = [key for key in keys if not isinstance(key, str) or key not in sources]
    if unknown or not keys:
        got = unknown[0] if unknown else named
        problems.append(
            Problem(f"{at}.source", got, say("one of {sources}").format(sources=", ".join(sources)))
        )
        return None
    return Provenance(
        sources=tuple(sources[key] for key in keys),
        confidence=confidence,
        notes=str(entry.get("notes", "")),
    )
