"""Two profiles next to each other: what changed, on a page and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from npusim.model.changes import Way
from npusim.reporting.document import Section, Table, Text, Toned
from npusim.reporting.spelling import count, latency, percent
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.model.changes import Change, Changes, Side
    from npusim.reporting.document import Block, Tone

_TONES: Final[dict[Way, Tone]] = {
    Way.SLOWER: "bad",
    Way.NEW: "changed",
    Way.OFTEN: "bad",
    Way.FASTER: "good",
    Way.GONE: "changed",
    Way.SELDOM: "good",
    Way.SAME: "soft",
}


def changes_section(found: Changes, top: int) -> Section:
    """The whole in a sentence, operator types, and the kernels that changed most."""
    changed = [each for each in found.kernels if each.way is not Way.SAME]
    more = (
        say(", {top} of {changed}").format(top=top, changed=count(len(changed)))
        if len(changed) > top
        else ""
    )
    blocks: list[Block] = [
        Text(in_short(found)),
        _table(
            found.operators[:top],
            say("by operator type{of}").format(of=_of(top, len(found.operators))),
        ),
        *(
            [_table(changed[:top], say("kernels that changed{more}").format(more=more))]
            if changed
            else []
        ),
    ]
    return Section(say("since {before}").format(before=found.before.name), blocks)


def in_short(found: Changes) -> str:
    """How much longer or shorter the kernels take in all."""
    before_us, after_us = found.before_us, found.after_us
    by = after_us - before_us
    share = f" ({percent(abs(by) / before_us)})" if before_us else ""
    way = say("{by}{share} {value} than").format(
        by=latency(abs(by)), share=share, value="more" if by > 0 else "less"
    )
    return say("kernels take {after_us}, {way} the {before_us} of {before}").format(
        after_us=latency(after_us), way=way, before_us=latency(before_us), before=found.before.name
    )


def changes_json(found: Changes | None) -> dict[str, Any] | None:
    """The same as plain numbers; None where nothing was compared."""
    if found is None:
        return None
    return {
        "against": found.before.name,
        "before_us": found.before_us,
        "after_us": found.after_us,
        "operators": [_change_json(each) for each in found.operators],
        "kernels": [_change_json(each) for each in found.kernels],
    }


def _change_json(each: Change) -> dict[str, Any]:
    return {
        "op": each.op,
        "tensors": each.tensors,
        "change": each.way.value,
        "us": each.us,
        "before": _side_json(each.before),
        "after": _side_json(each.after),
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {"count": side.count, "total_us": side.total_us, "middle_us": side.middle_us}


def _table(found: Sequence[Change], caption: str) -> Table:
    rows = [
        (
            each.op,
            Toned(each.way.value.replace("_", " "), _TONES[each.way]),
            f"{'+' if each.us >= 0 else '-'}{latency(abs(each.us))}",
            *(f"{count(side.count)} x {latency(side.middle_us)}" if side.count else "none"
              for side in (each.before, each.after)),
            each.tensors,
        )
        for each in found
    ]  # fmt: skip
    columns = ("operator", "became", "by", "before", "now", "tensors")
    shown = len(columns) if any(each.tensors for each in found) else len(columns) - 1
    kept = [row[:shown] for row in rows]
    return Table(columns[:shown], kept, ("by", "before", "now"), caption, ("tensors",))


def _of(top: int, number: int) -> str:
    return say(", {top} of {number}").format(top=top, number=count(number)) if number > top else ""
