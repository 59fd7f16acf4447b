"""`npusim check`: does this call run on this chip, and if not, why not."""

from __future__ import annotations

from npusim.cli import asking, output
from npusim.cli.options import AsJson, Assignments, Operator, Socs


def check(
    op: Operator, assignments: Assignments = None, soc: Socs = None, as_json: AsJson = False
) -> None:
    """Will it run? The status of the call, its reason and its remedy."""
    from npusim.cli.arguments import read_assignments
    from npusim.report.answers import Answer

    contract = asking.contract_of(op)
    arguments = read_assignments(contract, assignments or [])
    answers = []
    for chip in asking.chips(soc):
        status = chip.device().check(contract.name, **arguments)
        answers.append(Answer(chip.name, chip.profile.product_line, status=status))
    if as_json:
        output.emit_json(asking.document(contract, arguments, answers))
    else:
        from npusim.report import tables

        output.emit(tables.check_table(contract.name, answers))
    asking.finish(answers)
