"""Sums, means, products, largest and smallest elements along axes."""

from npusim.operators.checks import attribute_at_least, rank_in
from npusim.operators.definition import (
    Aclnn,
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
from npusim.operators.dtype_checks import as_told, complex_of_something, through
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in, broadcast
from npusim.ops.reduction import results

_AXES = (ints("axes?"), flag("keep_dims?"))
_AXIS = (ints("axis?"), flag("keep_dims?"))
_DIM = (ints("dim", "axes"), flag("keepDim?", "keep_dims"))
_DIMS = (ints("dims", "axes"), flag("keepDims?", "keep_dims"))
_ORDER = (real("p?"), *_AXES, real("epsilon?"))
_CORRECTING = (ints("dim", "axes"), flag("unbiased?"), flag("keep_dims?"), whole("correction?"))
_DTYPE = text("dtype?", None)
_AS = text("dtype?")  # what is computed in
_KEPT = (ints("dim", "axes"), flag("keepdim?", "keep_dims"))
_KEEP_DIMS = flag("keepDims?", "keep_dims")
_MAYBE = ints("dim?", "axes")  # all of them where it is left out
_CORRECTED = (_MAYBE, whole("correction?"), _KEPT[1])
_OWN_AXES = ((axes_in, "dim", "self"),)
_OF_SOMETHING = (complex_of_something, "x", "y")
_TOLD = ((as_told, "dtype", "y"), _OF_SOMETHING)
_PRODUCT = ((through, "dtype", "x", "y"), *_TOLD)
_ONE_DIM = (whole("dim", "axes"), flag("keepDim?", "keep_dims"))


def _reduction(op_type: str, *aclnn: Aclnn) -> Operator:
    """Along axes that an operand tells, or that were known when the kernel was compiled."""
    also = (f"{op_type}D",)
    return Operator(op_type, "x -> y", _AXES, aclnn, also, infer=results.reduced)


def _folding(
    name: str, tensors: str, more: tuple[Attribute, ...] = (), also: tuple[str, ...] = ()
) -> Operator:
    """A loss that its operator folds itself, where ``reduction`` isn't none."""
    return Operator(
        name,
        tensors,
        (*more, text("reduction?")),
        also=also,
        infer=results.loss_of,
        band_class="loss",
    )


# fmt: off
OPERATORS = family(
    "reduction",
    checks={
        "kernel": ((axes_in, "axes", "<"), (axes_in, "axis", "<")),
        "losses": ((broadcast, ">", "<", {"folds": True}), (attribute_at_least, "sigma", 0)),
    },
    kernel=(
        _reduction("ReduceSum",
            Aclnn("aclnnReduceSum", attributes=(*_DIMS, _AS), host="host:total", checks=_TOLD,
                rules=page("ops-math math/reduce_sum", "ReduceSum"))),
        _reduction("ReduceMean", Aclnn("aclnnMean", attributes=(*_DIM, _AS), host="host:mean",
            checks=((through, "dtype", "x", "y"), _OF_SOMETHING),
            rules=page("ops-math math/reduce_mean", "Mean"))),
        _reduction("ReduceMax", Aclnn("aclnnAmax", attributes=_DIM), Aclnn("aclnnMax",
            rules=page("ops-math math/reduce_max", "Max"))),
        _reduction("ReduceMin", Aclnn("aclnnAmin", attributes=_DIM), Aclnn("aclnnMin")),
        _reduction("ReduceProd",
            Aclnn("aclnnProd", attributes=(_AS,), host="host:product", checks=_PRODUCT,
                rules=page("ops-math math/reduce_prod", "Prod")),
            Aclnn("aclnnProdDim", attributes=(*_ONE_DIM, _AS), host="host:product",
                checks=_PRODUCT, rules=page("ops-math math/reduce_prod", "ProdDim"))),
        _reduction("ReduceNansum"),
        _reduction("ReduceLogSum"),
        _reduction("ReduceLogSumExp"),
        _reduction("ReduceAll"),
        _reduction("ReduceAny"),
        Operator("BiasAddGrad", "x -> y", infer=results.sums_of_columns,
            checks=((rank_in, range(1, 9), "x"),)),
        Operator("SquareSumV1", "x -> y", _AXIS, infer=results.reduced),
        Operator("SquareSumV2", "x -> y1 y2", _AXIS, infer=results.reduced_and_kept),
        Operator("L2Loss", "x -> y", infer=results.one_number),
        Operator("FusionOp_ReduceSum_Square"),
    ),
    host=(
        Composed("aclnnAll", "self -> out", _KEPT, "every", checks=_OWN_AXES,
            rules=page("ops-math math/reduce_all", "All")),
        Composed("aclnnAny", "self -> out", _KEPT, "some", checks=_OWN_AXES),
        Composed("aclnnAminmax", "self -> minOut maxOut", _DIM, "extremes", checks=_OWN_AXES),
        Composed("aclnnAminmaxAll", "self -> minOut maxOut", (), "extremes"),
        Composed("aclnnAminmaxDim", "self -> minOut maxOut", _ONE_DIM, "extremes",
            checks=_OWN_AXES),
        Composed("aclnnGlobalAveragePool", "self -> out", (), "mean_of_images"),
        Composed("aclnnGlobalMaxPool", "self -> out", (), "largest_of_images"),
        Composed("aclnnLinalgVectorNorm", "self -> out",
            (scalar("ord", "order"), ints("dims", "axes"), _KEEP_DIMS, _DTYPE), "norm",
            checks=((axes_in, "dims", "self"),)),
        Composed("aclnnLogSumExp", "self -> out", _DIM, "log_sum_exp", checks=_OWN_AXES),
        Composed("aclnnMaxV2", "self -> out", (*_DIMS, flag("noopWithEmptyDims?", "noop")),
            "largest", checks=((axes_in, "dims", "self"),)),
        Composed("aclnnMeanV2", "self -> out", (*_DIM, flag("noopWithEmptyAxes?", "noop")), "mean",
            checks=_OWN_AXES),
        Composed("aclnnNorm", "self -> out", (scalar("pScalar", "order"), *_KEPT), "norm",
            checks=_OWN_AXES),
        Composed("aclnnReduceLogSum", "data -> reduce",
            (ints("axes"), _KEEP_DIMS, flag("noopWithEmptyAxes?", "noop")), "log_sum",
            checks=((axes_in, "axes", "data"),)),
        Composed("aclnnReduceNansum", "self -> out", (*_DIM, _AS), "sum_of_numbers",
            checks=_OWN_AXES),
        Composed("aclnnStd", "self -> out", _CORRECTED, "deviation", checks=_OWN_AXES),
        Composed("aclnnStdMeanCorrection", "self -> stdOut meanOut", _CORRECTED,
            "deviation_and_mean", checks=_OWN_AXES),
        Composed("aclnnVar", "self -> out",
            (_MAYBE, flag("unbiased?", "correction"), _KEPT[1]), "variance",
            checks=_OWN_AXES),
        Composed("aclnnVarMean", "self -> varOut meanOut", _CORRECTED, "variance_and_mean",
            checks=_OWN_AXES),
    ),
    losses=(
        _folding("BinaryCrossEntropy", "x y weight? -> output"),
        _folding("KLDivV2", "x target -> y", (flag("log_target?"),), also=("KLDiv",)),
        _folding("LpLoss", "predict label -> y", (whole("p?", None),)),
        _folding("MSELossV2", "input target -> output"),
        _folding("MseLoss", "predict label -> y"),
        _folding("SmoothL1LossV2", "predict label -> loss", (real("sigma?"),), ("SmoothL1Loss",)),
        _folding("SoftMarginLoss", "x target -> y"),
    ),
    norms=(
        Operator("ForeachNorm", "x* -> y*", (real("scalar?"),),
            Aclnn("aclnnForeachNorm", "x* -> out*", (real("scalar"),)),
            kernel="norms", infer=results.one_number_each, checks=()),
        Operator("LpNormReduceV2", "x -> y", _ORDER, kernel="powers", infer=results.reduced),
        Operator("LpNormUpdateV2", "x -> y", _ORDER, kernel="root", infer=like),
        Operator("Renorm", "x -> y", (real("p"), whole("dim"), real("maxnorm")), kernel="renorm",
            infer=results.one_per_slice, checks=((axes_in, "dim", "x"),)),
        Operator("LpNormV2", "x -> y", _ORDER, kernel="norm", infer=results.reduced),
    ),
    spread=(
        Operator("ReduceStdV2Update", "x mean -> output_var",
            (*_CORRECTING, flag("if_std?")), kernel="variance", infer=results.reduced),
        Operator("ReduceStdWithMean", "x mean -> y",
            (*_CORRECTING, flag("invert?"), real("epsilon?")), kernel="deviation",
            infer=results.reduced),
    ),
)
