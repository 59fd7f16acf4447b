"""What pages and host code ask of a call of attention, as rows of a table that cites them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.operators.contract import Argument, Check, TensorArg
from npusim.ops.attention.asked import Asked
from npusim.values.status import StatusCode
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Finding

PARAM = StatusCode.ACLNN_ERR_PARAM_INVALID
TILING = StatusCode.ACLNN_ERR_INNER_TILING_ERROR
# What a tiling that fails gives where host code launches the operator itself (level 0), as for
# training and prompts; interfaces that are generated give TILING. Pages
# aclnnFlashAttentionScoreV3.md and aclnnFlashAttentionVarLenScoreV5.md, host code
# aclnn_prompt_flash_attention_inner.cpp; logs of devices in vllm-project/vllm-ascend issue 6573,
# vllm-project/vllm-omni issue 845 and PKU-YuanGroup/Open-Sora-Plan issue 360.
LAUNCH = StatusCode.ACLNN_ERR_INNER_NULLPTR

_SPLIT = ("A2", "A3")  # the products that these pages and tilings are for


@dataclass(frozen=True)
class Limit:
    """One rule: the code a device gives, the rule in words, who says so, and the test.

    ``families`` are the products it holds for, all where there are none.
    """

    code: StatusCode
    title: str
    source: str
    test: Callable[[Asked], Finding]
    families: tuple[str, ...] = _SPLIT


def limited(_: str, limit: Limit) -> Check:
    """The check that a row of a table stands for."""

    def test(call: Call) -> Finding:
        if limit.families and call.profile.family not in limit.families:
            return None
        return limit.test(Asked.of(call))

    return Check(limit.code, f"{limit.title} ({limit.source})", test)


def rows(limits: tuple[Limit, ...], first: str = "query") -> tuple[tuple[object, ...], ...]:
    """The rows of a definition's checks for a table."""
    return tuple((limited, first, limit) for limit in limits)


def launched(limits: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """The same limits where host code launches the operator itself."""
    return tuple(replace(each, code=LAUNCH) if each.code is TILING else each for each in limits)


def instead(asked: Asked, word: str, *shape: int) -> Mapping[str, Argument]:
    """The same tensor in another shape, as a remedy that is tried."""
    spec = asked.spec(word)
    assert spec is not None
    return {asked.name(word): TensorArg(TensorSpec(shape, spec.dtype))}
