"""Batch normalisation, forward and backward, and instance normalisation, in NC1HWC0."""

from npusim.operators.checks import attribute_at_least
from npusim.operators.definition import Operator, family, real
from npusim.operators.results import like
from npusim.operators.shape_checks import fits
from npusim.ops.batch_norm_training.results import of_images, rows, with_images, with_rows

_EPSILON = (real("epsilon?"),)
_SUMS = "x sum square_sum scale offset"
_BATCH = "batch_mean batch_variance"
_MAPS = ("x", "grads", "y")
_CHANNELS = (
    "sum", "square_sum", "scale", "offset", "mean", "variance", "b", *_BATCH.split(),
    "diff_scale", "diff_offset", "reserve_1", "reserve_2",
)  # fmt: skip
# Maps in NC1HWC0, and a row of numbers for the channels.
_CHECKS = (
    (
        fits,
        *(word for name in _MAPS for word in (name, "n c1 h w c0")),
        *(word for name in _CHANNELS for word in (name, "1 c1 1 1 c0")),
    ),
    (attribute_at_least, "epsilon", 0),
)
# Numbers for the channels of each image, and for those that all have in common.
_OF_IMAGES = ("sum", "square_sum", *_BATCH.split())
_IMAGES = (
    (
        fits,
        *(word for name in _MAPS for word in (name, "n c1 h w c0")),
        *(word for name in _OF_IMAGES for word in (name, "n c1 1 1 c0")),
        *(word for name in ("gamma", "beta") for word in (name, "1 c1 1 1 c0")),
    ),
    (attribute_at_least, "epsilon", 0),
)

# fmt: off
OPERATORS = family(
    "batch_norm_training",
    checks={**dict.fromkeys(("sums", "gradient", "update"), _CHECKS), "instances": _IMAGES},
    instances=(
        Operator("INTrainingReduceV2", "x -> sum square_sum", infer=of_images),
        Operator("INTrainingUpdateV2", f"x sum square_sum gamma beta -> y {_BATCH}", _EPSILON,
            infer=with_images),
    ),
    sums=(
        Operator("BNTrainingReduce", "x -> sum square_sum", infer=rows(2)),
        Operator("BNTrainingUpdateGrad", f"grads x {_BATCH} -> diff_scale diff_offset", _EPSILON,
            infer=rows(2)),
    ),
    gradient=(
        Operator("BNTrainingReduceGrad", f"grads x diff_scale diff_offset scale {_BATCH} -> y",
            _EPSILON, infer=like),
    ),
    update=(
        Operator("BNTrainingUpdate", f"{_SUMS} mean variance -> y mean variance {_BATCH}",
            _EPSILON, infer=with_rows(2)),
        Operator("BNTrainingUpdateV2", f"{_SUMS} -> y {_BATCH}", _EPSILON, infer=with_rows(2)),
        Operator("BNTrainingUpdateV3", f"{_SUMS} -> y {_BATCH} reserve_1 reserve_2", _EPSILON,
            infer=with_rows(4)),
        Operator("BNInfer", "x scale offset mean variance -> y", _EPSILON, infer=like),
        Operator("BNInferenceD", "x mean variance scale? b? -> y", _EPSILON, infer=like),
        Operator("FusionOp_BNInfer_Relu", kernel="BNInferRelu", checks=()),
        Operator("FusionOp_BNTrainingUpdate_ReLUV2", kernel="BNTrainingUpdateRelu", checks=()),
        Operator("FusionOp_BNTrainingUpdate_Add_ReLUV2", kernel="BNTrainingUpdateAddRelu",
            checks=()),
    ),
)
