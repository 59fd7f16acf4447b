"""Ways out of a refusal, each tried before it is printed: other dtypes, formats, products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from npusim.catalogue import wording
from npusim.catalogue.verdicts import Answer
from npusim.hardware.families import FAMILIES, every, one_of
from npusim.hardware.naming import load_profile
from npusim.hardware.products import product_lines
from npusim.operators.checks import Objection
from npusim.operators.contract import Argument, Call, Chip, TensorArg
from npusim.operators.listed import verdict as verdict_on
from npusim.values.dtypes import BFLOAT16, DType, dtype
from npusim.values.errors import UsageError
from npusim.values.status import Action, Status, StatusCode, Verdict

if TYPE_CHECKING:
    Ask = Callable[[Call], Objection | None]

# Some 30 ms at most; a change that helps is among the first few.
_MOST_QUESTIONS = 20
# What a tensor may be cast to: what loses nothing first, then what loses least. BFLOAT16 and FLOAT
# become FLOAT16 first, for wider types cost twice the time, or run on the AI CPU.
_CASTS = {
    "BFLOAT16": ("FLOAT16", "FLOAT"),
    "FLOAT": ("FLOAT16", "BFLOAT16", "DOUBLE"),
    "DOUBLE": ("FLOAT", "FLOAT16", "BFLOAT16"),
    "INT64": ("INT32", "FLOAT", "INT16", "INT8", "FLOAT16"),
    "INT32": ("INT64", "FLOAT", "INT16", "INT8", "UINT8", "FLOAT16"),
    "UINT1": ("UINT8", "INT32"),
    "UINT64": ("INT64", "INT32", "UINT32", "FLOAT", "UINT8"),
    "float": ("FLOAT16", "FLOAT", "BFLOAT16", "DOUBLE"),
    "int": ("INT16", "INT32", "INT64", "FLOAT16", "FLOAT", "INT8", "UINT8"),
    "uint": ("INT32", "INT64", "FLOAT", "UINT8", "FLOAT16", "INT8"),
    "bool": ("UINT8", "INT8", "INT32", "FLOAT", "FLOAT16"),
    "complex": ("COMPLEX64", "COMPLEX128"),
}


class _Change(NamedTuple):
    """Arguments to change, and how to say it."""

    words: tuple[str, ...]
    arguments: Mapping[str, Argument]


class _Search(NamedTuple):
    """The change that helps, or else what refuses a call whose dtypes are taken."""

    change: _Change | None = None
    beyond: Status | None = None


class Judges(NamedTuple):
    """Who judges a changed call: wholly, or without kernels."""

    wholly: Ask
    by_facts: Ask


def tried(found: Objection, call: Call, judges: Judges) -> Status:
    """The status of a refused call with the ways out that help, or none."""
    status = found.status
    if status.code == StatusCode.ACLNN_ERR_PARAM_NULLPTR:
        return status
    offered = call.profile.family in call.contract.products  # else not for other arguments, either
    changes = offered and found.changes is not None
    search = _search(found, call, judges.wholly) if changes else _Search()
    change = search.change
    families, chips = _products(call, judges)
    if not chips or status.verdict is Verdict.UNKNOWN:
        families = [*chips]
    if change is None and not families:
        return replace(status, remedy=_nothing_helps(found, call, search.beyond))
    words = "; ".join(change.words) if change else ""
    actions = [Action(soc_version=chip) for chip in chips.values()]
    if change is not None:
        actions.insert(0, Action(_spelled(change.arguments)))
    if status.verdict is Verdict.UNKNOWN:
        remedy = _for_a_figure(words, families)
    else:
        what = "BF16" if change and _drops_bf16(call, change) else "This"
        remedy = wording.remedy(families, words, what)
    return replace(status, remedy=remedy, actions=tuple(actions))


def _for_a_figure(change: str, families: Sequence[str]) -> str:
    """Where nothing is known to be wrong with the call: what can be asked in its place."""
    ways = [change] if change else []
    ways += [f"ask --soc-version of {one_of(families)}"] if families else []
    return f"For a figure nevertheless: {', or '.join(ways)}."


def _nothing_helps(found: Objection, call: Call, beyond: Status | None) -> str:
    """A remark stays; a remedy that was tried in vain doesn't.

    Other dtypes may have got further, to what else is wrong: that is said then.
    """
    show = f"`npusim ops show {call.contract.name}` prints what it takes."
    if found.status.verdict is Verdict.UNKNOWN or found.changes is None:
        return found.status.remedy or show
    if beyond is not None:
        return f"Other dtypes alone don't help, for then: {beyond.message} {show}"
    return f"No product with a profile takes this call, nor do the dtypes tried help; {show}"


# Changed arguments -----------------------------------------------------------------------------


def _search(found: Objection, call: Call, ask: Ask) -> _Search:
    """The first change with which the call is accepted; one that meets the next refusal goes on.

    A refusal that nothing but the caller can mend, behind those that dtypes mend, is `beyond`.
    """
    waiting = [(_Change((), {}), found)]
    beyond = None
    is_unknown = found.status.verdict is Verdict.UNKNOWN
    left = _MOST_QUESTIONS // 3 if is_unknown else _MOST_QUESTIONS
    while waiting:
        before, objection = waiting.pop(0)
        for change in _candidates(objection, _changed(call, before)):
            if left == 0:
                return _Search(None, beyond)
            left -= 1
            both = _Change((*before.words, *change.words), {**before.arguments, **change.arguments})
            answer = _asked(ask, _changed(call, both))
            if answer is None:
                return _Search(both)
            if answer.changes is not None and answer.status.message != objection.status.message:
                waiting.append((both, answer))
            elif answer.changes is None and answer.status.verdict is Verdict.NO:
                beyond = beyond or answer.status
    return _Search(None, beyond)


def _candidates(found: Objection, call: Call) -> Iterator[_Change]:
    """What to try: the remedy of the check; other dtypes for alike, floating, single tensors."""
    if found.changes:
        yield _Change((_as_clause(found.status.remedy),), found.changes)
    tensors = (each.name for each in call.contract.parameters if each.kind == "tensor")
    given = {name: spec.dtype for name, spec in call.given(*tensors)}
    kinds = tuple(dict.fromkeys(given.values()))
    alike = [[name for name in given if given[name] is kind] for kind in kinds]
    floating = [name for name in given if given[name].is_float]
    for names in (*alike, floating, *([name] for name in given)):
        for wanted in _casts(given[names[0]]) if names else ():
            changed = [name for name in names if given[name].name != wanted]
            if changed:
                yield _cast(call, changed, wanted, named=changed not in alike)


def _casts(kind: DType) -> tuple[str, ...]:
    return _CASTS.get(kind.name) or _CASTS.get(kind.category, ())


def _cast(call: Call, names: list[str], wanted: str, *, named: bool) -> _Change:
    which = f"{every(names)} " if named else ""
    recast = {name: TensorArg(call.spec(name).recast(dtype(wanted))) for name in names}
    return _Change((f"cast {which}to {wanted}",), recast)


def _asked(ask: Ask, call: Call) -> Objection | None:
    try:
        return ask(call)
    except UsageError as error:  # it would take more arguments
        return Objection(Status(StatusCode.ACLNN_ERR_PARAM_INVALID, error.message))


def _changed(call: Call, change: _Change) -> Call:
    return Call(call.contract, call.profile, {**call.arguments, **change.arguments})


def _as_clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _drops_bf16(call: Call, change: _Change) -> bool:
    arguments = (call.arguments.get(name) for name in change.arguments)
    return any(isinstance(each, TensorArg) and each.spec.dtype is BFLOAT16 for each in arguments)


def _spelled(arguments: Mapping[str, Argument]) -> dict[str, object]:
    """Arguments as a caller writes them."""
    return {
        name: value.spec if isinstance(value, TensorArg) else value
        for name, value in arguments.items()
    }


# Products --------------------------------------------------------------------------------------


class _Family(NamedTuple):
    """A family without a profile of ours, which checks and catalogue know all the same."""

    name: str
    family: str


def _products(call: Call, judges: Judges) -> tuple[list[str], dict[str, str]]:
    """The families that accept the call as it is, and the chip by which each was asked."""
    ours = {line.family: line.soc for line in reversed(product_lines())}
    families: list[str] = []
    chips: dict[str, str] = {}
    for family in FAMILIES:
        elsewhere = _on(_Family(family, family), call)
        if family == call.profile.family or judges.by_facts(elsewhere) is not None:
            continue
        if family not in ours:
            verdict = verdict_on(elsewhere)
            if verdict is None or verdict.answer is Answer.SUPPORTED:
                families.append(family)
            continue
        if _asked(judges.wholly, _on(load_profile(ours[family]), call)) is None:
            families.append(family)
            chips[family] = ours[family]
    return families, chips


def _on(chip: Chip, call: Call) -> Call:
    return Call(call.contract, chip, call.arguments)
