"""Steps that wait for each other give the bits that each step by itself gives."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.ascendc import (
    Core,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
    blockwise,
    chains,
    machine_code,
    tracing,
)
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.passes import Output, Pass, Step, Work
from npusim.values.dtypes import BFLOAT16, FLOAT, UINT8
from support.cross_entropy import CROSS_ENTROPY, cross_entropy
from support.group_norm import GROUP_NORM, SIZES, group_norm
from support.kernels import Body, Probe, content, gm, numbers, profile, queues, run, scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = np.ndarray[Any, Any]

CHIPS = ("Ascend910B3", "910A", "310P3")  # keeps infinities, and two that don't
ENGINES = ("blocks", "machine code")
ODD = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-45, 3e38, -3e38, 2.0**-126, 1.00390625, 0.5],
    np.float32,
)
HALF = ml_dtypes.bfloat16


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Pass]]:
    """Chains of any size on one engine; the passes that it makes."""
    with using(request.param, monkeypatch) as passes:
        yield passes


@contextmanager
def using(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Pass]]:
    if name == "machine code":
        pytest.importorskip("llvmlite")
        assert machine_code.is_available()
    chosen = machine_code if name == "machine code" else blockwise
    passes: list[Pass] = []

    def watched(work: Pass) -> None:
        passes.append(work)
        chosen.run(work)

    monkeypatch.setattr(chains, "_WORTHWHILE", 1)
    monkeypatch.setattr(blockwise, "_FEWEST", 8)
    monkeypatch.setattr(blockwise, "_ELEMENTS", 64)
    monkeypatch.setattr(tracing, "_engine", lambda _: watched)
    yield passes


def odd_numbers(seed: int, *shape: int) -> Array:
    """Ordinary numbers and all others side by side."""
    random = np.random.default_rng(seed)
    found = random.standard_normal(shape, np.float32) * np.float32(10) ** random.integers(-9, 9)
    odd = random.random(shape) < 0.3
    return np.where(odd, random.choice(ODD, shape), found).astype(np.float32)


def assert_same(found: Array, wanted: Array) -> None:
    """The same bits; which NaN it is, nobody promises."""
    nan = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    bits = np.dtype(f"u{wanted.itemsize}")
    np.testing.assert_array_equal(found[~nan].view(bits), wanted[~nan].view(bits))


def by_itself(body: Body, *tensors: Any, chip: str = CHIPS[0]) -> None:
    """A run without chains."""
    tracing.trace(Probe(body, *tensors), profile(chip), numerics=True, reference=True)


# What may happen to tiles; each takes the core, three tiles and a number.
STEPS: dict[str, Callable[..., object]] = {
    "add": lambda core, a, b, c, _: core.add(a, b, c),
    "sub": lambda core, a, b, c, _: core.sub(a, b, c),
    "mul": lambda core, a, b, c, _: core.mul(a, b, c),
    "div": lambda core, a, b, c, _: core.div(a, b, c),
    "max": lambda core, a, b, c, _: core.max(a, b, c),
    "min": lambda core, a, b, c, _: core.min(a, b, c),
    "adds": lambda core, a, b, _, number: core.adds(a, b, number),
    "muls": lambda core, a, b, _, number: core.muls(a, b, number),
    "maxs": lambda core, a, b, _, number: core.maxs(a, b, number),
    "mins": lambda core, a, b, _, number: core.mins(a, b, number),
    "axpy": lambda core, a, b, _, number: core.axpy(a, b, number),
    "abs": lambda core, a, b, *_: core.abs(a, b),
    "sqrt": lambda core, a, b, *_: core.sqrt(a, b),
    "rsqrt": lambda core, a, b, *_: core.rsqrt(a, b),
    "reciprocal": lambda core, a, b, *_: core.reciprocal(a, b),
    "relu": lambda core, a, b, *_: (
        core.relu(a, b) if core.profile.supports_vector("vrelu", "float32") else core.abs(a, b)
    ),
    "exp": lambda core, a, b, *_: core.exp(a, b),
    "copy": lambda core, a, b, *_: core.copy(a, b),
    "duplicate": lambda core, a, _, __, number: core.duplicate(a, number),
}


def chain_of(steps: list[Any], folded: int, x: Any, y: Any, sums: Any) -> Body:
    """Steps on three tiles made of two operands, a sum of rows of one, and all of them stored."""
    turns, length = x.shape[1:]

    def body(core: Core) -> None:
        into, out = queues(core, length, depth=3)
        total = TQue(TPosition.VECOUT, 2, "total")
        core.pipe.init_buffer(total, 2, 32)
        for turn in core.loop(turns):
            loaded = [into.copy_in(x[row, turn]) for row in (0, 1)]
            work = [out.alloc_tensor(FLOAT, length) for _ in range(3)]
            core.copy(work[0], loaded[0])
            core.mul(work[1], *loaded)
            core.sub(work[2], *loaded)
            for step, target, first, second, number in steps:
                STEPS[step](core, work[target], work[first], work[second], number)
            total.copy_out(
                sums.span(turn, 1), core.reduce_sum(total.alloc_tensor(FLOAT, 1), work[folded])
            )
            for each in loaded:
                into.free_tensor(each)
            for row, tile in enumerate(work):
                out.copy_out(y[row, turn], tile)

    return body


PICKED = st.tuples(
    st.sampled_from(sorted(STEPS)),
    *[st.integers(0, 2)] * 3,
    st.sampled_from([-1.0, 0.0, -0.0, 1e-12, 0.3, 3e38, float("inf"), float("nan")]),
)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ENGINES)
@settings(deadline=None, max_examples=15)
@given(
    steps=st.lists(PICKED, max_size=9),
    folded=st.integers(0, 2),
    turns=st.integers(1, 3),
    length=st.integers(1, 300),
    seed=st.integers(0, 99),
)
def test_a_chain_gives_the_bits_of_its_steps(
    name: str, chip: str, steps: list[Any], folded: int, turns: int, length: int, seed: int
) -> None:
    results = []
    for alone in (True, False):
        x = gm(odd_numbers(seed, 2, turns, length))
        y = gm(np.zeros((3, turns, length), np.float32), "y")
        sums = gm(np.zeros(turns, np.float32), "sums")
        body = chain_of(steps, folded, x, y, sums)
        with pytest.MonkeyPatch.context() as patch, using(name, patch):
            by_itself(body, x, y, sums, chip=chip) if alone else run(body, x, y, sums, chip=chip)
        results.append((content(y), content(sums)))
    for wanted, found in zip(*results, strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 127, 128, 129, 136, 300, 1000, 4099])
def test_sums_add_in_one_order(length: int, engine: list[Pass]) -> None:
    numbers = np.random.default_rng(length).standard_normal((3, length), np.float32)
    sums = gm(np.zeros(3, np.float32), "sums")
    x, y = gm(numbers[None].repeat(2, axis=0)), gm(np.zeros((3, 3, length), np.float32), "y")
    run(chain_of([], 1, x, y, sums), x, y, sums)
    np.testing.assert_array_equal(content(sums), np.add.reduce(numbers * numbers, axis=1))
    assert any(work.folds for work in engine)


@pytest.mark.parametrize("mode", list(RoundMode))
def test_half_types_round_alike(mode: RoundMode, engine: list[Pass]) -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 4096, np.uint32)
    x = gm(np.concatenate([bits.view(np.float32), ODD]))
    y, z = gm(np.zeros(x.shape, HALF), "y"), gm(np.zeros(x.shape, np.float32), "z")

    def body(core: Core) -> None:
        into, out = queues(core, x.numel, depth=1)
        wide = scratch(core, FLOAT, x.numel, name="wide")
        halves = TQue(TPosition.VECOUT, 1, "halves")
        core.pipe.init_buffer(halves, 1, 2 * x.numel)
        loaded = into.copy_in(x.span(0, x.numel))
        core.add(wide, loaded, loaded)
        into.free_tensor(loaded)
        half = core.cast(halves.alloc_tensor(BFLOAT16, x.numel), wide, mode)
        back = core.cast(out.alloc_tensor(FLOAT, x.numel), half)
        halves.copy_out(y.span(0, x.numel), half)
        out.copy_out(z.span(0, x.numel), back)

    run(body, x, y, z)
    found, wide = content(y).copy(), content(z).copy()
    by_itself(body, x, y, z)
    assert_same(found, content(y))
    assert_same(wide, content(z))
    assert engine


def test_masks_choose_alike(engine: list[Pass]) -> None:
    x, y = gm(odd_numbers(3, 2, 400)), gm(np.zeros((6, 400), np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 400)
        mask = scratch(core, UINT8, 400)
        a, b = (into.copy_in(x[row]) for row in (0, 1))
        for row, mode in enumerate(CmpMode):
            core.compare(mask, a, b, mode)
            out.copy_out(y[row], core.select(out.alloc_tensor(FLOAT, 400), mask, b, a))
        into.free_tensor(a)
        into.free_tensor(b)

    run(body, x, y)
    found = content(y).copy()
    by_itself(body, x, y)
    assert_same(found, content(y))
    assert engine


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_whole_operators_give_the_same_bits(
    sizes: tuple[int, int, int, int], kind: str, engine: list[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [
        (CHIPS[0], GROUP_NORM, group_norm(*sizes, kind=kind)),
        (CHIPS[0], CROSS_ENTROPY, cross_entropy(sizes[1], sizes[2], kind=kind)),
    ]
    if kind != "bfloat16":
        calls.append(("910A", CROSS_ENTROPY, cross_entropy(sizes[1], sizes[2], kind=kind)))
    found = [Device(chip).run(name, **call).outputs for chip, name, call in calls]
    assert engine
    monkeypatch.setattr(chains, "_WORTHWHILE", 1 << 60)
    for (chip, name, call), outputs in zip(calls, found, strict=True):
        for key, wanted in Device(chip).run(name, **call).outputs.items():
            assert_same(outputs[key], wanted)


def test_what_a_loop_leaves_behind_never_reaches_memory(engine: list[Pass]) -> None:
    Device(CHIPS[0]).run(CROSS_ENTROPY, **cross_entropy(64, 1 << 14))
    looped = [work for work in engine if work.space[0] > 1]
    assert {len(work.outputs) for work in looped} == {1}


def test_numbers_carried_from_iteration_to_iteration_are_kept(engine: list[Pass]) -> None:
    x, y = gm(numbers(5, 40)), gm(np.zeros(40, np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 40)
        total = core.duplicate(scratch(core, FLOAT, 40), 0.0)
        for turn in core.loop(5, sequential=True):
            row = into.copy_in(x[turn])
            core.add(total, total, row)
            into.free_tensor(row)
        out.copy_out(y.span(0, 40), core.adds(out.alloc_tensor(FLOAT, 40), total, 0.0))

    run(body, x, y)
    np.testing.assert_array_equal(content(y), numbers(5, 40).sum(axis=0))
    assert engine


def test_memory_that_is_stored_to_and_read_again_holds_what_was_stored(engine: list[Pass]) -> None:
    """A store that waits is made before anybody reads the place, shifted or not."""
    x, y = gm(numbers(64)), gm(np.zeros(64, np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        whole = into.copy_in(x.span(0, 64))
        out.copy_out(y.span(0, 64), core.muls(out.alloc_tensor(FLOAT, 64), whole, 2.0))
        into.free_tensor(whole)
        shifted = into.copy_in(y.span(8, 56))
        out.copy_out(y.span(0, 56), core.adds(out.alloc_tensor(FLOAT, 56), shifted, 1.0))
        into.free_tensor(shifted)

    run(body, x, y)
    doubled = 2 * numbers(64)
    np.testing.assert_array_equal(content(y)[:56], doubled[8:] + 1)
    np.testing.assert_array_equal(content(y)[56:], doubled[56:])
    assert engine


def test_parts_of_a_tile_that_overlap_follow_each_other(engine: list[Pass]) -> None:
    x, y = gm(numbers(64)), gm(np.zeros(64, np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        loaded = into.copy_in(x.span(0, 64))
        wide = core.duplicate(scratch(core, FLOAT, 72), 0.0)
        core.muls(wide[0:64], loaded, 2.0)
        out.copy_out(y.span(0, 64), core.adds(out.alloc_tensor(FLOAT, 64), wide[8:72], 1.0))
        into.free_tensor(loaded)

    run(body, x, y)
    np.testing.assert_array_equal(content(y), np.append(2 * numbers(64)[8:], np.zeros(8)) + 1)
    assert engine


def test_what_is_computed_at_once_waits_for_its_tiles(engine: list[Pass]) -> None:
    x, y = gm(numbers(4, 16)), gm(np.zeros(16, np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 64)
        rows = into.copy_in(x[:])
        work = core.muls(scratch(core, FLOAT, 4, 16), rows, 2.0)
        out.copy_out(y[:], core.fold_rows(out.alloc_tensor(FLOAT, 16), work))
        into.free_tensor(rows)

    run(body, x, y)
    np.testing.assert_array_equal(content(y), 2 * numbers(4, 16).sum(axis=0))
    assert engine


def test_a_tile_whose_sum_is_read_is_computed_when_it_is_needed_itself(
    engine: list[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "_WORTHWHILE", 50)  # sums are computed at once
    x, y = gm(numbers(3, 4, 16)), gm(np.zeros((2, 3, 16), np.float32), "y")
    sums = gm(np.zeros(3, np.float32), "sums")

    def body(core: Core) -> None:
        into, out = queues(core, 64, depth=1)
        buffers = [TBuf(name) for name in "abc"]
        for buffer in buffers:
            core.pipe.init_buffer(buffer, 1, 256)
        for turn in core.loop(3):
            rows = into.copy_in(x[turn])
            source, doubled = (buffer.get(FLOAT, 4, 16) for buffer in buffers[:2])
            each = buffers[2].get(FLOAT, 4, 1)
            core.muls(source, rows, 1.0)
            out.copy_out(y[0, turn], core.fold_rows(out.alloc_tensor(FLOAT, 16), source))
            core.reduce_sum(each, core.muls(doubled, source, 2.0))
            total = core.fold_rows(out.alloc_tensor(FLOAT, 1), each)
            out.copy_out(sums.span(turn, 1), total)
            core.muls(source, rows, 5.0)  # from here on nobody can double it any more
            for row, tile in enumerate((source, doubled)):
                folded = core.fold_rows(out.alloc_tensor(FLOAT, 16), tile)
                out.copy_out(y[row, turn], folded)
            into.free_tensor(rows)

    run(body, x, y, sums)
    doubled = 2 * numbers(3, 4, 16)
    np.testing.assert_array_equal(content(sums), doubled.sum(axis=(1, 2)))
    np.testing.assert_array_equal(content(y), [2.5 * doubled.sum(axis=1), doubled.sum(axis=1)])
    assert {len(work.outputs) for work in engine if work.folds} == {1}


def test_rows_that_go_by_in_pieces_leave_no_piece_in_memory(
    engine: list[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "_WORTHWHILE", 1000)  # columns are computed at once
    x = odd_numbers(2, 40, 8192)
    given = {"weightOptional": x[0], "biasOptional": x[1], "normalizedShape": [8192], "eps": 1e-5}
    found = Device(CHIPS[0]).run("aclnnLayerNorm", input=x, **given).outputs
    assert found is not None
    pieces = [work for work in engine if work.space[-1] > 1000 and len(work.steps) > 1]
    assert pieces
    assert {len(work.outputs) for work in pieces} == {1}


def test_a_number_that_the_scalar_unit_reads_is_the_one_of_its_time(engine: list[Pass]) -> None:
    x, y = gm(numbers(32)), gm(np.zeros(32, np.float32), "y")

    def body(core: Core) -> None:
        into, out = queues(core, 32)
        loaded = into.copy_in(x.span(0, 32))
        work = core.muls(scratch(core, FLOAT, 32), loaded, 3.0)
        before = core.get_value(work, 1)
        core.adds(work, work, 100.0)
        out.copy_out(y.span(0, 32), core.muls(out.alloc_tensor(FLOAT, 32), work, before))
        into.free_tensor(loaded)

    run(body, x, y)
    np.testing.assert_array_equal(content(y), (3 * numbers(32) + 100) * 6)
    assert engine


SMALL = """
import sys
import numpy as np
import npusim
x = np.ones(1000, np.float32)
npusim.Device("Ascend910B3").run("aclnnAdd", self=x, other=x, alpha=1.0)
print("llvmlite" in sys.modules)
"""


def test_a_step_works_in_place_of_a_source_that_ends_with_it() -> None:
    places: list[int] = []

    def added(a: Array, b: Array, out: Array) -> None:
        places.append(out.ctypes.data)
        np.add(a, b, out=out)

    work, x, out = Work("added", added), np.ones(64, np.float32), np.empty(64, np.float32)
    steps = [Step(work, sources, x.dtype) for sources in ((0, 0), (1, 0), (1, 2), (2, 3), (0, 4))]
    blockwise.run(Pass.of(x.shape, [x], steps, [Output(4, out)], saturates=False))
    two, three, five, eight, last = places
    assert (five, eight, last) == (two, three, out.ctypes.data)  # the sum of two ends with five
    assert two != three
    assert (out == 9).all()
    assert (x == 1).all()


def test_small_runs_wait_for_no_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False"]


def test_large_runs_are_compiled_where_there_is_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gm(np.zeros(8, np.float32))
    kernel = Probe(lambda _: None, x)
    monkeypatch.setattr(tracing, "_WORTH_COMPILING_BYTES", x.nbytes)
    for there, chosen in ((True, machine_code), (False, blockwise)):
        monkeypatch.setattr(machine_code, "is_available", lambda there=there: there)
        assert tracing._engine(kernel) is chosen.run
    monkeypatch.setattr(tracing, "_WORTH_COMPILING_BYTES", x.nbytes + 1)
    assert tracing._engine(kernel) is blockwise.run


def test_truth_values_are_stored_by_the_pass_that_finds_them(engine: list[Pass]) -> None:
    x = odd_numbers(3, 40, 100)
    found = Device(CHIPS[0]).run("aclnnGtTensor", self=x, other=x.T.reshape(x.shape)).outputs
    assert found is not None
    np.testing.assert_array_equal(found["out"], x > x.T.reshape(x.shape))
    assert found["out"].dtype == np.bool_
    for work in engine:
        names = [step.work.name for step in work.steps]
        assert {"compare gt", "truth"} <= set(names)


@pytest.mark.parametrize("name", ENGINES)
def test_a_byte_of_any_value_is_true(name: str) -> None:
    if name == "machine code":
        pytest.importorskip("llvmlite")
    number, found = np.array([0, 1, 2, 255], np.uint8), np.zeros(4, np.bool_)
    work = Pass.of(
        (4,),
        [number],
        [Step(chains.TRUTH, (0,), found.dtype)],
        [Output(0, found)],
        saturates=False,
    )
    (machine_code if name == "machine code" else blockwise).run(work)
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]


HALVES: dict[str, Callable[..., Array]] = {
    "aclnnAdd": np.add,
    "aclnnSub": np.subtract,
    "aclnnMul": np.multiply,
    "aclnnDiv": np.divide,
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("op", HALVES)
def test_halves_are_computed_as_numpy_does(
    op: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = np.random.default_rng(7).permutation(1 << 16).astype(np.uint16)
    x, y = np.arange(1 << 16).astype(np.uint16).view(np.float16), bits.view(np.float16)
    with using(name, monkeypatch), np.errstate(all="ignore"):
        if name == "machine code":
            if not machine_code._converts_halves():
                pytest.skip("this host has no instructions for halves")
            monkeypatch.setattr(blockwise, "run", None)
        alpha = {"alpha": 1.0} if op in ("aclnnAdd", "aclnnSub") else {}
        found = Device(CHIPS[0]).run(op, self=x, other=y, **alpha).outputs
        wanted = HALVES[op](x, y)
    assert found is not None
    assert_same(found["out"], wanted)


@pytest.mark.parametrize("mode", ["CAST_NONE", "CAST_RINT"])
def test_halves_are_rounded_by_machine_code_as_by_numpy(mode: str) -> None:
    pytest.importorskip("llvmlite")
    x = np.concatenate([odd_numbers(11, 4096), np.float32([65519.9, 65520, 2**-25, 6.1e-5])])
    found = np.empty(x.size, np.float16)
    work = Work(f"float32 to float16 {mode}", lambda values, out: np.copyto(out, values))
    steps, outputs = [Step(work, (0,), found.dtype)], [Output(0, found)]
    machine_code.run(Pass.of(x.shape, [x], steps, outputs, saturates=False))
    with np.errstate(all="ignore"):
        assert_same(found, x.astype(np.float16))
