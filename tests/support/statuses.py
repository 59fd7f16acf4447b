"""What the checks of an operator's definition say, without catalogue and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import objection
from npusim.values.status import SUCCESS

if TYPE_CHECKING:
    from npusim.operators.contract import Call
    from npusim.values.status import Status


def check_call(call: Call) -> Status:
    """The status of the first objection, or success."""
    found = objection(call)
    return SUCCESS if found is None else found.status
