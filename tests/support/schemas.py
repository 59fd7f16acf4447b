"""Every JSON that the command line prints in a test is held against the schema of its verb."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import npusim.cli
from npusim.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

try:
    import jsonschema
except ImportError:  # then `test_schemas.py` says so
    jsonschema = None

_words: list[str] = []
seen: set[str] = set()
"""Verbs whose JSON has been held against the schema in this process."""


@cache
def validator(verb: str) -> Any:
    """What judges the JSON of a verb; prepared once, as that takes longer than judging."""
    from npusim.reporting.schemas import schema

    return jsonschema.Draft202012Validator(schema(verb))


def watch() -> None:
    """From now on, no JSON that the schema of its verb doesn't allow passes unnoticed.

    `main` refuses to print or write it, and `subprocess.run` to return with it.
    """
    run, emit, in_a_process = npusim.cli._run, output.emit_json, subprocess.run
    write = output.write_json

    def remembered(arguments: list[str], *more: Any) -> int:
        _words[:] = arguments
        return run(arguments, *more)

    def checked(value: object) -> None:
        hold(_words, value)
        emit(value)

    def written(path: Path, value: object, **how: Any) -> None:
        hold(_words, value)
        write(path, value, **how)

    def read(command: Any, *more: Any, **options: Any) -> Any:
        done = in_a_process(command, *more, **options)
        hold_printed(command, done.stdout)
        return done

    npusim.cli._run, output.emit_json, subprocess.run = remembered, checked, read
    output.write_json = written


def hold_printed(command: object, printed: str | bytes | None) -> None:
    """Hold what a command printed, if it is npusim's and was asked for JSON."""
    words = list(map(str, command)) if isinstance(command, list | tuple) else []
    names = [Path(word).name for word in words]
    if not printed or "--json" not in words or "npusim" not in names:
        return
    with suppress(ValueError):  # of `exec --json FILE`, or cut off: the test says what it wants
        hold(words[names.index("npusim") + 1 :], json.loads(printed))


def hold(words: Sequence[str], value: object) -> None:
    """Fail with the first place where a JSON differs from its schema."""
    from npusim.reporting.renderers import jsonout
    from npusim.reporting.schemas import VERBS

    verb = next((word for word in words if word in VERBS), "")
    if jsonschema is None or not verb or "schema" in words[:1]:
        return
    found = json.loads(jsonout.dumps(value))
    problem = jsonschema.exceptions.best_match(validator(verb).iter_errors(found))
    if problem is not None:
        raise SystemError(f"npusim {verb} --json: {problem.json_path}: {problem.message[:500]}")
    seen.add(verb)
