"""What the prolog of latent attention with caches takes, and what comes out of it.

Source: hicann/ops-transformer attention/mla_prolog_v2/docs/aclnnMlaPrologV2WeightNz.md and
mla_prolog_v3/docs/aclnnMlaPrologV3WeightNz.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.checks import sizes
from npusim.operators.contract import Check
from npusim.operators.results import described
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.operators.contract import Call, Finding
    from npusim.values.tensors import TensorSpec

_LOW, _LATENT, _DEPTH, _TURNED = 1536, 512, 128, 64
_HEADS = (1, 2, 4, 8, 16, 32, 64, 128)
_PAGES = (16, 128)  # tokens
_MODES = ("PA_BSND", "PA_NZ")
_MOST_QUERIES = 16  # of a sequence


def prolog_fits(*names: str, hidden: tuple[int, ...]) -> Check:
    """561002 for sizes that no latent attention with one of ``hidden`` has, and other caches."""

    def test(call: Call) -> Finding:
        return next(_objections(call, hidden, *names), None)

    title = "sizes of tokens, weights, angles and caches go together"
    return Check(StatusCode.ACLNN_ERR_INNER_TILING_ERROR, title, test)


def _objections(call: Call, widths: tuple[int, ...], *names: str) -> Iterator[str]:
    token, down, up, of_heads, keys, gamma_q, gamma_k, sin, cos, index, *rest = names
    latent_cache, cache, mode = rest
    *first, hidden = call.spec(token).shape or (0,)
    lead = tuple(first)
    if len(lead) not in (1, 2) or hidden not in widths:
        listed = ", ".join(map(str, widths))
        yield (
            f"{token} should be [T, H] or [B, S, H], H one of {listed}, but has sizes "
            f"{sizes(call.spec(token).shape)}."
        )
        return
    if len(lead) == 2 and lead[1] > _MOST_QUERIES:
        yield f"S of {token} should be at most {_MOST_QUERIES}, but is {lead[1]}."
    heads = call.spec(of_heads).shape[0] if call.spec(of_heads).rank else 0
    if heads not in _HEADS:
        yield f"{of_heads} should have {', '.join(map(str, _HEADS))} heads, but has {heads}."
    wanted = {
        down: (hidden, _LOW), up: (_LOW, heads * (_DEPTH + _TURNED)),
        of_heads: (heads, _DEPTH, _LATENT), keys: (hidden, _LATENT + _TURNED), gamma_q: (_LOW,),
        gamma_k: (_LATENT,), sin: (*lead, _TURNED), cos: (*lead, _TURNED), index: lead,
    }  # fmt: skip
    for name, shape in wanted.items():
        spec = call.spec(name)
        found = _matrix(spec) if name in (down, up, keys) else spec.shape
        if found != shape:
            yield f"{name} should have sizes {sizes(shape)}, but has {sizes(found)}."
    said = str(call.arguments.get(mode) or _MODES[0])
    if said not in _MODES:
        yield f"{mode} should be {' or '.join(_MODES)}, but is {said}."
    for name, width in ((latent_cache, _LATENT), (cache, _TURNED)):
        shape = call.spec(name).shape
        if len(shape) != 4 or shape[1] not in _PAGES or shape[2:] != (1, width):
            pages = " or ".join(map(str, _PAGES))
            yield f"{name} should be [pages, {pages}, 1, {width}], but has sizes {sizes(shape)}."


def _matrix(weight: TensorSpec) -> tuple[int, ...]:
    """Rows and columns of a weight, of blocks too."""
    if not weight.is_in_blocks:
        return weight.shape
    across, down, rows, lanes = weight.shape[-4:]
    return down * rows, across * lanes


def latent_queries(given: Sequence[TensorSpec], said: Mapping[str, Any]) -> list[TensorSpec]:
    """Queries in the latent space, their rotated parts."""
    del said
    token, of_heads, cos = given[0], given[3], given[8]
    if of_heads.rank != 3 or not token.rank or not cos.rank:
        return []
    lead, (heads, _, latent) = token.shape[:-1], of_heads.shape
    return [described((*lead, heads, width), token.dtype) for width in (latent, cos.shape[-1])]
