"""Losses that are computed element by element, and their gradients."""

_NAMES = (
    "BinaryCrossEntropy", "L1LossGrad", "MseLoss", "MseLossGrad",
    "SigmoidCrossEntropyWithLogits", "SigmoidCrossEntropyWithLogitsGrad", "SmoothL1Loss",
    "SmoothL1LossGrad", "SmoothL1LossGradV2", "SmoothL1LossV2",
)  # fmt: skip

PROVIDES = {name: f"kernel:{name}" for name in _NAMES}
ALIASES: dict[str, str] = {}
