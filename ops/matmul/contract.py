"""What aclnnMatmul, aclnnMm and aclnnBatchMatMul accept.

Source of the checks and their order: hicann/ops-nn matmul/mat_mul_v3 and matmul/batch_mat_mul_v3
(pages and op_api).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from npusim.hardware.families import FLOAT_KINDS, everywhere
from npusim.operators.checks import (
    any_empty,
    attribute_in,
    dtype_supported,
    format_is,
    format_is_not,
    invalid,
    not_null,
    promotable,
    rank_in,
    sizes,
)
from npusim.operators.contract import (
    Call,
    Check,
    Contract,
    Finding,
    Parameter,
    TensorArg,
    Typical,
)
from npusim.ops.matmul.cube_math import (
    ADDED,
    ALLOW_FP32_DOWN_PRECISION,
    OPERANDS,
    Names,
    math_type,
    mixed_halves,
    multiplies_float,
    operands,
)
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, DType
from npusim.values.formats import FRACTAL, Format
from npusim.values.promotion import promote
from npusim.values.tensors import TensorSpec, broadcastable

_TENSORS = (*OPERANDS, "out")
_MATRIX = 2  # axes


def matrices(spec: TensorSpec) -> tuple[int, ...]:
    """The shape of matrices; of blocks whose matrices nobody told, with what fills the last ones.

    Matrices are one or more, so that the shape of blocks has two axes more.
    """
    if not spec.is_in_blocks:
        return spec.shape
    *outer, across, down, rows, lanes = spec.shape
    return (*outer, down * rows, across * lanes)


def result_shape(call: Call) -> tuple[int, ...]:
    """The shape of self @ mat2; an axis of length one that a vector got is left out again."""
    a, b = (matrices(call.spec(name)) for name in operands(call))
    left, right = _as_matrix(a, (1, *a)), _as_matrix(b, (*b, 1))
    outer = _broadcast(left[:-_MATRIX], right[:-_MATRIX]) or ()
    rows = left[-2:-1] if len(a) > 1 else ()
    columns = right[-1:] if len(b) > 1 else ()
    return (*outer, *rows, *columns)


def _as_matrix(shape: tuple[int, ...], widened: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) > 1 else widened


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that both broadcast to, None where there is none."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    wanted = tuple(y if x == 1 else x for x, y in pairs)
    return wanted if broadcastable(a, wanted) and broadcastable(b, wanted) else None


def _inner_axes(call: Call) -> Finding:
    first, second = (call.spec(name) for name in operands(call))
    a, b = matrices(first), matrices(second)
    rows = b[0] if len(b) <= _MATRIX else b[-2]
    if a[-1] == rows:
        return None
    if second.is_in_blocks and rows - FRACTAL < a[-1] < rows:
        return None  # the last block is filled up
    return f"The k-axis of the two inputs are different {sizes(a)}, {sizes(b)}."


def _outer_axes(call: Call) -> Finding:
    a, b = (call.spec(name).shape for name in operands(call))
    if _broadcast(a[:-_MATRIX], b[:-_MATRIX]) is not None:
        return None
    return f"Broadcast {sizes(a)} and {sizes(b)} failed."


def _same_batch(call: Call) -> Finding:
    a, b = (call.spec(name).shape for name in operands(call))
    if a[0] == b[0] or 1 in (a[0], b[0]):
        return None
    return f"The batches of self {sizes(a)} and mat2 {sizes(b)} should be equal, or one of them 1."


def _output_shape(call: Call) -> Finding:
    for name, spec in call.given("out"):
        wanted = result_shape(call)
        weight = call.spec(operands(call)[1])
        if weight.is_in_blocks and wanted[-1] - weight.shape[-1] < spec.shape[-1] < wanted[-1]:
            wanted = (*wanted[:-1], spec.shape[-1])
        if spec.shape != wanted:
            got = sizes(spec.shape)
            return f"The shape of {name} should be {sizes(wanted)}, but got {got}."
    return None


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    common = promote(*(spec.dtype for _, spec in call.given(*operands(call), "self")))
    return {"out": TensorSpec(result_shape(call), common, call.spec("self").format)}


def _is_empty(call: Call) -> bool:
    if call.is_given("out"):
        return any_empty(call, "out")
    return 0 in result_shape(call)


def _stacks_in_blocks(call: Call) -> Finding:
    """Halves of one dtype, on chips whose cube takes float32 too."""
    if not multiplies_float(call):
        return f"batchmatmulweightnz is unsupported on {call.profile.name}."
    kinds = {spec.dtype for _, spec in call.given(*operands(call))}
    if kinds in ({FLOAT16}, {BFLOAT16}):
        return None
    return "self and mat2 should both be FLOAT16 or both BFLOAT16."


def _weight_of_one(call: Call) -> Finding:
    *_, rows, columns = matrices(call.spec(operands(call)[1]))
    if min(rows, columns) > 1:
        return None
    return f"Not supported mat2 n = 1 or k = 1 when format is FRACTAL_NZ, mat2: {rows}x{columns}."


def _rank_in(ranks: tuple[int, ...], names: Names) -> Check:
    """161002 for other numbers of axes; blocks count as the matrices that lie in them."""
    plain = rank_in(ranks, *names)

    def test(call: Call) -> Finding:
        seen = {name: TensorArg(_as_matrices(spec)) for name, spec in call.given(*names)}
        return plain.test(Call(call.contract, call.profile, seen))

    return plain._replace(test=test)


def _as_matrices(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(matrices(spec), spec.dtype) if spec.is_in_blocks else spec


def _formats(names: Names, *others: str, blocked: bool) -> tuple[Check, ...]:
    """What may lie in FRACTAL_NZ: nothing, or the weight, which has to."""
    if not blocked:
        return (format_is_not(Format.FRACTAL_NZ, *names, *others),)
    return (
        format_is(Format.FRACTAL_NZ, names[1]),
        format_is_not(Format.FRACTAL_NZ, names[0], *others),
        invalid("mat2 has one row or one column", _weight_of_one),
    )


def _parameters(
    ranks: tuple[int, ...], kinds: Mapping[str, tuple[DType, ...]], weight: Format
) -> tuple[Parameter, ...]:
    """Two matrices, their product and cubeMathType; the second one has the format ``weight``."""
    tensor = partial(Parameter, kind="tensor", dtypes=kinds, rank=(min(ranks), max(ranks)))
    return (
        tensor("self", io="in", description="The first matrix, or several of them."),
        tensor(
            "mat2",
            io="in",
            description="The second matrix, or several of them.",
            formats=(weight,),
        ),
        tensor("out", io="out", description="self @ mat2."),
        Parameter(
            "cubeMathType",
            "int64",
            description=(
                "What the cube computes in: 0 the inputs' dtype, 1 less than FLOAT allowed, "
                "2 FLOAT16, 3 HFLOAT32, 4 FLOAT with compensated sums."
            ),
        ),
    )


def _contract(
    name: str,
    summary: str,
    ranks: tuple[int, ...],
    *more: Check,
    typical: Typical,
    blocked: bool = False,
    products: tuple[str, ...] = ("910", "A2", "310P", "A3", "950"),
    kinds: Mapping[str, tuple[DType, ...]] = FLOAT_KINDS,
    rules: str = "",
) -> Contract:
    """A product; the weight of a ``blocked`` one lies in FRACTAL_NZ."""
    return Contract(
        name=name,
        summary=summary,
        parameters=_parameters(ranks, kinds, Format.FRACTAL_NZ if blocked else Format.ND),
        products=products,
        checks=(
            not_null(*_TENSORS),
            dtype_supported(*_TENSORS),
            attribute_in("cubeMathType", tuple(range(5))),
            invalid("BFLOAT16 and another dtype on products with BFLOAT16", mixed_halves),
            promotable("out", *OPERANDS),
            invalid("the product can't compute what cubeMathType asks for", math_type),
            _rank_in(ranks, OPERANDS),
            invalid("columns of self and rows of mat2 differ", _inner_axes),
            *more,
            *_formats(OPERANDS, "out", blocked=blocked),
            invalid("the shape of out isn't that of self @ mat2", _output_shape),
        ),
        infer_outputs=_infer_outputs,
        is_empty=_is_empty,
        limits=(
            "BFLOAT16 on Atlas A2 and later products only, there not mixed with other dtypes.",
            "FLOAT with cubeMathType 0 on Atlas A2 and later products only.",
        ),
        notes=(
            "Transposed views are multiplied as they lie; other strided views are copied first.",
            "Without rows to sum over, out is filled with zeros.",
            "cubeMathType 4 is computed as 0: sums in float32.",
        ),
        source="hicann/ops-nn matmul/mat_mul_v3, matmul/batch_mat_mul_v3",
        rules_source=f"hicann/ops-nn matmul/{rules}.md" if rules else "",
        typical=typical,
    )


def _typical(
    words: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    weight: Format = Format.UNDEFINED,
    kind: DType = FLOAT,
) -> Typical:
    second = TensorSpec(b, kind, weight)
    operands: dict[str, object] = {"self": TensorSpec(a, kind), "mat2": second}
    return Typical(words, operands | {"cubeMathType": ALLOW_FP32_DOWN_PRECISION})


def _factors(call: Call) -> Finding:
    for name in ("beta", "alpha"):
        if isinstance(value := call.arguments.get(name), bool | complex):
            return f"{name} should be a real number, but is {value}."
    return None


def _addend(call: Call) -> Finding:
    wanted, added = result_shape(call), call.spec("self").shape
    if broadcastable(added, wanted):
        return None
    return f"The shape of self {sizes(added)} can't be broadcast to {sizes(wanted)}."


_LATER = ("A2", "A3", "950")
_HALVES = everywhere(FLOAT16, BFLOAT16)


def _addmm(name: str = "aclnnAddmm", *, blocked: bool = False) -> Contract:
    """The product of two matrices and a tensor that is added to it."""
    kind = FLOAT16 if blocked else FLOAT
    square = TensorSpec((2048, 2048), kind)
    weight = TensorSpec((2048, 2048), kind, Format.FRACTAL_NZ if blocked else Format.UNDEFINED)
    factors = {"beta": 1.0, "alpha": 1.0, "cubeMathType": ALLOW_FP32_DOWN_PRECISION}
    typical = Typical(
        "a row added to 2048x2048 @ 2048x2048",
        {"self": TensorSpec((2048,), kind), "mat1": square, "mat2": weight, **factors},
    )
    plain = _contract(
        name, "beta * self + alpha * (mat1 @ mat2).", (2,), typical=typical, blocked=blocked,
        rules=f"mat_mul_v3/docs/{name}{'' if blocked else '&aclnnInplaceAddmm'}",
    )  # fmt: skip
    products = _LATER if blocked else plain.products
    kinds = _HALVES if blocked else FLOAT_KINDS
    tensor = partial(Parameter, kind="tensor", dtypes=FLOAT_KINDS)
    given = ("self", *ADDED)
    return replace(
        plain,
        products=products,
        parameters=(
            tensor("self", io="in", rank=(1, 2), description="What is added, or broadcast to it."),
            replace(
                plain.parameter("self"), name="mat1", dtypes=kinds, description="The first matrix."
            ),
            replace(
                plain.parameter("mat2"), dtypes=kinds, rank=(2, 2), description="The second matrix."
            ),
            Parameter("beta", "scalar", description="What self is multiplied by."),
            Parameter("alpha", "scalar", description="What the product is multiplied by."),
            *plain.parameters[2:],
        ),
        checks=(
            not_null(*given, "beta", "alpha", "out"),
            dtype_supported(*given, "out"),
            invalid("beta or alpha is no real number", _factors),
            attribute_in("cubeMathType", tuple(range(5))),
            invalid("BFLOAT16 and another dtype on products with BFLOAT16", mixed_halves),
            promotable("out", *given),
            invalid("the product can't compute what cubeMathType asks for", math_type),
            _rank_in((2,), ADDED),
            invalid("columns of mat1 and rows of mat2 differ", _inner_axes),
            invalid("self can't be broadcast to the product", _addend),
            *_formats(ADDED, "self", "out", blocked=blocked),
            invalid("the shape of out isn't that of mat1 @ mat2", _output_shape),
        ),
        plan="plan:build_sum",
        notes=(
            *plain.notes[:-1],
            "The product, Muls where alpha or beta aren't 1, and Add, each a task of its own.",
        ),
        source="hicann/ops-nn matmul/mat_mul_v3 (aclnn_addmm)",
    )


_broadcasting = invalid("the outer axes of self and mat2 don't broadcast", _outer_axes)

MATMUL = _contract(
    "aclnnMatmul",
    "Matrix product; vectors and stacks of matrices as numpy.matmul takes them.",
    (1, 2, 3, 4, 5, 6),
    _broadcasting,
    typical=_typical("8x512x1024 @ 1024x4096", (8, 512, 1024), (1024, 4096)),
    rules="mat_mul_v3/docs/aclnnMatmul",
)
MM = _contract(
    "aclnnMm",
    "Product of two matrices.",
    (2,),
    typical=_typical("2048x2048 @ 2048x2048", (2048, 2048), (2048, 2048)),
    rules="mat_mul_v3/docs/aclnnMm",
)
BATCH_MATMUL = _contract(
    "aclnnBatchMatMul",
    "Products of two stacks of matrices.",
    (3,),
    invalid("self and mat2 have different numbers of matrices", _same_batch),
    typical=_typical("96 times 512x64 @ 64x512", (96, 512, 64), (96, 64, 512)),
    rules="batch_mat_mul_v3/docs/aclnnBatchMatMul",
)
ADDMM = _addmm()

MATMUL_WEIGHT_NZ = _contract(
    "aclnnMatmulWeightNz",
    "Product of two matrices, the second in FRACTAL_NZ.",
    (2,),
    typical=_typical("2048x2048 @ 2048x2048", (2048, 2048), (2048, 2048), Format.FRACTAL_NZ),
    blocked=True,
    products=("A2", "310P", "A3", "950"),
    rules="mat_mul_v3/docs/aclnnMatmulWeightNz",
)
BATCH_MATMUL_WEIGHT_NZ = _contract(
    "aclnnBatchMatMulWeightNz",
    "Products of two stacks of matrices, the second in FRACTAL_NZ.",
    (3,),
    invalid("the product multiplies no stacks in FRACTAL_NZ", _stacks_in_blocks),
    invalid("self and mat2 have different numbers of matrices", _same_batch),
    typical=_typical(
        "96 times 512x64 @ 64x512", (96, 512, 64), (96, 64, 512), Format.FRACTAL_NZ, FLOAT16
    ),
    blocked=True,
    products=_LATER,
    kinds=_HALVES,
)
ADDMM_WEIGHT_NZ = _addmm("aclnnAddmmWeightNz", blocked=True)
