"""The plugin for pytest: the device of a mark or setting, and budgets that fail when missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import npusim
from npusim.pytest_plugin import assert_faster_than

RELU = {"self": npusim.TensorSpec((4096, 4096), "float16")}


@pytest.fixture
def here(request):
    """The fixture, whether or not this installation has the plugin's entry point."""
    if not request.config.pluginmanager.has_plugin("npusim"):
        pytest.skip("npusim is installed without the entry point: install it again")
    return request.getfixturevalue("npusim_device")


def test_the_chip_is_that_of_the_configuration(here) -> None:
    assert here.profile.name == "Ascend910B3"


def test_what_a_mark_says_wrongly_is_told(here, tmp_path: Path) -> None:
    assert here
    (tmp_path / "test_marks.py").write_text("""
import pytest

@pytest.mark.npusim(soc="310p3")
def test_named(npusim_device):
    assert npusim_device.profile.name == "Ascend310P3"

@pytest.mark.npusim(chip="310p3")
def test_wrong(npusim_device): ...

@pytest.mark.npusim
def test_nothing(npusim_device): ...

@pytest.mark.npusim("910x")
def test_unknown(npusim_device): ...
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "1 passed, 3 errors" in said
    assert "unknown parameter of npusim 'chip'" in said
    assert "npusim: missing a required argument: 'soc'" in said
    assert "'910x'" in said


def test_budgets() -> None:
    fast, slow = (npusim.Device(soc).estimate("aclnnRelu", **RELU) for soc in ("910b3", "310p3"))
    assert fast.duration_us < slow.duration_us
    assert_faster_than(fast, slow.duration_us)
    assert_faster_than(fast, slow)
    assert_faster_than(slow, slow, factor=1.01)
    with pytest.raises(pytest.fail.Exception, match=r"Ascend310P3.*isn't faster.*Relu"):
        assert_faster_than(slow, us=slow.duration_us)
    with pytest.raises(pytest.fail.Exception, match="isn't faster"):
        assert_faster_than(fast, fast.band_us[1], surely=True)


def test_nothing_is_loaded_for_those_who_do_not_use_it() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import npusim.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(said.stdout.split()) <= {"npusim", "npusim.pytest_plugin", "typing"}
