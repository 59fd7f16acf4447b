"""Schemas: of what `--json` prints, one for every verb that prints any, and it refuses others.

And of the files that are read: every key says what it is.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from pydantic import BaseModel

import npusim as package
from npusim.cli.app import application
from npusim.reporting.schemas import VERBS, schema
from support.commands import npusim
from support.schemas import hold, hold_printed, seen

jsonschema = pytest.importorskip("jsonschema")


def takes_json(command: object) -> bool:
    """Whether a verb, or a verb below it, has a --json."""
    below = getattr(command, "commands", {}).values()
    mine = any("--json" in option.opts for option in command.params)
    return mine or any(map(takes_json, below))


def test_every_verb_that_prints_json_has_a_schema() -> None:
    every = typer.main.get_command(application([])).commands
    assert {name for name, command in every.items() if takes_json(command)} == set(VERBS)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_schemas_are_schemas(verb: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(verb))


def test_the_command_prints_it(capsys) -> None:
    assert npusim(capsys, "schema estimate").json == schema("estimate")
    assert set(npusim(capsys, "schema").json["properties"]) == set(VERBS)
    wrong = npusim(capsys, "schema estimat")
    assert wrong.code == 2
    assert "estimate" in wrong.err


@pytest.mark.parametrize(
    "spoilt",
    [{"duration_us": "12"}, {"soc": None}, {"colour": "red"}, {"band_us": [1.0]}],
    ids=lambda spoilt: next(iter(spoilt)),
)
def test_what_the_schema_does_not_say_is_refused(capsys, spoilt: dict[str, object]) -> None:
    said = npusim(capsys, "estimate aclnnRelu -s 910b3 self=fp16[64] --json").json
    assert "estimate" in seen  # what the command printed was held against it as well
    hold(["estimate"], json.loads(json.dumps(said)))
    said["answers"][0] |= spoilt
    with pytest.raises(SystemError, match="answers"):
        hold(["estimate"], said)
    with pytest.raises(SystemError, match="answers"):  # as `subprocess.run` does in every test
        hold_printed([sys.executable, "-m", "npusim", "estimate", "--json"], json.dumps(said))


def test_what_another_process_prints_is_held_as_well() -> None:
    seen.discard("collective")
    words = ["collective", "allreduce", "-s", "910b3", "--cards", "8", "--bytes", "1MiB", "--json"]
    subprocess.run([sys.executable, "-m", "npusim", *words], capture_output=True, check=True)
    assert "collective" in seen


# --- files that are read -------------------------------------------------------------------------


def models_of_files() -> Iterator[type[BaseModel]]:
    """Every model by which a file is read."""
    folder = Path(package.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        place = file.relative_to(folder).with_suffix("").parts
        if place[:2] == ("reporting", "schemas") or place[0] in {"npusim", "ops"}:
            continue  # what is printed; the package in itself, as an editable installation shows it
        text = file.read_text(encoding="utf-8")
        if "pydantic" in text or re.search(r"\((Group|PlanPart|Part)\):", text):
            importlib.import_module(".".join(("npusim", *place)).removesuffix(".__init__"))

    def below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
        for each in model.__subclasses__():
            yield each
            yield from below(each)

    for model in dict.fromkeys(below(BaseModel)):
        home = model.__module__
        if home.startswith("npusim.") and not home.startswith("npusim.reporting.schemas"):
            yield model


def test_every_key_of_a_file_says_what_it_is() -> None:
    models = list(models_of_files())
    names = {model.__name__ for model in models}
    assert {"Profile", "Interconnect", "Product", "Plan", "LlmPlan", "SweepSpec"} <= names
    assert {"Architecture", "Engine", "CustomCost", "PricedProducts"} <= names
    silent = [
        f"{model.__module__}.{model.__name__}.{key}"
        for model in models
        for key, field in model.model_fields.items()
        if not field.description
    ]
    assert silent == []
