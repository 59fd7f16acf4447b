"""What the folders of operators provide, and which of them provides a name.

A folder's ``definitions.py`` says in ``OPERATORS`` what it provides. To find one operator only the
folder that provides it is imported: which one that is, is remembered between runs for as long as
no file in the folders changes.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path

from npusim.operators.definition import Aclnn, Definition, Operator, Page
from npusim.reading.files import entry_points
from npusim.reading.kept import remembered

PACKAGE = "npusim.ops"
_GROUP = "npusim.operators"
VARIABLE = "NPUSIM_OPS"
"""The environment variable with folders of packages that aren't installed (`npusim op build`)."""

# A package with a ``definitions.py``, or a definition that was registered by itself.
Source = str | Definition


@dataclass(frozen=True)
class Provided:
    """What one source provides, by name; of ``ruled`` interfaces only the rules are known."""

    op_types: dict[str, Operator] = field(default_factory=dict)
    ruled: dict[str, tuple[Operator, Aclnn]] = field(default_factory=dict)
    interfaces: dict[str, tuple[Operator, Aclnn]] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)


@dataclass(frozen=True)
class Names:
    """The source of each name, the page of each alias, and the folders that can't be read: why."""

    op_types: dict[str, Source] = field(default_factory=dict)
    ruled: dict[str, Source] = field(default_factory=dict)
    interfaces: dict[str, Source] = field(default_factory=dict)
    pages: dict[str, Source] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def source(self, name: str) -> Source | None:
        """What provides a name; None for a free one."""
        kinds = (self.interfaces, self.op_types, self.pages, self.ruled)
        return next((source for each in kinds if (source := each.get(name))), None)

    def add(self, source: Source) -> None:
        """Take in what a source provides, all or nothing."""
        here = place_of(source)
        try:
            found = provided(source)
        except Exception as error:  # noqa: BLE001 - one broken folder must not hide the others
            self.broken[here] = why(error)
            return
        for name in (*found.op_types, *found.pages, *found.interfaces, *found.ruled):
            if (owner := self.source(name)) is not None:
                self.broken[here] = f"{name} is already provided by {place_of(owner)}"
                return
        self.op_types.update(dict.fromkeys(found.op_types, source))
        self.ruled.update(dict.fromkeys(found.ruled, source))
        self.interfaces.update(dict.fromkeys(found.interfaces, source))
        self.pages.update(dict.fromkeys(found.pages, source))
        for page in found.pages.values():
            self.aliases.update(dict.fromkeys(page.aliases, page.name))


def provided(source: Source) -> Provided:
    """What a package or a definition provides; raises what importing the package raises."""
    if isinstance(source, str):
        return _imported(source)
    return _listed(source.package or source.name, [source])


@cache
def built_in() -> Names:
    """The names of what comes with npusim."""
    folders = list(_folders())
    found = remembered("operators", _state(folders), Names, lambda: _named(folders))
    return _named(folders) if found.broken else found  # what it lacked may be there by now


def all_names(registered: Iterable[Source]) -> Names:
    """With what installed packages name as entry points, and what was registered."""
    known = built_in()
    found = Names(*(dict(getattr(known, each)) for each in Names.__dataclass_fields__))
    for entry in entry_points(_GROUP):
        found.add(entry.value)
    for package in _named_by_user():
        found.add(package)
    for each in registered:
        found.add(each)
    return found


def _named_by_user() -> Iterator[str]:
    """The packages with definitions in the folders of the environment variable."""
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        folder = Path(place).absolute()
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        yield from sorted(each.parent.name for each in folder.glob("[a-z]*/definitions.py"))


def forget() -> None:
    """For callers that add folders to npusim.ops while running."""
    built_in.cache_clear()
    _imported.cache_clear()


def place_of(source: Source) -> str:
    """A source as readers know it: ``ops/loss`` for a folder of ours."""
    package = source if isinstance(source, str) else source.package or source.name
    return package.replace(f"{PACKAGE}.", "ops/")


def why(error: Exception) -> str:
    """What is wrong with a folder, in a line."""
    return f"{type(error).__name__}: {error}"


def _named(folders: Iterable[str]) -> Names:
    found = Names()
    for each in folders:
        found.add(each)
    return found


def _folders() -> Iterator[str]:
    """The packages in npusim.ops, sorted."""
    package = import_module(PACKAGE)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
        if module.ispkg:
            yield f"{PACKAGE}.{module.name}"


def _state(folders: Iterable[str]) -> list[str]:
    """What tells versions of the folders, and of what makes definitions, apart."""
    ours = [Path(place) for place in import_module(PACKAGE).__path__]
    names = [each.rpartition(".")[2] for each in folders]
    rooms = [Path(__file__).parent, *(place / name for place in ours for name in names)]
    return sorted(line for room in rooms for line in _states(room))


def _states(room: Path) -> Iterator[str]:
    """The modules of a folder, each with its size and time; none of one that isn't there."""
    with suppress(FileNotFoundError), os.scandir(room) as entries:
        for each in entries:
            if each.name.endswith(".py"):
                about = each.stat()
                yield f"{each.path} {about.st_size} {about.st_mtime_ns}"


@cache
def _imported(package: str) -> Provided:
    return _listed(package, import_module(f"{package}.definitions").OPERATORS)


def _listed(package: str, definitions: Iterable[Definition]) -> Provided:
    here = [replace(each, package=each.package or package) for each in definitions]
    found = [op for each in here if isinstance(each, Operator) for op in each.spelled()]
    types = [each for each in found if each.has_type]
    pages = [each for each in here if isinstance(each, Page)]
    interfaces = [(op, each) for op in found for each in op.interfaces]
    names = [each.name for each in types] + [each.name for each in pages]
    names += [each.name for _, each in interfaces]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"{', '.join(twice)} defined twice")
    return Provided(
        {each.name: each for each in types},
        {each.name: (op, each) for op, each in interfaces if not op.has_kernels},
        {each.name: (op, each) for op, each in interfaces if op.has_kernels},
        {each.name: each for each in pages},
    )
