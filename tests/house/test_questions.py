"""One question, five ways to ask it: the same verdict, code and exit status, and remedies help.

The suite asks some hundred questions, always the same; NPUSIM_QUESTIONS=5000 asks as many others.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings

from npusim import Device
from npusim.cli import main
from npusim.hardware import load_profile
from npusim.model import read_model, retime
from npusim.sweeping.points import expand
from npusim.sweeping.spec import SweepSpec
from npusim.sweeping.working import answer
from npusim.values.errors import NpusimError
from support.questions import Question, questions

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.values.status import Status

COUNT = os.environ.get("NPUSIM_QUESTIONS")
SETTINGS = settings(
    max_examples=int(COUNT or 100),
    derandomize=COUNT is None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
UNKNOWN = 3


class Said(NamedTuple):
    """The exit status, and the code of the call where there is one."""

    exit_status: int
    code: int | None


@cache
def device(chip: str) -> Device:
    return Device(chip)


def by_check(question: Question) -> tuple[Said, Status | None]:
    """What `Device.check` says."""
    try:
        status = device(question.chip).check(question.op, **question.arguments)
    except NpusimError as error:
        return Said(error.exit_code, None), None
    return Said(status.verdict.exit_code, status.code), status


def by_command(verb: str, question: Question) -> Said:
    """What the command line says."""
    words = [f"{name}={text}" for name, text in question.texts.items()]
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
        pytest.raises(SystemExit) as left,
    ):
        main([verb, question.op, "-s", question.chip, "--json", *words])
    document = json.loads(out.getvalue())
    code = None
    if "answers" in document:
        (found,) = document["answers"]
        code = found["status"]["code"] if found["status"] else 0
    return Said(int(str(left.value.code)), code)


def by_sweep(question: Question) -> Said:
    """What a sweep of one point says."""
    call = {"op": question.op, "arguments": question.texts}
    try:
        spec = SweepSpec.model_validate({"calls": [call], "products": [question.chip]})
        (point,) = expand(spec).points
    except NpusimError as error:
        return Said(error.exit_code, None)
    row = json.loads(answer(point, load_profile(question.chip)).line)
    exits = {"ok": 0, "rejected": 1, "unknown": UNKNOWN, "error": 1}
    return Said(2 if row.get("wrong_usage") else exits[row["status"]], row["code"])


def by_model(question: Question, folder: Path) -> Said:
    """What a model file of one call says."""
    file = folder / "model.yaml"
    file.write_text(json.dumps({"calls": [{"op": question.op, "arguments": question.texts}]}))
    try:
        result = retime(read_model(file).at(), load_profile(question.chip), l2="cold")
    except NpusimError as error:
        return Said(error.exit_code, None)
    (verdict,) = result.verdicts
    return Said(result.verdict.exit_code, verdict.code)


def follow(question: Question, status: Status) -> None:
    """Every way out that a refusal names is accepted."""
    for action in status.actions:
        asked = device(action.soc_version or question.chip)
        followed = asked.check(question.op, **{**question.arguments, **action.arguments})
        assert followed.ok, (action, followed.render())


def test_everyone_gives_the_same_answer(tmp_path: Path) -> None:
    @SETTINGS
    @given(questions())
    def agrees(question: Question) -> None:
        checked, status = by_check(question)
        assert by_command("check", question) == checked
        # A model prices by a roofline what isn't simulated, and says so.
        assert by_model(question, tmp_path) == checked
        if status is not None and status.ok and not status.is_modelled:
            # As far as known the device runs it; who asks for a time learns that there is none.
            checked = Said(UNKNOWN, None)
        assert by_command("estimate", question) == checked
        assert by_sweep(question) == checked
        if status is not None:
            follow(question, status)

    agrees()
