"""Optimizers: one step of the training of a variable, its moments in place."""

from npusim.operators.definition import Aclnn, Operator, family, real

_SCALAR = (real("scalar?"),)
_GIVEN_SCALAR = (real("scalar"),)
_POWERS = "var m v beta1_power beta2_power lr"

# fmt: off
OPERATORS = family(
    "optimizer",
    kernel=(
        Operator("ApplyAdam", f"{_POWERS} beta1 beta2 epsilon grad -> var m v",
            also=("Adam", "ApplyAdamD"), kernel="Adam"),
        Operator("ApplyAdamW",
            f"{_POWERS} weight_decay beta1 beta2 epsilon grad max_grad_norm? -> var m v",
            kernel="apply_adam_w"),
        Operator("ApplyGradientDescent", "var alpha delta -> var"),
        Operator("ApplyMomentum", "var accum lr grad momentum -> var"),
        Operator("ApplyRMSProp", "var ms mom lr rho momentum epsilon grad -> var"),
        Operator("FusedMulApplyMomentum", "var accum lr x1 momentum x2 -> var accum"),
        Operator("LambApplyOptimizerAssign",
            "grad inputv inputm input3 mul0_x mul1_x mul2_x mul3_x add2_y steps do_use_weight "
            "weight_decay_rate -> output0 inputv inputm"),
        Operator("LambApplyWeightAssign", "input0 input1 input2 input3 input_param -> input_param"),
        Operator("SGD", "parameters gradient learning_rate accum momentum stat -> parameters"),
    ),
    foreach=(
        Operator("ForeachAddList", "x1* x2* -> y*", _SCALAR,
            Aclnn("aclnnForeachAddList", "x1* x2* -> out*", (real("alpha?", "scalar"),))),
        Operator("ForeachAddcdivScalar", "x1* x2* x3* -> y*", _SCALAR,
            Aclnn("aclnnForeachAddcdivScalar", "x1* x2* x3* -> out*", _GIVEN_SCALAR)),
        Operator("ForeachAddcmulScalar", "x1* x2* x3* -> y*", _SCALAR,
            Aclnn("aclnnForeachAddcmulScalar", "x1* x2* x3* -> out*", _GIVEN_SCALAR)),
        Operator("ForeachMulScalar", "x* -> y*", _SCALAR,
            Aclnn("aclnnForeachMulScalar", "x* -> out*", _GIVEN_SCALAR)),
    ),
)
