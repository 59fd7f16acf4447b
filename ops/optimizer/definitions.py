"""Optimizers: one step of the training of a variable, its moments in place."""

from npusim.operators.checks import same_shape
from npusim.operators.definition import Operator, family
from npusim.operators.shape_checks import one_element

_POWERS = "var m v beta1_power beta2_power lr"
_MOMENTS = (same_shape, "var", "m", "v", "grad", "max_grad_norm")
_RATES = (
    one_element, "beta1_power", "beta2_power", "lr", "weight_decay", "beta1", "beta2", "epsilon",
)  # fmt: skip
_LAMB = "mul0_x mul1_x mul2_x mul3_x add2_y steps do_use_weight weight_decay_rate"

# fmt: off
OPERATORS = family(
    "optimizer",
    kernel=(
        Operator("ApplyAdam", f"{_POWERS} beta1 beta2 epsilon grad -> var m v",
            also=("Adam", "ApplyAdamD"), kernel="Adam", checks=(_MOMENTS, _RATES)),
        Operator("ApplyAdamW",
            f"{_POWERS} weight_decay beta1 beta2 epsilon grad max_grad_norm? -> var m v",
            kernel="apply_adam_w", checks=(_MOMENTS, _RATES)),
        Operator("ApplyGradientDescent", "var alpha delta -> var",
            checks=((same_shape, "var", "delta"), (one_element, "alpha"))),
        Operator("ApplyMomentum", "var accum lr grad momentum -> var",
            checks=((same_shape, "var", "accum", "grad"), (one_element, "lr", "momentum"))),
        Operator("ApplyRMSProp", "var ms mom lr rho momentum epsilon grad -> var",
            checks=((same_shape, "var", "ms", "mom", "grad"),
                (one_element, "lr", "rho", "momentum", "epsilon"))),
        Operator("FusedMulApplyMomentum", "var accum lr x1 momentum x2 -> var accum",
            checks=((same_shape, "var", "accum", "x1"), (one_element, "lr", "momentum", "x2"))),
        Operator("LambApplyOptimizerAssign",
            f"grad inputv inputm input3 {_LAMB} -> output0 inputv inputm",
            checks=((same_shape, "grad", "inputv", "inputm", "input3", "output0"),
                (one_element, *_LAMB.split()))),
        Operator("LambApplyWeightAssign", "input0 input1 input2 input3 input_param -> input_param",
            checks=((one_element, "input0", "input1", "input2"),
                (same_shape, "input3", "input_param"))),
        Operator("SGD", "parameters gradient learning_rate accum momentum stat -> parameters",
            checks=((same_shape, "parameters", "gradient", "accum", "stat"),
                (one_element, "learning_rate", "momentum"))),
    ),
)
