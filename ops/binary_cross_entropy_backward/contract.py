"""What aclnnBinaryCrossEntropyBackward accepts.

Source of the checks and their order: hicann/ops-nn loss/binary_cross_entropy_grad (op_api). Where
it and the operator's page disagree, the notes below say what we do.
"""

from __future__ import annotations

from functools import partial

from npusim.hardware.families import FLOAT_KINDS
from npusim.operators.checks import (
    any_empty,
    attribute_in,
    broadcasts_to,
    dtype_supported,
    not_null,
    promotable,
    rank_at_most,
    same_format,
    same_shape,
    unless,
)
from npusim.operators.contract import Call, Contract, Parameter, Typical
from npusim.values.dtypes import FLOAT
from npusim.values.promotion import promote
from npusim.values.tensors import TensorSpec

_INPUTS = ("gradOutput", "self", "target", "weightOptional")


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    common = promote(*(spec.dtype for _, spec in call.given(*_INPUTS)))
    self = call.spec("self")
    return {"out": TensorSpec(self.shape, common, self.format)}


def _is_empty(call: Call) -> bool:
    return any_empty(call, "self")


_input = partial(Parameter, kind="tensor", io="in", dtypes=FLOAT_KINDS)
_output = partial(Parameter, kind="tensor", io="out", dtypes=FLOAT_KINDS)

CONTRACT = Contract(
    name="aclnnBinaryCrossEntropyBackward",
    summary="Gradient of the binary cross entropy with respect to its input.",
    parameters=(
        _input("gradOutput", description="Gradient that arrives; broadcasts to self."),
        _input("self", description="Probabilities that the forward operator was given."),
        _input("target", description="Labels; broadcasts to self."),
        _input(
            "weightOptional",
            optional=True,
            description="Weight per element, broadcasts to self; null means ones.",
            aliases=("weight",),
        ),
        Parameter(
            "reduction",
            "int64",
            description="How the forward result was reduced: 0 none, 1 mean, 2 sum.",
        ),
        _output("out", description="The gradient; shape of self."),
    ),
    products=("910", "A2", "310P", "A3", "950"),
    checks=(
        not_null("gradOutput", "self", "target", "out"),
        rank_at_most(8, *_INPUTS, "out"),
        dtype_supported("self", "gradOutput", "target", "out", "weightOptional"),
        same_format("self", "target", "weightOptional", "out"),
        unless(_is_empty, same_shape("self", "out")),
        unless(_is_empty, broadcasts_to("self", "target", "weightOptional", "gradOutput")),
        attribute_in("reduction", (0, 1, 2)),
        promotable("out", *_INPUTS),
    ),
    infer_outputs=_infer_outputs,
    is_empty=_is_empty,
    limits=(
        "BFLOAT16 on Atlas A2 and later products only.",
        "At most 8 dimensions.",
        "gradOutput, target and weightOptional broadcast to self; out has the shape of self.",
    ),
    notes=(
        "Inputs of different dtypes are promoted to one; the page also calls them an error.",
        "A target or weight smaller than self is broadcast, as the API does (not the kernel).",
        "The reduction never sums the output: mean divides it by the number of elements of self.",
        "Values of self outside [0, 1] are not rejected; x * (1 - x) is kept above 1e-12.",
        "An empty self: success, no workspace, nothing is written.",
    ),
    source="hicann/ops-nn loss/binary_cross_entropy_grad; CANN 8.1.RC1 operator information",
    typical=Typical(
        "4,194,304 elements, weighted mean",
        {
            "gradOutput": TensorSpec((2**22,), FLOAT),
            "self": TensorSpec((2**22,), FLOAT),
            "target": TensorSpec((2**22,), FLOAT),
            "weightOptional": TensorSpec((2**22,), FLOAT),
            "reduction": 1,
        },
    ),
)
