"""`pytest --left-out`: what the last run has left out, and no test a second time.

Those are the slow tests, those that it skipped for want of something that may be there by now, and
those marked ``torch``, which pass without and look at more with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_KEPT = "npusim/skipped"  # in pytest's cache, by node ids
_MARKS = ("slow", "torch")


class Skipped:
    """Keeps what a run skips: tests by their names, modules by their files."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has been skipped, or anything else."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module has been skipped as a whole, or anything else."""
        self._note(report)

    def pytest_sessionfinish(self) -> None:
        """Leave what was noted to the next run."""
        self._cache.set(_KEPT, sorted(self._names))

    @property
    def _cache(self) -> Any:
        return self._config.cache

    def _note(self, report: Any) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._names.add(report.nodeid)


class LeftOut:
    """Selects what the last run has left out; other files aren't even imported."""

    def __init__(self, config: pytest.Config) -> None:
        assert config.cache is not None
        config.option.markexpr = ""  # that of pyproject.toml leaves slow tests out
        self._names = set(config.cache.get(_KEPT, []))
        self._files = {name.partition("::")[0] for name in self._names}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Whether there is nothing to look for in a file."""
        if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
            return None
        if collection_path.relative_to(ROOT).as_posix() in self._files:
            return None
        text = collection_path.read_text(encoding="utf-8")
        return None if any(f"mark.{mark}" in text for mark in _MARKS) else True

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """All others are deselected."""
        wanted = [item for item in items if self._has(item)]
        config.hook.pytest_deselected(items=[item for item in items if not self._has(item)])
        items[:] = wanted

    def _has(self, item: pytest.Item) -> bool:
        known = item.nodeid in self._names or item.nodeid.partition("::")[0] in self._names
        return known or any(map(item.get_closest_marker, _MARKS))
