"""Optimizers: one step of the training of a variable, its moments in place."""

from npusim.operators.checks import same_shape
from npusim.operators.definition import Aclnn, Operator, family, real
from npusim.operators.shape_checks import lists_alike, one_element

_POWERS = "var m v beta1_power beta2_power lr"
_MOMENTS = (same_shape, "var", "m", "v", "grad", "max_grad_norm")
_RATES = (
    one_element, "beta1_power", "beta2_power", "lr", "weight_decay", "beta1", "beta2", "epsilon",
)  # fmt: skip
_LAMB = "mul0_x mul1_x mul2_x mul3_x add2_y steps do_use_weight weight_decay_rate"


def _foreach(name: str, lists: int, number: str = "") -> Operator:
    """The same on the n-th tensors of so many lists, perhaps with a number."""
    inputs = " ".join(f"x{place + 1}*" for place in range(lists)) if lists > 1 else "x*"
    scalar = (real("scalar?"),) if number else ()
    called = (real(number, "scalar"),) if number else ()
    aclnn = Aclnn(f"aclnn{name}", f"{inputs} -> out*", called)
    return Operator(name, f"{inputs} -> y*", scalar, aclnn)


# fmt: off
OPERATORS = family(
    "optimizer",
    checks={"foreach": ((lists_alike, ("x1",), ("x2",), ("x3",), (">",)),)},
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
    foreach=(
        _foreach("ForeachAddList", 2, "alpha?"),
        _foreach("ForeachSubList", 2, "alpha?"),
        _foreach("ForeachAddcdivScalar", 3, "scalar"),
        _foreach("ForeachAddcmulScalar", 3, "scalar"),
        _foreach("ForeachLerpScalar", 2, "weight"),
        *(_foreach(f"Foreach{name}List", 2) for name in ("Mul", "Div", "Maximum", "Minimum")),
        *(_foreach(f"Foreach{name}Scalar", 1, "scalar")
          for name in ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum")),
        *(_foreach(f"Foreach{name}", 1)
          for name in ("Abs", "Exp", "Log", "Neg", "Reciprocal", "Sqrt")),
    ),
)
