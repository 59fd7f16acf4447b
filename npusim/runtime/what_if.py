"""What would make a task faster: changes of its instruction streams, each played by the engine.

A change is made to the streams that were played, so it says what is to be gained before anybody
rewrites the kernel. Changes that gain nothing aren't told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.ascendc.costs import InstructionCosts
from npusim.engine import CoreGroup, machine_for, simulate
from npusim.engine.program import Barrier, Instruction, Loop, Node, Pipe, Program
from npusim.runtime.cache_start import empty_cache
from npusim.values.display import latency
from npusim.values.errors import DeadlockError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.ascendc.costs import GmCopy
    from npusim.engine import KernelRun
    from npusim.engine.program import Transfer
    from npusim.hardware.profile import Profile

_MOST = 5  # suggestions
_WORTH = 0.01  # of the time
_LINE_BYTES = 512
_SMALL_BYTES = 16 * 1024  # tiles below are worth merging
_MERGED = 4  # tiles in one
_BURSTS = re.compile(r" (\d+)x(\d+)B")
_CONFLICTS = re.compile(r"bank conflicts x([\d.]+)")
_CROSSING = "cross-core flag "
_EVENT = "an event set by "
_FREE = "a free tile of queue "
_BACK = {(Pipe.MTE3, Pipe.MTE2), (Pipe.VECTOR, Pipe.MTE2), (Pipe.MTE3, Pipe.VECTOR),
         (Pipe.MTE1, Pipe.MTE2), (Pipe.CUBE, Pipe.MTE1), (Pipe.FIXP, Pipe.CUBE)}  # fmt: skip
_OF_UB = ("gm_to_ub", "ub_to_gm")
_BY_ELEMENT = frozenset({"ld_ub", "st_ub", "ld_gm", "st_gm", "ld_st_ub", "mov_ub"})

Edit = Callable[[Instruction], Instruction]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change, the line that it is about, and the task's time before and after it."""

    text: str
    site: str
    before_us: float
    after_us: float

    def __str__(self) -> str:
        """``double buffering of x: 306 -> 264 us (add.py:12)``."""
        place = f" ({self.site})" if self.site else ""
        return f"{self.text}: {latency(self.before_us)} -> {latency(self.after_us)}{place}"


@dataclass(frozen=True, slots=True)
class _Change:
    text: str
    site: str
    groups: Sequence[CoreGroup]


def suggestions(run: KernelRun, profile: Profile) -> list[Suggestion]:
    """Up to five changes that make a kernel faster, the best one first.

    With and without a change it is played on an empty cache; the ratio is what the time that the
    task has taken is multiplied with.
    """
    groups = _groups(run)
    before, taken = _played(groups, profile), run.cycles / profile.clock_mhz
    found = []
    for change in _changes(groups, profile):
        try:
            after = _played(change.groups, profile)
        except DeadlockError:  # the streams depend on what was changed
            continue
        if after < (1 - _WORTH) * before:
            found.append(Suggestion(change.text, change.site, taken, taken * after / before))
    return sorted(found, key=lambda each: each.after_us)[:_MOST]


def _groups(run: KernelRun) -> list[CoreGroup]:
    """The groups that were played: programs of one cluster have one table of flags.

    Clusters that have a program in common have a table each.
    """
    mix = len({record.unit.kind for record in run.records}) > 1
    before: Counter[int] = Counter()
    found = []
    for record in run.records:
        program = record.program
        cluster = (id(program.flags), before[id(program)]) if mix else None
        before[id(program)] += 1
        found.append(CoreGroup(record.blocks, program, record.unit, cluster))
    return found


def _played(groups: Sequence[CoreGroup], profile: Profile) -> float:
    """Microseconds of the task."""
    run = simulate(tuple(groups), machine_for(profile, groups), empty_cache(profile))
    return run.cycles / profile.clock_mhz


def _changes(groups: list[CoreGroup], profile: Profile) -> Iterator[_Change]:
    yield from _more_slots(groups)
    yield from _running_ahead(groups)
    yield from _longer_bursts(groups, profile)
    yield from _whole_blocks(groups, profile)
    yield from _larger_tiles(groups, profile)
    yield from _no_barriers(groups)
    yield from _no_scalar_loops(groups)
    yield from _no_rereading(groups)
    yield from _no_conflicts(groups)
    yield from _more_blocks(groups, profile)
    yield from _even_split(groups)


def _more_slots(groups: list[CoreGroup]) -> Iterator[_Change]:
    """Another slot for each queue, and for all of them."""
    names = dict.fromkeys(
        name for group in groups for name in group.program.names.values() if name.startswith(_FREE)
    )
    for name in names:
        queue = name.removeprefix(_FREE)
        tiles = _initial(groups, name)
        text = (
            "double buffering"
            if tiles == 1
            else say("{tiles} slots instead of {before}").format(tiles=tiles + 1, before=tiles)
        )
        yield _Change(
            say("{text} of queue {queue}").format(text=text, queue=queue),
            "",
            _with_flags(groups, {name}),
        )
    if len(names) > 1:
        yield _Change(say("another slot for every queue"), "", _with_flags(groups, set(names)))


def _initial(groups: list[CoreGroup], name: str) -> int:
    return next(
        group.program.flags[flag]
        for group in groups
        for flag, told in group.program.names.items()
        if told == name
    )


def _with_flags(groups: list[CoreGroup], names: set[str]) -> list[CoreGroup]:
    """One more set at the beginning for flags of these names."""
    return [
        replace(
            group,
            program=_program(group.program, flags={
                flag for flag, name in group.program.names.items() if name in names
            }),
        )
        for group in groups
    ]  # fmt: skip


def _running_ahead(groups: list[CoreGroup]) -> Iterator[_Change]:
    """Producers that don't wait for the consumer of the tile before: events set by hand."""
    for crossing, text in (
        (False, say("double buffering by hand: copies that run one tile ahead of what uses them")),
        (
            True,
            say("cube and vector cores at the same time: one of them a part ahead of the other"),
        ),
    ):
        found: dict[tuple[int, ...], set[int]] = {}  # cores of a block share their flags
        site = ""
        for group in groups:
            program = group.program
            setters = {flag: each for each, _ in program.instructions() for flag in each.sets}
            for each, _ in program.instructions():
                for flag in each.waits:
                    setter, known = setters.get(flag), program.names.get(flag, "")
                    back = setter is not None and (setter.pipe, each.pipe) in _BACK
                    if (
                        known.startswith(_CROSSING)
                        if crossing
                        else known.startswith(_EVENT) and back
                    ):
                        found.setdefault(group.blocks, set()).add(flag)
                        site = site or each.site
        if found:
            changed = [
                replace(group, program=_program(group.program, flags=found.get(group.blocks)))
                for group in groups
            ]
            yield _Change(text, site, changed)


def _longer_bursts(groups: list[CoreGroup], profile: Profile) -> Iterator[_Change]:
    """Each copy of short runs as one run; runs of no whole blocks have to become such first."""
    costs, block = InstructionCosts(profile), profile.buffers.block_bytes
    short = {
        each.site: runs[1]
        for each in _all(groups)
        if (runs := _runs(each)) is not None
        and runs[0] > 1
        and runs[1] < _LINE_BYTES
        and not runs[1] % block
    }
    for site, nbytes in short.items():

        def edit(each: Instruction, site: str = site) -> Instruction:
            transfer = each.transfer
            if each.site != site or transfer is None or transfer.path not in _OF_UB:
                return each
            path, payload = getattr(profile.paths, transfer.path), transfer.payload_bytes
            copy = costs.gm_copy(path, payload, 1, rows_apart=False, atomic_sharers=0)
            return _copied(each, transfer, copy)

        text = say("bursts of {line_bytes} B or more instead of {nbytes} B").format(
            line_bytes=_LINE_BYTES, nbytes=nbytes
        )
        yield _Change(text, site, _edited(groups, edit))


def _whole_blocks(groups: list[CoreGroup], profile: Profile) -> Iterator[_Change]:
    """Copies whose runs are whole blocks of UB."""
    costs, block = InstructionCosts(profile), profile.buffers.block_bytes
    ragged = {
        each.site: runs
        for each in _all(groups)
        if (runs := _runs(each)) is not None and runs[1] % block
    }
    for site, (_, nbytes) in ragged.items():

        def edit(each: Instruction, site: str = site) -> Instruction:
            transfer, runs = each.transfer, _runs(each)
            if each.site != site or not transfer or transfer.path not in _OF_UB or not runs:
                return each
            path, whole = getattr(profile.paths, transfer.path), -(-runs[1] // block) * block
            copy = costs.gm_copy(path, whole, runs[0], rows_apart=False, atomic_sharers=0)
            return _copied(each, transfer, copy)

        text = say(
            "rows of whole blocks of {block} B, padded or several at once, instead of {nbytes} B"
        ).format(block=block, nbytes=nbytes)
        yield _Change(text, site, _edited(groups, edit))


def _copied(instruction: Instruction, transfer: Transfer, copy: GmCopy) -> Instruction:
    """The same copy in other runs."""
    moved = transfer._replace(
        traffic_bytes=copy.traffic_bytes,
        ceiling=copy.bytes_per_cycle,
        rate_fraction=copy.rate_fraction,
        setup_cycles=copy.setup_cycles,
    )
    return replace(instruction, cycles=copy.cycles, transfer=moved)


def _runs(instruction: Instruction) -> tuple[int, int] | None:
    """(number of runs, bytes of each) of a copy."""
    found = _BURSTS.search(instruction.detail)
    return (int(found[1]), int(found[2])) if found and instruction.transfer else None


def _larger_tiles(groups: list[CoreGroup], profile: Profile) -> Iterator[_Change]:
    """Four tiles in one: what an instruction costs before its first byte is paid once for them."""
    sizes = [each.transfer.payload_bytes for each in _all(groups) if each.transfer is not None]
    if not sizes or sum(sizes) / len(sizes) >= _SMALL_BYTES:
        return
    vector = profile.vector
    start = vector.default.start_cycles * vector.start_scale

    def edit(each: Instruction) -> Instruction:
        if each.transfer is not None:
            share = each.cycles / _MERGED
            return replace(each, cycles=share, latency=each.latency / _MERGED)
        if each.pipe is Pipe.VECTOR:
            saved = min(each.cycles, start) * (1 - 1 / _MERGED)
            return replace(each, cycles=each.cycles - saved)
        return each

    text = say("tiles of {merged} times the size ({sizes:,} B on average)").format(
        merged=_MERGED, sizes=round(sum(sizes) / len(sizes))
    )
    yield _Change(text, "", _edited(groups, edit))


def _no_barriers(groups: list[CoreGroup]) -> Iterator[_Change]:
    """Without the barriers of each line."""
    sites = dict.fromkeys(each.site for each in _all(groups) if each.name == "pipe_barrier")
    for site in sites:

        def edit(each: Instruction, site: str = site) -> Instruction:
            free = each.name == "pipe_barrier" and each.site == site
            return replace(each, cycles=0.0, waits=()) if free else each

        yield _Change(say("without the barrier of all pipes"), site, _edited(groups, edit))
    barriers = dict.fromkeys(
        node.site for group in groups for node in group.program.body if isinstance(node, Barrier)
    )
    for site in barriers:
        changed = [
            replace(group, program=replace(group.program, body=[
                node for node in group.program.body
                if not (isinstance(node, Barrier) and node.site == site)
            ]))
            for group in groups
        ]  # fmt: skip
        yield _Change(say("without waiting for all cores"), site, changed)


def _no_scalar_loops(groups: list[CoreGroup]) -> Iterator[_Change]:
    """Vector instructions in place of elements that the scalar unit handles one by one."""
    sites = dict.fromkeys(each.site for each in _all(groups) if each.name in _BY_ELEMENT)

    def edit(each: Instruction) -> Instruction:
        return replace(each, cycles=0.0, waits=()) if each.name in _BY_ELEMENT else each

    if sites:
        text = say("vector instructions instead of a loop of the scalar unit")
        yield _Change(text, next(iter(sites)), _edited(groups, edit))


def _no_rereading(groups: list[CoreGroup]) -> Iterator[_Change]:
    """What a core has read before stays in its memories."""
    sites = dict.fromkeys(
        each.site for each in _all(groups) if each.transfer is not None and each.transfer.reuses
    )
    for site in sites:

        def edit(each: Instruction, site: str = site) -> Instruction:
            again = each.site == site and each.transfer is not None and each.transfer.reuses
            return replace(each, cycles=0.0, transfer=None) if again else each

        text = say("keep in on-chip memory what is read again from global memory")
        yield _Change(text, site, _edited(groups, edit))


def _no_conflicts(groups: list[CoreGroup]) -> Iterator[_Change]:
    """Vector instructions whose blocks lie in different banks."""

    def edit(each: Instruction) -> Instruction:
        found = _CONFLICTS.search(each.detail)
        return replace(each, cycles=each.cycles / float(found[1])) if found else each

    sites = [each.site for each in _all(groups) if _CONFLICTS.search(each.detail)]
    if sites:
        text = say("no bank conflicts: a block stride that isn't a multiple of 16, e.g. one more")
        yield _Change(text, sites[0], _edited(groups, edit))


def _more_blocks(groups: list[CoreGroup], profile: Profile) -> Iterator[_Change]:
    """The same work on all cores."""
    kinds = {group.unit.kind for group in groups}
    cube = "cube" in kinds
    cores = profile.cores.cube_cores if cube else profile.cores.vector_cores
    blocks = len({block for group in groups for block in group.blocks})
    if blocks >= cores:
        return
    part = blocks / cores
    first = groups[0].blocks
    spread = [
        replace(group, blocks=tuple(range(cores))) for group in groups if group.blocks == first
    ]
    text = say("{cores} blocks instead of {blocks}").format(cores=cores, blocks=blocks)
    yield _Change(text, "", [replace(each, program=_spread(each.program, part)) for each in spread])


def _even_split(groups: list[CoreGroup]) -> Iterator[_Change]:
    """Every core with the mean of the work."""
    if len(groups) < 2 or len({group.unit for group in groups}) > 1:
        return
    work = [_work(group.program) for group in groups]
    mean = sum(each * group.size for each, group in zip(work, groups, strict=True)) / sum(
        group.size for group in groups
    )
    if min(work) <= 0 or max(work) < (1 + _WORTH) * mean:
        return
    changed = [
        replace(group, program=_spread(group.program, mean / own))
        for group, own in zip(groups, work, strict=True)
    ]
    yield _Change(say("the same work for every core"), "", changed)


def _spread(program: Program, part: float) -> Program:
    """The same instructions with a part of their work."""
    return _program(program, lambda each: _scaled(each, part))


def _work(program: Program) -> float:
    return sum(
        times * (each.cycles + (each.transfer.bus_bytes / each.transfer.ceiling
                                if each.transfer else 0.0))
        for each, times in program.instructions()
    )  # fmt: skip


def _scaled(each: Instruction, part: float) -> Instruction:
    transfer = each.transfer
    if transfer is not None:
        payload = max(1, round(transfer.payload_bytes * part))
        traffic = transfer.traffic_bytes * part
        transfer = transfer._replace(payload_bytes=payload, traffic_bytes=traffic)
    return replace(each, cycles=each.cycles * part, transfer=transfer)


def _all(groups: Sequence[CoreGroup]) -> list[Instruction]:
    return [each for group in groups for each, _ in group.program.instructions()]


def _edited(groups: Sequence[CoreGroup], edit: Edit) -> list[CoreGroup]:
    return [replace(group, program=_program(group.program, edit)) for group in groups]


def _program(program: Program, edit: Edit | None = None, flags: set[int] | None = None) -> Program:
    """A program with other instructions, and with one more set of some flags at its beginning."""
    counts = [count + (flag in (flags or ())) for flag, count in enumerate(program.flags)]
    return replace(program, body=_nodes(program.body, edit), flags=counts)


def _nodes(nodes: list[Node], edit: Edit | None) -> list[Node]:
    if edit is None:
        return nodes
    return [
        edit(node) if isinstance(node, Instruction)
        else Loop(node.count, _nodes(node.body, edit)) if isinstance(node, Loop)
        else node
        for node in nodes
    ]  # fmt: skip
