"""The typer application: the verbs in the order in which a reader needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Annotated

import typer

from npusim import __version__
from npusim.cli.verbs import Verb, Verbs

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

# Verb -> where its function, or the application of its own verbs, stands in this folder.
_VERBS = {
    "check": ("check", "check"),
    "estimate": ("estimate", "estimate"),
    "run": ("run", "run"),
    "model": ("model", "model"),
    "llm": ("llm", "app"),
    "collective": ("collective", "collective"),
    "judge": ("judge", "judge"),
    "calibrate": ("calibrate", "calibrate"),
    "plan": ("plan", "plan"),
    "recommend": ("plan", "recommend"),
    "trace": ("trace", "trace"),
    "sweep": ("sweep", "sweep"),
    "report": ("report", "report"),
    "compare": ("compare", "compare"),
    "ops": ("ops", "app"),
    "op": ("op", "app"),
    "profiles": ("profiles", "app"),
    "validate": ("validate", "validate"),
    "demo": ("demo", "demo"),
    "tune": ("tune", "tune"),
    "cc": ("capi", "cc"),
    "exec": ("capi", "execute"),
    "capi": ("capi", "folders"),
    "schema": ("schema", "schema"),
    "mcp": ("mcp", "mcp"),
    "skill": ("skill", "skill"),
    "init": ("init", "init"),
    "completion": ("completion", "completion"),
}
_ASKING = frozenset(("-h", "--help", "--version"))  # for all verbs, and none of them runs


def _found(verb: str) -> Callable[..., object] | typer.Typer:
    """The function of a verb, or the application of its own verbs."""
    module, name = _VERBS[verb]
    found: Callable[..., object] | typer.Typer = getattr(
        import_module(f"npusim.cli.{module}"), name
    )
    return found


def _told_of(verb: Callable[..., object] | typer.Typer) -> str:
    """What help says of a verb."""
    return str(verb.info.help) if isinstance(verb, typer.Typer) else cleandoc(verb.__doc__ or "")


def _nothing() -> None:
    """Stands for a verb that is only named."""


def _completing() -> bool:
    if "_NPUSIM_COMPLETE" not in os.environ:
        return False
    from npusim.cli.completion import asked

    return asked()


def application(arguments: Sequence[str]) -> typer.Typer:
    """The application with the verb that ``arguments`` begin with, or else with all verbs.

    Typer describes every verb that it is given, which takes longer than many a verb itself; to name
    them all, it is given what each is told by.
    """
    app = typer.Typer(
        name="npusim",
        epilog=EXAMPLES,
        # Only when a shell asks: its options don't belong into the help.
        add_completion=_completing(),
        no_args_is_help=True,
        # Plain help: importing rich takes longer than everything else that --help does.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(cls=Verbs)(_npusim)
    first = arguments[0] if arguments else ""
    found_by_verb = {verb: _found(verb) for verb in ([first] if first in _VERBS else _VERBS)}
    if first in _ASKING and not _completing():
        # As typer has them: those with verbs of their own come last.
        in_order = sorted(found_by_verb.items(), key=lambda each: isinstance(each[1], typer.Typer))
        for verb, found in in_order:
            app.command(verb, cls=Verb, help=_told_of(found))(_nothing)
        return app
    for verb, found in found_by_verb.items():
        if isinstance(found, typer.Typer):
            for command in found.registered_commands:
                command.cls = Verb
            app.add_typer(found, name=verb, cls=Verbs)
        else:
            app.command(verb, cls=Verb)(found)
    return app


_OF_CC = frozenset(("-o", "--output", "-h", "--help", "--"))  # the rest is the compiler's


def as_words(arguments: Sequence[str]) -> list[str]:
    """The arguments with the compiler's options of `npusim cc` (-I, -D, ...) behind ``--``.

    ``--json FILE.json`` of the verbs that run programs is ``--json-file FILE.json``.
    """
    if arguments and arguments[0] in ("exec", "tune"):
        return _json_to_files(arguments)
    if not arguments or arguments[0] != "cc" or "--" in arguments:
        return list(arguments)
    own = ["cc"]
    others: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        if word in _OF_CC:
            own += [word, *(each for each in [next(words, None)] if each)]
        else:
            (own if word.startswith("--output=") else others).append(word)
    return [*own, "--", *others] if others else own


def _json_to_files(arguments: Sequence[str]) -> list[str]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = list(arguments[:end])
    for place, word in enumerate(own):
        following = own[place + 1] if place + 1 < end else ""
        if word.startswith("--json=") or (word == "--json" and following.endswith(".json")):
            own[place] = word.replace("--json", "--json-file", 1)
    return [*own, *arguments[end:]]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"npusim {__version__}")
        raise typer.Exit


def _npusim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    lang: Annotated[  # taken out before, see npusim.cli, so that it may stand anywhere
        str, typer.Option("--lang", metavar="en|zh", help="The language; default: by LANG.")
    ] = "",
) -> None:
    """Ascend NPU simulator: will it run, how long does it take, and the right numbers.

    Exit codes: 0 yes, 1 no (refused or failed), 2 wrong usage, 3 unknown.
    """
