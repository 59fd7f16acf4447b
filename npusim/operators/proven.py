"""Calls whose kernels' code has run: on chips whose cores are alike it need not run again."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, cast

from npusim.operators.contract import TensorArg
from npusim.values.locks import lock

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Call, Contract

_MOST_CALLS: Final = 1000
_proven: Final[OrderedDict[Hashable, tuple[Contract, list[Profile]]]] = OrderedDict()
_lock: Final = lock()


def remember(call: Call) -> None:
    """The kernels of a call, planned from shapes alone, ask nothing of its chip in vain."""
    chip, key = cast("Profile", call.profile), _key(call)
    with _lock:
        # The contract is kept, so that no other takes its place.
        _, chips = _proven.setdefault(key, (call.contract, []))
        _proven.move_to_end(key)
        if not any(_take_alike(chip, other) for other in chips):
            chips.append(chip)
        if len(_proven) > _MOST_CALLS:
            _proven.popitem(last=False)


def has_run(call: Call) -> bool:
    """Whether the kernels of a call have run on its very chip: it is planned there, and fits."""
    with _lock:
        _, chips = _proven.get(_key(call), (None, []))
        return any(call.profile is other for other in chips)


def is_known(call: Call) -> bool:
    """Whether the kernels of a call have run on cores like those of its chip."""
    chip = cast("Profile", call.profile)
    with _lock:
        _, chips = _proven.get(_key(call), (None, []))
        return any(_take_alike(chip, other) for other in chips)


def _key(call: Call) -> Hashable:
    arguments = {
        name: value.spec if isinstance(value, TensorArg) else (type(value), value)
        for name, value in call.arguments.items()
    }
    return id(call.contract), frozenset(arguments.items())


def _take_alike(chip: Profile, other: Profile) -> bool:
    """Whether the cores of two chips take the same instructions on the same memories."""
    if chip is other:
        return True
    parts = ("buffers", "cube", "features", "intrinsics")
    return all(getattr(chip, part) == getattr(other, part) for part in parts) and (
        _shape(chip) == _shape(other)
    )


def _shape(chip: Profile) -> tuple[object, ...]:
    """How cores are put together, and the paths that they have."""
    cores, paths = chip.cores, tuple(name for name, path in chip.paths if path is not None)
    return cores.style, cores.vector_cores / max(1, cores.cube_cores), paths
