"""Handles, device memory and streams by themselves, without a compiler."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.capi.runtime.handles import KINDS, Handles, WrongHandleError
from npusim.capi.runtime.hostmemory import HostMemory
from npusim.capi.runtime.memory import AddressError, DeviceMemory
from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.streams import STOP_ON_FAILURE, Clock, Event, Stream, elapsed_ms
from npusim.values.errors import DeviceFault


def test_a_handle_is_used_once_and_of_one_kind() -> None:
    tables = {kind: Handles[str](kind) for kind in KINDS}
    handles = {kind: table.add(kind) for kind, table in tables.items()}
    assert len(set(handles.values())) == len(KINDS)
    for kind, table in tables.items():
        assert table.get(handles[kind]) == kind
        for other, handle in handles.items():
            if other != kind:
                with pytest.raises(WrongHandleError, match=f"is an {other}, not an {kind}"):
                    table.get(handle)
        assert table.remove(handles[kind]) == kind
        with pytest.raises(WrongHandleError, match="has been destroyed") as error:
            table.get(handles[kind])
        assert error.value.gone
        assert table.add("next") != handles[kind]


@given(st.integers(0, 2**64 - 1))
def test_a_number_that_was_never_given_out_is_no_handle(number: int) -> None:
    table = Handles[str]("aclTensor")
    known = table.add("tensor")
    if number != known:
        with pytest.raises(WrongHandleError) as error:
            table.get(number)
        assert not error.value.gone


@given(st.data())
def test_memory_knows_its_blocks(data: st.DataObject) -> None:
    """Against a list of ranges, for any order of allocating and freeing."""
    said: list[str] = []
    memory = DeviceMemory(1 << 20, said.append)
    alive: dict[int, int] = {}
    freed: list[int] = []
    for _ in range(data.draw(st.integers(1, 12))):
        if alive and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(alive)))
            memory.free(gone)
            del alive[gone]
            freed.append(gone)
        else:
            size = data.draw(st.integers(1, 5000))
            address = memory.allocate(size, 0)
            assert address not in alive
            assert address not in freed
            alive[address] = size
    taken = sum(-(-size // 32) * 32 + 32 for size in alive.values())
    assert memory.free_bytes(0) == (1 << 20) - taken
    assert [block.address for block in memory.blocks()] == sorted(alive)
    for address, size in alive.items():
        block, offset = memory.find(address + size - 1, 1, "x")
        assert (block.address, offset) == (address, size - 1)
        rounded = -(-size // 32) * 32 + 32  # what lies behind a block is its own
        assert memory.find(address, rounded, "x")[0].content.size == rounded
        assert memory.find(address, size + 1, "x")
        with pytest.raises(AddressError, match=f"{rounded + 1 - size} bytes more than the block"):
            memory.find(address, rounded + 1, "x")
        with pytest.raises(AddressError):
            memory.find(address + size, 1, "x")
    assert len(said) == len(alive)  # each once
    for address in freed:
        with pytest.raises(AddressError, match="freed before"):
            memory.find(address, 1, "x")
        with pytest.raises(Refusal, match="freed before"):
            memory.free(address)


def test_each_device_has_its_own_memory() -> None:
    memory = DeviceMemory(1000)
    memory.allocate(900, 0)
    with pytest.raises(Refusal, match="fit") as refusal:
        memory.allocate(100, 0)
    assert refusal.value.status.code == 207001
    assert memory.allocate(900, 1)


def test_bytes_go_to_the_program_and_back() -> None:
    host, theirs, ours = HostMemory(), np.arange(50, dtype=np.uint8), np.zeros(50, np.uint8)
    host.read(theirs.ctypes.data, ours, "src")
    np.testing.assert_array_equal(ours, theirs)
    host.write(theirs.ctypes.data, ours[::-1].copy(), "dst")
    np.testing.assert_array_equal(theirs, ours[::-1])
    if host.finds_wild_pointers:
        with pytest.raises(AddressError, match="isn't memory of the program for 50 bytes"):
            host.read(16, ours, "src")


def test_streams_run_when_somebody_waits_and_keep_their_own_time() -> None:
    clock = Clock()
    one, two = Stream("one", 0, clock), Stream("two", 0, clock)
    order: list[str] = []
    begin, middle, end = Event(), Event(), Event()

    def task(name: str, duration_us: float) -> None:
        stream = one if name.startswith("1") else two

        def run(start_us: float) -> float:
            order.append(f"{name} at {start_us:g}")
            return duration_us

        stream.submit(run)

    one.record(begin)
    task("1a", 10)
    one.record(middle)
    task("1b", 100)
    task("2a", 3)
    two.wait_for(middle)
    task("2b", 5)
    two.record(end)
    assert order == []
    two.synchronize()
    assert order == ["2a at 0", "1a at 0", "2b at 10"]  # 1b isn't needed yet
    assert elapsed_ms(begin, end) == 0.015
    task("2c", 1)
    one.synchronize()
    two.synchronize()
    assert order[3:] == ["1b at 10", "2c at 15"]
    assert clock.now_us == 110
    task("2d", 1)
    two.synchronize()
    assert order[-1] == "2d at 110"  # the program had waited for 1b before it asked


def test_an_event_recorded_again_moves_and_an_earlier_wait_does_not() -> None:
    clock = Clock()
    one, two = Stream("one", 0, clock), Stream("two", 0, clock)
    event = Event()
    one.submit(lambda _: 5.0)
    one.record(event)
    two.wait_for(event)
    one.submit(lambda _: 7.0)
    one.record(event)
    two.synchronize()
    assert two.clock_us == 5
    two.wait_for(event)
    two.synchronize()
    assert two.clock_us == 12


def test_two_streams_that_wait_for_each_other_get_a_code() -> None:
    clock = Clock()
    one, two = Stream("one", 0, clock), Stream("two", 0, clock)
    first, second = Event(), Event()
    one.wait_for(second)
    one.record(first)
    two.wait_for(first)
    two.record(second)
    one.synchronize()
    with pytest.raises(DeviceFault, match="only after this wait") as fault:
        two.synchronize()
    assert fault.value.code == 107019


@pytest.mark.parametrize(("mode", "ran"), [(0, ["before", "after"]), (STOP_ON_FAILURE, ["before"])])
def test_a_fault_shows_once_at_the_synchronise(mode: int, ran: list[str]) -> None:
    stream = Stream("one", 0, Clock(), failure_mode=mode)
    seen: list[str] = []

    def fail(start_us: float) -> float:
        raise DeviceFault(507035, f"at {start_us}")

    def note(name: str) -> None:
        def run(start_us: float) -> float:
            del start_us
            seen.append(name)
            return 1.0

        stream.submit(run)

    note("before")
    stream.submit(fail)
    note("after")
    with pytest.raises(DeviceFault, match="at 1") as fault:
        stream.synchronize()
    assert fault.value.code == 507035
    assert seen == ran
    stream.synchronize()
    note("later")
    stream.synchronize()
    assert seen == [*ran, "later"]
