"""The answer about one step of a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.values.display import latency

if TYPE_CHECKING:
    from npusim.llm.config import LanguageModel
    from npusim.llm.layout import Layout
    from npusim.llm.memory import LlmMemory
    from npusim.llm.precision import Precision
    from npusim.llm.workload import Batch
    from npusim.model.results import StepResult


@dataclass(frozen=True)
class ExchangeTime:
    """One kind of collective of a step: milliseconds of all of them together.

    `hidden_ms` of them pass beside a product. What ranks wait for each other is one that moves
    nothing.
    """

    operation: str
    why: str
    ranks: int
    nbytes: int
    count: int
    total_ms: float
    hidden_ms: float = 0.0


@dataclass(frozen=True)
class Guess:
    """A part of a step whose time is approximated: why, and its share of compute."""

    part: str
    why: str
    share: float


@dataclass(frozen=True)
class LlmStep:
    """A step on one product: its time in parts that add up, the band, and what it rests on.

    `compute_ms` are the device's tasks, `communication_ms` the collectives as far as nothing hides
    them, `host_ms` what the device waits for the host. `beside_ms` are tasks on a stream of their
    own that cost nothing here. `replaced` says what runs instead of what the product refuses,
    `guesses` which parts of the architecture are approximated.
    """

    model: LanguageModel
    soc: str
    layout: Layout
    precision: Precision
    batch: Batch
    graph: str
    step_ms: float
    compute_ms: float
    communication_ms: float
    host_ms: float
    beside_ms: float
    band_ms: tuple[float, float]
    memory: LlmMemory
    device: StepResult
    exchanges: tuple[ExchangeTime, ...]
    replaced: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    guesses: tuple[Guess, ...] = ()

    def __repr__(self) -> str:
        low, high = self.band_ms
        time = latency(self.step_ms * 1e3, (low * 1e3, high * 1e3))
        where = f"{self.soc}, {self.layout}"
        return f"<LlmStep {self.batch.phase} of {self.model.name} on {where}: {time}>"

    @property
    def simulated_share(self) -> float:
        """The share of compute that comes from kernels; the rest is priced by its roofline."""
        return self.device.simulated_share

    @property
    def runs(self) -> bool:
        """Whether it fits, and nothing in it is refused."""
        return self.memory.fits and not self.device.refused

    @property
    def tok_s(self) -> float:
        """Tokens a second of all data-parallel groups when such steps follow one another."""
        return self.batch.tokens * self.layout.dp / self.step_ms * 1e3
