"""Cores in step: groups that are in one state and do the same go on as one group.

At the start of a kernel and behind every barrier, teams whose programs begin alike are put
together. One then stands for all of them, until a loop of some ends sooner than that of others or a
step differs; from there on each is by itself again, or with those that are still like it. It takes
the bandwidth of all cores that it stands for, so that everything happens when it would anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from npusim.engine.checkpoints import TOLERANCE
from npusim.engine.program import Loop
from npusim.engine.state import Flags, GroupState, LoopRun, PipeState, State
from npusim.engine.streams import Kind, Step
from npusim.engine.timeline import CoreRecord

_OF_LOOPS = (Kind.ENTER, Kind.TURN)

# Which pipes stand where others stood: none where another already stands for it.
Replaced = Mapping[PipeState, Sequence[PipeState]]


class _Way:
    """What pipes do from where they started to the next barrier, found out when asked for."""

    def __init__(self, pipes: Sequence[PipeState]) -> None:
        self._pipes = pipes

    @cached_property
    def ahead(self) -> list[list[Step]]:
        """The steps of every pipe."""
        return [_ahead(state) for state in self._pipes]

    @cached_property
    def cycles(self) -> float:
        """How long the busiest one is busy at least."""
        return max(map(_cycles, self.ahead), default=0.0)


class Team:
    """Groups that share their flags: the cores of a block and of those that are like it."""

    def __init__(self, groups: list[GroupState]) -> None:
        self.groups = groups
        self.pipes = [state for group in groups for state in group.pipes]
        self.flags = groups[0].flags
        self.members: list[_Member] = []  # for whom it stands
        self._way = _Way(self.pipes)

    @property
    def ahead(self) -> list[list[Step]]:
        """What every pipe does from where it started together with others to the next barrier."""
        return self._way.ahead

    @property
    def cycles(self) -> float:
        """How long its busiest pipe is busy at least until then."""
        return self._way.cycles

    def start(self) -> None:
        """Its pipes start together with others."""
        for state in self.pipes:
            state.origin = state.place
        self._way = _Way(self.pipes)


@dataclass(frozen=True, slots=True)
class _Member:
    """A team for which another stands: its own loops and flags by those of the other."""

    team: Team
    loops: Mapping[int, Loop]
    flags: Mapping[int, int]


class _Alike:
    """What two teams have in common up to the next barrier.

    ``shared`` counts the steps of every pipe, which are the same apart from how often loops run;
    ``loops`` and ``flags`` are the second team's by those of the first. What is done once may last
    a little longer in one, so that all that it is off by is nothing to what is to come.
    """

    def __init__(self, one: Team, other: Team, *, in_step: bool = False) -> None:
        self.team = other
        self._one = one
        self.loops: dict[int, Loop] = {}
        self.flags: dict[int, int] = {}
        self._taken: dict[int, int] = {}  # flags of the first team by those of the second
        self.shared: list[int] = []
        going_on = map(self._go_on_alike, one.ahead, other.ahead)
        # Those that aren't in step are only put together if every pipe's next loop is alike.
        self.goes_on = all(going_on if not in_step else [*going_on])

    @cached_property
    def _slack(self) -> float:
        return TOLERANCE * self._one.cycles

    def _go_on_alike(self, steps: Sequence[Step], its: Sequence[Step]) -> bool:
        shared = self._shared(steps, its)
        self.shared.append(shared)
        whole = shared == len(steps) == len(its)
        return whole or any(step.kind is Kind.TURN for step in steps[:shared])

    def _shared(self, steps: Sequence[Step], its: Sequence[Step]) -> int:
        self._depth = 0  # how many loops are around a step
        return sum(1 for _ in takewhile(self._same, zip(steps, its, strict=False)))

    def _same(self, pair: tuple[Step, Step]) -> bool:
        step, its = pair
        if step.kind is not its.kind:
            return False
        if step.cycles != its.cycles and not self._lasts_as_long(step, its):
            return False
        if not _is_like(step, its):
            return False
        if step.kind in _OF_LOOPS:
            self._depth += 1 if step.kind is Kind.ENTER else -1
            return self.loops.setdefault(id(step.loop), its.loop) is its.loop
        for flag, own in zip(step.waits, its.waits, strict=True):
            if not self._matches(flag, own):
                return False
        for (flag, _), (own, _) in zip(step.sets, its.sets, strict=True):
            if not self._matches(flag, own):
                return False
        return True

    def _matches(self, flag: int, own: int) -> bool:
        """Whether a flag of the second team stands for one of the first, and no other does."""
        known, taken = self.flags.get(flag), self._taken.get(own)
        if known is None and taken is None:
            self.flags[flag], self._taken[own] = own, flag
            return True
        return known == own and taken == flag

    def _lasts_as_long(self, step: Step, its: Step) -> bool:
        off = abs(step.cycles - its.cycles)
        if self._depth or off > self._slack:
            return False
        self._slack -= off
        return True


class Lockstep:
    """Puts teams together and takes them apart; ``replaced`` is told who stands for whom."""

    def __init__(self, state: State, replaced: Callable[[Replaced], None]) -> None:
        self._state, self._replaced = state, replaced
        self._groups = state.groups
        self._alone = [
            Team([group for group in state.groups if group.flags is flags]) for flags in state.flags
        ]
        self._teams = self._alone

    def join(self) -> None:
        """All pipes are where a kernel starts, or at one barrier: put together what is alike."""
        self._split(self._teams)
        for team in self._teams:
            team.start()
        parts: list[tuple[Team, list[_Alike]]] = []
        for team in self._alone:
            for first, others in parts:
                if (alike := _going_on_alike(first, team)) is not None:
                    others.append(alike)
                    break
            else:
                parts.append((team, []))
        for first, others in parts:
            self._unite(first, others)

    def part(self, pipe: PipeState) -> None:
        """The step at which ``pipe`` is isn't the same for all that it stands for."""
        team = next(team for team in self._teams if team.flags is pipe.group.flags)
        place = team.pipes.index(pipe)
        self._split([team])
        parts: dict[Hashable, list[Team]] = {}
        for member in team.members:
            own = member.team.pipes[place]
            step = own.steps[own.place]
            key = (step.cycles, _told(step), step.waits, step.sets, step.loop.count)
            parts.setdefault(key, []).append(member.team)
        for first, *others in parts.values():
            self._unite(first, [_Alike(first, other, in_step=True) for other in others])

    def end(self) -> None:
        """Every group is by itself again."""
        self._split(self._teams)
        self._state.groups = self._groups

    def _split(self, teams: Sequence[Team]) -> None:
        for team in [team for team in teams if team.members]:
            members = [member.team for member in team.members]
            for member in team.members:
                _hand_over(team, member.team, member.loops, member.flags, self._state)
                for group, own in zip(team.groups, member.team.groups, strict=True):
                    _write_down(group, own)
            self._exchange([team], members)
            pipes = zip(*(member.pipes for member in members), strict=True)
            self._replaced(dict(zip(team.pipes, pipes, strict=True)))

    def _unite(self, first: Team, others: Sequence[_Alike]) -> None:
        if not others:
            return
        team, loops = _united(first, others)
        self._state.everybody += team.groups
        same = {flag: flag for flag in team.members[0].flags}
        _hand_over(first, team, loops, same, self._state)
        self._exchange([first, *(each.team for each in others)], [team])
        gone = {state: () for each in others for state in each.team.pipes}
        stand = {old: (new,) for old, new in zip(first.pipes, team.pipes, strict=True)}
        self._replaced({**gone, **stand})

    def _exchange(self, old: Sequence[Team], new: Sequence[Team]) -> None:
        self._teams = [team for team in self._teams if team not in old] + list(new)
        state = self._state
        state.groups = [group for team in self._teams for group in team.groups]
        state.pipes = [pipe for team in self._teams for pipe in team.pipes]
        state.flags = [team.flags for team in self._teams]


def _ahead(state: PipeState) -> list[Step]:
    """The steps from where a pipe started together with others to the next barrier."""
    steps, first = state.steps, state.origin
    barriers = (at for at in range(first + 1, len(steps)) if steps[at].kind is Kind.MEET)
    return steps[first : next(barriers, len(steps)) + 1]


def _told(step: Step) -> Hashable:
    """Equal for steps that are alike but for cycles, loops and the numbers of their flags."""
    claim = step.claim and (step.claim.ceiling, step.claim.demand)
    delays = [delay for _, delay in step.sets]
    about = (step.kind, step.bus_bytes, step.latency, claim, bool(step.parts))
    return (*about, len(step.waits), *delays)


def _is_like(step: Step, its: Step) -> bool:
    """Whether :func:`_told` is equal for two steps of a kind, found sooner."""
    a, b = step.claim, its.claim
    if a is not b and (a is None or b is None or a.ceiling != b.ceiling or a.demand != b.demand):
        return False
    if (
        step.bus_bytes != its.bus_bytes
        or step.latency != its.latency
        or bool(step.parts) is not bool(its.parts)
    ):
        return False
    sets, others = step.sets, its.sets
    if len(step.waits) != len(its.waits) or len(sets) != len(others):
        return False
    for one, other in zip(sets, others, strict=True):  # noqa: SIM110 - quicker
        if one[1] != other[1]:
            return False
    return True


def _cycles(steps: Sequence[Step]) -> float:
    """How long steps keep a pipe busy at least."""
    total, turns = 0.0, [1]
    for step in steps:
        if step.kind is Kind.ENTER:
            turns.append(turns[-1] * step.loop.count)
        elif step.kind is Kind.TURN:
            turns.pop()
        total += turns[-1] * step.cycles
    return total


def _going_on_alike(one: Team, other: Team) -> _Alike | None:
    """What two teams in the same state have in common, if every pipe's next loop is alike."""
    if [_where(state) for state in one.pipes] != [_where(state) for state in other.pipes]:
        return None
    if any(state.runs for state in (*one.pipes, *other.pipes)):
        return None  # a barrier in a loop
    alike = _Alike(one, other)
    if not alike.goes_on:
        return None
    at_once = all(_past(one, flag) == _past(other, own) for flag, own in alike.flags.items())
    return alike if at_once else None


def _where(state: PipeState) -> Hashable:
    return state.pipe, state.group.group.unit, state.stage, state.clock


def _past(team: Team, flag: int) -> list[float]:
    """When a flag will have been set; it doesn't matter how long ago one was."""
    now = team.pipes[0].clock
    return [max(time - now, 0.0) for time in team.flags.held.get(flag, ())]


def _united(first: Team, others: Sequence[_Alike]) -> tuple[Team, dict[int, Loop]]:
    """The team to stand for several in the same state, and its loops by those of the first."""
    shared = [min(counts) for counts in zip(*(each.shared for each in others), strict=True)]
    own = {
        id(step.loop): step.loop
        for state, count in zip(first.pipes, shared, strict=True)
        for step in state.steps[state.origin : state.origin + count]
        if step.kind is Kind.ENTER
    }
    flags = set.intersection(*(set(each.flags) for each in others))
    loops, uneven = {}, set()
    for known, loop in own.items():
        counts = [loop.count, *(each.loops[known].count for each in others)]
        loops[known] = Loop(min(counts))
        if min(counts) < max(counts):
            uneven.add(known)
    state = Flags({}, first.flags.unordered)
    lengths = iter(shared)
    groups = []
    for index, group in enumerate(first.groups):
        about = group.group
        teams = (first, *(each.team for each in others))
        blocks = [block for each in teams for block in each.groups[index].group.blocks]
        whole = replace(about, blocks=tuple(blocks))
        made = GroupState(whole, state, CoreRecord(whole.blocks, about.unit, about.program))
        made.issue = group.issue
        made.users = {id(loops[loop]): group.users[loop] for loop in own if loop in group.users}
        for pipe in group.pipes:
            steps = _steps(pipe, next(lengths), loops, uneven, whole.size)
            made.pipes.append(PipeState(pipe.pipe, made, steps, origin=pipe.origin))
        groups.append(made)
    team = Team(groups)
    team.members = [
        _Member(
            first, {id(loops[known]): own[known] for known in own}, {flag: flag for flag in flags}
        ),
        *(
            _Member(
                each.team,
                {id(loops[known]): each.loops[known] for known in own},
                {flag: each.flags[flag] for flag in flags},
            )
            for each in others
        ),
    ]
    return team, loops


def _steps(
    state: PipeState, shared: int, loops: Mapping[int, Loop], uneven: set[int], cores: int
) -> list[Step]:
    """The steps of a pipe that stands for others: those in common, and the place to part."""

    def common(step: Step) -> Step:
        if step.claim is not None:
            return step.claimed(step.claim.of_cores(cores))
        if step.kind in _OF_LOOPS:
            return step.looped(loops[id(step.loop)], uneven=id(step.loop) in uneven)
        return step

    first, last = state.origin, state.origin + shared
    return [*state.steps[:first], *map(common, state.steps[first:last]), Step(Kind.PART)]


class _Runs:
    """The runs of a team's loops in the place of another's."""

    def __init__(
        self, loops: Mapping[int, Loop], pipes: Mapping[PipeState, PipeState], state: State
    ) -> None:
        self._loops, self._pipes, self._state = loops, pipes, state
        self._made: dict[LoopRun, LoopRun] = {}

    def own(self, run: LoopRun) -> LoopRun:
        """The team's own for a run of the other's."""
        if run not in self._made:
            loop, serial = self._loops[id(run.loop)], next(self._state.serials)
            made = self._made[run] = LoopRun(loop, serial, run.level, run.expected)
            made.members = [self._pipes[member] for member in run.members]
            made.inner = self.placed(run.inner)
        return self._made[run]

    def placed(self, table: Mapping[tuple[int, int], LoopRun]) -> dict[tuple[int, int], LoopRun]:
        """The team's own table of runs."""
        return {(id(self.own(run).loop), turn): self.own(run) for (_, turn), run in table.items()}


def _hand_over(
    source: Team,
    target: Team,
    loops: Mapping[int, Loop],
    flags: Mapping[int, int],
    state: State,
) -> None:
    """Put a team where another one is; ``loops`` and ``flags`` are its own by the other's."""
    pipes = dict(zip(source.pipes, target.pipes, strict=True))
    runs = _Runs(loops, pipes, state)
    for group, its in zip(source.groups, target.groups, strict=True):
        its.runs = runs.placed(group.runs)
    for old, new in pipes.items():
        new.place = old.place - old.origin + new.origin
        new.stage, new.waited, new.ready = old.stage, old.waited, old.ready
        new.clock, new.started, new.arrived = old.clock, old.started, old.arrived
        new.runs, new.turns = [runs.own(run) for run in old.runs], old.turns[:]
    held = target.flags.held
    for flag, mine in flags.items():
        held.pop(mine, None)
        if times := source.flags.held.get(flag):
            held[mine] = times[:]
    waiting = source.flags.waiters
    target.flags.waiters = {flags[flag]: pipes[old] for flag, old in waiting.items()}


def _write_down(group: GroupState, own: GroupState) -> None:
    """Add to a group's record what one that stood for it has done, in its own instructions."""
    parts = {
        id(step.parts): its.parts
        for state, mine in zip(group.pipes, own.pipes, strict=True)
        for step, its in zip(state.steps[state.origin :], mine.steps[mine.origin :], strict=False)
    }
    record, done = own.record, group.record
    before = len(record.entries)
    if all(known == id(its_parts) for known, its_parts in parts.items()):
        record.entries += done.entries
    else:
        record.entries += [
            (pipe, parts[id(done_parts)], start, end)
            for pipe, done_parts, start, end in done.entries
        ]
    record.folds += [
        replace(fold, first=fold.first + before, last=fold.last + before) for fold in done.folds
    ]
    record.end = max(record.end, done.end)
    for state, mine in zip(group.pipes, own.pipes, strict=True):
        mine.busy += state.busy
