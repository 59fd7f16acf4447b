"""Service curves: they rise, go through their points, and know where they end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.capacity.service import ServiceCurve, ServicePoint
from npusim.values.errors import ArgumentError


def point(batch: int, latency_us: float, memory_bytes: int | None = None) -> ServicePoint:
    return ServicePoint(batch, latency_us, 0.9 * latency_us, 1.2 * latency_us, memory_bytes)


CURVE = ServiceCurve.of((point(8, 300, 900), point(1, 100, 400), point(4, 160, 500)), "table")


@pytest.mark.parametrize(
    ("batch", "latency_us"), [(1, 100), (2, 120), (3, 140), (4, 160), (6, 230), (8, 300)]
)
def test_between_its_points_a_curve_is_straight(batch: int, latency_us: float) -> None:
    assert CURVE.latency_us(batch) == pytest.approx(latency_us)
    assert CURVE.latency_us(batch, "lo") == pytest.approx(0.9 * latency_us)
    assert CURVE.latency_us(batch, "hi") == pytest.approx(1.2 * latency_us)
    assert CURVE.throughput_per_s(batch) == pytest.approx(batch / latency_us * 1e6)


def test_memory_between_two_points_is_that_of_the_larger() -> None:
    assert [CURVE.at(batch).memory_bytes for batch in (1, 2, 4, 5, 8)] == [400, 500, 500, 900, 900]
    assert ServiceCurve.flat(10.0, 4).at(3).memory_bytes is None


def test_below_its_first_point_a_curve_is_flat() -> None:
    curve = ServiceCurve.of((point(4, 160), point(8, 300)))
    assert curve.latency_us(1) == 160
    assert curve.at(1).batch == 1


def test_a_point_faster_than_a_smaller_batch_is_raised_to_it() -> None:
    curve = ServiceCurve.of((point(1, 100), point(2, 90), point(4, 120)))
    assert [curve.latency_us(batch) for batch in (1, 2, 4)] == [100, 100, 120]
    assert curve.raised == (2,)
    assert CURVE.raised == ()


@given(
    st.dictionaries(st.integers(1, 64), st.floats(1, 1e6), min_size=1, max_size=8),
    st.data(),
)
def test_curves_never_fall(points: dict[int, float], data: st.DataObject) -> None:
    curve = ServiceCurve.of(point(batch, latency_us) for batch, latency_us in points.items())
    small = data.draw(st.integers(1, curve.max_batch))
    large = data.draw(st.integers(small, curve.max_batch))
    for end in ("lo", "estimate", "hi"):
        assert curve.latency_us(small, end) <= curve.latency_us(large, end) * (1 + 1e-12)
    place = curve.at(small)
    assert place.lo_us <= place.latency_us <= place.hi_us


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ((), "at least one point"),
        ((point(0, 100),), "batches are 1 or more"),
        ((point(1, -5),), "positive"),
        ((point(1, float("inf")),), "positive"),
        ((point(1, float("nan")),), "positive"),
        ((ServicePoint(1, 100, 110, 120),), "within their band"),
        ((ServicePoint(1, 100, 90, 95),), "within their band"),
        ((point(2, 100), point(2, 120)), "two points for batch 2"),
    ],
)
def test_points_that_cant_be_are_refused(points: tuple[ServicePoint, ...], complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        ServiceCurve.of(points)


@pytest.mark.parametrize("batch", [0, -1, 9])
def test_a_curve_says_what_it_covers(batch: int) -> None:
    with pytest.raises(ArgumentError, match="covers 1 to 8"):
        CURVE.at(batch)
