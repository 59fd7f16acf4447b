"""Global memory: fair shares of two levels, what L2 holds, and what that does to transfers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.ascendc.costs import InstructionCosts
from npusim.ascendc.packets import packets_of
from npusim.engine import L2State, Pipe, Program, machine_of
from npusim.engine.claims import Claim
from npusim.engine.machine import Away, MemoryRates, Treatment
from npusim.engine.program import Transfer
from npusim.engine.sharing import Flow, SharedBandwidth, share
from npusim.hardware import load_profile, profile_names
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.cache_start import prime
from support.programs import Writer, machine, pipeline, play, spans, transfer

Demand = dict[str, float]


@dataclass
class Wanted:
    """A transfer of some cores that is to get its share."""

    cores: int
    ceiling: float
    demand: Demand  # of each resource for every byte


def flow(cores: int, ceiling: float, miss: float, write: bool = False) -> Wanted:
    """A transfer through L2 of which ``miss`` goes on to HBM."""
    return Wanted(cores, ceiling, {"hbm": miss, "l2_write" if write else "l2_read": 1.0})


def shares(wanted: list[Wanted], bandwidths: Demand) -> list[float]:
    asked = [tuple(item for item in each.demand.items() if item[1]) for each in wanted]
    claims = [
        Claim(each.cores, each.ceiling, asks) for each, asks in zip(wanted, asked, strict=True)
    ]
    flows = [Flow(1000.0, claim, None) for claim in claims]
    share(flows, bandwidths)
    return [each.rate for each in flows]


def rates_of(flows: list[Wanted], hbm: float, l2: float) -> list[float]:
    return shares(flows, MemoryRates(hbm, l2_read=l2, l2_write=0.5 * l2).bandwidths)


@pytest.mark.parametrize(
    ("flows", "wanted"),
    [
        ([flow(1, 60, 1.0)], [60]),  # alone: its own ceiling
        ([flow(4, 60, 1.0)], [25]),  # four cores on 100 of HBM
        ([flow(4, 60, 0.0)], [60]),  # hits don't touch HBM
        ([flow(10, 60, 0.0)], [30]),  # ten cores on 300 of L2
        ([flow(1, 60, 1.0), flow(1, 60, 1.0)], [50, 50]),
        ([flow(1, 10, 1.0), flow(1, 99, 1.0)], [10, 90]),  # what one can't use the other gets
        ([flow(1, 99, 1.0), flow(1, 99, 0.0)], [99, 99]),
        ([flow(4, 99, 1.0), flow(4, 99, 0.0)], [25, 50]),  # HBM full; the hits take the rest of L2
        ([flow(2, 99, 0.5)], [99]),  # half of it hits: 99 of HBM for two
        ([flow(4, 99, 0.5)], [50]),
        ([flow(10, 60, 0.0, write=True)], [15]),  # writes have a bandwidth of their own
        ([flow(10, 60, 0.0), flow(10, 60, 0.0, write=True)], [30, 15]),
        ([flow(4, 60, 1.0), flow(4, 60, 1.0, write=True)], [12.5, 12.5]),  # HBM has not
        ([], []),
    ],
)
def test_shares_by_hand(flows: list[Wanted], wanted: list[float]) -> None:
    assert rates_of(flows, 100.0, 300.0) == pytest.approx(wanted)


RESOURCES = ("hbm", "l2_read", "l2_write", "link 0", "link 1")
amounts = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.01, 3))
any_flow = st.builds(
    Wanted,
    st.integers(1, 40),
    st.floats(1, 200),
    st.fixed_dictionaries(dict.fromkeys(RESOURCES, amounts)),
)
any_bandwidths = st.fixed_dictionaries(dict.fromkeys(RESOURCES, st.floats(10, 4000)))
TOLERANCE = 1e-6


@settings(max_examples=300, deadline=None)
@given(st.lists(any_flow, min_size=1, max_size=6), any_bandwidths)
def test_shares_of_any_resources_are_max_min_fair(flows: list[Wanted], bandwidths: Demand) -> None:
    """Nobody could get more without taking it from someone who has less."""
    rates = shares(flows, bandwidths)
    pairs = list(zip(flows, rates, strict=True))
    fastest_in_full: dict[str, float] = {}
    for name, most in bandwidths.items():
        taken = sum(rate * each.cores * each.demand[name] for each, rate in pairs)
        assert taken <= most * (1 + TOLERANCE)
        if taken >= most * (1 - TOLERANCE):
            fastest_in_full[name] = max(rate for each, rate in pairs if each.demand[name])
    for each, rate in pairs:
        assert 0 < rate <= each.ceiling * (1 + TOLERANCE)
        assert rate >= each.ceiling * (1 - TOLERANCE) or any(
            each.demand[name] and rate >= fastest * (1 - TOLERANCE)
            for name, fastest in fastest_in_full.items()
        )


@settings(max_examples=100, deadline=None)
@given(st.lists(any_flow, min_size=1, max_size=6), any_bandwidths)
def test_a_resource_that_nobody_uses_changes_no_share(
    flows: list[Wanted], bandwidths: Demand
) -> None:
    assert shares(flows, bandwidths | {"link 2": 1.0}) == shares(flows, bandwidths)


def finish_times(starts: list[tuple[float, float, float]], hbm: float) -> list[float]:
    """When transfers of (start, bytes, ceiling) end that share ``hbm`` bytes per cycle."""
    env = simpy.Environment()
    ends = [0.0] * len(starts)

    def ended(owners: list[int]) -> None:
        for index in owners:
            ends[index] = env.now
        memory.settle()

    memory = SharedBandwidth(env, {"hbm": hbm}, ended)

    def move(index: int, begin: float, nbytes: float, ceiling: float):  # type: ignore[no-untyped-def]
        yield env.timeout(begin)
        memory.add(nbytes, Claim(1, ceiling, (("hbm", 1.0),)), index)
        memory.settle()

    for index, each in enumerate(starts):
        env.process(move(index, *each))
    env.run()
    return ends


def test_a_late_transfer_takes_its_share_from_then_on() -> None:
    assert finish_times([(0, 100, 99), (5, 100, 99)], 10.0) == pytest.approx([15, 20])
    assert finish_times([(0, 100, 99), (5, 100, 2)], 10.0) == pytest.approx([5 + 50 / 8, 55])
    assert finish_times([(0, 100, 99), (10, 100, 99)], 10.0) == pytest.approx([10, 20])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 500), st.integers(1, 30)),
        min_size=1,
        max_size=6,
    )
)
def test_bytes_are_neither_lost_nor_invented(starts: list[tuple[int, int, int]]) -> None:
    rate = 20.0
    ends = finish_times([(float(a), float(b), float(c)) for a, b, c in starts], rate)
    for (begin, nbytes, ceiling), end in zip(starts, ends, strict=True):
        assert end >= begin + nbytes / min(ceiling, rate) - 1e-6
    everything = sum(nbytes for _, nbytes, _ in starts)
    assert max(ends) - min(begin for begin, _, _ in starts) >= everything / rate - 1e-6
    assert (
        max(ends)
        <= max(a for a, _, _ in starts) + sum(b / min(c, rate) for _, b, c in starts) + 1e-6
    )


# -- L2 --------------------------------------------------------------------------------------------


def test_l2_keeps_what_was_used_last() -> None:
    l2 = L2State(100)
    for buffer, nbytes in ((1, 40), (2, 40), (3, 40)):
        l2.touch(buffer, nbytes)
    assert [l2.resident_bytes(buffer) for buffer in (1, 2, 3)] == [20, 40, 40]
    l2.touch(1, 40)
    assert [l2.resident_bytes(buffer) for buffer in (1, 2, 3)] == [40, 20, 40]


def test_a_buffer_larger_than_l2_keeps_the_part_that_fits() -> None:
    l2 = L2State(100)
    l2.touch(1, 30)
    l2.touch(2, 250)
    assert l2.resident_bytes(2) == 100
    assert l2.resident_bytes(1) == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 150)), max_size=30))
def test_l2_never_holds_more_than_it_can(touches: list[tuple[int, int]]) -> None:
    l2 = L2State(100)
    for buffer, nbytes in touches:
        l2.touch(buffer, nbytes)
        assert l2.resident_bytes(buffer) >= min(nbytes, 100)
        assert sum(l2.resident_bytes(each) for each in range(6)) <= 100 + 1e-9


def reader(*reuse: float | None, nbytes: int = 1000) -> Program:
    """Reads one buffer, once for the first time and again after having moved other bytes."""
    writer = Writer()
    for each in reuse:
        writer.do(Pipe.MTE2, "load", 0, moves=transfer(nbytes, 50.0, reuse=each))
    return writer.program


SLOW_HBM = MemoryRates(hbm=10.0, l2_read=1e6, l2_write=1e6)


def load_times(program: Program, l2: L2State) -> list[float]:
    on = machine(SLOW_HBM, l2_bytes=l2.capacity_bytes)
    return [end - start for _, _, start, end in spans(play((1, program), on=on, l2=l2))]


def test_a_task_finds_what_the_task_before_it_left() -> None:
    l2 = L2State(10_000)
    assert load_times(reader(None), l2) == pytest.approx([100.0])  # from HBM
    assert load_times(reader(None), l2) == pytest.approx([20.0])  # at the path's ceiling
    half = L2State(10_000)
    half.touch(1, 500)
    assert load_times(reader(None), half) == pytest.approx([50.0])


def test_reading_again_hits_while_everything_in_between_fits() -> None:
    def again(between: int) -> float:
        writer = Writer()
        writer.do(Pipe.MTE2, "load", 0, moves=transfer(1000, 50.0))
        writer.do(Pipe.MTE2, "load", 0, moves=transfer(between, 50.0, buffer=2))
        writer.do(Pipe.MTE2, "load", 0, moves=transfer(1000, 50.0, reuse=between))
        return load_times(writer.program, L2State(10_000))[-1]

    assert again(4000) == pytest.approx(20)
    assert again(20_000) == pytest.approx(100)


def test_what_is_moved_again_and_again_takes_room_once() -> None:
    """However much a core moves in between: all of it together is less than L2 holds."""
    assert load_times(reader(None, 20_000.0), L2State(10_000)) == pytest.approx([100, 20])
    assert load_times(reader(None, 20_000.0), L2State(900)) == pytest.approx([100, 100])


def test_what_one_core_has_fetched_the_others_find() -> None:
    """Four cores read one buffer of 1000 bytes: HBM delivers it once."""
    alone = play((4, reader(None)), on=machine(SLOW_HBM))
    assert alone.traffic.hbm_bytes == 4000  # four buffers of 1000, as far as the engine knows
    together = play((4, reader(None)), on=machine(SLOW_HBM), sizes={1: 1000})
    assert together.traffic.gm_bytes == 4000
    assert together.traffic.hbm_bytes == pytest.approx(1000)
    assert together.core_cycles == pytest.approx(100.0)


def test_stores_stay_in_l2_as_far_as_they_fit() -> None:
    writer = Writer()
    writer.do(Pipe.MTE3, "store", 0, moves=transfer(1000, 50.0, write=True))
    small, large = L2State(500), L2State(5000)
    assert load_times(writer.program, large) == pytest.approx([20.0])
    assert large.resident_bytes(1) == 1000
    assert load_times(writer.program, small) == pytest.approx([50.0])  # half of it goes through
    assert small.resident_bytes(1) == 500


def test_what_goes_past_l2_leaves_it_to_others() -> None:
    """Stores of 1000 bytes stay in an L2 of 1200 that loads of 1000 bytes would fill."""

    def times(*, bypasses: bool) -> list[float]:
        load = transfer(1000, 50.0)._replace(bypasses_l2=bypasses)
        writer = Writer()
        writer.do(Pipe.MTE2, "load", 0, moves=load)
        writer.do(Pipe.MTE2, "load", 0, moves=load._replace(reuse_bytes=0.0))
        writer.do(Pipe.MTE3, "store", 0, moves=transfer(1000, 50.0, buffer=2, write=True))
        l2 = L2State(1200)
        found = load_times(writer.program, l2)
        assert l2.resident_bytes(1) == (0 if bypasses else 200)
        return found

    assert times(bypasses=True) == pytest.approx([100, 100, 20])
    assert times(bypasses=False)[1] == pytest.approx(20)  # the second load hits


def test_more_data_than_l2_is_bound_by_hbm() -> None:
    moves = (transfer(10_000, 100.0), transfer(10_000, 100.0, buffer=2, write=True))
    program = pipeline(100, 1, 1, 1, moves=moves)
    on = machine(MemoryRates(hbm=50.0, l2_read=1e6, l2_write=1e6), l2_bytes=20_000)
    run = play((1, program), on=on)
    assert run.cycles >= run.traffic.hbm_bytes / 50.0
    assert run.traffic.hbm_bytes == pytest.approx(100 * (10_000 + 9_900))


# -- the chip as the engine sees it ----------------------------------------------------------------


@pytest.mark.parametrize("name", profile_names())
def test_a_machine_is_the_profile_in_cycles(name: str) -> None:
    profile = load_profile(name)
    one, eight = machine_of(profile, 1), machine_of(profile, 8)
    mixed = machine_of(profile, 1, mix=True)
    clock = profile.clock_mhz
    assert one.launch_cycles == pytest.approx(profile.launch.base_us * clock)
    assert eight.launch_cycles - one.launch_cycles == pytest.approx(
        7 * profile.launch.per_block_us * clock
    )
    assert mixed.launch_cycles - one.launch_cycles == pytest.approx(
        profile.launch.mix_extra_us * clock
    )
    assert one.rates.hbm * clock * 1e6 == pytest.approx(profile.hbm_sustained_gbps * 1e9)
    assert one.rates.l2_read * clock * 1e6 == pytest.approx(profile.l2_sustained_gbps * 1e9)
    write = profile.memory.l2_write_fraction
    assert one.rates.l2_write == pytest.approx(write * one.rates.l2_read)
    assert profile.l2_sustained_gbps <= profile.memory.l2_gbps
    assert one.l2_bytes == profile.memory.l2_bytes
    assert one.sync_cycles == pytest.approx(profile.launch.sync_all_us * clock)


def test_bytes_at_half_the_rate_take_twice_as_long_and_stay_what_they_are() -> None:
    """Atomic additions: whatever is shared serves them at a fraction of its rate."""
    for rates, cores in ((SLOW_HBM, 1), (MemoryRates(1e6, 1e6, l2_write=100.0), 8)):
        runs = []
        for fraction in (1.0, 0.5):
            writer = Writer()
            stored = transfer(1000, 50.0, write=True)._replace(rate_fraction=fraction)
            writer.do(Pipe.MTE3, "store", 0, moves=stored)
            runs.append(play((cores, writer.program), on=machine(rates)))
        plain, adding = runs
        assert adding.core_cycles == pytest.approx(2 * plain.core_cycles)
        assert adding.traffic == plain.traffic
        assert adding.traffic.l2_written_bytes == 1000 * cores


@pytest.mark.parametrize(("layout", "held"), [("FRACTAL_Z", 0.0), ("NC1HWC0", 1.0)])
def test_master_weights_come_from_hbm_in_a_graph(layout: str, held: float) -> None:
    """Some of the other operands was made lately; a weight was last used in the step before."""
    profile = load_profile("Ascend910B")
    shape = (36, 4, 16, 16) if layout == "FRACTAL_Z" else (1, 36, 4, 16, 16)
    weight = TensorSpec(shape, "float32", layout)
    (kernel,) = kernels_of(profile, TaskSpec("Cast", (weight,), (TensorSpec(shape, "float16"),)))
    cache = L2State(profile.memory.l2_bytes)
    prime(cache, kernel.reads, "in_graph", profile, kernel.cold)
    (read,) = kernel.reads
    lately = held * profile.memory.l2_recent_share * read.nbytes
    assert cache.resident_bytes(read.buffer.number) == lately


@pytest.mark.parametrize("shape", [(36, 4, 16, 16), (7, 1, 16, 16), (162, 24, 16, 16)])
def test_a_gradient_that_a_number_scales_is_no_master_weight(shape: tuple[int, ...]) -> None:
    """Weights are rounded, or meet their gradients; what is passed on alone has just been made."""
    profile = load_profile("Ascend910B")
    tensor, number = TensorSpec(shape, "float32", "FRACTAL_Z"), TensorSpec((), "float32")
    held = []
    for op, inputs in (("Mul", (tensor, number)), ("FusedMulAddN", (tensor, tensor, number))):
        (kernel,) = kernels_of(profile, TaskSpec(op, inputs, (tensor,)))
        cache = L2State(profile.memory.l2_bytes)
        prime(cache, kernel.reads, "in_graph", profile, kernel.cold, kernel.writes)
        held.append([cache.resident_bytes(each.buffer.number) for each in kernel.reads[:2]])
    (gradient, _), (weight, beside) = held
    assert weight == 0.0
    assert gradient == beside == profile.memory.l2_recent_share * tensor.nbytes


def test_a_task_in_a_graph_finds_a_share_of_what_l2_can_hold() -> None:
    """Of small operands what was used lately, of large ones less, and of still larger ones none."""
    profile = load_profile("Ascend910B")
    memory, found = profile.memory, []
    for shape in ((7,), (1, 7), (997, 1009), (3989, 5003), (20011, 3001)):
        (kernel,) = kernels_of(profile, TaskSpec("Neg", *2 * [(TensorSpec(shape, "float32"),)]))
        cache = L2State(memory.l2_bytes)
        prime(cache, kernel.reads, "in_graph", profile, kernel.cold)
        found.append(cache.resident_bytes(kernel.reads[0].buffer.number))
    assert memory.l2_stream_bytes is not None
    most = min(memory.l2_in_graph_share * memory.l2_bytes, memory.l2_stream_bytes - 4 * 3989 * 5003)
    lately = (memory.l2_recent_share * each for each in (28, 4 * 997 * 1009))
    assert found == [0, *lately, most, 0]


@pytest.mark.parametrize(
    ("path_name", "run_bytes", "grain_bytes", "times"),
    [
        ("gm_to_ub", 512, 512, 1.0),
        ("gm_to_ub", 128, 128, 1.0),  # whole sectors: none of the line that isn't asked for
        ("gm_to_ub", 512, 2, 1022 / 512),  # nearly always two lines
        ("gm_to_ub", 2048, 2, 2558 / 2048),
        ("gm_to_l1", 512, 2, 1022 / 512),
    ],
)
def test_loads_that_begin_within_blocks_take_whole_lines(
    path_name: str, run_bytes: int, grain_bytes: int, times: float
) -> None:
    costs = InstructionCosts(load_profile("Ascend910B1"))
    path = costs.path(path_name)
    assert path is not None
    if path_name == "gm_to_l1":
        found = costs.matrix_copy(path, run_bytes, 8, grain_bytes, atomic_sharers=0)
    else:
        found = costs.gm_copy(path, run_bytes, 8, grain_bytes, rows_apart=False, atomic_sharers=0)
    assert 1 / found.rate_fraction == pytest.approx(times)


@pytest.mark.parametrize(
    ("run_bytes", "grain_bytes", "packets"),
    [
        (512, 512, 1.0),
        (128, 512, 1.0),
        (384, 512, 2.0),  # half a line and a quarter
        (896, 512, 3.0),
        (512, 256, (1 + 2) / 2),
        (512, 128, (1 + 3 + 2 + 3) / 4),
        (512, 32, (1 + 3 + 2 + 3 + 12 * 4) / 16),
        (1, 1, 1.0),
        (2, 1, 1 + 4 / 512),  # at the end of a quarter
    ],
)
def test_rows_that_are_turned_go_in_aligned_packets(
    run_bytes: int, grain_bytes: int, packets: float
) -> None:
    """Source: public cube tiling model of the vendor (cann-ops, cache_tiling_request_bytes.cc)."""
    assert packets_of(run_bytes, grain_bytes, 512) == pytest.approx(packets)


def mover(read: int, written: int) -> Program:
    """Loads and stores of whole KiB, side by side."""
    writer = Writer()
    for _ in range(read):
        writer.do(Pipe.MTE2, "load", 0, moves=transfer(1024, 1e6, buffer=1))
    for _ in range(written):
        writer.do(Pipe.MTE3, "store", 0, moves=transfer(1024, 1e6, buffer=2, write=True))
    return writer.program


@pytest.mark.parametrize(
    ("read", "written", "share", "nbytes"),
    [
        (64, 0, 0.0, 64),
        (64, 0, 0.5, 96),  # what loads push out is written back
        (64, 0, 1.0, 128),
        (64, 32, 1.0, 160),  # and so is what stores push out,
        (4000, 0, 1.0, 5000),  # as far as L2 has been full of it
        (4000, 1000, 1.0, 5000),
        (4000, 400, 1.0, 5000),
    ],
)
def test_loads_push_modified_bytes_out(read: int, written: int, share: float, nbytes: int) -> None:
    on = machine(MemoryRates(hbm=10.0, l2_read=1e6, l2_write=1e6), l2_bytes=1024e3)
    l2 = L2State(on.l2_bytes, write_back_share=1.0)
    l2.pushed_out_share = share
    run = play((1, mover(read, written)), on=on, l2=l2)
    assert run.memory_cycles == pytest.approx(1024 * nbytes / 10.0, rel=0.01)
    assert run.core_cycles == pytest.approx(run.memory_cycles, rel=0.01)


@pytest.mark.parametrize(("read", "written"), [(64, 0), (0, 64), (64, 16), (16, 64), (64, 64)])
def test_memory_turns_around_for_what_it_does_less_of(read: int, written: int) -> None:
    rates = MemoryRates(hbm=10.0, l2_read=1e6, l2_write=1e6, turnaround=0.3)
    l2 = L2State(1e12, write_back_share=1.0)
    run = play((1, mover(read, written)), on=machine(rates), l2=l2)
    cycles = 1024 * (read + written + 0.3 * min(read, written)) / 10.0
    assert run.core_cycles == pytest.approx(cycles, rel=0.01)


@pytest.mark.parametrize("launch", [0.0, 100.0, 3000.0, 1e9])
def test_memory_writes_back_while_a_kernel_is_launched(launch: float) -> None:
    """As much as it can, of what loads and stores push out; what is left holds them up."""
    rates = MemoryRates(hbm=10.0, l2_read=1e6, l2_write=1e6)
    on = machine(rates, launch=launch, l2_bytes=1024e3)
    l2 = L2State(on.l2_bytes, write_back_share=1.0)
    l2.pushed_out_share = 1.0
    run = play((1, mover(64, 32)), on=on, l2=l2)
    late = max(0.0, 1024 * 64 + 1024 * 32 - 10.0 * launch)
    assert run.memory_cycles == pytest.approx((1024 * 64 + late) / 10.0, rel=0.01)


def test_storing_in_place_doesnt_make_loads_hit() -> None:
    cache = L2State(1000.0)
    load, store = (transfer(100, 1, write=write) for write in (False, True))
    miss = cache.misses({1: 200.0}, {1: 100.0}, {1: 0.0}, {1: 1}, (), {1: 100.0})
    assert (miss(load), miss(store)) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("miss", "write", "bypasses", "late", "cycles"),
    [
        (0.0, False, False, 0.0, 120),
        (1.0, False, False, 200.0, 20 + 100 / 0.5),  # the setup takes as long as ever
        (0.5, False, False, 100.0, 20 + 100 * 1.5),
        (1.0, False, True, 200.0, 20 + 100 / 0.25),
        (1.0, True, False, 0.0, 120),
    ],
)
def test_what_l2_misses_comes_later_and_slower(
    miss: float, write: bool, bypasses: bool, late: float, cycles: float
) -> None:
    moved = Transfer(0, write, 1200, 1200.0, 10.0, bypasses_l2=bypasses, setup_cycles=20.0)
    found = Treatment.of(moved, miss, 1.0, 1.0, Away(200.0, 0.5, 0.25))
    assert found.late == late
    assert 1200 / found.ceiling(moved) == pytest.approx(cycles)
