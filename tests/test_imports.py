"""The house: a room imports only from rooms above it, and nothing heavy at start-up."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

# From top to bottom; rooms in one line don't know each other.
HOUSE = (
    ("values",),
    ("hardware",),
    ("catalogue",),
    ("engine",),
    ("ascendc",),
    ("schedules",),
    ("library",),
    ("operators",),
    ("ops",),
    ("runtime",),
    ("validation",),
    ("model",),
    ("capacity",),
    ("report",),
    ("sweep",),
    ("capi",),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(HOUSE) for room in rooms}

# What the engine must not know: it schedules instructions, whatever they compute.
FORBIDDEN_IN_ENGINE = ("numpy", "ml_dtypes", "npusim.values.dtypes", "npusim.values.promotion")

# Not before somebody needs them: each costs more than the whole start-up.
HEAVY = (
    "numpy",
    "pydantic",
    "simpy",
    "yaml",
    "rich",
    "ml_dtypes",
    "matplotlib",
    "jinja2",
    "onnx",
    "cffi",
)


def modules() -> dict[str, Path]:
    """Every module of the product by its installed name."""
    found = {}
    for folder, package in (("npusim", "npusim"), ("ops", "npusim.ops")):
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            names = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *names))] = file
    return found


def room_of(module: str) -> str | None:
    """The room of `npusim.room.module`; None for the doors (npusim, npusim.__main__)."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LEVEL else None


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, at its top, in a function or for types, with the line."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            assert node.module is not None
            yield node.module, node.lineno
            for name in node.names:
                yield f"{node.module}.{name.name}", node.lineno


def upward(module: str, imported: str) -> str | None:
    """Why `module` may not import `imported`; None when it may."""
    own, other = room_of(module), room_of(imported)
    if own is None or other is None:
        return None
    if own == other:
        foreign = own == "ops" and imported.split(".")[2:3] not in ([], module.split(".")[2:3])
        return "what two operators share belongs above ops" if foreign else None
    return None if LEVEL[other] < LEVEL[own] else f"{other} isn't above {own}"


MODULES = modules()


def test_the_walk_sees_the_product() -> None:
    rooms = {room_of(name) for name in MODULES}
    assert {
        "values",
        "hardware",
        "engine",
        "ascendc",
        "schedules",
        "library",
        "operators",
        "ops",
        "runtime",
        "report",
        "cli",
    } <= rooms


def test_every_room_is_in_the_house() -> None:
    folders = {path.parent.name for path in (ROOT / "npusim").glob("*/__init__.py")}
    assert folders <= set(LEVEL)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module: str) -> None:
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{line}: {imported}: {reason}"
        for imported, line in imports(MODULES[module])
        if (reason := upward(module, imported))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_operator_names_the_folder_of_another() -> None:
    """Neither in an import nor in a string that becomes one: they meet through the registry."""
    folders = {name.split(".")[2] for name in MODULES if name.startswith("npusim.ops.")}
    for name, file in MODULES.items():
        if room_of(name) == "ops":
            text, own = file.read_text(encoding="utf-8"), name.split(".")[2:3]
            others = folders - set(own)
            assert not [each for each in sorted(others) if f"npusim.ops.{each}." in text], name


@pytest.mark.parametrize(
    ("module", "imported", "allowed"),
    [
        ("npusim.engine.pipes", "npusim.hardware.profile", True),
        ("npusim.engine.pipes", "npusim.ascendc.core", False),
        ("npusim.catalogue.store", "npusim.model.graph", False),
        ("npusim.ops.norm.kernel", "npusim.ascendc.core", True),
        ("npusim.ops.norm.kernel", "npusim.ops.norm.tiling", True),
        ("npusim.ops.norm.kernel", "npusim.ops.loss.tiling", False),
        ("npusim.ops.norm.kernel", "npusim.report.tables", False),
        ("npusim.cli.run", "npusim.values.errors", True),
    ],
)
def test_the_rule_itself(module: str, imported: str, allowed: bool) -> None:
    assert (upward(module, imported) is None) is allowed


@pytest.mark.parametrize("module", sorted(name for name in MODULES if room_of(name) == "engine"))
def test_the_engine_knows_no_numbers(module: str) -> None:
    wrong = [
        f"{imported} in line {line}"
        for imported, line in imports(MODULES[module])
        if imported.startswith(FORBIDDEN_IN_ENGINE)
    ]
    assert not wrong


def loaded_by(statement: str) -> set[str]:
    """The packages that are loaded after `statement`, in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import npusim", "from npusim.cli.app import application as a; a([])"]
)
def test_start_up_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & set(HEAVY)


def test_drawing_is_loaded_only_to_draw() -> None:
    everything = "; ".join(
        f"import {name}" for name in sorted(MODULES) if name.rpartition(".")[2] != "__main__"
    )
    assert not loaded_by(everything) & {
        "matplotlib",
        "jinja2",
        "onnx",
        "torch",
        "distributed",
    }
