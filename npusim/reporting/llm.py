"""A step of a language model: where the time goes, what memory holds, what runs instead of what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Facts, Page, Section, Table, Verdict, bullets
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import percent
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.llm import LlmStep
    from npusim.llm.memory import LlmMemory
    from npusim.llm.results import ExchangeTime

_GIB = 2**30


def step_page(found: LlmStep, top: int) -> Page:
    """One step on one product."""
    low, high = found.band_ms
    fits = say("fits") if found.memory.fits else say("doesn't fit into memory")
    refused = say("; the product refuses operators of it") if found.device.refused else ""
    verdict = Verdict(
        say(
            "{step_ms:.2f} ms a step ({low:.2f} to {high:.2f}), "
            "{tok_s:.0f} tokens/s; {fits}{refused}"
        ).format(
            step_ms=found.step_ms, low=low, high=high, tok_s=found.tok_s, fits=fits, refused=refused
        ),
        "good" if found.runs else "bad",
    )
    sections = [
        Section("time", [_times(found)]),
        Section("operators", [_operators(found, top)]),
        Section("collectives", [_exchanges(found)] if found.exchanges else []),
        Section("memory of a rank", [memory_facts(found.memory)]),
        *bullets("notes", _notes(found)),
    ]
    sizes = found.model.architecture
    drafts = (
        say(" and {draft_weights:.3g} in drafts").format(draft_weights=sizes.draft_weights / 1e9)
        if sizes.drafts
        else ""
    )
    title = say("{phase} of {model} on {cards} x {soc}").format(
        phase=found.batch.phase, model=found.model.name, cards=found.layout.cards, soc=found.soc
    )
    return Page(
        title,
        say(
            "{layout}, {precision}, {graph} graph, {batch}; "
            "{parameters:.4g} billion weights{drafts}"
        ).format(
            layout=found.layout,
            precision=found.precision.name,
            graph=found.graph,
            batch=_batch(found),
            parameters=sizes.parameters / 1e9,
            drafts=drafts,
        ),
        verdicts=[verdict],
        sections=[each for each in sections if each.blocks],
    )


def step_json(found: LlmStep) -> dict[str, Any]:
    """The same as data."""
    return {
        **fields(found, "soc graph step_ms compute_ms communication_ms host_ms beside_ms band_ms"),
        "tok_s": found.tok_s,
        "model": found.model.name,
        "layout": fields(found.layout, "tp pp dp experts sp cards"),
        "dtype": found.precision.name,
        "batch": fields(found.batch, "phase sequences context prompts chunk before tokens"),
        "simulated_share": found.simulated_share,
        "memory": memory_json(found.memory),
        "operators": [
            {**fields(each, "op tensors count total_us"), "how": each.timing.how.value}
            for each in found.device.operators
        ],
        "collectives": [
            fields(each, "operation why ranks nbytes count total_ms hidden_ms")
            for each in found.exchanges
        ],
        "replaced": dict(found.replaced),
        "refused": [fields(each, "op why") for each in found.device.refused],
        "notes": list(found.notes),
        "parameters": found.model.architecture.parameters,
        "draft_parameters": found.model.architecture.draft_weights,
        "approximated": [fields(each, "part why share") for each in found.guesses],
    }


def memory_json(memory: LlmMemory) -> dict[str, Any]:
    """Memory of a rank in bytes."""
    return fields(
        memory,
        "weights_bytes kv_bytes activation_bytes buffer_bytes total_bytes capacity_bytes "
        "usable_bytes kv_bytes_per_token kv_tokens fits",
    )


def memory_facts(memory: LlmMemory) -> Facts:
    """Memory of a rank."""
    rows = (
        ("weights", memory.weights_bytes),
        ("cache of this step", memory.kv_bytes),
        ("activations", memory.activation_bytes),
        ("engine's buffers", memory.buffer_bytes),
        ("together", memory.total_bytes),
        ("usable of the card", memory.usable_bytes),
    )
    sizes = [(name, _bytes(size)) for name, size in rows]
    return Facts(
        [
            *sizes,
            ("room in the cache", say("{kv_tokens} tokens").format(kv_tokens=memory.kv_tokens)),
        ]
    )


def _bytes(size: int) -> str:
    small = 0 < size < _GIB // 64
    return f"{size / 2**20:.1f} MiB" if small else f"{size / _GIB:.2f} GiB"


def _times(found: LlmStep) -> Table:
    parts = (
        ("compute", found.compute_ms),
        ("communication", found.communication_ms),
        ("host", found.host_ms),
    )
    rows = [(name, f"{ms:.3f}", percent(ms / found.step_ms)) for name, ms in parts]
    return Table(("part", "ms", "share"), rows, ("ms", "share"))


def _operators(found: LlmStep, top: int) -> Table:
    rows = [
        (each.op, each.tensors, str(each.count), f"{each.total_us / each.count:.1f}",
         f"{each.total_us / 1e3:.3f}", each.timing.how.value)
        for each in found.device.operators[:top]
    ]  # fmt: skip
    columns = ("operator", "tensors", "count", "us", "ms", "how")
    return Table(columns, rows, ("count", "us", "ms"), wide=("tensors",))


def _exchanges(found: LlmStep) -> Table:
    alike: dict[tuple[str, ...], list[ExchangeTime]] = {}  # of attention and of units, say
    for each in found.exchanges:
        what = each.operation, each.why, str(each.ranks), str(each.nbytes)
        alike.setdefault(what, []).append(each)
    rows = [
        (*what, str(sum(each.count for each in those)),
         f"{sum(each.total_ms for each in those):.3f}",
         f"{sum(each.hidden_ms for each in those):.3f}")
        for what, those in alike.items()
    ]  # fmt: skip
    columns = ("collective", "of", "ranks", "bytes", "count", "ms", "hidden")
    return Table(columns, rows, columns[2:])


def _notes(found: LlmStep) -> list[str]:
    simulated = percent(found.simulated_share)
    return [
        say("{simulated} of compute is simulated, the rest priced by its roofline").format(
            simulated=simulated
        ),
        *found.notes,
        *(
            say("approximated: {part}, {share} of compute: {why}").format(
                part=each.part, share=percent(each.share), why=each.why
            )
            for each in found.guesses
        ),
        *_beside(found),
        *(
            say("{op} isn't on this product: {instead} instead").format(op=op, instead=instead)
            for op, instead in found.replaced
        ),
        *(
            say("refused: {op}: {why}").format(op=each.op, why=each.why)
            for each in found.device.refused
        ),
    ]


def _beside(found: LlmStep) -> list[str]:
    if not found.beside_ms:
        return []
    return [
        say("{beside_ms:.3f} ms of random numbers are drawn beside, on their own stream").format(
            beside_ms=found.beside_ms
        )
    ]


def _batch(found: LlmStep) -> str:
    batch = found.batch
    parts = []
    if batch.sequences:
        parts.append(
            say("{sequences} sequences behind {context} tokens").format(
                sequences=batch.sequences, context=batch.context
            )
        )
    if batch.prompts:
        behind = say(" behind {before}").format(before=batch.before) if batch.before else ""
        parts.append(
            say("{prompts} prompts of {chunk} tokens{behind}").format(
                prompts=batch.prompts, chunk=batch.chunk, behind=behind
            )
        )
    return ", ".join(parts)
