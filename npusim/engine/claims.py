"""What transfers take of the bandwidth that cores share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Amounts = tuple[tuple[str, float], ...]


class Claim(NamedTuple):
    """What transfers of one kind on some cores at once take, at a ``ceiling`` for each core.

    ``demand`` names the resources that they use, and what each byte takes of them.
    """

    cores: int
    ceiling: float
    demand: Amounts

    @classmethod
    def of(cls, cores: int, ceiling: float, demand: Mapping[str, float]) -> Claim:
        """The claim of ``cores`` cores, of which some resources may be asked for nothing."""
        return cls(cores, ceiling, tuple([each for each in demand.items() if each[1]]))

    @property
    def loads(self) -> Amounts:
        """Bytes per cycle of each resource for one byte per cycle of every core."""
        return tuple([(name, self.cores * amount) for name, amount in self.demand])

    @property
    def most(self) -> Amounts:
        """Those at the ceiling."""
        return tuple([(name, self.cores * self.ceiling * amount) for name, amount in self.demand])
