"""The blocks of the cache that running sequences hold, counted without looking at each sequence.

All running sequences grow by a token a step, so a sequence takes a block every `block` steps, at
steps that depend on nothing but its length when it began: sequences are counted by that phase.
"""

from __future__ import annotations


class Blocks:
    """Blocks in use; `grow` moves all sequences on."""

    def __init__(self, total: int, block: int) -> None:
        self.total = total
        self.used = 0
        self._block = block
        self._phases = [0] * block  # how many sequences take a block at steps of each phase
        self._sequences = 0

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self.total - self.used

    def of(self, tokens: int) -> int:
        """Blocks that so many tokens of one sequence take."""
        return -(-tokens // self._block)

    def join(self, tokens: int, at: int) -> None:
        """A sequence of so many tokens begins to grow after step `at`; its blocks are held."""
        self._phases[(at - tokens) % self._block] += 1
        self._sequences += 1

    def leave(self, tokens: int, at: int) -> None:
        """A sequence that has so many tokens after step `at` gives its blocks up."""
        self._phases[(at - tokens) % self._block] -= 1
        self._sequences -= 1
        self.used -= self.of(tokens)

    def grow(self, steps: int, at: int) -> None:
        """All sequences get a token in each of `steps` steps after step `at`."""
        self.used += self.needed(steps, at)

    def needed(self, steps: int, at: int) -> int:
        """Blocks that this takes."""
        if steps == 1 < self._block:
            return self._phases[at % self._block]
        turns, rest = divmod(steps, self._block)
        taken = turns * self._sequences
        if rest:
            # A block is taken by the step in which a sequence of whole blocks gets a token.
            first = at % self._block
            last = first + rest
            phases = self._phases
            taken += sum(phases[first : min(last, self._block)])
            if last > self._block:
                taken += sum(phases[: last - self._block])
        return taken

    def steps_left(self, most: int, at: int) -> int:
        """How many of `most` steps there are blocks for."""
        free = self.free
        if (most // self._block + 1) * self._sequences <= free or self.needed(most, at) <= free:
            return most
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.needed(middle, at) <= free else (low, middle)
        return low
