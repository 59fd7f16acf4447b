"""The public names: all of them there, none more, and none loaded before it is used."""

from __future__ import annotations

import ast
import importlib
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
