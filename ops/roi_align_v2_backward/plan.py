"""The device tasks of aclnnRoiAlignV2Backward."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ops.roi_align_v2_backward.schedule import Attributes
from npusim.values.dtypes import FLOAT
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain

_USUAL_PIXELS = 2.0  # of a bin: boxes of 14 pixels in 7 bins, as feature pyramids assign them


def build(call: Call, chain: Chain) -> None:
    """Contiguous, TransData of gradOutput, MemSet, ROIAlignGrad, TransData back, ViewCopy.

    Without boxes or gradients: zeros.
    """
    shape = call.spec("gradInput").shape
    if call.spec("gradInput").is_empty:
        return
    if call.spec("gradOutput").is_empty or call.spec("boxes").is_empty:
        zeros = chain.output("gradInput")
        chain.launch("Fill", zeros, value=0.0)
        chain.finish("gradInput", zeros)
        return
    grad, boxes = chain.input("gradOutput"), chain.input("boxes")
    count, channels, *bins = grad.shape
    slices = ceil(channels / C0)
    packed = chain.empty((count, slices, *bins, C0), FLOAT, "gradOutput_NC1HWC0")
    chain.launch("TransData", grad, packed)
    summed = chain.empty((shape[0], slices, *shape[2:], C0), FLOAT, "gradInput_NC1HWC0")
    chain.launch("MemSet", summed)
    chain.launch("ROIAlignGrad", packed, boxes, summed, **_known(call, chain))
    out = chain.output("gradInput")
    chain.launch("TransData", summed, out)
    chain.finish("gradInput", out)


def _known(call: Call, chain: Chain) -> dict[str, object]:
    """What is known: attributes, and the boxes themselves or what is assumed of them."""
    ratio = call.integer("samplingRatio")
    attributes = Attributes(call.number("spatialScale"), ratio, call.flag("aligned"))
    boxes = call.tensor("boxes").data
    if boxes is not None:
        return {"attributes": attributes, "known": np.asarray(boxes)}
    alike = "boxes aren't given: assumes that they are alike and spread evenly over the map, with "
    if ratio:
        sentence = alike + "bins {value} pixels high and wide"
        pixels = chain.assumed("pixels_per_bin", _USUAL_PIXELS, sentence)
        return {"attributes": attributes, "samples": ratio, "pixels": pixels}
    sentence = alike + "{value} samples per bin and axis (bins as many pixels high and wide)"
    pixels = chain.assumed("samples_per_bin", _USUAL_PIXELS, sentence, at_least=1)
    return {"attributes": attributes, "samples": ceil(pixels), "pixels": pixels}
