"""What the aclnn functions that look numbers up do on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue


def number_searched(
    host: Host,
    sequence: GlobalTensor,
    sorter: GlobalTensor | None,
    *,
    number: ScalarValue,
    out_int32: bool,
    right: bool,
) -> Any:
    """Behind how many of a sorted row a number belongs."""
    value = host.constant(number, sequence.dtype)
    return host.run("SearchSorted", sequence, value, sorter, out_int32=out_int32, right=right)
