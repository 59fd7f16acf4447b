"""How matrix products are shared out and cut, on even, ragged, prime and tiny shapes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from math import lcm, prod
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.matmul import basic_blocks, dealt_blocks
from npusim.ops.matmul.quant_tiling import quant_partition
from npusim.ops.matmul.shapes import Partition, Shape
from npusim.ops.matmul.tiling import partition
from npusim.ops.matmul.versions import version_of
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import FLOAT, FLOAT16, INT8, UINT64, DType
from npusim.values.formats import Format
from support.tasks import CHIPS, kernels

if TYPE_CHECKING:
    from npusim.library.matmul_tiling import MatmulTiling

EDGES = [1, 2, 3, 5, 7, 11, 13, 15, 16, 17, 37, 49, 101, 169, 197, 256, 257, 999, 1000, 2053, 4096]


def found_for(
    chip: str,
    m: int,
    k: int,
    n: int,
    *,
    batch: int = 1,
    turned: tuple[bool, bool] = (False, False),
    fractals: tuple[bool, bool] = (False, False),
    kind: DType = FLOAT16,
    bias: bool = False,
) -> Partition:
    shape = Shape(
        batch, m, n, k, *turned, fractals[0], kind, kind.itemsize, False, 0, bias, fractals[1]
    )
    return partition(load_profile(chip), shape)


def assert_all_results_once(found: Partition) -> None:
    shape = found.shape
    shares = [share for core in range(found.block_dim) for share in found.shares(core)]
    cells = sum(share.matrices * share.rows * share.columns for share in shares)
    assert cells == shape.batch * shape.m * shape.n
    assert len({(each.first, each.row, each.column) for each in shares}) == len(shares)
    assert all(share.rows > 0 and share.columns > 0 for share in shares)


def assert_fits(chip: str, blocks: MatmulTiling, shape: Shape) -> None:
    buffers, size = load_profile(chip).buffers, shape.dtype.itemsize
    assert blocks.base_m * blocks.base_k * size * blocks.depth_0 <= buffers.l0a_bytes
    assert blocks.base_n * blocks.base_k * size * blocks.depth_0 <= buffers.l0b_bytes
    assert blocks.base_m * blocks.base_n * 4 * blocks.depth_c <= buffers.l0c_bytes
    whole = -(-shape.k // blocks.base_k) * blocks.base_k
    kept = (blocks.base_m * blocks.keep_a + blocks.base_n * blocks.keep_b) * whole * blocks.panels
    passing = blocks.base_m * (not blocks.keep_a) + blocks.base_n * (not blocks.keep_b)
    assert (kept + passing * blocks.step_k * blocks.depth_1) * size <= buffers.l1_bytes
    assert blocks.step_k % blocks.base_k == 0


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)), ids=str)
def test_ragged_products_are_cut_into_blocks_that_fit(chip: str, turned: tuple[bool, bool]) -> None:
    for place, (m, n) in enumerate(product(EDGES, repeat=2)):
        k = EDGES[(5 * place) % len(EDGES)]
        found = found_for(chip, m, k, n, turned=turned)
        assert_all_results_once(found)
        assert_fits(chip, found.blocks, found.shape)


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 400),
    k=st.integers(1, 3000),
    n=st.integers(1, 3000),
    batch=st.integers(1, 50),
    turned=st.tuples(st.booleans(), st.booleans()),
    bias=st.booleans(),
    kind=st.sampled_from([FLOAT16, FLOAT]),
)
def test_any_product_fits_the_chip(
    m: int, k: int, n: int, batch: int, turned: tuple[bool, bool], bias: bool, kind: DType
) -> None:
    found = found_for("Ascend910B3", m, k, n, batch=batch, turned=turned, bias=bias, kind=kind)
    assert_all_results_once(found)
    assert_fits("Ascend910B3", found.blocks, found.shape)


@pytest.mark.parametrize(
    ("k", "n", "blocks"),
    # Columns in fractals by 24 cores: 64 in threes, 160 in sevens, 192 in eights; 1024 in tiles of
    # 16, of which a core takes three; 37 in twos; 5 one by one.
    [
        (2048, 1024, 22),
        (1024, 2560, 23),
        (1024, 3072, 24),
        (1024, 16384, 22),
        (1024, 592, 19),
        (1024, 80, 5),
    ],
)
@pytest.mark.parametrize("rows", [1, 4, 15])
def test_a_few_rows_by_weights_in_fractals(rows: int, k: int, n: int, blocks: int) -> None:
    found = found_for("Ascend910B2", rows, k, n, turned=(False, True), fractals=(False, True))
    assert found.block_dim == blocks


@pytest.mark.parametrize(
    ("m", "k", "n", "turned", "bias", "blocks"),
    [
        (32, 1000, 4096, (False, False), False, 16),  # rows of whole lines: 16 fractals a core
        (32, 4096, 4096, (False, True), True, 16),  # A doesn't fit into L1, tiles of 128 columns
        (32, 4096, 9216, (False, False), False, 24),
        (32, 9216, 4096, (False, True), True, 16),
    ],
)
def test_float_weights_of_linear_layers(
    m: int, k: int, n: int, turned: tuple[bool, bool], bias: bool, blocks: int
) -> None:
    found = found_for("Ascend910B2", m, k, n, turned=turned, bias=bias, kind=FLOAT)
    assert found.block_dim == blocks


@pytest.mark.parametrize(
    ("m", "k", "n", "launched"),
    # In fractals: divisors of both edges whose product the 32 cores of the compiler allow.
    [
        (4096, 768, 768, 32),
        (2560, 768, 768, 30),
        (20000, 512, 1024, 25),
        (12000, 512, 1024, 30),
        (64, 768, 768, 24),  # 32 would leave parts of three columns
        (128, 768, 768, 24),  # or of two rows and six columns, which save too little
        (32, 112, 2048, 32),  # half of the time of 16 is saved, however short it is
        (768, 64, 768, 32),
        (128, 12000, 16, 8),
        (640, 768, 21136, 20),
        (2560, 768, 21136, 20),  # 32 would leave parts of five rows
    ],
)
def test_compiled_products_have_equal_blocks(m: int, k: int, n: int, launched: int) -> None:
    chip = "Ascend910ProB"
    found = found_for(chip, m, k, n, fractals=(True, True))
    assert found.block_dim == prod(found.grid) == launched


@pytest.mark.parametrize(
    "size", [(16 * 37, 768, 16 * 41), (16 * 101, 64, 16 * 3), (16, 64, 16 * 97)]
)
def test_prime_edges_leave_no_core_idle_for_long(size: tuple[int, int, int]) -> None:
    """Equal parts would put all of it on one core."""
    for chip in CHIPS:
        found = found_for(chip, *size, fractals=(True, True))
        assert found.block_dim > load_profile(chip).cores.cube_cores // 2, (chip, found.grid)


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_a_row_more_of_plain_operands_is_a_tail(chip: str) -> None:
    """Whatever divisors the number of fractals has: 257 rows are 17, a prime."""
    weight = np.zeros((7168, 2048), np.float16)  # more than L2 of an inference product

    def duration_us(rows: int) -> float:
        x, y = np.zeros((rows, 7168), np.float16), np.zeros((rows, 2048), np.float16)
        built, _ = kernels(chip, "MatMulV2", [x, weight], [y])
        profile = load_profile(chip)
        return run_tasks(built, profile, empty_cache(profile)).duration_us

    assert duration_us(257) < 1.5 * duration_us(256)
    assert duration_us(100) < 1.1 * duration_us(128)
    assert duration_us(1000) < 1.1 * duration_us(1024)


def whole_numbers(
    m: int, k: int, n: int, turned: tuple[bool, bool] = (False, False), *, beside: bool
) -> Partition:
    """Of a product of int8 whose columns the output stage scales, or vector cores ``beside`` it."""
    shape = Shape(1, m, n, k, *turned, False, INT8, 2)
    return quant_partition(load_profile("Ascend910B2"), shape, None if beside else UINT64)


@pytest.mark.parametrize(
    ("m", "k", "n", "beside", "base"),
    [
        (1024, 4096, 14336, False, (128, 256)),
        (1024, 4096, 14336, True, (256, 128)),  # cores begin in half as many rows and columns
        (4096, 4096, 4096, True, (128, 256)),
        (1021, 3001, 2999, True, (128, 256)),
        (16384, 1536, 1280, False, (128, 256)),
    ],
)
def test_blocks_of_whole_numbers(
    m: int, k: int, n: int, beside: bool, base: tuple[int, int]
) -> None:
    found = whole_numbers(m, k, n, beside=beside)
    assert (found.blocks.base_m, found.blocks.base_n) == base


@pytest.mark.parametrize(
    ("m", "k", "n", "base"),
    [
        (8, 16384, 7168, (16, 512)),  # as broad as L0B with a depth of 64
        (96, 16384, 7168, (96, 320)),  # all of L0C
        (128, 16384, 7168, (128, 256)),  # two rounds either way, and more products for each byte
        (150, 7168, 7168, (160, 192)),
    ],
)
def test_all_rows_of_a_product_that_decodes_are_one_block(
    m: int, k: int, n: int, base: tuple[int, int]
) -> None:
    shape = Shape(1, m, n, k, False, False, False, INT8, 2, b_in_fractals=True)
    found = quant_partition(load_profile("Ascend910B2"), shape)
    assert (found.blocks.base_m, found.blocks.base_n) == base
    assert found.rows == base[0] >= m


@pytest.mark.parametrize(("k", "n"), [(16384, 7168), (7168, 2112), (2048, 7168), (7168, 4096)])
def test_a_few_rows_more_of_whole_numbers_take_little_longer(k: int, n: int) -> None:
    """The weights are read once, whatever blocks they are read in."""
    weight = TensorSpec((n // 32, k // 16, 16, 32), INT8, Format.FRACTAL_NZ)
    scale, profile = TensorSpec((n,), FLOAT), load_profile("Ascend910_9391")

    def duration_us(rows: int) -> float:
        x, per_row = TensorSpec((rows, k), INT8), TensorSpec((rows,), FLOAT)
        given = (x, weight, scale, None, None, per_row)
        task = TaskSpec("QuantBatchMatmulV3", given, (TensorSpec((rows, n), FLOAT16),))
        return run_tasks(kernels_of(profile, task), profile, empty_cache(profile)).duration_us

    times = [duration_us(rows) for rows in (1, 16, 48, 96, 128, 144, 192, 256, 257, 384, 512)]
    assert all(after < 1.45 * before for before, after in pairwise(times))
    assert times[4] < 1.5 * times[0]


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 20000),
    k=st.integers(1, 9000),
    n=st.integers(1, 20000),
    turned=st.tuples(st.booleans(), st.booleans()),
    beside=st.booleans(),
)
def test_any_product_of_whole_numbers_fits(
    m: int, k: int, n: int, turned: tuple[bool, bool], beside: bool
) -> None:
    found = whole_numbers(m, k, n, turned, beside=beside)
    assert_all_results_once(found)
    assert_fits("Ascend910B2", found.blocks, found.shape)


@pytest.mark.parametrize(
    ("m", "k", "n", "turned", "base"),
    [
        (1274, 4096, 2560, (False, True), (128, 256)),  # 100 blocks: four rounds aren't few
        (1260, 4096, 2560, (False, False), (128, 256)),
        (5040, 1024, 4096, (False, True), (256, 128)),  # m alone is long
        (1500, 896, 896, (False, True), (256, 128)),  # 42 blocks in two rounds
        (1033, 4001, 1500, (False, False), (96, 256)),  # 54 would leave 18 idle in three rounds
        (4999, 1021, 3001, (True, True), (256, 128)),
    ],
)
def test_the_third_version_deals_blocks_of_one_size(
    m: int, k: int, n: int, turned: tuple[bool, bool], base: tuple[int, int]
) -> None:
    """As its tiling says (ops-nn, matmul_v3_base_tiling.cpp): rounds of blocks that fill L0C."""
    chip = "Ascend910B2"
    shape = Shape(1, m, n, k, *turned, False, FLOAT16, 2)
    found = dealt_blocks.partition(load_profile(chip), shape)
    assert (found.rows, found.columns) == base
    assert_all_results_once(found)
    assert_fits(chip, found.blocks, shape)
    counts = [len(found.shares(core)) for core in range(found.block_dim)]
    assert max(counts) - min(counts) <= 1
    # 24 cores that work side by side read four rows of blocks and six columns, not all of them.
    first = [found.shares(core)[0] for core in range(found.block_dim)]
    assert len({each.row for each in first}) <= 4
    assert len({each.column for each in first}) <= 6


def in_turn(found: Partition) -> list[tuple[int, int]]:
    """Rows and columns of a matrix's rectangles, walked through window by window."""
    _, high, wide = found.grid
    tall, broad = found.window or (high, 1)
    places = []
    for band, row in enumerate(range(0, high, tall)):
        rows = range(row, min(row + tall, high))
        firsts = range(0, wide, broad)
        for first in reversed(firsts) if band % 2 else firsts:
            columns = range(first, min(first + broad, wide))
            around = lcm(len(rows), len(columns))  # where a diagonal would come to its start again
            for step in range(len(rows) * len(columns)):
                along = (step + step // around) % len(columns)
                places.append((rows[step % len(rows)], columns[along]))
    return places


@given(
    edges=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    base=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    batch=st.integers(1, 30),
    groups=st.integers(1, 30),
    cores=st.integers(1, 30),
    window=st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_rectangles_are_counted_without_walking_through_them(
    edges: tuple[int, int],
    base: tuple[int, int],
    batch: int,
    groups: int,
    cores: int,
    window: tuple[int, int] | None,
) -> None:
    (m, n), (rows, columns) = edges, base
    chip, shape = load_profile(CHIPS[0]), Shape(batch, m, n, 64, False, False, False, FLOAT16, 2)
    blocks = partition(chip, shape).blocks
    found = Partition(shape, min(batch, groups), rows, columns, blocks, cores, window)
    places = [(row * rows, column * columns) for row, column in in_turn(found)]
    whole = [place for _ in range(found.groups) for place in places]
    for core in range(found.block_dim):
        shares = found.shares(core)
        assert [(each.row, each.column) for each in shares] == whole[core :: found.block_dim]
        by_size = sorted(Counter(each[1::2] for each in shares).items(), reverse=True)
        assert found.sizes(core) == tuple(by_size)
        for size, starts in found.by_size(core).items():
            assert starts.T.tolist() == [[*each[::2]] for each in shares if each[1::2] == size]
    assert_all_results_once(found)


def test_rectangles_of_the_largest_products_are_counted_at_once() -> None:
    shape = Shape(1, 2**30 - 1, 2**30 - 1, 64, False, False, False, FLOAT16, 2)
    blocks = partition(load_profile(CHIPS[0]), shape._replace(m=256, n=256)).blocks
    found = Partition(shape, 1, 2**14, 2**14, blocks, 24, (4, 6))  # 2^32 of them
    start = process_time()
    assert sum(number for core in range(24) for _, number in found.sizes(core)) == 2**32
    assert process_time() - start < 1.0


def test_large_products_stay_in_windows_that_l2_holds() -> None:
    """Of the 400 MiB of 8192 x 8192 x 8192, 100 MiB are in use at a time (CalcTile)."""
    chip = load_profile("Ascend910B2")
    shape = Shape(1, 8192, 8192, 8192, False, True, False, FLOAT16, 2)
    found = dealt_blocks.partition(chip, shape)
    assert found.window is not None
    m, n = found.window[0] * found.rows, found.window[1] * found.columns
    assert (m + n) * 8192 * 2 + m * n * 2 <= 100 << 20
    assert min(found.window) * 6 >= 24
    assert dealt_blocks.partition(chip, shape._replace(k=1024, n=4096)).window == (4, 6)
    assert_all_results_once(found)


@given(m=st.integers(1, 9000), k=st.integers(1, 9000), n=st.integers(1, 9000), turned=st.booleans())
@settings(max_examples=60)
def test_dealt_blocks_cover_any_product(m: int, k: int, n: int, turned: bool) -> None:
    shape = Shape(1, m, n, k, turned, not turned, False, FLOAT16, 2)
    for chip in ("Ascend910B2", "Ascend910B4"):
        found = dealt_blocks.partition(load_profile(chip), shape)
        assert_all_results_once(found)
        assert_fits(chip, found.blocks, shape)


@pytest.mark.parametrize(
    ("m", "k", "n", "turned", "grid", "base"),
    [
        (1274, 2560, 2560, (False, True), (4, 6), (112, 224)),  # 3 x 2 blocks for every core
        (2048, 1152, 1152, (False, True), (8, 3), (256, 128)),
        (512, 4304, 1152, (False, True), (4, 6), (128, 192)),
        (5041, 1536, 1024, (False, True), (3, 8), (128, 128)),
    ],
)
def test_large_products_go_in_basic_blocks(
    m: int, k: int, n: int, turned: tuple[bool, bool], grid: tuple[int, int], base: tuple[int, int]
) -> None:
    """Of the vendor's second version: as many blocks for every core (cann-ops, basic blocks)."""
    found = found_for("Ascend910B2", m, k, n, turned=turned)
    assert found.grid[1:] == grid
    assert (found.blocks.base_m, found.blocks.base_n) == base
    shares = [found.shares(core)[0] for core in range(found.block_dim)]
    assert max(each.rows for each in shares) % base[0] == 0


def test_rows_that_are_no_whole_blocks_go_another_way() -> None:
    """The search for large products takes rows of whole 32 bytes alone."""
    chip = load_profile("Ascend910B2")
    for k, large in ((4304, True), (4305, False), (4312, False)):
        shape = Shape(1, 2048, 1152, k, False, True, False, FLOAT16, 2)
        assert basic_blocks.applies_to(chip, shape) is large
    assert not basic_blocks.applies_to(
        chip, Shape(1, 256, 8192, 8192, False, True, False, FLOAT16, 2)
    )


@example(m=257, k=97, n=241, turned=(False, True), bias=True, wide=True)  # 3 parts of k in L0
@given(
    m=st.integers(257, 6000),
    k=st.integers(17, 300),
    n=st.integers(17, 300),
    turned=st.tuples(st.booleans(), st.booleans()),
    bias=st.booleans(),
    wide=st.booleans(),
)
@settings(max_examples=40)
def test_basic_blocks_cover_any_product(
    m: int, k: int, n: int, turned: tuple[bool, bool], bias: bool, wide: bool
) -> None:
    kind = FLOAT if wide else FLOAT16
    rows = (m + 15) // 16 * 16 if turned[0] else m
    shape = Shape(1, rows, 16 * n, 16 * k, *turned, False, kind, kind.itemsize, False, 0, bias)
    for chip in ("Ascend910B2", "Ascend910B4"):
        profile = load_profile(chip)
        if not basic_blocks.applies_to(profile, shape):
            continue
        found = basic_blocks.partition(profile, shape, profile.cores.cube_cores)
        assert found is not None
        assert_all_results_once(found)
        assert_fits(chip, found.blocks, shape)


@pytest.mark.parametrize(
    ("m", "k", "n", "version"),
    [
        # Products of 910B2 in lukaIvanic/paddle_ocr_vl_npu: those of MatMulV3, and of MatMulV2.
        (5632, 5120, 1280, 3), (5632, 1280, 1280, 3), (1369, 5120, 5120, 3), (1274, 9728, 2560, 3),
        (1274, 2560, 6144, 3), (1274, 4096, 2560, 3), (5040, 1024, 4096, 3), (5040, 1024, 3072, 3),
        (1260, 4096, 2560, 3), (2048, 4304, 1152, 3), (2048, 1152, 4304, 3),
        (1369, 5120, 896, 2), (1274, 2560, 19456, 2), (5040, 1024, 1024, 2), (1274, 2560, 2560, 2),
        (5040, 1536, 1024, 2), (512, 4304, 1152, 2), (2048, 1152, 1152, 2), (3840, 588, 1152, 2),
        (16384, 8192, 8192, 3),  # what L2 doesn't hold
        (64, 151936, 64, 3),  # a long sum
        (10007, 100, 64, 3),  # narrow rows
        (1, 4096, 4096, 2),
    ],
)  # fmt: skip
def test_which_version_a_product_is(m: int, k: int, n: int, version: int) -> None:
    shape = Shape(1, m, n, k, False, True, False, FLOAT16, 2)
    assert version_of(load_profile("Ascend910B2"), shape) == version
    assert version_of(load_profile("Ascend910A"), shape) == 2
