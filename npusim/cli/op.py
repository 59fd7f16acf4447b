"""`npusim op`: custom operator projects, compiled and used like any operator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from npusim.cli import calls, output
from npusim.cli.chips import one_chip
from npusim.cli.options import AsJson, Assignments, Force, Operator, Socs
from npusim.values.errors import UsageError
from npusim.values.language import ngettext, say

app = typer.Typer(
    help="Custom operator projects (op_host, op_kernel): build them.", rich_markup_mode=None
)

Project = Annotated[
    Path, typer.Argument(metavar="PROJECT", help="The folder with op_host and op_kernel.")
]
Folder = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="DIR", help="Where plug-ins go; name it in NPUSIM_OPS."),
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix", metavar="WORD", help="Before the operators' names, where npusim has such ones."
    ),
]


Ops = Annotated[
    str,
    typer.Option(
        "--ops",
        metavar="A,B,C",
        help="Operators of a library's checkout, by the names of their folders.",
    ),
]


Added = Annotated[
    str,
    typer.Option(
        "--add-config",
        metavar="A,B",
        help="Products that the operators are for as well: ascend910b, ascend310p, ...",
    ),
]


@app.callback()
def op() -> None:
    """Custom operator projects (op_host, op_kernel): build them."""


@app.command("build")
def build(
    project: Project,
    folder: Folder = Path("npusim_ops"),
    ops: Ops = "",
    added: Added = "",
    prefix: Prefix = "",
    force: Force = False,
) -> None:
    """Compile a project's host code and kernels: its operators answer like all others.

    Example: npusim op build AddCustom -o npusim_ops
    """
    from npusim.capi.projects.building import build as build_project

    names, products = ([each for each in words.split(",") if each] for words in (ops, added))
    for built in build_project(
        project, folder, prefix=prefix, force=force, ops=names, products=products
    ):
        for name, count in built.kernels.items():
            output.note(
                ngettext(
                    "{name}: host code and {count} kernel",
                    "{name}: host code and {count} kernels",
                    count,
                ).format(name=name, count=count)
            )
        output.note(
            say("{folder}: export NPUSIM_OPS={absolute}").format(
                folder=built.folder, absolute=folder.absolute()
            )
        )


@app.command("tiling")
def tiling(
    op: Operator, assignments: Assignments = None, soc: Socs = None, as_json: AsJson = False
) -> None:
    """What a project's tiling function returns for a call: blocks, key, workspace, data.

    Example: npusim op tiling AddCustom -s 910b3 x=fp16[8,2048] y=fp16[8,2048]
    """
    from npusim.capi.projects.definitions import project_operator, told_tiling
    from npusim.operators.arguments import bind
    from npusim.operators.contract import Call

    owner = project_operator(op)
    question = calls.read_call(op, assignments)
    profile = one_chip(soc, say("a tiling is for one chip")).profile
    contract = question.contract
    if contract is None:  # a project's operator has one
        raise UsageError(say("{op} has no contract").format(op=op))
    bound = bind(contract, question.arguments, require_data=False)
    told = told_tiling(owner, Call(contract, profile, bound))
    if as_json:
        output.emit_json(told)
        return
    rows = {
        "blocks": told["blocks"],
        "tiling key": told["tiling_key"],
        "workspace": f"{told['workspace_bytes']} B",
        "tiling data": f"{told['tiling_bytes']} B",
    }
    rows |= {f"  {name}": value for name, value in told["data"].items()}
    output.emit_text(f"{owner.name} on {profile.name}\n")
    output.emit_text("".join(f"  {name:<22}{value}\n" for name, value in rows.items()))
