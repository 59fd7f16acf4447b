"""Losses: element by element, of rows against labels, and their gradients."""

from functools import partial

from npusim.operators.checks import attribute_at_least, same_shape
from npusim.operators.definition import (
    Aclnn,
    Attribute,
    CheckRow,
    Composed,
    Operator,
    family,
    flag,
    ints,
    real,
    text,
    whole,
)
from npusim.operators.results import like
from npusim.operators.shape_checks import broadcast, fits, one_element
from npusim.ops.loss.checks import aligned, known_reduction, leads_back, no_mean_of_whole, reduces

_SIGMA = (real("sigma?"),)
_SCALE = (real("scale?"),)
_REDUCTION = (whole("reduction"),)
_BETA = (real("beta"),)
_LOG = (flag("logTarget", "log_target"),)
_TOLD_LOG = (flag("log_target?"),)
_WEIGHTED = "weightOptional? posWeightOptional?"


def _reduced(
    rule: CheckRow,
    name: str,
    host: str,
    *more: Attribute,
    grad: str = "",
    out: str = "out",
    weights: str = "",
    most: int = 2,
    checks: tuple[CheckRow, ...] = (),
) -> Composed:
    """A loss, its mean or its sum; with ``grad``, what arrives, the gradient of it."""
    given = ("self", "target", *(each.rstrip("?") for each in weights.split()))
    tensors = f"{grad} self target {weights} -> {out}".lstrip()
    rows = ((*rule, grad or out, "reduction", *given, {"most": most}), *checks)
    return Composed(name, tensors, (*_REDUCTION, *more), host, checks=rows)


_loss = partial(_reduced, (reduces,))
_gradient = partial(_reduced, (leads_back,), grad="gradOutput")

_ALIGNED = (whole("blank?"), text("reduction?", None), flag("zero_infinity?"))
_LABELS = (whole("reduction"), whole("ignoreIndex", "ignore_index"))
_REDUCTIONS = (known_reduction, "reduction")
_SMOOTH = ((attribute_at_least, "beta", 0),)

# fmt: off
OPERATORS = family(
    "loss",
    checks={"kernel": ((broadcast, ">", "<"), (attribute_at_least, "sigma", 0))},
    alignment=(
        Operator("CTCLossV3", "log_probs targets input_lengths target_lengths -> "
            "neg_log_likelihood log_alpha", _ALIGNED, kernel="ctc_loss", checks=()),
        Operator("CTCLossV3Grad", "grad_out log_probs targets input_lengths target_lengths "
            "neg_log_likelihood log_alpha -> grad", _ALIGNED, kernel="ctc_loss_grad", checks=()),
    ),
    alignment_host=(
        Composed("aclnnCtcLoss", "logProbs targets -> negLogLikelihoodOut logAlphaOut",
            (ints("inputLengths", "lengths"), ints("targetlengths", "labels"), whole("blank"),
             flag("zeroInfinity", "zero")), "aligned",
            checks=((aligned, "logProbs", "targets", "inputLengths", "targetlengths", "blank",
                "negLogLikelihoodOut", "logAlphaOut"),)),
        Composed("aclnnCtcLossBackward",
            "gradOut logProbs targets negLogLikelihood logAlpha -> out",
            (ints("inputLengths", "lengths"), ints("targetLengths", "labels"), whole("blank"),
             flag("zeroInfinity", "zero")), "aligned_gradient",
            checks=((aligned, "logProbs", "targets", "inputLengths", "targetLengths", "blank",
                "negLogLikelihood", "logAlpha"), (same_shape, "logProbs", "out"))),
    ),
    host=(
        _loss("aclnnMseLoss", "mse"),
        _loss("aclnnMseLossOut", "mse_out"),
        _loss("aclnnL1Loss", "l1", checks=((no_mean_of_whole, "self", "reduction"),)),
        _loss("aclnnSmoothL1Loss", "smooth_l1", *_BETA, out="result", checks=_SMOOTH),
        _loss("aclnnSoftMarginLoss", "soft_margin"),
        _loss("aclnnKlDiv", "kl_div", *_LOG, most=3),
        _loss("aclnnBinaryCrossEntropy", "binary_cross_entropy", weights="weight?"),
        _loss("aclnnBinaryCrossEntropyWithLogits", "with_logits", weights=_WEIGHTED),
        _gradient("aclnnMseLossBackward", "mse_backward"),
        _gradient("aclnnL1LossBackward", "l1_backward", out="gradInput"),
        _gradient("aclnnSmoothL1LossBackward", "smooth_l1_backward", *_BETA, grad="gradOut",
            out="gradInput", checks=_SMOOTH),
        _gradient("aclnnSoftMarginLossBackward", "soft_margin_backward"),
        _gradient("aclnnKlDivBackward", "kl_div_backward", *_LOG, most=3),
        _gradient("aclnnKlDivTargetBackward", "kl_div_target_backward", *_LOG, out="gradTarget",
            most=3),
        _gradient("aclnnBinaryCrossEntropyWithLogitsBackward", "with_logits_backward",
            weights=_WEIGHTED),
        _gradient("aclnnBinaryCrossEntropyWithLogitsTargetBackward",
            "with_logits_target_backward", out="gradTarget", weights=_WEIGHTED),
        Composed("aclnnNLLLoss2d", "self target weight -> out totalWeightOut", _LABELS, "nll_2d",
            checks=((fits, "self", "n c h w", "target", "n h w", "weight", "c"), _REDUCTIONS)),
        Composed("aclnnNLLLoss2dBackward",
            "gradOutput self target weight totalWeight -> out", _LABELS, "nll_2d_backward",
            checks=((fits, "self", "n c h w", "target", "n h w", "weight", "c", "totalWeight",
                "*one", "out", "n c h w"), _REDUCTIONS, (one_element, "totalWeight"))),
    ),
    kernel=(
        Operator("KlDivLossGrad", "grad target -> y", (*_TOLD_LOG, *_SCALE)),
        Operator("L1LossGrad", "grads predict label -> y", _SCALE),
        Operator("MseLossGrad", "predict label dout -> y", _SCALE),
        Operator("SigmoidCrossEntropyWithLogits", "predict target -> loss"),
        Operator("SigmoidCrossEntropyWithLogitsGrad", "predict target dout -> gradient"),
        Operator("SigmoidCrossEntropyWithLogitsV2", "predict target weight? pos_weight? -> loss"),
        Operator("SigmoidCrossEntropyWithLogitsGradV2",
            "predict target dout weight? pos_weight? -> gradient", _SCALE),
        Operator("SmoothL1LossGradV2", "predict label dout -> gradient", (*_SIGMA, *_SCALE), (),
            ("SmoothL1LossGrad",)),
        Operator("SoftMarginLossGrad", "predict label dout -> gradient", _SCALE),
    ),
    likelihood=(
        Operator("CrossEntropyLoss", "input target weight? -> loss",
            (text("reduction?"), whole("ignore_index?")), kernel="cross_entropy",
            checks=((fits, "input", "n c *d", "target", "n *d", "weight", "c"),)),
        Operator("NLLLoss", "x target weight -> y total_weight",
            (text("reduction?"), whole("ignore_index?")),
            Aclnn("aclnnNLLLoss", "self target weight -> out totalWeightOut",
                _LABELS, host="host:nll"),
            checks=((fits, "x", "n c", "target", "n", "weight", "c"), _REDUCTIONS)),
    ),
    likelihood_gradient=(
        Operator("NLLLossGrad", "x y_grad target weight total_weight -> x_grad",
            (text("reduction?"), whole("ignore_index?")),
            Aclnn("aclnnNLLLossBackward", "self gradOutput target weight totalWeight -> out",
                _LABELS, host="host:nll_backward"), infer=like,
            checks=((fits, "x", "n c", "target", "n", "weight", "c"), _REDUCTIONS,
                (one_element, "total_weight"))),
    ),
    rows=(
        Operator("SoftmaxCrossEntropyWithLogits", "features labels -> loss backprop", (),
            Aclnn("aclnnSoftmaxCrossEntropyWithLogits", "features labels -> loss backprop"),
            checks=((fits, "features", "n c", "labels", "n c", "loss", "n", "backprop", "n c"),)),
    ),
)
