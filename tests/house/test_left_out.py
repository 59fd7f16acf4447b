"""What `pytest --left-out` selects: slow tests, what was skipped, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.left_out import LeftOut, Skipped
from support.paths import TESTS

SKIPPED = ("tests/ops/test_a.py::test_b[1]", "tests/ops/test_c.py")


class Config(SimpleNamespace):
    """A run's configuration, with a cache as pytest has one."""

    def __init__(self) -> None:
        kept: dict[str, Any] = {}
        self.deselected: list[Any] = []
        super().__init__(
            option=SimpleNamespace(markexpr="not slow"),
            cache=SimpleNamespace(get=kept.get, set=kept.__setitem__),
            hook=self,
        )

    def pytest_deselected(self, items: list[Any]) -> None:
        self.deselected += items


@pytest.fixture
def config() -> Any:
    """One of a run behind one that has skipped a test and a module."""
    found: Any = Config()
    run = Skipped(found)
    for name in SKIPPED:
        run.pytest_runtest_logreport(SimpleNamespace(nodeid=name, skipped=True))  # type: ignore[arg-type]
    run.pytest_collectreport(SimpleNamespace(nodeid="tests/d.py", skipped=False))  # type: ignore[arg-type]
    failing = SimpleNamespace(nodeid="tests/e.py::f", skipped=True, wasxfail="known")
    run.pytest_runtest_logreport(failing)  # type: ignore[arg-type]
    run.pytest_sessionfinish()
    return found


def test_slow_and_skipped_tests_are_selected(config: Any) -> None:
    def item(name: str, *marks: str) -> Any:
        return SimpleNamespace(
            nodeid=name, get_closest_marker=lambda mark: mark if mark in marks else None
        )

    wanted = [
        item(SKIPPED[0]),
        item(f"{SKIPPED[1]}::test_of_the_module"),
        item("tests/ops/test_a.py::test_slow", "slow"),
        item("tests/ops/test_a.py::test_more", "torch"),
    ]
    others = [
        item("tests/ops/test_a.py::test_b[2]"),
        item("tests/d.py::test_d"),
        item("tests/e.py::f"),
    ]
    items = [*wanted, *others]
    selecting = LeftOut(config)
    selecting.pytest_collection_modifyitems(config, items)
    assert items == wanted
    assert config.deselected == others
    assert not config.option.markexpr  # slow tests are no longer left out


def test_files_without_any_of_them_are_not_read(config: Any) -> None:
    ignored = LeftOut(config).pytest_ignore_collect
    assert ignored(TESTS / "house" / "test_imports.py")
    assert not ignored(TESTS / "house" / "test_readme.py")  # it has slow ones
    assert not ignored(TESTS / "ops" / "test_c.py")
    assert not ignored(TESTS / "house")
    assert not ignored(TESTS / "conftest.py")
