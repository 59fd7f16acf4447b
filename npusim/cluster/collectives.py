"""One collective operation on some ranks: what HCCL chooses, how long it takes, and the band."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, get_args

from npusim.cluster.closed_form import closed_form_us
from npusim.cluster.moves import Move
from npusim.cluster.operations import steps_of, whole_bytes
from npusim.cluster.playing import played_us
from npusim.cluster.wires import Wires
from npusim.hardware.interconnect import (
    Choice,
    Interconnect,
    Operation,
    interconnect_of,
    load_interconnect,
)
from npusim.hardware.provenance import CONFIDENCES
from npusim.hardware.reading import relative_uncertainty
from npusim.values.errors import ArgumentError, UnknownNameError
from npusim.values.takes import FLAG, TEXT, WHOLE, maybe, takes

if TYPE_CHECKING:
    from npusim.cluster.moves import Steps

OPERATIONS: Final = tuple(map(str, get_args(Operation)))
MOST_PLAYED: Final = 4096
"""Moves up to which a collective is played; beyond, the closed form is the answer."""

MEANING: Final = {
    "allreduce": "of the tensor",
    "broadcast": "of the tensor",
    "allgather": "that one rank gives",
    "reducescatter": "that one rank gets",
    "alltoall": "that one rank gives to all together",
    "sendrecv": "of the message",
}
"""What the bytes of a call are, as HCCL counts."""


@dataclass(frozen=True)
class Collective:
    """A collective on `ranks` chips.

    `algbw_gbps` is what hccl_test calls algorithm bandwidth: the whole tensor over the time.
    `closed_form_us` is the time with every move as long as the busiest of its links.
    """

    operation: str
    interconnect: str
    ranks: int
    nbytes: int
    algorithm: str
    engine: str
    steps: int
    duration_us: float
    band_us: tuple[float, float]
    band_basis: str
    closed_form_us: float
    algbw_gbps: float


@takes(operation=TEXT, soc=TEXT, cards=WHOLE, nbytes=WHOLE, interconnect=maybe(TEXT), in_graph=FLAG)
def collective(
    operation: str,
    soc: str,
    *,
    cards: int,
    nbytes: int,
    interconnect: str | None = None,
    in_graph: bool = False,
) -> Collective:
    """Estimate a collective: ``collective("allreduce", "910b3", cards=8, nbytes=2**20)``.

    `cards` are ranks: chips, or dies of Atlas A3. `nbytes` is what `MEANING` says. `in_graph` adds
    what ranks wait for each other inside a network. Raises UnknownNameError for an operation, chip
    or interconnect that nobody knows, ArgumentError for numbers out of range.
    """
    name = operation.casefold().replace("_", "").replace("-", "")
    name = {"alltoallv": "alltoall", "send": "sendrecv", "recv": "sendrecv"}.get(name, name)
    if name not in OPERATIONS:
        raise UnknownNameError("collective operation", operation, OPERATIONS)
    links = load_interconnect(interconnect) if interconnect else interconnect_of(soc)
    _check(links, cards, nbytes)
    return _collective(name, links, cards, nbytes, in_graph)


def duration_us(
    operation: str,
    links: Interconnect,
    ranks: int,
    nbytes: float,
    *,
    in_graph: bool = True,
    apart: int = 1,
) -> float:
    """The closed form alone, in microseconds: for steps of models that ask for many sizes.

    Ranks that lie `apart` have as many of other groups in between, which do the same.
    """
    if ranks == 1 or nbytes <= 0:
        return 0.0
    return _closed(operation, links, ranks, nbytes, in_graph, apart)


@lru_cache(maxsize=4096)
def _closed(
    operation: str, links: Interconnect, ranks: int, nbytes: float, in_graph: bool, apart: int
) -> float:
    choice = _chosen(links, operation, ranks, nbytes)
    server = max(1, links.server_ranks // apart)
    steps = steps_of(operation, choice.algorithm, ranks, server, nbytes)
    wires = Wires(links, links.engines[choice.engine], apart)
    return _closed_us(steps, wires, in_graph)


def _collective(
    operation: str, links: Interconnect, ranks: int, nbytes: int, in_graph: bool
) -> Collective:
    choice = _chosen(links, operation, ranks, nbytes)
    driver = links.engines[choice.engine]
    steps = steps_of(operation, choice.algorithm, ranks, links.server_ranks, nbytes)
    wires = Wires(links, driver)
    closed_us = _closed_us(steps, wires, in_graph)
    time_us = closed_us
    if sum(map(len, steps)) <= MOST_PLAYED:
        waiting_us = len(steps) * driver.in_graph_us if in_graph else 0.0
        time_us = _in_all(played_us(steps, wires), wires) + waiting_us
    least_sure = _least_sure(links, choice.engine)
    factor = 1 + relative_uncertainty(least_sure)
    return Collective(
        operation,
        links.name,
        ranks,
        nbytes,
        choice.algorithm,
        choice.engine,
        len(steps),
        time_us,
        (time_us / factor, time_us * factor),
        f"80 %, by the least sure value of {choice.engine} ({least_sure})",
        closed_us,
        whole_bytes(operation, ranks, nbytes) / time_us / 1e3,
    )


@dataclass(frozen=True)
class Reach:
    """What a rank can send to all others together, and how long it takes to be there.

    `step_us` until the last of them goes on, `write_us` until a single store is done on average.
    """

    bytes_per_us: float
    step_us: float
    write_us: float


@lru_cache(maxsize=256)
def reach(links: Interconnect, ranks: int, engine: str) -> Reach:
    """For kernels that send by themselves, as `engine` drives the links in collectives.

    As much goes to every other rank: a port carries all that leaves through it, whatever level it
    is for, in a mesh there is a link to each. A store takes as long as on average over them.
    """
    wires = Wires(links, links.engines[engine])
    busy_us, written_us = dict[str, float](), 0.0
    for other in range(1, ranks):
        move = Move(0, other, 1.0)
        name, rate = wires.used_by(move)[0]
        busy_us[name] = busy_us.get(name, 0.0) + 1.0 / rate
        written_us += wires.level_of(move)[1].write_us
    last = Move(0, ranks - 1, 0)
    away = ranks - 1
    return Reach(away / max(busy_us.values()), wires.latency_us(last), written_us / away)


def band_factor(links: Interconnect) -> float:
    """What a time on these links may be longer or shorter by, whichever engine drives them."""
    words = [_least_sure(links, engine) for engine in links.engines]
    return 1 + max(map(relative_uncertainty, words))


def _least_sure(links: Interconnect, engine: str) -> str:
    """The confidence of what sets most of the time: the start, and the rate that is reached."""
    keys = (f"engines.{engine}.start_us", f"engines.{engine}.rate_fraction")
    return max((links.provenance[key].confidence for key in keys), key=CONFIDENCES.index)


def _closed_us(steps: Steps, wires: Wires, in_graph: bool) -> float:
    waiting_us = len(steps) * wires.driver.in_graph_us if in_graph else 0.0
    return _in_all(closed_form_us(steps, wires), wires) + waiting_us


def _in_all(steps_us: float, wires: Wires) -> float:
    return max(wires.driver.least_us, wires.driver.start_us + steps_us)


def _chosen(links: Interconnect, operation: str, ranks: int, nbytes: float) -> Choice:
    shard = whole_bytes(operation, ranks, nbytes) / ranks
    return next(row for row in links.choices if row.fits(operation, ranks, nbytes, shard))


def _check(links: Interconnect, ranks: int, nbytes: int) -> None:
    if not 2 <= ranks <= links.most_ranks:
        raise ArgumentError(
            f"{ranks} ranks; {links.name} links 2 to {links.most_ranks}", "A rank is a chip."
        )
    if nbytes < 1:
        raise ArgumentError(f"a message of {nbytes} bytes", "Say 1 or more, e.g. 1MiB.")
