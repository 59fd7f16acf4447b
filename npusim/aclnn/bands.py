"""How far off an estimate may be.

The 80 % band from the confidence of the profile values that it used.

Each part of a task's time (its launch, and its core time split by how busy the pipes are) is as
uncertain as the least sure of the values that set it. The parts add up linearly: their errors come
from the same few numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.engine import KernelRun, Pipe
from npusim.hardware import relative_uncertainty

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

BAND_BASIS = "confidence of the profile values used (not calibrated on measured operators)"

# The profile values that set the time of each pipe.
_VALUES: dict[Pipe, tuple[str, ...]] = {
    Pipe.SCALAR: ("scalar.alu_cycles",),
    Pipe.VECTOR: ("vector.instructions.vadd",),
    Pipe.CUBE: ("cube.dtypes",),
    Pipe.MTE1: ("paths.l1_to_l0a",),
    Pipe.MTE2: ("memory.hbm_sustained_fraction", "memory.l2_gbps", "paths.gm_to_ub"),
    Pipe.MTE3: ("memory.hbm_sustained_fraction", "memory.l2_gbps", "paths.ub_to_gm"),
    Pipe.FIXP: ("memory.hbm_sustained_fraction",),
}
_LAUNCH = ("launch.base_us", "launch.per_block_us")


def uncertainty(profile: Profile, run: KernelRun) -> float:
    """Half the width of the 80 % band of one task, relative to its duration."""
    if run.cycles <= 0:
        return 0.0
    launch = run.launch_cycles / run.cycles
    busy = {pipe: run.busy_ratio(pipe) for pipe in Pipe}
    total = sum(busy.values())
    core = (
        sum(ratio * _of(profile, _VALUES[pipe]) for pipe, ratio in busy.items() if ratio) / total
        if total
        else 0.0
    )
    return launch * _of(profile, _LAUNCH) + (1 - launch) * core


def band(duration_us: float, relative: float) -> tuple[float, float]:
    """The band around a duration: as many times faster as slower."""
    return duration_us / (1 + relative), duration_us * (1 + relative)


def _of(profile: Profile, keys: tuple[str, ...]) -> float:
    return max(relative_uncertainty(profile.provenance_of(key).confidence) for key in keys)
