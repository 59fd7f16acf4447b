"""Elementwise arithmetic with broadcasting, comparisons, selections, copies and fills."""

_TABLES = {
    "arithmetic": (
        "Abs", "Add", "AddN", "AddV2", "Adds", "AssignAdd", "AssignSub", "BiasAdd", "Ceil",
        "ClipByValue", "Div", "Floor", "FusedMulAdd", "FusedMulAddAdd", "FusedMulAddN", "Inv",
        "Log", "Log1p", "Maximum", "MaximumGrad", "Minimum", "MinimumGrad", "Mul", "Muls",
        "Neg", "Pow", "RealDiv", "Reciprocal", "Round", "Rsqrt", "Sign", "Sqrt", "Square",
        "Sub",
    ),
    "comparison": (
        "Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot",
        "LogicalOr", "NotEqual", "Select", "SelectV2",
    ),
    "fills": (
        "AtomicAddrClean", "Fill", "MemSet", "NPUAllocFloatStatus", "NPUClearFloatStatus",
        "NPUGetFloatStatus", "OnesLike", "ZerosLike",
    ),
    "fusion": ("FusionOp_Mul_Neg", "FusionOp_RealDiv_Neg"),
    "masks": ("DropOutDoMask", "DropoutDoMask"),
    "moves": ("Assign", "TensorMove"),
}  # fmt: skip

PROVIDES = {name: f"{module}:{name}" for module, names in _TABLES.items() for name in names}
PROVIDES |= {"Exp": "composed:exp", "MaskedScale": "composed:masked_scale"}
ALIASES: dict[str, str] = {}
