"""The time of one operator on one chip, each distinct question simulated once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from npusim.catalogue.verdicts import Outcome
from npusim.engine import Code, L2State, Memo
from npusim.model.cache_state import IN_A_STEP, Residency
from npusim.model.not_simulated import Unsaid, carried_over
from npusim.model.records import leaves_out
from npusim.model.results import DtypeVerdict, Evidence, How, Timing
from npusim.model.step import AclnnWork, Item, Work, in_fp16
from npusim.operators.oracle import require_kernel
from npusim.operators.registry import band_class
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime import call as calls
from npusim.runtime.bands import grounds
from npusim.runtime.cache_start import empty_cache, hold_code, lost_code, prime
from npusim.runtime.task import run_tasks
from npusim.values.errors import NpusimError, RefusedTaskError, UnsaidError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.ascendc import GmBuffer, Kernel
    from npusim.hardware import Profile

_EVIDENCE = {
    "chip": Evidence.CHIP,
    "sister": Evidence.SISTER,
    "others": Evidence.OTHER_CLASS,
    "profile": Evidence.PROFILE,
}

_BY_INDEX = frozenset(
    ("UnsortedSegmentSum", "UnsortedSegmentSumD", "ScatterAdd", "ScatterNdAdd", "InplaceIndexAdd")
)
"""Operators that add at places which data name: repeated places wait for each other, so that the
time follows from the data more than from the shapes.  A measured time knows, the simulator doesn't.
"""

IN_FP16 = "in FLOAT16 in the place of BFLOAT16"
"""The note of an operator that runs here only so."""

_WHY_BY_INDEX = "its time follows from how often indices repeat, which the file doesn't say"


class Timer:
    """Times items on one chip and remembers; `measured_on` is where the file's times come from.

    Kernels of an offline model are compiled for `one_shape`.
    """

    def __init__(
        self,
        profile: Profile,
        l2: str,
        measured_on: Profile | None,
        memo: Memo | None = None,
        *,
        one_shape: bool = False,
    ) -> None:
        self.profile, self._one_shape = profile, one_shape
        self._l2 = l2
        self._measured_on = measured_on
        self._memo = Memo() if memo is None else memo
        self._known: dict[tuple[str, _Start], Timing | str] = {}

    def time(
        self,
        item: Item,
        residency: Residency,
        verdict: DtypeVerdict | None,
        write_back: float | None = None,
        times: int = 1,
    ) -> Timing:
        """The timing of one repetition of what a step runs so many `times`.

        `residency` and `write_back`, the share of results that drives modified bytes out of L2,
        count only where L2 follows the order.
        """
        if item.work is None or item.engine:
            return self._carried_over(item, item.operation.problem)
        if item.measured_us is not None and item.op in _BY_INDEX:
            return self._carried_over(item, _WHY_BY_INDEX)
        # Equal operators differ in their measured times, which a simulation doesn't ask for.
        start = _Start(residency, write_back, lost_code(self.profile, times))
        key = (item.operation.signature, start)
        if key not in self._known:
            found = self._ask(item.op, item.work, start, verdict)
            others = (self._ask(item.op, each, start, verdict) for each in item.operation.others)
            self._known[key] = _reaching(found, others)
        found = self._known[key]
        return found if isinstance(found, Timing) else self._carried_over(item, found)

    def _carried_over(self, item: Item, reason: str) -> Timing:
        return carried_over(item, self.profile, self._measured_on, reason)

    def _ask(
        self, op: str, work: Work, start: _Start, verdict: DtypeVerdict | None
    ) -> Timing | str:
        """The simulated timing, or why there is none."""
        if isinstance(work, TaskSpec) and not band_class(op):
            missing = leaves_out(work)
            return Unsaid(missing) if missing else say("{op} isn't simulated").format(op=op)
        if isinstance(work, AclnnWork) and work.contract is None:
            return "npusim has no kernel of it"
        outcome = None if verdict is None else verdict.outcome
        note = ""
        if outcome is Outcome.AFTER_FP16:
            work, note = in_fp16(work), IN_FP16
        elif outcome is Outcome.REJECTED:
            note = say("this product has no kernel for it; the time is as if it had")
        try:
            return self._simulate(work, start, note)
        except (UnsaidError, RefusedTaskError) as error:
            return Unsaid(error.problem)
        except NpusimError as error:
            if isinstance(work, TaskSpec) and (missing := leaves_out(work)):
                return Unsaid(missing)
            # `note` goes first: that the product refuses it matters more than how it was timed.
            reason = " ".join(error.message.split())
            return f"{note}; {reason}" if note else reason

    def _simulate(self, work: Work, start: _Start, note: str) -> Timing:
        plan = (
            _task_plan(self.profile, work)
            if isinstance(work, TaskSpec)
            else _call_plan(self.profile, work)
        )
        cache = empty_cache(self.profile)
        hold_code(cache, plan.kernels, self._l2, Code(start.lost_code, one_shape=self._one_shape))
        done = run_tasks(self._kernels(plan, cache, start), self.profile, cache, memo=self._memo)
        evidence = Evidence.CHIP
        if done.longest is not None:
            evidence = _EVIDENCE[grounds(done.longest.name, self.profile)]
        return Timing(
            done.duration_us,
            done.band_us,
            done.bound,
            How.SIMULATED,
            evidence,
            done.tasks,
            plan.workspace_bytes,
            note,
            plan.assumptions,
        )

    def _kernels(self, plan: _Plan, cache: L2State, start: _Start) -> Iterator[Kernel]:
        """The kernels of an item, with what L2 holds when they start."""
        if self._l2 in IN_A_STEP:
            memory = self.profile.memory
            cache.write_back_share = memory.l2_write_back_share
            if start.write_back is not None:
                cache.write_back_share = start.write_back
            cache.reuse_fraction = memory.l2_reuse_fraction
            held = dict(zip(plan.inputs, start.held, strict=bool(start.held)))
            for buffer in plan.given:
                if share := held.get(buffer.name):
                    cache.touch(buffer.number, share * buffer.nbytes)
            yield from plan.kernels
            return
        given = {buffer.number for buffer in plan.given}
        for kernel in plan.kernels:
            reads = [each for each in kernel.reads if each.buffer.number in given]
            prime(cache, reads, self._l2, self.profile, kernel.cold, kernel.writes)
            yield kernel


def _reaching(found: Timing | str, others: Iterable[Timing | str]) -> Timing | str:
    """A timing whose band reaches over those of the same work with other attributes."""
    if isinstance(found, str):
        return found
    bands = [found.band_us, *(each.band_us for each in others if isinstance(each, Timing))]
    low_us, high_us = min(low for low, _ in bands), max(high for _, high in bands)
    return replace(found, band_us=(low_us, high_us))


class _Start(NamedTuple):
    """What L2 holds of the inputs of an item, and the share of results that drives out others.

    Beside it the share of its code that the cores have lost.
    """

    held: Residency
    write_back: float | None
    lost_code: float


@dataclass(frozen=True)
class _Plan:
    """The kernels of one item; `inputs` names the buffers of its input tensors, in order."""

    kernels: tuple[Kernel, ...]
    inputs: tuple[str, ...]
    workspace_bytes: int = 0
    assumptions: tuple[str, ...] = ()

    @property
    def given(self) -> list[GmBuffer]:
        """The buffers that come from outside, each once."""
        found = {
            tensor.buffer.number: tensor.buffer
            for kernel in self.kernels
            for tensor in kernel.reads
            if tensor.buffer.name in self.inputs
        }
        return list(found.values())


def _task_plan(profile: Profile, work: TaskSpec) -> _Plan:
    names = tuple(f"x{index}" for index, spec in enumerate(work.inputs) if spec is not None)
    if work.outputs and all(spec.is_empty for spec in work.outputs):
        return _Plan((), names)  # nothing is written, so nothing is launched
    return _Plan(tuple(kernels_of(profile, work)), names)


def _call_plan(profile: Profile, work: AclnnWork) -> _Plan:
    contract = require_kernel(work.op, profile, work.arguments)
    workspace, executor = calls.get_workspace_size(
        contract, profile, work.arguments, numerics=False, assume=work.assume
    )
    tensors = {each.name for each in contract.inputs if each.kind == "tensor"}
    names = tuple(
        name for name, value in work.arguments.items() if name in tensors and value is not None
    )
    chain = executor.chain
    return _Plan(tuple(chain.tasks), names, workspace, tuple(chain.assumptions))
