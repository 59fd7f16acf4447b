"""`npusim check`: does this call run on this chip, and if not, why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.cli import calls, catalogue, output
from npusim.cli.chips import chips
from npusim.cli.options import AsJson, Assignments, Model, OptionalOperator, Socs
from npusim.values.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check(
    op: OptionalOperator = None,
    assignments: Assignments = None,
    soc: Socs = None,
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Will it run? The status of the call, its reason and its remedy.

    Without parameters, and for operators that npusim doesn't simulate, the catalogue answers: who
    supports which dtypes. There a tensor is NAME=DTYPE. --model asks for a whole model: an
    op_summary or kernel_details CSV, an ONNX file, or a list of operators.
    """
    if model is not None and op is not None:
        raise UsageError(f"an operator ({op}) and a model at once", "Ask one after the other.")
    if model is not None:
        catalogue.check_model(model, soc, as_json=as_json)
        return
    if op is None:
        raise UsageError("which operator? none is given", "Name one, or a model with --model FILE.")
    if assignments and _has_contract(op):
        _check_call(op, assignments, soc, as_json=as_json)
    else:
        catalogue.check_operator(op, assignments or [], soc, as_json=as_json)


def _has_contract(op: str) -> bool:
    from npusim.operators.registry import operator

    try:
        operator(op)
    except UnknownNameError:
        return False
    return True


def _check_call(
    op: str, assignments: Sequence[str], soc: Sequence[str] | None, *, as_json: bool
) -> None:
    from npusim.report.call.answers import Answer

    contract, arguments = calls.read_call(op, assignments)
    answers = []
    for chip in chips(soc):
        status = chip.device().check(contract.name, **arguments)
        answers.append(Answer(chip.name, chip.profile.product_line, status=status))
    if as_json:
        output.emit_json(calls.document(contract, arguments, answers))
    else:
        from npusim.report.call import tables

        output.emit(tables.check_table(contract.name, answers))
    calls.finish(answers)
