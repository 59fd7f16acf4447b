"""Does a call fit into the memory of the card? What it needs, what there is, and what would fit.

A program meets this where it allocates: aclrtMalloc returns 207001 for the tensor, or the
workspace, for which the memory no longer suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.hardware import load_profile, profile_names
from npusim.hardware.families import either
from npusim.operators.arguments import complete
from npusim.operators.checks import Objection
from npusim.operators.contract import Call, TensorArg
from npusim.values.errors import NpusimError
from npusim.values.status import AclError, Action, Status
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Chip
    from npusim.operators.tasks import TaskSpec

    Ask = Callable[[Call], Objection | None]

OUT_OF_MEMORY = AclError.ACL_ERROR_RT_MEMORY_ALLOCATION
_CHIPS_NAMED = 3


def objection(call: Call, workspace_bytes: int = 0) -> Objection | None:
    """What the card's memory objects to; families of chips have none."""
    status = status_of(_tensors(call), call.profile, workspace_bytes)
    return None if status is None else Objection(status)


def of_task(task: TaskSpec, profile: Profile) -> Status | None:
    """The same for a recorded task."""
    named = {f"input {place}": spec for place, spec in enumerate(task.inputs) if spec is not None}
    named.update((f"output {place}", spec) for place, spec in enumerate(task.outputs))
    return status_of(named, profile)


def status_of(
    tensors: Mapping[str, TensorSpec], chip: Chip, workspace_bytes: int = 0
) -> Status | None:
    """The refusal of tensors and workspace that don't fit; None where they do."""
    memory = getattr(chip, "memory", None)
    needed = _bytes(tensors.values()) + workspace_bytes
    if memory is None or needed <= memory.capacity_bytes:
        return None
    largest = max(tensors, key=lambda name: tensors[name].storage_bytes, default="workspace")
    parts = [f"{name} {_gib(tensors[name].storage_bytes)}" for name in _first(tensors, largest)]
    if workspace_bytes:
        parts.append(f"workspace {_gib(workspace_bytes)}")
    sentence = (
        f"needs {_gib(needed)} ({', '.join(parts)}), {chip.name} has "
        f"{_gib(memory.capacity_bytes)}: aclrtMalloc fails."
    )
    return Status(OUT_OF_MEMORY, sentence)


def remedied(found: Objection, call: Call, ask: Ask) -> Status:
    """The refusal with what would fit: less along the first axis, or chips with more memory."""
    tensors = _tensors(_whole(call))
    fewer = _fewer(call, tensors)
    ways, actions, chips = [], [], []
    if fewer and ask(Call(call.contract, call.profile, {**call.arguments, **fewer})) is None:
        most = next(iter(fewer.values())).spec.shape[0]
        ways.append(f"at most {most:,} along the first axis of {' and '.join(fewer)}")
        actions.append(Action({each: value.spec for each, value in fewer.items()}))
    for name in profile_names():
        profile = load_profile(name)
        has_room = _bytes(tensors.values()) <= profile.memory.capacity_bytes
        if has_room and ask(Call(call.contract, profile, call.arguments)) is None:
            chips.append(profile.name)
        if len(chips) == _CHIPS_NAMED:
            break
    if chips:
        ways.append(f"{either(chips)}: choose another --soc-version")
    actions += [Action(soc_version=chip) for chip in chips]
    remedy = (
        f"What fits: {'; or '.join(ways)}." if ways else "Nothing like it fits; split the call."
    )
    return replace(found.status, remedy=remedy, actions=tuple(actions))


def _whole(call: Call) -> Call:
    """The call with its outputs, as far as they follow from these arguments."""
    try:
        return complete(call)
    except (NpusimError, ArithmeticError, LookupError, ValueError):
        return call


def _fewer(call: Call, tensors: Mapping[str, TensorSpec]) -> dict[str, TensorArg]:
    """The given tensors that share the largest one's first axis, cut so that all fit."""
    largest = max(tensors.values(), key=lambda spec: spec.storage_bytes)
    memory = getattr(call.profile, "memory", None)
    if memory is None or not largest.rank:
        return {}
    length = largest.shape[0]
    mine = {name: spec for name, spec in tensors.items() if spec.rank and spec.shape[0] == length}
    fixed = _bytes(spec for name, spec in tensors.items() if name not in mine)
    most = (memory.capacity_bytes - fixed) * length // max(1, _bytes(mine.values()))
    return {
        name: TensorArg(TensorSpec((most, *spec.shape[1:]), spec.dtype, spec.format))
        for name, spec in mine.items()
        if name in call.arguments and 0 < most < length
    }


def _tensors(call: Call) -> dict[str, TensorSpec]:
    return {
        name: value.spec for name, value in call.arguments.items() if isinstance(value, TensorArg)
    }


def _bytes(specs: Iterable[TensorSpec]) -> int:
    return sum(spec.storage_bytes for spec in specs)


def _gib(nbytes: int) -> str:
    return f"{nbytes / 2**30:,.2f} GiB"


def _first(tensors: Mapping[str, TensorSpec], largest: str) -> list[str]:
    """The largest and one more, which is enough to see where the bytes are."""
    others = sorted(tensors, key=lambda name: -tensors[name].storage_bytes)
    return [largest, *(name for name in others if name != largest)][:2] if tensors else []
