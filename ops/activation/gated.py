"""Gated units: one half of a tensor, through Swish or Gelu, gates the other; and a gradient."""

from __future__ import annotations

from dataclasses import replace
from math import prod, sqrt
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.registry import kernel_class
from npusim.ops.activation.forward import gelu
from npusim.ops.activation.glu_tiling import GluTiling
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_kernel import FormulaKernel
from npusim.schedules.formula_row import Compute
from npusim.schedules.functions import erf

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.core import Core
    from npusim.hardware.profile import Profile
    from npusim.schedules.formula import Formula, Term


def _gate(f: Formula, a: Term, b: Term) -> Term:
    """a / (1 + e**-a) * b; b is converted when a is done with."""
    a = f.cast(a, f.dtype)
    below = f.add(f.exp(f.neg(a)), 1.0)
    return f.mul(f.div(a, below), f.cast(b, f.dtype))


def _gate_gradient(f: Formula, grad: Term, a: Term, b: Term) -> tuple[Term, Term]:
    """With s = 1 / (1 + e**-a): grad b (s + a s (1 - s)), grad a s.

    In this order, which leaves UB as many elements as the public kernel's (ops-nn swi_glu_grad).
    """
    s = f.div(1.0, f.add(f.exp(f.neg(a)), 1.0))
    slope = f.add(f.mul(f.mul(f.add(f.neg(s), 1.0), s), a), s)
    return f.mul(f.mul(slope, b), grad), f.mul(f.mul(s, a), grad)


def _gelu_gate(f: Formula, a: Term, b: Term, approximate: int) -> tuple[Term, Term]:
    """Gelu(a) b, Gelu(a): by the hyperbolic tangent, or by the error function."""
    if approximate:
        curved = gelu(f, a, "tanh")
    else:
        curved = f.mul(f.mul(a, 0.5), f.add(erf(f, f.mul(a, sqrt(0.5))), 1.0))
    return f.mul(curved, b), curved


class _InTurns(FormulaKernel):
    """A kernel whose tiles go round the cores."""

    def _tile(self, profile: Profile) -> None:
        rows, columns = self.output.shape
        self.division = self.turns = GluTiling.of(
            profile,
            rows,
            columns,
            self.output.dtype.itemsize,
            queues=len(self.inputs) + len(self.outputs),
            scratch_bytes=self.plan.bytes_per_element,
        )
        self.tile_elements, self.block_dim = self.turns.footprint, self.turns.block_dim
        self.double_buffer = self.turns.double_buffer

    def process(self, core: Core) -> None:
        """The work of one block."""
        self.init_buffers(core)
        tensors = (*self.outputs, *self.inputs)
        self._compute_all(core, self.turns.tiles(core, tensors, len(self.outputs)))


_Gated = kernel_of(
    Compute("SwiGlu", _gate, half_in_float=True, raw=(0, 1), generated=False), base=_InTurns
)


_Gradient = kernel_of(
    Compute("SwiGluGrad", _gate_gradient, outputs=2, half_in_float=True, generated=False),
    base=_InTurns,
)
_GeluGated = kernel_of(
    Compute(
        "GeGluV2",
        _gelu_gate,
        outputs=2,
        half_in_float=True,
        generated=False,
        attributes={"approximate": 1},
    )
)


def swi_glu(task: Task) -> tuple[Kernel, ...]:
    """out = swish(x's first half) * x's second half, along ``dim``, by default the last axis.

    An odd last axis loses its last column first, as the framework does it.
    """
    (x,) = task.present(1)
    if not x.shape:
        raise task.unfit("needs an operand of rank 1 or more")
    tasks: list[Kernel] = []
    if x.shape[-1] % 2 and x.shape[-1] > 1:
        x = _even(task.profile, x, tasks)
    first, second, halved = _halves(task, x)
    out = task.outputs[0] if task.outputs else made(halved, x.dtype)
    return (
        *tasks,
        _Gated(task.profile, first, second, out.view(*first.shape)),
    )


def swi_glu_grad(task: Task) -> tuple[Kernel, ...]:
    """The gradients of both halves, each in its half of the result."""
    grad, x = task.present(2)
    first, second, halved = _halves(task, x)
    if grad.shape != halved:
        raise task.unfit(f"a gradient {grad.shape} for {x.shape}")
    out = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    results = _halves(task, out)[:2]
    return (_Gradient(task.profile, grad.view(*first.shape), first, second, *results),)


def ge_glu(task: Task) -> tuple[Kernel, ...]:
    """One half times Gelu of the other, which is the second unless the left one is activated."""
    (x,) = task.present(1)
    halves = _halves(task, x)
    left = bool(task.attributes.get("activate_left", False))
    curved, other = halves[:2] if left else halves[1::-1]
    outputs = task.outputs or tuple(made(halves[2], x.dtype) for _ in range(2))
    results = tuple(each.view(*curved.shape) for each in outputs)
    approximate = task.whole_number("approximate", 1)
    return (_GeluGated(task.profile, curved, other, *results, approximate=approximate),)


def _halves(task: Task, x: GlobalTensor) -> tuple[GlobalTensor, GlobalTensor, tuple[int, ...]]:
    """Both halves along ``dim``, by default the last axis, as matrices; and the shape of one."""
    if not x.shape:
        raise task.unfit("needs an operand of rank 1 or more")
    axis = task.whole_number("dim", -1) % len(x.shape)
    if x.shape[axis] % 2:
        raise task.unfit(f"axis {axis} of {x.shape} has no halves")
    outer = prod(x.shape[:axis])
    inner = prod(x.shape[axis:]) // 2
    strides = (2 * inner, 1) if outer > 1 else None  # a single row lies without gaps
    first, second = (
        replace(x, shape=(outer, inner), start=x.start + half * inner, strides=strides)
        for half in (0, 1)
    )
    return first, second, (*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])


def _even(profile: Profile, x: GlobalTensor, tasks: list[Kernel]) -> GlobalTensor:
    """The tensor without its last column, made contiguous by a Slice."""
    rows, columns = prod(x.shape[:-1]), x.shape[-1]
    shorter = (*x.shape[:-1], columns - 1)
    dense = made(shorter, x.dtype)
    view = replace(x, shape=(rows, columns - 1), strides=(columns, 1))
    tasks.append(kernel_class("Slice")(profile, view, dense.view(rows, columns - 1)))
    return dense
