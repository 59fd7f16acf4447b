"""The command line: one module for each verb, and one place where errors become messages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn

from npusim.values.garbage import collect_rarely

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 yes, 1 no (rejected or failed), 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Taken out here and not by a verb, so that it may be appended to any failing command.
    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter still shows the rest
            stream.reconfigure(errors="replace")

    collect_rarely()
    from npusim.cli.app import application

    try:
        application(arguments)(args=arguments, prog_name="npusim")
    except Exception as problem:
        if debug:
            raise
        sys.exit(_explain(problem, as_json="--json" in arguments))
    sys.exit(0)


def _explain(problem: Exception, *, as_json: bool) -> int:
    """Print what went wrong to standard error (and as JSON, if asked); give the exit code."""
    from npusim.cli import output
    from npusim.values.errors import NpusimError

    if isinstance(problem, NpusimError):
        if as_json:
            from npusim.report.renderers import jsonout

            output.emit_json({"error": jsonout.error(problem)})
        output.complain(problem.message, problem.remedy)
        return problem.exit_code
    what = f"internal error, please report it: {type(problem).__name__}: {problem}"
    output.complain(what, "Run the same command with --debug for the traceback.")
    return 1
