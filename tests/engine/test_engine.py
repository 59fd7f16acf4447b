"""The engine: pipes in parallel, queues, flags, barriers, and the jump over what repeats."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim.engine import KernelRun, Pipe, Program
from npusim.engine.player import Player
from npusim.engine.schedule import Kind, Repeat, projected
from npusim.values.errors import DeadlockError, KernelError
from support.programs import (
    SYNC_CYCLES,
    MemoryRates,
    Writer,
    calculated,
    machine,
    pipeline,
    play,
    spans,
    transfer,
)

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

cycles = st.integers(1, 60)
depths = st.integers(1, 3)


def near(one: float, other: float) -> bool:
    """Equal up to what a float clock can resolve over the whole run."""
    return abs(one - other) <= 1e-6 + 1e-9 * abs(other)


def busy_cycles(run: KernelRun, index: int = 0) -> dict[Pipe, float]:
    """How long each pipe works or has something under way, from all spans."""
    found: dict[Pipe, float] = {}
    until: dict[Pipe, float] = {}
    for span in sorted(run.records[index].spans(), key=lambda span: span.start):
        arrived = span.end + span.instruction.latency
        since = max(span.start, until.get(span.pipe, 0.0))
        found[span.pipe] = found.get(span.pipe, 0.0) + max(0.0, arrived - since)
        until[span.pipe] = max(arrived, since)
    return found


def assert_same_spans(run: KernelRun, other: list[tuple[Pipe, str, float, float]]) -> None:
    found = spans(run)
    assert [each[:2] for each in found] == [each[:2] for each in other]
    for (_, name, start, end), (_, _, wanted_start, wanted_end) in zip(found, other, strict=True):
        assert near(start, wanted_start), name
        assert near(end, wanted_end), name


# -- one core --------------------------------------------------------------------------------------


def recurrence(count: int, load: float, compute: float, store: float, depth: int) -> float:
    """The end of three stages, each of which starts when its input and a free slot are there."""
    loaded, computed, stored = [0.0], [0.0], [0.0]
    for tile in range(1, count + 1):
        slot = max(tile - depth, 0)
        loaded.append(max(loaded[-1], computed[slot]) + load)
        computed.append(max(computed[-1], loaded[-1], stored[slot]) + compute)
        stored.append(max(stored[-1], computed[-1]) + store)
    return stored[-1]


@FEW
@given(st.integers(1, 300), cycles, cycles, cycles, depths)
def test_a_pipeline_ends_where_its_recurrence_does(
    count: int, load: int, compute: int, store: int, depth: int
) -> None:
    program = pipeline(count, load, compute, store, depth=depth)
    wanted = recurrence(count, load, compute, store, depth)
    assert near(play((1, program), exact=True).cycles, wanted)
    assert near(play((1, program)).cycles, wanted)


def test_a_long_pipeline_takes_its_slowest_stage_per_tile() -> None:
    run = play((1, pipeline(10**9, 30, 50, 40)))
    assert run.cycles == pytest.approx(30 + 10**9 * 50 + 40, abs=1)
    assert run.busy_ratio(Pipe.VECTOR) == pytest.approx(1.0)
    assert run.busy_ratio(Pipe.MTE2) == pytest.approx(0.6)
    assert run.busy_ratio(Pipe.MTE3) == pytest.approx(0.8)
    assert run.busy_ratio(Pipe.CUBE) == 0.0


def test_depth_one_means_one_tile_at_a_time() -> None:
    one, two = (play((1, pipeline(100, 30, 50, 40, depth=depth))).cycles for depth in (1, 2))
    assert one == pytest.approx(30 + 50 * 100 + 40 * 100 + 0)  # only loads hide behind stores
    assert two == pytest.approx(30 + 50 * 100 + 40)


def test_double_buffering_can_be_seen_in_the_timeline() -> None:
    def overlaps(depth: int) -> int:
        times = spans(play((1, pipeline(20, 30, 50, 40, depth=depth))))
        loads = [span for span in times if span[0] is Pipe.MTE2]
        computes = [span for span in times if span[0] is Pipe.VECTOR]
        return sum(max(a[2], b[2]) < min(a[3], b[3]) for a in loads for b in computes)

    assert overlaps(1) == 0
    assert overlaps(2) == 19


def test_a_latency_delays_the_flag_and_not_the_pipe() -> None:
    moves = (transfer(100, 10.0), None)
    program = pipeline(1, 5, 20, 10, moves=moves, latency=33)
    (load,) = [span for span in spans(play((1, program))) if span[0] is Pipe.MTE2]
    (compute,) = [span for span in spans(play((1, program))) if span[0] is Pipe.VECTOR]
    assert load[2:] == pytest.approx((0, 15))
    assert compute[2:] == pytest.approx((48, 68))
    many = play((1, pipeline(50, 5, 1, 1, moves=moves, latency=33, depth=50)))
    assert many.busy_ratio(Pipe.MTE2) * many.core_cycles == pytest.approx(50 * 15 + 33)
    assert many.cycles == pytest.approx(50 * 15 + 33 + 2)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("turns", [1, 3])
def test_a_flag_behind_a_loop_waits_for_what_was_loaded_in_it(turns: int, exact: bool) -> None:
    writer = Writer()
    queue = writer.queue(Pipe.MTE2, Pipe.VECTOR, 1)
    writer.open(turns)
    writer.do(Pipe.MTE2, "load", 5, moves=transfer(100, 10.0), latency=33)
    writer.close()
    writer.do(Pipe.MTE2, "", 0.0, sets=(queue.filled,))
    writer.do(Pipe.VECTOR, "compute", 20, waits=(queue.filled,))
    run = play((1, writer.program), exact=exact)
    assert run.cycles == pytest.approx(turns * 15 + 33 + 20)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("count", [1, 7, 10**5])
def test_the_first_time_of_a_transfer_may_take_longer(count: int, exact: bool) -> None:
    moves = (transfer(100, 10.0), transfer(0, 10.0, write=True))
    program = pipeline(count, 5, 1, 1, moves=moves)
    before = play((1, program), exact=exact and count < 10).cycles
    for each, _ in program.instructions():
        each.first_cycles = 0.0 if each.transfer is None else 40.0
    run = play((1, program), exact=exact and count < 10)
    assert run.cycles == pytest.approx(before + (80 if count == 1 else 40), abs=1)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs that kernel code could write: nested loops, tiles through queues, transfers."""
    writer = Writer()
    pairs = [
        (Pipe.MTE2, Pipe.VECTOR),
        (Pipe.VECTOR, Pipe.MTE3),
        (Pipe.VECTOR, Pipe.SCALAR),
        (Pipe.SCALAR, Pipe.MTE2),
    ]
    queues = [writer.queue(*pair, draw(depths)) for pair in pairs]

    def body(level: int) -> None:
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(("hop", "hop", "work", "loop" if level < 2 else "hop")))
            if kind == "loop":
                writer.open(draw(st.integers(1, 12)))
                body(level + 1)
                writer.close()
            elif kind == "work":
                writer.do(draw(st.sampled_from(pairs[0])), "work", draw(cycles))
            else:
                which = draw(st.integers(0, 3))
                queue = queues[which]
                moves = transfer(8 * draw(cycles), 8.0) if which == 0 else None
                latency = 21.0 if moves else 0.0
                writer.do(
                    queue.producer,
                    f"fill{which}",
                    draw(cycles),
                    waits=(queue.free,),
                    sets=(queue.filled,),
                    moves=moves,
                    latency=latency,
                )
                writer.do(
                    queue.consumer,
                    f"drain{which}",
                    draw(cycles),
                    waits=(queue.filled,),
                    sets=(queue.free,),
                )

    body(0)
    return writer.program


@FEW
@given(programs())
def test_every_span_is_where_the_plain_calculation_has_it(program: Program) -> None:
    wanted = calculated(program)
    jumped, played = play((1, program)), play((1, program), exact=True)
    assert_same_spans(played, wanted)
    assert_same_spans(jumped, wanted)
    assert played.records[0].busy == pytest.approx(busy_cycles(played))
    assert jumped.records[0].busy == pytest.approx(busy_cycles(played))


def nested(outer: int, inner: int) -> Program:
    """A loop of loads and work per outer turn, with a scalar decision and one store behind it."""
    writer = Writer()
    inside = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    outside = writer.queue(Pipe.VECTOR, Pipe.MTE3, 2)
    decided = writer.queue(Pipe.SCALAR, Pipe.MTE2, 1)
    writer.open(outer)
    writer.do(Pipe.SCALAR, "decide", 9, waits=(decided.free,), sets=(decided.filled,))
    writer.do(Pipe.MTE2, "address", 2, waits=(decided.filled,), sets=(decided.free,))
    writer.open(inner)
    writer.do(Pipe.MTE2, "load", 31, waits=(inside.free,), sets=(inside.filled,))
    writer.do(Pipe.VECTOR, "add", 17, waits=(inside.filled,), sets=(inside.free,))
    writer.close()
    writer.do(Pipe.VECTOR, "reduce", 23, waits=(outside.free,), sets=(outside.filled,))
    writer.do(Pipe.MTE3, "store", 40, waits=(outside.filled,), sets=(outside.free,))
    writer.close()
    return writer.program


@pytest.mark.parametrize(("outer", "inner"), [(1, 200), (30, 1), (7, 33), (60, 60), (200, 5)])
def test_nested_loops_end_to_the_cycle(outer: int, inner: int) -> None:
    program = nested(outer, inner)
    jumped, played = play((1, program)), play((1, program), exact=True)
    assert near(jumped.cycles, played.cycles)
    assert_same_spans(jumped, spans(played))
    for pipe in (Pipe.SCALAR, Pipe.VECTOR, Pipe.MTE2, Pipe.MTE3):
        assert near(jumped.records[0].busy[pipe], played.records[0].busy[pipe])


def test_a_jump_costs_nothing_however_long_the_loop() -> None:
    short, long = play((1, nested(50, 50))), play((1, nested(50_000_000, 50)))
    assert short.jumped_cycles == 0.0
    assert long.jumped_cycles > 0.99 * long.cycles
    assert long.cycles / short.cycles == pytest.approx(1e6, rel=1e-2)


# -- many cores ------------------------------------------------------------------------------------


def sharing(count: int, nbytes: float) -> Program:
    """A pipeline whose loads and stores share memory with other cores."""
    moves = (transfer(nbytes, 100.0), transfer(nbytes, 60.0, buffer=2, write=True))
    return pipeline(count, 10, 50, 10, moves=moves, latency=25)


@pytest.mark.parametrize("cores", [1, 7, 40])
def test_cores_in_step_end_to_the_cycle(cores: int) -> None:
    on = machine(MemoryRates(hbm=700.0, l2_read=2000.0, l2_write=2000.0))
    program = sharing(150, 8192)
    jumped, played = (play((cores, program), on=on, exact=exact) for exact in (False, True))
    assert near(jumped.cycles, played.cycles)
    assert_same_spans(jumped, spans(played))
    assert jumped.records[0].busy == pytest.approx(busy_cycles(played))


def test_a_group_stands_for_its_cores() -> None:
    on = machine(MemoryRates(hbm=700.0, l2_read=2000.0, l2_write=2000.0))
    together = play((6, sharing(60, 8192)), on=on)
    apart = play(*[(1, sharing(60, 8192))] * 6, on=on)
    assert near(together.cycles, apart.cycles)
    assert together.traffic == apart.traffic


@FEW
@given(
    st.integers(5, 120), st.integers(5, 120), st.integers(1, 30), st.integers(1, 30), st.booleans()
)
def test_two_groups_jump_within_a_percent(
    first: int, second: int, cores: int, others: int, tight: bool
) -> None:
    on = machine(
        MemoryRates(
            hbm=400.0 if tight else 1e6,
            l2_read=1500.0 if tight else 1e6,
            l2_write=1500.0 if tight else 1e6,
        )
    )
    groups = ((cores, sharing(first, 8192)), (others, sharing(second, 5000)))
    jumped, played = (play(*groups, on=on, exact=exact) for exact in (False, True))
    assert jumped.cycles == pytest.approx(played.cycles, rel=1e-2)
    if not tight:
        assert near(jumped.cycles, played.cycles)


def test_less_bandwidth_is_never_faster() -> None:
    before = 0.0
    for rate in (1e6, 5000.0, 1000.0, 300.0, 100.0):
        now = play(
            (20, sharing(50, 8192)), on=machine(MemoryRates(hbm=rate, l2_read=1e6, l2_write=1e6))
        ).cycles
        assert now >= before
        before = now
    assert before >= 20 * 50 * 8192 / 100.0  # every load is a miss


def test_a_clock_that_is_coarser_than_the_end_of_a_transfer_goes_on() -> None:
    slow = machine(MemoryRates(hbm=1e-9, l2_read=1e6, l2_write=1e6))
    cycles = play((3, sharing(5, 8192)), (2, sharing(3, 5000)), on=slow, exact=True).cycles
    nbytes = 3 * 5 * 8192 + 2 * 3 * 5000
    assert cycles >= nbytes / 1e-9 > 2**46


# -- barriers --------------------------------------------------------------------------------------


def phased(first: int, second: int, step: float) -> Program:
    """Two pipelines with a barrier between them."""
    writer = Writer()
    inside = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    for count in (first, second):
        writer.open(count)
        writer.do(Pipe.MTE2, "load", step, waits=(inside.free,), sets=(inside.filled,))
        writer.do(Pipe.VECTOR, "add", 20, waits=(inside.filled,), sets=(inside.free,))
        writer.close()
        if count is first:
            writer.barrier()
    return writer.program


def test_nobody_passes_a_barrier_before_everybody_has_come() -> None:
    quick, slow = phased(100, 10, 30), phased(102, 10, 50)
    for exact in (False, True):
        run = play((3, quick), (2, slow), exact=exact)
        meeting = 102 * 50 + 20
        for index, step in enumerate((30, 50)):
            after = [span for span in spans(run, index) if span[2] >= meeting]
            assert min(span[2] for span in after) == pytest.approx(meeting + SYNC_CYCLES)
            assert len(after) == 20
            assert run.records[index].end == pytest.approx(meeting + SYNC_CYCLES + 10 * step + 20)


def test_barriers_in_a_loop_jump_to_the_cycle() -> None:
    def turns(work: int) -> Program:
        writer = Writer()
        writer.open(80)
        writer.do(Pipe.VECTOR, "work", work)
        writer.barrier()
        writer.close()
        return writer.program

    for exact in (False, True):
        run = play((4, turns(30)), (4, turns(50)), exact=exact)
        assert run.cycles == pytest.approx(80 * (50 + SYNC_CYCLES))


def test_a_core_that_ends_while_others_wait_is_a_deadlock() -> None:
    writer = Writer()
    writer.do(Pipe.VECTOR, "alone", 5)
    with pytest.raises(DeadlockError):
        play((1, writer.program), (1, phased(3, 3, 30)))


# -- deadlocks -------------------------------------------------------------------------------------


def test_waiting_for_nobody_is_a_deadlock_that_names_core_and_pipe() -> None:
    writer = Writer()
    queue = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    writer.do(Pipe.MTE2, "load", 5, waits=(queue.free,))
    writer.do(Pipe.VECTOR, "add", 5, waits=(queue.filled,))
    with pytest.raises(DeadlockError, match="VECTOR of core 0 waits for a flag") as error:
        play((4, writer.program))
    assert isinstance(error.value, KernelError)
    assert (error.value.pipe, error.value.core) == ("VECTOR", 0)


def test_a_slot_that_is_never_freed_runs_out() -> None:
    writer = Writer()
    queue = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    writer.open(100)
    writer.do(Pipe.MTE2, "load", 5, waits=(queue.free,), sets=(queue.filled,))
    writer.do(Pipe.VECTOR, "add", 5, waits=(queue.filled,))
    writer.close()
    with pytest.raises(DeadlockError, match="waits for a flag that nobody sets"):
        play((1, writer.program))


# -- what is merged, folded and counted ------------------------------------------------------------


def test_back_to_back_work_is_one_event_and_still_every_span() -> None:
    writer = Writer()
    writer.open(1000)
    writer.do(Pipe.VECTOR, "mul", 3)
    writer.do(Pipe.VECTOR, "add", 4)
    writer.close()
    writer.do(Pipe.VECTOR, "last", 5)
    burst, stop = projected(writer.program)[Pipe.VECTOR]
    assert (burst.kind, stop.kind) == (Kind.WORK, Kind.STOP)
    assert burst.cycles == 7005
    assert isinstance(burst.parts[0], Repeat)
    run = play((1, writer.program))
    assert [len(chunk) for chunk in run.records[0].whole().replay()] == [1]
    assert_same_spans(run, calculated(writer.program))


def test_flags_keep_work_apart() -> None:
    writer = Writer()
    queue = writer.queue(Pipe.VECTOR, Pipe.MTE3, 1)
    writer.open(4)
    writer.do(Pipe.VECTOR, "first", 3, waits=(queue.free,), sets=(queue.filled,))
    writer.do(Pipe.VECTOR, "second", 4)
    writer.do(Pipe.MTE3, "store", 2, waits=(queue.filled,), sets=(queue.free,))
    writer.close()
    steps = projected(writer.program)[Pipe.VECTOR]
    assert [step.kind for step in steps] == [Kind.ENTER, Kind.WORK, Kind.WORK, Kind.TURN, Kind.STOP]
    assert [step.cycles for step in steps if step.kind is Kind.WORK] == [3, 4]


def test_the_first_spans_of_a_long_kernel_come_at_once() -> None:
    """A kernel is played again for its spans, as far as somebody wants them."""
    record = play((1, nested(10**9, 25))).records[0]
    ends = [span.end for span in islice(record.spans(), 1000)]
    assert ends == sorted(ends)
    assert ends == [span.end for span in islice(play((1, nested(40, 25))).records[0].spans(), 1000)]


def test_totals_count_repetitions_and_cores() -> None:
    run = play((5, sharing(70, 4096)))
    assert run.traffic.read_bytes == run.traffic.written_bytes == 5 * 70 * 4096
    assert run.traffic.gm_bytes == 2 * 5 * 70 * 4096
    launched = play((5, sharing(70, 4096)), on=machine(launch=1234.0))
    assert launched.cycles == pytest.approx(run.cycles + 1234.0)
    assert launched.core_cycles == pytest.approx(run.cycles)


def test_nothing_to_do_takes_no_time() -> None:
    assert play((1, Program())).cycles == 0.0
    assert play((1, Program())).busy_ratio(Pipe.VECTOR) == 0.0


@FEW
@given(programs(), st.integers(1, 40))
def test_the_same_programs_give_the_same_run(program: Program, cores: int) -> None:
    on = machine(MemoryRates(hbm=300.0, l2_read=900.0, l2_write=900.0))
    first, again = (play((cores, program), (3, sharing(9, 800)), on=on) for _ in range(2))
    assert repr(first) == repr(again)


# -- groups in step, and groups at their own pace --------------------------------------------------


def in_phases(
    counts: tuple[int, int, int], size: int, *, clears: int = 0, late: float = 0.0
) -> Program:
    """Loops behind a barrier, which moves ``size`` bytes; some cores clear something before it.

    Stores arrive ``late``.
    """
    writer = Writer()
    if clears:
        zeros = writer.queue(Pipe.VECTOR, Pipe.MTE3, 1)
        writer.open(clears)
        writer.do(Pipe.VECTOR, "zero", 9, waits=(zeros.free,), sets=(zeros.filled,))
        writer.do(Pipe.MTE3, "clear", 11, waits=(zeros.filled,), sets=(zeros.free,))
        writer.close()
    else:
        writer.do(Pipe.VECTOR, "nothing", 1)
        writer.do(Pipe.MTE3, "nothing", 1)
    inside = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
    writer.do(Pipe.MTE2, "head", 3)
    writer.barrier()
    outer, inner, last = counts
    writer.open(outer)
    for count in (inner, last):
        writer.open(count)
        load = transfer(size, 60.0)
        waits, sets = (inside.free,), (inside.filled,)
        writer.do(Pipe.MTE2, "load", 7, waits=waits, sets=sets, moves=load, latency=30)
        writer.do(Pipe.VECTOR, "add", 20 + count, waits=(inside.filled,), sets=(inside.free,))
        writer.close()
    store = transfer(size, 40.0, buffer=2, write=True)
    writer.do(Pipe.MTE3, "store", 5, moves=store, latency=late)
    writer.close()
    return writer.program


counts_of_loops = st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 6))


@FEW
@given(
    st.lists(counts_of_loops, min_size=1, max_size=4),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(((45, 45), (45, 300))),
)
def test_groups_in_step_do_what_each_does_by_itself(
    counts: list[tuple[int, int, int]], clears: int, tight: bool, late: tuple[float, float]
) -> None:
    rate = 300.0 if tight else 1e6
    on = machine(MemoryRates(hbm=rate, l2_read=2 * rate, l2_write=rate))
    groups = [
        (cores + 1, in_phases(each, 640, clears=clears * (cores % 2), late=late[cores % 2]))
        for cores, each in enumerate([*counts, *counts])
    ]
    jumped, played = (play(*groups, on=on, exact=exact) for exact in (False, True))
    assert jumped.cycles == pytest.approx(played.cycles, rel=1e-4, abs=1e-6)
    for index, (ours, theirs) in enumerate(zip(jumped.records, played.records, strict=True)):
        assert ours.blocks == theirs.blocks
        assert ours.busy == pytest.approx(theirs.busy, rel=1e-3)
        assert ours.busy == pytest.approx(busy_cycles(jumped, index), rel=1e-3)
        assert ours.end == pytest.approx(theirs.end, rel=1e-4)
        pairs = zip(ours.totals(), theirs.totals(), strict=True)
        assert all(a.instruction is b.instruction and a.times == b.times for a, b in pairs)
        assert [s[:2] for s in spans(jumped, index)] == [s[:2] for s in spans(played, index)]


def two_queues(*loops: tuple[int, int]) -> Program:
    """Loops of a core one after the other: the number of its queue, and how often each runs."""
    writer = Writer()
    queues = [writer.queue(Pipe.MTE2, Pipe.VECTOR, 2) for _ in range(2)]
    for number, count in loops:
        tiles = queues[number]
        writer.open(count)
        writer.do(Pipe.MTE2, "load", 9, waits=(tiles.free,), sets=(tiles.filled,))
        writer.do(Pipe.VECTOR, "add", 40, waits=(tiles.filled,), sets=(tiles.free,))
        writer.close()
    return writer.program


def test_groups_go_apart_where_one_has_come_to_another_queue() -> None:
    """Nothing is known of flags whose step isn't the same."""
    groups = ((1, two_queues((0, 12), (1, 5))), (7, two_queues((0, 11), (0, 1))))
    jumped, played = (play(*groups, exact=exact) for exact in (False, True))
    assert jumped.cycles == pytest.approx(played.cycles)
    for ours, theirs in zip(jumped.records, played.records, strict=True):
        assert [a.times for a in ours.totals()] == [b.times for b in theirs.totals()]


def test_groups_in_step_are_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = []
    work = Player._work
    monkeypatch.setattr(Player, "_work", lambda *given: worked.append(given) or work(*given))
    on = machine(MemoryRates(hbm=700.0, l2_read=2000.0, l2_write=2000.0))
    play(*[(1, sharing(3, 8192)) for _ in range(6)], on=on)
    together = len(worked)
    worked.clear()
    play((6, sharing(3, 8192)), on=on)
    assert together == len(worked)


@pytest.mark.parametrize("waiting", [(), (Pipe.SCALAR, Pipe.MTE2)])
def test_groups_at_their_own_pace_end_to_the_cycle(waiting: tuple[Pipe]) -> None:
    """Periods of 97 and 101 cycles come back together after 97 * 101 cycles alone."""
    on = machine(MemoryRates(hbm=1e6, l2_read=1e6, l2_write=1e6))

    def paced(cycles: float, count: int) -> Program:
        writer = Writer()
        for pipe in waiting:  # which isn't in the loop behind the barrier
            writer.do(pipe, "head", 3)
        writer.open(1000)  # what has gone before: errors are counted against it
        writer.do(Pipe.VECTOR, "before", 1000)
        writer.close()
        writer.barrier()
        writer.open(count)
        writer.do(Pipe.VECTOR, "work", cycles, sets=(0,))
        writer.do(Pipe.MTE3, "store", 1, waits=(0,), moves=transfer(64, 60.0, write=True))
        writer.close()
        writer.program.flags.append(0)
        return writer.program

    groups = ((1, paced(97, 200)), (1, paced(101, 180)))
    jumped, played = (play(*groups, on=on, exact=exact) for exact in (False, True))
    assert jumped.cycles == pytest.approx(played.cycles, rel=1e-4)
    for ours, theirs in zip(jumped.records, played.records, strict=True):
        assert [a.times for a in ours.totals()] == [b.times for b in theirs.totals()]
        starts = [span.start for span in ours.spans() if span.pipe is Pipe.VECTOR]
        assert starts == sorted(starts)


def test_a_pipe_may_run_far_ahead_of_another() -> None:
    """The scalar unit is through with its turns before the stores are with the first hundred."""
    writer = Writer()
    writer.open(3000)
    writer.do(Pipe.SCALAR, "address", 1, sets=(0,))
    writer.do(Pipe.MTE3, "store", 100, waits=(0,))
    writer.close()
    writer.program.flags.append(0)
    jumped, played = (play((1, writer.program), exact=exact) for exact in (False, True))
    assert near(jumped.cycles, played.cycles)


def test_loops_that_hear_of_nobody_end_to_the_cycle() -> None:
    """Two cores load at once, at moments that never come back; what they compute repeats anyway."""
    on = machine(MemoryRates(hbm=130.0, l2_read=1e6, l2_write=1e6))

    def computing(cycles: float) -> Program:
        writer = Writer()
        tiles = writer.queue(Pipe.MTE2, Pipe.VECTOR, 2)
        rows = writer.queue(Pipe.SCALAR, Pipe.VECTOR, 2)
        writer.open(6)
        load = transfer(9000, 100.0)
        writer.do(Pipe.MTE2, "load", 9, waits=(tiles.free,), sets=(tiles.filled,), moves=load)
        writer.do(Pipe.VECTOR, "begin", 1, waits=(tiles.filled,))
        writer.open(100)
        writer.do(Pipe.SCALAR, "decide", 5, waits=(rows.free,), sets=(rows.filled,))
        writer.do(Pipe.VECTOR, "add", cycles, waits=(rows.filled,), sets=(rows.free,))
        writer.close()
        writer.do(Pipe.VECTOR, "end", 1, sets=(tiles.free,))
        writer.close()
        return writer.program

    groups = ((1, computing(7.0)), (1, computing(7.0 * 2**0.5)))
    jumped, played = (play(*groups, on=on, exact=exact) for exact in (False, True))
    assert near(jumped.cycles, played.cycles)
    for index, (ours, _theirs) in enumerate(zip(jumped.records, played.records, strict=True)):
        assert ours.busy == pytest.approx(busy_cycles(played, index))
        for one, other in zip(spans(jumped, index), spans(played, index), strict=True):
            assert one[:2] == other[:2]
            assert one[2:] == pytest.approx(other[2:])


def test_a_pipe_may_leave_an_inner_loop_long_before_another() -> None:
    writer = Writer()
    turns = writer.queue(Pipe.SCALAR, Pipe.MTE3, 1)
    writer.program.flags.append(0)
    writer.open(40)
    writer.do(Pipe.SCALAR, "begin", 1, waits=(turns.free,))
    writer.open(25)
    writer.do(Pipe.SCALAR, "address", 1, sets=(2,))
    writer.do(Pipe.MTE3, "store", 100, waits=(2,))
    writer.close()
    writer.do(Pipe.MTE3, "end", 1, sets=(turns.free,))
    writer.close()
    jumped, played = (play((1, writer.program), exact=exact) for exact in (False, True))
    assert near(jumped.cycles, played.cycles)
    assert_same_spans(jumped, spans(played))


@FEW
@given(st.lists(st.tuples(cycles, cycles), min_size=1, max_size=5), st.floats(0.3, 3.0))
def test_transfers_that_nobody_slows_down_end_when_they_do_by_the_clock(
    groups: list[tuple[int, int]], plenty: float
) -> None:
    """Bandwidth for all stores at once needs no clock in common; less of it does."""
    wanted = 60.0 * sum(cores for cores, _ in groups)

    def run(bandwidth: float) -> KernelRun:
        on = machine(MemoryRates(hbm=1e9, l2_read=1e9, l2_write=bandwidth))
        return play(*((cores, sharing(5, 100 * size)) for cores, size in groups), on=on, exact=True)

    by_clock = min(plenty, 1.0 - 1e-12) * wanted  # at most a hair less than all of them take
    assert near(run(plenty * wanted).cycles, run(by_clock).cycles)


def test_what_is_moved_behind_a_barrier_does_not_slow_down_what_is_moved_before_it() -> None:
    """Two cores store at once before the barrier, and one of them alone behind it."""
    writers = [Writer(), Writer()]
    for each in writers:
        each.do(Pipe.MTE3, "both", 1, moves=transfer(600, 60.0, write=True))
        each.barrier()
    writers[0].do(Pipe.MTE3, "alone", 1, moves=transfer(600, 60.0, write=True))
    on = machine(MemoryRates(hbm=1e9, l2_read=1e9, l2_write=100.0))
    run = play(*((1, each.program) for each in writers), on=on)
    both, alone = (end - start for _, _, start, end in spans(run))
    assert (both, alone) == (pytest.approx(1 + 600 / 50), pytest.approx(1 + 600 / 60))
