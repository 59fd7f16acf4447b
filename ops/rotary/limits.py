"""What pages and host tilings ask of rotary embeddings (561002), the same on every product.

Sources: pages aclnnRotaryPositionEmbedding.md, aclnnRotaryPositionEmbeddingV2.md,
aclnnRotaryPositionEmbeddingGrad.md, aclnnApplyRotaryPosEmbV2.md and aclnnRopeWithSinCosCache.md;
ops-transformer posembedding, rope_rotate_half_tiling.cpp, rope_interleaved_tiling.cpp,
apply_rotary_pos_emb_tiling.cpp and interleave_rope_tiling.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.operators.contract import Check
from npusim.operators.shape_checks import entries
from npusim.values.dtypes import BFLOAT16
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.operators.contract import Call, Finding

    Shape = tuple[int, ...]

_ALIGNED_ONLY = ("910",)  # products whose rows have to be whole blocks, each half of them
_COLUMNS = 896  # below which D has to be
_MOST = 1000  # below which B and N have to be, interleaved their product
_ANGLE_GRADIENTS = 1024  # sequences times heads, where angles have gradients
_SCALE = 8  # B * N over S, from which on the tiling refuses BNSD
_RAGGED_COLUMNS, _RAGGED_SCALE = 80, 2
_APPLIED, _INTERLEAVED_COLUMNS = 128, 64
_BSND = 1  # a layout
_CACHED_GRAIN = 64  # bytes of a head, and of its turned part
_SECTIONS = ((16, 24, 24), (24, 20, 20), (8, 12, 12), (16, 16, 16, 16))
_APPLIED_MODES = ("half", "interleave", "quarter")
_WIDE_BYTES = 4
_WIDE_GRAIN, _WIDE_COLUMNS = 16, 64  # of a slice whose angles are wider than it
_LAYOUTS = {"BNSD": (0, 1, 2), "BSND": (0, 2, 1), "SBND": (1, 2, 0)}  # places of B, N and S


def _tiling(title: str, test: Callable[[Call], Finding]) -> Check:
    return Check(StatusCode.ACLNN_ERR_INNER_TILING_ERROR, title, test)


def alike(first: str, *others: str) -> Check:
    """561002 for tensors of other dtypes than the first."""

    def test(call: Call) -> Finding:
        wanted = call.spec(first).dtype
        for name, spec in call.given(*others):
            if spec.dtype is not wanted:
                return f"{name} should be {wanted.name} like {first}, but is {spec.dtype.name}."
        return None

    return _tiling(f"tensors differ from {first} in dtype", test)


def angle_gradients_fit(dy: str, cos: str, x: str, *gradients: str) -> Check:
    """561002 for an x that isn't like dy, and gradients of angles that aren't like these."""

    def test(call: Call) -> Finding:
        for name, like in ((x, dy), *((each, cos) for each in gradients)):
            wanted = call.spec(like).shape
            if call.is_given(x) and call.is_given(name) and call.spec(name).shape != wanted:
                given = sizes(call.spec(name).shape)
                return f"{name} should have the sizes of {like} {sizes(wanted)}, but has {given}."
        return None

    return _tiling(f"{x} and the gradients of angles have other sizes", test)


def matrix_fits(x: str, rotate: str) -> Check:
    """561002 for a matrix that doesn't turn the rows of x."""

    def test(call: Call) -> Finding:
        columns = call.spec(x).shape[-1:]
        if not call.is_given(rotate) or call.spec(rotate).shape == columns * 2:
            return None
        given = sizes(call.spec(rotate).shape)
        return f"{rotate} should have sizes {sizes(columns * 2)}, but has {given}."

    return _tiling(f"{rotate} isn't a matrix of as many rows and columns as {x} has", test)


def turnable(x: str, cos: str, mode: str, *angle_gradients: str) -> Check:
    """561002 for heads, layouts and products of batch and heads that the tiling refuses."""

    def test(call: Call) -> Finding:
        given, angles = call.spec(x), call.spec(cos).shape
        shape, interleaved = given.shape, call.arguments.get(mode) == 1
        if given.is_empty or len(shape) != len(angles):
            return None
        columns = shape[-1]
        if columns % 2 or columns >= _COLUMNS:
            return f"D of {x} should be even and below {_COLUMNS}, but is {columns}."
        readings = list(_readings(shape, angles, interleaved=interleaved))
        if not readings and len(shape) == len("TND"):
            forms = "T1D" if interleaved else "T1D or TND"
            return (f"{cos} should be {forms} of {x} {sizes(shape)}, but has sizes "
                    f"{sizes(angles)}.")  # fmt: skip
        if not readings:
            forms = "11SD" if interleaved else "11SD, B1SD or BNSD"
            return (f"{cos} should be {forms} of {x} {sizes(shape)} (BNSD, BSND or SBND), but has "
                    f"sizes {sizes(angles)}.")  # fmt: skip
        wants_angles = not interleaved and any(map(call.is_given, angle_gradients))
        wrong = [_too_many(*each, interleaved, wants_angles) for each in readings]
        if all(wrong):
            return f"{x} {sizes(shape)}: {wrong[0]}"
        is_ragged = bool(columns // 2 % (32 // given.dtype.itemsize))
        if interleaved or angle_gradients or len(shape) == len("TND"):
            return None
        if is_ragged and call.profile.family in _ALIGNED_ONLY:
            return f"D of {x} should be a multiple of 64 bytes on {call.profile.name}."
        return _crowded(call, shape, angles, is_ragged=is_ragged)

    return _tiling("D isn't even and below 896, or B, N and the angles' axes don't fit", test)


def _readings(shape: Shape, angles: Shape, *, interleaved: bool) -> Iterator[tuple[int, int]]:
    """Batch and heads in each layout that the angles may have."""
    if len(shape) == len("TND"):
        if angles[0] == shape[0] and (
            angles[1] == 1 or (angles[1] == shape[1] and not interleaved)
        ):
            yield 1, shape[1]
        return
    for b, n, s in _LAYOUTS.values():
        own = [angles[axis] == shape[axis] for axis in (b, n, s)]
        one = [angles[axis] == 1 for axis in (b, n, s)]
        shared = one[0] and one[1] and own[2]
        whole = own[2] and own[0] and (one[1] or own[1])
        if shared or (whole and not interleaved):
            yield shape[b], shape[n]


def _too_many(batch: int, heads: int, interleaved: bool, angles: bool) -> str:
    if interleaved and batch * heads >= _MOST:
        return f"B * N should be below {_MOST} in mode 1, but is {batch * heads}."
    if not interleaved and max(batch, heads) >= _MOST:
        return f"B and N should be below {_MOST}, but are {batch} and {heads}."
    if angles and batch * heads > _ANGLE_GRADIENTS:
        return f"B * N should be at most {_ANGLE_GRADIENTS} for gradients of angles."
    return ""


def _crowded(call: Call, shape: Shape, angles: Shape, *, is_ragged: bool) -> Finding:
    """Many heads for few positions, which the tiling leaves to smaller operators."""
    if shape[0] == angles[0] or shape[1] == angles[1] or angles[2] == 1:
        return None  # not BNSD, as the tiling tells it
    product, tokens, columns = shape[0] * shape[1], shape[2], shape[3]
    cores = getattr(getattr(call.profile, "cores", None), "vector_cores", None)
    if not is_ragged and product > _SCALE * tokens:
        return (f"B * N is {product} in BNSD, more than 8 * S {tokens}: "
                "please do not use RotaryPositionEmbedding fusion operator.")  # fmt: skip
    few = cores is not None and _RAGGED_SCALE * product > -(-tokens // cores)
    if is_ragged and few and columns < _RAGGED_COLUMNS:
        return (f"B * N is {product} in BNSD with D {columns}, not aligned, and S {tokens}: "
                "please do not use RotaryPositionEmbedding fusion operator.")  # fmt: skip
    return None


def applicable(query: str, key: str, layout: str, mode: str) -> Check:
    """561002 for heads other than of 128 elements, other layouts, and more than UB holds."""

    def test(call: Call) -> Finding:
        spec, keys = call.spec(query), call.spec(key).shape
        if len(spec.shape) != len(keys):
            return None
        if spec.is_empty or call.spec(key).is_empty:
            return f"{query} and {key} can't be empty."
        if (said := call.arguments.get(layout)) not in (None, _BSND):
            return f"{layout} should be {_BSND} (BSND), but is {said}."
        if (said := call.arguments.get(mode)) not in (None, "", *_APPLIED_MODES):
            return f"{mode} should be half, interleave or quarter, but is {said}."
        if spec.shape[-1] != _APPLIED:
            return f"D of {query} and {key} should be {_APPLIED}, but is {spec.shape[-1]}."
        room = getattr(getattr(call.profile, "buffers", None), "ub_bytes", None)
        need = _applied_bytes(call, spec.shape, keys, spec.dtype.itemsize, spec.dtype is BFLOAT16)
        if room is None or need <= room:
            return None
        heads = f"{spec.shape[2]} + {keys[2]} heads"
        return f"{heads} need {need} bytes of UB, but {call.profile.name} has {room}."

    return _tiling("D isn't 128, the layout isn't BSND, or UB doesn't hold the heads", test)


def _applied_bytes(call: Call, query: Shape, key: Shape, size: int, casts: bool) -> int:
    """What the tiling needs for one token; less where every core has a single one."""
    wide = _WIDE_BYTES if casts else size
    heads = (query[2] + key[2]) * _APPLIED * wide
    angles = _APPLIED * size
    cores = getattr(getattr(call.profile, "cores", None), "vector_cores", 0)
    casting = casts * 2 * _APPLIED * wide
    if query[0] * query[1] <= cores:
        return 4 * heads + 2 * angles + casting
    return 5 * heads + 4 * angles + casting


def interleavable(x: str, cos: str, sin: str) -> Check:
    """561002 for other than 64 columns, or angles that aren't [B, 1, S or 1, 64]."""

    def test(call: Call) -> Finding:
        shape, angles = call.spec(x).shape, call.spec(cos).shape
        if shape[-1] != _INTERLEAVED_COLUMNS:
            return f"D of {x} should be {_INTERLEAVED_COLUMNS}, but is {shape[-1]}."
        if call.spec(sin).shape != angles:
            return f"{sin} should have the sizes of {cos}."
        wanted = (shape[0], 1, shape[2], shape[3])
        if angles in (wanted, (*wanted[:2], 1, shape[3])):
            return None
        return f"{cos} should have sizes {sizes(wanted)}, or 1 for S, but has {sizes(angles)}."

    return _tiling("D isn't 64, or angles aren't [B, 1, S or 1, D]", test)


def cached_angles_fit(*names: str) -> Check:
    """161002 for what the page of RopeWithSinCosCache doesn't take: rows, heads, sections."""
    positions, query, key, cache, sections, size = names

    def test(call: Call) -> Finding:
        spec, heads = call.spec(query), call.integer(size)
        grain = _CACHED_GRAIN // spec.dtype.itemsize
        for name in (positions, query, key, cache):
            if call.spec(name).is_empty:
                return f"{name} can't be empty."
        for name in (query, key):
            if (columns := call.spec(name).shape[-1]) % heads:
                return f"Columns of {name} should be a multiple of {size} {heads}, not {columns}."
        turned = call.spec(cache).shape[-1]
        if heads % grain or turned % grain or turned > heads:
            wanted = f"multiples of {grain}, the second at most the first"
            return f"{size} {heads} and columns of {cache} {turned} should be {wanted}."
        parts = call.ints(sections) if call.is_given(sections) else ()
        places = call.spec(positions).shape
        if not any(parts):
            if places == spec.shape[:1]:
                return None
            return f"{positions} should be {sizes(spec.shape[:1])}, but has sizes {sizes(places)}."
        if parts not in _SECTIONS:
            allowed = ", ".join(map(sizes, _SECTIONS))
            return f"{sections} should be one of {allowed}, but is {sizes(parts)}."
        if 2 * sum(parts) != turned:
            return f"{sections} {sizes(parts)} should add up to half of {turned} columns."
        wanted_places = (len(parts), spec.shape[0])
        if places == wanted_places:
            return None
        return f"{positions} should be {sizes(wanted_places)}, but has sizes {sizes(places)}."

    title = "heads, rows or sections aren't those of the page"
    return Check(StatusCode.ACLNN_ERR_PARAM_INVALID, title, test)


def slice_turned(x: str, cos: str, bounds: str) -> Check:
    """561002 for a slice of rows that the angles, or their axes, don't fit.

    Source: vllm-ascend csrc/attention/inplace_partial_rotary_mul/op_host (A2 and A3).
    """

    def test(call: Call) -> Finding:
        told = entries(call, bounds)
        if told is None or len(told) != 2:
            return f"{bounds} should have two entries."
        whole, angles, width = call.spec(x), call.spec(cos), told[1] - told[0]
        if not 0 <= told[0] < told[1] <= whole.shape[-1]:
            return f"{bounds} should be within the {whole.shape[-1]} columns of {x}."
        if width != angles.shape[-1]:
            return f"{cos} should have {width} columns, but has sizes {sizes(angles.shape)}."
        second, third = whole.shape[1:3]
        if angles.shape[1] not in (1, second):
            return f"{cos} should have 1 or {second} in its second axis, as {x}."
        alone = angles.shape[1] == 1 and 1 in (second, third)
        if angles.dtype is whole.dtype:
            return None
        if not alone or width % _WIDE_GRAIN or width > _WIDE_COLUMNS:
            wanted = f"at most {_WIDE_COLUMNS} columns, multiples of {_WIDE_GRAIN}"
            return f"{cos} in float32 needs tokens in the first axis alone, and {wanted}."
        return None

    return _tiling(f"a slice of {x} that {cos} doesn't turn", test)
