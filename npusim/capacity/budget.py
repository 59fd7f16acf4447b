"""The processor time that a plan may take, shared out among its products and their questions."""

from __future__ import annotations

from time import process_time


class Budget:
    """Seconds of processor time from now on; `share` lends a part of what is left to one question.

    What runs out isn't broken off: whoever asks `is_spent` looks less closely from then on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end_s = self._until_s = process_time() + seconds

    def share(self, part: float) -> None:
        """Until the next call, this part of all that is left may be spent."""
        now_s = process_time()
        self._until_s = now_s + part * max(0.0, self._end_s - now_s)

    @property
    def is_spent(self) -> bool:
        """Whether the share that was lent is used up."""
        return process_time() >= self._until_s
