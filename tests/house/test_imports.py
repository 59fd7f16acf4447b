"""The house: a room imports only from rooms above it, and nothing heavy at start-up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import house

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


def upward(module: str, imported: str) -> str | None:
    """Why `module` may not import `imported`; None when it may."""
    own, other = house.room_of(module), house.room_of(imported)
    if own is None or other is None:
        return None
    if own == other:
        foreign = own == "ops" and imported.split(".")[2:3] not in ([], module.split(".")[2:3])
        return "what two operators share belongs above ops" if foreign else None
    return None if house.LEVEL[other] < house.LEVEL[own] else f"{other} isn't above {own}"


MODULES = house.modules()


def test_the_walk_sees_the_product() -> None:
    assert {house.room_of(name) for name in MODULES} >= set(house.ROOMS)


def test_every_room_is_in_the_house() -> None:
    folders = {path.parent.name for path in (house.ROOT / "npusim").glob("*/__init__.py")}
    assert folders <= set(house.LEVEL)


def test_nothing_imports_in_circles() -> None:
    assert not house.circles()


def test_rooms_are_entered_by_their_doors() -> None:
    """A module that other rooms import is listed as a door, so that each new one is a decision."""
    assert not house.beside_doors()


def test_the_picture_shows_every_room(tmp_path: Path) -> None:
    house.draw(tmp_path / "house.svg")
    drawn = (tmp_path / "house.svg").read_text(encoding="utf-8")
    assert all(f">{room}</text>" in drawn for room in house.ROOMS)


def test_imports_go_one_way() -> None:
    wrong = [
        f"{file.relative_to(house.ROOT)}:{line}: {imported}: {reason}"
        for module, file in sorted(MODULES.items())
        for imported, line in house.imports(file)
        if (reason := upward(module, imported))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_operator_names_the_folder_of_another() -> None:
    """Neither in an import nor in a string that becomes one: they meet through the registry."""
    folders = {name.split(".")[2] for name in MODULES if name.startswith("npusim.ops.")}
    for name, file in MODULES.items():
        if house.room_of(name) == "ops":
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
        ("npusim.ops.norm.kernel", "npusim.reporting.call.tables", False),
        ("npusim.cli.run", "npusim.values.errors", True),
    ],
)
def test_the_rule_itself(module: str, imported: str, allowed: bool) -> None:
    assert (upward(module, imported) is None) is allowed


def test_the_engine_knows_no_numbers() -> None:
    wrong = [
        f"{file.relative_to(house.ROOT)}:{line}: {imported}"
        for module, file in MODULES.items()
        if house.room_of(module) == "engine"
        for imported, line in house.imports(file)
        if imported.startswith(FORBIDDEN_IN_ENGINE)
    ]
    assert not wrong, "\n".join(wrong)


def loaded_by(statement: str) -> set[str]:
    """The packages that are loaded after `statement`, in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=house.ROOT)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import npusim", "from npusim.cli.app import application as a; a([])"]
)
def test_start_up_loads_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & set(HEAVY)


def test_an_estimate_loads_simpy_only_to_be_exact() -> None:
    """Or without the compiled player, which sources have that weren't installed."""
    statement = """
import npusim
from npusim.engine.compiled.library import library
ask = npusim.Device("910B3", exact={exact}).estimate
ask("aclnnRelu", self=npusim.TensorSpec((3000,), "float32"))
print("compiled" if library() else "not_compiled")
"""
    assert "simpy" in loaded_by(statement.format(exact=True))
    found = loaded_by(statement.format(exact=False))
    assert ("simpy" in found) == ("not_compiled" in found)


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
