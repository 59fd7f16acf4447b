"""What the tiling of KvRmsNormRopeCache takes: sizes of its tensors, by how its caches lie."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.operators.contract import Check
from npusim.values.dtypes import INT8
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.operators.contract import Call, Finding

MODES = ("Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ")
WIDTHS = (512, 64)  # of what is normalised, and of what is turned: kv_rms_norm_rope_cache_ds_tiling
_RANK = 4
_BLOCK_BYTES = 32


def caches_fit(*names: str) -> Check:
    """561002 for sizes that the tiling refuses, in its order."""
    *tensors, said = names

    def test(call: Call) -> Finding:
        mode = str(call.arguments.get(said) or MODES[0])
        if mode not in MODES:
            return f"{said} should be one of {', '.join(MODES)}, but is {mode}."
        return next(_objections(call, tensors, mode), None)

    title = "the tiling takes one head of 512 and 64 elements, and caches and indices that fit"
    return Check(StatusCode.ACLNN_ERR_INNER_TILING_ERROR, title, test)


def _objections(call: Call, names: list[str], mode: str) -> Iterator[str]:
    kv, gamma, cos, sin, index, keys, latent, *scales = names
    given = {name: spec.shape for name, spec in call.given(*names)}
    yield from _kinds(call, names)
    if len(given[kv]) != _RANK or given[kv][1] != 1 or given[kv][3] != sum(WIDTHS):
        yield f"{kv} should have sizes [B, 1, S, {sum(WIDTHS)}], but has {sizes(given[kv])}."
        return
    batch, _, length, _ = given[kv]
    for name in (cos, sin):
        if given[name] not in ((batch, 1, length, WIDTHS[1]), (batch, 1, 1, WIDTHS[1])):
            wanted = sizes((batch, 1, length, WIDTHS[1]))
            yield f"{name} should have sizes {wanted}, or 1 for {length}, but has {given[name]}."
    if given[cos] != given[sin]:
        yield f"{sin} {sizes(given[sin])} should have the sizes of {cos} {sizes(given[cos])}."
    if given[gamma] != WIDTHS[:1]:
        yield f"{gamma} should have {WIDTHS[0]} elements, but has sizes {sizes(given[gamma])}."
    axis, heads = (2, 1) if mode == MODES[0] else (1, 2)
    for name, width in ((keys, WIDTHS[1]), (latent, WIDTHS[0])):
        shape = given[name]
        if len(shape) != _RANK or (shape[heads], shape[3]) != (1, width):
            lead = "B, 1, S" if mode == MODES[0] else "pages, page size, 1"
            yield f"{name} should have sizes [{lead}, {width}] in {mode}, but has {sizes(shape)}."
            return
        least = _BLOCK_BYTES // call.spec(name).dtype.itemsize
        if mode != MODES[0] and shape[axis] % least:
            yield f"Pages of {name} should be multiples of {least} tokens, not {shape[axis]}."
    if given[keys][:-1] != given[latent][:-1]:
        shapes = f"{sizes(given[keys])} and {sizes(given[latent])}"
        yield f"{keys} and {latent} should be alike but for D: {shapes}."
    page = given[keys][axis]
    count = batch * (ceil(length / max(1, page)) if mode.startswith("PA_BLK") else length)
    places = (batch, length) if mode == MODES[0] else (count,)
    if given[index] != places:
        yield f"{index} should be {sizes(places)} in {mode}, but has sizes {sizes(given[index])}."
    for name, cache, width in zip(scales, (keys, latent), reversed(WIDTHS), strict=True):
        yield from _of_scales(call, name, cache, width, mode)


def _kinds(call: Call, names: list[str]) -> Iterator[str]:
    kv, gamma, cos, sin, _, keys, latent, *_rest = names
    if empty := [name for name, spec in call.given(*names) if spec.is_empty]:
        yield f"{empty[0]} can't be empty."
    kind = call.spec(kv).dtype
    for name in (gamma, cos, sin, keys, latent):
        own = call.spec(name).dtype
        if own is not kind and not (own is INT8 and name in (keys, latent)):
            yield f"{name} should be {kind.name} like {kv}, but is {own.name}."


def _of_scales(call: Call, name: str, cache: str, width: int, mode: str) -> Iterator[str]:
    quantised = call.spec(cache).dtype is INT8
    if quantised and mode == MODES[0]:
        yield f"{cache} can't be INT8 in {mode}."
    if quantised != call.is_given(name):
        yield f"{name} should be given just where {cache} is INT8."
    elif quantised and call.spec(name).shape not in ((width,), (1, width), (1,)):
        yield f"{name} should have {width} elements, but has {sizes(call.spec(name).shape)}."
