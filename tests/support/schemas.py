"""Every JSON that the command line prints in a test is held against the schema of its verb."""

from __future__ import annotations

import json
from functools import cache
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
    """From now on, `main` refuses to print a JSON that the schema of its verb doesn't allow."""
    run, emit = npusim.cli._run, output.emit_json

    def remembered(arguments: list[str], *more: Any) -> int:
        _words[:] = arguments
        return run(arguments, *more)

    def checked(value: object) -> None:
        hold(_words, value)
        emit(value)

    npusim.cli._run, output.emit_json = remembered, checked


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
