"""`npusim completion`: what a shell needs to complete verbs and options."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from npusim.cli import output

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NPUSIM_COMPLETE"
"""Set by the shell when it asks what could come next."""


def asked() -> bool:
    """Whether a shell asks what could come next; what only looks so leaves the environment."""
    words, place = os.environ.get("COMP_WORDS"), os.environ.get("COMP_CWORD", "")
    if os.environ.get(VARIABLE) == "complete_bash" and (words is None or not place.isdecimal()):
        del os.environ[VARIABLE]
    return VARIABLE in os.environ


def operators_beginning(incomplete: str) -> list[str]:
    """The aclnn names and operator types that a word on the command line may become."""
    from npusim.operators.registry import op_types, operators

    called = operators()
    short = [name.removeprefix("aclnn") for name in called]
    return _beginning(incomplete, [*called, *short, *op_types()])


def chips_beginning(incomplete: str) -> list[str]:
    """The chips and products that -s may be given, in the spelling that was begun."""
    from npusim.hardware.loading import profile_names
    from npusim.hardware.products import product_names

    done, comma, last = incomplete.rpartition(",")
    chips = profile_names()
    short = [name.removeprefix("Ascend") for name in chips]
    found = _beginning(last, [*chips, *short, *product_names(), "all"])
    return [f"{done}{comma}{name}" for name in found]


def collectives_beginning(incomplete: str) -> list[str]:
    """The collectives that `incomplete` may become."""
    from npusim.cluster.collectives import OPERATIONS

    return _beginning(incomplete, list(OPERATIONS))


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    wanted = incomplete.casefold()
    rests = {name[len(wanted) :] for name in names if name.casefold().startswith(wanted)}
    return sorted(f"{incomplete}{rest}" for rest in rests)  # a shell keeps what was typed


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"One of {', '.join(SHELLS)}.")],
) -> None:
    """Print the script that makes a shell complete npusim's verbs and options.

    Example, for ~/.bashrc: eval "$(npusim completion bash)"
    """
    from typer._completion_shared import get_completion_script

    from npusim.values.errors import UnknownNameError

    if shell not in SHELLS:
        raise UnknownNameError("shell", shell, SHELLS)
    script = get_completion_script(prog_name="npusim", complete_var=VARIABLE, shell=shell)
    output.emit_text(f"{script.strip()}\n")
