"""`npusim estimate`: how long does this call take, from its shapes alone."""

from __future__ import annotations

from npusim.cli import asking, output
from npusim.cli.options import AsJson, Assignments, Operator, Socs


def estimate(
    op: Operator, assignments: Assignments = None, soc: Socs = None, as_json: AsJson = False
) -> None:
    """How long does it take? Latency, band, cycles, bound."""
    from npusim.cli.arguments import read_assignments

    contract = asking.contract_of(op)
    arguments = read_assignments(contract, assignments or [])
    answers = asking.ask_all(
        asking.chips(soc), lambda device: device.estimate(contract.name, **arguments)
    )
    if as_json:
        output.emit_json(asking.document(contract, arguments, answers))
        return asking.finish(answers)
    from npusim.report import tables

    if len(answers) > 1:
        output.emit(tables.comparison_table(contract.name, answers))
        return asking.finish(answers)
    asking.refuse_if_rejected(answers[0])
    if answers[0].result is not None:
        output.emit(tables.result_page(answers[0].result))
    return None
