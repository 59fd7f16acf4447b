"""Finding and reading the data files of ``npusim.hw_profiles``, and wording their mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from npusim.hardware.provenance import Problem, Source, read_sources
from npusim.reading.files import read_text
from npusim.reading.kept import remembered
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import ProfileError, UnknownNameError, expect
from npusim.values.language import say

_Model = TypeVar("_Model", bound=BaseModel)


class InvalidProfileError(ProfileError):
    """A data file with several wrong keys; `problems` holds one `ProfileError` for each."""

    def __init__(self, problems: tuple[ProfileError, ...]) -> None:
        first = problems[0]
        super().__init__(first.file, first.key, first.value, first.allowed)
        self.problems = problems
        self.message = "\n".join(problem.message for problem in problems)
        self.args = (self.message,)


@cache
def data_folder() -> Traversable:
    """The folder of the built-in data: part of the package, or beside it in a bare clone."""
    try:
        return resources.files("npusim.hw_profiles")
    except ModuleNotFoundError:
        return Path(__file__).parents[2] / "hw_profiles"


def stems(folder: Traversable) -> list[str]:
    """The names of the YAML files in a folder, without the ending, sorted."""
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def parsed(file: Traversable | Path) -> dict[str, Any]:
    """The mapping that a file holds; raises FileError for anything else."""
    text = read_text(file)
    name = file.name.removesuffix(".yaml")
    return remembered(name, [text], dict, lambda: yaml_mapping(text, str(file)))


@cache
def built_in_sources() -> Mapping[str, Source]:
    """The sources that every data file may cite, by their short keys."""
    file = data_folder() / "sources.yaml"
    problems: list[Problem] = []
    found = read_sources(parsed(file), "sources", problems)
    if problems:
        raise refusal(str(file), problems)
    return found


def relative_uncertainty(confidence: str) -> float:
    """Half the width of the 80 % band that a confidence word stands for, as a fraction.

    Raises UnknownNameError for a word that isn't one of confidence.yaml.
    """
    expect(confidence, str, "confidence")
    known = _uncertainties()
    if confidence not in known:
        raise UnknownNameError("confidence", confidence, known)
    return float(known[confidence])


@cache
def _uncertainties() -> Mapping[str, float]:
    found: Mapping[str, float] = parsed(data_folder() / "confidence.yaml")["relative_uncertainty"]
    return found


def refusal(file: str, problems: Sequence[Problem]) -> ProfileError:
    """The error for a file with one or several wrong keys."""
    errors = tuple(
        ProfileError(file, problem.key, problem.value, problem.allowed) for problem in problems
    )
    return errors[0] if len(errors) == 1 else InvalidProfileError(errors)


def validated(
    file: str, model: type[_Model], values: Mapping[str, Any], problems: Sequence[Problem] = ()
) -> _Model:
    """A `model` of a file's values; ProfileError for them, and for `problems` found before."""
    try:
        found = model.model_validate(values)
    except ValidationError as error:
        raise refusal(file, [*problems, *problems_of(error, model)]) from None
    if problems:
        raise refusal(file, problems)
    return found


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """What pydantic found wrong when it read a `model`, in the words of a data file."""
    problems = []
    for entry in error.errors(include_url=False):
        key = ".".join(str(part) for part in entry["loc"])
        value = entry["input"]
        allowed = entry["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        if entry["type"] == "missing":
            value, allowed = None, say("a value; the key is required")
        elif entry["type"] == "extra_forbidden":
            allowed = say("one of the keys {keys}").format(
                keys=", ".join(_keys(model, entry["loc"][:-1]))
            )
        problems.append(Problem(key, value, allowed))
    return problems


def _keys(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The keys that a model has at a place inside it, however deep its models are wrapped."""
    found: object = model
    for part in place:
        if isinstance(found, type) and issubclass(found, BaseModel):
            found = found.model_fields[str(part)].annotation
        else:
            found = [part for part in get_args(found) if part is not ...][-1]
        while not isinstance(found, type) and type(None) in get_args(found):
            found = get_args(found)[0]
    if isinstance(found, type) and issubclass(found, BaseModel):
        return [key for key, field in found.model_fields.items() if not field.exclude]
    return []
