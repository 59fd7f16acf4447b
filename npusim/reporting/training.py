"""A training step: its parts, tokens a second, the memory of a rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Facts, Page, Section, Table, Verdict, bullets
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import percent
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.llm.training import TrainingStep

_GIB = 2**30
_KEPT = ("weights", "gradients", "optimizer", "activation", "buffer", "total", "capacity")


def training_page(found: TrainingStep) -> Page:
    """One training step on one product."""
    low, high = found.band_ms
    fits = "fits" if found.memory.fits else "doesn't fit into memory"
    verdict = Verdict(
        say(
            "{step_ms:.0f} ms a step ({low:.0f} to {high:.0f}), "
            "{tok_s_per_card:.0f} tokens/s per card; {fits}"
        ).format(
            step_ms=found.step_ms,
            low=low,
            high=high,
            tok_s_per_card=found.tok_s_per_card,
            fits=fits,
        ),
        "good" if found.memory.fits else "bad",
    )
    rows = [
        ("forward", f"{found.forward_ms:.1f}", say("a micro-batch on the slowest stage")),
        ("backward", f"{found.backward_ms:.1f}", say("the same, with what is computed again")),
        ("communication", f"{found.communication_ms:.1f}", say("of all micro-batches; in them")),
        ("bubble", f"{found.bubble_ms:.1f}", say("stages wait at both ends")),
        ("gradients", f"{found.exchange_ms:.1f}", "exchanged by data-parallel ranks"),
        ("update", f"{found.update_ms:.1f}", "the optimizer"),
    ]
    kept = [(name, f"{getattr(found.memory, f'{name}_bytes') / _GIB:.2f} GiB") for name in _KEPT]
    notes = [
        say("{simulated_share} of compute is simulated").format(
            simulated_share=percent(found.simulated_share)
        ),
        *(
            say("{op} isn't on this product: {instead} instead").format(op=op, instead=instead)
            for op, instead in found.replaced
        ),
    ]
    asked = found.training
    return Page(
        say("training {model} on {cards} x {soc}").format(
            model=found.model.name, cards=found.layout.cards, soc=found.soc
        ),
        say(
            "{layout}, sequences of {length}, {micro_batch} in a "
            "micro-batch, {global_batch} in a step, recompute {recompute}"
        ).format(
            layout=found.layout,
            length=asked.length,
            micro_batch=asked.micro_batch,
            global_batch=asked.global_batch,
            recompute=asked.recompute,
        ),
        verdicts=[verdict],
        sections=[
            Section("time", [Table(("part", "ms", "is"), rows, ("ms",), wide=("is",))]),
            Section("memory of a rank", [Facts(kept)]),
            *bullets("notes", notes),
        ],
    )


def training_json(found: TrainingStep) -> dict[str, Any]:
    """The same as data."""
    return {
        **fields(
            found,
            "soc step_ms forward_ms backward_ms communication_ms bubble_ms exchange_ms update_ms "
            "band_ms tok_s_per_card simulated_share",
        ),
        "model": found.model.name,
        "layout": fields(found.layout, "tp pp dp experts cards"),
        "training": fields(
            found.training, "length micro_batch global_batch recompute zero virtual"
        ),
        "memory": {
            **{f"{name}_bytes": getattr(found.memory, f"{name}_bytes") for name in _KEPT},
            "fits": found.memory.fits,
        },
        "replaced": dict(found.replaced),
    }
