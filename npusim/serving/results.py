"""What clients see and what the cards do: TTFT, TPOT, end to end, throughput, goodput."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final

from npusim.values.display import latency, significant
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from npusim.serving.engine import Outcome
    from npusim.serving.requests import Requests

DEFINITIONS: Final = {
    "TTFT": "from the moment the client sends a request to its first token",
    "TPOT": "from its first token to its last, over the tokens after the first; of each request",
    "end to end": "from the moment the client sends a request to its last token",
    "output tokens/s": "tokens of all requests over the time from the first sent to the last done",
    "goodput": "requests a second that meet every objective, over the same time",
}


def nearest_name(quantile: float) -> str:
    """The quantile of `Quantiles` that speaks of a limit for this share of the requests."""
    return "p99" if quantile > 0.9 else "p90" if quantile > 0.5 else "p50"


@dataclass(frozen=True)
class Quantiles:
    """Mean, quantiles and standard deviation over requests, milliseconds."""

    mean: float
    p50: float
    p90: float
    p99: float
    deviation: float = 0.0

    def nearest(self, quantile: float) -> float:
        """The one of p50, p90 and p99 that `nearest_name` names."""
        return float(getattr(self, nearest_name(quantile)))


@dataclass(frozen=True)
class Served:
    """The figures of one deployment; `groups` data-parallel groups are alike and added up."""

    requests: int
    duration_s: float
    output_tok_s: float
    req_s: float
    ttft_ms: Quantiles
    tpot_ms: Quantiles
    end_to_end_ms: Quantiles
    goodput_req_s: float
    in_flight: float
    preemptions: int
    steps: int
    busy_share: float
    kv_tokens: int
    most_kv_tokens: int
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def in_time(self) -> float:
        """The share of the requests that were within the objectives."""
        return self.goodput_req_s / self.req_s

    def of_one(self, replicas: int) -> Served:
        """What one of so many replicas does on average."""
        if replicas == 1:
            return self
        parts = (
            "requests", "output_tok_s", "req_s", "goodput_req_s", "in_flight", "preemptions",
            "kv_tokens", "most_kv_tokens", "input_tokens", "output_tokens",
        )  # fmt: skip
        whole = {name: getattr(self, name) for name in parts}
        each = {name: type(value)(value / replicas) for name, value in whole.items()}
        return replace(self, **each)

    def __repr__(self) -> str:
        rate, first, further = self.output_tok_s, self.ttft_ms.p90, self.tpot_ms.p90
        return (
            f"<Served {self.requests} requests: {significant(rate)} tokens/s, p90 of TTFT "
            f"{latency(first * 1e3)}, of TPOT {latency(further * 1e3)}>"
        )


@dataclass(frozen=True)
class Course:
    """Tokens in the caches over time, of sequences between their first token and their last."""

    times_s: tuple[float, ...]
    tokens: tuple[float, ...]


def course_of(requests: Requests, outcome: Outcome, *, points: int = 200) -> Course:
    """What the caches hold at so many times, from the first request to the last token.

    A prompt that is being read comes on top; a sequence grows evenly between its tokens.
    """
    import numpy as np

    first, done = np.asarray(outcome.first_ms), np.asarray(outcome.done_ms)
    rates = (requests.output_tokens - 1) / np.maximum(done - first, 1e-9)
    times_ms = np.linspace(min(outcome.sent_ms), done.max(), points)
    tokens = []
    for now in times_ms:
        alive = (first <= now) & (now < done)
        grown = (now - first[alive]) * rates[alive]
        tokens.append(float((requests.input_tokens[alive] + 1 + grown).sum()))
    return Course(tuple((times_ms - times_ms[0]) / 1e3), tuple(tokens))


def check_objectives(**limits_ms: float | None) -> None:
    """ArgumentError for a limit that nothing, or not even a number, could be within."""
    for name, limit_ms in limits_ms.items():
        if limit_ms is not None and not 0 < limit_ms < inf:
            raise ArgumentError(f"{name} is {limit_ms:g}", say("Say more than 0 milliseconds."))


def served(
    requests: Requests,
    outcome: Outcome,
    *,
    kv_tokens: int,
    block: int,
    groups: int = 1,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
) -> Served:
    """Figures of an outcome; objectives, where given, count for goodput."""
    import numpy as np

    sent, first, done = (
        np.asarray(each) for each in (outcome.sent_ms, outcome.first_ms, outcome.done_ms)
    )
    tokens = requests.output_tokens
    duration_s = float(done.max() - sent.min()) / 1e3
    to_first = first - sent
    per_token = (done - first) / np.maximum(1, tokens - 1)
    met = np.ones(len(requests), dtype=bool)
    if ttft_ms is not None:
        met &= to_first <= ttft_ms
    if tpot_ms is not None:
        met &= per_token <= tpot_ms
    return Served(
        len(requests) * groups,
        duration_s,
        float(tokens.sum()) * groups / duration_s,
        len(requests) * groups / duration_s,
        _quantiles(to_first),
        _quantiles(per_token[tokens > 1]),
        _quantiles(done - sent),
        float(met.sum()) * groups / duration_s,
        float((done - sent).sum()) / 1e3 / duration_s * groups,
        outcome.preemptions * groups,
        outcome.steps,
        outcome.busy_ms / 1e3 / duration_s,
        kv_tokens * groups,
        outcome.most_blocks * block * groups,
        int(requests.input_tokens.sum()) * groups,
        int(tokens.sum()) * groups,
    )


def _quantiles(values: NDArray[np.float64]) -> Quantiles:
    import numpy as np

    if not len(values):
        return Quantiles(0.0, 0.0, 0.0, 0.0)
    p50, p90, p99 = (float(each) for each in np.quantile(values, (0.5, 0.9, 0.99)))
    return Quantiles(float(values.mean()), p50, p90, p99, float(values.std()))
