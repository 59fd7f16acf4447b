"""Many chips: collectives as HCCL runs them over links that they share."""

from npusim.cluster.collectives import Collective, collective

__all__ = ["Collective", "collective"]
