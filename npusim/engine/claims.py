"""What transfers take of the bandwidth that cores share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """What transfers of one kind on some cores at once take, at a ``ceiling`` for each core.

    ``loads`` are the bytes per cycle of each resource for one byte per cycle of every core,
    ``most`` those at the ceiling; ``uses`` names the resources.
    """

    ceiling: float
    loads: tuple[tuple[str, float], ...]
    most: tuple[tuple[str, float], ...]
    uses: frozenset[str]

    @staticmethod
    def of(cores: int, ceiling: float, demand: Mapping[str, float]) -> Claim:
        """The claim of ``cores`` cores; ``demand`` is what each byte takes of each resource."""
        return _claim(cores, ceiling, tuple(demand.items()))


@lru_cache(maxsize=4096)
def _claim(cores: int, ceiling: float, demand: tuple[tuple[str, float], ...]) -> Claim:
    """Equal claims are one, so that transfers that meet again are known by who they are."""
    used = [(name, amount) for name, amount in demand if amount]
    return Claim(
        ceiling,
        tuple((name, cores * amount) for name, amount in used),
        tuple((name, cores * ceiling * amount) for name, amount in used),
        frozenset(name for name, _ in used),
    )
