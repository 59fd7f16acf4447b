"""Matrix products in the reference mode: every block loads the data that it multiplies.

The host multiplies whole matrices; the schedule, tile by tile, computes them once more, and both
agree with float64 and with each other in numbers, bytes and instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npusim.ascendc import Core, GlobalTensor, Kernel, trace
from npusim.engine.program import Pipe, Program
from npusim.hardware import Profile, load_profile
from npusim.library.matmul import Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling
from npusim.library.operands import GmMatrix
from npusim.ops.matmul.operands import Problem
from npusim.ops.matmul.products import product_kernels
from support import physics
from support.kernels import gm
from support.reference import Observed, assert_like_the_reference
from support.tasks import BFLOAT16, CHIPS, in_fractals, kernels

Array = np.ndarray[Any, Any]
Built = tuple[Sequence[Kernel], Sequence[GlobalTensor]]

A2 = "Ascend910B3"
# What the cubes multiply, and what the sums leave as.
KINDS: dict[str, list[tuple[Any, Any]]] = {
    "Ascend910A": [(np.float16, np.float16), (np.float16, np.float32), (np.int8, np.int32)],
    "Ascend310P3": [(np.float16, np.float16), (np.int8, np.int32)],
    A2: [
        (np.float16, np.float16),
        (np.float16, np.float32),
        (BFLOAT16, BFLOAT16),
        (np.float32, np.float32),
        (np.int8, np.int32),
    ],
}
FLOATS = [(chip, *kinds) for chip in CHIPS for kinds in KINDS[chip] if kinds[0] is not np.int8]
# Tiny, odd, prime, just beside a fractal, a block or a chunk, and several of them.
LENGTHS = (1, 2, 7, 15, 16, 17, 31, 33, 64, 97, 127, 128, 129, 251, 257, 300)
MANY, FEW = settings(max_examples=60, deadline=None), settings(max_examples=25, deadline=None)

lengths = st.sampled_from(LENGTHS) | st.integers(1, 200)
sizes = st.tuples(lengths, lengths, lengths | st.sampled_from([509, 1024, 1237]))
turns = st.tuples(st.booleans(), st.booleans())
chips_and_kinds = st.sampled_from([(chip, *kind) for chip in CHIPS for kind in KINDS[chip]])


def small(*shape: int, kind: Any, seed: int = 0) -> Array:
    """Small whole numbers: their products and sums are exact in every dtype of sums."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(kind)


def turned(array: Array, turn: bool) -> Array:
    return np.ascontiguousarray(np.swapaxes(array, -1, -2)) if turn else array


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def task(
    chip: str | Profile,
    op: str,
    inputs: Sequence[Array | None],
    output: Array,
    **given: object,
) -> Callable[[], Built]:
    """Makes a task on copies of arrays."""
    return lambda: kernels(chip, op, inputs, [output.copy()], given)


def assert_exact(build: Callable[[], Built], chip: str, want: Array) -> list[Observed]:
    """Both modes give the same bits, and those of the product."""
    found = assert_like_the_reference(build, load_profile(chip))
    got = found[-1].outputs[0]
    np.testing.assert_array_equal(got, want.astype(got.dtype).reshape(got.shape))
    return found


# -- operators -------------------------------------------------------------------------------------


@MANY
@given(size=sizes, turn=turns, which=chips_and_kinds, has_bias=st.booleans())
@example((300, 257, 2053), (False, False), ("Ascend910A", np.float16, np.float16), True)
@example((257, 300, 2053), (True, True), (A2, np.float16, np.float16), True)
@example((16, 300, 1500), (False, True), (A2, np.float32, np.float32), False)
@example((1, 1, 17), (False, False), ("Ascend910A", np.int8, np.int32), False)
@example((257, 31, 33), (True, True), ("Ascend310P3", np.int8, np.int32), False)
def test_products_of_any_size_are_what_their_schedule_computes(
    size: tuple[int, int, int],
    turn: tuple[bool, bool],
    which: tuple[str, Any, Any],
    has_bias: bool,
) -> None:
    (m, n, k), (chip, kind, out) = size, which
    a, b = small(m, k, kind=kind), small(k, n, kind=kind, seed=1)
    inputs: list[Array | None] = [turned(a, turn[0]), turned(b, turn[1])]
    want = wide(a) @ wide(b)
    if has_bias and kind is out:
        inputs.append(small(n, kind=out, seed=2))
        want = want + wide(inputs[2])
    given = {"transpose_x1": turn[0], "transpose_x2": turn[1]}
    assert_exact(task(chip, "MatMulV2", inputs, np.full((m, n), 77, out), **given), chip, want)


@FEW
@given(size=sizes, turn=turns, which=st.sampled_from(FLOATS), hf32=st.booleans())
def test_both_orders_of_summation_stay_within_their_bounds(
    size: tuple[int, int, int], turn: tuple[bool, bool], which: tuple[str, Any, Any], hf32: bool
) -> None:
    (m, n, k), (chip, kind, out) = size, which
    random = np.random.default_rng(m * n)
    a, b = (random.standard_normal(shape).astype(kind) for shape in ((m, k), (k, n)))
    inputs = [turned(a, turn[0]), turned(b, turn[1])]
    hf32 = hf32 and kind is np.float32
    given = {"transpose_x1": turn[0], "transpose_x2": turn[1], "enable_hf32": hf32}
    want, reach = wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b))
    bound = reach * (k * np.finfo(np.float32).eps + (2.0**-10 if hf32 else 0.0))
    bound += (
        np.abs(want)
        * {2: 2.0**-8 if out is BFLOAT16 else 2.0**-11, 4: 2.0**-24}[np.dtype(out).itemsize]
    )
    for reference in (False, True):
        built, (c,) = kernels(chip, "MatMulV3", inputs, [np.full((m, n), 77, out)], given)
        for kernel in built:
            trace(kernel, load_profile(chip), numerics=True, reference=reference)
        assert c.array is not None
        assert (np.abs(wide(c.array) - want) <= bound + 1e-7).all()


@FEW
@given(
    size=st.tuples(*[st.sampled_from(LENGTHS[:11])] * 3),
    batch=st.sampled_from([(3,), (2, 2), (41,), (1,)]),
    shared=st.sampled_from(["", "a", "b"]),
    turn=turns,
    which=chips_and_kinds,
)
@example((31, 33, 64), (41,), "b", (True, False), (A2, np.float16, np.float16))
@example((31, 33, 64), (41,), "a", (False, False), ("Ascend310P3", np.float16, np.float16))
def test_every_product_of_a_stack_has_its_own_matrices(
    size: tuple[int, int, int],
    batch: tuple[int, ...],
    shared: str,
    turn: tuple[bool, bool],
    which: tuple[str, Any, Any],
) -> None:
    (m, n, k), (chip, kind, out) = size, which
    a = small(*(() if shared == "a" else batch), m, k, kind=kind)
    b = small(*(() if shared == "b" else batch), k, n, kind=kind, seed=1)
    given = {"adj_x1": turn[0], "adj_x2": turn[1]}
    inputs = [turned(a, turn[0]), turned(b, turn[1])]
    build = task(chip, "BatchMatMulV2", inputs, np.full((*batch, m, n), 77, out), **given)
    assert_exact(build, chip, wide(a) @ wide(b))


@FEW
@given(
    size=st.tuples(*[st.integers(1, 150)] * 3),
    turn=turns,
    chip=st.sampled_from(CHIPS),
    has_bias=st.booleans(),
)
def test_products_of_matrices_in_fractals(
    size: tuple[int, int, int], turn: tuple[bool, bool], chip: str, has_bias: bool
) -> None:
    m, n, k = size
    a, b = small(m, k, kind=np.float16), small(k, n, kind=np.float16, seed=1)
    row = small(n, kind=np.float16, seed=2) if has_bias else np.zeros(n, np.float16)

    def build() -> Built:
        left, right = in_fractals(turned(a, turn[0]), "a"), in_fractals(turned(b, turn[1]), "b")
        out = in_fractals(np.full((m, n), 77, np.float16), "c")
        problem = Problem.of("MatMul", left, right, out, turn)
        bias = gm(row.copy(), "bias") if has_bias else None
        return product_kernels(load_profile(chip), problem, bias=bias), (out,)

    (found,) = assert_like_the_reference(build, load_profile(chip))
    columns, high, rows, lanes = found.outputs[0].shape
    got = found.outputs[0].transpose(1, 2, 0, 3).reshape(high * rows, columns * lanes)
    np.testing.assert_array_equal(got[:m, :n], (wide(a) @ wide(b) + wide(row)).astype(np.float16))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize(
    "op",
    [
        "FusionOp_BatchMatMul_FusedMulAdd",
        "FusionOp_MatMul_Add",
        "FusionOp_MatMul_AddN",
        "FusionOp_MatMul_GeLU",
        "FusionOp_MatMul_GeluGrad",
        "FusionOp_MatMul_Mul",
        "FusionOp_MatMul_Relu",
        "FusionOp_MatMul_Tanh",
    ],
)
@pytest.mark.parametrize("cores", [32, 1])
def test_fused_kernels_compute_on_every_part_of_a_block(chip: str, op: str, cores: int) -> None:
    """Blocks of a single core leave through UB in several parts."""
    m, n, k = 300, 352, 129
    profile = physics.with_cores(chip, cores)
    inputs = [small(m, k, kind=np.float16), small(k, n, kind=np.float16, seed=1)]
    inputs.append(small(n, kind=np.float16, seed=2))
    tiles = {"GeluGrad": 2, "Add": 1, "AddN": 2, "Mul": 1, "FusedMulAdd": 1}
    inputs += [
        small(m, n, kind=np.float16, seed=3 + each)
        for each in range(tiles.get(op.rsplit("_", maxsplit=1)[-1], 0))
    ]
    assert_like_the_reference(task(profile, op, inputs, np.full((m, n), 77, np.float16)), profile)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("size", [(33, 17, 6000), (50, 30, 9001), (1, 100, 8192)])
def test_parts_of_k_on_several_cores_add_up(size: tuple[int, int, int], has_bias: bool) -> None:
    m, n, k = size
    a, b = small(m, k, kind=np.float16), small(k, n, kind=np.float16, seed=1)
    row = small(n, kind=np.float16, seed=2)
    build = task(A2, "MatMulV3", [a, b, row if has_bias else None], np.full((m, n), 77, np.float16))
    (kernel,), _ = build()
    assert type(kernel).__name__ == "SplitMatMul"
    assert_exact(build, A2, wide(a) @ wide(b) + (wide(row) if has_bias else 0.0))


# -- one core's blocks -----------------------------------------------------------------------------


class OneCore(Kernel):
    """A product on one cube core with a tiling of the test's own."""

    op_type: str = "OneCore"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"
    block_dim = 1

    def __init__(self, a: Array, b: Array, c: Array, turn: tuple[bool, bool], **given: Any) -> None:
        self.a, self.b, self.c = (
            gm(turned(a, turn[0]), "a"),
            gm(turned(b, turn[1]), "b"),
            gm(c, "c"),
        )
        self.turn, self.m, self.n, self.k = turn, *c.shape, a.shape[1]
        self.tiling: MatmulTiling = given["tiling"]
        self.bias = None if given.get("bias") is None else gm(given["bias"], "bias")
        rows = () if self.bias is None else (self.bias,)
        self.reads, self.writes = (self.a, self.b, *rows), (self.c,)

    def product(self) -> Product:
        return Product(
            GmMatrix(self.c, (), self.n),
            GmMatrix(self.a, (), self.m if self.turn[0] else self.k, self.turn[0]),
            GmMatrix(self.b, (), self.k if self.turn[1] else self.n, self.turn[1]),
            self.m,
            self.n,
            self.k,
            None if self.bias is None else GmMatrix(self.bias, (), 0),
        )

    def process(self, core: Core) -> None:
        bias = None if self.bias is None else self.bias.dtype
        matmul = Matmul(core, self.tiling, self.a.dtype, self.c.dtype, self.k, bias=bias)
        matmul.run(self.product())


@st.composite
def tilings(draw: st.DrawFn) -> MatmulTiling:
    """Tilings with small blocks, so that small products have many of everything."""
    base_m, base_n, base_k = (draw(st.sampled_from([32, 64])) for _ in range(3))
    kept = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    depths = draw(st.sampled_from([(1, 1, 1), (2, 2, 2)]))
    return MatmulTiling(base_m, base_n, base_k, base_k * draw(st.integers(1, 3)), *kept, *depths)


def parts(total: int, step: int) -> list[int]:
    return [min(step, total - first) for first in range(0, total, step)]


def loaded_bytes(tiles: list[tuple[int, int]], turn: bool, itemsize: int, *, whole: bool) -> int:
    """Of tiles as they lie in memory, in whole fractals of 16 x 32 bytes or as they are."""
    lying = [tile[::-1] if turn else tile for tile in tiles]
    if not whole:
        return sum(rows * columns for rows, columns in lying) * itemsize
    return sum(ceil(rows / 16) * 16 * ceil(columns * itemsize / 32) * 32 for rows, columns in lying)


def counted(found: Observed, name: str) -> int:
    return sum(times for (_, each), times in found.instructions.items() if each == name)


@MANY
@given(
    size=st.tuples(*[st.integers(1, 200)] * 3),
    turn=turns,
    which=chips_and_kinds,
    tiling=tilings(),
    has_bias=st.booleans(),
)
def test_a_core_moves_and_multiplies_what_its_tiling_says(
    size: tuple[int, int, int],
    turn: tuple[bool, bool],
    which: tuple[str, Any, Any],
    tiling: MatmulTiling,
    has_bias: bool,
) -> None:
    (m, n, k), (chip, kind, out) = size, which
    a, b = small(m, k, kind=kind), small(k, n, kind=kind, seed=1)
    table = has_bias and chip == A2 and kind is out
    row = small(n, kind=out, seed=2) if table else None

    def build() -> Built:
        return [OneCore(a, b, np.full((m, n), 77, out), turn, tiling=tiling, bias=row)], ()

    (found,) = assert_exact(build, chip, wide(a) @ wide(b) + (0.0 if row is None else wide(row)))
    tall, broad = ceil(m / tiling.base_m), ceil(n / tiling.base_n)
    chunks = sum(
        ceil(min(tiling.step_k, k - first) / tiling.base_k) for first in range(0, k, tiling.step_k)
    )
    assert counted(found, "mad") == tall * broad * chunks
    # A kept operand comes once for the whole blocks beside it, and once for what remains.
    again_a = min(1, n // tiling.base_n) + min(1, n % tiling.base_n) if tiling.keep_a else broad
    again_b = min(1, m // tiling.base_m) + min(1, m % tiling.base_m) if tiling.keep_b else tall
    read, written = (
        {name.split()[0]: count for (name, side), count in found.bytes.items() if side == each}
        for each in ("read", "written")
    )
    assert written == {"c": m * n * np.dtype(out).itemsize}
    whole = chip != A2  # a chip that loads whole fractals only
    chunks_a, chunks_b = (
        [k] if kept else parts(k, tiling.step_k) for kept in (tiling.keep_a, tiling.keep_b)
    )
    tiles_a = [(rows, depth) for rows in parts(m, tiling.base_m) for depth in chunks_a]
    tiles_b = [(depth, columns) for columns in parts(n, tiling.base_n) for depth in chunks_b]
    assert read["a"] == again_a * loaded_bytes(tiles_a, turn[0], a.itemsize, whole=whole)
    assert read["b"] == again_b * loaded_bytes(tiles_b, turn[1], b.itemsize, whole=whole)
    if row is not None:
        assert counted(found, "copy_cbuf_to_bt") == tall * broad


def handed_over(program: Program) -> Counter[tuple[Pipe, Pipe]]:
    """How often one pipe waits for another's flag."""
    setters = {flag: each.pipe for each, _ in program.instructions() for flag in each.sets}
    waits = ((flag, each.pipe) for each, _ in program.instructions() for flag in each.waits)
    return Counter((setters[flag], waiting) for flag, waiting in waits if flag in setters)


@pytest.mark.parametrize("kept", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("chip", CHIPS)
def test_every_tile_is_waited_for_and_given_back(chip: str, kept: tuple[bool, bool]) -> None:
    """Loads, moves into L0, products and stores each wait for the tiles of the others."""
    m, n, k = 100, 130, 200
    a, b = small(m, k, kind=np.float16), small(k, n, kind=np.float16)
    c = np.zeros((m, n), np.float16)
    tiling = MatmulTiling(32, 64, 32, 64, *kept, depth_c=1, depth_1=1, depth_0=1)
    kernel = OneCore(a, b, c, (False, False), tiling=tiling)
    (group,) = trace(kernel, load_profile(chip), numerics=True, reference=True)
    blocks, panels = 4 * 3, {(False, False): 0, (True, False): 4 * 2, (False, True): 3 * 2}[kept]
    loads, products = blocks * 4, blocks * 7
    leaving = Pipe.FIXP if chip == A2 else Pipe.VECTOR
    wanted = {
        (Pipe.MTE2, Pipe.MTE1): loads + panels,
        (Pipe.MTE1, Pipe.MTE2): loads + panels,
        (Pipe.MTE1, Pipe.CUBE): products,
        (Pipe.CUBE, Pipe.MTE1): products,
        (Pipe.CUBE, leaving): blocks,
        (leaving, Pipe.CUBE): blocks,
    }
    found = handed_over(group.program)
    assert {pair: found[pair] for pair in wanted} == wanted
