"""Finding operators: every folder of npusim.ops says in its `__init__` what it provides.

A folder's ``PROVIDES`` maps names to ``module:attribute`` within the folder: names that begin with
``aclnn`` to contracts, all others (operator types such as ``GroupNormGrad``) to kernel classes.
``ALIASES``, if present, maps other names of an operator to one that it provides. Only these small
files are imported to find an operator.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npusim.operators.contract import Contract
from npusim.values.errors import FileError, NpusimError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from npusim.ascendc import Kernel
    from npusim.operators.contract import Plan

_PACKAGE = "npusim.ops"
_PREFIX = "aclnn"


@dataclass(frozen=True)
class _Catalog:
    """What the folders provide, and which folders we couldn't read."""

    homes: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> (folder, target)
    aliases: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


def operators() -> tuple[str, ...]:
    """The names of all operators, sorted."""
    return tuple(sorted(name for name in _catalog().homes if name.startswith(_PREFIX)))


def op_types() -> tuple[str, ...]:
    """The operator types that have a kernel, sorted."""
    return tuple(sorted(name for name in _catalog().homes if not name.startswith(_PREFIX)))


def aliases() -> Mapping[str, str]:
    """Other names of operators, and the operator that each stands for."""
    return dict(sorted(_catalog().aliases.items()))


def broken_folders() -> Mapping[str, str]:
    """Folders of npusim.ops that couldn't be read, and why."""
    return dict(sorted(_catalog().broken.items()))


def operator(name: str) -> Contract:
    """The contract of an operator, by name (any case, with or without ``aclnn``) or alias.

    Raises UnknownNameError with near misses, FileError when the operator's folder is broken.
    """
    contract = _load(_find(name))
    if not isinstance(contract, Contract):
        raise _broken(_find(name), f"what it gives for {name} is not a Contract")
    return contract


def plan_of(contract: Contract) -> Plan:
    """The function that queues the operator's tasks."""
    if not isinstance(contract.plan, str):
        return contract.plan
    folder, _ = _catalog().homes[_find(contract.name)]
    plan: Plan = _attribute(folder, contract.plan)
    return plan


def kernel_class(op_type: str) -> Callable[..., Kernel]:
    """The kernel class of an operator type such as ``GroupNormGrad``; call it to make a kernel."""
    if op_type.startswith(_PREFIX) or op_type not in _catalog().homes:
        raise UnknownNameError("operator type", op_type, op_types(), _also_broken())
    kernel: Callable[..., Kernel] = _load(op_type)
    return kernel


def folder_of(op_type: str) -> str:
    """The folder of npusim.ops that provides an operator type, e.g. ``elementwise`` for Mul."""
    home = _catalog().homes.get(op_type)
    return home[0] if home else ""


def refresh() -> None:
    """Forgets what was found, for callers that add folders to npusim.ops while running."""
    _catalog.cache_clear()
    _load.cache_clear()
    _spellings.cache_clear()


def _find(name: str) -> str:
    found = _spellings().get(name.strip().lower())
    if found is None:
        candidates = (*operators(), *_catalog().aliases)
        remedy = _also_broken() or "`npusim ops list` names the operators."
        raise UnknownNameError("operator", name, candidates, remedy)
    return found


@cache
def _spellings() -> Mapping[str, str]:
    """Everything that an operator may be called, in small letters, and its name."""
    spellings: dict[str, str] = {}
    for spelling, target in _catalog().aliases.items():
        spellings[spelling.lower()] = target
    for known in operators():
        spellings[known.lower()] = known
        spellings[known.lower().removeprefix(_PREFIX)] = known
    return spellings


@cache
def _load(name: str) -> Any:
    return _attribute(*_catalog().homes[name])


def _attribute(folder: str, target: str) -> Any:
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(import_module(f"{_PACKAGE}.{folder}.{module_name}"), attribute)
    except NpusimError:
        raise
    except Exception as error:  # a folder is someone else's code: whatever it raises is its fault
        raise FileError(f"ops/{folder}", f"can't load {target}: {_why(error)}") from error


@cache
def _catalog() -> _Catalog:
    found = _Catalog()
    package = import_module(_PACKAGE)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
        if module.ispkg:
            _add_folder(found, module.name)
    return found


def _add_folder(found: _Catalog, folder: str) -> None:
    try:
        module = import_module(f"{_PACKAGE}.{folder}")
        provides: dict[str, str] = dict(module.PROVIDES)
        others: dict[str, str] = dict(getattr(module, "ALIASES", {}))
    except Exception as error:  # noqa: BLE001 - one broken folder must not hide the others
        found.broken[folder] = _why(error)
        return
    taken = sorted(name for name in provides if name in found.homes)
    if taken:
        owner = found.homes[taken[0]][0]
        found.broken[folder] = f"{taken[0]} is already provided by ops/{owner}"
        return
    found.homes.update({name: (folder, target) for name, target in provides.items()})
    found.aliases.update(others)


def _broken(name: str, problem: str) -> FileError:
    return FileError(f"ops/{_catalog().homes[name][0]}", problem)


def _also_broken() -> str:
    broken = _catalog().broken
    if not broken:
        return ""
    listed = "; ".join(f"ops/{folder}: {why}" for folder, why in sorted(broken.items()))
    return f"Not readable: {listed}."


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
