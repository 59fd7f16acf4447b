"""A user's kernel in Python is followed byte by byte when it is launched first."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from npusim import Device, TensorSpec, kernel
from npusim.ascendc import allowance
from npusim.values.errors import KernelError
from support.paths import DATA

T = 64  # elements of a tile
SOURCE = DATA / "ascendc" / "followed.txt"
CHIP = "Ascend910B3"
HEAD = """
from npusim.ascendc import *
T, held = 64, []
def flag(core, first, then):
    event = Event(core, first, then)
    event.set()
    event.wait()
def body(core, x, z):
    block, count = core.get_block_idx(), core.get_block_num()
    q, o = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
    s, w = TBuf("scratch"), TBuf("work")
    for each in (q, o, s, w):
        core.pipe.init_buffer(each, 2, 4 * T)
    t, u = s.get(FLOAT, T), w.get(FLOAT, T)
"""
Planted = tuple[int, str, str]


def planted() -> dict[str, Planted]:
    """Kernels of followed.txt by name: how many blocks, the body, and what is said of it."""
    found: dict[str, Planted] = {}
    for part in SOURCE.read_text().split("== ")[1:]:
        head, _, body = part.partition("\n")
        name, blocks, told = (each.strip() for each in head.split("|"))
        found[name] = int(blocks), body.strip(), told
    return found


PLANTED = planted()
FAULTS = {name: each for name, each in PLANTED.items() if each[2]}
CLEAN = {name: each for name, each in PLANTED.items() if not each[2]}


def made(name: str, text: str) -> tuple[Any, int]:
    """A kernel of a body's text, and the number of its line with #! in ``name``.py."""
    source = HEAD + textwrap.indent(text, "    ") + "\n"
    scope: dict[str, Any] = {"__name__": "planted"}
    exec(compile(source, f"planted/{name}.py", "exec"), scope)  # noqa: S102 - our own text
    marked = [number for number, line in enumerate(source.splitlines(), 1) if "#!" in line]
    return kernel(scope["body"]), marked[0] if marked else 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_told_with_its_line(name: str) -> None:
    blocks, text, told = FAULTS[name]
    body, line = made("fault", text)
    x, z = np.ones(64 * T, np.float32), np.full(64 * T, 7, np.float32)
    with pytest.raises(KernelError) as error:
        Device(CHIP).launch(body, x, z, block_dim=blocks)
    assert str(error.value).startswith(f"kernel body, planted/fault.py:{line}: ")
    assert told in str(error.value)
    assert error.value.remedy
    assert (z == 7).all()  # nothing was launched


@pytest.mark.parametrize("name", CLEAN)
def test_a_kernel_without_one_runs(name: str) -> None:
    blocks, text, _ = CLEAN[name]
    body, _ = made("clean", text)
    x, z = np.ones(64 * T, np.float32), np.full(64 * T, 7, np.float32)
    npu = Device(CHIP)
    first = npu.launch(body, x, z, block_dim=blocks)
    stored = z.copy()
    z[:] = 7
    again = npu.launch(body, x, z, block_dim=blocks)
    assert (x == 1).all()
    assert first.duration_us == again.duration_us
    np.testing.assert_array_equal(z, stored)


def test_what_a_followed_run_adds_is_taken_back() -> None:
    _, text, _ = CLEAN["blocks add to one place"]
    z = np.zeros(T, np.float32)
    Device(CHIP).launch(made("clean", text)[0], np.ones(T, np.float32), z, block_dim=8)
    assert (z == sum(range(8))).all()


def test_the_first_launch_of_a_shape_is_followed() -> None:
    """On arrays; estimates have no addresses from data and no numbers to compare."""
    blocks, text, _ = FAULTS["blocks store to one place"]
    body, _ = made("fault", text)
    npu, spec = Device(CHIP), TensorSpec((T,), "float32")
    npu.launch(body, spec, spec, block_dim=blocks)
    arrays = [np.zeros(T, np.float32) for _ in range(2)]
    npu.launch(body, *arrays, block_dim=1)
    with pytest.raises(KernelError, match="stores other numbers"):
        npu.launch(body, *arrays, block_dim=blocks)


ENDLESS = {
    "instructions": "while True: core.adds(t, t, 1.0) #!",
    "loops": """
while True:
    for turn in core.loop(2, sequential=True): #!
        core.adds(t, t, 1.0)
""",
    "in a turn": """
for turn in core.loop(3, sequential=True):
    while True: core.adds(t, t, 1.0) #!
""",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_kernel_that_never_ends_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "MOST_INSTRUCTIONS", 2000)
    monkeypatch.setenv(allowance.SECONDS_VARIABLE, "0")
    body, line = made("endless", "core.duplicate(t, 0.0)\n" + ENDLESS[name])
    spec = TensorSpec((T,), "float32")
    with pytest.raises(KernelError, match="more than 2,000 instructions") as error:
        Device(CHIP).launch(body, spec, spec, block_dim=1)
    assert error.value.site == f"planted/endless.py:{line}"
    assert allowance.SECONDS_VARIABLE in error.value.remedy


@pytest.mark.parametrize(
    "loop",
    [
        "for turn in core.loop(3000, sequential=True): core.adds(t, t, float(turn))",
        "for turn in range(3000): core.adds(t, t, 1.0)",
    ],
    ids=["of the core", "of Python"],
)
def test_a_long_loop_is_no_endless_one(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says its count has any time; another a time, however many instructions it gives."""
    monkeypatch.setattr(allowance, "MOST_INSTRUCTIONS", 500)
    if "core.loop" in loop:
        monkeypatch.setenv(allowance.SECONDS_VARIABLE, "0")
    body, _ = made("long", "core.duplicate(t, 0.0)\n" + loop)
    spec = TensorSpec((T,), "float32")
    assert Device(CHIP).launch(body, spec, spec, block_dim=1).duration_us > 0
