"""What a call of attention must fulfil: its tensors fit together as its kernel reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from npusim.ascendc.task import Task, made
from npusim.operators.checks import invalid
from npusim.operators.contract import TensorArg
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.hardware import Profile
    from npusim.operators.contract import Call, Check, Finding


def fits_together(
    inputs: tuple[str, ...], outputs: tuple[str, ...], *called: str, read: str, own: tuple[str, ...]
) -> Check:
    """161002 for tensors and attributes that are no call to the function ``read`` of records.

    ``called`` are the call's names of the attributes that it knows as ``own``.
    """

    def tensor(call: Call, name: str) -> GlobalTensor | None:
        given = call.arguments.get(name)
        return made(given.spec.shape, given.spec.dtype) if isinstance(given, TensorArg) else None

    def test(call: Call) -> Finding:
        from npusim.ops.attention import inference

        attributes = {
            name: call.arguments[theirs]
            for name, theirs in zip(own, called, strict=True)
            if call.arguments.get(theirs) is not None
        }
        given = tuple(tensor(call, name) for name in inputs)
        results = tuple(each for name in outputs if (each := tensor(call, name)) is not None)
        profile = cast("Profile", call.profile)
        try:
            getattr(inference, read)(Task(profile, call.contract.name, given, results, attributes))
        except KernelError as error:
            return error.message
        return None

    return invalid("the tensors are no call of attention", test)
