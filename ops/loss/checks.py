"""What a loss may leave of its shape, by its reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.operators.checks import invalid, sizes
from npusim.operators.contract import Check
from npusim.operators.shape_checks import entries
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


def aligned(
    probs: str, targets: str, lengths: str, labels: str, blank: str, loss: str, alphas: str
) -> Check:
    """161002 for sequences that don't fit. Source: ops-nn loss/ctc_loss_v2 (op_api)."""

    def test(call: Call) -> Finding:
        known = {name: spec.shape for name, spec in call.given(probs, targets, loss, alphas)}
        if len(known[probs]) not in (2, 3) or not known[probs][0]:
            return f"{probs} should have 2 or 3 dimensions and steps, not {sizes(known[probs])}."
        batch = known[probs][1:-1] or (1,)
        steps, count, classes = known[probs][0], batch[0], known[probs][-1]
        if not 0 <= call.arguments[blank] < classes:  # type: ignore[operator]
            return f"{blank} should be at least 0 and less than {classes}."
        longest, own = (entries(call, name) or () for name in (lengths, labels))
        if len(longest) != count or max(longest, default=0) > steps:
            return f"{lengths} should be {count} numbers of at most {steps}."
        if len(own) != count:
            return f"{labels} should be {count} numbers."
        most, shape = max(own, default=0), known[targets]
        flat, padded = len(shape) == 1 and shape[0] == sum(own), len(shape) == 2
        if not flat and not (padded and shape[0] == count and shape[1] >= most):
            return f"{targets} should be [{sum(own)}] or [{count}, >= {most}], not {sizes(shape)}."
        wanted = {loss: known[probs][1:-1], alphas: (count, steps, (2 * most + 8) // 8 * 8)}
        for name, each in wanted.items():
            if known.get(name, each) != each:
                return f"{name} should be {sizes(each)}, but has sizes {sizes(known[name])}."
        return None

    return invalid(f"{targets}, {lengths} and {labels} don't fit {probs}", test)
