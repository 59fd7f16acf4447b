"""Boards: what a plan needs to know about an Atlas product, or about a bare chip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.hardware.naming import caution_of, load_profile, resolve_soc
from npusim.hardware.products import products
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity.plan import ProductPlan


@dataclass(frozen=True)
class Board:
    """A product as the planner sees it; None is what nobody publishes and the plan doesn't say.

    A device is one chip with its own memory; the devices of a card fail together. `caution` is what
    must be said beside the answer, where the name may stand for another chip.
    """

    name: str
    soc: str
    devices_per_card: int
    cards_per_server: int | None
    memory_bytes_per_device: int | None
    power_w_per_card: float | None
    source: str
    note: str = ""
    is_for_training: bool = False
    caution: str = ""

    def amended(self, plan: ProductPlan) -> Board:
        """The board with what the plan knows better."""
        return replace(
            self,
            cards_per_server=plan.cards_per_server or self.cards_per_server,
            memory_bytes_per_device=plan.memory_bytes_per_device or self.memory_bytes_per_device,
            power_w_per_card=plan.power_w_per_card or self.power_w_per_card,
        )


def find_board(name: str) -> Board:
    """The product of this name (English, Chinese or nickname), or a chip as a card of its own.

    Raises `UnknownNameError` with near misses.
    """
    wanted = _letters(name)
    for product in products():
        if wanted in map(_letters, product.names):
            return Board(
                product.name_en,
                product.soc,
                product.chips_per_card,
                product.cards_per_server,
                product.memory_bytes_per_chip,
                product.power_w,
                product.source,
                product.notes,
                product.purpose == "training",
            )
    resolution = resolve_soc(name)
    chip = load_profile(resolution.name)
    return Board(
        chip.name,
        chip.name,
        1,
        None,
        chip.memory.capacity_bytes,
        None,
        chip.provenance_of("memory.capacity_bytes").source,
        say("{name} is a chip and no product: one chip a card is assumed. {note}")
        .format(name=name, note=resolution.note)
        .strip(),
        chip.family == "910",
        caution_of(chip.name),
    )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
