"""GroupNorm backward where there is no kernel for it.

The chain that the API composes of other operators.

A group is treated as a channel of a batch normalisation over N * group channels of D * HxW
elements; the sums for gamma and beta are separate reductions. About ten passes over the data.
Source: ops-nn norm/group_norm_grad, op_api. The device rounds to the half type after every task;
numbers here are kept in float32 and rounded once.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.values.dtypes import FLOAT
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain

_EPSILON = 1e-5  # what the chain takes off 1 / rstd**2 to get a variance, and adds again


class _Problem:
    """Shapes of one call, and its inputs made contiguous."""

    def __init__(self, call: Call, chain: Chain) -> None:
        self.batch, self.channels = call.integer("N"), call.integer("C")
        self.size, self.group = call.integer("HxW"), call.integer("group")
        self.groups = self.batch * self.group
        shape = (self.batch, self.channels, self.size)
        self.grad_out, self.x = (
            chain.input("gradOut").view(*shape),
            chain.input("input").view(*shape),
        )
        self.mean, self.rstd = (chain.input(name).view(self.groups) for name in ("mean", "rstd"))
        self.gamma = (
            chain.input("gamma").view(1, self.channels, 1) if call.is_given("gamma") else None
        )
        self.dtype = self.grad_out.dtype


def build(call: Call, chain: Chain) -> None:
    """Queue the tasks for the outputs that outputMask asks for."""
    wants_input, wants_gamma, wants_beta = call.flags("outputMask")
    if not (wants_input or wants_gamma or wants_beta):
        return
    chain.rounds_once = True
    problem = _Problem(call, chain)
    if problem.dtype is not FLOAT:
        chain.assume(
            "half-type intermediates are kept in float32; the device rounds after every task"
        )
    if wants_input:
        _grad_input(chain, problem)
    if wants_gamma:
        _grad_gamma(chain, problem)
    if wants_beta:
        _reduce_to_channels(chain, problem, problem.grad_out, "gradBetaOut")


def _grad_input(chain: Chain, problem: _Problem) -> None:
    grads = problem.grad_out
    if problem.gamma is not None:
        grads = _same_shape(chain, grads, "weighted")
        chain.launch("Mul", problem.grad_out, problem.gamma, grads)
    variance = _variance(chain, problem)
    mean = _per_lane(chain, problem, chain.cast(problem.mean, FLOAT), "mean5hd")
    slices = ceil(problem.groups / C0)
    statistics = (1, slices, 1, C0)
    ones = chain.fill(statistics, FLOAT, 1.0, "unit_scale")
    grads5hd, x5hd = (_to_5hd(chain, problem, tensor) for tensor in (grads, problem.x))
    diff_scale, diff_offset = (
        chain.empty(statistics, FLOAT, name) for name in ("diff_scale", "diff_offset")
    )
    for cleared in (diff_scale, diff_offset):
        chain.launch("MemSet", cleared)
    chain.launch(
        "BNTrainingUpdateGrad",
        grads5hd,
        x5hd,
        mean,
        variance,
        diff_scale,
        diff_offset,
        epsilon=_EPSILON,
    )
    result5hd = _same_shape(chain, grads5hd, "dx5hd")
    chain.launch(
        "BNTrainingReduceGrad",
        grads5hd,
        x5hd,
        diff_scale,
        diff_offset,
        ones,
        mean,
        variance,
        result5hd,
        epsilon=_EPSILON,
        count=_elements_per_group(problem),
    )
    result = chain.output("gradInput")
    chain.launch(
        "TransData", result5hd, result.view(1, problem.groups, _elements_per_group(problem))
    )
    chain.finish("gradInput", result)


def _variance(chain: Chain, problem: _Problem) -> GlobalTensor:
    """1 / rstd**2 - eps: Mul, OnesLike, RealDiv, Sub, brought to one row per slice of channels."""
    rstd = chain.cast(problem.rstd, FLOAT)
    square, one, quotient, variance, epsilon = (
        chain.empty((problem.groups,), FLOAT, name)
        for name in ("square", "one", "quotient", "variance", "epsilon")
    )
    chain.launch("Mul", rstd, rstd, square)
    chain.launch("OnesLike", square, one)
    chain.launch("RealDiv", one, square, quotient)
    chain.launch("Fill", epsilon, value=_EPSILON)
    chain.launch("Sub", quotient, epsilon, variance)
    return _per_lane(chain, problem, variance, "variance5hd")


def _per_lane(chain: Chain, problem: _Problem, tensor: GlobalTensor, name: str) -> GlobalTensor:
    """A number per group as NC1HWC0 statistics.

    [1, C1, 1, C0], lanes beyond the last group unused.
    """
    padded = chain.empty((1, ceil(problem.groups / C0), 1, C0), FLOAT, name)
    chain.launch("TransData", tensor.view(1, problem.groups, 1), padded)
    return padded


def _to_5hd(chain: Chain, problem: _Problem, tensor: GlobalTensor) -> GlobalTensor:
    elements = _elements_per_group(problem)
    sliced = chain.empty(
        (1, ceil(problem.groups / C0), elements, C0),
        tensor.dtype,
        f"{tensor.buffer.name}5hd",
    )
    chain.launch("TransData", tensor.view(1, problem.groups, elements), sliced)
    return sliced


def _grad_gamma(chain: Chain, problem: _Problem) -> None:
    """BroadcastTo of mean and rstd, Sub, Mul, Mul, then the sums."""
    shape = (problem.groups, _elements_per_group(problem))
    spread = []
    for tensor, name in ((problem.mean, "mean_wide"), (problem.rstd, "rstd_wide")):
        wide = chain.empty(shape, problem.dtype, name)
        chain.launch("BroadcastTo", tensor.view(problem.groups, 1), wide)
        spread.append(wide)
    centred, normal, product = (
        chain.empty(shape, problem.dtype, name) for name in ("centred", "normal", "product")
    )
    chain.launch("Sub", problem.x.view(*shape), spread[0], centred)
    chain.launch("Mul", centred, spread[1], normal)
    chain.launch("Mul", normal, problem.grad_out.view(*shape), product)
    _reduce_to_channels(chain, problem, product, "gradGammaOut")


def _reduce_to_channels(chain: Chain, problem: _Problem, tensor: GlobalTensor, name: str) -> None:
    """ReduceSum over HxW, ReduceSum over N."""
    rows = chain.empty((problem.batch, problem.channels), problem.dtype, f"{name}_rows")
    shaped = tensor.view(problem.batch, problem.channels, problem.size)
    chain.launch("ReduceSum", shaped, rows, first_axis=2, last_axis=2)
    result = chain.output(name)
    chain.launch("ReduceSum", rows, result, first_axis=0, last_axis=0)
    chain.finish(name, result)


def _elements_per_group(problem: _Problem) -> int:
    return problem.channels // problem.group * problem.size


def _same_shape(chain: Chain, like: GlobalTensor, name: str) -> GlobalTensor:
    return chain.empty(like.shape, like.dtype, name)
