"""What transfers take of the bandwidth that cores share."""

from __future__ import annotations

from typing import NamedTuple

Amounts = tuple[tuple[str, float], ...]


class Claim(NamedTuple):
    """What transfers of one kind on some cores at once take, at a ``ceiling`` for each core.

    ``demand`` names the resources that they use, and what each byte takes of them.
    """

    cores: int
    ceiling: float
    demand: Amounts

    @property
    def loads(self) -> Amounts:
        """Bytes per cycle of each resource for one byte per cycle of every core."""
        return tuple([(name, self.cores * amount) for name, amount in self.demand])

    @property
    def most(self) -> Amounts:
        """Those at the ceiling."""
        return tuple([(name, self.cores * self.ceiling * amount) for name, amount in self.demand])
