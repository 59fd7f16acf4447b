"""The service curve: how long a device takes for a batch, its band, and the memory it needs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

from npusim.capacity.units import US_PER_S
from npusim.values.errors import ArgumentError
from npusim.values.language import say

End = Literal["lo", "estimate", "hi"]
"""Which latency of the band: its fast end, the estimate itself, or its slow end."""


class ServicePoint(NamedTuple):
    """One batch: items in it, microseconds and their band, bytes of device memory."""

    batch: int
    latency_us: float
    lo_us: float
    hi_us: float
    memory_bytes: int | None = None


class ModelRef(Protocol):
    """What a latency source is told about a model: its name and the reference in the plan."""

    @property
    def name(self) -> str:
        """The name of the model in the plan."""
        ...

    @property
    def reference(self) -> str | None:
        """What the plan says to time: a file, a model's name; the source knows what it means."""
        ...


class ProductRef(Protocol):
    """What a latency source is told about a product: its name and the SoC on its cards."""

    @property
    def name(self) -> str:
        """The product's name."""
        ...

    @property
    def soc(self) -> str:
        """The SoC version, e.g. Ascend310P3."""
        ...


class LatencySource(Protocol):
    """Where the curves come from: the simulator, a profile, a table."""

    def curve(self, model: ModelRef, product: ProductRef) -> ServiceCurve:
        """The curve of one device of the product; `RejectedError` where it can't run the model."""
        ...


@dataclass(frozen=True)
class ServiceCurve:
    """Latency of a batch over its size: rising, linear between the points, flat below the first.

    Build it with `of`; beyond the last point nothing is known and `ArgumentError` says so.  `basis`
    is where the numbers come from, `not_simulated` the share of time that the simulator priced
    without simulating it, None for numbers that aren't the simulator's.
    """

    points: tuple[ServicePoint, ...]
    basis: str = ""
    raised: tuple[int, ...] = ()
    not_simulated: float | None = None

    @classmethod
    def of(
        cls,
        points: Iterable[ServicePoint],
        basis: str = "",
        not_simulated: float | None = None,
    ) -> ServiceCurve:
        """A curve through the points; a point faster than a smaller batch is raised to it.

        Such dips are real (a tile that fits exactly), but whoever plans shouldn't count on hitting
        them. The batches that were raised are in `raised`.  `ArgumentError` for points that can't
        be.
        """
        given = sorted(points)
        if not given:
            raise ArgumentError(say("a service curve needs at least one point"))
        for earlier, later in pairwise(given):
            if earlier.batch == later.batch:
                raise ArgumentError(
                    say("a service curve has two points for batch {batch}").format(
                        batch=later.batch
                    )
                )
        for point in given:
            _check(point)
        risen = [given[0]]
        for point in given[1:]:
            below = risen[-1]
            risen.append(
                ServicePoint(
                    point.batch,
                    max(point.latency_us, below.latency_us),
                    max(point.lo_us, below.lo_us),
                    max(point.hi_us, below.hi_us),
                    _most(point.memory_bytes, below.memory_bytes),
                )
            )
        raised = tuple(
            new.batch
            for new, old in zip(risen, given, strict=True)
            if new.latency_us > old.latency_us
        )
        return cls(tuple(risen), basis, raised, not_simulated)

    @classmethod
    def flat(cls, latency_us: float, max_batch: int = 1, basis: str = "") -> ServiceCurve:
        """A curve that takes the same time for every batch up to `max_batch`."""
        sizes = sorted({1, max_batch})
        return cls.of(
            (ServicePoint(size, latency_us, latency_us, latency_us) for size in sizes), basis
        )

    @property
    def max_batch(self) -> int:
        """The largest batch that the curve covers."""
        return self.points[-1].batch

    def at(self, batch: int) -> ServicePoint:
        """Latency, band and memory of one batch."""
        if not 1 <= batch <= self.max_batch:
            raise ArgumentError(
                say(
                    "batch {batch} is outside the service curve, which covers 1 to {max_batch}"
                ).format(batch=batch, max_batch=self.max_batch),
                say("Time larger batches, or lower max_batch."),
            )
        place = bisect_left(self.points, batch, key=lambda point: point.batch)
        right = self.points[place]
        if right.batch == batch or place == 0:
            return right._replace(batch=batch)
        left = self.points[place - 1]
        share = (batch - left.batch) / (right.batch - left.batch)
        return ServicePoint(
            batch,
            _between(left.latency_us, right.latency_us, share),
            _between(left.lo_us, right.lo_us, share),
            _between(left.hi_us, right.hi_us, share),
            # Memory is reserved in steps we don't know, so between two points it is the larger
            # one's.
            right.memory_bytes,
        )

    def latency_us(self, batch: int, end: End = "estimate") -> float:
        """Microseconds for one batch at one end of the band."""
        point = self.at(batch)
        return {"lo": point.lo_us, "estimate": point.latency_us, "hi": point.hi_us}[end]

    def throughput_per_s(self, batch: int, end: End = "estimate") -> float:
        """Items per second of a device that runs batches of this size back to back."""
        return batch / self.latency_us(batch, end) * US_PER_S


def _check(point: ServicePoint) -> None:
    if point.batch < 1:
        raise ArgumentError(
            say("a service curve has a point for batch {batch}; batches are 1 or more").format(
                batch=point.batch
            )
        )
    if not 0 < point.lo_us <= point.latency_us <= point.hi_us < float("inf"):
        raise ArgumentError(
            say(
                "batch {batch} takes {latency_us:g} us with a band of {lo_us:g} to {hi_us:g} us; "
                "latencies are positive and lie within their band"
            ).format(
                batch=point.batch, latency_us=point.latency_us, lo_us=point.lo_us, hi_us=point.hi_us
            )
        )


def _between(left: float, right: float, share: float) -> float:
    return left + (right - left) * share


def _most(*sizes_bytes: int | None) -> int | None:
    known = [size for size in sizes_bytes if size is not None]
    return max(known) if known else None
