"""For pytest: a simulated device as a fixture, and budgets for kernels.

::

    from npusim.pytest_plugin import assert_faster_than

    @pytest.mark.npusim("Ascend310P3")          # or npusim_soc in the configuration of pytest
    def test_relu_keeps_its_budget(npusim_device):
        res = npusim_device.estimate("aclnnRelu", self=npusim.TensorSpec((4096, 4096), "float16"))
        assert_faster_than(res, us=1_000)

pytest finds it when npusim is installed; nothing of the simulator is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from npusim.runtime.device import Device
    from npusim.runtime.results import Result

_INI = "npusim_soc"
_DEFAULT = "Ascend910B3"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The chip of `npusim_device`, in the configuration file."""
    parser.addini(_INI, "The chip of the fixture npusim_device.", default=_DEFAULT)


def pytest_configure(config: pytest.Config) -> None:
    """The mark that names another chip for a test."""
    config.addinivalue_line("markers", "npusim(soc): the chip of the fixture npusim_device")


@pytest.fixture
def npusim_device(request: pytest.FixtureRequest) -> Device:
    """A simulated chip: that of the test's mark ``npusim(soc)``, else of the setting npusim_soc."""
    from npusim.runtime.device import Device
    from npusim.values.takes import takes

    mark = request.node.get_closest_marker("npusim")
    return Device(
        takes()(npusim)(*mark.args, **mark.kwargs) if mark else request.config.getini(_INI)
    )


def npusim(soc: str) -> str:
    """What the mark takes."""
    return soc


def assert_faster_than(
    result: Result, us: float | Result, *, surely: bool = False, factor: float = 1.0
) -> None:
    """Fail unless a call takes less than a budget in microseconds, or than another result.

    With `surely` the upper end of its 80 % band has to; `factor` times the budget is allowed. The
    failure names the longest task and what limits it.
    """
    __tracebackhide__ = True
    from npusim.values.display import latency

    other = us if isinstance(us, int | float) else us.duration_us
    taken_us = result.band_us[1] if surely else result.duration_us
    if taken_us < other * factor:
        return
    task = max(result.tasks, key=lambda each: each.duration_us, default=None)
    where = f"; the longest task is {task.name}, {task.bound}" if task else ""
    against = "" if isinstance(us, int | float) else f", what {us!r} takes"
    pytest.fail(f"{result!r} isn't faster than {latency(other * factor)}{against}{where}")
