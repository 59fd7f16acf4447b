"""Finding operators by name: in the folders of ops, in other packages, among those registered.

A folder's ``definitions.py`` says in ``OPERATORS`` what it provides; only these small files are
imported to find an operator. Other packages name folders of theirs as entry points of the group
``npusim.operators``, or hand definitions to :func:`register`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npusim.operators.contract import Contract, Plan
from npusim.operators.definition import Aclnn, Definition, Operator, Page, Prototype
from npusim.values.errors import FileError, NpusimError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

    Builder = Callable[[Task], tuple[Kernel, ...]]

_PACKAGE = "npusim.ops"
_GROUP = "npusim.operators"
_PREFIX = "aclnn"
FUSED = "FusionOp_"
"""How the names of fused operators begin; their parts follow."""

_registered: list[Definition | str] = []


@dataclass(frozen=True)
class _Catalog:
    """What the folders provide, and which folders we couldn't read."""

    op_types: dict[str, Operator] = field(default_factory=dict)
    interfaces: dict[str, tuple[Operator, Aclnn]] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def owner(self, name: str) -> str | None:
        """The package that provides a name; None for a free one."""
        if name in self.interfaces:
            return self.interfaces[name][0].package
        found = self.op_types.get(name) or self.pages.get(name)
        return None if found is None else found.package


def register(*definitions: Definition | str) -> None:
    """Add operators: definitions, or packages by name that have a ``definitions.py``.

    Raises FileError for a package that can't be read and for a name that is taken.
    """
    before = set(broken_folders())
    _registered.extend(definitions)
    refresh()
    for place, why in broken_folders().items():
        if place not in before:
            unregister(*definitions)
            raise FileError(place, why, "Mend it, or choose another name.")


def unregister(*definitions: Definition | str) -> None:
    """Take out operators that were registered; raises UsageError for what wasn't."""
    for each in definitions:
        if each not in _registered:
            raise UsageError(f"{each!r} isn't registered", "Give what `register` was given.")
        _registered.remove(each)
    refresh()


def refresh() -> None:
    """Forgets what was found, for callers that add folders to npusim.ops while running."""
    _catalog.cache_clear()
    _load.cache_clear()
    _spellings.cache_clear()


def operators() -> tuple[str, ...]:
    """The names of all operators with a contract of their own, sorted."""
    return tuple(sorted(_catalog().pages))


def op_types() -> tuple[str, ...]:
    """The operator types that have a kernel, sorted."""
    return tuple(sorted(_catalog().op_types))


def standard_names() -> tuple[str, ...]:
    """Operator types, and the aclnn names that amount to one of them, sorted."""
    return tuple(sorted({*_catalog().op_types, *_catalog().interfaces}))


def aliases() -> Mapping[str, str]:
    """Other names of operators, and the operator that each stands for."""
    return dict(sorted((each, page.name) for page in _pages() for each in page.aliases))


def broken_folders() -> Mapping[str, str]:
    """Folders that couldn't be read, and why."""
    return dict(sorted(_catalog().broken.items()))


def definition(op_type: str) -> Operator:
    """The definition of an operator type such as ``GroupNormGrad``, or of a fused one."""
    found = _catalog().op_types.get(op_type) or _fused(op_type)
    if found is None:
        raise UnknownNameError("operator type", op_type, op_types(), _also_broken())
    return found


def prototype(name: str) -> tuple[Operator, Prototype] | None:
    """The operator and the parameters that a standard name stands for, None for an unknown one.

    By its exact name, or in any case and with or without ``aclnn``, where an operator type goes
    before an aclnn name.
    """
    known, wanted = _catalog(), name.strip()
    if wanted in known.interfaces:
        return known.interfaces[wanted]
    if standard := known.op_types.get(wanted) or _fused(wanted):
        return standard, standard
    found = _spellings(standard=True).get(wanted.lower())
    return None if found is None else prototype(found)


def operator(name: str) -> Contract:
    """The contract of an operator, by name (any case, with or without ``aclnn``) or alias.

    Raises UnknownNameError with near misses, FileError when the operator's folder is broken.
    """
    page = _catalog().pages[_find(name)]
    contract = page.contract
    if isinstance(contract, str):
        contract = _attribute(page.package, contract)
    if not isinstance(contract, Contract):
        raise FileError(_place(page.package), f"what it gives for {name} is not a Contract")
    return contract


def plan_of(contract: Contract) -> Plan:
    """The function that queues the operator's tasks."""
    if not isinstance(contract.plan, str):
        return contract.plan
    plan: Plan = _attribute(_catalog().pages[_find(contract.name)].package, contract.plan)
    return plan


def kernel_class(op_type: str) -> Callable[..., Kernel]:
    """The kernel class of an operator type such as ``GroupNormGrad``; call it to make a kernel."""
    definition(op_type)
    kernel: Callable[..., Kernel] = _load(op_type)
    return kernel


def builder(op_type: str) -> Builder:
    """What makes the kernels of an operator type from a task."""
    definition(op_type)
    found = _load(op_type)
    make: Builder = getattr(found, "from_task", found)
    return make


def band_class(name: str) -> str:
    """Whose errors those of an operator are estimated with; empty without a kernel."""
    found = _catalog().pages.get(name) or _catalog().op_types.get(name) or _fused(name)
    return found.band_class if found else ""


def _fused(name: str) -> Operator | None:
    """What a graph compiler made of an operator that others can follow in its kernel."""
    if not name.startswith(FUSED):
        return None
    known = _catalog().op_types
    head, *parts = name.removeprefix(FUSED).split("_")
    first = known.get(head)
    if first is None or not first.fused or not parts or any(each not in known for each in parts):
        return None
    return replace(first, name=name, tensors="", attributes=(), aclnn=(), also=(), checks=(),
                   infer=None, kernel=first.fused)  # fmt: skip


def _find(name: str) -> str:
    found = _spellings().get(name.strip().lower())
    if found is None:
        candidates = (*operators(), *aliases())
        remedy = _also_broken() or "`npusim ops list` names the operators."
        raise UnknownNameError("operator", name, candidates, remedy)
    return found


@cache
def _spellings(*, standard: bool = False) -> Mapping[str, str]:
    """What an operator may be called, in small letters, and its name."""
    names: Iterable[str] = operators()
    spellings = {each.lower(): target for each, target in aliases().items()}
    if standard:
        names = sorted(standard_names(), key=lambda name: not name.startswith(_PREFIX))
        spellings = {}
    spellings |= {known.lower().removeprefix(_PREFIX): known for known in names}
    return spellings | {known.lower(): known for known in names}


@cache
def _load(op_type: str) -> Any:
    known = definition(op_type)
    found = known.kernel
    if isinstance(found, str):
        found = _attribute(known.package, found)
    named: Any = getattr(found, "called", None)  # of kernel classes
    return named(op_type) if named is not None else found


def _attribute(package: str, target: str) -> Any:
    module_name, _, name = target.partition(":")
    try:
        module = import_module(f".{module_name}", package)
        table = getattr(module, "KERNELS", {})
        return table[name] if name in table else getattr(module, name)
    except NpusimError:
        raise
    except Exception as error:  # a folder is someone else's code: whatever it raises is its fault
        raise FileError(_place(package), f"can't load {target}: {_why(error)}") from error


@cache
def _catalog() -> _Catalog:
    from importlib.metadata import entry_points  # dear, and not needed at start-up

    found = _Catalog()
    package = import_module(_PACKAGE)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
        if module.ispkg:
            _add_folder(found, f"{_PACKAGE}.{module.name}")
    for entry in entry_points(group=_GROUP):
        _add_folder(found, entry.value)
    for each in _registered:
        if isinstance(each, str):
            _add_folder(found, each)
        else:
            _add(found, each.package or each.name, [each])
    return found


def _add_folder(found: _Catalog, package: str) -> None:
    try:
        _add(found, package, import_module(f"{package}.definitions").OPERATORS)
    except Exception as error:  # noqa: BLE001 - one broken folder must not hide the others
        found.broken[_place(package)] = _why(error)


def _add(found: _Catalog, package: str, definitions: Iterable[Definition]) -> None:
    """Take in what a package provides, all or nothing."""
    here = [replace(each, package=each.package or package) for each in definitions]
    types = [op for each in here if isinstance(each, Operator) for op in each.spelled()]
    pages = [each for each in here if isinstance(each, Page)]
    interfaces = {each.name: (op, each) for op in types for each in op.interfaces}
    names = [each.name for each in types] + [each.name for each in pages] + [*interfaces]
    for place, name in enumerate(names):
        owner = package if name in names[:place] else found.owner(name)
        if owner is not None:
            found.broken[_place(package)] = f"{name} is already provided by {_place(owner)}"
            return
    found.op_types.update({each.name: each for each in types})
    found.interfaces.update(interfaces)
    found.pages.update({each.name: each for each in pages})


def _pages() -> Iterable[Page]:
    return _catalog().pages.values()


def _place(package: str) -> str:
    """A package as readers know it: ``ops/loss`` for a folder of ours."""
    return package.replace(f"{_PACKAGE}.", "ops/")


def _also_broken() -> str:
    broken = broken_folders()
    if not broken:
        return ""
    listed = "; ".join(f"{place}: {why}" for place, why in broken.items())
    return f"Not readable: {listed}."


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
