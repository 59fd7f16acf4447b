"""For pytest (`-p first_cases`): the first case of every test function; slow ones are ended.

The report has how many kernels each of them launched.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from npusim.pyasc.session import session

SECONDS = int(os.environ.get("FIRST_CASES_SECONDS", "40"))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leaves the first case of each function."""
    first: dict[str, Any] = {}
    for each in items:
        first.setdefault(each.nodeid.partition("[")[0], each)
    items[:] = first.values()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Ends a case after SECONDS."""
    before = len(session().launched)

    def late(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"took more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        item.user_properties.append(("launches", len(session().launched) - before))
