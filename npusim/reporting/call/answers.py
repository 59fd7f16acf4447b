"""What one product answers to one question: a status and, when it is a yes, the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.reporting.renderers import jsonout
from npusim.reporting.renderers.jsonout import fields
from npusim.values.status import Verdict

if TYPE_CHECKING:
    from npusim.runtime.results import Result
    from npusim.values.errors import NpusimError
    from npusim.values.status import Status


@dataclass(frozen=True)
class Answer:
    """The answer of one SoC: the status of the call, its result if it ran, else the error."""

    soc: str
    product_line: str
    status: Status | None = None
    result: Result | None = None
    error: NpusimError | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the product runs the call; what goes wrong otherwise is a no."""
        if self.error is not None:
            return Verdict.NO
        return Verdict.YES if self.status is None else self.status.verdict

    @property
    def ok(self) -> bool:
        """Whether the product runs the call for certain."""
        return self.verdict is Verdict.YES

    @property
    def reason(self) -> str:
        """Why not, in one sentence; empty for a yes."""
        if self.error is not None:
            return self.error.message
        if self.status is None or self.status.ok:
            return ""
        return self.status.message if self.status.code is None else self.status.sentence

    @property
    def remedy(self) -> str:
        """What to do about a no; empty when there is nothing to add."""
        if self.error is not None:
            return self.error.remedy
        return "" if self.status is None else self.status.remedy

    def as_json(self) -> dict[str, Any]:
        """The answer as one JSON object."""
        described: dict[str, Any] = fields(self, "soc product_line ok verdict")
        if self.status is not None:
            described["status"] = jsonout.status(self.status)
        if self.error is not None:
            described["error"] = jsonout.error(self.error)
        if self.result is not None:
            described |= jsonout.result(self.result)
        return described
