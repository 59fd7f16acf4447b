"""What an installed npusim consists of, and that it works away from its source."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHIPPED = ("npusim", "ops", "hw_profiles")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that nothing is left in the source tree."""
    source = tmp_path_factory.mktemp("source")
    for folder in SHIPPED:
        shutil.copytree(
            ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in FILES:
        shutil.copy(ROOT / file, source)
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(target), str(source)], check=True)
    (built,) = target.glob("*.whl")
    return built


def test_nothing_but_npusim_lands_in_site_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    (metadata,) = (name for name in top if name.endswith(".dist-info"))
    assert top == {"npusim", metadata}


def test_every_source_file_is_shipped(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    wanted = set()
    for folder in SHIPPED:
        prefix = "npusim" if folder == "npusim" else f"npusim/{folder}"
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                wanted.add(f"{prefix}/{file.relative_to(ROOT / folder).as_posix()}")
    assert wanted <= shipped, sorted(wanted - shipped)
    assert "npusim/py.typed" in shipped


def test_the_wheel_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    away = tmp_path / "away"
    away.mkdir()
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "import npusim; print(npusim.__file__)\n"
        "from npusim.cli import main\n"
        "main(['ops', 'show', 'GroupNormBackward', '--json'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=away, capture_output=True, text=True, check=True
    )
    assert str(site) in done.stdout
    assert "aclnnGroupNormBackward" in done.stdout


def test_the_source_tree_works_without_installation(tmp_path: Path) -> None:
    """Python started in a clone finds ops/ and hw_profiles/ beside npusim/."""
    tree = tmp_path / "clone"
    for folder in SHIPPED:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "npusim", "ops", "list"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "aclnnGroupNormBackward" in done.stdout
