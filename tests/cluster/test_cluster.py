"""Collectives: what was measured and what the vendor fitted, and what holds for any of them."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npusim
from npusim.cluster import Collective, collective
from npusim.cluster.collectives import OPERATIONS, duration_us, reach
from npusim.cluster.operations import steps_of, whole_bytes
from npusim.hardware.interconnect import interconnect_names, interconnect_of, load_interconnect
from npusim.hardware.products import products
from npusim.values.errors import ArgumentError, UnknownNameError
from support import commands

MIB = 2**20
INTERCONNECTS = interconnect_names()

# Atlas A3, one server: operation, dies, bytes a die, microseconds measured alone.
A3_LARGE = [
    ("allgather", 16, 3984588, 366.6),
    ("allgather", 16, 9227468, 679.0),
    ("allgather", 16, 22439526, 1628.0),
    ("allgather", 16, 41943040, 3080.2),
    ("reducescatter", 16, 3984588, 440.7),
    ("reducescatter", 16, 9227468, 808.5),
    ("allgather", 8, 3670016, 166.9),
    ("reducescatter", 8, 3670016, 202.1),
]
A3_SMALL = [
    ("allreduce", 16, 163840, 12.1),
    ("allgather", 16, 75776, 12.5),
    ("allgather", 8, 1024, 5.4),
    ("allgather", 8, 7168, 5.5),
    ("reducescatter", 8, 14336, 6.1),
]


@pytest.mark.parametrize(("operation", "dies", "nbytes", "measured_us"), A3_LARGE)
def test_large_messages_on_a3(operation: str, dies: int, nbytes: int, measured_us: float) -> None:
    found = collective(operation, "Ascend910_9391", cards=dies, nbytes=nbytes)
    assert found.duration_us == pytest.approx(measured_us, rel=0.15)
    assert found.engine == "ai_cpu"


@pytest.mark.parametrize(("operation", "dies", "nbytes", "measured_us"), A3_SMALL)
def test_small_messages_on_a3(operation: str, dies: int, nbytes: int, measured_us: float) -> None:
    found = collective(operation, "A3", cards=dies, nbytes=nbytes)
    assert found.duration_us == pytest.approx(measured_us, abs=3)
    assert found.engine == "aiv"


@pytest.mark.parametrize("mib", [9, 16, 64, 200, 1000])
def test_allreduce_on_a2_is_as_the_vendor_fits_it(mib: int) -> None:
    found = collective("allreduce", "910b3", cards=8, nbytes=mib * MIB)
    assert found.duration_us == pytest.approx(13.585 * mib + 61.5, rel=0.05)


def test_allgather_on_a2_reaches_the_rate_of_profiles() -> None:
    found = collective("allgather", "910b4", cards=8, nbytes=155_600_000)
    assert found.duration_us == pytest.approx(8500, rel=0.15)


@pytest.mark.parametrize(("chips", "mib", "fitted_us"), [(2, 8, 583.0), (4, 16, 2408.7)])
def test_allreduce_on_310p_is_as_the_vendor_fits_it(chips: int, mib: int, fitted_us: float) -> None:
    found = collective("allreduce", "Atlas 300I Duo", cards=chips, nbytes=mib * MIB)
    assert found.duration_us == pytest.approx(fitted_us, rel=0.15)


@pytest.mark.parametrize("name", INTERCONNECTS)
@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=10, deadline=None)
@given(ranks=st.sampled_from([2, 3, 4, 5, 8, 16, 24]), nbytes=st.integers(1, 2**28))
def test_the_closed_form_agrees_with_the_simulation(
    name: str, operation: str, ranks: int, nbytes: int
) -> None:
    links = load_interconnect(name)
    if ranks > links.most_ranks:
        return
    found = _on(name, operation, ranks, nbytes)
    # Ranks of a server and a half share ports with some that are further away than others.
    ragged = any(each.through for each in links.levels.values()) and ranks > links.server_ranks
    assert found.closed_form_us == pytest.approx(found.duration_us, rel=0.06 if ragged else 0.03)


@pytest.mark.parametrize("name", INTERCONNECTS)
@settings(max_examples=20, deadline=None)
@given(
    operation=st.sampled_from(OPERATIONS),
    ranks=st.integers(2, 8),
    nbytes=st.integers(1, 2**26),
    more=st.integers(1, 2**26),
)
def test_more_bytes_never_take_less_time(
    name: str, operation: str, ranks: int, nbytes: int, more: int
) -> None:
    few, many = (_on(name, operation, ranks, size) for size in (nbytes, nbytes + more))
    if few.algorithm == many.algorithm and few.engine == many.engine:
        assert many.closed_form_us >= few.closed_form_us * (1 - 1e-9)


@given(
    ranks=st.integers(2, 40),
    server=st.sampled_from([2, 4, 8]),
    algorithm=st.sampled_from(["mesh", "ring", "nhr"]),
)
def test_every_rank_gets_what_it_lacks(ranks: int, server: int, algorithm: str) -> None:
    """AllGather and ReduceScatter bring each rank the rest of the whole at least, no less."""
    for operation in ("allgather", "reducescatter"):
        steps = steps_of(operation, algorithm, ranks, server, 1000)
        got = [0.0] * ranks
        for step in steps:
            for move in step:
                got[move.target] += move.nbytes
        if operation == "allgather":
            lacking = whole_bytes(operation, ranks, 1000) - 1000
            assert all(each >= lacking - 1e-6 for each in got)
        assert isclose(sum(got) / ranks, got[0])


def test_every_product_says_how_its_chips_are_linked() -> None:
    assert {product.interconnect for product in products()} == set(INTERCONNECTS)
    assert interconnect_of("Atlas 300I Duo").name == "310p-duo"
    assert interconnect_of("310p3").name == "310p-cards"
    assert interconnect_of("Ascend910ProB").name == "910-server"


def test_every_number_of_a_link_has_a_source() -> None:
    for name in INTERCONNECTS:
        links = load_interconnect(name)
        keys = [f"levels.{level}.gbps" for level in links.levels]
        keys += [f"engines.{engine}.start_us" for engine in links.engines]
        assert set(keys) <= set(links.provenance)


def test_servers_of_a_supernode_share_the_ports_of_their_dies() -> None:
    """Less than 1 us more between servers, and not a byte more at once (CloudMatrix384)."""
    links = load_interconnect("a3-server")
    near, far = (duration_us("sendrecv", links, 2, 64, apart=each) for each in (2, 16))
    assert 0 < far - near <= 1
    two, four = (reach(links, ranks, "aiv").bytes_per_us for ranks in (32, 64))
    assert 147000 < four < two < 1.05 * 147000


def test_most_of_what_a2_sends_on_two_servers_takes_the_slow_way() -> None:
    links = load_interconnect("a2-server")
    roce = 25e3 * links.engines["aiv"].rate_fraction
    assert reach(links, 16, "aiv").bytes_per_us == pytest.approx(roce * 15 / 8)


def test_groups_are_linked_by_where_their_ranks_lie() -> None:
    """Eight ranks, one a server, have nothing of a server's mesh."""
    links = load_interconnect("a2-server")
    inside, across = (duration_us("allreduce", links, 8, 2**28, apart=each) for each in (1, 8))
    assert across > 2.5 * inside
    half = duration_us("allreduce", links, 4, 2**28, apart=2)
    assert half == duration_us("allreduce", links, 4, 2**28)


def test_a_network_waits_for_its_ranks() -> None:
    alone, inside = (
        collective("allreduce", "A3", cards=16, nbytes=163840, in_graph=flag)
        for flag in (False, True)
    )
    assert inside.duration_us - alone.duration_us == pytest.approx(7.8)


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="allreduce"):
        collective("alreduce", "910b3", cards=8, nbytes=8)
    with pytest.raises(ArgumentError, match="1 ranks"):
        collective("allreduce", "910b3", cards=1, nbytes=8)
    with pytest.raises(ArgumentError, match="bytes"):
        collective("allreduce", "910b3", cards=2, nbytes=0)
    with pytest.raises(UnknownNameError):
        collective("allreduce", "910b3", cards=2, nbytes=8, interconnect="a2")


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    said = commands.npusim(capsys, "collective allreduce -s 910b3 --cards 8 --json")
    assert said.json["duration_us"] == pytest.approx(41, rel=0.15)
    assert said.json["band_us"][0] < said.json["duration_us"] < said.json["band_us"][1]
    said = commands.npusim(capsys, "collective allgather -s 910b3,310p --bytes 64KB")
    assert "64000 that one rank gives" in said.out
    said = commands.npusim(capsys, "collective allreduce -s 910b3 --bytes much")
    assert said.code == 2
    assert "no size" in said.err


def test_the_public_function() -> None:
    assert isinstance(npusim.collective("broadcast", "910a", cards=8, nbytes=MIB), Collective)


def _on(name: str, operation: str, ranks: int, nbytes: int) -> Collective:
    return collective(operation, "", cards=ranks, nbytes=nbytes, interconnect=name)
