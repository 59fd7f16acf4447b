"""What an answer of the catalogue consists of: verdict, evidence, and parameter by parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from npusim.values.status import Status
from npusim.values.status import Verdict as RunVerdict


class Answer(Enum):
    """Will it run? `UNKNOWN` when the sources don't say, or say too little to decide.

    The same three that a status has (npusim.values.status.Verdict), of a source or of a tensor.
    """

    SUPPORTED = RunVerdict.YES.value
    REJECTED = RunVerdict.NO.value
    UNKNOWN = RunVerdict.UNKNOWN.value

    @property
    def verdict(self) -> RunVerdict:
        """The same as a status says it."""
        return RunVerdict(self.value)

    def __str__(self) -> str:
        return self.value


class Outcome(Enum):
    """What becomes of one operator of a model on one product."""

    RUNS = "runs"
    AFTER_FP16 = "would run after BF16 -> FP16"
    REJECTED = "rejected"
    UNKNOWN = "unknown"

    @property
    def ok(self) -> bool:
        """False where the model fails as it is."""
        return self.verdict is not RunVerdict.NO

    @property
    def verdict(self) -> RunVerdict:
        """Will it run as it is?"""
        if self is Outcome.RUNS:
            return RunVerdict.YES
        return RunVerdict.UNKNOWN if self is Outcome.UNKNOWN else RunVerdict.NO

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one source says.

    `column`: page, older page, experimental page, or operator information.
    """

    column: str
    answer: Answer
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class ParameterVerdict:
    """One tensor: its dtypes by source, and what that means for the dtype that was asked about.

    `page` is what the page states, `checked` the same without a BFLOAT16 that other evidence
    contradicts, `operator` what the operator information lists (None: nothing comparable there).
    """

    name: str
    io: str
    c_type: str
    page: tuple[str, ...] | None
    checked: tuple[str, ...] | None
    operator: tuple[str, ...] | None
    formats: tuple[str, ...] = ()
    rank: str = ""
    optional: bool = False
    given: str = ""
    answer: Answer = Answer.UNKNOWN
    why: str = ""
    flags: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The dtypes that we expect to work: the checked ones, or else the operator's."""
        return self.checked or self.operator or ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Our answer for one operator on one product family, with everything that it rests on.

    `subject` is an API (``aclnnAdd``) or an operator type (``MatMulV2``); `why` says what decided;
    `code` is the status that the call would return, None where that is unknown; `supported_by`
    are the families that say yes to the same question.
    """

    subject: str
    kind: str
    family: str
    soc: str
    answer: Answer
    why: str
    code: int | None
    evidence: tuple[Evidence, ...] = ()
    parameters: tuple[ParameterVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    supported_by: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def by_page(self) -> Answer:
        """What the current page alone says of the product."""
        return self._by("page")

    @property
    def by_operator(self) -> Answer:
        """What the operator information alone says of the product."""
        return self._by("operator information")

    @property
    def disagree(self) -> bool:
        """True when one source says yes and another no."""
        said = {evidence.answer for evidence in self.evidence}
        return {Answer.SUPPORTED, Answer.REJECTED} <= said

    @property
    def status(self) -> Status:
        """The status that the call would return, or that it isn't known."""
        if self.code is None:
            return Status.unknown(self.why, self.remedy)
        return Status(self.code, self.why, self.remedy)

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the evidence comes from, each once."""
        return tuple(dict.fromkeys(each.source for each in self.evidence if each.source))

    def _by(self, column: str) -> Answer:
        return next(
            (each.answer for each in self.evidence if each.column == column), Answer.UNKNOWN
        )


def worst(answers: Iterable[Answer]) -> Answer:
    """One rejection rejects; else one unknown leaves it open; nothing to judge is a yes."""
    found = set(answers)
    for answer in (Answer.REJECTED, Answer.UNKNOWN):
        if answer in found:
            return answer
    return Answer.SUPPORTED


def best(answers: Iterable[Answer]) -> Answer:
    """One yes is enough; else one unknown leaves it open; nothing to judge is unknown."""
    found = set(answers)
    for answer in (Answer.SUPPORTED, Answer.UNKNOWN, Answer.REJECTED):
        if answer in found:
            return answer
    return Answer.UNKNOWN
