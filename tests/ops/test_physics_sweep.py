"""Physics that holds without any measured row: floors, neighbours, dtypes, cores, on four chips."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec
from npusim.validation.replay import simulate_task
from npusim.values.errors import NpusimError
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npusim.hardware import Profile

pytestmark = pytest.mark.slow

CHIPS = ("Ascend910A", "Ascend310P3", "Ascend910B3", "Ascend910_9391")
KINDS = ("float16", "float32")
JUMP = 1.6  # between sizes that differ by one in sixteen or less
SIZES = (64, 66, 1000, 1024, 8192, 8200)  # of the first axis; neighbours stand beside each other
LARGE = 1 << 24  # bytes from which on memory is what limits
# What jumps further, and why: ragged rows are stored one by one (measured on 910B2: 33 us for
# 1009 x 1021 numbers of float32, 40 for 2048 x 2048); kernels compiled for a shape divide its
# fractals, of which a prime number has few divisors.
JUMPS = {
    ("Transpose", "Ascend910B3"): 2.4,
    ("Transpose", "Ascend910_9391"): 2.4,
    ("MatMulV2", "Ascend910A"): 2.0,
}
# What is computed in float32: two conversions more, and the vector unit is what limits. Rows of
# fewer bytes are loaded in shorter bursts by what turns them around.
BY_VECTOR = ("Gelu", "Tanh", "Sigmoid", "ReduceSum", "SwiGlu", "Transpose")
MORE_BY_VECTOR, NO_MORE = 1.25, 1.05
# The vendor's tiling moves rows of one axis a transfer, one tile after the other: of 16 rows of 160
# bytes in float16, of more of 320 in float32.
MORE_BY_TILES = {("Transpose", "Ascend910B3"): 2.0, ("Transpose", "Ascend910_9391"): 2.0}
PARTS = ("Slice", "GatherV2")  # read what they write


class Way(NamedTuple):
    """An operator on a tensor of so many rows: inputs, outputs and attributes from its size."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, object] = {}
    columns: int = 1024


# "m" is the number of rows, "n" that of columns; what isn't of the kind in question says so.
WAYS = (
    *(Way(op, ("m,n",), "m,n") for op in ("Relu", "Gelu", "Exp", "Tanh", "Sigmoid", "TensorMove")),
    *(Way(op, ("m,n", "m,n"), "m,n") for op in ("Add", "Mul", "Maximum")),
    Way("Add", ("m", "m"), "m"),
    Way("Softmax", ("m,n",), "m,n", {"axes": [-1]}),
    Way("ReduceSum", ("m,n",), "m", {"axes": [1], "keep_dims": False}),
    Way("ReduceMax", ("m,n",), "m", {"axes": [1], "keep_dims": False}),
    Way("ReduceSum", ("m,n",), "n", {"axes": [0], "keep_dims": False}),
    Way("RmsNorm", ("m,n", "n"), "m,n"),
    Way("Transpose", ("m,n",), "n,m", {"perm": [1, 0]}),
    Way("Transpose", ("m,16,n",), "16,m,n", {"perm": [1, 0, 2]}, 80),
    Way("Slice", ("m,n",), "m,h"),
    Way("Slice", ("m,8,n",), "m,2,n"),
    Way("SwiGlu", ("m,n",), "m,h", {"dim": -1}),
    Way("BroadcastTo", ("1,n",), "m,n"),
    Way("GatherV2", ("32000,n", "m:int32"), "m,n", {"axis": 0}),
    Way("LogSoftmaxV2", ("m,n",), "m,n", {"axes": [-1]}, 1000),
    Way("ConcatD", ("m,h", "m,h"), "m,n", {"concat_dim": 1}),
    Way("ArgMaxV2", ("m,n",), "m:int32", {"dimension": 1}, 1000),
    Way("MatMulV2", ("m,n", "n,k"), "m,k"),
    Way("MatMulV2", ("m,n", "k,n"), "m,k", {"transpose_x2": True}),
    Way("BatchMatMulV2", ("8,m,n", "8,n,128"), "8,m,128"),
)
NAMES = [f"{way.op}({';'.join(way.inputs)})" for way in WAYS]


def task_of(way: Way, rows: int, kind: str) -> TaskSpec:
    sizes = {"m": rows, "n": way.columns, "k": 2048, "h": way.columns // 2}
    tensors = []
    for text in (*way.inputs, way.output):
        shape, _, own = text.partition(":")
        whole = tuple(sizes.get(each) or int(each) for each in shape.split(","))
        tensors.append(TensorSpec(whole, own or kind))
    return TaskSpec(way.op, tuple(tensors[:-1]), tuple(tensors[-1:]), dict(way.attributes))


def time_us(profile: Profile, task: TaskSpec) -> float | None:
    """Of a cold chip; None where it has no kernel for it."""
    try:
        return simulate_task(profile, task, "cold").duration_us
    except NpusimError:
        return None


def times_of(profile: Profile, way: Way, kind: str) -> Iterator[tuple[int, TaskSpec, float]]:
    for rows in SIZES:
        task = task_of(way, rows, kind)
        if (found := time_us(profile, task)) is not None:
            yield rows, task, found


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_no_time_is_below_what_memory_and_the_cube_allow(chip: str, way: Way) -> None:
    profile = load_profile(chip)
    for kind in KINDS:
        for rows, task, us in times_of(profile, way, kind):
            read = sum(spec.nbytes for spec in task.inputs if spec is not None)
            read = task.outputs[0].nbytes if way.op in PARTS else read
            moved = max(0, read + task.outputs[0].nbytes - profile.memory.l2_bytes)
            assert us > read / profile.memory.hbm_nominal_gbps / 1e3, (kind, rows)
            assert us > moved / profile.memory.hbm_nominal_gbps / 1e3, (kind, rows)
            if "MatMul" in way.op and kind == "float16":
                inner = way.columns
                operations = 2 * task.outputs[0].numel * inner
                assert us > operations / profile.cube_peak_tops(kind) / 1e6, (kind, rows)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_neighbours_take_about_as_long(chip: str, way: Way) -> None:
    profile = load_profile(chip)
    for kind in KINDS:
        found = {rows: us for rows, _, us in times_of(profile, way, kind)}
        for one, other in pairwise(SIZES):
            if other > 17 * one // 16 or one not in found or other not in found:
                continue
            ratio = found[other] / found[one]
            jump = JUMPS.get((way.op, chip), JUMP)
            assert 1 / jump < ratio < jump, (kind, one, other)
        for one, other in zip(SIZES, SIZES[2:], strict=False):
            if one in found and other in found and other > 4 * one:
                assert found[other] > 0.95 * found[one], (kind, one, other)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_halves_are_never_slower_where_memory_limits(chip: str, way: Way) -> None:
    profile = load_profile(chip)
    wide = {rows: (task, us) for rows, task, us in times_of(profile, way, "float32")}
    for rows, task, us in times_of(profile, way, "float16"):
        nbytes = sum(spec.nbytes for spec in (*task.inputs, *task.outputs) if spec is not None)
        if rows in wide and nbytes > LARGE:
            usual = MORE_BY_VECTOR if way.op in BY_VECTOR else NO_MORE
            more = MORE_BY_TILES.get((way.op, chip), usual)
            assert us < more * wide[rows][1], rows


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910A"])
@pytest.mark.parametrize("way", WAYS, ids=NAMES)
def test_more_cores_are_never_slower_beyond_their_launch(chip: str, way: Way) -> None:
    profile = load_profile(chip)
    cores, launch = profile.cores, profile.launch
    few = profile.model_copy(
        update={
            "cores": cores.model_copy(
                update={
                    name: getattr(cores, name) // 2
                    for name in ("ai_cores", "cube_cores", "vector_cores")
                }
            )
        }
    )
    started = cores.vector_cores * (launch.per_block_us + launch.code_per_block_us)
    for rows, task, us in times_of(profile, way, "float16"):
        if (half := time_us(few, task)) is not None:
            assert us < 1.1 * half + started + launch.variants_per_block_us * 40, rows
