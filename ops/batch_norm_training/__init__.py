"""Batch normalisation in training and inference, forward and backward, on tensors in NC1HWC0."""

PROVIDES = {
    "BNTrainingReduce": "sums:BNTrainingReduce",
    "BNTrainingUpdateGrad": "sums:BNTrainingUpdateGrad",
    "BNTrainingReduceGrad": "gradient:BNTrainingReduceGrad",
    "BNTrainingUpdate": "update:BNTrainingUpdate",
    "BNTrainingUpdateV2": "update:BNTrainingUpdateV2",
    "BNTrainingUpdateV3": "update:BNTrainingUpdateV3",
    "BNInfer": "update:BNInfer",
    "BNInferenceD": "update:BNInferenceD",
    "FusionOp_BNTrainingUpdate_ReLUV2": "update:BNTrainingUpdateRelu",
    "FusionOp_BNTrainingUpdate_Add_ReLUV2": "update:BNTrainingUpdateAddRelu",
}
ALIASES: dict[str, str] = {}
