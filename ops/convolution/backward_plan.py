"""The device tasks of aclnnConvolutionBackward.

Gradients, images and weight are cast and brought into their storage formats once; the weight's
gradient is float32 in FRACTAL_Z, added up in cleared memory, and turned back.
Source: hicann/ops-nn conv/convolution_backward (op_api/aclnn_convolution_backward.cpp).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task
from npusim.operators.checks import asked_for
from npusim.operators.tasks import kernels_on
from npusim.ops.convolution.backward_contract import OUTPUTS
from npusim.ops.convolution.contract import arithmetic
from npusim.ops.convolution.layouts import Layouts
from npusim.ops.convolution.plain import PLANAR
from npusim.ops.convolution.plan import planar, queue, solid_of, window_of
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain


def build(call: Call, chain: Chain) -> None:
    """The sum for the bias, and what the weight's and the input's gradients are made of."""
    wanted = asked_for(call, *OUTPUTS)
    if "gradBias" in wanted:
        _bias(chain)
    if not {"gradInput", "gradWeight"} & set(wanted):
        return
    kind, hf32 = arithmetic(call)
    if call.spec("input").rank > PLANAR:
        _volumes(call, chain, wanted)
        return
    grads, x, weight = (
        chain.cast(planar(chain.input(name)), kind) for name in ("gradOutput", "input", "weight")
    )
    groups, transposed = call.integer("groups"), call.flag("transposed")
    layouts = Layouts(chain.profile, window_of(call), groups, hf32=hf32)
    if "gradInput" in wanted:
        out = chain.output("gradInput", kind)
        given = grads, weight, None, out.view(*x.shape)
        if transposed:
            queue(chain, layouts.forward("Conv2D", *given))
        else:
            queue(chain, layouts.back("Conv2DBackpropInput", *given))
        chain.finish("gradInput", out)
    if "gradWeight" in wanted:
        out = chain.output("gradWeight", FLOAT)
        before, behind = (grads, x) if transposed else (x, grads)
        queue(chain, layouts.of_weight(before, behind, out.view(*weight.shape)))
        chain.finish("gradWeight", out)


def _volumes(call: Call, chain: Chain, wanted: tuple[str, ...]) -> None:
    """The gradients of volumes; what they share is brought into its layout by each."""
    kind, hf32 = arithmetic(call)
    solid, transposed = solid_of(call, chain, hf32=hf32), call.flag("transposed")
    grads, x, weight = (
        chain.cast(chain.input(name), kind) for name in ("gradOutput", "input", "weight")
    )
    if "gradInput" in wanted:
        out = chain.output("gradInput", kind)
        if transposed:
            queue(chain, solid.forward(grads, weight, None, out))
        else:
            queue(chain, solid.back("Conv3DBackpropInput", grads, weight, None, out))
        chain.finish("gradInput", out)
    if "gradWeight" in wanted:
        out = chain.output("gradWeight", FLOAT)
        before, behind = (grads, x) if transposed else (x, grads)
        queue(chain, solid.of_weight(before, behind, out))
        chain.finish("gradWeight", out)


def _bias(chain: Chain) -> None:
    """The gradients of every output channel added up."""
    grads = chain.input("gradOutput")
    images, channels, *rest = grads.shape
    out = chain.output("gradBias", grads.dtype)
    sums = {"axes": [0, 2], "keep_dims": False}
    flat = grads.view(images, channels, prod(rest))
    queue(chain, kernels_on(Task(chain.profile, "ReduceSum", (flat,), (out,), sums)))
    chain.finish("gradBias", out)
