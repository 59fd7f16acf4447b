"""One AI core as kernel code sees it.

Block index, memories, loops, and the intrinsics of the other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from npusim.ascendc.cluster import Cluster, CoreWait, Crossing
from npusim.ascendc.intrinsics.cube import Cube
from npusim.ascendc.intrinsics.fill import Fills
from npusim.ascendc.intrinsics.gather import Addressing
from npusim.ascendc.intrinsics.load3d import Load3d
from npusim.ascendc.intrinsics.rearrange import Rearranging
from npusim.ascendc.intrinsics.reduce import Reductions
from npusim.ascendc.intrinsics.scalar import Scalars
from npusim.ascendc.intrinsics.spread import Spreading
from npusim.ascendc.intrinsics.vector import Vector
from npusim.ascendc.loops import LoopIndex
from npusim.ascendc.mistakes import site
from npusim.ascendc.passages import Again, Passage, Setting
from npusim.ascendc.queues import TPipe
from npusim.engine.program import Barrier, Unit
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.chains import Engine
    from npusim.ascendc.costs import InstructionCosts
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.recorder import Kept

Steps: TypeAlias = "Iterator[Barrier | CoreWait]"

_STACK_BYTES = 1 << 24  # numbers worked on at once per core: few calls of NumPy, in L3
_SHARE_BYTES = 1 << 28  # the same for tasks of several blocks, whose chains leave few in memory


class Core(
    Vector,
    Reductions,
    Cube,
    Load3d,
    Spreading,
    Scalars,
    Fills,
    Addressing,
    Crossing,
    Rearranging,
):
    """One block of a kernel on one core: its index, its memories, its loops, and all intrinsics.

    In a ``reference`` run there are no shortcuts: every iteration is executed by itself, and each
    instruction both computes and is written down.
    """

    def __init__(
        self,
        cluster: Cluster,
        costs: InstructionCosts,
        unit: Unit,
        storage: dict[object, NDArray[Any]],
        *,
        numerics: bool,
        recording: bool,
        engine: Engine | None,
    ) -> None:
        self.waits_at = ""  # the line of the last barrier
        super().__init__(
            cluster.kernel_name,
            costs,
            unit,
            cluster.new_program(unit),
            storage,
            numerics=numerics,
            recording=recording,
            widened=cluster.widened,
            engine=engine,
        )
        self.cluster = cluster
        self.reference, self.views = cluster.reference, cluster.views
        self.pipe = TPipe(self)
        self._shares = 0  # begun so far
        self._number: tuple[int, int] | None = None

    def let_go(self) -> None:
        """Forget what was written down and reserved: these know the core, and it knows them."""
        self.recorder.let_go()
        self.pipe.let_go()

    def get_block_idx(self) -> int:
        """Index of this block, 0 <= index < :meth:`get_block_num`."""
        return self._number[0] if self._number else self.cluster.block_idx

    def get_block_num(self) -> int:
        """Number of blocks of the launch (block_dim)."""
        return self._number[1] if self._number else self.cluster.block_num

    @contextmanager
    def numbered(self, index: int, count: int) -> Iterator[None]:
        """Inside, this is block ``index`` of ``count``: a kernel that another one is made of."""
        self._number = index, count
        try:
            yield
        finally:
            self._number = None

    def sync_all(self) -> Barrier:
        """Wait for all cores. Kernels write ``yield core.sync_all()``.

        Nobody passes before everybody has come.
        """
        if self.recording:
            self.recorder.barrier()
        if self.follower is not None:
            self.follower.meets()
        self.phase += 1
        self.waits_at = site()
        cores = self.profile.cores
        mixed = len(self.cluster.units) > 1 or self.unit.kind == "cube"
        at_once = cores.cube_cores if mixed and cores.style == "split" else cores.most
        if self.get_block_num() > at_once:
            raise KernelError(
                self.kernel_name,
                f"sync_all of {self.get_block_num()} blocks on {at_once} cores: those that haven't "
                "begun are waited for for ever",
                "Launch as many blocks as there are cores, and let each do several shares.",
            )
        self._last_written = None
        return self.awaits(Barrier())

    def pipe_barrier(self) -> None:
        """What is issued from here on waits for everything before (PipeBarrier of PIPE_ALL)."""
        if self.recording:
            self.recorder.join(self.profile.scalar.issue_cycles)

    def loop(
        self,
        count: int,
        *,
        sequential: bool = False,
        accumulates: bool = False,
        inner_bytes: int = 0,
        at_once: int = 0,
        alike: Hashable = None,
    ) -> Iterator[LoopIndex]:
        """Loop over ``count`` alike iterations (``for i in core.loop(n)``), recorded once.

        The body is executed for many iterations at once, so it must not carry values from one
        iteration to the next; ``sequential=True`` executes them one by one for bodies that do, and
        the index is a number then (:mod:`npusim.ascendc.watching`). A body that ``accumulates``
        carries nothing but what :meth:`accumulate` adds to.
        ``inner_bytes`` is what an iteration works on where inner loops make that more than the
        core's buffers, and of a body that accumulates what an iteration has of its own in them;
        ``at_once`` is the number of iterations to execute at once when one iteration works on far
        less than the core's buffers. Loops of this kernel for which ``alike`` is the same differ in
        their counts and in where they begin at most: without numbers one core executes the body.
        """
        if count <= 0:
            return iter(())
        one_by_one = sequential or self.reference
        apart = count > 1 and not one_by_one and at_once != 1
        if not (self.numerics or self.reference):
            alike = alike if count > 1 and self._only_writes_down else None
            return self._turns(count, ((0, 1),), apart=apart, alike=alike)
        many = self._beside(count, inner_bytes) if accumulates else self._batch(count, inner_bytes)
        step = 1 if one_by_one else at_once or many
        turns = ((first, min(first + step, count)) for first in range(0, count, step))
        return self._turns(count, turns, apart=apart)

    @property
    def computes_together(self) -> bool:
        """Whether blocks are computed whose tasks :meth:`share` puts together."""
        return self.numerics and self.cluster.progress is not None

    def share(
        self,
        first: Callable[[int], int],
        *,
        inner_bytes: int = 0,
        in_chains: bool = True,
        adds_in_turn: bool = False,
    ) -> Iterator[LoopIndex]:
        """Loop over the block's tasks, from ``first(block)`` up to ``first(block + 1)``.

        As :meth:`loop`, with the number of the task as index. Where blocks are ``independent``, the
        host computes some blocks' tasks at once, so the body must depend on nothing but the task,
        and what it adds to global memory goes to a place of the task, each by one copy; with
        ``adds_in_turn`` to a place of all tasks, which add to it in their order. Without
        ``in_chains`` its steps are computed one by one, and fewer tasks fit the host's caches.
        """
        if self.loops:
            raise KernelError(self.kernel_name, "a block's share of the tasks is an outermost loop")
        start = first(self.get_block_idx())
        self._shares += 1
        self.in_share, self.adds_in_turn = True, adds_in_turn
        most_bytes = _SHARE_BYTES if in_chains else _STACK_BYTES
        for turn in self._tasks(first, start, inner_bytes, most_bytes):
            yield turn + start
        self.in_share = False

    def _tasks(
        self, first: Callable[[int], int], start: int, inner_bytes: int, most_bytes: int
    ) -> Iterator[LoopIndex]:
        """The block's tasks and perhaps those of the next blocks; none where others had them."""
        count, progress = first(self.get_block_idx() + 1) - start, self.cluster.progress
        if progress is not None:
            progress.first[self._shares] = first
        if count <= 0 or progress is None or not self.numerics:
            yield from self.loop(count, inner_bytes=inner_bytes)
            return
        done = max(0, progress.reached.get(self._shares, start) - start)
        known = first(progress.last_block + 1) - start
        if done < count:
            most = self._batch(known - done, inner_bytes, most_bytes)
            step = ceil((known - done) / ceil((known - done) / most))  # turns of the same length
            turns = [(begin, min(begin + step, known)) for begin in range(done, count, step)]
            progress.reached[self._shares] = start + turns[-1][1]
            yield from self._turns(count, turns, apart=True)
        elif self.recording:
            self.numerics = False
            yield from self._turns(count, [(0, 1)], apart=True)
            self.numerics = True

    def _turns(
        self,
        count: int,
        turns: Iterable[tuple[int, int]],
        *,
        apart: bool,
        alike: Hashable = None,
    ) -> Iterator[LoopIndex]:
        """The iterations of a loop that are executed, from one up to another, each pair at once.

        ``apart`` gives every iteration local memory of its own. A body that has been written down
        before, where ``alike`` and the core were the same, is written down again without a turn.
        """
        counted = self.recording and not self.reference
        if counted:
            self.recorder.enter_loop(count)
        depth, recording = self.depth, self.recording
        state, flags = None, None
        if alike is not None:
            state, flags = self._state(alike), len(self.recorder.program.flags)
            if (known := self.costs.bodies.pop(state, None)) is not None:
                self._repeats(known, count)
                return
        if apart:
            self.chain.run()
        for first, last in turns:
            yield self._begin_turn(LoopIndex(depth, first, last, count), apart=apart)
            self._end_turn(apart=apart)
            if counted and self.recording:
                body = self.recorder.leave_loop(count, depth, kept_from=flags)
                if body is not None:
                    self.costs.bodies[state] = body, self.pipe.handed, *self._slots
                self.recording = False
        self.recording = recording
        self._last_written = None

    def _state(self, alike: Hashable) -> Hashable:
        """All that the instructions of a loop's body depend on, beside what its author calls so."""
        return alike, self.depth, self.recorder.state, self.pipe.handed, self._slots

    @property
    def _slots(self) -> tuple[frozenset[object], frozenset[object]]:
        """Those that the scalar unit has yet to wait for, and those that are filled."""
        return frozenset(self._unread), frozenset(self._filled)

    def _repeats(self, known: Kept, count: int) -> None:
        """Write down a loop of a body that is known, and leave all as a turn of it would."""
        body, handed, unread, filled = known
        self.recorder.repeat_body(body, count, self.depth)
        self.pipe.go_to(handed)
        self._unread, self._filled, self._last_written = set(unread), set(filled), None

    def _begin_turn(self, index: LoopIndex, *, apart: bool) -> LoopIndex:
        self.loops.append(index)
        self.depth += 1
        self.scopes.begin(at_once=apart)
        self._last_written = None
        return index

    def _end_turn(self, *, apart: bool) -> None:
        if apart:
            self.chain.run(self.depth - 1)
        elif self.loops[-1].count > 1:
            self.chain.end_of_turn(self.depth - 1)
        self.loops.pop()
        self.depth -= 1
        self.scopes.end()

    def tiles(
        self,
        start: int,
        length: int,
        tile_length: int,
        *,
        sequential: bool = False,
        accumulates: bool = False,
        inner_bytes: int = 0,
        alike: Hashable = None,
    ) -> Iterator[tuple[LoopIndex, int]]:
        """Cut ``length`` elements from ``start`` into tiles.

        Yields (first element, elements) of each.

        All full tiles come as one :meth:`loop`; a shorter last tile comes as one of its own.
        """
        if tile_length < 1:
            raise KernelError("", "no tile fits: it would have no elements", "Use fewer buffers.")
        full, rest = divmod(length, tile_length)
        turns = self.loop(
            full,
            sequential=sequential,
            accumulates=accumulates,
            inner_bytes=inner_bytes,
            alike=alike,
        )
        return self._cut(turns, start, tile_length, full, rest)

    def _cut(
        self, turns: Iterator[LoopIndex], start: int, tile_length: int, full: int, rest: int
    ) -> Iterator[tuple[LoopIndex, int]]:
        for index in turns:
            yield index * tile_length + start, tile_length
        if rest:
            for index in self.loop(1):
                yield index * rest + (start + full * tile_length), rest

    def separately(self, schedule: Callable[[], object], compute: Callable[[], object]) -> None:
        """Work whose numbers are found at once, and whose instructions differ from tile to tile.

        ``schedule`` is written down without numbers, and ``compute`` computes without being written
        down. A reference run executes ``schedule`` alone, which has to compute the same numbers.
        """
        if self.reference:
            schedule()
            return
        if self.recording and not self.numerics:
            scheduling, self.scheduling = self.scheduling, True
            try:
                schedule()
            finally:
                self.scheduling = scheduling
            return
        if self.recording:
            with self._without(numbers=True):
                schedule()
        if self.numerics:
            with self._without(recording=True):
                compute()

    def separate_steps(self, schedule: Callable[[], Steps], compute: Callable[[], Steps]) -> Steps:
        """As :meth:`separately` for work that waits for other cores (``yield from``)."""
        if self.reference:
            yield from schedule()
            return
        if self.recording:
            with self._without(numbers=True):
                yield from schedule()
        if self.numerics:
            with self._without(recording=True):
                yield from compute()

    @contextmanager
    def schedules(self) -> Iterator[None]:
        """Inside, instructions are written down whose numbers the kernel finds by itself."""
        with self._without(numbers=True):
            yield

    def alike(
        self, key: Hashable, works: Sequence[Callable[[], object]], places: Sequence[GmSlice] = ()
    ) -> int:
        """Pieces of work whose instructions are the same wherever ``key`` is, in this kernel.

        One is done for each key; what it wrote down is written down again for the others, and this
        is how many: queues are then for the caller to bring to where they would be. What a piece
        moves is counted from ``places``, one in each buffer, which may be others for another one,
        on any core of the kernel; those come one by one, and where numbers are found elsewhere.
        """
        line, done = self.costs.line_bytes, 0
        begins = [each.begins(line) for each in places]
        origins = {lies[0]: origin for origin, lies in begins}
        apart = not places or (self.scheduling and len(origins) == len(places))
        if apart and self._only_writes_down:
            passages, flags = self.costs.passages, self.pipe.flags
            setting = Setting(origins, flags, self.depth, site() or self.recorder.home)
            if places:
                core = self.unit.kind, len(flags), self._last_written
                key = key, *core, *[lies for _, lies in begins]
            if key not in passages:
                noted, done = self.recorder.passage(works[0]), 1
                after = self._last_written, set(self._unread)
                passages[key] = None if noted is None else Passage(noted, setting, *after)
            again, known = len(works) - done, passages[key]
            if not (again or self.recorder.takes_note):
                return 0
            if known is not None and not known.comes_again:
                known = passages[key] = None
            if again and known is not None:
                self.recorder.repeat(known, again, setting)
                self._last_written = known.last_written
                self._unread |= known.unread
            self.recorder.note(None if known is None or places else Again(known, len(works)))
            if not again or known is not None:
                return again
        for work in works[done:]:
            work()
        return 0

    @property
    def _only_writes_down(self) -> bool:
        """Whether a kernel of ours is written down and nothing else, with nobody who follows."""
        more = self.numerics or self.reference or self.own_code or self.follower is not None
        return self.recording and not more and self.recorder.watcher is None

    def repeats_since(self, depth: int) -> int:
        """How often what is written down now runs in each turn of the loop at ``depth``."""
        return 1 if self.reference else super().repeats_since(depth)

    @contextmanager
    def _without(self, *, numbers: bool = False, recording: bool = False) -> Iterator[None]:
        """Inside, nothing is computed, or nothing is written down.

        What is computed leaves no trace in what the next instruction waits for.
        """
        before = self.numerics, self.recording, self._last_written, set(self._unread)
        scheduling, self.scheduling = self.scheduling, self.scheduling or numbers
        self.numerics = self.numerics and not numbers
        self.recording = self.recording and not recording
        try:
            yield
        finally:
            self.numerics, self.recording = before[:2]
            self.scheduling = scheduling
            if recording:
                self._last_written, self._unread = before[2:]

    def _batch(self, count: int, inner_bytes: int, most_bytes: int = _STACK_BYTES) -> int:
        """How many iterations to execute at once.

        As many as keep their numbers in the host's caches.
        """
        if any(index.last - index.first > 1 for index in self.loops):
            return count
        per_iteration = max(1, inner_bytes, sum(self.pipe.used_bytes.values()))
        return max(1, min(count, most_bytes // per_iteration))

    def _beside(self, count: int, inner_bytes: int) -> int:
        """As :meth:`_batch`, next to the iterations of outer loops that are executed at once."""
        per_iteration = max(1, inner_bytes or sum(self.pipe.used_bytes.values()))
        outer = self.stack_size(0, self.depth)
        return max(1, min(count, _STACK_BYTES // (per_iteration * outer)))
