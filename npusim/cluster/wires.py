"""What a move uses: links or ports with their bandwidths, and how many bytes of them it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.cluster.moves import Move
    from npusim.hardware.interconnect import Driver, Interconnect

_BYTES_PER_US = 1e3  # of a GB/s


@dataclass(frozen=True)
class Wires:
    """The links of an interconnect as one of HCCL's engines drives them."""

    interconnect: Interconnect
    driver: Driver

    def used_by(self, move: Move) -> tuple[tuple[str, float], ...]:
        """The links or ports of a move by name, each with its bytes per microsecond."""
        name, level = self.interconnect.level_of(move.source, move.target)
        rate = level.gbps * self.driver.rate_fraction * _BYTES_PER_US
        if level.shape == "mesh":
            return ((f"{name} {move.source}>{move.target}", rate),)
        return ((f"{name} {move.source} out", rate), (f"{name} {move.target} in", rate))

    def bus_bytes(self, move: Move) -> float:
        """Bytes that a link is busy with: more than there are where they are reduced."""
        return move.nbytes / self.driver.reduce_fraction if move.reduces else move.nbytes

    def latency_us(self, move: Move) -> float:
        """Microseconds before the bytes of a move flow."""
        _, level = self.interconnect.level_of(move.source, move.target)
        return level.step_us + self.driver.step_us + self.driver.rise(move.nbytes)
