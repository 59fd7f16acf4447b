"""One data-parallel group: its requests, their blocks, and what its next step holds.

Sequences that decode get a token a step each. Nothing else happens between two events (one is
done, one comes, blocks run out), so that a group says how many steps that is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, inf, sqrt
from typing import TYPE_CHECKING

from npusim.serving.cache import Blocks
from npusim.serving.prefixes import Prefixes
from npusim.serving.requests import PREFIX_TOKENS

if TYPE_CHECKING:
    from npusim.serving.costs import StepCosts
    from npusim.serving.policy import Policy
    from npusim.serving.requests import Requests


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of every request, in order; milliseconds since the first could come.

    `sent_ms` is when the client sent it (with limited concurrency later than it wanted to),
    `first_ms` its first token, `done_ms` its last. `busy_ms` is the time in steps.
    """

    sent_ms: list[float]
    first_ms: list[float]
    done_ms: list[float]
    tokens: list[int]
    preemptions: int
    steps: int
    busy_ms: float
    most_blocks: int


class Group:
    """The state of a group between two steps, which `npusim.serving.engine` plays.

    `receive`, `schedule` and, if the group is `running`, `make_room`; then `took` the step.
    """

    def __init__(
        self, requests: Requests, costs: StepCosts, policy: Policy, concurrency: int | None
    ) -> None:
        count = len(requests)
        self._costs = costs
        self._policy = policy
        self._arrivals: list[float] = requests.arrival_ms.tolist()
        self._inputs: list[int] = requests.input_tokens.tolist()
        self._outputs: list[int] = requests.output_tokens.tolist()
        self._contents = requests.prefixes
        self._prefixes = Prefixes()
        self._slots = inf if concurrency is None else concurrency
        self._freed_ms = 0.0  # when the client last got a slot that it lacked
        self._next = 0
        self._waiting: deque[int] = deque()
        self._blocks = Blocks(policy.kv_blocks, policy.block)
        self._now = 0.0
        self._step = 0
        self._steps = 0
        self._busy = 0.0
        self._most_blocks = 0
        # Sequences that decode: (last step, request), and the order in which they came.
        self._ends: list[tuple[int, int]] = []
        self._order: list[int] = []
        self._end_of: dict[int, int] = {}
        self._context = 0
        # Of a prompt: tokens to compute (after a preemption its output so far too), and done.
        self._wanted: list[int] = list(self._inputs)
        self._done = [0] * count
        self._given = [0] * count
        self._partial: int | None = None
        self.chunks: list[tuple[int, int]] = []  # of the next step: a request, tokens
        self.preemptions = 0
        self._sent = [0.0] * count
        self._first = [inf] * count
        self._finished = [inf] * count

    def receive(self, now_ms: float) -> None:
        """Take in the requests whose time has come and for which the client has a slot."""
        while self._slots > 0 and self._next < len(self._arrivals):
            arrival = self._arrivals[self._next]
            if arrival > now_ms:
                return
            self._sent[self._next] = max(arrival, self._freed_ms)
            self._slots -= 1
            self._waiting.append(self._next)
            self._next += 1

    @property
    def next_arrival_ms(self) -> float:
        """When a request comes that there is a slot for: never, if there is none."""
        more = self._slots > 0 and self._next < len(self._arrivals)
        return self._arrivals[self._next] if more else inf

    @property
    def running(self) -> bool:
        """Whether the next step holds anything of this group."""
        return bool(self.chunks or self._end_of)

    @property
    def _decodes(self) -> bool:
        """Whether sequences get a token in the next step."""
        return bool(self._end_of) and (not self.chunks or self._policy.schedule == "chunked")

    def schedule(self) -> None:
        """Choose the prompts of the next step, with the tokens of each; blocks are taken."""
        policy, blocks = self._policy, self._blocks
        decoding = len(self._end_of)
        budget = policy.max_tokens - (decoding if policy.schedule == "chunked" else 0)
        room = policy.max_sequences - decoding
        chunks: list[tuple[int, int]] = []
        # Sequences that decode come first: they may need a block each in this step.
        kept = blocks.needed(1, self._step) if policy.schedule == "chunked" else 0
        while budget > 0 and room > 0:
            if self._partial is not None:
                request = self._partial
            elif self._waiting:
                request = self._waiting[0]
                if not self._done[request]:
                    self._done[request] = self._cached(request)
            else:
                break
            done, wanted = self._done[request], self._wanted[request]
            tokens = min(wanted - done, budget)
            held = 0 if self._partial is None else blocks.of(done)
            needed = blocks.of(done + tokens) - held
            if needed + kept > blocks.free:
                break
            blocks.used += needed
            if self._partial is None:
                self._waiting.popleft()
            self._partial = request if tokens < wanted - done else None
            chunks.append((request, tokens))
            budget -= tokens
            room -= 1
        self.chunks = chunks

    def _cached(self, request: int) -> int:
        """Tokens of a prompt that are in the cache: whole blocks, and never the last token.

        What is kept of a trace's prefixes is what blocks that nobody holds have room for; who
        finds some takes blocks of its own for them.
        """
        block, wanted = self._policy.block, self._wanted[request]
        found = int(self._inputs[request] * self._policy.prefix_share)
        if self._contents is not None:
            room = self._blocks.free * block // PREFIX_TOKENS
            found = self._prefixes.found(self._contents[request], room) * PREFIX_TOKENS
        return min(found, wanted - 1) // block * block

    def make_room(self) -> None:
        """Blocks for one more token of everybody: who came last gives its up if they lack."""
        if not self._decodes:
            return
        blocks = self._blocks
        while blocks.needed(1, self._step) > blocks.free:
            self._preempt()
        while self._ends and self._end_of.get(self._ends[0][1]) != self._ends[0][0]:
            heappop(self._ends)  # it was preempted

    def step_ms(self) -> float:
        """How long the next step takes."""
        decodes = self._decodes
        sequences = len(self._end_of) if decodes else 0
        context = self._context if decodes else 0
        tokens = sum(count for _, count in self.chunks)
        before = sum(self._done[request] for request, _ in self.chunks) / max(1, len(self.chunks))
        return self._costs.step_ms(sequences, context, tokens, before)

    @property
    def growth_ms(self) -> float:
        """By how much a step that only decodes takes longer than the one before."""
        sequences = len(self._end_of)
        return self._costs.context[sequences] * sequences

    def steps_left(self, now_ms: float, step_ms: float, growth_ms: float) -> float:
        """Decoding steps until something happens here, of which the first takes `step_ms`."""
        steps = self._ends[0][0] - self._step if self._ends else inf
        arrival = self.next_arrival_ms
        if arrival < inf and len(self._end_of) < self._policy.max_sequences:
            steps = min(steps, _steps_in(arrival - now_ms, step_ms, growth_ms))
        return max(1, self._blocks.steps_left(int(steps), self._step)) if self._ends else steps

    def took(self, steps: int, time_ms: float, now_ms: float) -> None:
        """`steps` steps are over; only the first of a prompt is one."""
        self._now = now_ms
        self._busy += time_ms
        self._steps += steps
        decodes = self._decodes
        self._most_blocks = max(self._most_blocks, self._blocks.used)
        if decodes:
            self._advance(steps)
        for request, count in self.chunks:
            self._done[request] += count
            if self._done[request] == self._wanted[request]:
                self._prompt_done(request)
        if decodes:
            self._leave()

    def _prompt_done(self, request: int) -> None:
        """The prompt is read, and the token behind it is there."""
        self._first[request] = min(self._first[request], self._now)
        if self._contents is not None:
            self._prefixes.keep(self._contents[request])
        self._given[request] += 1
        length = self._wanted[request]
        rest = self._outputs[request] - self._given[request]
        if rest == 0:
            self._blocks.used -= self._blocks.of(length)
            self._complete(request)
            return
        end = self._step + rest
        heappush(self._ends, (end, request))
        self._end_of[request] = end
        self._order.append(request)
        self._context += length
        self._blocks.join(length, self._step)

    def _preempt(self) -> None:
        """Whoever came last gives its blocks up and is computed anew: a prompt, else a sequence."""
        self.preemptions += 1
        if self._partial is not None:
            request, self._partial = self._partial, None
            self._blocks.used -= self._blocks.of(self._done[request])
        else:
            request = self._order.pop()
            while request not in self._end_of:
                request = self._order.pop()
            length = self._length(request)
            del self._end_of[request]
            self._given[request] += length - self._wanted[request]
            self._blocks.leave(length, self._step)
            self._context -= length
            self._wanted[request] = self._inputs[request] + self._given[request]
        self._done[request] = 0
        self._waiting.appendleft(request)

    def _length(self, request: int) -> int:
        """Tokens of a sequence that decodes: its prompt, and one for each step since."""
        rest = self._end_of[request] - self._step
        return self._wanted[request] + self._outputs[request] - self._given[request] - rest

    def _advance(self, steps: int) -> None:
        self._blocks.grow(steps, self._step)
        self._most_blocks = max(self._most_blocks, self._blocks.used)
        self._context += len(self._end_of) * steps
        self._step += steps

    def _leave(self) -> None:
        """Sequences that have got their last token."""
        while self._ends and self._ends[0][0] <= self._step:
            end, request = heappop(self._ends)
            if self._end_of.get(request) != end:
                continue
            length = self._length(request)
            del self._end_of[request]
            self._context -= length
            self._blocks.leave(length, self._step)
            self._given[request] = self._outputs[request]
            self._complete(request)
        if len(self._order) > 2 * len(self._end_of) + 64:
            self._order = [each for each in self._order if each in self._end_of]

    def _complete(self, request: int) -> None:
        self._finished[request] = self._now
        if not self._slots:
            self._freed_ms = self._now
        self._slots += 1

    @property
    def outcome(self) -> Outcome:
        """What became of its requests."""
        return Outcome(
            self._sent, self._first, self._finished, self._given, self.preemptions,
            self._steps, self._busy, self._most_blocks,
        )  # fmt: skip


def _steps_in(wait_ms: float, first_ms: float, more_ms: float) -> int:
    """Steps until `wait_ms` are over, when each takes `more_ms` longer than the one before."""
    if more_ms <= 0:
        return max(1, ceil(wait_ms / first_ms))
    half = first_ms - more_ms / 2
    return max(1, ceil((sqrt(half * half + 2 * more_ms * wait_ms) - half) / more_ms))
