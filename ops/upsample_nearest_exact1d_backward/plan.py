"""The device tasks of aclnnUpsampleNearestExact1dBackward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain


def build(call: Call, chain: Chain) -> None:
    """Contiguous, Cast to float32, UpsampleNearestExact2dGrad on rows of pixels, Cast, ViewCopy.

    Rows are the images and channels; seen as [N, C, 1, length] they keep their height.
    """
    grad = chain.cast(chain.input("gradOutput"), FLOAT)
    out = chain.output("out", FLOAT)
    images, channels, length = grad.shape
    rows = images * channels
    chain.launch(
        "UpsampleNearestExact2dGrad",
        grad.view(rows, length),
        out.view(rows, out.shape[2]),
        scale=call.number("scales"),
    )
    chain.finish("out", out)
