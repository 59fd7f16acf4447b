"""Finding operators by name: in the folders of ops, in other packages, among those registered.

A folder's ``definitions.py`` says in ``OPERATORS`` what it provides; only the folder that has the
operator is imported. Other packages name folders of theirs as entry points of the group
``npusim.operators``, or hand definitions to :func:`register`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from npusim.operators import folders
from npusim.operators.contract import Contract, Plan
from npusim.operators.definition import Operator, expect_definition
from npusim.operators.folders import Names, Provided
from npusim.values.errors import FileError, NpusimError, UnknownNameError, UsageError, brief
from npusim.values.takes import takes

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task
    from npusim.operators.definition import Definition, Page, Prototype

    Builder = Callable[[Task], tuple[Kernel, ...]]

_PREFIX = "aclnn"
FUSED = "FusionOp_"
"""How the names of fused operators begin; their parts follow."""

_NOTHING = Provided()
caches: list[_lru_cache_wrapper[Any]] = []
"""Of what others find by names, which is forgotten when operators come or go."""
_registered: list[Definition | str] = []


@takes()
def register(*definitions: Definition | str) -> None:
    """Add operators: definitions, or packages by name that have a ``definitions.py``.

    Raises FileError for a package that can't be read and for a name that is taken, ArgumentError
    for what is neither.
    """
    _expect_definitions(definitions)
    before = set(broken_folders())
    _registered.extend(definitions)
    refresh()
    for place, why in broken_folders().items():
        if place not in before:
            unregister(*definitions)
            raise FileError(place, why, "Mend it, or choose another name.")


@takes()
def unregister(*definitions: Definition | str) -> None:
    """Take out operators that were registered; raises UsageError for what wasn't."""
    _expect_definitions(definitions)
    for each in definitions:
        if each not in _registered:
            raise UsageError(f"{brief(each)} isn't registered", "Give what `register` was given.")
        _registered.remove(each)
    refresh()


def _expect_definitions(given: Sequence[object]) -> None:
    for each in given:
        if not isinstance(each, str):
            expect_definition(each)


def refresh() -> None:
    """Forgets what was found, for callers that add folders to npusim.ops while running."""
    folders.forget()
    for each in (_names, _load, _spellings, ai_cpu_function, *caches):
        each.cache_clear()


def operators() -> tuple[str, ...]:
    """The names of all operators with a contract of their own, sorted."""
    return tuple(sorted(_names().pages))


def op_types() -> tuple[str, ...]:
    """The operator types that have a kernel, sorted."""
    return tuple(sorted(_names().op_types))


def standard_names() -> tuple[str, ...]:
    """Operator types, and the aclnn names that amount to one of them, sorted."""
    return tuple(sorted({*_names().op_types, *_names().interfaces}))


def aliases() -> Mapping[str, str]:
    """Other names of operators, and the operator that each stands for."""
    return dict(sorted(_names().aliases.items()))


def broken_folders() -> Mapping[str, str]:
    """Folders that couldn't be read, and why."""
    return dict(sorted(_names().broken.items()))


def has_contract(name: str) -> bool:
    """Whether an operator, by its very name, has a contract of its own."""
    return _page(name) is not None


def has_kernel(op_type: str) -> bool:
    """Whether there is an operator type of this very name; fused ones aren't counted."""
    return _op_type(op_type) is not None


def definition(op_type: str) -> Operator:
    """The definition of an operator type such as ``GroupNormGrad``, or of a fused one."""
    found = _op_type(op_type) or _fused(op_type)
    if found is None:
        raise UnknownNameError("operator type", op_type, op_types(), not_readable())
    return found


def prototype(name: str) -> tuple[Operator, Prototype] | None:
    """The operator and the parameters that a standard name stands for, None for an unknown one.

    By its exact name, or in any case and with or without ``aclnn``, where an operator type goes
    before an aclnn name.
    """
    wanted = name.strip()
    if found := _provider("interfaces", wanted).interfaces.get(wanted):
        return found
    if standard := _op_type(wanted) or _fused(wanted):
        return standard, standard
    meant = _spellings(standard=True).get(wanted.lower())
    return None if meant is None else prototype(meant)


def ruled(name: str) -> tuple[Operator, Prototype] | None:
    """An interface of which only the rules are known, in any case and with or without ``aclnn``."""
    wanted = name.strip().lower().removeprefix(_PREFIX)
    found = next((each for each in _names().ruled if each.lower() == _PREFIX + wanted), None)
    return None if found is None else _provider("ruled", found).ruled[found]


def operator(name: str) -> Contract:
    """The contract of an operator, by name (any case, with or without ``aclnn``) or alias.

    Raises UnknownNameError with near misses, FileError when the operator's folder is broken.
    """
    known = _find(name)
    page = _provider("pages", known).pages[known]
    contract = page.contract
    if isinstance(contract, str):
        contract = _attribute(page.package, contract)
    if not isinstance(contract, Contract):
        raise FileError(folders.place_of(page), f"what it gives for {name} is not a Contract")
    return contract


def plan_of(contract: Contract) -> Plan:
    """The function that queues the operator's tasks."""
    if not isinstance(contract.plan, str):
        return contract.plan
    page = _provider("pages", contract.name).pages[contract.name]
    plan: Plan = _attribute(page.package, contract.plan)
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
    if not callable(make):
        raise FileError(folders.place_of(definition(op_type)), f"no kernel: {brief(make)}")
    return make


def host_function(package: str, target: str) -> Callable[..., Any]:
    """What an aclnn interface does on the host, by its place in a folder of operators."""
    found: Callable[..., Any] = _attribute(package, target)
    return found


@cache
def ai_cpu_function(op_type: str) -> Callable[..., Any] | None:
    """What an operator type computes on the AI CPU, in NumPy; None where nobody says it.

    It stands in the table ``AI_CPU`` of the module ``ai_cpu`` in the operator's folder.
    """
    package = definition(op_type).package
    if package not in sys.modules or find_spec(f"{package}.ai_cpu") is None:
        return None
    table: Mapping[str, Callable[..., Any]] = import_module(f"{package}.ai_cpu").AI_CPU
    return table.get(op_type)


def band_class(name: str) -> str:
    """Whose errors those of an operator are estimated with; empty without a kernel."""
    found = _page(name) or _op_type(name) or _fused(name)
    return found.band_class if found else ""


def is_fused(op_type: str) -> bool:
    """Whether a graph compiler made it of operators that are here, and no definition has it."""
    return _op_type(op_type) is None and _fused(op_type) is not None


def _fused(name: str) -> Operator | None:
    """What a graph compiler made of an operator that others can follow in its kernel."""
    if not name.startswith(FUSED):
        return None
    head, *parts = name.removeprefix(FUSED).split("_")
    first = _op_type(head)
    if first is None or not first.fused or not parts or not all(map(has_kernel, parts)):
        return None
    return replace(first, name=name, tensors="", attributes=(), aclnn=(), also=(), checks=(),
                   infer=None, kernel=first.fused)  # fmt: skip


def _find(name: str) -> str:
    found = _spellings().get(name.strip().lower())
    if found is None:
        candidates = (*operators(), *aliases())
        remedy = not_readable() or "`npusim ops list` names the operators."
        raise UnknownNameError("operator", name, candidates, remedy)
    return found


@cache
def _spellings(*, standard: bool = False) -> Mapping[str, str]:
    """What an operator may be called, in small letters, and its name."""
    names: Sequence[str] = operators()
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
        raise FileError(
            folders.place_of(package), f"can't load {target}: {folders.why(error)}"
        ) from error


def _page(name: str) -> Page | None:
    return _provider("pages", name).pages.get(name)


def _op_type(name: str) -> Operator | None:
    return _provider("op_types", name).op_types.get(name)


def _provider(kind: str, name: str) -> Provided:
    """What provides an operator type, an interface or a page by this very name; for none, nothing.

    No other package can take the name of what comes with npusim, so that is asked first.
    """
    for names in (folders.built_in, _names):
        if source := getattr(names(), kind).get(name):
            try:
                return folders.provided(source)
            except Exception as error:  # what it needs may have gone since it was listed
                raise FileError(folders.place_of(source), folders.why(error)) from error
    return _NOTHING


@cache
def _names() -> Names:
    return folders.all_names(_registered)


def not_readable() -> str:
    """What folders can't be read and why, as a sentence; empty where all can."""
    broken = broken_folders()
    if not broken:
        return ""
    listed = "; ".join(f"{place}: {why}" for place, why in broken.items())
    return f"Not readable: {listed}."
