"""One step of an optimizer, one row of a table for each.

Learning rates and decay factors are single elements that the scalar unit reads, or tiles that are
filled with them, as the vendor's schedules do it. Source of the formulas: public operator sources
(ops/built-in/tbe/impl).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from npusim.schedules.block_split import Axes
from npusim.schedules.formula import Formula, Number, Operand, Quantity, Term
from npusim.schedules.formula_classes import kernel_of, kernel_of_call, kernels_of_table
from npusim.schedules.formula_row import Compute

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task

Three = tuple[Term, Term, Term]


def _momentum(
    f: Formula, var: Term, accum: Term, rate: Number, grad: Term, momentum: Number
) -> tuple[Term, Term]:
    """accum = momentum accum + grad; var -= rate accum."""
    moved = f.add(f.mul(accum, momentum), grad)
    return f.sub(var, f.mul(moved, rate)), moved


def _adam(
    f: Formula,
    var: Term,
    m: Term,
    v: Term,
    power1: Quantity,
    power2: Quantity,
    rate: Quantity,
    beta1: Quantity,
    beta2: Quantity,
    epsilon: Quantity,
    grad: Term,
) -> Three:
    """Moments moved towards the gradient; var -= alpha m / (sqrt(v) + epsilon)."""
    alpha = rate * (1.0 - power2).sqrt() / (1.0 - power1)
    var, m, v = (f.add(each, 0.0) for each in (var, m, v))  # updated in place: worked on as copies
    m = f.add(m, f.mul(f.sub(grad, m), 1.0 - beta1))
    v = f.add(v, f.mul(f.sub(f.mul(grad, grad), v), 1.0 - beta2))
    below = f.add(f.sqrt(v), epsilon)
    var = f.sub(var, f.div(f.mul(m, alpha), below))
    return f.add(var, 0.0), f.add(m, 0.0), f.add(v, 0.0)


def _adam_w(
    f: Formula,
    var: Term,
    m: Term,
    v: Term,
    power1: Number,
    power2: Number,
    rate: Number,
    decay: Number,
    beta1: Number,
    beta2: Number,
    epsilon: Number,
    grad: Term,
    *_: Operand | None,
    maximize: bool = False,
) -> Three:
    """Adam with the variable's own decay; the powers of the betas are those of the step before."""
    if maximize:
        grad = f.neg(grad)
    m = f.sub(f.mul(m, beta1), f.mul(grad, beta1 - 1.0))
    v = f.sub(f.mul(v, beta2), f.mul(f.mul(grad, grad), beta2 - 1.0))
    decayed = f.mul(var, 1.0 - rate * decay)
    first, second = power1 * beta1, power2 * beta2
    below = f.add(f.sqrt(f.mul(v, 1.0 / (1.0 - second))), epsilon)
    moved = f.div(f.mul(m, 1.0 / (1.0 - first)), below)
    return f.sub(decayed, f.mul(moved, rate)), m, v


def _lamb_update(
    f: Formula,
    grad: Term,
    v: Term,
    m: Term,
    param: Term,
    beta1: Operand,
    rest1: Operand,
    beta2: Operand,
    rest2: Operand,
    epsilon: Operand,
    steps: Operand,
    use_decay: Operand,
    decay: Operand,
) -> Three:
    """A layer's update before it is scaled; powers of the betas on whole tiles."""
    next_v = f.add(f.mul(v, f.tile(beta2)), f.mul(f.mul(grad, grad), f.tile(rest2)))
    next_m = f.add(f.mul(m, f.tile(beta1)), f.mul(grad, f.tile(rest1)))
    count = f.tile(steps)
    corrections = []
    for beta in (beta1, beta2):
        power = f.exp(f.mul(count, f.ln(f.tile(beta))))
        corrections.append(f.add(f.neg(power), 1.0))
    m_hat, v_hat = f.div(next_m, corrections[0]), f.div(next_v, corrections[1])
    update = f.div(m_hat, f.add(f.sqrt(v_hat), f.tile(epsilon)))
    decayed = f.mul(f.mul(param, f.tile(decay)), f.tile(use_decay))
    return f.add(decayed, update), next_v, next_m


def _lamb_weight(
    f: Formula,
    weight_norm: Quantity,
    grad_norm: Quantity,
    rate: Quantity,
    update: Term,
    param: Term,
) -> Term:
    """param -= rate * weight_norm / grad_norm * update; the quotient is 1 where a norm is 0."""
    ratio = (weight_norm / grad_norm).where_positive(1.0, grad_norm, weight_norm)
    return f.sub(param, f.mul(update, ratio * rate))


def _rms_prop(
    f: Formula,
    var: Term,
    ms: Term,
    mom: Term,
    rate: Operand,
    grad: Term,
    rho: float,
    momentum: float,
    epsilon: float,
) -> Three:
    ms = f.add(ms, f.mul(f.sub(f.mul(grad, grad), ms), 1.0 - rho))
    root = f.sqrt(f.add(ms, epsilon))
    mom = f.add(f.mul(mom, momentum), f.div(f.mul(grad, f.tile(rate)), root))
    return f.sub(var, mom), ms, mom


def _sgd(
    f: Formula,
    param: Term,
    grad: Term,
    rate: Number,
    accum: Term,
    momentum: Number,
    stat: Term,
    dampening: float,
    weight_decay: float,
) -> Term:
    """accum = momentum accum + (1 - dampening) grad; param -= rate accum."""
    if weight_decay:
        grad = f.add(grad, f.mul(param, weight_decay))
    damped = f.mul(grad, 1.0 - dampening) if dampening else grad
    moved = f.add(f.add(f.mul(accum, momentum), damped), f.mul(stat, 0.0))
    return f.sub(param, f.mul(moved, rate))


# A variable's step runs when the gradients of all variables are there: nothing is left in L2. One
# with momentum alone asks for no other gradient, and runs when its own has just been made.
_ALL = tuple(range(16))

_step = partial(Compute, like=(0,), cold=_ALL)
_own_step = partial(_step, cold=(0, 1))

_ROWS = (
    _own_step("ApplyMomentum", _momentum, outputs=2, numbers=(2, 4), buffers=6),
    _own_step(
        "FusedMulApplyMomentum",
        lambda f, var, accum, rate, grad, momentum, scale: _momentum(
            f, var, accum, rate, f.mul(grad, scale), momentum
        ),
        outputs=2,
        numbers=(2, 4, 5),
    ),
    _step("Adam", _adam, outputs=3, numbers=(3, 4, 5, 6, 7, 8), buffers=15),
    _step("LambApplyOptimizerAssign", _lamb_update, outputs=3, axes=Axes.KEPT),
    _step(
        "LambApplyWeightAssign",
        _lamb_weight,
        like=(4,),
        typed_by=4,
        numbers=(0, 1, 2),
        axes=Axes.KEPT,
    ),
    _step(
        "ApplyRMSProp",
        _rms_prop,
        outputs=3,
        numbers=(3,),
        attributes={"rho": 0.9, "momentum": 0.0, "epsilon": 1e-10},
    ),
    _step(
        "ApplyGradientDescent",
        lambda f, var, rate, grad: f.sub(var, f.mul(grad, rate)),
        numbers=(1,),
        buffers=1.5,
    ),
    _step(
        "SGD",
        _sgd,
        numbers=(2, 4),
        attributes={"dampening": 0.0, "weight_decay": 0.0},
        buffers=9,
    ),
)

KERNELS = kernels_of_table(_ROWS)

_adam_w_step = partial(_step, "ApplyAdamW", outputs=3, half_in_float=True)
_AdamW = kernel_of(
    _adam_w_step(_adam_w, numbers=(3, 4, 5, 6, 7, 8, 9), attributes={"maximize": False})
)

_DEFAULTS = {"lr": 1e-3, "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}


def apply_adam_w(task: Task) -> tuple[Kernel, ...]:
    """AdamW with its factors as operands, or the first step on (var, grad, m, v)."""
    maximize = bool(task.attributes.get("maximize", False))
    if len(task.inputs) > 4:
        return _AdamW.from_task(task)
    if len(task.inputs) < 4 or any(tensor is None for tensor in task.inputs):
        raise task.refused("needs var, grad, m and v")
    var, grad, m, v = task.inputs
    factors = {name: task.number(name, usual) for name, usual in _DEFAULTS.items()}

    def formula(f: Formula, var: Term, m: Term, v: Term, grad: Term) -> Three:
        return _adam_w(
            f, var, m, v, 1.0, 1.0, factors["lr"], factors["weight_decay"], factors["beta1"],
            factors["beta2"], factors["epsilon"], grad, maximize=maximize,
        )  # fmt: skip

    kernel = kernel_of_call(_adam_w_step(formula, generated=False))
    return kernel.from_task(replace(task, inputs=(var, m, v, grad), attributes={}))
