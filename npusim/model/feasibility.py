"""Which operators of a step a product can't run as they are.

A call is judged as `npusim check` does, shapes included; a recorded task by the catalogue, which
knows dtypes: that a device has run it says more than what npusim has a kernel for.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from npusim.catalogue.verdicts import Answer, Outcome
from npusim.model.results import DtypeVerdict
from npusim.model.step import CUSTOM, AclnnWork, task_in_fp16
from npusim.operators import memory
from npusim.operators.listed import task_verdict
from npusim.operators.oracle import check
from npusim.operators.tasks import TaskSpec
from npusim.values.errors import UsageError
from npusim.values.language import say
from npusim.values.status import Verdict

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Item, Operation, Step
    from npusim.values.tensors import TensorSpec

WORST_FIRST: Final = (Outcome.REJECTED, Outcome.AFTER_FP16, Outcome.UNKNOWN, Outcome.RUNS)

UNHEARD: Final = "the catalogue doesn't know this operator"


def judge(step: Step, profile: Profile) -> dict[str, DtypeVerdict]:
    """The verdict on every operator of the step that has tensors, by the item's signature."""
    found: dict[str, DtypeVerdict] = {}
    counts: dict[str, int] = {}
    known: dict[tuple[object, ...], DtypeVerdict] = {}
    for item in step.items:
        if item.work is None:
            continue
        signature = item.operation.signature
        counts[signature] = counts.get(signature, 0) + item.count
        if signature not in found:
            key = _question(item.operation, profile)
            if key not in known:
                known[key] = _verdict(item, profile)
            found[signature] = known[key]
    return {
        signature: replace(verdict, count=counts[signature]) for signature, verdict in found.items()
    }


def together(verdicts: dict[str, DtypeVerdict]) -> tuple[DtypeVerdict, ...]:
    """Verdicts that differ in nothing but shapes as one, the refused ones first."""
    merged: dict[tuple[object, ...], DtypeVerdict] = {}
    for verdict in verdicts.values():
        key = (verdict.op, verdict.dtypes, verdict.outcome, verdict.why)
        count = merged[key].count if key in merged else 0
        merged[key] = replace(verdict, count=count + verdict.count)
    order = WORST_FIRST.index
    return tuple(sorted(merged.values(), key=lambda each: (order(each.outcome), each.op)))


def _question(asked: Operation, profile: Profile) -> tuple[object, ...]:
    """What the verdict depends on: a contract looks at everything, the catalogue at dtypes.

    Shapes count where tensors don't fit into the memory.
    """
    if isinstance(asked.work, TaskSpec) and memory.of_task(asked.work, profile) is None:
        return (asked.op, _input_dtypes(asked.work), _dtypes(asked.work.outputs))
    return (asked.signature,)


def _verdict(item: Item, profile: Profile) -> DtypeVerdict:
    if item.operation.engine == CUSTOM:
        return DtypeVerdict(item.op, (), Outcome.RUNS, "", 0)
    if isinstance(item.work, AclnnWork):
        return _of_call(item, item.work, profile)
    if isinstance(item.work, TaskSpec):
        return _of_task(item, item.work, profile)
    return DtypeVerdict(item.op, (), Outcome.UNKNOWN, say("the file has no tensors for it"), 0)


def _of_call(item: Item, work: AclnnWork, profile: Profile) -> DtypeVerdict:
    dtypes = _named(_dtypes((*item.operation.inputs, *item.operation.outputs)))
    status = check(work.op, profile, work.arguments)
    if status.ok:
        return DtypeVerdict(item.op, dtypes, Outcome.RUNS, "", 0)
    if status.verdict is Verdict.UNKNOWN:
        return DtypeVerdict(item.op, dtypes, Outcome.UNKNOWN, status.message, 0, None)
    why = status.sentence
    if item.operation.uses_bf16:
        with suppress(UsageError):  # in FLOAT16 the question may be one for more arguments
            after = check(work.op, profile, work.in_fp16().arguments)
            if after.ok:
                return DtypeVerdict(item.op, dtypes, Outcome.AFTER_FP16, why, 0, status.code)
            why = say("in FLOAT16 too: {sentence}").format(sentence=after.sentence)
    return DtypeVerdict(item.op, dtypes, Outcome.REJECTED, why, 0, status.code)


def _of_task(item: Item, work: TaskSpec, profile: Profile) -> DtypeVerdict:
    dtypes = _named((*_input_dtypes(work), *_dtypes(work.outputs)))
    if too_large := memory.of_task(work, profile):
        why = too_large.sentence
        return DtypeVerdict(item.op, dtypes, Outcome.REJECTED, why, 0, too_large.code)
    verdict = task_verdict(work, profile)
    if verdict is None:
        return DtypeVerdict(item.op, dtypes, Outcome.UNKNOWN, UNHEARD, 0)
    status = verdict.status
    if verdict.answer is not Answer.REJECTED:
        runs = verdict.answer is Answer.SUPPORTED
        outcome, why = (Outcome.RUNS, "") if runs else (Outcome.UNKNOWN, verdict.why)
        return DtypeVerdict(item.op, dtypes, outcome, why, 0)
    half = task_verdict(task_in_fp16(work), profile) if item.operation.uses_bf16 else None
    helps = half is not None and half.answer is Answer.SUPPORTED
    outcome = Outcome.AFTER_FP16 if helps else Outcome.REJECTED
    return DtypeVerdict(item.op, dtypes, outcome, status.sentence, 0, status.code)


def _input_dtypes(work: TaskSpec) -> tuple[str, ...]:
    return tuple("" if spec is None else spec.dtype.name for spec in work.inputs)


def _dtypes(specs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    return tuple(spec.dtype.name for spec in specs)


def _named(dtypes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in dtypes if name))
