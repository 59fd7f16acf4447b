"""One data-parallel group: its sequences, their blocks, and what its next step holds.

Sequences that decode get a token a step each. Nothing else happens between two events (one is
done, one comes, blocks run out), so that a group says how many steps that is.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from npusim.serving.cache import Blocks
from npusim.serving.prefixes import Prefixes
from npusim.serving.requests import PREFIX_TOKENS

if TYPE_CHECKING:
    from npusim.serving.clients import Book
    from npusim.serving.costs import StepCosts
    from npusim.serving.policy import Policy


class Group:
    """The state of a group between two steps, which `npusim.serving.engine` plays.

    `send` it requests, and let it `plan` its next step; then it `took` that and others that only
    decode, after which `left` are the requests that it has done with. One that `hands_over` reads
    prompts, and others go on.
    """

    def __init__(
        self, book: Book, costs: StepCosts, policy: Policy, *, hands_over: bool = False
    ) -> None:
        self._book = book
        self._costs = costs
        self._policy = policy
        self._hands_over = hands_over
        self._prefixes = Prefixes()
        self._waiting: deque[int] = deque()
        self._blocks = Blocks(policy.kv_blocks, policy.block)
        self._now = 0.0
        self._step = 0
        # Sequences that decode: (last step, request), and the order in which they came.
        self._ends: list[tuple[int, int]] = []
        self._order: list[int] = []
        self._end_of: dict[int, int] = {}
        self._context = 0
        self._partial: int | None = None
        self.chunks: list[tuple[int, int]] = []  # of the next step: a request, tokens
        self.left: list[int] = []
        self.preemptions = 0
        self.steps = 0
        self.busy_ms = 0.0
        self.most_blocks = 0

    def send(self, request: int) -> None:
        """A request comes; its prompt may have been read elsewhere."""
        self._waiting.append(request)

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
        if self._partial is None and not self._waiting:
            self.chunks = []
            return
        policy, blocks, book = self._policy, self._blocks, self._book
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
                if not book.done[request]:
                    book.done[request] = self._cached(request)
            else:
                break
            done, wanted = book.done[request], book.wanted[request]
            tokens = min(wanted - done, budget)
            held = blocks.of(done) if self._partial is not None else 0
            needed = blocks.of(done + tokens) - held
            # What was read elsewhere decodes in this step.
            if kept + (needed if tokens else blocks.of(wanted + 1)) > blocks.free:
                break
            blocks.used += needed
            if self._partial is None:
                self._waiting.popleft()
            self._partial = request if tokens < wanted - done else None
            room -= 1
            if tokens:
                chunks.append((request, tokens))
                budget -= tokens
            else:
                self._join(request)
                kept = blocks.needed(1, self._step)
                budget -= 1
        self.chunks = chunks

    def _cached(self, request: int) -> int:
        """Tokens of a prompt that are in the cache: whole blocks, and never the last token.

        What is kept of a trace's prefixes is what blocks that nobody holds have room for; who
        finds some takes blocks of its own for them.
        """
        block, wanted = self._policy.block, self._book.wanted[request]
        found = int(self._book.inputs[request] * self._policy.prefix_share)
        if self._book.contents is not None:
            room = self._blocks.free * block // PREFIX_TOKENS
            found = self._prefixes.found(self._book.contents[request], room) * PREFIX_TOKENS
        return min(found, wanted - 1) // block * block

    def plan(self) -> None:
        """Choose what the next step holds, with blocks for it."""
        self.schedule()
        if self._decodes:
            self._make_room()

    def _make_room(self) -> None:
        """Blocks for one more token of everybody: who came last gives its up if they lack."""
        blocks = self._blocks
        while blocks.needed(1, self._step) > blocks.free:
            self._preempt()
        while self._ends and self._end_of.get(self._ends[0][1]) != self._ends[0][0]:
            heappop(self._ends)  # it was preempted

    def step_ms(self) -> float:
        """How long the next step takes."""
        if not self.chunks:
            sequences = len(self._end_of)
            return self._costs.decode[sequences] + self._costs.context[sequences] * self._context
        decodes = self._decodes
        sequences = len(self._end_of) if decodes else 0
        context = self._context if decodes else 0
        tokens = sum(count for _, count in self.chunks)
        before = sum(self._book.done[request] for request, _ in self.chunks) / max(
            1, len(self.chunks)
        )
        return self._costs.step_ms(sequences, context, tokens, before)

    @property
    def is_full(self) -> bool:
        """Whether it takes no further sequence."""
        return len(self._end_of) >= self._policy.max_sequences

    @property
    def lacks_blocks(self) -> bool:
        """Whether a request waits for blocks alone."""
        return bool(self._waiting) and not self.chunks and not self.is_full

    def outlook(self) -> tuple[float, float, float]:
        """How long the next step takes, how much longer each after it that only decodes.

        At last how many of them there are until a sequence is done or blocks run out.
        """
        sequences = len(self._end_of)
        more_ms, steps = self._costs.context[sequences] * sequences, inf
        if self._ends:
            steps = max(1, self._blocks.steps_left(self._ends[0][0] - self._step, self._step))
        return self.step_ms(), more_ms, steps

    def took(self, steps: int, time_ms: float, now_ms: float) -> None:
        """`steps` steps are over, all of them alike; of prompts there is one."""
        self._now = now_ms
        self.left = []
        self.busy_ms += time_ms
        self.steps += steps
        decodes = self._decodes
        self.most_blocks = max(self.most_blocks, self._blocks.used)
        if decodes:
            self._advance(steps)
        for request, count in self.chunks:
            self._book.done[request] += count
            if self._book.done[request] == self._book.wanted[request]:
                self._prompt_done(request)
        if decodes:
            self._leave()

    def _prompt_done(self, request: int) -> None:
        """The prompt is read, and the token behind it is there."""
        book = self._book
        book.first[request] = min(book.first[request], self._now)
        if book.contents is not None:
            self._prefixes.keep(book.contents[request])
        book.given[request] += 1
        if book.given[request] < book.outputs[request] and not self._hands_over:
            self._join(request)
            return
        self._blocks.used -= self._blocks.of(book.wanted[request])
        if book.given[request] == book.outputs[request]:
            book.finished[request] = self._now
        self.left.append(request)

    def _join(self, request: int) -> None:
        """A sequence whose prompt is in the cache decodes from the next step on."""
        book = self._book
        length = book.wanted[request]
        end = self._step + book.outputs[request] - book.given[request]
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
            self._blocks.used -= self._blocks.of(self._book.done[request])
        else:
            request = self._order.pop()
            while request not in self._end_of:
                request = self._order.pop()
            length = self._length(request)
            del self._end_of[request]
            self._book.given[request] += length - self._book.wanted[request]
            self._blocks.leave(length, self._step)
            self._context -= length
            self._book.wanted[request] = self._book.inputs[request] + self._book.given[request]
        self._book.done[request] = 0
        self._waiting.appendleft(request)

    def _length(self, request: int) -> int:
        """Tokens of a sequence that decodes: its prompt, and one for each step since."""
        rest = self._end_of[request] - self._step
        return (
            self._book.wanted[request]
            + self._book.outputs[request]
            - self._book.given[request]
            - rest
        )

    def _advance(self, steps: int) -> None:
        self._blocks.grow(steps, self._step)
        self.most_blocks = max(self.most_blocks, self._blocks.used)
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
            self._book.given[request] = self._book.outputs[request]
            self._book.finished[request] = self._now
            self.left.append(request)
        if len(self._order) > 2 * len(self._end_of) + 64:
            self._order = [each for each in self._order if each in self._end_of]
