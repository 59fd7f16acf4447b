"""MlaProlog and its later versions: tokens become queries and latent keys of latent attention.

One kernel; later versions store keys in caches.

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
from npusim.operators.tasks import kernels_on
from npusim.ops.matmul.kernel import MatMul
from npusim.ops.matmul.operands import Problem
from npusim.ops.matmul.turned_batches import BesideMatMul
from npusim.values.dtypes import INT64
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile

_EPSILON = 1e-5
_INPUTS = 9
_CACHED_INPUTS = 12  # and an index of the caches, and both of them


def mla_prolog(task: Task) -> tuple[Kernel, ...]:
    """Tokens, weights (down and up for queries, of heads, down for keys), gammas, sines, cosines.

    The results are queries in the latent space and their rotated parts, the latent keys and theirs.
    """
    if len(task.inputs) != _INPUTS:
        raise task.refused("caches and scales aren't modelled: nine inputs")
    return (_prolog(task, None),)


def mla_prolog_cached(task: Task) -> tuple[Kernel, ...]:
    """As the first version, with an index of each token, and caches of keys and rotated parts.

    The results are queries, their rotated parts and both caches.
    """
    given = task.present(_CACHED_INPUTS)
    if given[-1].dtype is INT64:  # as the third version has them: caches first
        given = (*given[:_INPUTS], given[-1], *given[_INPUTS:-1])
    if any(each is not None for each in task.inputs[_CACHED_INPUTS:]):
        raise task.refused("quantised weights and caches aren't modelled")
    return (_prolog(task, given[_INPUTS:]),)


def _prolog(task: Task, cached: tuple[GlobalTensor, ...] | None) -> Kernel:
    """With keys as results, or stored by an index in caches."""
    x, down, up, of_heads, keys, gamma_q, gamma_k, sin, cos = task.present(_INPUTS)
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    if len(of_heads.shape) != 3:
        raise task.refused(f"weight_uk is [heads, depth, latent], not {of_heads.shape}")
    heads, depth, latent = of_heads.shape
    tokens, hidden, turned = x.numel // x.shape[-1], x.shape[-1], cos.shape[-1]
    wanted = (hidden, gamma_q.numel), (gamma_q.numel, heads * (depth + turned))
    fits = (
        [matrix_of(each) for each in (down, up, keys)] == [*wanted, (hidden, latent + turned)]
        and gamma_k.numel == latent
        and cos.shape == sin.shape
        and cos.numel == tokens * turned
    )
    if not fits:
        raise task.refused(f"{x.shape} doesn't go with {down.shape}, {up.shape} and {keys.shape}")
    outputs = _results(task, x, heads, latent, turned, cached)
    kind = x.dtype
    query, query_turned = outputs[:2]
    low, low_normal = (made((tokens, gamma_q.numel), kind, name) for name in ("cq", "cq_norm"))
    q = made((tokens, heads * (depth + turned)), kind, "q")
    low_keys = made((tokens, latent + turned), kind, "ckv")
    profile, angles = task.profile, (cos.view(tokens, turned), sin.view(tokens, turned))
    rows = x.view(tokens, hidden)
    phases: list[list[Kernel]] = [
        [_product(profile, rows, down, low), _product(profile, rows, keys, low_keys)],
        [_normal(task, "cq", low, gamma_q, low_normal),
         *_keys(task, low_keys, gamma_k, angles, outputs[2:], cached)],
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
    reads = (*task.present(_INPUTS), *(cached or ())[:1])
    return PhasedKernel(profile, task.op_type, phases, reads, outputs)


def _keys(
    task: Task,
    low: GlobalTensor,
    gamma: GlobalTensor,
    angles: tuple[GlobalTensor, GlobalTensor],
    outputs: tuple[GlobalTensor, ...],
    cached: tuple[GlobalTensor, ...] | None,
) -> list[Kernel]:
    """Keys normalised and their last part turned: as they are, or in caches."""
    profile, (tokens, row), turned = task.profile, low.shape, angles[0].shape[-1]
    if cached is None:
        key, key_turned = outputs
        latent = row - turned
        return [
            _normal(task, "ckv", _left(low, latent), gamma, key.view(tokens, latent)),
            Interleaved(
                profile, Rows(low.view(low.numel), latent, 0, row, 0),
                *angles, Rows(key_turned.view(key_turned.numel), 0, 0, turned, 0), (1, tokens, 1),
            ),
        ]  # fmt: skip
    cos, sin = (each.view(tokens, 1, 1, turned) for each in angles)
    index, latent_cache, cache = cached
    given = (low.view(tokens, 1, 1, row), gamma, cos, sin, index, cache, latent_cache)
    mode = str(task.first("cache_mode") or "PA_BSND")
    said = {
        "epsilon": task.number("rmsnorm_epsilon_ckv", _EPSILON),
        "cache_mode": {"PA_BSND": "PA_BNSD"}.get(mode, mode),  # one head: the same
    }
    return list(kernels_on(Task(profile, "KvRmsNormRopeCache", given, (cache, latent_cache), said)))


def _results(
    task: Task,
    x: GlobalTensor,
    heads: int,
    latent: int,
    turned: int,
    cached: tuple[GlobalTensor, ...] | None,
) -> tuple[GlobalTensor, ...]:
    """Queries and keys and their rotated parts, made where the task has none; caches as given."""
    lead = x.shape[:-1]
    shapes = [(*lead, heads, latent), (*lead, heads, turned), (*lead, latent), (*lead, turned)]
    if cached is not None:
        shapes[2:] = [each.shape for each in cached[1:]]
    made_up = tuple(made(shape, x.dtype, f"y{n}") for n, shape in enumerate(shapes))
    outputs = (*task.outputs[:4], *made_up[len(task.outputs) :])
    if cached is not None:
        outputs = (*outputs[:2], *cached[1:])
    if any(each.shape != shape for each, shape in zip(outputs, shapes, strict=False)):
        raise task.refused(f"{outputs[0].shape} isn't the result")
    return outputs


def matrix_of(weight: GlobalTensor) -> tuple[int, ...]:
    """Rows and columns, of blocks too, which these sizes fill."""
    if weight.format is Format.FRACTAL_NZ and len(weight.shape) > 2:
        across, down, rows, lanes = weight.shape[-4:]
        return down * rows, across * lanes
    return weight.shape


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
