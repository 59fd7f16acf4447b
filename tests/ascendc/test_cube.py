"""The cube path, and the cores of a cluster: what they compute, what it costs, what is refused."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmBuffer,
    Kernel,
    LocalTensor,
    TBuf,
    TPosition,
    TQue,
    trace,
)
from npusim.ascendc import block as blocks_of_kernels
from npusim.ascendc.costs import InstructionCosts
from npusim.engine import (
    CoreGroup,
    Instruction,
    KernelRun,
    L2State,
    Pipe,
    Unit,
    machine_of,
    simulate,
)
from npusim.hardware import Profile, load_profile
from npusim.library.block_matmul import BlockMatmul
from npusim.library.matmul import GmMatrix, Matmul
from npusim.library.matmul import Product as MatrixProduct
from npusim.library.matmul_tiling import MatmulTiling
from npusim.runtime.timeline import core_name
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32, DType, dtype
from npusim.values.errors import (
    BufferOverflowError,
    DeadlockError,
    KernelError,
    UnsupportedIntrinsicError,
)
from support.cubes import Cubes
from support.kernels import Body, content, gm

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Array = np.ndarray[Any, Any]

A2 = "Ascend910B3"
CHIPS = ["Ascend910A", A2, "Ascend310P3"]
UNIFIED = ["Ascend910A", "Ascend310P3"]
FEW = settings(max_examples=25, deadline=None)


class Clusters(Cubes):
    """Runs ``body`` on cube cores and their vector cores."""

    is_mix = True


def play(
    kernel: Kernel, chip: str | Profile = A2, *, numerics: bool = True, exact: bool = False
) -> tuple[tuple[CoreGroup, ...], KernelRun]:
    """A kernel traced and timed on a chip whose L2 is cold."""
    profile = load_profile(chip) if isinstance(chip, str) else chip
    groups = trace(kernel, profile, numerics=numerics)
    machine = machine_of(profile, kernel.block_dim, mix=kernel.is_mix)
    tensors = (*kernel.reads, *kernel.writes, *kernel.scratch)
    sizes = {tensor.buffer.number: tensor.buffer.nbytes for tensor in tensors}
    run = simulate(groups, machine, L2State(profile.memory.l2_bytes), sizes, exact=exact)
    return groups, run


def on_pipe(groups: tuple[CoreGroup, ...], pipe: Pipe) -> list[Instruction]:
    """What the first group executes on a pipe, bare flags left out."""
    every = (instruction for instruction, _ in groups[0].program.instructions())
    return [each for each in every if each.pipe is pipe and each.name]


# -- products --------------------------------------------------------------------------------------


class Product(Kernel):
    """c = a @ b, blocks of c dealt to the cube cores."""

    op_type = "MatMul"
    cores = "cube"

    def __init__(
        self,
        profile: Profile,
        a: GlobalTensor,
        b: GlobalTensor,
        c: GlobalTensor,
        *,
        transpose: tuple[bool, bool] = (False, False),
        block: tuple[int, int] = (192, 320),
    ) -> None:
        (self.m, self.n), self.transpose = c.shape, transpose
        self.a, self.b, self.c = a, b, c
        self.k = a.shape[0] if transpose[0] else a.shape[1]
        self.block = (min(block[0], self.m), min(block[1], self.n))
        grid = (ceil(self.m / self.block[0]), ceil(self.n / self.block[1]))
        self.pieces = list(np.ndindex(grid))
        self.block_dim = min(profile.cores.cube_cores, len(self.pieces))
        self.reads, self.writes = (a, b), (c,)
        self.tiling = MatmulTiling.of(profile, a.dtype, *self.block, self.k)

    def mine(self, block: int) -> list[tuple[int, ...]]:
        return self.pieces[block :: self.block_dim]

    def size(self, piece: tuple[int, ...]) -> tuple[int, int]:
        row, column = piece[0] * self.block[0], piece[1] * self.block[1]
        return min(self.block[0], self.m - row), min(self.block[1], self.n - column)

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple(self.size(piece) for piece in self.mine(block_idx))

    def process(self, core: Core) -> None:
        matmul = Matmul(core, self.tiling, self.a.dtype, self.c.dtype, self.k)
        for piece in self.mine(core.get_block_idx()):
            row, column = piece[0] * self.block[0], piece[1] * self.block[1]
            turned_a, turned_b = self.transpose
            a = GmMatrix(
                self.a,
                ((row, 1 if turned_a else self.k),),
                self.m if turned_a else self.k,
                turned_a,
            )
            b = GmMatrix(
                self.b,
                ((column, self.k if turned_b else 1),),
                self.k if turned_b else self.n,
                turned_b,
            )
            c = GmMatrix(self.c, ((row, self.n), (column, 1)), self.n)
            matmul.multiply(c, a, b, *self.size(piece), self.k)


def matrix(*shape: int, kind: DType, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    if kind.category != "float":
        return random.integers(-127, 128, shape).astype(np.int8)
    return random.standard_normal(shape).astype(kind.numpy)


def multiplied(
    chip: str | Profile,
    m: int,
    n: int,
    k: int,
    *,
    kind: DType = FLOAT16,
    out: DType | None = None,
    transpose: tuple[bool, bool] = (False, False),
    block: tuple[int, int] = (192, 320),
) -> tuple[Array, Array, KernelRun]:
    """The product on a chip, the same in float64, and how it went."""
    profile = load_profile(chip) if isinstance(chip, str) else chip
    a = matrix(*((k, m) if transpose[0] else (m, k)), kind=kind)
    b = matrix(*((n, k) if transpose[1] else (k, n)), kind=kind, seed=1)
    c = np.full((m, n), 7, (out or kind).numpy)
    kernel = Product(profile, gm(a, "a"), gm(b, "b"), gm(c, "c"), transpose=transpose, block=block)
    _, run = play(kernel, profile)
    left, right = a.astype(np.float64), b.astype(np.float64)
    want = (left.T if transpose[0] else left) @ (right.T if transpose[1] else right)
    return content(kernel.c), want, run


def assert_near(got: Array, want: Array, rtol: float) -> None:
    error = np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()
    assert error <= rtol, error


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("transpose", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_halves(chip: str, transpose: tuple[bool, bool]) -> None:
    got, want, _ = multiplied(chip, 210, 333, 421, transpose=transpose)
    assert_near(got, want, 1e-3)


@pytest.mark.parametrize(("kind", "rtol"), [(FLOAT, 1e-6), (BFLOAT16, 8e-3), (FLOAT16, 1e-3)])
def test_products_of_every_float_on_a2(kind: DType, rtol: float) -> None:
    got, want, _ = multiplied(A2, 100, 300, 200, kind=kind)
    assert got.dtype == kind.numpy
    assert_near(got, want, rtol)


@pytest.mark.parametrize("chip", CHIPS)
def test_whole_numbers_are_added_exactly(chip: str) -> None:
    got, want, _ = multiplied(chip, 40, 70, 3000, kind=INT8, out=INT32)
    np.testing.assert_array_equal(got, want.astype(np.int32))


@pytest.mark.parametrize("chip", CHIPS)
def test_halves_are_summed_up_in_float32(chip: str) -> None:
    """4096 times 1 + 2**-10 rounds to 4096 when every step is rounded to a half."""
    got, want, _ = multiplied(chip, 16, 16, 16, out=FLOAT)
    assert got.dtype == np.float32
    assert_near(got, want, 1e-6)
    ones = np.ones((1, 4096), np.float16)
    column = np.full((4096, 1), 1 + 2**-10, np.float16)
    kernel = Product(load_profile(chip), gm(ones), gm(column), gm(np.zeros((1, 1), np.float16)))
    play(kernel, chip)
    assert content(kernel.c)[0, 0] == np.float16(4100)


@FEW
@given(
    st.integers(1, 300),
    st.integers(1, 600),
    st.integers(1, 700),
    st.sampled_from(CHIPS),
    st.tuples(st.booleans(), st.booleans()),
)
def test_products_of_any_shape(
    m: int, n: int, k: int, chip: str, transpose: tuple[bool, bool]
) -> None:
    got, want, _ = multiplied(chip, m, n, k, out=FLOAT, transpose=transpose)
    assert_near(got, want, 1e-5)


@pytest.mark.parametrize("memory", ["l1", "l0a", "l0b", "l0c"])
def test_smaller_memories_give_the_same_product(memory: str) -> None:
    profile = load_profile(A2)
    least = {"l1": 131072, "l0a": 8192, "l0b": 16384, "l0c": 32768}[memory]
    buffers = profile.buffers.model_copy(update={f"{memory}_bytes": least})
    got, want, slow = multiplied(profile.model_copy(update={"buffers": buffers}), 200, 300, 500)
    assert_near(got, want, 1e-3)
    assert slow.cycles >= multiplied(A2, 200, 300, 500)[2].cycles


def test_a_large_product_keeps_the_cube_busy_and_never_beats_its_peak() -> None:
    profile = load_profile(A2)
    size = 4096
    tensors = [
        GlobalTensor(GmBuffer(name, size * size * 2), FLOAT16, (size, size)) for name in "abc"
    ]
    _, run = play(Product(profile, *tensors, block=(1024, 820)), numerics=False)
    rate = 2 * size**3 / (run.core_cycles / profile.clock_mhz) / 1e6  # TFLOPS
    assert run.busy_ratio(Pipe.CUBE) > 0.4
    assert 0.4 * profile.cube_peak_tops("float16") < rate < profile.cube_peak_tops("float16")


@pytest.mark.parametrize(
    ("size", "measured_us"), [(1536, 38.8), (3072, 206.7), (6144, 1506.0), (8192, 4012.0)]
)
def test_square_products_take_about_what_was_measured(size: int, measured_us: float) -> None:
    """Halves on 24 clusters, each a sixth of a quarter of the result, in whole blocks.

    Source: hicann/pto-isa gemm_performance (one die of 24 clusters); asc-devkit for 8192.
    """
    profile = load_profile("Ascend910B1")
    tensors = [
        GlobalTensor(GmBuffer(name, size * size * 2), FLOAT16, (size, size)) for name in "abc"
    ]
    kernel = Product(profile, *tensors, block=(size // 4, round_up(ceil(size / 6), 128)))
    _, run = play(kernel, profile, numerics=False)
    assert 0.7 < run.cycles / profile.clock_mhz / measured_us < 1.1


class Unflagged(Product):
    """One whole block of L0C after the other, with or without flags for its fractals."""

    unit_flag = False

    def process(self, core: Core) -> None:
        blocks = BlockMatmul(
            core,
            self.tiling,
            self.a.dtype,
            self.k,
            out_dtype=self.c.dtype,
            unit_flag=self.unit_flag,
        )
        c, (m, n) = GmMatrix(self.c, (), self.n), self.c.shape
        a, b = GmMatrix(self.a, (), self.k), GmMatrix(self.b, (), self.n)
        blocks.begin(MatrixProduct(c, a, b, m, n, self.k))
        for block in blocks.iterate():
            blocks.get_tensor_c(block, c)


class Flagged(Unflagged):
    unit_flag = True


def test_without_unit_flags_results_leave_before_the_next_are_summed_up() -> None:
    profile = load_profile(A2)
    high, wide, k, number = 128, 256, 512, 6

    def taken(kernel: type[Unflagged]) -> float:
        shapes = ((high, k), (k, wide * number), (high, wide * number))
        tensors = [
            GlobalTensor(GmBuffer(name, shape[0] * shape[1] * 4), FLOAT16, shape)
            for name, shape in zip("abc", shapes, strict=True)
        ]
        product = kernel(profile, *tensors, block=(high, wide * number))
        return play(product, profile, numerics=False)[1].core_cycles

    leaving = high * wide * 2 / InstructionCosts(profile).fixpipe_rate(0.5)
    waited = taken(Unflagged) - taken(Flagged)
    assert (number - 1) * leaving < waited < 2 * (number - 1) * leaving


@pytest.mark.parametrize("chip", CHIPS)
def test_longer_sums_take_longer(chip: str) -> None:
    times = [multiplied(chip, 128, 256, k)[2].cycles for k in (16, 100, 500, 2000)]
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]


# -- one instruction at a time ---------------------------------------------------------------------


class Bench:
    """Buffers for a single product on one core."""

    def __init__(self, core: Core, kind: DType = FLOAT16, sums: DType = FLOAT) -> None:
        self.core, self.kind, self.sums = core, kind, sums
        places = (TPosition.A1, TPosition.B1, TPosition.A2, TPosition.B2, TPosition.CO1)
        self.buffers = {place: TBuf(place.lower(), place) for place in places}
        for place, buffer in self.buffers.items():
            core.pipe.init_buffer(buffer, 1, 65536 if place is TPosition.CO1 else 32768)

    def tile(self, place: TPosition, *shape: int) -> LocalTensor:
        kind = self.sums if place is TPosition.CO1 else self.kind
        return self.buffers[place].get(kind, *shape)

    def operands(self, m: int, k: int, n: int) -> tuple[LocalTensor, LocalTensor, LocalTensor]:
        return (
            self.tile(TPosition.CO1, m, n),
            self.tile(TPosition.A2, m, k),
            self.tile(TPosition.B2, k, n),
        )


def cycles_of(body: Body, pipe: Pipe, chip: str = A2) -> float:
    """Cycles of the only instruction on a pipe, without its transfer."""
    groups, _ = play(Cubes(body), chip, numerics=False)
    (only,) = on_pipe(groups, pipe)
    return only.cycles


@pytest.mark.parametrize(
    ("chip", "kind", "sums", "shape", "fractals", "each"),
    [
        # With 16 rows, what takes the time is getting the other operand out of L0B.
        (A2, FLOAT16, FLOAT, (16, 16, 16), 1, 2),
        (A2, FLOAT16, FLOAT, (1, 37, 101), 3 * 7, 2),
        (A2, FLOAT, FLOAT, (16, 16, 16), 2, 2),
        (A2, FLOAT16, FLOAT, (17, 33, 50), 2 * 3 * 4, 1),
        (A2, BFLOAT16, FLOAT, (128, 64, 128), 8 * 4 * 8, 1),
        (A2, FLOAT, FLOAT, (128, 64, 64), 8 * 8 * 4, 2),
        (A2, INT8, INT32, (16, 64, 32), 1 * 2 * 2, 2),
        (A2, INT8, INT32, (17, 64, 32), 2 * 2 * 2, 1),
        ("Ascend910A", FLOAT16, FLOAT, (100, 20, 40), 7 * 2 * 3, 1),
        ("Ascend310P3", INT8, INT32, (16, 33, 16), 2, 1),
    ],
)
def test_a_product_costs_its_fractals(
    chip: str,
    kind: DType,
    sums: DType,
    shape: tuple[int, int, int],
    fractals: int,
    each: int,
) -> None:
    def body(core: Core) -> None:
        core.mmad(*Bench(core, kind, sums).operands(*shape))

    start = load_profile(chip).cube.mad_start_cycles
    assert cycles_of(body, Pipe.CUBE, chip) == fractals * each + start


@pytest.mark.parametrize(("itemsize", "cycles"), [(4, 12), (2, 8), (1, 6)])
def test_results_are_read_and_sent_on_in_turns(itemsize: int, cycles: float) -> None:
    """A fractal of float32 sums: 4 cycles to read it, 2 for every byte of a result."""
    rate = InstructionCosts(load_profile(A2)).fixpipe_rate(itemsize / FLOAT.itemsize)
    assert 16 * 16 * itemsize / rate == pytest.approx(cycles)


@pytest.mark.parametrize(("lanes", "cycles"), [(8, 32), (16, 12)])
def test_results_that_split_fractals_leave_a_block_a_cycle(lanes: int, cycles: float) -> None:
    """Slices of 8 channels of float32 are half a row of a fractal of results, 32 bytes."""
    rate = InstructionCosts(load_profile(A2)).fixpipe_rate(1.0, lanes)
    assert 16 * 16 * FLOAT.itemsize / rate == pytest.approx(cycles)


@pytest.mark.parametrize("chip", UNIFIED)
@pytest.mark.parametrize("kind", [FLOAT, BFLOAT16])
def test_no_unified_core_multiplies_wide_floats(chip: str, kind: DType) -> None:
    def body(core: Core) -> None:
        core.mmad(*Bench(core, kind).operands(16, 16, 16))

    with pytest.raises(UnsupportedIntrinsicError) as caught:
        play(Cubes(body), chip)
    message = str(caught.value)
    assert f"{kind.intrinsic} x {kind.intrinsic} -> float32" in message
    assert chip in message
    assert "float16 x float16 -> float32" in message


@pytest.mark.parametrize(
    ("place", "chip", "fits"),
    [
        (TPosition.A1, A2, 524288),
        (TPosition.B1, "Ascend910A", 1 << 20),
        (TPosition.A2, A2, 65536),
        (TPosition.B2, "Ascend310P3", 65536),
        (TPosition.CO1, A2, 131072),
        (TPosition.CO1, "Ascend910A", 262144),
    ],
)
def test_every_memory_of_the_cube_has_an_end(place: TPosition, chip: str, fits: int) -> None:
    def reserving(nbytes: int) -> Body:
        return lambda core: core.pipe.init_buffer(TQue(place, 1, "big"), 1, nbytes)

    play(Cubes(reserving(fits)), chip)
    with pytest.raises(BufferOverflowError) as caught:
        play(Cubes(reserving(fits + 32)), chip)
    assert (caught.value.need_bytes, caught.value.capacity_bytes) == (fits + 32, fits)
    assert "big" in str(caught.value)


def test_matrices_take_whole_fractals() -> None:
    """17 x 9 floats: 32 rows of 64 bytes as an operand, of 64 bytes (16 columns) as a result."""
    costs = InstructionCosts(load_profile(A2))
    assert costs.fractal_bytes(4, (17, 9)) == 32 * 64
    assert costs.fractal_bytes(4, (17, 9), result=True) == 32 * 64
    assert costs.fractal_bytes(4, (16, 8)) == 16 * 32
    assert costs.fractal_bytes(4, (16, 8), result=True) == 16 * 64
    assert costs.fractal_bytes(2, (3, 1, 1)) == 3 * 16 * 32

    def body(core: Core) -> None:
        queue = TQue(TPosition.A2, 1, "a2")
        core.pipe.init_buffer(queue, 1, 1024)
        queue.free_tensor(queue.alloc_tensor(FLOAT16, 16, 32), by=Pipe.MTE1)
        queue.alloc_tensor(FLOAT16, 17, 32)

    with pytest.raises(BufferOverflowError, match=r"\(17, 32\) in a2"):
        play(Cubes(body))


def test_on_a_split_chip_each_core_has_its_own_memories() -> None:
    def on(place: TPosition) -> Body:
        return lambda core: core.pipe.init_buffer(TBuf("x", place), 1, 32)

    with pytest.raises(BufferOverflowError, match="the chip has 0"):
        play(Cubes(on(TPosition.VECCALC)))

    class OnVector(Cubes):
        cores = "vector"

    with pytest.raises(BufferOverflowError, match="the chip has 0"):
        play(OnVector(on(TPosition.A1)))
    for chip in UNIFIED:
        play(Cubes(on(TPosition.VECCALC)), chip)


def test_a_cube_core_does_no_vector_work() -> None:
    def body(core: Core) -> None:
        core.duplicate(LocalTensor(core, FLOAT, (64,), "x", 0), 1.0)

    with pytest.raises(KernelError, match="no VECTOR pipe"):
        play(Cubes(body), numerics=False)


def test_copies_into_l1_are_slower_in_short_rows() -> None:
    """8 KiB in rows of 128 bytes and in rows of 1 KiB: a short row takes a packet to itself."""
    profile = load_profile(A2)
    path, arriving = profile.paths.gm_to_l1, profile.cube.nd2nz_setup_cycles or 0.0
    source = gm(np.zeros((64, 4096), np.float16))

    def copying(rows: int, columns: int) -> Body:
        def body(core: Core) -> None:
            queue = TQue(TPosition.A1, 1)
            core.pipe.init_buffer(queue, 1, 1 << 18)
            tile = queue.alloc_tensor(FLOAT16, rows, columns)
            core.data_copy_nd2nz(tile, source[:rows, :columns])
            queue.enque(tile)
            queue.free_tensor(queue.deque())

        return body

    def busy(rows: int, columns: int) -> float:
        run = play(Cubes(copying(rows, columns), source), numerics=False)[1]
        return run.busy_ratio(Pipe.MTE2) * run.core_cycles - path.latency_cycles - arriving

    assert busy(64, 64) > 1.5 * busy(8, 512)
    assert busy(8, 512) >= 8192 / path.bytes_per_cycle
    with pytest.raises(UnsupportedIntrinsicError, match="TransData"):
        play(Cubes(copying(64, 64)), "Ascend910A")


@pytest.mark.parametrize("chip", CHIPS)
def test_matrices_in_fractals_come_in_columns_of_blocks(chip: str) -> None:
    source = gm(np.arange(40 * 70, dtype=np.float16).reshape(40, 70))
    seen: list[Array] = []

    def body(core: Core) -> None:
        queue = TQue(TPosition.B1, 1)
        core.pipe.init_buffer(queue, 1, 1 << 16)
        tile = queue.alloc_tensor(FLOAT16, 40, 70)
        core.data_copy_nz(tile, source[:, :])
        seen.append(tile.values(0).copy())
        queue.enque(tile)
        queue.free_tensor(queue.deque())

    groups, _ = play(Cubes(body), chip)
    (load,) = on_pipe(groups, Pipe.MTE2)
    assert load.transfer is not None
    assert load.transfer.payload_bytes == 5 * 48 * 32  # 70 columns in blocks of 16, 48 rows each
    np.testing.assert_array_equal(seen[0], content(source).astype(np.float32))


def test_plain_copies_go_to_l1_too() -> None:
    source = gm(np.zeros((4, 64), np.float16))

    def body(core: Core) -> None:
        queue = TQue(TPosition.A1, 1)
        core.pipe.init_buffer(queue, 1, 4096)
        queue.free_tensor(queue.copy_in(source[:, :]))

    groups, _ = play(Cubes(body))
    (load,) = on_pipe(groups, Pipe.MTE2)
    assert (load.name, load.transfer and load.transfer.path) == ("copy_gm_to_cbuf", "gm_to_l1")


@pytest.mark.parametrize(("place", "path"), [("A", "l1_to_l0a"), ("B", "l1_to_l0b")])
def test_moves_into_l0_cost_whole_fractals(place: str, path: str) -> None:
    def body(core: Core) -> None:
        bench = Bench(core)
        source = bench.tile(TPosition[f"{place}1"], 20, 30)
        core.load_data(bench.tile(TPosition[f"{place}2"], 20, 30), source)

    found = getattr(load_profile(A2).paths, path)
    wanted = found.setup_cycles + 32 * 64 / found.bytes_per_cycle
    assert cycles_of(body, Pipe.MTE1) == wanted


def test_operands_have_to_be_where_the_cube_looks_for_them() -> None:
    def refused(step: Body, match: str) -> None:
        with pytest.raises(KernelError, match=match):
            play(Cubes(step))

    def wrong_place(core: Core) -> None:
        bench = Bench(core)
        c, _, b = bench.operands(16, 16, 16)
        core.mmad(c, bench.tile(TPosition.A1, 16, 16), b)

    def wrong_shape(core: Core) -> None:
        bench = Bench(core)
        c, a, _ = bench.operands(16, 16, 16)
        core.mmad(c, a, bench.tile(TPosition.B2, 32, 16))

    def wrong_move(core: Core) -> None:
        bench = Bench(core)
        core.load_data(bench.tile(TPosition.A2, 16, 32), bench.tile(TPosition.A1, 16, 16))

    def from_l0(core: Core) -> None:
        c, a, _ = Bench(core).operands(16, 16, 16)
        core.load_data(c, a)

    def wrong_result(core: Core) -> None:
        c, _, _ = Bench(core).operands(16, 16, 16)
        core.fixpipe(gm(np.zeros((4, 4), np.float32))[:, :], c)

    refused(wrong_place, "a1 is in L1, not L0A")
    refused(wrong_shape, "mmad on")
    refused(wrong_move, "load_data on")
    refused(from_l0, "a2 is in L0A, not L1")
    refused(wrong_result, "fixpipe on")


def test_a_chip_without_a_fixpipe_needs_the_vector_unit() -> None:
    target = gm(np.zeros((16, 16), np.float32))

    def body(core: Core, queue: TQue | None = None) -> None:
        c, a, b = Bench(core).operands(16, 16, 16)
        core.fixpipe(target[:, :], core.mmad(c, a, b), queue)

    with pytest.raises(KernelError, match="no fixpipe"):
        play(Cubes(body), "Ascend910A", numerics=False)

    def with_queue(core: Core) -> None:
        queue = TQue(TPosition.VECOUT, 1, "out")
        core.pipe.init_buffer(queue, 1, 1024)
        body(core, queue)

    groups, _ = play(Cubes(with_queue), "Ascend910A", numerics=False)
    path = load_profile("Ascend910A").paths.l0c_to_ub
    assert path is not None
    (move,) = on_pipe(groups, Pipe.VECTOR)
    assert move.cycles == path.setup_cycles + 1024 / path.bytes_per_cycle
    assert [each.name for each in on_pipe(groups, Pipe.MTE3)] == ["copy_ubuf_to_gm"]
    groups, _ = play(Cubes(body), A2, numerics=False)
    assert [each.name for each in on_pipe(groups, Pipe.FIXP)] == ["copy_matrix_cc_to_gm"]


@pytest.mark.parametrize(
    ("chip", "kind"), [("Ascend910A", BFLOAT16), (A2, INT8), ("Ascend310P3", BFLOAT16)]
)
def test_results_leave_in_dtypes_that_the_chip_converts_to(chip: str, kind: DType) -> None:
    def body(core: Core) -> None:
        c, a, b = Bench(core).operands(16, 16, 16)
        core.fixpipe(
            gm(np.zeros((16, 16), kind.numpy))[:, :], core.mmad(c, a, b), TQue(TPosition.VECOUT, 1)
        )

    with pytest.raises(UnsupportedIntrinsicError, match=f"float32->{kind.intrinsic}"):
        play(Cubes(body), chip, numerics=False)


def test_results_can_be_added_in_global_memory() -> None:
    a, b = matrix(16, 16, kind=FLOAT16), matrix(16, 16, kind=FLOAT16, seed=1)
    out = np.ones((16, 16), np.float32)
    tensors = gm(a, "a"), gm(b, "b"), gm(out, "out")

    def body(core: Core) -> None:
        bench = Bench(core)
        c, l0a, l0b = bench.operands(16, 16, 16)
        for place, l0, source in (
            (TPosition.A1, l0a, tensors[0]),
            (TPosition.B1, l0b, tensors[1]),
        ):
            tile = bench.tile(place, 16, 16)
            core.data_copy_nd2nz(tile, source[:, :])
            core.load_data(l0, tile)
        core.mmad(c, l0a, l0b)
        core.set_atomic_add()
        core.fixpipe(tensors[2][:, :], c)
        core.set_atomic_none()

    play(Cubes(body, *tensors))
    want = 1 + a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


def test_double_buffering_hides_loads_behind_products() -> None:
    def body(depth: int) -> Body:
        def run(core: Core) -> None:
            l1, l0 = TQue(TPosition.A1, depth), TQue(TPosition.A2, depth)
            core.pipe.init_buffer(l1, depth, 8192)
            core.pipe.init_buffer(l0, depth, 8192)
            bench = Bench(core)
            b, c = bench.tile(TPosition.B2, 64, 128), bench.tile(TPosition.CO1, 128 // 2, 128)
            for turn in core.loop(100):
                tile = l1.alloc_tensor(FLOAT16, 64, 64)
                core.data_copy_nd2nz(tile, source.window(((turn, 4096),), (64, 64), (64, 1)))
                l1.enque(tile)
                piece = l0.alloc_tensor(FLOAT16, 64, 64)
                core.load_data(piece, l1.deque(tile))
                l1.free_tensor(tile)
                l0.enque(piece)
                core.mmad(c, l0.deque(piece), b)
                l0.free_tensor(piece)

        return run

    source = GlobalTensor(GmBuffer("x", 100 * 8192), FLOAT16, (100, 64, 64))
    one, two = (play(Cubes(body(depth), source), numerics=False)[1] for depth in (1, 2))
    assert two.cycles < 0.8 * one.cycles
    exact = play(Cubes(body(2), source), numerics=False, exact=True)[1]
    assert two.cycles == pytest.approx(exact.cycles, abs=1e-3)


# -- clusters --------------------------------------------------------------------------------------

TURNS = 6


def relay(
    data: Array | None = None, *, turns: int = TURNS, blocks: int = 1, work: int = 1
) -> tuple[Clusters, GlobalTensor]:
    """Vector core 0 passes each row to the cube core through one slot, which makes identity @ row.

    The slot is used again for every row, so each side has to wait for the other.
    """
    shape = (blocks, turns, 16, 16)
    rows, out = (
        GlobalTensor(GmBuffer(name, blocks * turns * 1024, held), FLOAT, shape)
        for name, held in (
            ("rows", None if data is None else data.reshape(-1)),
            ("out", None if data is None else np.zeros(data.size, np.float32)),
        )
    )
    eye = gm(np.eye(16, dtype=np.float32), "eye")
    slot = gm(np.full((blocks, 16, 16), np.nan, np.float32), "slot")

    def vector(core: Core) -> Iterator[Any]:
        block = core.get_block_idx()
        queue = TQue(TPosition.VECOUT, 1, "row")
        core.pipe.init_buffer(queue, 1, 1024)
        for turn in core.loop(turns, sequential=True):
            place = ((turn, 256), (block * turns, 256))
            tile = queue.alloc_tensor(FLOAT, 16, 16)
            core.data_copy(tile, rows.window(place, (16, 16), (16, 1)))
            for _ in range(work):
                core.muls(tile, tile, 2.0)
            queue.copy_out(slot[block], tile)
            core.cross_core_set_flag(0, Pipe.MTE3)
            yield core.cross_core_wait_flag(1)

    def cube(core: Core) -> Iterator[Any]:
        block = core.get_block_idx()
        tiling = MatmulTiling.of(core.profile, FLOAT, 16, 16, 16)
        matmul = Matmul(core, tiling, FLOAT, FLOAT, 16)
        for turn in core.loop(turns, sequential=True):
            yield core.cross_core_wait_flag(0, sub_block=0)
            place = ((turn, 256), (block * turns, 256))
            left, right = GmMatrix(eye, (), 16), GmMatrix(slot, ((block, 256),), 16)
            matmul.multiply(GmMatrix(out, place, 16), left, right, 16, 16, 16)
            core.cross_core_set_flag(1, Pipe.FIXP, sub_block=0)

    def body(core: Core) -> Iterator[Any]:
        if core.unit.kind == "cube":
            yield from cube(core)
        elif core.get_sub_block_idx() == 0:
            yield from vector(core)
        yield core.sync_all()

    return Clusters(body, rows, eye, out, slot, blocks=blocks, alike=True), out


def test_cores_of_a_cluster_take_turns() -> None:
    data = np.random.default_rng(0).standard_normal((2, TURNS, 16, 16)).astype(np.float32)
    kernel, out = relay(data, blocks=2, work=3)
    groups, run = play(kernel)
    np.testing.assert_array_equal(content(out), data * 8)
    assert [group.unit for group in groups] == [
        Unit("vector", 0),
        Unit("vector", 1),
        Unit("cube"),
    ]
    assert all(group.blocks == (0, 1) for group in groups)
    assert run.busy_ratio(Pipe.CUBE) > 0
    assert run.busy_ratio(Pipe.VECTOR) > 0


def test_the_way_from_core_to_core_takes_its_time() -> None:
    """Each turn has two ways, and nothing overlaps them."""
    profile = load_profile(A2)
    flag_us = profile.launch.sync_flag_us
    assert flag_us is not None
    slow = profile.launch.model_copy(update={"sync_flag_us": flag_us + 1.0})
    runs = [
        play(relay()[0], chip, numerics=False)[1]
        for chip in (profile, profile.model_copy(update={"launch": slow}))
    ]
    extra_us = (runs[1].cycles - runs[0].cycles) / profile.clock_mhz
    assert extra_us == pytest.approx(2 * TURNS, rel=1e-3)
    assert runs[0].core_cycles / profile.clock_mhz > 2 * TURNS * flag_us


@pytest.mark.parametrize("turns", [1, 5, 40, 3000])
@pytest.mark.parametrize("work", [1, 200])
def test_clusters_end_to_the_cycle(turns: int, work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kernels of the library do: a user's sequential iterations are executed one by one."""
    monkeypatch.setattr(blocks_of_kernels, "is_shipped", lambda _: True)
    monkeypatch.setattr(blocks_of_kernels, "is_own_code", lambda _: False)
    kernel, _ = relay(turns=turns, blocks=20, work=work)
    jumped = play(kernel, numerics=False)[1]
    played = play(kernel, numerics=False, exact=True)[1]
    assert jumped.cycles == pytest.approx(played.cycles, abs=1e-2)
    for pipe in Pipe:
        assert jumped.busy_ratio(pipe) == pytest.approx(played.busy_ratio(pipe), abs=1e-9)
    if turns <= 40:
        for one, other in zip(jumped.records, played.records, strict=True):
            spans, wanted = (
                sorted((s.pipe, s.start, s.end) for s in record.spans()) for record in (one, other)
            )
            assert np.allclose([s[1:] for s in spans], [s[1:] for s in wanted], rtol=0, atol=1e-2)


def test_times_of_clusters_need_no_numbers() -> None:
    data = np.ones((3, TURNS, 16, 16), np.float32)
    with_numbers = play(relay(data, blocks=3)[0])[1]
    without = play(relay(blocks=3)[0], numerics=False)[1]
    assert with_numbers.cycles == without.cycles


def test_a_cube_core_speaks_to_all_its_vector_cores() -> None:
    marks = gm(np.zeros((2, 8), np.float32), "marks")

    def body(core: Core) -> Iterator[Any]:
        if core.unit.kind == "cube":
            yield core.cross_core_wait_flag(0)  # both have stored
            core.cross_core_set_flag(1, Pipe.SCALAR)
            return
        queue = TQue(TPosition.VECOUT, 1)
        core.pipe.init_buffer(queue, 1, 32)
        tile = core.duplicate(queue.alloc_tensor(FLOAT, 8), 1.0 + core.get_sub_block_idx())
        queue.copy_out(marks[core.get_sub_block_idx()], tile)
        core.cross_core_set_flag(0, Pipe.MTE3)
        yield core.cross_core_wait_flag(1)
        again = queue.alloc_tensor(FLOAT, 8)
        core.data_copy(again, marks[1 - core.get_sub_block_idx()])
        order.append(float(again.values(0)[0]))
        queue.free_tensor(again, by=Pipe.VECTOR)

    order: list[float] = []
    play(Clusters(body, marks))
    assert order == [2.0, 1.0]


def test_cores_that_wait_for_each_other_are_found_out() -> None:
    def both_wait(core: Core) -> Iterator[Any]:
        yield core.cross_core_wait_flag(0, sub_block=0)

    with pytest.raises(KernelError, match="wait for each other"):
        play(Clusters(both_wait))
    with pytest.raises(DeadlockError):
        play(Clusters(both_wait), numerics=False)


def test_no_core_of_a_cluster_may_miss_the_barrier() -> None:
    def body(core: Core) -> Iterator[Any]:
        if core.unit.kind == "vector":
            yield core.sync_all()

    with pytest.raises(KernelError, match="some of its cores end"):
        play(Clusters(body))


def test_flags_need_a_cluster_with_a_way_between_its_cores() -> None:
    def sets(core: Core) -> None:
        core.cross_core_set_flag(0, Pipe.SCALAR)

    with pytest.raises(KernelError, match="no other core in its cluster"):
        play(Cubes(sets))
    for chip in UNIFIED:
        with pytest.raises(KernelError, match="cube and vector cores of their own"):
            play(Clusters(sets), chip)
    profile = load_profile(A2)
    mute = profile.model_copy(
        update={"launch": profile.launch.model_copy(update={"sync_flag_us": None})}
    )
    with pytest.raises(UnsupportedIntrinsicError, match="cross_core_flag"):
        play(Clusters(sets), mute)


def test_each_core_of_a_cluster_works_in_memory_of_its_own() -> None:
    """Both vector cores fill a buffer of one name, then meet the cube core, then store it."""
    out = gm(np.zeros((2, 8), np.float32), "out")

    def body(core: Core) -> Iterator[Any]:
        if core.unit.kind == "cube":
            yield core.cross_core_wait_flag(0)
            core.cross_core_set_flag(1, Pipe.SCALAR)
            return
        queue = TQue(TPosition.VECOUT, 1, "same")
        core.pipe.init_buffer(queue, 1, 32)
        tile = core.duplicate(queue.alloc_tensor(FLOAT, 8), 1.0 + core.get_sub_block_idx())
        core.cross_core_set_flag(0, Pipe.VECTOR)
        yield core.cross_core_wait_flag(1)
        queue.copy_out(out[core.get_sub_block_idx()], tile)

    play(Clusters(body, out))
    np.testing.assert_array_equal(content(out)[:, 0], [1.0, 2.0])


def test_names_of_cores() -> None:
    split, unified = load_profile(A2), load_profile("Ascend910A")
    assert core_name(split, 5) == "core2.veccore1"
    assert core_name(split, 5, Unit("cube")) == "core5.cubecore0"
    assert core_name(split, 5, Unit("vector", 1)) == "core5.veccore1"
    assert {core_name(unified, 5, unit) for unit in (Unit(), Unit("cube"))} == {"core5"}


# -- what a kernel leaves in L2 for itself ---------------------------------------------------------


def test_a_kernel_reads_its_own_scratch_from_l2() -> None:
    """``rows`` come from HBM; what went through the slot did not."""
    _, run = play(relay(turns=50)[0], numerics=False)
    share = L2State(load_profile(A2).memory.l2_bytes).write_back_share
    moved = 50 * 1024  # the rows, the slot and the products, each
    assert run.traffic.read_bytes == 3 * moved  # the identity is read every time
    assert run.traffic.hbm_bytes <= moved + 1024 + share * 2 * moved


def test_a_barrier_at_the_end_counts() -> None:
    profile = load_profile(A2)

    def body(*, meets: bool) -> Body:
        def run(core: Core) -> Iterator[Any]:
            core.scalar_alu("work", 100)
            if meets:
                yield core.sync_all()

        return run

    with_barrier, without = (
        play(Cubes(body(meets=meets)), numerics=False)[1].cycles for meets in (True, False)
    )
    assert with_barrier - without == pytest.approx(profile.launch.sync_all_us * profile.clock_mhz)


def test_bfloat16_keeps_its_range_through_the_cube() -> None:
    huge = np.full((16, 16), 3e38, ml_dtypes.bfloat16)
    eye = np.eye(16, dtype=ml_dtypes.bfloat16)
    out = gm(np.zeros((16, 16), ml_dtypes.bfloat16), "c")
    play(Product(load_profile(A2), gm(huge), gm(eye), out))
    np.testing.assert_array_equal(content(out), huge)
    assert dtype(huge.dtype) is BFLOAT16
