"""The compiled player against the reference, in step and out of step."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.engine import KernelRun, Pipe, Program
from npusim.engine.compiled import play as compiled
from support.programs import MemoryRates, Writer, machine, play, spans, transfer

if TYPE_CHECKING:
    from pathlib import Path

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def issued(count: int, inner: int, issue: float, work: float, follow: float) -> Program:
    """A scalar unit that waits for nobody in a loop, who works for it, and who only follows it."""
    writer = Writer()
    first, second = (len(writer.program.flags) + n for n in range(2))
    writer.program.flags += [0, 0]
    tiles = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    writer.open(count)
    writer.open(inner)
    writer.do(Pipe.SCALAR, "issue", issue, sets=(first, second))
    writer.close()
    writer.open(inner)
    writer.do(Pipe.MTE2, "load", 3, waits=(tiles.free,), sets=(tiles.filled,))
    writer.do(Pipe.VECTOR, "add", work, waits=(first, tiles.filled), sets=(tiles.free,))
    writer.do(Pipe.MTE3, "note", follow, waits=(second,))
    writer.close()
    writer.close()
    return writer.program


@FEW
@given(
    st.integers(1, 60),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_who_waits_for_nobody_ends_when_playing_does(
    count: int, inner: int, issue: int, work: int, follow: int
) -> None:
    program = issued(count, inner, issue, work, follow)
    jumped, played = (play((1, program), exact=exact) for exact in (False, True))
    assert jumped.cycles == pytest.approx(played.cycles)
    assert jumped.records[0].busy == pytest.approx(played.records[0].busy)
    for one, other in zip(spans(jumped), spans(played), strict=True):
        assert one[:2] == other[:2]
        assert one[2:] == pytest.approx(other[2:])


@FEW
@given(
    st.integers(5, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 90), st.integers(1, 20)
)
def test_who_follows_in_bursts_ends_when_playing_does(
    count: int, inner: int, issue: int, think: int, follow: int
) -> None:
    """Flags that are set already come now close to each other, now after a while."""
    writer = Writer()
    writer.program.flags.append(0)
    writer.open(count)
    writer.open(inner)
    writer.do(Pipe.SCALAR, "issue", issue, sets=(0,))
    writer.close()
    writer.do(Pipe.SCALAR, "think", think)
    writer.close()
    writer.open(count * inner)
    writer.do(Pipe.MTE3, "note", follow, waits=(0,))
    writer.close()
    jumped, played = (play((1, writer.program), exact=exact) for exact in (False, True))
    for one, other in zip(spans(jumped), spans(played), strict=True):
        assert one[:2] == other[:2]
        assert one[2:] == pytest.approx(other[2:])


@pytest.mark.parametrize(("issue", "follow"), [(5, 1), (5, 300), (90, 1), (210, 1)])
def test_who_runs_ahead_for_long_ends_when_the_others_do(issue: int, follow: int) -> None:
    run = play((30, issued(20_000, 1, issue, 200, follow)))
    assert run.cycles == pytest.approx(20_000 * max(issue, follow, 200), rel=1e-3)


def test_who_waits_behind_a_long_loop_isnt_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scalar unit is thousands of flags ahead of the stores, and lets the next load begin."""
    writer = Writer()
    writer.program.flags += [0, 0]
    writer.open(20)
    writer.do(Pipe.MTE2, "load", 1, waits=(1,), moves=transfer(8192, 100.0))
    writer.close()
    writer.open(20)
    writer.open(3000)
    writer.do(Pipe.SCALAR, "issue", 2, sets=(0,))
    writer.close()
    writer.do(Pipe.SCALAR, "next", 2, sets=(1,))
    writer.close()
    writer.open(60_000)
    writer.do(Pipe.MTE3, "store", 90, waits=(0,))
    writer.close()
    monkeypatch.setattr(compiled, "LOOK_AFTER", 0)
    played = play((4, writer.program))
    monkeypatch.setattr(compiled, "LOOK_AFTER", 4096)
    assert_alike(play((4, writer.program)), played, 1e-6)


TIGHT = MemoryRates(hbm=700.0, l2_read=2000.0, l2_write=2000.0)


def out_of_step(outer: int, begun: float) -> Program:
    """Loops that share memory; for what the second moves there isn't enough of it."""
    writer = Writer()
    tiles = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    results = writer.queue(Pipe.VECTOR, Pipe.MTE3, 2)
    sums = writer.queue(Pipe.VECTOR, Pipe.SCALAR, 1)
    load, store = transfer(8192, 100.0), transfer(8192, 90.0, buffer=2, write=True)
    writer.do(Pipe.MTE2, "once", begun)
    writer.open(outer)
    for work, stores in ((180.0, False), (110.0, True)):
        free, filled = ((results.free,), (results.filled,)) if stores else ((), ())
        writer.open(16)
        writer.do(Pipe.MTE2, "load", 1, waits=(tiles.free,), sets=(tiles.filled,), moves=load)
        writer.do(Pipe.VECTOR, "add", work, waits=(tiles.filled, *free), sets=(tiles.free, *filled))
        if stores:
            writer.do(Pipe.MTE3, "store", 1, waits=filled, sets=free, moves=store)
        writer.close()
    writer.do(Pipe.VECTOR, "sum", 50, waits=(sums.free,), sets=(sums.filled,))
    writer.do(Pipe.SCALAR, "read", 5, waits=(sums.filled,), sets=(sums.free,))
    writer.close()
    return writer.program


def assert_alike(run: KernelRun, played: KernelRun, rel: float) -> None:
    """Two runs of one kernel, one of which may have been jumped through."""
    assert run.cycles == pytest.approx(played.cycles, rel=rel)
    for ours, theirs in zip(run.records, played.records, strict=True):
        assert [a.times for a in ours.totals()] == [b.times for b in theirs.totals()]
        assert ours.busy == pytest.approx(theirs.busy, rel=10 * rel)


# Groups of cores that share memory and are never in step.
UNEVEN = ((1, 2.0, 300), (7, 403.7, 300), (32, 911.3, 299))


def test_groups_that_are_never_in_step_end_to_the_cycle() -> None:
    groups = [(cores, out_of_step(count, begun)) for cores, begun, count in UNEVEN]
    on = machine(MemoryRates(hbm=1e5, l2_read=2243.0, l2_write=1754.0))
    assert_alike(play(*groups, on=on), play(*groups, on=on, exact=True), 1e-12)


@pytest.mark.parametrize("look_after", [50_000, 200_000])
def test_a_jump_lands_where_playing_does(look_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [(cores, out_of_step(10 * count, begun)) for cores, begun, count in UNEVEN]
    on = machine(MemoryRates(hbm=1e5, l2_read=2243.0, l2_write=1754.0))
    monkeypatch.setattr(compiled, "LOOK_AFTER", 0)
    played = play(*groups, on=on)
    assert played.jumped_cycles == 0.0
    monkeypatch.setattr(compiled, "LOOK_AFTER", look_after)
    jumped = play(*groups, on=on)
    assert jumped.jumped_cycles > 0.5 * played.cycles
    assert_alike(jumped, played, 2e-3)


@FEW
@given(
    st.integers(300, 2000), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40),
    st.integers(1, 40), st.integers(1000, 3000),
)  # fmt: skip
def test_jumps_through_random_loops_land_where_playing_does(
    count: int, inner: int, issue: int, work: int, follow: int, look_after: int
) -> None:
    program = issued(count, inner, issue, work, follow)
    played = play((3, program), (2, program))
    with patch.object(compiled, "LOOK_AFTER", look_after):
        assert_alike(play((3, program), (2, program)), played, 2e-3)


def rows_of(outer: int, inner: int) -> Program:
    """A scalar unit that issues a little faster than its work is done, in loops in a loop."""
    writer = Writer()
    tiles = writer.queue(Pipe.MTE2, Pipe.VECTOR, 1)
    issued = len(writer.program.flags)
    writer.program.flags.append(0)
    writer.open(outer)
    moves = transfer(4096, 100.0)
    writer.do(Pipe.MTE2, "load", 1, waits=(tiles.free,), sets=(tiles.filled,), moves=moves)
    writer.do(Pipe.VECTOR, "", 0, waits=(tiles.filled,))
    writer.open(inner)
    writer.do(Pipe.SCALAR, "issue", 81, sets=(issued,))
    writer.do(Pipe.VECTOR, "add", 90, waits=(issued,))
    writer.close()
    writer.do(Pipe.VECTOR, "", 0, sets=(tiles.free,))
    writer.close()
    return writer.program


def test_who_runs_away_slowly_ends_to_the_cycle() -> None:
    groups = ((2, rows_of(300, 16)), (34, rows_of(299, 38)), (4, rows_of(500, 23)))
    on = machine(MemoryRates(hbm=1e5, l2_read=2243.0, l2_write=1754.0))
    assert_alike(play(*groups, on=on), play(*groups, on=on, exact=True), 1e-12)


@pytest.fixture
def roomy(tmp_path: Path) -> str:
    """A chip with more memory than any card has."""
    file = tmp_path / "roomy.yaml"
    file.write_text(
        "inherits: Ascend910B3\nname: Roomy\nmemory:\n  capacity_bytes: 1125899906842624\n"
        "  provenance:\n    capacity_bytes: {source: own_statement, confidence: assumed}\n"
    )
    return str(file)


def test_a_group_norm_of_two_to_the_forty_elements_is_jumped_through(roomy: str) -> None:
    """Cores that differ by what they do first, and share memory for long."""
    batch, channels, size, group = 2**10, 2**10, 2**20, 32
    x, each, gamma = (
        TensorSpec(shape, "bfloat16")
        for shape in ((batch, channels, size), (batch, group), (channels,))
    )
    run = Device(roomy).estimate(
        "aclnnGroupNormBackward", gradOut=x, input=x, mean=each, rstd=each, gamma=gamma, N=batch,
        C=channels, HxW=size, group=group, outputMask=[True, True, True],
    )  # fmt: skip
    assert run.jumped_ratio > 0.9


def in_steps(turns: int, loads: tuple[int, ...], work: float, size: int, late: float) -> Program:
    """A loop of phases with a barrier in front of each: what loads bring is worked on."""
    writer = Writer()
    tiles = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    outside = writer.queue(Pipe.VECTOR, Pipe.MTE3, 1)
    writer.open(turns)
    for count in loads:
        writer.barrier()
        writer.open(count)
        moves = transfer(size, 60.0)
        writer.do(Pipe.MTE2, "load", 3, waits=(tiles.free,), sets=(tiles.filled,), moves=moves)
        writer.do(Pipe.VECTOR, "add", work, waits=(tiles.filled,), sets=(tiles.free,))
        writer.close()
        writer.do(Pipe.VECTOR, "end", 1, waits=(outside.free,), sets=(outside.filled,))
        waits, sets = (outside.filled,), (outside.free,)
        writer.do(Pipe.MTE3, "store", 5, waits=waits, sets=sets, latency=late)
    writer.close()
    return writer.program


@FEW
@given(
    st.integers(1, 12),
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
    st.integers(1, 90),
    st.integers(64, 4096),
    st.sampled_from((0.0, 30.0, 2000.0)),
    st.sampled_from((300.0, 1e6)),
)
def test_steps_between_barriers_end_when_playing_does(
    turns: int, loads: list[int], work: int, size: int, late: float, rate: float
) -> None:
    on = machine(MemoryRates(hbm=rate, l2_read=2 * rate, l2_write=rate))
    groups = [(n, in_steps(turns, tuple(each + n for each in loads), work, size, late))
              for n in (1, 2, 3)]  # fmt: skip
    jumped, played = (play(*groups, on=on, exact=exact) for exact in (False, True))
    assert jumped.cycles == pytest.approx(played.cycles, rel=1e-12)
    for index, (ours, theirs) in enumerate(zip(jumped.records, played.records, strict=True)):
        assert ours.busy == pytest.approx(theirs.busy, rel=1e-9)
        pairs = zip(ours.totals(), theirs.totals(), strict=True)
        assert all(a.times == b.times for a, b in pairs)
        assert [s[:2] for s in spans(jumped, index)] == [s[:2] for s in spans(played, index)]
