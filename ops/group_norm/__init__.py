"""Group normalisation."""

PROVIDES = {
    "GroupNorm": "kernel:GroupNorm",
    "GroupNormSilu": "kernel:GroupNormSilu",
}
ALIASES: dict[str, str] = {}
