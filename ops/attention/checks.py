"""What a call of attention must fulfil: its tensors fit together as its kernel reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from npusim.ascendc.task import Task, made
from npusim.operators.checks import invalid
from npusim.operators.contract import Check, TensorArg
from npusim.ops.attention.call import NotCoveredError
from npusim.ops.attention.limits import LAUNCH, TILING
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.hardware import Profile
    from npusim.operators.contract import Call, Finding


def suits_one_core(
    inputs: tuple[str, ...], outputs: tuple[str, ...], *called: str, read: str, own: str
) -> Check:
    """561002 or 561103 for what the tiling refuses where cube and vector unit share a core."""

    def test(call: Call) -> Finding:
        from npusim.ops.attention import inference, suited

        cores = getattr(call.profile, "cores", None)  # a whole family of products has none
        if cores is None or cores.style == "split":
            return None
        task = _task(call, inputs, outputs, dict(zip(own.split(), called, strict=True)))
        try:
            return suited.unsuited(task, getattr(inference, read)(task))
        except KernelError:
            return None  # other checks tell

    title = "the tiling for a core of cube and vector unit refuses the tensors"
    return Check(TILING if read == "fused_call" else LAUNCH, title, test)


def fits_together(
    inputs: tuple[str, ...], outputs: tuple[str, ...], *called: str, read: str, own: str
) -> Check:
    """161002 for tensors and attributes that are no call to the function ``read`` of records.

    ``called`` are the call's names of the attributes that it knows as ``own``.
    """

    def test(call: Call) -> Finding:
        from npusim.ops.attention import inference

        task = _task(call, inputs, outputs, dict(zip(own.split(), called, strict=True)))
        try:
            getattr(inference, read)(task)
        except NotCoveredError:
            return None  # planning says so
        except KernelError as error:
            return error.message
        return None

    return invalid("the tensors are no call of attention", test)


def packed(layout: str) -> Check:
    """161002 for sequences of an interface for packed ones that aren't: its host code asks."""

    def test(call: Call) -> Finding:
        got = call.arguments.get(layout)
        if got in (None, "TND") or not re.search("VarLen|Unpadding", call.contract.name):
            return None
        return f"{layout} should be TND for packed sequences, but is {got}."

    return invalid(f"{layout} isn't TND for packed sequences", test)


def _task(
    call: Call, inputs: tuple[str, ...], outputs: tuple[str, ...], names: dict[str, str]
) -> Task:
    """The call as the task that it queues; ``names`` are what it calls the task's attributes."""

    def tensor(name: str) -> GlobalTensor | None:
        given = call.arguments.get(name, call.arguments.get(f"{name}0"))  # the first of a list
        return made(given.spec.shape, given.spec.dtype) if isinstance(given, TensorArg) else None

    attributes = {
        name: call.arguments[theirs]
        for name, theirs in names.items()
        if call.arguments.get(theirs) is not None
    }
    results = tuple(each for name in outputs if (each := tensor(name)) is not None)
    if tensor(outputs[-1]) is None:  # results are told apart by their places
        results = ()
    given = tuple(tensor(name) for name in inputs)
    op_type = call.contract.name.removeprefix("aclnn").rstrip("V2345")
    return Task(cast("Profile", call.profile), op_type, given, results, attributes)
