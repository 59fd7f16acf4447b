"""A chip as the engine sees it: bandwidths, barrier and launch in cycles of the core clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.engine.sharing import MemoryRates
from npusim.engine.simulate import Machine

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile


def machine_of(
    profile: Profile, block_dim: int, *, mix: bool = False, generated: bool = False
) -> Machine:
    """The machine that runs one kernel of ``block_dim`` blocks.

    ``mix`` for kernels on cube and vector cores, ``generated`` for those that the operator compiler
    made from a formula.
    """
    clock = profile.clock_mhz
    launch = profile.launch
    per_block_us = launch.per_block_us
    if not generated and launch.written_per_block_us is not None:
        per_block_us = launch.written_per_block_us
    launch_us = (
        launch.base_us + per_block_us * (block_dim - 1) + (launch.mix_extra_us if mix else 0.0)
    )
    l2_read = bytes_per_cycle(profile.l2_sustained_gbps, clock)
    rates = MemoryRates(
        hbm=bytes_per_cycle(profile.hbm_sustained_gbps, clock),
        l2_read=l2_read,
        l2_write=l2_read * profile.memory.l2_write_fraction,
    )
    return Machine(rates, profile.memory.l2_bytes, launch.sync_all_us * clock, launch_us * clock)


def bytes_per_cycle(gbps: float, clock_mhz: float) -> float:
    """GB/s as bytes per cycle of a clock in MHz."""
    return gbps * 1e3 / clock_mhz
