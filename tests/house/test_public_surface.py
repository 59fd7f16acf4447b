"""The public names: all of them there, none more, and none loaded before it is used."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import npusim

SOURCE = Path(npusim.__file__).read_text(encoding="utf-8")


def names_for_type_checkers() -> dict[str, str]:
    """What the TYPE_CHECKING block imports: name -> module."""
    (block,) = (
        node
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {
        alias.name: statement.module or ""
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module != "typing"
        for alias in statement.names
    }


def test_all_is_complete_and_sorted() -> None:
    assert npusim.__all__ == sorted(npusim.__all__)
    assert set(npusim.__all__) == set(names_for_type_checkers())


def test_the_checker_sees_what_the_interpreter_gets() -> None:
    for name, module in names_for_type_checkers().items():
        assert getattr(npusim, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", npusim.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(npusim, name) is not None
    assert name in dir(npusim)


def test_an_unknown_name_says_so() -> None:
    with pytest.raises(AttributeError, match="Devise"):
        npusim.Devise  # noqa: B018 - the access is the test


def test_the_version_is_one_number() -> None:
    from importlib.metadata import version

    assert version("npusim") == npusim.__version__


@pytest.mark.parametrize("name", ["ascendc", "hardware", "operators"])
def test_public_packages_come_with_the_first_import(name: str) -> None:
    code = f"import npusim; print(npusim.{name}.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == f"npusim.{name}"


# --- every public name says what it is -----------------------------------------------------------

PACKAGES = (npusim, npusim.ascendc, npusim.hardware, npusim.operators)
UNITS = ("_us", "_ms", "_s", "_bytes", "_gbps", "_mhz", "_cycles", "_ratio", "_share", "_tokens")


def public_objects() -> dict[str, object]:
    """Dotted name -> class, function, or what a class of ours defines itself."""
    found: dict[str, object] = {}
    for package in PACKAGES:
        for name in package.__all__:
            value = getattr(package, name)
            found[f"{package.__name__}.{name}"] = value
            if inspect.isclass(value):
                found |= {
                    f"{package.__name__}.{name}.{own}": member
                    for own, member in vars(value).items()
                    if not own.startswith("_")
                    and (isinstance(member, property | classmethod) or inspect.isfunction(member))
                }
    return {name: value for name, value in found.items() if callable_or_property(value)}


def callable_or_property(value: object) -> bool:
    return callable(value) or isinstance(value, property | classmethod)


OBJECTS = public_objects()


def test_every_public_name_says_what_it_is_in_a_sentence() -> None:
    first = {name: (value.__doc__ or "").split("\n\n")[0] for name, value in OBJECTS.items()}
    assert not [name for name, text in first.items() if not text.strip().endswith((".", ":", "``"))]


def test_what_is_asked_says_what_it_raises() -> None:
    for name, value in OBJECTS.items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if not inspect.isfunction(function):
            continue
        of_a_package, of_a_class = name.count(".") == 1, ("Device.", "Model.")
        takes = set(inspect.signature(function).parameters) - {"self", "cls"}
        if takes and (of_a_package or name.startswith(tuple(f"npusim.{c}" for c in of_a_class))):
            assert re.search(r"\braises?\s", function.__doc__ or "", re.IGNORECASE), name


def test_numbers_name_their_units() -> None:
    for name, value in OBJECTS.items():
        for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
            if field.type == "float" and not field.name.startswith("_"):
                told = field.name.endswith(UNITS) or f"`{field.name}`" in (value.__doc__ or "")
                assert told, f"{name}.{field.name}: in which unit?"
