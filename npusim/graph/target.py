"""What a network is compiled for: product family, precision, passes that are switched off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRECISIONS: Final = ("force_fp16", "origin")

IMPLEMENTATIONS: Final = ("Gelu", "Sigmoid")
"""What ATC's --optypelist_for_implmode may name for us: operators with a faster implementation."""

USUALLY_FAST: Final = ("Gelu",)
"""What is taken of them: that of Gelu, as most of the vendor's recipes of conversion ask for."""

# Source: CANN 8.1 op info libraries: MatMulV2 takes FRACTAL_NZ alone on these, ND too on A2.
_FRACTAL_PRODUCTS: Final = ("910", "310P")


@dataclass(frozen=True)
class Target:
    """`family` is that of the product; `off` names passes that don't run.

    `precision` is ATC's: ``force_fp16`` is the default offline, ``origin`` changes nothing. With
    `aipp` images come in bytes and are normalised by the image preprocessing unit. `fast` names
    the IMPLEMENTATIONS that are taken.
    """

    family: str
    precision: str = "force_fp16"
    off: frozenset[str] = frozenset()
    aipp: bool = False
    fast: frozenset[str] = frozenset(USUALLY_FAST)

    @property
    def fractal_products(self) -> bool:
        """Whether matrix products take their operands in FRACTAL_NZ."""
        return self.family in _FRACTAL_PRODUCTS
