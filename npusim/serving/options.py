"""The ways to serve that a plan considers: what was found of each, simulated or not."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.llm import Layout
    from npusim.serving.results import Served


@dataclass(frozen=True)
class Candidate:
    """One way to serve: a product, a precision, a layout and the most sequences of a step.

    With `decode` the cards of `layout` read prompts and others answer. With a `draft` steps verify
    so many tokens of each sequence.
    """

    product: str
    soc: str
    dtype: str
    layout: Layout
    max_sequences: int
    chips_per_card: int
    power_w_per_card: float | None = None
    price_per_card: float | None = None
    is_for_training: bool = False
    caution: str = ""
    decode: Layout | None = None
    graph: str = ""
    draft: int = 0

    @property
    def where(self) -> str:
        """The layout, or both."""
        if self.decode is None:
            return str(self.layout)
        return f"{self.layout} reads, {self.decode} answers"

    def cards(self, replicas: int, answering: int = 0) -> int:
        """Cards of so many replicas, and of so many that only answer."""
        ranks = replicas * self.layout.cards
        if self.decode is not None:
            ranks += answering * self.decode.cards
        return -(-ranks // self.chips_per_card)


@dataclass(frozen=True)
class Option:
    """A candidate that was tried.

    `rate_per_s` is what a replica answers in time, 0 where it never does; `served` is a replica at
    that rate, `replicas` and `cards` what the workload takes. Where prompts have cards of their own
    it is the whole fleet that is simulated: `replicas` read, `answering` decode. Of both so many
    are `spare`. `problem` says why it isn't possible, or why it wasn't `simulated`. `tried` are the
    rates that were simulated, slowest first, with what they gave.
    Counts of short runs are too low rather than too high; those that matter are `confirmed` by long
    ones: then `served` is a replica at its share of the load and `fewer` one where there is one
    replica less, `perhaps` are the fewest cards that aren't ruled out, and `slow_cards` those that
    the slow end of the band takes (None: no number).
    """

    candidate: Candidate
    rate_per_s: float = 0.0
    replicas: int = 0
    cards: int = 0
    served: Served | None = None
    problem: str = ""
    tried: tuple[tuple[float, Served], ...] = ()
    answering: int = 0
    simulated: bool = True
    spare: tuple[int, int] = (0, 0)
    confirmed: bool = False
    perhaps: int = 0
    fewer: Served | None = None
    slow_cards: int | None = None

    @property
    def surely(self) -> float:
        """The cards that do at the slow end of the band too, as far as is known."""
        if not self.confirmed:
            return self.cards
        return inf if self.slow_cards is None else max(self.cards, self.slow_cards)

    @property
    def meets(self) -> bool:
        """Whether some number of cards meets the objectives."""
        return self.cards > 0

    @property
    def power_w(self) -> float | None:
        """Watts of the cards; None where nobody says what a card takes."""
        each = self.candidate.power_w_per_card
        return None if each is None else self.cards * each

    @property
    def price(self) -> float | None:
        """What the cards cost in the currency of the plan; None where it has no price."""
        each = self.candidate.price_per_card
        return None if each is None else self.cards * each

    @property
    def needed(self) -> tuple[int, int]:
        """Replicas without spare ones, and those of them that only answer."""
        return self.replicas - self.spare[0], self.answering - self.spare[1]

    @property
    def working_replicas(self) -> int:
        """Times that what was simulated is there."""
        return self.needed[0] if self.candidate.decode is None else 1

    def per_card(self, served: Served) -> float:
        """Tokens a second of a card, when what was simulated does what was `served`."""
        if self.candidate.decode is not None:
            return served.output_tok_s / (self.cards or self.candidate.cards(1, 1))
        cards = self.candidate.layout.cards / self.candidate.chips_per_card
        return served.output_tok_s / cards
