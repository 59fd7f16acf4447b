"""Indices that point outside: the kernel would touch memory that isn't its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor


def fault_outside(
    core: Core, op_type: str, indices: GlobalTensor, *counts: int, skips: bool = False,
    wraps: bool = False,
) -> None:  # fmt: skip
    """Raise DeviceFault where an index isn't one of its axis' places; the first core looks.

    Of ``counts`` there is one, or one for each number of a tuple of indices. Where the kernel
    ``skips`` negative ones they are none of its places; where it ``wraps`` they count from the end.
    """
    if not core.numerics or core.get_block_idx():
        return
    found = indices.array
    if found is None or not found.size:
        return
    for count, numbers in zip(counts, found.reshape(-1, len(counts)).T, strict=True):
        least, most = int(numbers.min()), int(numbers.max())
        if skips:
            least, most = 0, max(0, most)
        if wraps and -count <= least < 0:
            least = 0
        wrong = least if least < 0 else most
        if not 0 <= wrong < count:
            raise DeviceFault(
                AclError.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
                f"{op_type}: index {wrong} is outside of an axis of {count}",
                f"Give indices from 0 to {count - 1}.",
            )
