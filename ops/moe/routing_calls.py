"""Calls of MoeInitRouting and its relatives: which rows there are, and where pairs' places lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ascendc.task import Task, made
from npusim.ops.moe.capacity import MoeInitRoutingPadded
from npusim.ops.moe.init_routing import MoeInitRouting, Results
from npusim.ops.moe.results import routed_rows
from npusim.values.dtypes import FLOAT, INT8, INT32, INT64, DType

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ops.moe.quantising import Scale

_CUMULATIVE = 1  # counts that add up those of the experts before


def moe_init_routing_v2(task: Task) -> tuple[Kernel, ...]:
    """x and the experts of its tokens: rows, places and, if asked for, tokens of experts."""
    x, experts = task.present(2)
    results = Results(*_outputs(task, x, experts, x.dtype), None, _counts(task))
    return _launch(task, x, experts, results)


def moe_init_routing(task: Task) -> tuple[Kernel, ...]:
    """x, ids of pairs and their experts: rows, places by choice, and the experts in order."""
    x, _, experts = task.present(3)  # ids are choice * tokens + token
    results = Results(*_outputs(task, x, experts, x.dtype), _sorted(task, experts))
    return _launch(task, x, experts, results, by_choice=True)


def moe_init_routing_quant(task: Task) -> tuple[Kernel, ...]:
    """As MoeInitRouting, rows as int8 by a scale and an offset."""
    x, _, experts = task.present(3)
    results = Results(*_outputs(task, x, experts, INT8), _sorted(task, experts))
    by = task.number("scale", 1.0), task.number("offset", 0.0)
    return _launch(task, x, experts, results, by_choice=True, scale=by)


def _given(
    task: Task,
) -> tuple[GlobalTensor, GlobalTensor, GlobalTensor | None, GlobalTensor | None]:
    """x, experts, a scale and an offset."""
    x, experts, scale, offset = (*task.inputs, *[None] * 4)[:4]
    if x is None or experts is None:
        raise task.refused("x and experts are needed")
    return x, experts, scale, offset


def moe_init_routing_quant_v2(task: Task) -> tuple[Kernel, ...]:
    """x, experts, a scale and an offset for all, or none: rows as int8, with a scale each."""
    x, experts, scale, offset = _given(task)
    dynamic = task.whole_number("quant_mode", 0) == 1
    if dynamic and (scale is not None or offset is not None):
        raise task.refused("scales that smooth rows aren't modelled")
    if not dynamic and (scale is None or offset is None or scale.numel + offset.numel != 2):
        raise task.refused("a scale and an offset of one element are needed")
    rows, places = _outputs(task, x, experts, INT8)
    given = (each for each in task.outputs[2:] if each.dtype is FLOAT)
    scales = next(given, made((rows.numel // x.shape[1],), FLOAT, "scales"))
    by = None if scale is None or offset is None else (scale, offset)
    results = Results(rows, places, None, _counts(task), scales if dynamic else None)
    return _launch(task, x, experts, results, scale=by)


def moe_init_routing_v3(task: Task) -> tuple[Kernel, ...]:
    """x and experts, all of which are here: rows, or those as int8 with a scale each.

    Counts are of 64 bits. Source: ops-transformer moe/moe_init_routing_v3 (document), whose
    schedule is that of the second version where every expert is taken.
    """
    x, experts, scale, offset = _given(task)
    taken, many = task.first("active_expert_range"), task.whole_number("expert_num", 1)
    if taken and tuple(taken) != (0, many):  # type: ignore[arg-type]
        raise task.refused(f"experts {taken} of {many}; all of them are modelled")
    mode = task.whole_number("quant_mode", -1)
    if mode not in (-1, 1) or scale is not None or offset is not None:
        raise task.refused("scales and offsets of rows aren't modelled")
    if task.whole_number("row_idx_type", 0):
        raise task.refused("pairs by rows instead of rows by pairs aren't modelled")
    active = task.whole_number("active_num", 0)
    if task.whole_number("drop_pad_mode", 0) or 0 < active < experts.numel:
        raise task.refused("fewer rows than pairs, and rooms for experts, aren't modelled")
    kind = task.whole_number("expert_tokens_num_type", 0)
    if kind not in (0, 1):
        raise task.refused("counts beside the numbers of their experts aren't modelled")
    rows, places = _outputs(task, x, experts, INT8 if mode == 1 else x.dtype)
    counts, scales = (
        given if (given := dict(enumerate(task.outputs)).get(at)) and given.numel else None
        for at in (2, 3)
    )
    if task.first("expert_tokens_num_flag") is False:
        counts = None
    elif counts is None:
        counts = made((many,), INT64, "counts")
    if mode == 1 and scales is None:
        scales = made((experts.numel,), FLOAT, "scales")
    results = Results(rows, places, None, counts, scales if mode == 1 else None)
    return _launch(task, x, experts, results, cumulative=kind == 0)


def moe_token_permute(task: Task) -> tuple[Kernel, ...]:
    """tokens and the experts of each: rows in the order of experts, and where each pair's is."""
    x, experts = task.present(2)
    if task.attributes.get("padded_mode", False):
        raise task.refused("the padded mode isn't modelled: its page has it for later")
    return _launch(task, x, experts, Results(*_outputs(task, x, experts, x.dtype)))


def _sorted(task: Task, experts: GlobalTensor) -> GlobalTensor:
    return task.outputs[2] if len(task.outputs) > 2 else made((experts.numel,), INT32, "sorted")


def _outputs(
    task: Task, x: GlobalTensor, experts: GlobalTensor, kind: DType
) -> tuple[GlobalTensor, GlobalTensor]:
    """Rows and places as they are given, or made up."""
    if len(x.shape) != 2 or not experts.shape or experts.shape[0] != x.shape[0]:
        raise task.refused(f"experts {experts.shape} of tokens {x.shape}")
    if experts.dtype is not INT32:
        raise task.refused(f"experts in {experts.dtype} aren't modelled")
    shape = routed_rows(task.op_type, x.shape, experts.shape, task.attributes)
    made_up = made(shape, kind), made((experts.numel,), INT32)
    rows, places = (*task.outputs[:2], *made_up[len(task.outputs) :])
    if rows.shape != shape or places.numel != experts.numel or not rows.numel:
        raise task.refused(f"{rows.shape} isn't the result")
    return rows, places


def _counts(task: Task) -> GlobalTensor | None:
    """The tokens of experts that a call asks for: of all, or before those without room go.

    Of two outputs for them the first is for the former; one alone is the one that is asked for.
    """
    padded = bool(task.whole_number("drop_pad_mode", 0))
    flag = "before_capacity_flag" if padded else "count_or_cumsum_flag"
    if not task.attributes.get(f"expert_tokens_{flag}"):
        return None
    given = [each for each in task.outputs[2:] if each.dtype is INT32]
    made_up = made((max(1, task.whole_number("expert_num", 1)),), INT32, "counts")
    return given[-1 if padded else 0] if given else made_up


def _launch(
    task: Task,
    x: GlobalTensor,
    experts: GlobalTensor,
    results: Results,
    *,
    by_choice: bool = False,
    scale: Scale | None = None,
    cumulative: bool | None = None,
) -> tuple[Kernel, ...]:
    """``cumulative`` counts are what a flag of the call asks for, where they aren't given."""
    if cumulative is None:
        cumulative = task.whole_number("expert_tokens_count_or_cumsum_flag", 0) == _CUMULATIVE
    given: dict[str, Any] = {"by_choice": by_choice, "cumulative": cumulative, "scale": scale}
    if task.whole_number("drop_pad_mode", 0) and results.scales is not None:
        raise task.refused("scales of rows with a capacity for each expert aren't modelled")
    if capacity := task.whole_number("drop_pad_mode", 0) and results.rows.shape[1]:
        given |= {"cumulative": False, "experts_room": (results.rows.shape[0], capacity)}
        return (MoeInitRoutingPadded(task.profile, x, experts, results, task.op_type, **given),)
    return (MoeInitRouting(task.profile, x, experts, results, task.op_type, **given),)
