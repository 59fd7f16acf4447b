"""Images sampled at places that a grid tells."""

from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    flags,
    ints,
    text,
    whole,
)
from npusim.operators.shape_checks import fits
from npusim.ops.grid_sample.checks import modes, moves
from npusim.ops.grid_sample.results import sampled, spread

_WORDS = (text("interpolation_mode?"), text("padding_mode?"), flag("align_corners?"))
_NUMBERS = (whole("interpolationMode", "interpolation_mode"), whole("paddingMode", "padding_mode"),
    flag("alignCorners", "align_corners"))  # fmt: skip
_MODES = (modes, "interpolation_mode", "padding_mode")


def _sampler(axes: int, x: str, grid: str) -> Operator:
    """Samples of planes or of volumes."""
    return Operator(
        f"GridSampler{axes}D",
        "x grid -> y",
        _WORDS,
        Aclnn(f"aclnnGridSampler{axes}D", "input grid -> out", _NUMBERS),
        kernel=f"grid_sampler_{axes}d",
        infer=sampled,
        checks=((fits, "x", x, "grid", grid), _MODES),
    )


def _backward(axes: int, x: str, grid: str, dy: str) -> Composed:
    """Turned, widened, and back."""
    return Composed(
        f"aclnnGridSampler{axes}DBackward",
        "gradOutput input grid -> inputGrad? gridGrad?",
        (*_NUMBERS, flags("outputMask", "mask")),
        f"backward_{axes}d",
        checks=((fits, "input", x, "grid", grid, "gradOutput", dy, "inputGrad", x,
            "gridGrad", grid), _MODES),
    )  # fmt: skip


# fmt: off
OPERATORS = family(
    "grid_sample",
    affine=(
        Operator("AffineGrid", "theta -> y", (ints("size"), flag("align_corners?")),
            Aclnn("aclnnAffineGrid", "theta -> out",
                (ints("size"), flag("alignCorners", "align_corners"))),
            kernel="affine_grid", infer=spread, checks=((moves, "theta", "size"),)),
    ),
    kernel=(
        _sampler(2, "n c h w", "n i j 2"),
        _sampler(3, "n c d h w", "n i j k 3"),
    ),
    gradient=(
        Operator("GridSampler2DGrad", "grad x grid -> dx dgrid", _WORDS, kernel="kernels"),
        Operator("GridSampler3DGrad", "grad x grid -> dx dgrid", _WORDS, kernel="kernels"),
    ),
    host=(
        _backward(2, "n c h w", "n i j 2", "n c i j"),
        _backward(3, "n c d h w", "n i j k 3", "n c i j k"),
    ),
)
