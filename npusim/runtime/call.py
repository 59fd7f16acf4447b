"""The first phase of a call: judge the arguments and plan the tasks.

:func:`get_workspace_size` returns the workspace size and an executor; the second phase is
:meth:`npusim.runtime.stream.Stream.execute`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.operators.contract import TensorArg
from npusim.operators.oracle import planned
from npusim.runtime.listening import Operand
from npusim.values.errors import expect

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Call, Contract
    from npusim.operators.task_chain import Chain


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


def operands(executor: Executor) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The tensors that a call reads, and those that it writes."""
    read: list[Operand] = []
    written: list[Operand] = []
    for parameter in executor.call.contract.parameters:
        given = executor.call.arguments.get(parameter.name)
        if isinstance(given, TensorArg):
            told = Operand(parameter.name, given.spec.shape, given.spec.dtype)
            (read if parameter.io == "in" else written).append(told)
    return tuple(read), tuple(written)


def get_workspace_size(
    contract: Contract,
    profile: Profile,
    arguments: Mapping[str, object],
    *,
    numerics: bool,
    assume: Mapping[str, object] | None = None,
) -> tuple[int, Executor]:
    """Phase one: workspace bytes and executor. Raises AclnnError when the oracle refuses.

    ``assume`` sets numbers that the plan assumes where only data could tell them (see
    :meth:`Chain.assumed`).
    """
    expect({} if assume is None else assume, Mapping, "assume")
    call, chain = planned(contract, profile, arguments, numerics=numerics, assume=assume)
    nbytes = chain.workspace_bytes()
    return nbytes, Executor(call, chain, nbytes, numerics)
