"""Will it run? The one answer for every name, whoever asks.

`check(name, profile, arguments)` is the status of a call, by any name that `resolve` knows and any
that only the catalogue knows. `planned` is for those who go on to time the call: the same answer,
raised as AclnnError, or else the planned tasks. `check_task` answers for a recorded task (an
OpType with tensors in their order). In this order they ask:

1. the checks of the operator's definition, in the order of its page; where the definition lists no
   dtypes of its own the catalogue has its say behind the null pointers: dtypes, numbers of axes and
   storage formats, and last of all products;
2. the kernels: the call is planned and its instructions are formed, from shapes alone. Tensors that
   belong together on no chip (RefusedTaskError) are a no, with the code of the interface's page;
   what a kernel of ours doesn't cover is unknown, for the device may run it.

Every remedy has been tried: `Status.actions` are the changed calls, and each of them is accepted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from npusim.ascendc import Kernel, trace
from npusim.hardware.families import FAMILIES
from npusim.operators import arguments as binding
from npusim.operators import memory, proven
from npusim.operators.checks import Objection, no_kernel, null_checks, objection, objection_of
from npusim.operators.contract import Call, TensorArg
from npusim.operators.registry import not_readable, plan_of
from npusim.operators.resolve import resolve
from npusim.operators.task_chain import Chain
from npusim.operators.tasks import kernels_of, refusing_nonsense
from npusim.values.errors import (
    AclnnError,
    KernelCodeError,
    KernelError,
    NotModelledError,
    RefusedTaskError,
    UnknownNameError,
    error_of,
)
from npusim.values.status import SUCCESS, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from npusim.catalogue.verdicts import Verdict
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Chip, Contract
    from npusim.operators.tasks import TaskSpec


def contract_of(name: str, arguments: Mapping[str, object]) -> Contract | None:
    """The contract of a call, None for a name that only the catalogue knows.

    Names from elsewhere (``torch.add``) are those of the operators that they stand for. Raises
    UnknownNameError, with near misses of both, for a name that nobody knows, and UsageError
    for arguments that the catalogue can't read.
    """
    try:
        return resolve(name, arguments)
    except UnknownNameError as unknown:
        meant = _meant(name, unknown)
    try:
        return resolve(meant, arguments)
    except UnknownNameError:
        from npusim.catalogue.families import Place

        _catalogued(name, Place(FAMILIES[0]), arguments)
        return None


def check(name: str, profile: Profile, arguments: Mapping[str, object]) -> Status:
    """The status that phase one of the call would return, or that it isn't known.

    A yes names the source of its rules where all of them were asked (`Status.rules_source`).
    Raises UsageError for a name or parameter that nobody knows, for a value of a wrong kind, and
    for a read-only array that results would be stored into.
    """
    contract = contract_of(name, arguments)
    if contract is None:
        return _catalogued(name, profile, arguments)
    bound = binding.bind(contract, arguments, require_data=False)
    binding.require_writable(contract, bound)
    call = _without_data(Call(contract, profile, bound))
    found = refusal(call)
    return _accepted(call) if found is None else _tried(found, call)


def _accepted(call: Call) -> Status:
    """Yes; unknown where only files of a release speak for the interface on the product."""
    contract, name = call.contract, call.contract.name
    offered = ""
    if not any(parameter.dtypes for parameter in contract.parameters):
        from npusim.catalogue.verdicts import Answer
        from npusim.operators import listed

        if (offer := listed.unlisted(call)) is not None:
            offered = f"{name} on {call.profile.name}: {offer.why}."
            if offer.answer is not Answer.SUPPORTED:
                return Status(None, offered, "An estimate says how long it takes if it does.")
    if not contract.has_kernels:
        sentence = f"npusim has no kernel of {name}, so it can't be timed."
        return Status(0, sentence, is_modelled=False, rules_source=contract.rules_source)
    return _yes(offered, contract.rules_source)


@lru_cache(maxsize=1024)
def _yes(message: str, rules_source: str) -> Status:
    return replace(SUCCESS, message=message, rules_source=rules_source)


def check_facts(contract: Contract, chip: Chip, arguments: Mapping[str, object]) -> Status:
    """What definition and catalogue say of a call on a product that can't be simulated."""
    bound = binding.bind(contract, arguments, require_data=False)
    call = Call(contract, chip, bound)
    found = by_facts(call)
    return _accepted(call) if found is None else found.status


def require_kernel(name: str, profile: Profile, arguments: Mapping[str, object]) -> Contract:
    """The contract to time a call by.

    Raises AclnnError for a name that only the catalogue knows and refuses, NotModelledError where
    there is no kernel to time.
    """
    contract = contract_of(name, arguments)
    if contract is not None:
        return contract
    status = _catalogued(name, profile, arguments)
    if status.ok:
        raise NotModelledError(Status.unknown(status.message, status.remedy))
    raise error_of(status)


def planned(
    contract: Contract,
    profile: Profile,
    arguments: Mapping[str, object],
    *,
    numerics: bool,
    assume: Mapping[str, object] | None = None,
) -> tuple[Call, Chain]:
    """An accepted call with its outputs described, and its tasks.

    Raises AclnnError for a refused one, NotModelledError for one that npusim can't tell.
    """
    bound = binding.bind(contract, arguments, require_data=numerics)
    call = Call(contract, profile, bound)
    whole = _whole(call)
    if isinstance(whole, Objection):
        raise error_of(_tried(whole, call))
    if not contract.has_kernels:
        raise NotModelledError(Status.unknown(_accepted(call).message))
    chain = _chain(whole, assume)
    if isinstance(chain, Objection):
        raise error_of(_tried(chain, call))
    if (status := _accepted(call)).code is None:
        chain.assume(status.message)
    return whole, chain


def check_task(task: TaskSpec, profile: Profile) -> Status:
    """The status of a recorded task; its remedies aren't looked for."""
    from npusim.operators import listed

    verdict = listed.task_verdict(task, profile)
    if verdict is not None and (found := _by_catalogue(verdict)):
        return found.status
    if status := memory.of_task(task, profile):
        return status
    try:
        found = _by_kernels(task.op_type, kernels_of(profile, task), profile)
    except KernelError as error:
        found = _unfit(task.op_type, error)
    return SUCCESS if found is None else found.status


def refused_by_kernel(error: KernelError, call: Call) -> AclnnError:
    """What to raise for a kernel that refuses while it runs.

    As `check` foretells it, or that the numbers are to blame, where shapes alone pass.
    """
    found = _unfit(call.contract.name, error)
    if found.status.code is None and refusal(_without_data(call)) is None:
        sentence = f"npusim can't compute these numbers (a device may): {error.message}"
        remedy = "An estimate gives the time, and needs no numbers."
        return NotModelledError(Status.unknown(sentence, remedy))
    return error_of(_tried(found, call))


def has_run(call: Call, chain: Chain) -> None:
    """Take note that the kernels of a planned call ran, for those who ask for remedies later."""
    has_data = any(
        isinstance(value, TensorArg) and value.data is not None for value in call.arguments.values()
    )
    if not has_data and not chain.is_told:
        proven.remember(call)


def refusal(call: Call) -> Objection | None:
    """Why a call is refused, None when it is accepted; its remedy isn't tried."""
    whole = _whole(call)
    if isinstance(whole, Objection):
        return whole
    if not call.contract.has_kernels:
        return None
    if proven.has_run(whole):
        return None
    chain = _chain(whole, None)
    if isinstance(chain, Objection):
        return chain
    if proven.is_known(whole):
        return None
    if (unfit := _by_kernels(call.contract.name, chain.tasks, chain.profile)) is None:
        proven.remember(whole)
    return unfit


def _by_kernels(name: str, kernels: Iterable[Kernel], profile: Profile) -> Objection | None:
    """What the instructions of the kernels, which shapes decide, ask of the chip in vain."""
    try:
        for kernel in kernels:
            trace(kernel, profile, numerics=False)
    except KernelError as error:
        return _unfit(name, error)
    return None


def by_facts(call: Call, described: Call | None = None) -> Objection | None:
    """What definition and catalogue object to; no kernel is asked, so a family will do for chip.

    Axes and formats are those that the caller ``described``: results that we fill in are rows.
    """
    if any(parameter.dtypes for parameter in call.contract.parameters):
        return objection(call)
    nulls, others = null_checks(call.contract.checks)
    if found := objection_of(call, nulls):
        return found
    from npusim.catalogue import judging  # as late as that
    from npusim.operators import listed, paged

    verdict = listed.verdict(call)
    refused = None if verdict is None else _by_catalogue(verdict)
    if refused and refused.status.code == StatusCode.ACLNN_ERR_PARAM_INVALID:
        return refused
    layout = None if verdict is None else paged.objection(described or call, verdict)
    certain = [each for each in others if each.code is not None]
    unsure = [each for each in others if each.code is None]
    found = layout or objection_of(call, certain, judging.code_of_shapes(call.contract.name))
    return found or refused or no_kernel(call) or objection_of(described or call, unsure)


def _whole(call: Call) -> Objection | Call:
    """The call with its outputs described, or what definition and catalogue object to."""
    if found := by_facts(call) or memory.objection(call):
        return found
    try:
        with refusing_nonsense(call.contract.name, " of such tensors and attributes"):
            whole = binding.complete(call)
    except KernelError as error:
        return _unfit(call.contract.name, error)
    if len(whole.arguments) == len(call.arguments):
        return whole
    return by_facts(whole, described=call) or memory.objection(whole) or whole


def _chain(whole: Call, assume: Mapping[str, object] | None) -> Objection | Chain:
    """The tasks of a whole call, or why there are none."""
    chain = Chain(whole, cast("Profile", whole.profile), assume)
    name = whole.contract.name
    try:
        if not (whole.contract.is_empty(whole) or _is_empty(whole)):
            with refusing_nonsense(name, " of such tensors and attributes"):
                plan_of(whole.contract)(whole, chain)
    except KernelError as error:
        return _unfit(name, error)
    chain.refuse_unknown_assumptions()
    return memory.objection(whole, chain.workspace_bytes()) or chain


def _is_empty(whole: Call) -> bool:
    """Whether all of its results are tensors without elements."""
    names = [each.name for each in whole.contract.parameters if each.io == "out"]
    results = [spec for _, spec in whole.given(*names)]
    return bool(results) and all(spec.is_empty for spec in results)


def _by_catalogue(verdict: Verdict) -> Objection | None:
    if not verdict.code:
        return None
    return Objection(Status(verdict.code, f"{verdict.why}."), {})


def _unfit(name: str, error: KernelError) -> Objection:
    """What a kernel that doesn't take a call says of it: no, or that npusim can't tell.

    For a no nothing but the caller knows what to change; for a time other dtypes may do.
    """
    if isinstance(error, KernelCodeError):  # a mistake in a kernel of one's own: no answer of ours
        raise error
    if isinstance(error, RefusedTaskError):
        return Objection(Status(_code_of(name), f"{error.kernel or name}: {error.problem}."))
    sentence = f"not modelled (npusim can't time it, a device may run it): {error.message}"
    return Objection(Status.unknown(sentence), {})


def _code_of(name: str) -> StatusCode:
    """What tensors that don't belong together get of an interface, and of an operator's tiling."""
    from npusim.catalogue import judging

    if name.startswith("aclnn"):
        return judging.code_of_shapes(name)
    return StatusCode.ACLNN_ERR_INNER_TILING_ERROR


def _tried(found: Objection, call: Call) -> Status:
    if found.status.code == memory.OUT_OF_MEMORY:
        return memory.remedied(found, _without_data(call), refusal)
    from npusim.operators import remedies

    judges = remedies.Judges(refusal, by_facts)
    return remedies.tried(found, _without_data(call), judges)


def _meant(name: str, unknown: UnknownNameError) -> str:
    """The operator that a name stands for in the catalogue."""
    from npusim.catalogue import facts, names

    try:
        return names.find(facts.catalogue(), name).name
    except UnknownNameError as error:
        candidates = (*unknown.candidates, *error.candidates)
        known = "`npusim ops list` names what can be timed; `npusim ops --search WORD` the rest."
        remedy = f"{known} {not_readable()}".rstrip()
        raise UnknownNameError("operator", name, candidates, remedy) from None


def _catalogued(name: str, chip: Chip, arguments: Mapping[str, object]) -> Status:
    """The status by the catalogue alone, for a name without a kernel here."""
    from npusim.catalogue.families import Place
    from npusim.hardware.profile import Profile
    from npusim.operators import listed

    own = chip if isinstance(chip, Profile) else None
    verdict, actions = listed.by_name(name, Place(chip.family, chip.name, profile=own), arguments)
    if verdict.code:
        return Status(verdict.code, f"{verdict.why}.", verdict.remedy, actions)
    sentence = f"{verdict.why}; npusim has no kernel of {verdict.subject}, so it can't be timed."
    if verdict.code is None:
        return Status.unknown(sentence, verdict.remedy)
    return Status(0, sentence, "`npusim ops list` names what can be.", is_modelled=False)


def _without_data(call: Call) -> Call:
    """The call as phase one sees it, which is before there are data."""
    arguments = {
        name: TensorArg(value.spec) if isinstance(value, TensorArg) else value
        for name, value in call.arguments.items()
    }
    return Call(call.contract, call.profile, MappingProxyType(arguments))
