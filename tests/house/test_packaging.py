"""What an installed npusim consists of, and that it works away from its source."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from npusim.values.version import __version__
from support.paths import ROOT

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


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 3.5 * 2**20


def test_what_an_installation_brings_along_is_counted_and_justified() -> None:
    """CONTRIBUTING says of each runtime dependency what it is for, and that there are no others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=]", each)[0] for each in project["dependencies"]}
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = guide.partition("## A dependency\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)
    assert needed == set(rows)


def test_a_release_has_one_version_and_date() -> None:
    """In the package, the changelog and what is cited."""
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", log, re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], str(cited["date-released"])) == released[0]
    assert cited["version"] == __version__
    assert released == sorted(released, key=lambda each: each[1], reverse=True)


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")))
def test_issue_forms_ask_for_what_is_needed(form: Path) -> None:
    asked = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert asked["name"]
    assert asked["description"]
    needed = [each["id"] for each in asked["body"] if each.get("validations", {}).get("required")]
    assert len(needed) >= 3


# What Linux and macOS have and Windows hasn't, or only Linux: where it is used, and behind what.
ONLY_THERE = {
    "fcntl": {"npusim/sweeping/results.py": "except ImportError", "npusim/capi/library.py": ""},
    "geteuid": {"npusim/reading/kept.py": 'sys.platform == "win32"'},
    "sched_getaffinity": {"npusim/values/host.py": 'hasattr(os, "sched_getaffinity")'},
    "/proc/": {"npusim/values/host.py": "except (OSError"},
    "setrlimit": {"npusim/graph/onnx_worker.py": "except ImportError"},
    "signal.SIGKILL": {"npusim/values/guard.py": 'os.name != "posix"'},
    "start_new_session": {"npusim/values/guard.py": 'os.name != "posix"'},
    "preexec_fn": {
        "npusim/capi/running.py": 'if os.name == "posix" else None',
        "npusim/cli/mcp_tools.py": 'if os.name == "posix" else None',
    },
}
NOWHERE = (
    r"import (pwd|grp|termios|tty)\b",
    r"os\.(fork|getuid|killpg|setsid|mkfifo|getpgid)\b",
    r"signal\.SIG(HUP|USR|ALRM|CHLD)",
    r'"/(tmp|bin|usr|etc)/',
)


def test_no_call_that_only_some_systems_have_goes_unguarded() -> None:
    """The C part runs on Linux only; everything else on macOS and Windows too."""
    found: dict[str, set[str]] = {word: set() for word in ONLY_THERE}
    for folder in ("npusim", "ops"):
        for file in (ROOT / folder).rglob("*.py"):
            text, place = file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()
            for word, places in ONLY_THERE.items():
                if word in text:
                    found[word].add(place)
                    assert places.get(place, word) in text, f"{place} uses {word} unguarded"
            if not place.startswith("npusim/capi/"):
                for pattern in NOWHERE:
                    assert not re.search(pattern, text), f"{place} uses {pattern}"
    assert found == {word: set(places) for word, places in ONLY_THERE.items()}


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
