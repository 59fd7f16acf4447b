"""InterleaveRope: heads of tokens, pairs of whose neighbours are turned by angles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.library.interleaved import Interleaved, Rows

if TYPE_CHECKING:
    from npusim.ascendc import Kernel


def interleave_rope(task: Task) -> tuple[Kernel, ...]:
    """x [batch, heads, tokens, width], cosines and sines of the tokens."""
    x, cos, sin = task.present(3)
    if len(x.shape) != 4 or x.shape[-1] % 2 or cos.shape != sin.shape:
        raise task.refused(f"{x.shape} turned by {cos.shape} and {sin.shape}")
    batch, heads, tokens, width = x.shape
    if cos.shape != (batch, 1, tokens, width):
        raise task.refused(f"angles {cos.shape} for {x.shape}")
    y = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
    rows = (heads * tokens * width, width, tokens * width)
    flat = (x.view(x.numel), y.view(y.numel))
    source, target = (Rows(each, 0, *rows) for each in flat)
    sizes = (batch, tokens, heads)
    return (Interleaved(task.profile, source, cos, sin, target, sizes),)
