"""Chips that tokens are exchanged with: who has which experts, and what the links between carry.

Vector cores store rows into windows of the other chips' memory: the schedule of A3, which is taken
for A2 as well (there rows may go by RDMA, or by one chip of a server for all). Source:
ops-transformer mc2/moe_distribute_dispatch_v2 and moe_distribute_combine_v2, device schedules.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.cluster.collectives import Reach, reach
from npusim.hardware.interconnect import interconnect_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_DRIVER = "aiv"  # vector cores drive the links
_UNMODELLED = {
    "tp_world_size": "groups that share tokens",
    "shared_expert_rank_num": "shared experts on chips of their own",
    "copy_expert_num": "experts that give back what they get",
    "const_expert_num": "experts that give constants",
}
_ONE_IS_NONE = ("tp_world_size",)


class Peers(NamedTuple):
    """``ranks`` of them, this one's number, how many experts there are and the first of its own."""

    ranks: int
    rank: int
    experts: int

    @property
    def local(self) -> int:
        """Experts of a chip."""
        return self.experts // self.ranks

    @property
    def first(self) -> int:
        """The first expert that is here."""
        return self.rank * self.local

    def link(self, profile: Profile, cores: int) -> tuple[float, float]:
        """Bytes per cycle that links take from each of ``cores``, and their latency in cycles.

        What stays here they don't take.
        """
        if self.ranks == 1:
            return inf, 0.0
        found, away = self._reach(profile), (self.ranks - 1) / self.ranks
        clock_mhz = profile.clock_mhz
        return found.bytes_per_us / cores / away / clock_mhz, found.write_us * away * clock_mhz

    def latency_us(self, profile: Profile) -> float:
        """Until the last chip sees that everything is there."""
        return 0.0 if self.ranks == 1 else self._reach(profile).step_us

    def _reach(self, profile: Profile) -> Reach:
        return reach(interconnect_of(profile.name), self.ranks, _DRIVER)

    def received(self, ids: NDArray[np.int64] | None, pairs: int) -> NDArray[np.int64]:
        """Rows for each expert that is here, from each chip; evenly, where ``ids`` aren't known.

        All chips are taken to have the same tokens.
        """
        if ids is not None:
            counts = np.bincount(ids, minlength=self.experts)
            own = counts[self.first : self.first + self.local]
            return np.repeat(own, self.ranks).reshape(self.local, self.ranks)
        blocks = self.local * self.ranks
        ends = (np.arange(blocks + 1) * pairs * self.ranks) // (self.experts * self.ranks)
        return np.diff(ends).reshape(self.local, self.ranks)


def peers_of(task: Task) -> Peers:
    """From the attributes; KernelError for what isn't modelled."""
    links = interconnect_of(task.profile.name)
    if _DRIVER not in links.engines:
        raise task.refused("how servers of this product exchange tokens isn't modelled")
    for name, what in _UNMODELLED.items():
        if task.whole_number(name, 0) > (name in _ONE_IS_NONE):
            raise task.refused(f"{what} aren't modelled")
    ranks, experts = task.whole_number("ep_world_size", 1), task.whole_number("moe_expert_num", 1)
    rank = task.whole_number("ep_rank_id", 0)
    if not 1 <= ranks <= links.most_ranks or not 0 <= rank < ranks or experts % ranks:
        raise task.unfit(f"{experts} experts on {ranks} chips, of which this is number {rank}")
    return Peers(ranks, rank, experts)


def share(count: int, cores: int, block: int) -> tuple[int, int]:
    """The first of ``count`` that a core has, and how many: the first cores have one more."""
    each, more = divmod(count, cores)
    return each * block + min(block, more), each + (block < more)
