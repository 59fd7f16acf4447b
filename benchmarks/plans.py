"""Do plans decide as a run of a million requests does? Twenty random workloads, some minutes.

    python benchmarks/plans.py [WORKLOADS] [REQUESTS]

Every workload has its own latencies, batches, mix, arrivals, dispatch, quantile and limit. A plan
agrees where its number of cards is the fewest that a single long run of another seed keeps limit
and target utilisation with, or where it says that it is undecided between two and that number is
one of them. Exit code 1 when more than one in twenty does neither.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from npusim.capacity import (
    BurstyArrivals,
    GammaArrivals,
    Objective,
    PoissonArrivals,
    Sizer,
    Stream,
)
from npusim.capacity.dispatch import DISPATCH

if TYPE_CHECKING:
    from npusim.capacity import Arrivals, FleetRun

WORKLOADS = 20
REQUESTS = 1_000_000
SEED = 10**6  # of the long runs; plans count theirs from 1


def workload(number: int) -> tuple[Sizer, float]:
    """A workload, and its requests/s."""
    rng = np.random.default_rng(number)
    streams = tuple(_stream(f"m{place}", rng) for place in range(int(rng.integers(1, 3))))
    longest_us = max(stream.max_wait_us + stream.service_us[-1] for stream in streams)
    quantile = float(rng.choice([0.9, 0.95, 0.99]))
    service_cv = float(rng.choice([0.0, 0.3, 1.0]))
    # Batch times that vary reach beyond any limit near their mean, on however many cards.
    limit_us = longest_us * (1 + 4 * service_cv) * float(rng.uniform(1.2, 4))
    objective = Objective(quantile, limit_us, float(rng.uniform(0.5, 0.9)))
    sizer = Sizer(
        streams,
        _arrivals(rng),
        objective,
        dispatch=DISPATCH[int(rng.integers(len(DISPATCH)))],
        service_cv=service_cv,
    )
    return sizer, float(rng.uniform(0.6, 9)) * sizer.card_rate_per_s


def _stream(name: str, rng: np.random.Generator) -> Stream:
    batch = int(rng.choice([1, 1, 4, 8]))
    base_us, each_us = float(rng.uniform(300, 3000)), float(rng.uniform(50, 800))
    times_us = (0.0, *(base_us + each_us * n for n in range(1, batch + 1)))
    wait_us = float(rng.uniform(0, 2000)) if batch > 1 else 0.0
    return Stream(name, times_us, float(rng.uniform(1, 3)), wait_us)


def _arrivals(rng: np.random.Generator) -> Arrivals:
    kinds = (
        PoissonArrivals(),
        GammaArrivals(float(rng.uniform(0.5, 2))),
        BurstyArrivals(float(rng.uniform(1.5, 3)), 0.2, float(rng.uniform(0.01, 0.05))),
    )
    return kinds[int(rng.integers(len(kinds)))]


def keeps(sizer: Sizer, run: FleetRun) -> bool:
    """Whether a run keeps the plan's own rule: the limit, and the target utilisation."""
    objective = sizer.objective
    in_time = objective.latency_us(run) <= objective.limit_us
    return in_time and run.utilisation() <= objective.target_utilisation


def by_a_long_run(sizer: Sizer, rate_per_s: float, near: int, requests: int) -> int:
    """The fewest cards with which a single run keeps the limit, looked for around `near`."""
    fewest = sizer.closed_form_cards(rate_per_s)

    def holds(cards: int) -> bool:
        if rate_per_s >= cards * sizer.card_rate_per_s:
            return False
        run = sizer.run(cards, rate_per_s, SEED, length=requests)
        return keeps(sizer, run)

    cards = near
    while not holds(cards):
        cards += 1
    while cards > fewest and cards <= near and holds(cards - 1):
        cards -= 1
    return cards


def compare(workloads: int, requests: int) -> tuple[int, int, int]:
    """Print a line for each workload: how many agree, are undecided and right, or wrong."""
    agreed = open_ = wrong = 0
    for number in range(workloads):
        sizer, rate_per_s = workload(number)
        start = time.process_time()
        needed = sizer.needed(rate_per_s)
        seconds = time.process_time() - start
        if needed is None:
            msg = f"workload {number} takes more cards than may be tried"
            raise RuntimeError(msg)
        truth = by_a_long_run(sizer, rate_per_s, needed.cards, requests)
        if needed.perhaps < needed.cards:
            word = "undecided" if needed.perhaps <= truth <= needed.cards else "WRONG"
        else:
            word = "agrees" if truth == needed.cards else "WRONG"
        agreed, open_, wrong = (
            agreed + (word == "agrees"), open_ + (word == "undecided"), wrong + (word == "WRONG"),
        )  # fmt: skip
        sys.stdout.write(
            f"{number:3d} plan {needed.perhaps}..{needed.cards}, long run {truth}: {word}; "
            f"{seconds:.1f} s\n"
        )
        sys.stdout.flush()
    return agreed, open_, wrong


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    found = compare(*given, *(WORKLOADS, REQUESTS)[len(given) :])
    sys.stdout.write("{} agree, {} undecided with the right number, {} wrong\n".format(*found))
    sys.exit(found[2] * 20 > sum(found))
