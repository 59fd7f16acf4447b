"""What a move uses: links or ports with their bandwidths, and how many bytes of them it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.cluster.moves import Move
    from npusim.hardware.interconnect import Driver, Interconnect, Level

_BYTES_PER_US = 1e3  # of a GB/s


@dataclass(frozen=True)
class Wires:
    """The links of an interconnect as one of HCCL's engines drives them.

    Ranks of a group that lie `apart` have as many of other groups in between.
    """

    interconnect: Interconnect
    driver: Driver
    apart: int = 1

    def level_of(self, move: Move) -> tuple[str, Level]:
        """The innermost level that joins the chips of a move, with the name of its ports."""
        return self.interconnect.level_of(move.source * self.apart, move.target * self.apart)

    def used_by(self, move: Move) -> tuple[tuple[str, float], ...]:
        """The links or ports of a move by name, each with its bytes per microsecond."""
        name, level = self.level_of(move)
        rate = level.gbps * self.driver.rate_fraction * _BYTES_PER_US
        if level.shape == "mesh":
            return ((f"{name} {move.source}>{move.target}", rate),)
        return ((f"{name} {move.source} out", rate), (f"{name} {move.target} in", rate))

    def bus_bytes(self, move: Move) -> float:
        """Bytes that a link is busy with: more than there are where they are reduced."""
        return move.nbytes / self.driver.reduce_fraction if move.reduces else move.nbytes

    def latency_us(self, move: Move) -> float:
        """Microseconds before the bytes of a move flow."""
        _, level = self.level_of(move)
        return level.step_us + self.driver.step_us + self.driver.rise(move.nbytes)
