"""What products of groups with something behind them ask: a gate, a sum into rows, an addition.

Source: hicann/ops-transformer gmm/grouped_matmul_swiglu_quant, grouped_matmul_swiglu_quant_v2 and
grouped_matmul_finalize_routing (op_api, whose refusals return 161002, and pages). What a page says
and the host code doesn't ask isn't known: the device may run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.operators.checks import invalid, sizes
from npusim.ops.matmul.checks import PACKED, matrix_sizes
from npusim.values.dtypes import INT8, INT32
from npusim.values.formats import FRACTAL, Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_MOST_COLUMNS = 10240  # N, of which half comes out
_LEAST_K, _LEAST_PACKED_K = 65536, 20000  # that x can't have: of int8, of int4 in x or weight
_CHANNELS, _GROUPS = 0, 1  # dequantMode
_BYTES, _PACKED_K, _PACKED_N = (16, 32, 256), (64, 128), 64  # finalize: alignment, least sizes
_ON_PAGE = {  # finalize: the only sizes that pages name, of k and n
    True: ((2048,), (7168,)),
    False: ((256, 512, 1024, 1408, 2048), (2048, 7168, 7680)),
}
_MOST_ROWS, _MOST_EXPERTS = 16 * 1024 * 8, 256


class Stack(NamedTuple):
    """Matrices of experts: how many, rows, columns, as numbers of int4 where they are packed."""

    experts: int
    k: int
    n: int


def stacked(weights: list[TensorSpec]) -> Stack:
    """The matrices of a list of one stack, or of one matrix for each expert."""
    first = weights[0]
    if first.is_in_blocks:
        *outer, across, down, rows, lanes = first.shape
        k, n = down * rows, across * lanes * (PACKED if first.dtype is INT32 else 1)
    else:
        outer = list(first.shape[:-2])
        k, n = matrix_sizes(first, turned=False)
    return Stack(outer[0] if outer and len(weights) == 1 else len(weights), k, n)


def _differing(call: Call, wanted: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    for name, spec in call.given(*wanted):
        if spec.shape != wanted[name]:
            found = sizes(spec.shape)
            yield f"{name} should have sizes {sizes(wanted[name])}, but has {found}."


def gated(
    names: tuple[str, ...], weights: tuple[str, ...], scales: tuple[str, ...],
    assists: tuple[str, ...], *, always_blocked: bool = False,
) -> Check:  # fmt: skip
    """161002 for tensors that a product of groups with a gate and quantising doesn't take.

    ``names`` are x, the scales of its rows, the list of groups, the result and its scales.
    """

    def test(call: Call) -> Finding:
        return next(_gated(call, names, weights, scales, assists, always_blocked), None)

    return invalid("the tensors aren't those of products of groups with a gate", test)


def _gated(
    call: Call, names: tuple[str, ...], weights: tuple[str, ...], scales: tuple[str, ...],
    assists: tuple[str, ...], always_blocked: bool,
) -> Iterator[str]:  # fmt: skip
    x = call.spec(names[0])
    found = [spec for _, spec in call.given(*weights)]
    many, packed = len(found) > 1, found[0].dtype is not INT8
    matrix = 2 if many else 3
    for spec in found:
        if spec.rank != matrix and not spec.is_in_blocks:
            yield f"{weights[0]} {sizes(spec.shape)} should have {matrix} axes, or those of blocks."
    if x.rank != 2:
        yield f"{names[0]} {sizes(x.shape)} should have 2 axes."
    if not packed and not always_blocked and found[0].format is not Format.FRACTAL_NZ:
        yield f"{weights[0]} of INT8 should be in FRACTAL_NZ."
    count, k, n = stacked(found)
    if k != (rows := matrix_sizes(x, turned=False)[1]):
        yield f"{names[0]} has rows of {rows}, {weights[0]} matrices of {k}."
    if k >= (least := _LEAST_PACKED_K if packed else _LEAST_K):
        yield f"Rows of {names[0]} should be shorter than {least}, but are {k}."
    if n > _MOST_COLUMNS or n % 2:
        yield f"{weights[0]} should have an even number of columns to {_MOST_COLUMNS}, not {n}."
    if any(spec.is_empty for spec in (x, *found)):
        yield f"{names[0]} and {weights[0]} should have elements."
    yield from _lines_of(call, scales, (count, k, n), len(found), packed=packed)
    outer = () if many else (count,)
    wanted = dict.fromkeys(assists, (*outer, n))
    rows = x.shape[0]
    wanted |= {names[1]: (rows,), names[3]: (rows, n // 2), names[4]: (rows,)}
    yield from _differing(call, wanted)
    for name, spec in call.given(names[2]):
        if spec.rank != 1 or not 1 <= spec.shape[0] <= count:
            yield f"{name} should be one row of at most {count} groups, not {sizes(spec.shape)}."


def _lines_of(
    call: Call, scales: tuple[str, ...], of: tuple[int, int, int], tensors: int, *, packed: bool
) -> Iterator[str]:
    """Scales of columns, or of groups of rows too where the weight is packed."""
    count, k, n = of
    outer = () if tensors > 1 else (count,)
    lines = [spec for _, spec in call.given(*scales)]
    for line in lines:
        kept = line.shape[len(outer) : -1]
        grouped = packed and len(kept) == 1 and kept[0] > 0 and k % kept[0] == 0
        if line.shape != (*outer, *(kept if grouped else ()), n):
            yield f"{scales[0]} {sizes(line.shape)} should be {sizes((*outer, n))}" + (
                ", or with groups that divide k in front of the columns." if packed else "."
            )
    if len(lines) != tensors:
        yield f"{len(lines)} tensors of {scales[0]} don't go with {tensors} of the weight."


def dequantised_as(scales: tuple[str, ...], weights: tuple[str, ...], smooth: str) -> Check:
    """161002 for scales of another form than dequantMode says, or smoothing where there is none."""

    def test(call: Call) -> Finding:
        mode = call.integer("dequantMode")
        found = [spec for _, spec in call.given(*weights)]
        modes = (_CHANNELS,) if found[0].dtype is INT8 else (_CHANNELS, _GROUPS)
        if mode not in modes:
            return f"dequantMode should be {' or '.join(map(str, modes))}, but is {mode}."
        axes = mode + (1 if len(found) > 1 else 2)
        for name, spec in call.given(*scales):
            if spec.rank != axes:
                said = f"{name} {sizes(spec.shape)}"
                return f"{said} should have {axes} axes with dequantMode {mode}."
        for name, spec in call.given(smooth):
            if call.spec("x").dtype is INT8:
                return f"{name} should be null where x is INT8."
            count, _, n = stacked(found)
            if spec.shape not in ((count,), (count, n // 2)):
                wanted = f"[{count}] or {sizes((count, n // 2))}"
                return f"{name} should have sizes {wanted}, but has {sizes(spec.shape)}."
        return None

    return invalid("dequantMode, the scales and the smoothing don't go together", test)


def summed_into(
    x: str, weight: str, out: str, rows: tuple[str, ...], lines: tuple[str, ...], groups: str,
    shared: str,
) -> Check:  # fmt: skip
    """161002 for tensors of products of groups whose rows are summed up.

    ``rows`` have a number for each row of x, ``lines`` one for each column of an expert.
    """

    def test(call: Call) -> Finding:
        return next(_summed(call, x, weight, out, rows, lines, groups, shared), None)

    return invalid(f"{x}, {weight} and {out} aren't those of products of groups", test)


def _summed(
    call: Call, x: str, weight: str, out: str, rows: tuple[str, ...], lines: tuple[str, ...],
    groups: str, shared: str,
) -> Iterator[str]:  # fmt: skip
    left, spec = call.spec(x), call.spec(weight)
    if left.rank != 2 or (spec.rank != 3 and not spec.is_in_blocks):
        yield f"{x} {sizes(left.shape)} should have 2 axes, {weight} {sizes(spec.shape)} 3."
    count, k, n = stacked([spec])
    tokens, own = left.shape
    fits = own == k
    if spec.is_in_blocks:
        fits = -(-own // FRACTAL) * FRACTAL == k
    if not fits:
        yield f"{x} has rows of {own}, {weight} matrices of {k}."
    if not tokens or spec.is_empty:
        yield f"{x} and {weight} should have elements."
    yield from _aligned(spec, k, n)
    one = (count, n) if spec.dtype is INT8 else (count, 1, n)
    wanted: dict[str, tuple[int, ...]] = dict.fromkeys(rows, (tokens,))
    wanted |= {lines[0]: one, lines[1]: (count, n), groups: (count,)}
    yield from _differing(call, wanted | dict.fromkeys(lines[2:], one))
    yield from _within(call, out, shared, (tokens, n))


def _aligned(weight: TensorSpec, k: int, n: int) -> Iterator[str]:
    if weight.dtype is INT8:
        of_k, of_n, least = _BYTES
        if k % of_k or n % of_n or n < least:
            yield f"k {k} and n {n} should be multiples of {of_k} and {of_n}, n at least {least}."
        return
    of_k, least_k = _PACKED_K
    of_n = PACKED if weight.format is not Format.FRACTAL_NZ else _PACKED_N
    if k % of_k or n % of_n or k <= least_k or n <= _PACKED_N:
        wanted = f"multiples of {of_k} and {of_n}, above {least_k} and {_PACKED_N}"
        yield f"k {k} and n {n} should be {wanted}."


def _within(call: Call, out: str, shared: str, most: tuple[int, int]) -> Iterator[str]:
    """The result has at most as many rows as x, and what is shared lies in it."""
    tokens, n = most
    for name, result in call.given(out):
        if result.rank != 2 or result.shape[1] != n or result.shape[0] > tokens:
            yield f"{name} {sizes(result.shape)} should have {n} columns and {tokens} rows at most."
        offset = call.integer("sharedInputOffset")
        if offset < 0:
            yield f"sharedInputOffset should be at least 0, but is {offset}."
        for other, part in call.given(shared):
            if part.rank != 2 or part.shape[1] != n or offset + part.shape[0] > result.shape[0]:
                yield (
                    f"{other} {sizes(part.shape)} from row {offset} on should lie within {name} "
                    f"{sizes(result.shape)}."
                )


def sized_as_on_page(x: str, weight: str) -> Check:
    """161002 for sizes that the page doesn't name; the host code asks for less."""

    def test(call: Call) -> Finding:
        spec = call.spec(weight)
        count, k, n = stacked([spec])
        of_k, of_n = _ON_PAGE[spec.dtype is not INT8]
        tokens = call.spec(x).shape[0]
        if k in of_k and n in of_n and count <= _MOST_EXPERTS and tokens <= _MOST_ROWS:
            return None
        ways = f"k of {', '.join(map(str, of_k))} and n of {', '.join(map(str, of_n))}"
        return (
            f"The page names {ways}, up to {_MOST_EXPERTS} experts and {_MOST_ROWS} rows; the host "
            f"code takes k {k}, n {n}, {count} experts and {tokens} rows, and nobody says whether "
            "the kernel does."
        )

    return invalid(f"{x} and {weight} have sizes that the page doesn't name", test)


def one_of_shapes(out: str, x: str, weight: str, groups: str) -> Check:
    """161002 for a sum that hasn't an element for each group, column of x and column of weight."""

    def test(call: Call) -> Finding:
        count, m, n = (call.spec(name).shape[-1] for name in (groups, x, weight))
        for name, spec in call.given(out):
            if spec.rank not in (2, 3) or spec.numel != count * m * n:
                wanted = f"{sizes((count, m, n))} or {sizes((count * m, n))}"
                return f"{name} should have sizes {wanted}, but has {sizes(spec.shape)}."
        return None

    return invalid(f"{out} isn't the sum of products of groups", test)
