"""A user's kernel in Python is followed byte by byte when it is launched first."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from npusim import Device, TensorSpec, kernel
from npusim.ascendc import recorder
from npusim.values.errors import KernelError

T = 64  # elements of a tile
CHIP = "Ascend910B3"
HEAD = """
from npusim.ascendc import FLOAT, INT32, UINT8, CmpMode, Event, Pipe, TBuf, TPosition, TQue, TQueBind
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
V, M2, M3 = "Pipe.VECTOR", "Pipe.MTE2", "Pipe.MTE3"

# The blocks, the body with #! at the line that is wrong, and what is said of it.
FAULTS = {
    "vector before the load": (
        1,
        "core.data_copy(t, x.span(0, T))\ncore.adds(u, t, 1.0) #!",
        "Set a flag MTE2_V",
    ),
    "store before the vector": (
        1,
        "core.duplicate(t, 1.0)\ncore.data_copy(z.span(0, T), t) #!",
        "Set a flag V_MTE3",
    ),
    "load over what vector reads": (
        1,
        (
            f"core.data_copy(t, x.span(0, T))\nflag(core, {M2}, {V})\ncore.adds(u, t, 1.0)\n"
            "core.data_copy(t, x.span(T, T)) #!"
        ),
        "Set a flag V_MTE2",
    ),
    "vector over what is stored": (
        1,
        (
            f"core.duplicate(t, 1.0)\nflag(core, {V}, {M3})\ncore.data_copy(z.span(0, T), t)\n"
            "core.duplicate(t, 2.0) #!"
        ),
        "Set a flag MTE3_V",
    ),
    "scalar before the load": (
        1,
        "core.data_copy(t, x.span(0, T))\ncore.get_value(t, 3) #!",
        "Set a flag MTE2_S",
    ),
    "a flag of other pipes": (
        1,
        (f"core.data_copy(t, x.span(0, T))\nflag(core, {M2}, {M3})\ncore.adds(u, t, 1.0) #!"),
        "Set a flag MTE2_V",
    ),
    "only the first half is waited for": (
        1,
        (
            f"core.data_copy(t[:32], x.span(0, 32))\nflag(core, {M2}, {V})\n"
            "core.data_copy(t[32:], x.span(32, 32))\ncore.adds(u, t, 1.0) #!"
        ),
        "Set a flag MTE2_V",
    ),
    "loaded again before it is stored": (
        1,
        (
            f"core.duplicate(t, 1.0)\nflag(core, {V}, {M3})\ncore.data_copy(z.span(0, T), t)\n"
            "core.data_copy(u, z.span(0, T)) #!"
        ),
        "that it also",
    ),
    "reads what another block stores": (
        4,
        (
            "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, 1.0)\no.copy_out(z.span(block * T, T), r)\n"
            f"flag(core, {M3}, {M2})\ncore.data_copy(t, z.span((block + 3) % 4 * T, T)) #!"
        ),
        "another core",
    ),
    "an unwritten tile is stored": (
        1,
        "r = o.alloc_tensor(FLOAT, T)\no.copy_out(z.span(0, T), r) #!",
        "256 of its 256 bytes",
    ),
    "a tile of before is stored": (
        1,
        (
            "for turn in core.loop(4, sequential=True):\n    r = o.alloc_tensor(FLOAT, T)\n"
            "    if turn < 2: core.duplicate(r, 1.0)\n    o.copy_out(z.span(0, T), r) #!"
        ),
        "256 of its 256 bytes",
    ),
    "half a tile is stored": (
        1,
        "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r[:32], 1.0)\no.copy_out(z.span(0, T), r) #!",
        "128 of its 256 bytes",
    ),
    "one element of a tile is stored": (
        1,
        "r = o.alloc_tensor(FLOAT, T)\ncore.set_value(r, 5, 1.0)\no.copy_out(z.span(0, T), r) #!",
        "252 of its 256 bytes",
    ),
    "floats are read as whole numbers": (
        1,
        ("core.duplicate(t, 1.0)\ncore.adds(w.get(INT32, T), s.get(INT32, T), 0) #!"),
        "was written as FLOAT",
    ),
    "blocks store to one place": (
        8,
        (
            "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, float(block))\n"
            "o.copy_out(z.span(0, T), r) #!"
        ),
        "block 1 stores other numbers to byte 0 of z than block 0",
    ),
    "ends of what blocks store overlap": (
        2,
        (
            "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, float(block))\n"
            "o.copy_out(z.span(block * 61, T), r) #!"
        ),
        "byte 224 of z",
    ),
    "one block stores, another adds": (
        2,
        (
            "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, 1.0)\nif block: core.set_atomic_add()\n"
            "o.copy_out(z.span(0, T), r) #!\ncore.set_atomic_none()"
        ),
        "stores other numbers",
    ),
    "operands overlap in part": (
        1,
        ("core.duplicate(s.get(FLOAT, T), 1.0)\ncore.adds(t[8:40], t[:32], 1.0) #!"),
        "overlap in part",
    ),
    "one element for all": (
        1,
        "core.duplicate(t, 1.0)\ncore.add(u, t, t[:1]) #!",
        "read on behind it",
    ),
    "a place before the tensor": (
        1,
        (
            "p = w.get(INT32, 8)\ncore.duplicate(p, -3)\ncore.data_copy(t, x.span(core.get_value(p), T)) #!"
        ),
        "from element -3 to 60",
    ),
    "a place behind the tensor": (
        1,
        (
            "p = w.get(INT32, 8)\ncore.duplicate(p, 1000000)\ncore.duplicate(t, 1.0)\n"
            f"flag(core, {V}, {M3})\ncore.data_copy(z.span(core.get_value(p), T), t) #!"
        ),
        "from element 1000000",
    ),
    "another block's core": (
        2,
        "held.append(core)\nheld[0].duplicate(t, 1.0) #!",
        "a core or a tile of block 0",
    ),
    "another block's tile": (
        2,
        "core.duplicate(t, 1.0)\nheld.append(t)\ncore.adds(u, held[0], 1.0) #!",
        "of block 0",
    ),
    "a round that reads another core's": (
        80,
        (
            "r = o.alloc_tensor(FLOAT, 8)\ncore.duplicate(r, 1.0)\no.copy_out(z.span(block * 8, 8), r)\n"
            f"flag(core, {M3}, {M2})\ncore.data_copy(t[:8], z.span((block + 41) % 80 * 8, 8)) #!"
        ),
        "another core",
    ),
}

TILE = "t = q.copy_in(x.span(first, T))\nr = o.alloc_tensor(FLOAT, T)\n"
OUT = "q.free_tensor(t)\no.copy_out(z.span(first, T), r)\n"
CLEAN = {
    "queues": (4, f"first = block * T\n{TILE}core.adds(r, t, 1.0)\n{OUT}"),
    "two buffers in a loop": (
        1,
        "for first, _ in core.tiles(0, 16 * T, T):\n"
        + textwrap.indent(f"{TILE}core.exp(r, t)\n{OUT}", "    "),
    ),
    "a sequential sum": (
        1,
        (
            "core.duplicate(u, 0.0)\nfor first, _ in core.tiles(0, 4 * T, T, sequential=True):\n"
            "    t = q.copy_in(x.span(first, T))\n    core.add(u, u, t)\n    q.free_tensor(t)\n"
            "r = o.alloc_tensor(FLOAT, T)\ncore.adds(r, u, 0.0)\no.copy_out(z.span(0, T), r)"
        ),
    ),
    "in place by one slot": (
        1,
        (
            "b = TQueBind(2, 'bound')\ncore.pipe.init_buffer(b, 2, 4 * T)\n"
            "for first, _ in core.tiles(0, 8 * T, T):\n    r = b.copy_in(x.span(first, T))\n"
            "    core.muls(r, r, 2.0)\n    b.copy_out(z.span(first, T), r)"
        ),
    ),
    "flags by hand": (
        1,
        (
            f"core.data_copy(t, x.span(0, T))\nflag(core, {M2}, {V})\ncore.adds(u, t, 1.0)\n"
            f"flag(core, {V}, {M3})\ncore.data_copy(z.span(0, T), u)\nflag(core, {M3}, {V})\ncore.duplicate(u, 2.0)"
        ),
    ),
    "parts of a tile": (
        1,
        (
            "first = 0\n"
            + TILE
            + "core.adds(r[:32], t[:32], 1.0)\ncore.adds(r[32:], t[32:], 2.0)\n"
            + OUT
        ),
    ),
    "rows and columns": (
        1,
        (
            "c = core\nt = q.copy_in(x.view(64, 64)[0:8, 0:8])\nr = o.alloc_tensor(FLOAT, 8, 8)\n"
            "c.add(r, t, t)\nc.adds(r[0:4], r[0:4], 1.0)\nq.free_tensor(t)\n"
            "o.copy_out(z.view(64, 64)[0:8, 0:8], r)"
        ),
    ),
    "rows that are padded": (
        1,
        (
            "t = q.copy_in(x.view(64, 64)[0:5, 0:3])\nr = o.alloc_tensor(FLOAT, 5, 3)\n"
            "core.exp(r, t)\nq.free_tensor(t)\no.copy_out(z.view(64, 64)[0:5, 0:3], r)"
        ),
    ),
    "blocks store the same": (
        4,
        "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, 1.0)\no.copy_out(z.span(block * 48, T), r)",
    ),
    "blocks add to one place": (
        8,
        (
            "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, float(block))\ncore.set_atomic_add()\n"
            "o.copy_out(z.span(0, T), r)\ncore.set_atomic_none()"
        ),
    ),
    "blocks store parts of a line": (
        8,
        "r = o.alloc_tensor(FLOAT, 3)\ncore.duplicate(r, float(block))\no.copy_out(z.span(block * 3, 3), r)",
    ),
    "blocks meet and read": (
        4,
        (
            "r = o.alloc_tensor(FLOAT, T)\ncore.duplicate(r, float(block))\no.copy_out(z.span(block * T, T), r)\n"
            "yield core.sync_all()\nt = q.copy_in(z.span((block + 1) % 4 * T, T))\nq.free_tensor(t)"
        ),
    ),
    "blocks meet and overwrite": (
        4,
        (
            "for turn in range(2):\n    r = o.alloc_tensor(FLOAT, T)\n    core.duplicate(r, float(turn))\n"
            "    o.copy_out(z.span((block + turn) % 4 * T, T), r)\n    yield core.sync_all()"
        ),
    ),
    "rounds of blocks on one core": (
        80,
        (
            "r = o.alloc_tensor(FLOAT, 8)\ncore.duplicate(r, float(block))\no.copy_out(z.span(block % 40 * 8, 8), r)\n"
            f"flag(core, {M3}, {M2})\nt = q.copy_in(z.span(block % 40 * 8, 8))\nq.free_tensor(t)"
        ),
    ),
    "numbers for the scalar unit": (
        1,
        (
            "core.duplicate(t, 3.0)\nv = core.get_value(t, 2)\nr = o.alloc_tensor(FLOAT, T)\n"
            "core.duplicate(r, v)\ncore.set_value(r, 0, v)\no.copy_out(z.span(0, T), r)"
        ),
    ),
    "places from data": (
        1,
        (
            "p = w.get(INT32, 8)\ncore.duplicate(p, 5)\nt = q.copy_in(x.span(core.get_value(p), T))\n"
            "r = o.alloc_tensor(FLOAT, T)\ncore.adds(r, t, 0.0)\nq.free_tensor(t)\no.copy_out(z.span(0, T), r)"
        ),
    ),
    "masks": (
        1,
        (
            "first = 0\n" + TILE + "m = w.get(UINT8, T)\ncore.compare(m, t, t, CmpMode.EQ)\n"
            "core.select(r, m, t, 0.0)\n" + OUT
        ),
    ),
    "sums of rows": (
        1,
        (
            "t = q.copy_in(x.view(64, 64)[0:4, 0:8])\ncore.reduce_sum(w.get(FLOAT, 4), t)\n"
            "r = o.alloc_tensor(FLOAT, 4)\ncore.adds(r, w.get(FLOAT, 4), 0.0)\nq.free_tensor(t)\no.copy_out(z.span(0, 4), r)"
        ),
    ),
    "scratch of two dtypes in turn": (
        1,
        (
            "core.duplicate(t, 1.0)\ncore.adds(u, t, 1.0)\nn = s.get(INT32, T)\ncore.duplicate(n, 1)\n"
            "core.adds(w.get(INT32, T), n, 1)"
        ),
    ),
    "another pass over scratch": (
        1,
        (
            f"for turn in core.loop(3, sequential=True):\n    core.data_copy(t, x.span(0, T))\n    flag(core, {M2}, {V})\n"
            f"    core.adds(u, t, 1.0)\n    flag(core, {V}, {M2})"
        ),
    ),
}


def made(name: str, text: str) -> tuple[Any, int]:
    """A kernel of a body's text, and the number of its line with #! in ``name``.py."""
    source = HEAD + textwrap.indent(text, "    ") + "\n"
    scope: dict[str, Any] = {"__name__": "planted"}
    exec(compile(source, f"planted/{name}.py", "exec"), scope)
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
    blocks, text = CLEAN[name]
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
    _, text = CLEAN["blocks add to one place"]
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


def test_a_kernel_that_never_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_INSTRUCTIONS", 5000)
    body, line = made("endless", "core.duplicate(t, 0.0)\nwhile True: core.adds(t, t, 1.0) #!")
    spec = TensorSpec((T,), "float32")
    with pytest.raises(KernelError, match="more than 5,000 instructions") as error:
        Device(CHIP).launch(body, spec, spec, block_dim=1)
    assert error.value.site == f"planted/endless.py:{line}"
