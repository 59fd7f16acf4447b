"""Capacity: the cards that a workload needs under a latency objective."""

from npusim.capacity.arrivals import (
    Arrivals,
    BurstyArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    TraceArrivals,
)
from npusim.capacity.boards import Board, find_board
from npusim.capacity.deciding import Objective
from npusim.capacity.estimate import CONFIDENCE, Estimate
from npusim.capacity.fleet import Failures, Fleet, Outage, Stream, simulate
from npusim.capacity.latencies import SimulatedLatencies
from npusim.capacity.outcome import Course, FleetRun
from npusim.capacity.plan import Plan, plan_of, read_plan
from npusim.capacity.planning import evaluate
from npusim.capacity.results import (
    AtCards,
    CardCount,
    Cost,
    MemoryFit,
    ModelOnProduct,
    Operation,
    PlanResult,
    ProductResult,
    Scenario,
    Verdict,
)
from npusim.capacity.service import LatencySource, ServiceCurve, ServicePoint
from npusim.capacity.sizing import Effort, Sizer
from npusim.capacity.traces import Trace, iter_trace, read_trace

__all__ = [
    "CONFIDENCE",
    "Arrivals",
    "AtCards",
    "Board",
    "BurstyArrivals",
    "CardCount",
    "ConstantArrivals",
    "Cost",
    "Course",
    "Effort",
    "Estimate",
    "Failures",
    "Fleet",
    "FleetRun",
    "GammaArrivals",
    "LatencySource",
    "MemoryFit",
    "ModelOnProduct",
    "Objective",
    "Operation",
    "Outage",
    "Plan",
    "PlanResult",
    "PoissonArrivals",
    "ProductResult",
    "Scenario",
    "ServiceCurve",
    "ServicePoint",
    "SimulatedLatencies",
    "Sizer",
    "Stream",
    "Trace",
    "TraceArrivals",
    "Verdict",
    "evaluate",
    "find_board",
    "iter_trace",
    "plan_of",
    "read_plan",
    "read_trace",
    "simulate",
]
