"""pyasc programs run as they are: their numbers, their times, and what they get wrong."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device
from npusim.pyasc import session
from npusim.pyasc.modules import provided
from npusim.values.errors import KernelError, NpusimError
from support.paths import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = DATA / "pyasc"


@pytest.fixture
def asc() -> Iterator[Any]:
    """The module, on a chip."""
    with session.held(Device("Ascend910B3")), provided():
        import asc

        yield asc


def _exec(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npusim", "exec", "-s", "910b3", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_program_runs_unmodified_and_its_launches_are_told(tmp_path: Path) -> None:
    told = tmp_path / "run.json"
    done = _exec("--json", str(told), str(PROGRAMS / "scaled_sum.py"), "--", "--elements", "65536")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equal\n")
    assert "scaled_sum" in done.stdout
    (call,) = json.loads(told.read_text())["calls"]
    assert {each["name"]: each["io"] for each in call["tensors"].values()} == {
        "x": "in",
        "y": "in",
        "z": "out",
    }
    assert call["block_dim"] == 8
    assert 2 < call["duration_us"] < 20


def test_cube_and_vector_cores_work_on_one_product() -> None:
    done = _exec(str(PROGRAMS / "product_relu.py"))
    assert done.returncode == 0, done.stderr
    assert "product_relu" in done.stdout


def test_an_exception_of_the_program_is_told_as_python_does(tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("import asc\nassert asc.ceildiv(7, 2) == 3\n")
    done = _exec(str(program))
    assert done.returncode == 1
    assert "AssertionError" in done.stderr


def test_a_function_that_is_not_there_is_named(asc: Any) -> None:
    with pytest.raises(NpusimError, match=r"asc\.load_image_to_local isn't simulated"):
        asc.load_image_to_local  # noqa: B018


def test_a_kernel_outside_of_a_program_says_how_to_run_it() -> None:
    with provided():
        import asc

        @asc.jit
        def nothing() -> None: ...

        with pytest.raises(NpusimError, match="no chip to run on"):
            nothing[1]()


# -- numbers --------------------------------------------------------------------------------------


def _run(asc: Any, body: Any, *arrays: np.ndarray, blocks: int = 1) -> Any:
    """``body(gm tensors...)`` as a kernel."""

    @asc.jit
    def kernel(*addresses: Any) -> None:
        tensors = [asc.GlobalTensor() for _ in addresses]
        for tensor, address in zip(tensors, addresses, strict=True):
            tensor.set_global_buffer(address)
        body(*tensors)

    names = [f"a{number}" for number in range(len(arrays))]
    scope: dict[str, Any] = {"kernel": kernel}
    exec(f"def entry({', '.join(names)}):\n    kernel({', '.join(names)})", scope)  # noqa: S102
    scope["entry"].__module__ = __name__
    asc.jit(scope["entry"])[blocks, None](*arrays)
    return session.session().launched[-1].result


def _vector(asc: Any, compute: Any, *arrays: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    """What ``compute(target, sources...)`` makes of arrays in UB, passed with flags."""
    size = max(array.size for array in arrays)
    out = np.zeros(size, dtype)

    def body(*tensors: Any) -> None:
        *sources, target = tensors
        allocator = asc.LocalMemAllocator()
        tiles = [allocator.alloc(asc.TPosition.VECIN, gm.dtype, gm.get_size()) for gm in sources]
        for tile, gm in zip(tiles, sources, strict=True):
            asc.data_copy(tile, gm, gm.get_size())
        result = allocator.alloc(asc.TPosition.VECOUT, target.dtype, target.get_size())
        asc.set_flag(asc.HardEvent.MTE2_V)
        asc.wait_flag(asc.HardEvent.MTE2_V)
        compute(result, *tiles)
        asc.set_flag(asc.HardEvent.V_MTE3)
        asc.wait_flag(asc.HardEvent.V_MTE3)
        asc.data_copy(target, result, target.get_size())

    _run(asc, body, *arrays, out)
    return out


def _numbers(count: int, seed: int = 0, dtype: type = np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).random(count) * 8 - 4).astype(dtype)


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "add_relu": lambda a, b: np.maximum(a + b, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_by_count_and_by_repeats(asc: Any, name: str) -> None:
    x, y = _numbers(512), _numbers(512, 1)
    function = getattr(asc, name)
    by_count = _vector(asc, lambda z, a, b: function(z, a, b, 512), x, y)
    np.testing.assert_array_equal(by_count, BINARY[name](x, y))
    params = asc.BinaryRepeatParams()
    by_repeats = _vector(
        asc, lambda z, a, b: function(z, a, b, mask=64, repeat_times=8, repeat_params=params), x, y
    )
    np.testing.assert_array_equal(by_repeats, by_count)


def test_masks_of_bits_leave_other_lanes_alone(asc: Any) -> None:
    x, y = _numbers(128), _numbers(128, 1)
    odd = int("10" * 32, 2)

    def compute(z: Any, a: Any, b: Any) -> None:
        asc.duplicate(z, 7.0, 128)
        asc.add(z, a, b, [odd, 0], 2, asc.BinaryRepeatParams())

    found = _vector(asc, compute, x, y)
    np.testing.assert_array_equal(found[1::2], (x + y)[1::2])
    assert (found[::2] == 7).all()


def test_strides_of_blocks_and_repeats(asc: Any) -> None:
    x = _numbers(256)

    def compute(z: Any, a: Any) -> None:
        asc.duplicate(z, 0.0, 256)
        params = asc.UnaryRepeatParams(2, 1, 16, 8)  # every other block of the target
        asc.adds(z, a, 1.0, 64, 2, params)

    found = _vector(asc, compute, x).reshape(-1, 2, 8)
    np.testing.assert_array_equal(found[:, 0].reshape(-1), x[:128] + 1)
    assert not found[:, 1].any()


def test_reductions_comparisons_and_selections(asc: Any) -> None:
    x, y = _numbers(256), _numbers(256, 1)

    def smaller(z: Any, a: Any, b: Any) -> None:
        bits = asc.LocalTensor(asc.uint8, asc.TPosition.VECCALC, 8192, 32)
        asc.compare(bits, a, b, asc.CMPMODE.LT, 256)
        asc.select(z, bits, a, b, asc.SelMode.VSEL_TENSOR_TENSOR_MODE, 256)

    np.testing.assert_array_equal(_vector(asc, smaller, x, y), np.minimum(x, y))

    def total(z: Any, a: Any) -> None:
        asc.duplicate(z, 0.0, 256)
        asc.reduce_sum(z, a, None, 256)

    np.testing.assert_allclose(_vector(asc, total, x)[0], x.sum(), rtol=1e-5)

    def largest(z: Any, a: Any) -> None:
        asc.duplicate(z, 0.0, 256)
        asc.whole_reduce_max(z, a, 64, 4, 1, 1, 8)

    np.testing.assert_array_equal(_vector(asc, largest, x)[:4], x.reshape(4, 64).max(1))


def test_conversions_round_as_they_say(asc: Any) -> None:
    x = _numbers(256)
    for mode, expected in (
        ("CAST_RINT", np.rint),
        ("CAST_FLOOR", np.floor),
        ("CAST_CEIL", np.ceil),
    ):
        found = _vector(
            asc,
            lambda z, a, mode=mode: asc.cast(z, a, asc.RoundMode[mode], 256),
            x,
            dtype=np.int32,
        )
        np.testing.assert_array_equal(found, expected(x).astype(np.int32))


def test_one_word_of_a_mask_is_read_for_types_of_32_bits(asc: Any) -> None:
    """Source: asc-devkit, the page on masks."""
    z = np.zeros(128, np.float32)

    def body(z_gm: Any) -> None:
        tile = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 128)
        asc.duplicate(tile, 1.0, 128)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.adds(tile, tile, 1.0, [2**63 - 1, 2**64 - 1], 1, asc.UnaryRepeatParams(1, 1, 8, 8))
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(z_gm, tile, 128)

    _run(asc, body, z)
    np.testing.assert_array_equal(z, np.where(np.arange(128) < 63, 2.0, 1.0))


def test_padded_copies_fill_what_lies_around(asc: Any) -> None:
    x, z = _numbers(3 * 5), np.zeros((3, 8), np.float32)

    def body(x_gm: Any, z_gm: Any) -> None:
        tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 24)
        around = asc.DataCopyPadExtParams(asc.float32, True, 0, 3, -1)
        asc.data_copy_pad(tile, x_gm, asc.DataCopyExtParams(3, 20, 0, 0), around)
        asc.set_flag(asc.HardEvent.MTE2_MTE3)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(z_gm, tile, 24)

    _run(asc, body, x, z)
    np.testing.assert_array_equal(z[:, :5], x.reshape(3, 5))
    assert (z[:, 5:] == -1).all()


def test_atomic_stores_of_all_blocks_add_up(asc: Any) -> None:
    x, z = np.ones(64, np.float32), np.zeros(64, np.float32)

    def body(x_gm: Any, z_gm: Any) -> None:
        tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
        asc.data_copy(tile, x_gm, 64)
        asc.set_flag(asc.HardEvent.MTE2_MTE3)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3)
        asc.set_atomic_add()
        asc.data_copy(z_gm, tile, 64)
        asc.set_atomic_none()

    _run(asc, body, x, z, blocks=6)
    assert (z == 6).all()


def test_blocks_that_do_alike_are_played_together(asc: Any) -> None:
    x, z = np.ones(64 * 20, np.float32), np.zeros(64 * 20, np.float32)

    def body(x_gm: Any, z_gm: Any) -> None:
        first = asc.get_block_idx() * 64
        tile = asc.LocalTensorAuto(asc.float32, 64)
        asc.data_copy(tile, x_gm[first:], 64)
        asc.set_flag(asc.HardEvent.MTE2_MTE3)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3)
        asc.data_copy(z_gm[first:], tile, 64)

    result = _run(asc, body, x, z, blocks=20)
    (work,) = result.timeline.work()
    assert [len(group.places) for group in work.cores] == [20]
    assert z.all()


# -- planted faults -------------------------------------------------------------------------------

HEAD = """
import asc
import numpy as np


@asc.jit{options}
def kernel(x: asc.GlobalAddress, z: asc.GlobalAddress):
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    f32, V = asc.float32, asc.TPosition.VECCALC
    E = asc.HardEvent
    a, b = asc.LocalTensor(f32, V, 0, 256), asc.LocalTensor(f32, V, 1024, 256)
    def flag(event, number=0):
        asc.set_flag(event, number)
        asc.wait_flag(event, number)
{body}

kernel[{blocks}](np.ones(4096, np.float32), np.zeros(4096, np.float32))
"""

QUEUES = """
pipe = asc.TPipe()
q, o = asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 2)
pipe.init_buffer(q, 2, 1024)
pipe.init_buffer(o, 2, 1024)
"""

GOOD = """
asc.data_copy(a, x_gm, 256)
flag(E.MTE2_V)
asc.adds(b, a, 1.0, 256)
flag(E.V_MTE3)
asc.data_copy(z_gm, b, 256)
"""

MEET = """
asc.duplicate(a, 1.0, 8)
flag(E.V_MTE3)
asc.data_copy(z_gm[asc.get_block_idx() * 8:], a, 8)
asc.pipe_barrier(asc.PipeID.PIPE_ALL)
asc.data_copy(b, z_gm, 16) #!
"""
MEETS = {
    "no barrier between blocks": 2,
    "a barrier that some blocks don't come to": 2,
    "blocks store to one place": 4,
    "ends of what blocks store overlap": 3,
}

# What is wrong, and in which line of the body (the one that ends with #!).
FAULTS = {
    "no flag from copy to vector": (
        "asc.data_copy(a, x_gm, 256)\nasc.adds(b, a, 1.0, 256) #!", "nothing orders the two"),
    "no flag from vector to store": (
        "asc.duplicate(a, 1.0, 256)\nasc.data_copy(z_gm, a, 256) #!", "nothing orders the two"),
    "copied over while vector reads": (
        ("asc.data_copy(a, x_gm, 256)\nflag(E.MTE2_V)\nasc.adds(b, a, 1.0, 256)\n"
        "asc.data_copy(a, x_gm[256:], 256) #!"), "nothing orders the two"),
    "computed over while it is stored": (
        ("asc.duplicate(a, 1.0, 256)\nflag(E.V_MTE3)\nasc.data_copy(z_gm, a, 256)\n"
        "asc.duplicate(a, 2.0, 256) #!"), "nothing orders the two"),
    "copied over while it is stored": (
        ("asc.data_copy(a, x_gm, 256)\nflag(E.MTE2_MTE3)\nasc.data_copy(z_gm, a, 256)\n"
        "asc.data_copy(a, x_gm, 256) #!"), "nothing orders the two"),
    "a flag of other pipes": (
        "asc.data_copy(a, x_gm, 256)\nflag(E.MTE2_MTE3)\nasc.adds(b, a, 1.0, 256) #!",
        "nothing orders the two"),
    "a flag set too early": (
        ("asc.set_flag(E.MTE2_V)\nasc.data_copy(a, x_gm, 256)\nasc.wait_flag(E.MTE2_V)\n"
        "asc.adds(b, a, 1.0, 256) #!"), "nothing orders the two"),
    "tiles that overlap": (
        ("asc.data_copy(a, x_gm, 256)\nflag(E.MTE2_V)\nc = asc.LocalTensor(f32, V, 512, 256)\n"
        "asc.adds(b, a, 1.0, 256)\nflag(E.V_MTE3)\nasc.data_copy(z_gm, b, 256)\n"
        "asc.duplicate(c, 0.0, 256) #!"), "nothing orders the two"),
    "the second half isn't waited for": (
        ("asc.data_copy(a, x_gm, 128)\nflag(E.MTE2_V)\nasc.data_copy(a[128:], x_gm[128:], 128)\n"
        "asc.adds(b, a, 1.0, 256) #!"), "nothing orders the two"),
    "a scalar store that the copy doesn't wait for": (
        ("asc.duplicate(a, 1.0, 256)\nflag(E.V_MTE3)\nasc.data_copy(z_gm, a, 256)\n"
        "a.set_value(0, 2.0) #!"), "nothing orders the two"),
    "nothing was written": ("asc.adds(b, a, 1.0, 256) #!", "nothing has written"),
    "half of it was written": (
        "asc.duplicate(a, 1.0, 128)\nasc.adds(b, a, 1.0, 256) #!", "nothing has written"),
    "garbage is stored": ("asc.data_copy(z_gm, a, 256) #!", "nothing has written"),
    "garbage is read by the scalar unit": ("a.get_value(3) #!", "nothing has written"),
    "axpy onto nothing": (
        "asc.duplicate(b, 1.0, 256)\nasc.axpy(a, b, 2.0, 256) #!", "nothing has written"),
    "masked lanes are read": (
        "asc.duplicate(a, 1.0, [2**32 - 1, 0], 4, 1, 8)\nasc.adds(b, a, 1.0, 256) #!",
        "nothing has written"),
    "more elements than the tensor": (
        "asc.duplicate(b, 1.0, 257) #!", "ends at byte 2048"),
    "a slice beyond the end": (
        "asc.duplicate(a[192:], 1.0, 128) #!", "ends at byte 1024"),
    "repeats beyond the end": (
        "asc.duplicate(b, 1.0, 64, 5, 1, 8) #!", "ends at byte 2048"),
    "a stride beyond the end": (
        "asc.duplicate(b, 1.0, 64, 4, 1, 16) #!", "ends at byte 2048"),
    "a tensor beyond UB": (
        "c = asc.LocalTensor(f32, V, 196608 - 512, 256) #!", "the chip has 196608"),
    "an address that isn't aligned": ("asc.duplicate(a[1:], 1.0, 64) #!", "multiple of 32"),
    "a copy to an address that isn't aligned": (
        "asc.data_copy(a[4:], x_gm, 64) #!", "multiple of 32"),
    "a copy of no whole blocks": ("asc.data_copy(a, x_gm, 250) #!", "multiple of 32"),
    "a read beyond global memory": (
        "asc.data_copy(a, x_gm[4000:], 256) #!", "ends at byte 16384"),
    "a store beyond global memory": (
        "asc.duplicate(a, 1.0, 256)\nflag(E.V_MTE3)\nasc.data_copy(z_gm[3841:], a, 256) #!",
        "ends at byte 16384"),
    "beyond what set_global_buffer says": (
        "x_gm.set_global_buffer(x, 128)\nasc.data_copy(a, x_gm, 256) #!", "ends at byte 512"),
    "gaps beyond global memory": (
        "asc.data_copy(a, x_gm, asc.DataCopyParams(8, 4, 72, 0)) #!", "ends at byte 16384"),
    "a flag that nobody waits for": (
        "asc.duplicate(a, 1.0, 256)\nasc.set_flag(E.V_MTE3) #!", "waited for 0 times"),
    "a wait without a set": ("asc.wait_flag(E.V_MTE3) #!", "set 0 times"),
    "set again before it is waited for": (
        ("asc.duplicate(a, 1.0, 256)\nasc.set_flag(E.V_MTE3)\nasc.set_flag(E.V_MTE3) #!\n"
        "asc.wait_flag(E.V_MTE3)"), "set again before anything has waited"),
    "an event of pipes that a vector core hasn't": (
        "asc.set_flag(E.M_FIX) #!\nasc.wait_flag(E.M_FIX)", "a vector core has no"),
    "loaded again before it is stored": (
        ("asc.duplicate(a, 1.0, 256)\nflag(E.V_MTE3)\nasc.data_copy(z_gm, a, 256)\n"
        "asc.data_copy(b, z_gm, 256) #!"), "that it also"),
    "blocks store to one place": (
        ("asc.duplicate(a, float(asc.get_block_idx()), 256)\nflag(E.V_MTE3)\n"
        "asc.data_copy(z_gm, a, 256) #!"), "stores other numbers to byte 0"),
    "ends of what blocks store overlap": (
        ("asc.duplicate(a, float(asc.get_block_idx()), 256)\nflag(E.V_MTE3)\n"
        "asc.data_copy(z_gm[asc.get_block_idx() * 248:], a, 256) #!"), "to byte 992"),
    "a vector result without a flag to the scalar unit": (
        "asc.duplicate(a, 1.0, 256)\na.get_value(3) #!", "V_S"),
    "operands that overlap in part": (
        "asc.duplicate(b, 1.0, 256)\nasc.adds(b[8:], b, 1.0, 128) #!", "overlap in part"),
    "no barrier between blocks": (MEET, "that another core"),
    "atomics are left on": (
        ("asc.duplicate(a, 1.0, 256)\nflag(E.V_MTE3)\nasc.set_atomic_add(f32) #!\n"
        "asc.data_copy(z_gm, a, 256)"), "still on when the kernel ends"),
    "a barrier that some blocks don't come to": (
        "if asc.get_block_idx() == 0: asc.sync_all() #!", "end while the others wait"),
    "a stride that is too wide": (
        ("asc.duplicate(a, 1.0, 256)\n"
        "asc.adds(a, a, 1.0, 64, 2, asc.UnaryRepeatParams(1, 1, 8, 256)) #!"), "256 between"),
    "a stride backwards": (
        ("asc.duplicate(a, 1.0, 256)\n"
        "asc.adds(a, a, 1.0, 64, 2, asc.UnaryRepeatParams(1, 1, 8, -8)) #!"), "-8 between"),
    "a comparison of no whole repeats": (
        ("asc.duplicate(a, 1.0, 256)\nc = asc.LocalTensor(asc.uint8, V, 4096, 256)\n"
        "asc.compare(c, a, a, asc.CMPMODE.EQ, 100) #!"), "no multiple of 256"),
    "another number is waited for": (
        "asc.duplicate(a, 1.0, 256)\nasc.set_flag(E.V_MTE3, 0) #!\nasc.wait_flag(E.V_MTE3, 1)",
        "waited for 0 times"),
    "an event that doesn't exist": ("asc.set_flag(E.V_MTE3, 8) #!", "event 8 doesn't exist"),
    "a slot that is never freed": (
        QUEUES + "t = q.alloc_tensor(f32) #!\nasc.data_copy(t, x_gm, 256)\nq.enque(t)\n"
        "q.deque(f32)",
        "never freed|not freed|dequeued and not freed"),
    "more slots than there are": (
        QUEUES + "for i in range(3): q.alloc_tensor(f32) #!", "all of them are in use"),
    "freed twice": (
        QUEUES + "t = q.alloc_tensor(f32)\nq.enque(t)\nt = q.deque(f32)\nq.free_tensor(t)\n"
        "q.free_tensor(t) #!", "is freed, but it is freed"),
    "used after it was freed": (
        QUEUES + "t = q.alloc_tensor(f32)\nasc.data_copy(t, x_gm, 256)\nq.enque(t)\n"
        "t = q.deque(f32)\nq.free_tensor(t)\nasc.adds(b, t, 1.0, 256) #!", "used, but it is freed"),
    "used before it is dequeued": (
        QUEUES + "t = q.alloc_tensor(f32)\nasc.data_copy(t, x_gm, 256)\nq.enque(t)\n"
        "asc.adds(b, t, 1.0, 256) #!", "enqueued and not dequeued"),
    "dequeued from an empty queue": (
        QUEUES + "t = q.deque(f32) #!", "nothing is enqueued"),
    "enqueued twice": (
        QUEUES + "t = q.alloc_tensor(f32)\nq.enque(t)\nq.enque(t) #!", "is enqueued, but"),
    "given back to another queue": (
        QUEUES + "t = q.alloc_tensor(f32)\no.enque(t) #!", "is no tile of queue"),
    "a queue without memory": (
        "q = asc.TQue(asc.TPosition.VECIN, 1)\nq.alloc_tensor(f32) #!", "before it has memory"),
    "queues that don't fit": (
        ("pipe = asc.TPipe()\nq = asc.TQue(asc.TPosition.VECIN, 2)\n"
        "pipe.init_buffer(q, 2, 100000) #!"), "the chip has 196608"),
    "more than a slot holds": (
        QUEUES + "t = q.alloc_tensor(f32)\nasc.data_copy(t, x_gm, 512) #!", "is used up to byte"),
    "scratch memory that is too small": (
        "pipe = asc.TPipe()\ns = asc.TBuf(V)\npipe.init_buffer(s, 256)\ns.get(f32, 128) #!",
        "has 256 bytes"),
    "operands of different types": (
        ("h = asc.LocalTensor(asc.half, V, 4096, 256)\nasc.duplicate(a, 1.0, 256)\n"
        "asc.duplicate(h, 1.0, 256)\nasc.add(b, a, h, 256) #!"), "different dtypes"),
    "a type that the chip doesn't add": (
        ("h = asc.LocalTensor(asc.bfloat16, V, 4096, 256)\nasc.duplicate(h, 1.0, 256)\n"
        "asc.add(h, h, h, 256) #!"), "doesn't take bfloat16"),
    "a mask that is too wide": ("asc.duplicate(a, 1.0, 128, 2, 1, 8) #!", "1 to 64 elements"),
    "too many repeats": ("asc.duplicate(a, 1.0, 64, 256, 1, 8) #!", "0 to 255"),
    "L1 on a vector core": (
        "c = asc.LocalTensor(f32, asc.TPosition.A1, 0, 256) #!", "the chip has 0"),
    "an exception of Python": ("x_gm.no_such_method() #!", "AttributeError"),
}  # fmt: skip


def _program(body: str, options: str = "", blocks: int = 1) -> tuple[str, int]:
    """The program, and the line that is marked in it."""
    text = "\n".join(f"    {line}" for line in body.strip().splitlines())
    program = HEAD.format(body=text, options=options, blocks=blocks)
    marked = [number for number, line in enumerate(program.splitlines(), 1) if "#!" in line]
    return program, marked[0] if marked else 0


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.usefixtures("asc")
def test_planted_faults_are_found_with_their_line(name: str, tmp_path: Path) -> None:
    body, problem = FAULTS[name]
    program, line = _program(body, blocks=MEETS.get(name, 1))
    path = tmp_path / "fault.py"
    path.write_text(program)
    with pytest.raises(KernelError, match=problem) as caught:
        runpy.run_path(str(path))
    assert f"fault.py:{line}" in caught.value.message


@pytest.mark.parametrize(
    "body", [GOOD, QUEUES + GOOD, MEET.replace("PIPE_ALL)", "PIPE_ALL); asc.sync_all()")]
)
@pytest.mark.usefixtures("asc")
def test_a_clean_kernel_raises_nothing(body: str, tmp_path: Path) -> None:
    path = tmp_path / "clean.py"
    path.write_text(_program(body, blocks=2)[0])
    runpy.run_path(str(path))


@pytest.mark.usefixtures("asc")
def test_insert_sync_puts_in_order_what_has_none(tmp_path: Path) -> None:
    path = tmp_path / "links.py"
    body = "asc.data_copy(a, x_gm, 256)\nasc.adds(b, a, 1.0, 256)\nasc.data_copy(z_gm, b, 256)"
    path.write_text(_program(body, "(insert_sync=True)")[0])
    runpy.run_path(str(path))
    result = session.session().launched[-1].result
    starts = {each.name: each.start_us for each in result.timeline.slices()}
    assert starts["copy_gm_to_ubuf"] < starts["vadds"] < starts["copy_ubuf_to_gm"]
