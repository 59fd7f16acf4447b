"""What holds for all tests."""

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.python import importtestmodule
from hypothesis import HealthCheck, Phase, settings

from support.left_out import LeftOut, Skipped
from support.schemas import watch

# Tests start many processes: what one of them has compiled, the others read.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Workers are given the width of the terminal that pytest was started in.
os.environ.pop("COLUMNS", None)
os.environ["LANGUAGE"] = "en"  # whoever runs the tests, and whatever they speak

# How fast examples are drawn says how busy the machine is, nothing about the product.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# benchmarks/mutations.py asks whether a test fails, not for the smallest example of it; and where a
# change has broken many tests, to look for all of theirs takes hours (.ci/run says CI).
settings.register_profile(
    "any failure",
    parent=settings.get_profile("any machine"),
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("any failure" if os.environ.get("CI") else "any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the second run of .ci/run is told."""
    told = "only slow tests, those that the last run skipped, and those that torch tells more"
    parser.addoption("--left-out", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Every JSON of the command line is held against its schema."""
    watch()
    if config.getoption("left_out"):
        config.pluginmanager.register(LeftOut(config))
    elif not hasattr(config, "workerinput"):  # workers report to the process that started them
        config.pluginmanager.register(Skipped(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Every second worker begins at the other end.

    All import the same modules at the same time, and none compiles in a fresh clone what another
    has compiled.
    """
    odd = os.environ.get("PYTEST_XDIST_WORKER", "0")[-1] in "13579"
    if odd and [Path(each).name for each in session.config.args] == ["tests"]:
        for file in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
            with suppress(Exception, OutcomeException):  # told when it is collected
                importtestmodule(file, session.config)


def pytest_collection_finish() -> None:
    """What thousands of tests consist of stays: nobody looks through it for garbage again."""
    gc.collect()
    gc.freeze()
