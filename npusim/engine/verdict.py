"""What limits a kernel, in the profiler's words, by one rule: :data:`RULE`.

The profiler compares performance with the roofs: above 80 % of one, the kernel is bound by it;
otherwise by latency, told apart by the busiest pipe. Source: msopprof user guide, roofline section.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.engine.machine import MemoryRates
    from npusim.engine.simulate import KernelRun, Traffic

BOUND_RATIO = 0.8  # the profiler's threshold

RULE = (
    "*Compute bound*: the cube or vector pipe is busy for more than 80 % of the task. *Memory "
    "bound*: HBM or L2 carry more than 80 % of what they can while cores work. Otherwise *latency "
    "bound*: if a pipe is busy for 80 % of the cores' time or more, the busiest one is the cause "
    "(*compute caused*: cube, vector or scalar; *memory caused*: copies, which then wait for "
    "their own start-ups or short bursts, not for HBM or L2); if none is, pipes wait for each "
    "other (*pipeline caused*)."
)

_COMPUTE = (Pipe.VECTOR, Pipe.CUBE, Pipe.SCALAR)


def l2_cycles(traffic: Traffic, rates: MemoryRates) -> float:
    """Cycles that the busier direction of the L2 needs for a kernel's transfers."""
    return max(traffic.l2_read_bytes / rates.l2_read, traffic.l2_written_bytes / rates.l2_write)


def verdict(run: KernelRun, ratios: Mapping[Pipe, float] | None = None) -> str:
    """``compute bound``, ``memory bound`` or ``latency bound: <...> caused``, by :data:`RULE`.

    ``ratios`` are the busy ratios of the run, for who has them.
    """
    busy = run.busy_ratios() if ratios is None else ratios
    compute = max(busy.get(Pipe.VECTOR, 0.0), busy.get(Pipe.CUBE, 0.0)) * _occupancy(run)
    memory = run.memory_cycles / run.core_cycles if run.core_cycles > 0 else 0.0
    if max(compute, memory) > BOUND_RATIO:
        return "compute bound" if compute >= memory else "memory bound"
    busiest = max(Pipe, key=lambda pipe: busy.get(pipe, 0.0))
    if busy.get(busiest, 0.0) < BOUND_RATIO:
        return "latency bound: pipeline caused"
    return f"latency bound: {'compute' if busiest in _COMPUTE else 'memory'} caused"


def _occupancy(run: KernelRun) -> float:
    """Share of the task that the cores work at all.

    A launch in which nothing runs counts against compute.
    """
    return run.core_cycles / run.cycles if run.cycles > 0 else 0.0
