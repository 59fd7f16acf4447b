"""How far off an estimate may be: the 80 % band of a task.

Where kernels of its class were measured on the chip (or on a sister of one microarchitecture), the
band is what the measurements left over of kernels that take about as long, stretched to what rows
need that came later; it is widened where only other classes or only a sister were measured. Where
nothing was, it follows from the confidence of the profile values that set the time: each part (the
launch, and the core time split by how busy the pipes are) is as uncertain as the least sure of
them, and the parts add up linearly, since their errors come from few numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.engine import KernelRun, Pipe
from npusim.hardware import relative_uncertainty
from npusim.hardware.residuals import calibration
from npusim.operators.registry import band_class
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.hardware.profile import Profile
    from npusim.hardware.residuals import Calibration

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

AI_CPU = "ai_cpu"
"""The class of kernels that AI CPUs run: their time depends on values that nobody knows."""


@dataclass(frozen=True, slots=True)
class Band:
    """Factors of a duration between which the truth lies in 80 % of cases, and why we think so."""

    low: float
    high: float
    basis: str


def band_of(kernel: Kernel, profile: Profile, run: KernelRun) -> Band:
    """The band of one task."""
    simulated_us = run.cycles / profile.clock_mhz
    name = AI_CPU if kernel.runs_on == AiCpuKernel.runs_on else kernel.op_type
    if found := measured_band(calibration(), profile, name, simulated_us):
        return found
    relative = by_confidence(profile, run)
    basis = say("confidence of the profile values used (nothing measured on this architecture)")
    return Band(1 / (1 + relative), 1 + relative, basis)


def measured_band(
    known: Calibration, profile: Profile, op_type: str, simulated_us: float
) -> Band | None:
    """The band of an operator that takes so long, by what was measured of its class and size.

    ``op_type`` is AI_CPU for whatever runs there. None for a chip of whose microarchitecture
    nothing was.
    """
    kind = op_type if op_type == AI_CPU else band_class(op_type) or op_type
    chip = known.chips.get(profile.name)
    family = known.architectures.get(profile.architecture)
    if chip is not None and (own := chip.of(kind)):
        low, high = own.at(simulated_us, known.sizes_us)
        return Band(
            low,
            high,
            say("{kind} kernels measured on {profile}").format(kind=kind, profile=profile.name),
        )
    if family is None:
        return None
    if shared := family.of(kind):
        basis = say("{kind} kernels measured on other {architecture} chips, widened").format(
            kind=kind, architecture=profile.architecture
        )
    else:
        many = "too few" if kind in family.classes else "no"
        among = say("{many} {kind} kernels among them").format(many=many, kind=kind)
        basis = say("all kernels measured on {architecture}, widened: {among}").format(
            architecture=profile.architecture, among=among
        )
    low, high = (shared or family.everything).at(simulated_us, known.sizes_us)
    return Band(low**known.unmeasured_widening, high**known.unmeasured_widening, basis)


def grounds(op_type: str, profile: Profile) -> str:
    """What the band of a kernel rests on.

    ``chip``: its class was measured on the chip; ``sister``: on another chip of the
    microarchitecture; ``others``: only other classes were, or too few kernels of its own;
    ``profile``: nothing was.
    """
    kind = band_class(op_type)
    known = calibration()
    chip = known.chips.get(profile.name)
    family = known.architectures.get(profile.architecture)
    if chip is not None and chip.of(kind):
        return "chip"
    if family is None:
        return "profile"
    return "sister" if family.of(kind) else "others"


def by_confidence(profile: Profile, run: KernelRun) -> float:
    """Half the width of the 80 % band of one task by confidence, relative to its duration."""
    if run.cycles <= 0:
        return 0.0
    launch = run.launch_cycles / run.cycles
    ratios = run.busy_ratios()
    busy = {pipe: ratios.get(pipe, 0.0) for pipe in Pipe}
    total = sum(busy.values())
    parts = (ratio * _of(profile, _VALUES[pipe]) for pipe, ratio in busy.items() if ratio)
    core = sum(parts) / total if total else 0.0
    return launch * _of(profile, _LAUNCH) + (1 - launch) * core


def _of(profile: Profile, keys: tuple[str, ...]) -> float:
    return max(relative_uncertainty(profile.provenance_of(key).confidence) for key in keys)


def values_behind(pipes: Iterable[str]) -> tuple[str, ...]:
    """The profile values that set the time of a task that uses these pipes, and of its launch."""
    wanted = set(pipes)
    used = (key for pipe in Pipe if str(pipe) in wanted for key in _VALUES[pipe])
    return tuple(dict.fromkeys((*used, *_LAUNCH)))
