"""The first phase of a call: judge the arguments and plan the tasks.

:func:`get_workspace_size` returns the workspace size and an executor; the second phase is
:meth:`npusim.runtime.stream.Stream.execute`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.operators import arguments as binding
from npusim.operators.checks import check_call
from npusim.operators.contract import Call, Contract
from npusim.operators.registry import plan_of
from npusim.operators.task_chain import Chain
from npusim.values.errors import AclnnError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.hardware.profile import Profile
    from npusim.values.status import Status


@dataclass(eq=False)
class Executor:
    """The planned tasks of one accepted call.

    It can be executed once (the device leaves a second time undefined).
    """

    call: Call
    chain: Chain
    workspace_size: int
    numerics: bool
    used: bool = False


def check(contract: Contract, profile: Profile, arguments: Mapping[str, object]) -> Status:
    """The status that phase one would return; nothing is planned."""
    bound = binding.bind(contract, arguments, require_data=False)
    return check_call(Call(contract, profile, bound))


def get_workspace_size(
    contract: Contract,
    profile: Profile,
    arguments: Mapping[str, object],
    *,
    numerics: bool,
    assume: Mapping[str, object] | None = None,
) -> tuple[int, Executor]:
    """Phase one: workspace bytes and executor. Raises AclnnError when a check objects.

    ``assume`` sets numbers that the plan assumes where only data could tell them (see
    :meth:`Chain.assumed`).
    """
    bound = binding.bind(contract, arguments, require_data=numerics)
    call = Call(contract, profile, bound)
    status = check_call(call)
    if not status.ok:
        raise AclnnError(status)
    call = binding.complete(call)
    chain = Chain(call, profile, assume)
    if not contract.is_empty(call):
        plan_of(contract)(call, chain)
    chain.refuse_unknown_assumptions()
    return chain.workspace_bytes(), Executor(call, chain, chain.workspace_bytes(), numerics)
