"""Random numbers: by the engine of A2 and A3 (DSA), the AI CPU elsewhere; what is made of them."""

from npusim.operators.checks import attribute_at_least, rank_in, same_shape
from npusim.operators.definition import (
    Attribute,
    Composed,
    Operator,
    family,
    flag,
    ints,
    page,
    real,
    scalar,
    text,
    whole,
)
from npusim.operators.dtype_checks import told_in
from npusim.operators.number_checks import aligned_bits, between, in_order
from npusim.operators.shape_checks import broadcast, needs, one_element
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16

_SEEDED = (whole("seed"), whole("offset"))
_LATER = (whole("offset"),)
_TENSORS = "seedTensor offsetTensor"
_LIMITS = (real("from", "low"), real("to", "high"))
_WHOLE = (whole("from", "low"), whole("to", "high"))
_SPREAD = (real("mean"), real("std"))
_COUNTED = (whole("numsamples", "count"), flag("replacement"))
_ROWS = (rank_in, (1, 2), "self")
_TOLD = (needs, "y")
_ONE = (one_element, "seed", "offset")
_PROB = (text("probDataType", None),)
_RELU = (scalar("lower"), scalar("upper"), flag("training"))


_ORDERED = (in_order, "from", "to")
_CHANCE = (between, "prob", 0, 1)
_MASK = (_CHANCE, (rank_in, (1,), "out"), (aligned_bits, "shape", "out", {"bits": 128}))
_MASKS = ((told_in, "probDataType", FLOAT, FLOAT16, BFLOAT16), *_MASK)


def _seeded(
    name: str, attributes: tuple[Attribute, ...], host: str, check: tuple[object, ...],
    folder: str = "",
) -> tuple[Composed, Composed]:  # fmt: skip
    """In place, the seed a number or a tensor that an offset is added to."""
    one_each = (one_element, *_TENSORS.split())
    first, second = (page(folder, f"{name[5:]}{end}") if folder else "" for end in ("", "Tensor"))
    return (
        Composed(name, "selfRef -> selfRef", (*attributes, *_SEEDED), host, checks=(check,),
                 rules=first),
        Composed(f"{name}Tensor", f"selfRef {_TENSORS} -> selfRef", (*attributes, *_LATER),
                 host, checks=(check, one_each), rules=second),
    )  # fmt: skip


# fmt: off
OPERATORS = family(
    "random",
    streams=(
        Operator("DSARandomUniform", "seed offset -> y", (real("low?"), real("high?")),
            kernel="uniform", checks=(_TOLD, _ONE)),
        Operator("DSARandomNormal", "seed offset -> y", (real("mean?"), real("std?")),
            kernel="normal", checks=(_TOLD, _ONE)),
        Operator("DSAGenBitMask", "seed offset -> y", (real("keep?"),), kernel="bit_mask",
            also=("DSAStatelessGenBitMask", "StatelessDropOutGenMask"), checks=(_TOLD, _ONE)),
        Operator("StatelessRandomUniformV2", "seed offset -> y", kernel="uniform",
            checks=(_TOLD, _ONE)),
        Operator("StatelessRandomNormalV2", "seed offset -> y", kernel="normal",
            checks=(_TOLD, _ONE)),
        Operator("StatelessBernoulli", "prob seed offset -> y", kernel="bernoulli",
            checks=(_TOLD, _ONE)),
        Operator("StatelessRandperm", "seed offset -> y", kernel="permutation",
            checks=(_TOLD, _ONE, (rank_in, (1,), "y"))),
    ),
    host=(
        *_seeded("aclnnInplaceUniform", _LIMITS, "uniform", _ORDERED),
        *_seeded("aclnnInplaceNormal", _SPREAD, "normal", (attribute_at_least, "std", 0),
            "ops-math random/dsa_random_normal"),
        *_seeded("aclnnInplaceRandom", _WHOLE, "whole", _ORDERED),
        Composed("aclnnBernoulli", "self -> out", (scalar("prob"), *_SEEDED), "bernoulli",
            in_place=True, checks=((same_shape, "self", "out"),)),
        Composed("aclnnBernoulliTensor", "self prob -> out", _SEEDED, "bernoulli_each",
            in_place=True, checks=((same_shape, "self", "prob", "out"),)),
        Composed("aclnnDropout", "input -> out maskOut",
            (real("p", "drop"), flag("train"), *_SEEDED), "dropout",
            checks=((between, "p", 0, 1), (same_shape, "input", "out"))),
        Composed("aclnnDropoutGenMask", "-> out",
            (ints("shape"), real("prob", "drop"), *_SEEDED), "mask", checks=_MASK),
        Composed("aclnnDropoutGenMaskV2", "-> out",
            (ints("shape"), real("prob", "drop"), *_SEEDED, *_PROB), "mask", checks=_MASKS,
            rules=page("ops-math random/dsa_gen_bit_mask", "DropoutGenMaskV2")),
        Composed("aclnnDropoutGenMaskV2Tensor", f"{_TENSORS} -> out",
            (ints("shape"), real("prob", "drop"), *_LATER, *_PROB), "mask",
            checks=(*_MASKS, (one_element, *_TENSORS.split()))),
        Composed("aclnnNormalFloatTensor", "std -> out", (real("mean"), *_SEEDED), "normal_each"),
        Composed("aclnnNormalTensorFloat", "mean -> out", (real("std"), *_SEEDED), "normal_each"),
        Composed("aclnnNormalTensorTensor", "mean std -> out", _SEEDED, "normal_each",
            checks=((broadcast, "out", "mean", "std"),)),
        Composed("aclnnRandperm", "-> out", (whole("n"), *_SEEDED), "permutation",
            checks=((attribute_at_least, "n", 0), (rank_in, (1,), "out"))),
        Composed("aclnnMultinomial", "self -> out", (*_COUNTED, *_SEEDED), "drawn",
            checks=(_ROWS, (attribute_at_least, "numsamples", 1))),
        Composed("aclnnMultinomialTensor", f"self {_TENSORS} -> out", (*_COUNTED, *_LATER),
            "drawn", checks=(_ROWS, (attribute_at_least, "numsamples", 1),
                (one_element, *_TENSORS.split()))),
        Composed("aclnnRReluWithNoise", "self noise -> out noise", (*_RELU, *_SEEDED),
            "random_relu", checks=((same_shape, "self", "noise", "out"),)),
        Composed("aclnnInplaceRReluWithNoise", "self noise -> self noise", (*_RELU, *_SEEDED),
            "random_relu", checks=((same_shape, "self", "noise"),)),
    ),
)
