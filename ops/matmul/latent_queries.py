"""MlaProlog: tokens become queries and latent keys of multi-head latent attention, in one kernel.

Four products, normalisations of what lies between them and interleaved rotations: products of a
phase run on the cube cores while vector cores take rows, and all meet behind each phase. Source:
ops-transformer attention/mla_prolog (kernel_mla_prolog_split_n.h).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.library.interleaved import Interleaved, Rows
from npusim.library.phases import PhasedKernel
from npusim.operators.registry import kernel_class
from npusim.ops.matmul.kernel import MatMul
from npusim.ops.matmul.operands import Problem
from npusim.ops.matmul.turned_batches import BesideMatMul

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile

_EPSILON = 1e-5
_INPUTS = 9


def mla_prolog(task: Task) -> tuple[Kernel, ...]:
    """Tokens, weights (down and up for queries, of heads, down for keys), gammas, sines, cosines.

    The results are queries in the latent space and their rotated parts, the latent keys and theirs.
    """
    if len(task.inputs) != _INPUTS:
        raise task.refused("caches and scales aren't modelled: nine inputs")
    x, down, up, of_heads, keys, gamma_q, gamma_k, sin, cos = task.present(_INPUTS)
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    if len(of_heads.shape) != 3:
        raise task.refused(f"weight_uk is [heads, depth, latent], not {of_heads.shape}")
    heads, depth, latent = of_heads.shape
    tokens, hidden, turned = x.numel // x.shape[-1], x.shape[-1], cos.shape[-1]
    fits = (
        down.shape == (hidden, gamma_q.numel)
        and up.shape == (gamma_q.numel, heads * (depth + turned))
        and keys.shape == (hidden, latent + turned)
        and gamma_k.numel == latent
        and cos.shape == sin.shape
        and cos.numel == tokens * turned
    )
    if not fits:
        raise task.refused(f"{x.shape} doesn't go with {down.shape}, {up.shape} and {keys.shape}")
    outputs = _results(task, x, heads, latent, turned)
    kind = x.dtype
    query, query_turned, key, key_turned = outputs
    low, low_normal = (made((tokens, gamma_q.numel), kind, name) for name in ("cq", "cq_norm"))
    q = made((tokens, heads * (depth + turned)), kind, "q")
    low_keys = made((tokens, latent + turned), kind, "ckv")
    profile, angles = task.profile, (cos.view(tokens, turned), sin.view(tokens, turned))
    rows = x.view(tokens, hidden)
    phases: list[list[Kernel]] = [
        [_product(profile, rows, down, low), _product(profile, rows, keys, low_keys)],
        [
            _normal(task, "cq", low, gamma_q, low_normal),
            _normal(task, "ckv", _left(low_keys, latent), gamma_k, key.view(tokens, latent)),
            Interleaved(
                profile, Rows(low_keys.view(low_keys.numel), latent, 0, latent + turned, 0),
                *angles, Rows(key_turned.view(key_turned.numel), 0, 0, turned, 0), (1, tokens, 1),
            ),
        ],
        [_product(profile, low_normal, up, q)],
        [
            BesideMatMul(
                profile, "MlaProlog", (q, of_heads, query), tokens,
                ((depth + turned, q.shape[1]), (latent, heads * latent)),
            ),
            Interleaved(
                profile, Rows(q.view(q.numel), depth, 0, q.shape[1], depth + turned), *angles,
                Rows(query_turned.view(query_turned.numel), 0, 0, heads * turned, turned),
                (1, tokens, heads),
            ),
        ],
    ]  # fmt: skip
    return (PhasedKernel(profile, task.op_type, phases, task.present(_INPUTS), outputs),)


def _results(
    task: Task, x: GlobalTensor, heads: int, latent: int, turned: int
) -> tuple[GlobalTensor, ...]:
    """Queries and keys and their rotated parts, made where the task has none."""
    lead = x.shape[:-1]
    shapes = ((*lead, heads, latent), (*lead, heads, turned), (*lead, latent), (*lead, turned))
    made_up = tuple(made(shape, x.dtype, f"y{n}") for n, shape in enumerate(shapes))
    outputs = (*task.outputs, *made_up[len(task.outputs) :])
    if any(each.shape != shape for each, shape in zip(outputs, shapes, strict=False)):
        raise task.refused(f"{outputs[0].shape} isn't the result")
    return outputs


def _product(profile: Profile, a: GlobalTensor, b: GlobalTensor, c: GlobalTensor) -> Kernel:
    return MatMul(profile, Problem.of("MlaProlog", a, b, c, (False, False)), op_type="MatMulV3")


def _normal(
    task: Task, which: str, x: GlobalTensor, gamma: GlobalTensor, y: GlobalTensor
) -> Kernel:
    """Rows divided by the root of their mean square."""
    epsilon = task.number(f"rmsnorm_epsilon_{which}", _EPSILON)
    norm = kernel_class("RmsNorm")
    return norm(task.profile, x, gamma, y, None, epsilon=epsilon)


def _left(x: GlobalTensor, columns: int) -> GlobalTensor:
    """The first columns of a matrix."""
    return replace(x, shape=(x.shape[0], columns), strides=(x.shape[1], 1))
