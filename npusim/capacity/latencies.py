"""Latencies from the simulator: the service curve of a model file on a product's chip.

A YAML model is timed at powers of two up to the largest batch that the plan may use, and at the
sizes that the plan names.  A profile has no batch axis: its one step is a batch of one item, and a
plan that wants more from it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npusim.capacity.service import ModelRef, ProductRef, ServiceCurve, ServicePoint
from npusim.engine import Memo
from npusim.hardware import load_profile
from npusim.hardware.naming import resolve_soc
from npusim.model.reading import ModelFile, read_model
from npusim.model.retiming import retime
from npusim.values.errors import ArgumentError, RejectedError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity.plan import ModelPlan, Plan
    from npusim.model.results import StepResult

UNSTATED_BATCH: Final = 32
"""How far a curve goes where the plan leaves the batch open."""


class SimulatedLatencies:
    """A latency source for `evaluate`: model references are files, looked for in `folder`.

    `results` keeps every timed step by model name, SoC and batch, for reports.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._plan = plan
        self._folder = folder or Path()
        self._say = progress
        self._memo = Memo()
        self._files: dict[tuple[str, str], ModelFile] = {}
        self._curves: dict[tuple[str, str], ServiceCurve | RejectedError] = {}
        self.results: dict[tuple[str, str], dict[int, StepResult]] = {}

    def curve(self, model: ModelRef, product: ProductRef) -> ServiceCurve:
        """The curve of one device; RejectedError where an operator of the model has no kernel."""
        key = (model.name, product.soc)
        if key not in self._curves:
            try:
                self._curves[key] = self._curve(self._planned(model.name), product)
            except RejectedError as rejection:
                self._curves[key] = rejection
        found = self._curves[key]
        if isinstance(found, RejectedError):
            raise found
        return found

    def _curve(self, model: ModelPlan, product: ProductRef) -> ServiceCurve:
        unfolded = self._model(model)
        origin = resolve_soc(model.measured_on).name if model.measured_on else None
        points = []
        timed = self.results.setdefault((model.name, product.soc), {})
        for batch in self._batches(model, unfolded):
            chip = load_profile(product.soc)
            step = unfolded.at(batch if unfolded.batch is not None else None, chip)
            result = retime(
                step,
                product.soc,
                l2=model.l2,
                measured_on=origin,
                host_dispatch_us=model.host_dispatch_us,
                progress=partial(self._tell, f"{product.name}: {model.name}, batch {batch}"),
                memo=self._memo,
            )
            timed[batch] = result
            _refuse_if_refused(model, result)
            points.append(
                ServicePoint(batch, result.duration_us, *result.band_us, result.memory.total_bytes)
            )
        share = max(result.not_simulated_share for result in timed.values())
        return ServiceCurve.of(points, _basis(timed), share)

    def _batches(self, model: ModelPlan, unfolded: ModelFile) -> list[int]:
        stated = self._plan.workload.batching_of(model).max_batch
        items = model.items_per_request
        if unfolded.batch is None:
            if max(items, stated or 1) > 1:
                raise ArgumentError(
                    say(
                        "model {name!r}: {reference} has no batch axis, so its latency is known "
                        "for one item at a time, and the plan asks for batches of {items}"
                    ).format(
                        name=model.name, reference=model.reference, items=max(items, stated or 1)
                    ),
                    say(
                        "Set max_batch and items_per_request to 1 (one item is one step of the "
                        "file), or write the model as a YAML list of calls with {B} for the "
                        "batch."
                    ),
                )
            return [1]
        most = stated or max(UNSTATED_BATCH, items)
        doubled = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
        return sorted({*doubled, items, most})

    def _model(self, model: ModelPlan) -> ModelFile:
        key = (model.name, model.reference or "")
        if key not in self._files:
            self._files[key] = read_model(self._folder / (model.reference or ""))
        return self._files[key]

    def _planned(self, name: str) -> ModelPlan:
        return next(model for model in self._plan.workload.models if model.name == name)

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._say is not None:
            self._say(f"{what}: {done} of {total} operators")


def _refuse_if_refused(model: ModelPlan, result: StepResult) -> None:
    if not result.refused:
        return
    first = result.refused[0]
    more = f" (and {len(result.refused) - 1} more)" if len(result.refused) > 1 else ""
    raise RejectedError(
        say("{op} of model {name!r} with {dtypes}: {why}{more}").format(
            op=first.op,
            name=model.name,
            dtypes=", ".join(first.dtypes),
            why=first.why.rstrip("."),
            more=more,
        ),
        say("`npusim model` lists every operator that is refused."),
    )


def _basis(timed: Mapping[int, StepResult]) -> str:
    """Where the numbers come from, in words; shares are those of the largest batch."""
    last = timed[max(timed)]
    words = [
        f"simulated ({last.soc}, {last.simulated_share:.0%} of the time)",
        f"{last.calibrated_share:.0%} of the time by operators of measured classes",
    ]
    if last.needs_fp16:
        names = ", ".join(dict.fromkeys(each.op for each in last.needs_fp16))
        words.append(f"in FLOAT16 instead of BFLOAT16: {names}")
    kept = dict.fromkeys(
        f"{each.item.op} ({each.timing.how.value})"
        for each in last.items
        if each.timing.how.name != "SIMULATED"
    )
    if kept:
        words.append(f"not simulated: {', '.join(kept)}")
    if last.host_dispatch_us:
        words.append(f"with {last.host_dispatch_us:g} us of host time for each operator")
    else:
        words.append("no host dispatch")
    words += [f"assumed: {line}" for line in last.assumptions]
    return "; ".join(words)
