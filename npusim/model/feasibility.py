"""Which operators of a step a product can't run as they are, by contract or by catalogue.

An aclnn call is judged by the operator's own contract, shapes included; an operator type by the
catalogue, which knows dtypes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.catalogue.families import Place
from npusim.catalogue.listing import Listed
from npusim.catalogue.models import judge_all
from npusim.catalogue.verdicts import Outcome
from npusim.model.results import DtypeVerdict
from npusim.model.step import AclnnWork
from npusim.operators.oracle import check
from npusim.operators.tasks import TaskSpec

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Item, Step
    from npusim.values.tensors import TensorSpec


def judge(step: Step, profile: Profile) -> dict[str, DtypeVerdict]:
    """The verdict on every operator of the step that has tensors, by the item's signature."""
    found: dict[str, DtypeVerdict] = {}
    counts: dict[str, int] = {}
    known: dict[tuple[object, ...], DtypeVerdict] = {}
    for item in step.items:
        if item.work is None:
            continue
        counts[item.signature] = counts.get(item.signature, 0) + item.count
        if item.signature not in found:
            key = _question(item)
            if key not in known:
                known[key] = _verdict(item, profile)
            found[item.signature] = known[key]
    return {
        signature: DtypeVerdict(
            verdict.op, verdict.dtypes, verdict.outcome, verdict.why, counts[signature]
        )
        for signature, verdict in found.items()
    }


def together(verdicts: dict[str, DtypeVerdict]) -> tuple[DtypeVerdict, ...]:
    """Verdicts that differ in nothing but shapes as one, the refused ones first."""
    merged: dict[tuple[object, ...], DtypeVerdict] = {}
    for verdict in verdicts.values():
        key = (verdict.op, verdict.dtypes, verdict.outcome, verdict.why)
        count = merged[key].count if key in merged else 0
        merged[key] = DtypeVerdict(*key, count + verdict.count)
    order = (Outcome.REJECTED, Outcome.AFTER_FP16, Outcome.UNKNOWN, Outcome.RUNS)
    return tuple(sorted(merged.values(), key=lambda each: (order.index(each.outcome), each.op)))


def _question(item: Item) -> tuple[object, ...]:
    """What the verdict depends on: a contract looks at everything, the catalogue at dtypes."""
    if isinstance(item.work, TaskSpec):
        return (item.op, _input_dtypes(item.work), _dtypes(item.work.outputs))
    return (item.signature,)


def _verdict(item: Item, profile: Profile) -> DtypeVerdict:
    if isinstance(item.work, AclnnWork):
        return _by_contract(item, item.work, profile)
    if not isinstance(item.work, TaskSpec):
        return DtypeVerdict(item.op, (), Outcome.UNKNOWN, "the file has no tensors for it", 0)
    dtypes = _input_dtypes(item.work)
    listed = Listed(item.op, "kernel", dtypes, _dtypes(item.work.outputs))
    (row,) = judge_all([listed], [Place(profile.family, profile.name)])
    cell = row.cells[0]
    named = _named((*dtypes, *_dtypes(item.work.outputs)))
    return DtypeVerdict(item.op, named, cell.outcome, cell.why, 0)


def _by_contract(item: Item, work: AclnnWork, profile: Profile) -> DtypeVerdict:
    dtypes = tuple(dict.fromkeys(_dtypes((*item.inputs, *item.outputs))))
    status = check(work.op, profile, work.arguments)
    if status.ok:
        return DtypeVerdict(item.op, dtypes, Outcome.RUNS, "", 0)
    why = f"{status.name} ({status.code}): {status.message}"
    if item.uses_bf16:
        after = check(work.op, profile, work.in_fp16().arguments)
        if after.ok:
            return DtypeVerdict(item.op, dtypes, Outcome.AFTER_FP16, why, 0)
        why = f"in FLOAT16 too: {after.name} ({after.code}): {after.message}"
    return DtypeVerdict(item.op, dtypes, Outcome.REJECTED, why, 0)


def _input_dtypes(work: TaskSpec) -> tuple[str, ...]:
    return tuple("" if spec is None else spec.dtype.name for spec in work.inputs)


def _dtypes(specs: tuple[TensorSpec, ...]) -> tuple[str, ...]:
    return tuple(spec.dtype.name for spec in specs)


def _named(dtypes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in dtypes if name))
