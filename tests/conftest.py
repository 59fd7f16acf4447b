"""What holds for all tests."""

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.schemas import watch

# How fast examples are drawn says how busy the machine is, nothing about the product.
settings.register_profile("any machine", suppress_health_check=[HealthCheck.too_slow])
# benchmarks/mutations.py asks whether a test fails, not for the smallest example of it.
settings.register_profile(
    "any failure",
    parent=settings.get_profile("any machine"),
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test begins first, so that no worker waits for it at the end."""
    items.sort(key=lambda item: item.name != "test_the_whole_table")


def pytest_configure() -> None:
    """Every JSON of the command line is held against its schema."""
    watch()
