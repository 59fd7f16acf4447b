"""Batch normalisation in training and inference, forward and backward, on tensors in NC1HWC0."""

from npusim.operators.definition import Operator, family, real

_EPSILON = (real("epsilon?"),)
_SUMS = "x sum square_sum scale offset"
_BATCH = "batch_mean batch_variance"

# fmt: off
OPERATORS = family(
    "batch_norm_training",
    sums=(
        Operator("BNTrainingReduce", "x -> sum square_sum"),
        Operator("BNTrainingUpdateGrad", f"grads x {_BATCH} -> diff_scale diff_offset", _EPSILON),
    ),
    gradient=(
        Operator("BNTrainingReduceGrad", f"grads x diff_scale diff_offset scale {_BATCH} -> y",
            _EPSILON),
    ),
    update=(
        Operator("BNTrainingUpdate", f"{_SUMS} mean variance -> y mean variance {_BATCH}",
            _EPSILON),
        Operator("BNTrainingUpdateV2", f"{_SUMS} -> y {_BATCH}", _EPSILON),
        Operator("BNTrainingUpdateV3", f"{_SUMS} -> y {_BATCH} reserve_1 reserve_2", _EPSILON),
        Operator("BNInfer", "x scale offset mean variance -> y", _EPSILON),
        Operator("BNInferenceD", "x mean variance scale? b? -> y", _EPSILON),
        Operator("FusionOp_BNTrainingUpdate_ReLUV2", kernel="BNTrainingUpdateRelu"),
        Operator("FusionOp_BNTrainingUpdate_Add_ReLUV2", kernel="BNTrainingUpdateAddRelu"),
    ),
)
