"""Where the kernels of a profile come from, and what speaks against the chip asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.step import Step


def doubt(step: Step, profile: Profile, option: str = "-s") -> str:
    """Why a profile isn't of this chip and which one to give, in a sentence or two; else empty."""
    if step.profiled is None or not (why := step.profiled.chip.doubt(profile)):
        return ""
    return f"{why}. {step.profiled.chip.remedy(option)}"


def profiled_json(step: Step, profile: Profile) -> dict[str, Any] | None:
    """The table, what was left out of it, and the chip that it tells; None for other models.

    `fits` says whether the table can be of the chip that is asked about, `can_be` which chips it
    can be of: none where it doesn't tell, or tells of one that npusim hasn't got.
    """
    if step.profiled is None:
        return None
    found, chip = step.profiled, step.profiled.chip
    return {
        "file": found.file,
        "device_id": found.device_id or None,
        "skipped_lines": list(found.skipped_lines),
        "level_0": found.level_0,
        "chip": {
            "clock_mhz": chip.clock_mhz,
            "vector_cores": chip.vector_cores,
            "cube_cores": chip.cube_cores,
            "memory_gbps": chip.memory_gbps,
            "can_be": list(chip.fitting),
            "fits": chip.can_be(profile),
            "doubt": doubt(step, profile) or None,
        },
    }
