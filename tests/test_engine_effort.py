"""How much the engine plays of loops that go on for long: iterations are counted, not seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.engine import Pipe, Program, lockstep
from npusim.engine.player import Player
from npusim.engine.steady import SteadyState
from support.programs import MemoryRates, Writer, machine, pipeline, play, spans, transfer

if TYPE_CHECKING:
    from npusim.engine.checkpoints import Checkpoint

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Turns:
    """The iterations that pipes have ended."""

    count: int = 0


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    turn, ended = Player._turn, Turns()

    def counting(*given: Any) -> bool:
        ended.count += 1
        return turn(*given)

    monkeypatch.setattr(Player, "_turn", counting)
    return ended


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
def test_who_waits_for_nobody_is_through_at_once_and_ends_when_playing_does(
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
def test_who_runs_ahead_for_long_is_not_played(turns: Turns, issue: int, follow: int) -> None:
    run = play((30, issued(20_000, 1, issue, 200, follow)))
    assert run.cycles == pytest.approx(20_000 * max(issue, follow, 200), rel=1e-3)
    assert turns.count < 1000


def test_flags_that_are_to_come_do_not_hinder_a_jump(turns: Turns) -> None:
    """The scalar unit has set flags of later turns, which nobody waits for yet."""
    run = play((1, issued(30, 1000, 1, 200, 1)))
    assert run.cycles == pytest.approx(30 * 1000 * 200, rel=1e-2)
    assert turns.count < 5000, turns.count


def late(cycles: float, count: int) -> Program:
    """A loop behind what takes some cycles once."""
    writer = Writer()
    writer.do(Pipe.MTE2, "once", cycles)
    moves = (transfer(8192, 100.0), transfer(8192, 60.0, buffer=2, write=True))
    writer.program.body += pipeline(count, 10, 50, 10, moves=moves, latency=25).body
    writer.program.flags += pipeline(count, 10, 50, 10).flags
    return writer.program


TIGHT = MemoryRates(hbm=700.0, l2_read=2000.0, l2_write=2000.0)


@pytest.mark.parametrize(("off", "alike"), [(0.001, True), (300.0, False)])
def test_groups_that_differ_by_nothing_are_played_once(
    turns: Turns, off: float, alike: bool
) -> None:
    groups = [(1, late(50.0 + off * index, 200)) for index in range(6)]
    run = play(*groups, on=machine(TIGHT))
    apart, turns.count = turns.count, 0
    once = play((6, late(50.0, 200)), on=machine(TIGHT))
    assert (apart == turns.count) is alike
    assert run.cycles == pytest.approx(once.cycles, rel=1e-4 if alike else 0.1)


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


def test_groups_that_are_never_in_step_go_on_for_their_averages(turns: Turns) -> None:
    begun = ((1, 2.0, 300), (7, 403.7, 300), (32, 911.3, 299))
    groups = [(cores, out_of_step(count, cycles)) for cores, cycles, count in begun]
    on = machine(MemoryRates(hbm=1e5, l2_read=2243.0, l2_write=1754.0))
    run = play(*groups, on=on)
    jumped = turns.count
    played = play(*groups, on=on, exact=True)
    assert jumped < 12_000  # twice as many where they are played until a state comes back
    assert run.cycles == pytest.approx(played.cycles, rel=0.01)
    for ours, theirs in zip(run.records, played.records, strict=True):
        assert [a.times for a in ours.totals()] == [b.times for b in theirs.totals()]
        assert ours.busy == pytest.approx(theirs.busy, rel=0.1)  # shares of memory change


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


def test_who_runs_away_slowly_does_not_hinder_the_others(turns: Turns) -> None:
    """It is through at once, to the end of its last iteration: others wait for flags it has set."""
    groups = ((2, rows_of(300, 16)), (34, rows_of(299, 38)), (4, rows_of(500, 23)))
    on = machine(MemoryRates(hbm=1e5, l2_read=2243.0, l2_write=1754.0))
    run = play(*groups, on=on)
    assert turns.count < 1500, turns.count  # a third more where it stays in its last iteration
    played = play(*groups, on=on, exact=True)
    assert run.cycles == pytest.approx(played.cycles, rel=1e-3)
    for ours, theirs in zip(run.records, played.records, strict=True):
        assert [a.times for a in ours.totals()] == [b.times for b in theirs.totals()]
        assert ours.busy == pytest.approx(theirs.busy, rel=1e-2)


def test_nobody_looks_where_everybody_is_for_each_of_many_groups(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, take = 0, SteadyState._checkpoint

    def counting(*given: Any) -> Checkpoint:
        nonlocal looked_at
        found = take(*given)
        looked_at += len(found.pipes)
        return found

    monkeypatch.setattr(SteadyState, "_checkpoint", counting)
    play(*((1, out_of_step(40, 1.0 + 397.3 * n)) for n in range(12)), on=machine(TIGHT))
    assert looked_at < 5 * turns.count  # three times as many where each of them does


def test_what_is_ahead_of_a_core_is_found_once_for_all_that_it_is_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, ahead = 0, lockstep._ahead

    def counting(*given: Any) -> Any:
        nonlocal found
        found += 1
        return ahead(*given)

    monkeypatch.setattr(lockstep, "_ahead", counting)
    groups = [(1, late(50.0 + 300.0 * index, 200)) for index in range(6)]
    play(*groups, on=machine(TIGHT))
    assert found == 6 * 3  # pipes, not pairs of them


@pytest.fixture
def roomy(tmp_path: Path) -> str:
    """A chip with more memory than any card has."""
    file = tmp_path / "roomy.yaml"
    file.write_text(
        "inherits: Ascend910B3\nname: Roomy\nmemory:\n  capacity_bytes: 1125899906842624\n"
        "  provenance:\n    capacity_bytes: {source: own_statement, confidence: assumed}\n"
    )
    return str(file)


# Cores that differ by what they do first, and share memory for long.
GROUP_NORMS = ((64, 512, 8192, 32), (50, 256, 9000, 16), (2**10, 2**10, 2**20, 32))


@pytest.mark.parametrize(("batch", "channels", "size", "group"), GROUP_NORMS)
def test_a_large_group_norm_is_played_in_some_thousand_iterations(
    turns: Turns, batch: int, channels: int, size: int, group: int, roomy: str
) -> None:
    x, each, gamma = (
        TensorSpec(shape, "bfloat16")
        for shape in ((batch, channels, size), (batch, group), (channels,))
    )
    Device(roomy).estimate(
        "aclnnGroupNormBackward", gradOut=x, input=x, mean=each, rstd=each, gamma=gamma, N=batch,
        C=channels, HxW=size, group=group, outputMask=[True, True, True],
    )  # fmt: skip
    assert turns.count < 5000, turns.count


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
    assert jumped.cycles == pytest.approx(played.cycles, rel=1e-4)
    for index, (ours, theirs) in enumerate(zip(jumped.records, played.records, strict=True)):
        assert ours.busy == pytest.approx(theirs.busy, rel=1e-3)
        pairs = zip(ours.totals(), theirs.totals(), strict=True)
        assert all(a.times == b.times for a, b in pairs)
        assert [s[:2] for s in spans(jumped, index)] == [s[:2] for s in spans(played, index)]


def test_of_few_steps_between_barriers_two_are_played(turns: Turns) -> None:
    counts = []
    for steps in (2, 3, 7):
        turns.count = 0
        play((2, in_steps(steps, (3, 2), 50, 900, 0.0)), (3, in_steps(steps, (2, 3), 9, 500, 0.0)))
        counts.append(turns.count)
    assert counts[1] <= counts[0] + 6, counts
    assert counts[2] == counts[1], counts
