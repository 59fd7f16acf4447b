"""The budget of ../add_gelu.py, held in CI: kernel_budget.yml is a GitHub Action that runs this.

Run it with ``pytest examples/ci``; pytest.ini says which chip `npusim_device` is.
"""

from __future__ import annotations

from add_gelu import add_gelu

import npusim
from npusim.pytest_plugin import assert_faster_than

BUDGET_US = 120  # it takes 108 us, and 193 us without double buffering


def test_add_gelu_keeps_its_budget(npusim_device):
    """A budget in microseconds."""
    sheet = npusim.TensorSpec((4096, 4096), "float32")
    assert_faster_than(npusim_device.launch(add_gelu, sheet, sheet, sheet), us=BUDGET_US)


def test_half_precision_pays(npusim_device):
    """A budget that is another result: at half the bytes at most seven tenths of the time."""
    single, half = (npusim.TensorSpec((4096, 4096), dtype) for dtype in ("float32", "float16"))
    slow = npusim_device.launch(add_gelu, single, single, single)
    assert_faster_than(npusim_device.launch(add_gelu, half, half, half), slow, factor=0.7)
