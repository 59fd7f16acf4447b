"""The registry: folders of npusim.ops are found, and a broken one is named and hides no other."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from npusim.operators import registry
from npusim.values.errors import FileError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    "spelling",
    [
        "aclnnGroupNormBackward",
        "GroupNormBackward",
        " aclnngroupnormbackward ",
        "native_group_norm_backward",
    ],
)
def test_an_operator_answers_to_its_names(spelling: str) -> None:
    assert registry.operator(spelling).name == "aclnnGroupNormBackward"


def test_the_registry_lists_what_the_folders_provide() -> None:
    assert {"aclnnGroupNormBackward", "aclnnRoiAlignV2Backward"} <= set(registry.operators())
    assert list(registry.operators()) == sorted(registry.operators())
    assert registry.broken_folders() == {}
    assert set(registry.aliases().values()) <= set(registry.operators())
    for name in registry.operators():
        assert registry.operator(name).name == name


def test_everything_that_is_provided_is_there() -> None:
    for name in registry.op_types():
        assert callable(registry.kernel_class(name)), name
        assert registry.band_class(name), name


def test_an_unknown_operator_comes_with_near_misses() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean aclnnGroupNormBackward"):
        registry.operator("aclnnGroupNormBackwards")
    with pytest.raises(UnknownNameError, match="operator type"):
        registry.kernel_class("NoSuchKernel")


@pytest.fixture
def extra_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place where a test can add folders to npusim.ops."""
    import npusim.ops

    monkeypatch.setattr(npusim.ops, "__path__", [*npusim.ops.__path__, str(tmp_path)])
    before = set(sys.modules)
    registry.refresh()
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("npusim.ops."):
            del sys.modules[name]
    monkeypatch.undo()
    registry.refresh()


IMPORTS = "from npusim.operators.definition import Operator, Page, family\n"


def add_folder(place: Path, name: str, definitions: str, contract: str = "") -> None:
    (place / name).mkdir()
    (place / name / "__init__.py").touch()
    (place / name / "definitions.py").write_text(IMPORTS + definitions, encoding="utf-8")
    (place / name / "contract.py").write_text(contract, encoding="utf-8")


def test_a_broken_folder_hides_no_other_and_is_named(extra_folders: Path) -> None:
    add_folder(extra_folders, "torn", "raise RuntimeError('half written')")
    add_folder(extra_folders, "nothing", "")
    add_folder(extra_folders, "twin", "OPERATORS = [Page('aclnnGroupNormBackward', 'contract:X')]")
    assert registry.operator("GroupNormBackward")
    assert registry.broken_folders() == {
        "ops/nothing": "AttributeError: module 'npusim.ops.nothing.definitions' has no attribute "
        "'OPERATORS'",
        "ops/torn": "RuntimeError: half written",
        "ops/twin": "aclnnGroupNormBackward is already provided by ops/group_norm_backward",
    }
    with pytest.raises(UnknownNameError, match="ops/torn: RuntimeError: half written"):
        registry.operator("aclnnTorn")


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("", "no attribute 'X'"),
        ("X = 3", "is not a Contract"),
    ],
)
def test_a_broken_contract_names_its_folder(extra_folders: Path, contract: str, says: str) -> None:
    add_folder(
        extra_folders,
        "odd",
        "OPERATORS = family('odd', Page('aclnnOdd', 'contract:X'), contract=(Operator('Odd'),))",
        contract,
    )
    assert "aclnnOdd" in registry.operators()
    assert "Odd" in registry.op_types()
    with pytest.raises(FileError, match="ops/odd") as caught:
        registry.operator("odd")
    assert says in caught.value.message


def test_finding_one_operator_imports_no_other_folder(tmp_path: Path) -> None:
    program = """
import subprocess
import sys
from npusim.operators import registry
registry.operators()  # the folders are known from here on
for name in [each for each in sys.modules if each.startswith("npusim.ops.")]:
    del sys.modules[name]
registry.refresh()
registry.kernel_class("SoftmaxV2")
print(*{name.split(".")[2] for name in sys.modules if name.startswith("npusim.ops.")})
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NPUSIM_CACHE": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["softmax"], done.stderr
