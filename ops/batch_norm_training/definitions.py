"""Batch normalisation in training and inference, forward and backward, on tensors in NC1HWC0."""

from npusim.operators.definition import Operator, family, real

_EPSILON = (real("epsilon?"),)
_SUMS = "x sum square_sum scale offset"
_BATCH = "batch_mean batch_variance"

OPERATORS = family(
    "batch_norm_training",
    Operator("BNTrainingReduce", "x -> sum square_sum", "sums"),
    Operator(
        "BNTrainingUpdateGrad", f"grads x {_BATCH} -> diff_scale diff_offset", "sums", _EPSILON
    ),
    Operator(
        "BNTrainingReduceGrad",
        f"grads x diff_scale diff_offset scale {_BATCH} -> y",
        "gradient",
        _EPSILON,
    ),
    Operator(
        "BNTrainingUpdate",
        f"{_SUMS} mean variance -> y mean variance {_BATCH}",
        "update",
        _EPSILON,
    ),
    Operator("BNTrainingUpdateV2", f"{_SUMS} -> y {_BATCH}", "update", _EPSILON),
    Operator(
        "BNTrainingUpdateV3", f"{_SUMS} -> y {_BATCH} reserve_1 reserve_2", "update", _EPSILON
    ),
    Operator("BNInfer", "x scale offset mean variance -> y", "update", _EPSILON),
    Operator("BNInferenceD", "x mean variance scale? b? -> y", "update", _EPSILON),
    Operator("FusionOp_BNTrainingUpdate_ReLUV2", kernel="update:BNTrainingUpdateRelu"),
    Operator("FusionOp_BNTrainingUpdate_Add_ReLUV2", kernel="update:BNTrainingUpdateAddRelu"),
)
