"""Demand: the arrival pattern of a plan, its mean rate and that of its busiest period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from npusim.capacity.arrivals import Arrivals, TraceArrivals
from npusim.capacity.plan import TracePlan, WorkloadPlan
from npusim.capacity.traces import read_trace


@dataclass(frozen=True)
class Demand:
    """What arrives: its pattern, its mean and the mean of its busiest period, in requests/s."""

    arrivals: Arrivals
    mean_per_s: float
    peak_per_s: float

    @classmethod
    def of(cls, workload: WorkloadPlan, folder: Path, say: Callable[[str], None]) -> Demand:
        """The demand of a workload; a trace is read from `folder`, `say` hears how far it is."""
        mean, peak = workload.mean_requests_per_s, workload.peak_requests_per_s
        if not isinstance(workload.arrivals, TracePlan):
            known = [rate for rate in (mean, peak) if rate is not None]
            return cls(workload.arrivals.pattern(), known[0], known[-1])
        file = folder / workload.arrivals.file
        trace = read_trace(
            file,
            drop_failed=workload.arrivals.drop_failed,
            progress=lambda rows, share: say(f"{file.name}: {rows:,} requests, {share:.0%}"),
        )
        busiest = TraceArrivals.busiest(trace, workload.arrivals.window_requests)
        recorded = TraceArrivals(trace.arrival_s, name=trace.name).rate_per_s
        scale = 1.0
        if mean is not None:
            scale = mean / recorded
        elif peak is not None:
            scale = peak / busiest.rate_per_s
        return cls(busiest, recorded * scale, busiest.rate_per_s * scale)
