"""Indexing touches what it names: as a call, and as the row that a profiler has of it."""

from __future__ import annotations

from math import prod

import pytest

from npusim import Device
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.task import run_tasks
from npusim.values.tensors import TensorSpec, parse_tensor

TABLE, ROWS, ONES = "fp32[100000,1024]", "fp32[16,1024]", "fp32[100,16]"
LIST, PLACES = "int64[16]", "int64[100,16]"
COPIES = {"TensorMove", "ViewCopy"}
ADDED = {"dim": 0, "index": LIST, "source": ROWS}
AT = {"dim": 1, "index": PLACES}
CHIP = "Ascend910B4"

IN_PLACE = {
    "aclnnIndexPutImpl": {"selfRef": TABLE, "indices0": LIST, "values": ROWS,
        "accumulate": False, "unsafe": False},
    "aclnnInplaceIndexCopy": {"selfRef": TABLE, **ADDED},
    "aclnnInplacePut": {"selfRef": TABLE, "index": LIST, "source": "fp32[16]",
        "accumulate": False},
    "aclnnInplaceScatter": {"selfRef": TABLE, **AT, "src": ONES, "reduce": 0},
    "aclnnInplaceScatterValue": {"selfRef": TABLE, **AT, "value": 1.0, "reduce": 0},
    "aclnnScatterNdUpdate": {"varRef": TABLE, "indices": "int64[16,1]", "updates": ROWS},
    "aclnnTfScatterAdd": {"varRef": TABLE, "indices": LIST, "updates": ROWS},
    "aclnnEmbeddingRenorm": {"selfRef": TABLE, "indices": LIST, "maxNorm": 1.0, "normType": 2.0},
}  # fmt: skip

# As calls: the task that does the work, and how a profiler writes it down.
ONE_ANSWER = [
    ("aclnnIndexPutImpl", IN_PLACE["aclnnIndexPutImpl"], "IndexPutV2",
     f"{TABLE} {ROWS} int64[1] int64[1] {LIST}", TABLE),
    ("aclnnIndex", {"self": TABLE, "indices0": LIST, "out": ROWS}, "Index",
     f"{TABLE} int64[1] int64[1] {LIST}", ROWS),
    ("aclnnIndexSelect", {"self": TABLE, "dim": 0, "index": LIST}, "GatherV2",
     f"{TABLE} {LIST}", ROWS),
    ("aclnnGather", {"self": TABLE, **AT}, "GatherElementsV2", f"{TABLE} {PLACES}", ONES),
    ("aclnnGatherNd", {"self": TABLE, "indices": "int64[16,1]", "negativeIndexSupport": False},
     "GatherNd", f"{TABLE} int64[16,1]", ROWS),
    ("aclnnInplaceIndexCopy", IN_PLACE["aclnnInplaceIndexCopy"], "ScatterUpdate",
     f"{TABLE} {LIST} {ROWS}", TABLE),
    ("aclnnScatterNdUpdate", IN_PLACE["aclnnScatterNdUpdate"], "ScatterNdUpdate",
     f"{TABLE} int64[16,1] {ROWS}", TABLE),
    ("aclnnTfScatterAdd", IN_PLACE["aclnnTfScatterAdd"], "ScatterAdd",
     f"{TABLE} {LIST} {ROWS}", TABLE),
    ("aclnnInplaceScatter", IN_PLACE["aclnnInplaceScatter"], "ScatterElementsV2",
     f"{TABLE} {PLACES} {ONES}", TABLE),
    ("aclnnInplaceScatterUpdate", {"data": "fp16[16,8,4096,128]", "indices": LIST,
        "updates": "fp16[16,8,1,128]", "axis": -2}, "Scatter",
     f"fp16[16,8,4096,128] {LIST} fp16[16,8,1,128]", "fp16[16,8,4096,128]"),
]  # fmt: skip


ON_A2_ALONE = {"aclnnTfScatterAdd"}
NOT_ON_310P = {*ON_A2_ALONE, "aclnnInplaceScatter", "aclnnInplaceScatterValue"}


@pytest.mark.parametrize(
    ("name", "chip"),
    [*((name, CHIP) for name in IN_PLACE),
     *((name, "Ascend910A") for name in IN_PLACE if name not in ON_A2_ALONE),
     *((name, "Ascend310P3") for name in IN_PLACE if name not in NOT_ON_310P)],
)  # fmt: skip
def test_what_is_in_place_copies_no_table(name: str, chip: str) -> None:
    found = Device(chip).estimate(name, **_specs(IN_PLACE[name]))
    assert not COPIES & {task.name for task in found.tasks}
    assert found.workspace_size < 1 << 20
    touched = sum(task.bytes_read + task.bytes_written for task in found.tasks)
    assert touched < prod(parse_tensor(TABLE).shape) / 10


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_view_is_made_contiguous_and_copied_back(name: str) -> None:
    """Once each: what the kernel changes is the contiguous copy."""
    asked = _specs(IN_PLACE[name])
    first = next(iter(asked))
    spec = asked[first]
    asked[first] = TensorSpec(spec.shape, spec.dtype, strides=(2048, 1))
    found = [task.name for task in Device(CHIP).estimate(name, **asked).tasks]
    assert found.count("ViewCopy") == 1
    assert found[-1] == "ViewCopy"
    assert "TensorMove" not in found


@pytest.mark.parametrize(("name", "said", "op_type", "inputs", "output"), ONE_ANSWER)
def test_a_call_and_its_row_are_one_answer(
    name: str, said: dict[str, object], op_type: str, inputs: str, output: str
) -> None:
    profile = load_profile(CHIP)
    call = Device(CHIP).estimate(name, **_specs(said))
    attributes = {"axis": said.get("dim", said.get("axis", 0)), "reduce": "update"}
    if "Elements" in op_type:
        attributes = {"axis": 1, "dim": 1}
    specs = tuple(map(parse_tensor, inputs.split()))
    row = TaskSpec(op_type, specs, (parse_tensor(output),), attributes)
    kernels = kernels_of(profile, row)
    alone = run_tasks(kernels, profile, empty_cache(profile)).duration_us
    assert call.duration_us == pytest.approx(alone, rel=0.02)
    assert [task.name.removesuffix("V2") for task in call.tasks] == [
        kernel.op_type.removesuffix("V2") for kernel in kernels
    ]


def test_a_few_places_of_a_large_table_are_microseconds() -> None:
    """Recorded on 910B4: one IndexPutV2 of 43.4 us, one Index of 52.8 us, and nothing beside."""
    at = {"indices0": "int64[4096]", "indices1": "int64[4096]"}
    table, few, how = "fp32[4096,151936]", "fp32[4096]", {"accumulate": False, "unsafe": True}
    given = _specs({"selfRef": table, **at, "values": few, **how})
    put = Device(CHIP).estimate("aclnnIndexPutImpl", **given)
    taken = Device(CHIP).estimate("aclnnIndex", **_specs({"self": table, **at, "out": few}))
    for found, name, measured_us in ((put, "IndexPutV2", 43.4), (taken, "Index", 52.8)):
        assert [task.name for task in found.tasks] == [name]
        low, high = found.band_us
        assert 0.95 * low < measured_us < 1.05 * high  # bands leave one in five out
        assert found.duration_us == pytest.approx(measured_us, rel=0.3)


def _specs(said: dict[str, object]) -> dict[str, object]:
    return {
        name: parse_tensor(each) if isinstance(each, str) else each for name, each in said.items()
    }
