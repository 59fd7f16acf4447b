"""The device tasks of aclnnGroupNormBackward: one kernel from Atlas A2 on, a chain elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.hardware.families import BF16_FAMILIES
from npusim.ops.group_norm_backward import composed

if TYPE_CHECKING:
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain


def build(call: Call, chain: Chain) -> None:
    """Contiguous, Fill for a null gamma, GroupNormGrad, ViewCopy; or the composed chain."""
    if chain.profile.family not in BF16_FAMILIES:
        composed.build(call, chain)
        return
    channels = call.integer("C")
    wanted = dict(
        zip(("gradInput", "gradGammaOut", "gradBetaOut"), call.flags("outputMask"), strict=True)
    )
    if not any(wanted.values()):
        return
    tensors = [chain.input(name) for name in ("gradOut", "input", "mean", "rstd")]
    if call.is_given("gamma"):
        gamma = chain.input("gamma")
    else:
        gamma = chain.fill((channels,), tensors[0].dtype, 1.0, "gamma_ones")
    outputs = {name: chain.output(name) if flag else None for name, flag in wanted.items()}
    chain.launch(
        "GroupNormGrad",
        *tensors,
        gamma,
        batch=call.integer("N"),
        channels=channels,
        size=call.integer("HxW"),
        group=call.integer("group"),
        grad_input=outputs["gradInput"],
        grad_gamma=outputs["gradGammaOut"],
        grad_beta=outputs["gradBetaOut"],
    )
    for name, output in outputs.items():
        if output is not None:
            chain.finish(name, output)
