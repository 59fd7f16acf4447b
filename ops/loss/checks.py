"""What a loss may leave of its shape, by its reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.operators.checks import invalid, sizes
from npusim.operators.contract import Check
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Finding


def reduces(result: str, reduction: str, *names: str, most: int = 2) -> Check:
    """161002 for a reduction that there isn't, or a result that it doesn't make.

    ``most`` is the last reduction there is: 0 none, 1 mean, 2 sum, 3 sum over the batch's size.
    """

    def test(call: Call) -> Finding:
        chosen = call.arguments.get(reduction)
        objection = known_reduction(reduction, most).test(call)
        if objection is not None:
            return objection
        try:
            shape = np.broadcast_shapes(*(spec.shape for _, spec in call.given(*names)))
        except ValueError:
            return f"{', '.join(names)} can't be broadcast together."
        for name, spec in call.given(result):
            if chosen and spec.numel != 1:
                return f"{name} should be one number, but has sizes {sizes(spec.shape)}."
            if not chosen and spec.shape != shape:
                return f"{name} should be {sizes(shape)}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{result} isn't what {reduction} makes of {', '.join(names)}", test)


def no_mean_of_whole(name: str, reduction: str) -> Check:
    """561103 for the mean of whole numbers. Source: ops-nn loss (op_api of aclnnL1Loss)."""

    def test(call: Call) -> Finding:
        whole = any(not spec.dtype.is_float for _, spec in call.given(name))
        if whole and call.arguments.get(reduction) == 1:
            return f"{name} is {call.spec(name).dtype}, of which there is a sum but no mean."
        return None

    return Check(StatusCode.ACLNN_ERR_INNER_NULLPTR, "whole numbers have no mean", test)


def known_reduction(reduction: str, most: int = 2) -> Check:
    """161002 for a number that is no reduction."""

    def test(call: Call) -> Finding:
        chosen = call.arguments.get(reduction)
        if isinstance(chosen, int) and not 0 <= chosen <= most:
            return f"{reduction} should be 0 to {most}, but is {chosen}."
        return None

    return invalid(f"{reduction} isn't 0 to {most}", test)


def leads_back(grad: str, reduction: str, *names: str, most: int = 2) -> Check:
    """161002 for a reduction that there isn't, or gradients that don't belong to it."""

    def test(call: Call) -> Finding:
        objection = known_reduction(reduction, most).test(call)
        if objection is not None:
            return objection
        try:
            np.broadcast_shapes(*(spec.shape for _, spec in call.given(grad, *names)))
        except ValueError:
            return f"{', '.join((grad, *names))} can't be broadcast together."
        return None

    return invalid(f"{grad} doesn't belong to {', '.join(names)}", test)
