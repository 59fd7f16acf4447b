"""The typer application: the verbs in the order in which a reader needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from npusim import __version__
from npusim.cli import (
    capi,
    check,
    demo,
    estimate,
    model,
    ops,
    plan,
    profiles,
    report,
    run,
    sweep,
    trace,
    validate,
)

EXAMPLES = """\b
Will it run?
  npusim check GroupNormBackward -s all gradOut=bf16[2,64,4096] ...
How long does it take?
  npusim estimate GroupNormBackward -s Ascend910B3 gradOut=bf16[2,64,4096] ...
How long does a step of a model take?
  npusim model kernel_details.csv -s Ascend910B3,Ascend310P3
How many cards?
  npusim plan PLAN.yaml
What are the parameters?
  npusim ops show GroupNormBackward
"""

app = typer.Typer(
    name="npusim",
    epilog=EXAMPLES,
    add_completion=False,
    no_args_is_help=True,
    # Plain help: importing rich takes longer than everything else that --help does.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"npusim {__version__}")
        raise typer.Exit


@app.callback()
def npusim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Ascend NPU simulator: will it run, how long does it take, and the right numbers.

    Exit codes: 0 yes, 1 no (rejected or failed), 2 wrong usage.
    """


app.command("check")(check.check)
app.command("estimate")(estimate.estimate)
app.command("run")(run.run)
app.command("model")(model.model)
app.command("plan")(plan.plan)
app.command("recommend")(plan.recommend)
app.command("trace")(trace.trace)
app.command("sweep")(sweep.sweep)
app.command("report")(report.report)
app.add_typer(ops.app, name="ops")
app.add_typer(profiles.app, name="profiles")
app.command("validate")(validate.validate)
app.command("demo")(demo.demo)
app.command("cc")(capi.cc)
app.command("exec")(capi.execute)
app.command("capi")(capi.folders)
