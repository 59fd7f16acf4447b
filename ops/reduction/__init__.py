"""Sums, means, products, largest and smallest elements along axes."""

PROVIDES = {
    "ReduceSum": "kernel:ReduceSum",
    "ReduceSumD": "kernel:ReduceSum",
    "ReduceMean": "kernel:ReduceMean",
    "ReduceMeanD": "kernel:ReduceMean",
    "ReduceMax": "kernel:ReduceMax",
    "ReduceMaxD": "kernel:ReduceMax",
    "ReduceMin": "kernel:ReduceMin",
    "ReduceMinD": "kernel:ReduceMin",
    "ReduceProd": "kernel:ReduceProd",
    "ReduceProdD": "kernel:ReduceProd",
    "BiasAddGrad": "kernel:BiasAddGrad",
    "SquareSumV1": "kernel:SquareSumV1",
    "SquareSumV2": "kernel:SquareSumV2",
    "L2Loss": "kernel:L2Loss",
    "FusionOp_ReduceSum_Square": "kernel:ReduceSumSquare",
}
ALIASES: dict[str, str] = {}
