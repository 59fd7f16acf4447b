"""What attention of inference takes where cube and vector unit share a core.

Source: ops-transformer, host tilings of prompt_flash_attention and incre_flash_attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ops.attention.records import layout_of

if TYPE_CHECKING:
    from npusim.ascendc.task import Task
    from npusim.ops.attention.call import Call

_LAYOUTS = ("BSH", "BNSD", "BSND")
_MOST_TOKENS, _GRAIN = 65536, 16
_MOST_PROMPTS, _MOST_BATCH = 128, 256
_MOST_ROWS, _MOST_COLUMNS = 32, 128  # where heads share keys


def unsuited(task: Task, call: Call) -> str | None:
    """Why a call isn't taken; None where it is."""
    queries, keys = (max(each.rows, default=0) for each in (call.query, call.key))
    layout, columns = layout_of(task), call.columns
    if layout not in _LAYOUTS:
        return f"layout {layout}; {', '.join(_LAYOUTS)} are taken"
    if columns % _GRAIN or call.value.columns != columns:
        return f"heads of {columns} elements; multiples of {_GRAIN} are taken"
    if max(queries, keys) > _MOST_TOKENS:
        return f"sequences of {max(queries, keys)} tokens; at most {_MOST_TOKENS} are taken"
    if call.shift is not None:
        return "a shift of scores (pseShift) isn't taken"
    if task.op_type == "PromptFlashAttention":
        return _unsuited_prompt(task, call, queries, keys)
    if call.query.batch > _MOST_BATCH:
        return f"{call.query.batch} sequences; at most {_MOST_BATCH} are taken"
    rows = call.group * queries
    if rows > 1 and (rows > _MOST_ROWS or columns > _MOST_COLUMNS):
        most = f"at most {_MOST_ROWS} and {_MOST_COLUMNS} are taken"
        return f"{rows} rows for each head of keys, of {columns} elements; {most}"
    if rows > 1 and (layout == "BNSD") is (call.key.pages is not None):
        wanted = "BSH or BSND" if call.key.pages is not None else "BNSD"
        return f"layout {layout} where heads share keys; {wanted} is taken"
    return None


def _unsuited_prompt(task: Task, call: Call, queries: int, keys: int) -> str | None:
    if call.query.batch > _MOST_PROMPTS:
        return f"{call.query.batch} sequences; at most {_MOST_PROMPTS} are taken"
    if call.key.pages is not None:
        return "a cache in pages isn't taken"
    if call.mask.tensor is None:
        return None
    own, theirs = (each.tensor.shape for each in (call.query, call.key))
    axis = 2 if layout_of(task) == "BNSD" else 1
    if own[axis] != theirs[axis] or own[axis] % _GRAIN:
        given = f"a mask for {own[axis]} queries and {theirs[axis]} keys"
        return f"{given}; as many of both, and a multiple of {_GRAIN}, are taken"
    before, after = (task.whole_number(name, 2**31 - 1) for name in ("pre_tokens", "next_tokens"))
    if before < queries or (after and after < keys):
        return f"preTokens {before} and nextTokens {after}; all before, and none or all behind"
    return None
