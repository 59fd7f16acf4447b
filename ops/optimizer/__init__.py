"""Optimizers: one step of the training of a variable, its moments in place."""

_TABLES = {
    "kernel": (
        "Adam", "ApplyAdam", "ApplyAdamD", "ApplyGradientDescent",
        "ApplyMomentum", "ApplyRMSProp", "FusedMulApplyMomentum", "LambApplyOptimizerAssign",
        "LambApplyWeightAssign", "SGD",
    ),
    "foreach": (
        "ForeachAddList", "ForeachAddcdivScalar", "ForeachAddcmulScalar", "ForeachMulScalar",
    ),
}  # fmt: skip

PROVIDES = {name: f"{module}:{name}" for module, names in _TABLES.items() for name in names}
PROVIDES["ApplyAdamW"] = "kernel:apply_adam_w"
ALIASES: dict[str, str] = {}
