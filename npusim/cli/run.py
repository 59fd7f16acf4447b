"""`npusim run`: the numbers as well as the time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import calls, output, profiling
from npusim.cli.chips import chips
from npusim.cli.options import AsJson, Assignments, Force, Output, Socs
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.operators.contract import Contract

OptionalOperator = Annotated[
    str | None,
    typer.Argument(metavar="OP", help="The operator; may be left out with --case."),
]
CaseFile = Annotated[
    Path | None,
    typer.Option("--case", metavar="FILE", help="Run the cases of a JSON file and compare."),
]
Inputs = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE", help="An .npz with the parameters by name."),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the numbers for tensors given by shape alone.")
]


def run(
    op: OptionalOperator = None,
    assignments: Assignments = None,
    soc: Socs = None,
    case: CaseFile = None,
    inputs: Inputs = None,
    path: Output = None,
    form: profiling.OutputFormat = None,
    timestamp: profiling.Timestamp = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run it on numbers: outputs as well as the time.

    Example: npusim run Gelu -s 910b3 x=x.npy -o y.npz
    """
    from npusim.reporting.files import claim_all

    words = list(assignments or [])
    if op is not None and "=" in op:  # no operator was named, so this is the first assignment
        words.insert(0, op)
        op = None
    as_profile = form is profiling.Format.MSPROF
    if path is not None and not as_profile:
        claim_all(path, beside=(inputs, case), force=force)
    if case is not None:
        if words or inputs is not None or as_profile:
            raise ArgumentError(
                "--case brings its own parameters and writes its own file",
                say("Leave out NAME=VALUE, --inputs and --format."),
            )
        from npusim.cli.cases import run_cases

        return run_cases(case, op, soc, path, force=force, as_json=as_json)
    if op is None:
        raise ArgumentError("which operator?", say("Name it, or pass a case file with --case."))
    question = calls.read_call(op, words)
    if question.contract is not None:
        _add_inputs(question.contract, question.arguments, inputs, seed)
    asked = chips(soc)
    if as_profile:
        profiling.prepare(path, timestamp, asked)
    elif path is not None and len(asked) != 1:
        raise ArgumentError(
            say("outputs of one chip only can be written"), say("Name exactly one with -s.")
        )
    answers = calls.ask_all(asked, lambda device: device.run(question.name, **question.arguments))
    result = answers[0].result
    if path is not None and result is not None and as_profile:
        profiling.write(result, path, timestamp, force=force)
    elif path is not None and result is not None:
        calls.write_outputs(result, path, force=force)
    return calls.show(question, answers, as_json=as_json)


def _add_inputs(
    contract: Contract, arguments: dict[str, Any], inputs: Path | None, seed: int
) -> None:
    """Add the parameters from --inputs, and numbers for what has only a shape."""
    from npusim.cli.arguments import from_archive, random_tensor
    from npusim.values.tensors import TensorSpec

    if inputs is not None:
        from npusim.reporting.arrays import read_npz

        stored = from_archive(contract, read_npz(inputs))
        if twice := [name for name in stored if name in arguments]:
            raise ArgumentError(
                say("{twice} is given twice: in {inputs} and as {twice}=...").format(
                    twice=twice[0], inputs=inputs
                )
            )
        arguments |= stored
    drawn = []
    for parameter in contract.parameters:
        value = arguments.get(parameter.name)
        if parameter.io == "in" and isinstance(value, TensorSpec):
            arguments[parameter.name] = random_tensor(parameter.name, value, seed)
            drawn.append(parameter.name)
    if drawn:
        output.note(
            say("{drawn}: standard normal numbers (integers 0 to 9), seed {seed}").format(
                drawn=", ".join(drawn), seed=seed
            )
        )
