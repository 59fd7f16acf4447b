"""`npusim check`: does this call run on this chip, and if not, why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.cli import calls, catalogue, compiling, output
from npusim.cli.chips import Chip, chips_or_places
from npusim.cli.options import AsJson, Assignments, Model, OptionalOperator, Socs
from npusim.values.errors import UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.catalogue.families import Place
    from npusim.operators.contract import Contract
    from npusim.reporting.call.answers import Answer


def check(
    op: OptionalOperator = None,
    assignments: Assignments = None,
    soc: Socs = None,
    model: Model = None,
    shape: compiling.Shape = None,
    precision: compiling.Precision = None,
    fuse: compiling.Fuse = True,
    without: compiling.Without = None,
    aipp: compiling.Aipp = False,
    fast: compiling.Fast = None,
    mode: compiling.Mode = None,
    custom: compiling.Custom = None,
    as_json: AsJson = False,
) -> None:
    """Will it run? The status of the call, its reason and its remedy.

    Without parameters, and for operators that npusim doesn't simulate, the catalogue answers: who
    supports which dtypes. There a tensor is NAME=DTYPE. --model asks for a whole model: an
    network (ONNX, .pt2; compiled for each product as `npusim model` does), an op_summary or
    kernel_details CSV, a YAML list of calls, or a list of operators.

    Example: npusim check Gelu -s all x=bf16[1024,1024]
    """
    if model is not None and op is not None:
        raise UsageError(
            say("an operator ({op}) and a model at once").format(op=op),
            say("Ask one after the other."),
        )
    how = compiling.compilation(shape, precision, fuse, without, mode, custom, aipp, fast)
    if model is not None:
        catalogue.check_model(model, soc, how, as_json=as_json)
        return
    if how is not None:
        raise UsageError(
            say("how a network is compiled, but no network"), say("Name it: --model FILE.")
        )
    if op is None:
        raise UsageError(
            say("which operator? none is given"), say("Name one, or a model with --model FILE.")
        )
    words = assignments or []
    question = calls.read_call(op, words) if any(map(_is_of_a_call, words)) else None
    if question is None or question.contract is None:
        catalogue.check_operator(op, words, soc, as_json=as_json)
        return
    answers = [_answer(question, question.contract, place) for place in chips_or_places(soc)]
    if as_json:
        output.emit_json(question.described(answers))
    else:
        from npusim.reporting.call import tables

        output.emit(tables.check_table(question.name, answers), *tables.rules_lines(answers))
    calls.finish(answers)


def _is_of_a_call(word: str) -> bool:
    """Whether a word is of a call: a tensor with its shape or none, and not only a dtype."""
    from npusim.values.spelling import is_null, is_tensor

    text = word.partition("=")[2].strip()
    return is_tensor(text) or is_null(text) or text.lower().endswith(".npy")


def _answer(question: calls.Question, contract: Contract, place: Chip | Place) -> Answer:
    from npusim.reporting.call.answers import Answer

    if isinstance(place, Chip):
        status = place.device().check(question.name, **question.arguments)
        return Answer(place.name, place.profile.product_line, status=status)
    from npusim.hardware.families import plural
    from npusim.operators.oracle import check_facts

    status = check_facts(contract, place, question.arguments)
    return Answer(place.name, plural(place.family), status=status)
