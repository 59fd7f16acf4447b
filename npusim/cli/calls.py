"""Putting one call to one or more chips, and presenting what they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.cli import output
from npusim.cli.chips import Chip, progress_over
from npusim.values.errors import AclnnError, RejectedError, error_of
from npusim.values.language import say
from npusim.values.status import best_of

if TYPE_CHECKING:
    from npusim.operators.contract import Contract
    from npusim.reporting.call.answers import Answer
    from npusim.runtime.device import Device
    from npusim.runtime.results import Result


class Question(NamedTuple):
    """What is asked; `contract` is None for an operator that only the catalogue knows.

    The arguments of such a one are left as text.
    """

    name: str
    arguments: dict[str, Any]
    contract: Contract | None

    def described(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """The question and its answers as one JSON object, the same for one chip and for many."""
        return {
            "op": self.name,
            "arguments": {name: describe(value) for name, value in self.arguments.items()},
            "answers": [answer.as_json() for answer in answers],
        }


def read_call(op: str, words: Sequence[str] | None) -> Question:
    """What the operator's name and the NAME=VALUE words ask.

    Raises UsageError where name, parameter or value can't be read.
    """
    from npusim.cli.arguments import read_assignments
    from npusim.operators.oracle import contract_of
    from npusim.values.spelling import with_nulls

    pairs = (word.partition("=") for word in words or [])
    given = with_nulls({name.strip(): text.strip() for name, _, text in pairs})
    contract = contract_of(op, given)
    if contract is None:
        return Question(op.strip(), given, None)
    return Question(contract.name, read_assignments(contract, words or []), contract)


def ask(chip: Chip, question: Callable[[Device], Result]) -> Answer:
    """The answer of one chip; a rejection is an answer, wrong usage is not."""
    from npusim.reporting.call.answers import Answer
    from npusim.values.status import SUCCESS

    line = chip.profile.product_line
    try:
        res = question(chip.device())
    except AclnnError as rejection:
        return Answer(chip.name, line, status=rejection.status)
    except RejectedError as problem:
        return Answer(chip.name, line, error=problem)
    return Answer(chip.name, line, status=SUCCESS, result=res)


def ask_all(asked: Sequence[Chip], question: Callable[[Device], Result]) -> list[Answer]:
    """The answers of all chips, in order."""
    answers = []
    with progress_over(asked) as tell:
        for chip in asked:
            tell(chip)
            answers.append(ask(chip, question))
    return answers


def describe(value: Any) -> Any:
    """An argument without its data: tensors as dtype, shape and format."""
    from npusim.reporting.renderers import jsonout
    from npusim.values.tensors import TensorSpec

    if isinstance(value, TensorSpec):
        return jsonout.spec(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return jsonout.spec(TensorSpec.of(value))
    return value


def show(question: Question, answers: Sequence[Answer], *, as_json: bool) -> None:
    """Print what was answered, with the outputs of a run; exit as the chips answer together.

    What a single chip has refused, or npusim can't tell, is raised, so that it becomes an error
    message.
    """
    if as_json:
        output.emit_json(_with_outputs(question.described(answers), answers))
        return finish(answers)
    from npusim.reporting.call import tables

    if len(answers) > 1:
        output.emit(tables.comparison(question.name, answers))
        return finish(answers)
    if answers[0].error is not None:
        raise answers[0].error
    if (status := answers[0].status) is not None and not status.ok:
        raise error_of(status)
    if (res := answers[0].result) is not None:
        output.emit(tables.result_page(res))
        if res.outputs is not None:
            output.emit(tables.outputs_table(res.outputs))
    return None


def _with_outputs(described: dict[str, Any], answers: Sequence[Answer]) -> dict[str, Any]:
    from npusim.reporting.renderers import jsonout

    for entry, answer in zip(described["answers"], answers, strict=True):
        if answer.result is not None and answer.result.outputs is not None:
            tensors = answer.result.outputs.items()
            entry["outputs"] = {name: jsonout.array(data) for name, data in tensors}
    return described


def finish(answers: Sequence[Answer]) -> None:
    """Exit with 0 when one of the chips says yes, else with 3 when one isn't known, else with 1."""
    output.end_with(best_of(answer.verdict for answer in answers))


def write_outputs(res: Result, path: Path, *, force: bool) -> None:
    """Write the outputs of a run to an .npz."""
    from npusim.reporting.arrays import write_npz

    write_npz(path, res.outputs or {}, force=force)
    output.note(say("outputs written to {path}").format(path=path))
