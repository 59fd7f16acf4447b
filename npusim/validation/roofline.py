"""A time from peaks, efficiencies, a static cost and the work of an operator: no simulation.

The yardstick that simulated times are held against, and the price of what isn't simulated. Peaks
are those of the chip's profile, efficiencies and static costs stand with their source in
hw_profiles/calibration/rooflines.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.hardware.residuals import rooflines
from npusim.validation.work import work_of

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.operators.tasks import TaskSpec
    from npusim.values.tensors import TensorSpec

_HALF = "float16"


def roofline_us(profile: Profile, task: TaskSpec) -> float:
    """Time of a task by traffic, arithmetic and what has to wait, in microseconds."""
    _, work = work_of(task)
    known = rooflines().yardstick
    memory = profile.memory
    nbytes = work.nbytes
    if nbytes is None:
        nbytes = sum(spec.nbytes for spec in (*task.inputs, *task.outputs) if spec is not None)
    memory_us = nbytes / (memory.hbm_nominal_gbps * known.memory_efficiency * 1e3)
    cube_us = work.cube / (_cube_tops(profile, task) * 1e6 * known.compute_efficiency)
    vector_us = work.lanes / (_lanes_per_us(profile) * known.compute_efficiency)
    wait_us = work.steps * memory.hbm_latency_cycles / profile.clock_mhz
    static_us = known.matrix_static_us if work.cube else known.vector_static_us
    return max(memory_us, cube_us, vector_us) + wait_us + static_us


def _lanes_per_us(profile: Profile) -> float:
    return profile.vector.repeat_bytes / 4 * profile.cores.vector_cores * profile.clock_mhz


def _cube_tops(profile: Profile, task: TaskSpec) -> float:
    """The peak for the narrower of the first two inputs; in FLOAT16 where the cube lacks it."""
    rates = [
        profile.cube_peak_tops(_cube_name(spec))
        for spec in task.inputs[:2]
        if spec is not None and _cube_name(spec) in profile.cube.dtypes
    ]
    return min(rates, default=profile.cube_peak_tops(_HALF))


def _cube_name(spec: TensorSpec) -> str:
    kind = spec.dtype.numpy
    return "" if kind is None else kind.name
