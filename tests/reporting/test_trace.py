"""The trace file: what the viewers insist on, and that it is written whole or not at all."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import npusim
from npusim.engine.timeline import pipe_order
from npusim.reporting.trace import (
    CNAMES,
    HEADER,
    OTHER_CNAME,
    estimated_bytes,
    process_order,
    write_trace,
)
from npusim.values.errors import ArgumentError, OutputExistsError
from support.commands import npusim as command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

NORM = {
    "gradOut": npusim.TensorSpec((4, 32, 256), "float32"),
    "input": npusim.TensorSpec((4, 32, 256), "float32"),
    "mean": npusim.TensorSpec((4, 8), "float32"),
    "rstd": npusim.TensorSpec((4, 8), "float32"),
    "gamma": None,
    "N": 4,
    "C": 32,
    "HxW": 256,
    "group": 8,
    "outputMask": [True, True, True],
}

JUMPING = NORM | {
    "gradOut": npusim.TensorSpec((2, 64, 16384), "bfloat16"),
    "input": npusim.TensorSpec((2, 64, 16384), "bfloat16"),
    "mean": npusim.TensorSpec((2, 8), "bfloat16"),
    "rstd": npusim.TensorSpec((2, 8), "bfloat16"),
    "gamma": npusim.TensorSpec((64,), "bfloat16"),
    "N": 2,
    "C": 64,
    "HxW": 16384,
}
MATRICES = {
    "self": npusim.TensorSpec((256, 512), "float16"),
    "mat2": npusim.TensorSpec((512, 256), "float16"),
}


@dataclass(frozen=True)
class FakeSlice:
    """One instruction, as a timeline hands it out."""

    task: str = "Add"
    core: str = "core0.veccore0"
    pipe: str = "VECTOR"
    name: str = "vadd"
    start_us: float = 0.0
    duration_us: float = 1.0
    bytes: int = 0
    detail: str = ""
    site: str = ""
    waited_for: tuple[Any, ...] = ()


@dataclass(frozen=True)
class FakeResult:
    """As much of a result as the trace needs."""

    listed: tuple[FakeSlice, ...]
    tasks: tuple[Any, ...] = ()
    broken: bool = False
    timeline: FakeResult = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "timeline", self)

    @property
    def duration_us(self) -> float:
        return max((each.start_us + each.duration_us for each in self.listed), default=0.0)

    @property
    def cores(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.core for each in self.listed))

    def slices(
        self, cores: Collection[str] | None = None, until_us: float = 1.0
    ) -> Iterator[FakeSlice]:
        assert until_us > 0
        yield from (each for each in self.listed if cores is None or each.core in cores)
        if self.broken:
            raise RuntimeError("the iteration broke off")


def written(result: Any, path: Path, **options: Any) -> dict[str, Any]:
    write_trace(result, path, **options)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def slices_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


@pytest.fixture(scope="module")
def norm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a real call."""
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    write_trace(npusim.Device("Ascend910B3").estimate("aclnnGroupNormBackward", **NORM), path)
    return path


def test_insight_finds_its_keys_before_the_first_bracket(norm: Path) -> None:
    head = norm.read_text().split("[")[0]
    assert list(json.loads(head + "[]}")) == [*HEADER, "traceEvents"]
    assert '"profilingType": "op"' in head


def test_ids_are_strings_and_colours_are_known(norm: Path) -> None:
    for event in json.loads(norm.read_text())["traceEvents"]:
        assert isinstance(event["pid"], str)
        assert isinstance(event["tid"], str)
        if event["ph"] == "X":
            assert event["cname"] in {*CNAMES.values(), OTHER_CNAME}
            assert event["dur"] > 0
            assert event["ts"] >= 0


def test_lanes_never_overlap(norm: Path) -> None:
    lanes: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for event in slices_of(json.loads(norm.read_text())):
        lane = lanes.setdefault((event["pid"], event["tid"]), [])
        lane.append((event["ts"], event["ts"] + event["dur"]))
    assert len(lanes) > 10
    for lane in lanes.values():
        lane.sort()
        for (_, end), (start, _) in itertools.pairwise(lane):
            assert start >= end - 1e-9


def test_a_core_and_its_pipes_are_put_in_order(norm: Path) -> None:
    events = json.loads(norm.read_text())["traceEvents"]
    lanes = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X" and e["pid"] != "tasks"}
    ordered = {
        (e["pid"], e["tid"]): e["args"]["sort_index"]
        for e in events
        if e["name"] == "thread_sort_index"
    }
    assert lanes == set(ordered)
    for (_, pipe), index in ordered.items():
        assert (index, pipe) == pipe_order(pipe)
    processes = [e["pid"] for e in events if e["name"] == "process_sort_index"]
    assert sorted(processes) == sorted({"tasks", *(core for core, _ in lanes)})


def inside(event: dict[str, Any], lanes: dict[tuple[str, str], list[tuple[float, float]]]) -> bool:
    """Whether one end of an arrow lies in a slice of its lane; viewers drop it otherwise."""
    spans = lanes[(event["pid"], event["tid"])]
    return any(start <= event["ts"] < end for start, end in spans)


@pytest.mark.parametrize(
    ("soc", "op", "arguments"),
    [
        ("Ascend910B3", "aclnnGroupNormBackward", NORM),
        ("Ascend910A", "aclnnGroupNormBackward", NORM),
        ("Ascend910B3", "aclnnMm", MATRICES | {"cubeMathType": 1}),
    ],
)
def test_arrows_come_in_pairs_and_point_forward(
    soc: str, op: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    """Every pipe that waited is tied to the instruction that let it go."""
    events = written(npusim.Device(soc).estimate(op, **arguments), tmp_path / "t.json")
    lanes: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in slices_of(events):
        lane = lanes.setdefault((each["pid"], each["tid"]), [])
        lane.append((each["ts"], each["ts"] + each["dur"]))
    arrows = [event for event in events["traceEvents"] if event["name"] == "flow"]
    pairs: dict[str, list[dict[str, Any]]] = {}
    for event in arrows:
        pairs.setdefault(event["id"], []).append(event)
    assert len(pairs) > 10
    for number, pair in pairs.items():
        leaves, arrives = pair
        assert int(number, 16) > 0  # else Perfetto drops it
        assert (leaves["ph"], arrives["ph"]) == ("s", "t")
        assert leaves["cat"] == arrives["cat"] == f"{leaves['tid']}To{arrives['tid']}"
        assert leaves["pid"] == arrives["pid"]
        assert leaves["tid"] != arrives["tid"]
        assert leaves["ts"] <= arrives["ts"]
        assert inside(leaves, lanes)
        assert inside(arrives, lanes)


def test_an_arrow_of_a_product_follows_the_data(tmp_path: Path) -> None:
    """GM to L1, L1 to L0, into the cube and out of it again."""
    result = npusim.Device("Ascend910B3").estimate("aclnnMm", **MATRICES, cubeMathType=1)
    events = written(result, tmp_path / "t.json")["traceEvents"]
    ways = {event["cat"] for event in events if event["name"] == "flow"}
    assert {"MTE2ToMTE1", "MTE1ToCUBE", "CUBEToFIXP"} <= ways


def test_arrows_are_those_of_the_reference() -> None:
    """By either player, the same instructions wait for the same."""
    ways = []
    for exact in (False, True):
        device = npusim.Device("Ascend910B3", exact=exact)
        result = device.estimate("aclnnGroupNormBackward", **JUMPING)
        count: dict[str, int] = {}
        for each in result.timeline.slices({"core0.veccore0"}):
            for origin in each.waited_for:
                assert origin.end_us <= each.start_us + 1e-6
                way = f"{origin.pipe}To{each.pipe}"
                count[way] = count.get(way, 0) + 1
        ways.append(count)
    assert ways[0] == ways[1]


def test_moved_bytes_are_shown(norm: Path) -> None:
    moves = [e for e in slices_of(json.loads(norm.read_text())) if e["tid"] == "MTE2"]
    tensor_bytes = 4 * 4 * 32 * 256
    assert sum(e["args"].get("process_bytes", 0) for e in moves) >= 2 * tensor_bytes


@pytest.mark.parametrize(
    ("core", "order"),
    [("core0.cubecore0", 1), ("core0.veccore0", 2), ("core0.veccore1", 3), ("core7.veccore0", 23)],
)
def test_cube_cores_stand_before_their_vector_cores(core: str, order: int) -> None:
    assert process_order(core) == order


def test_cores_can_be_chosen(tmp_path: Path) -> None:
    result = FakeResult(tuple(FakeSlice(core=f"core{i}.veccore0") for i in range(4)))
    trace = written(result, tmp_path / "t.json", cores=(1, 3))
    assert [event["pid"] for event in slices_of(trace)] == ["core1.veccore0", "core3.veccore0"]


def test_cores_that_are_not_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="any of these cores"):
        write_trace(FakeResult((FakeSlice(),)), tmp_path / "t.json", cores=(9,))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_what_takes_no_time_is_left_out(tmp_path: Path) -> None:
    result = FakeResult((FakeSlice(duration_us=0.0), FakeSlice(name="vmul")))
    trace = written(result, tmp_path / "t.json")
    assert [event["name"] for event in slices_of(trace)] == ["vmul"]


def test_an_unknown_pipe_has_a_colour_too(tmp_path: Path) -> None:
    trace = written(FakeResult((FakeSlice(pipe="NEW"),)), tmp_path / "t.json")
    assert slices_of(trace)[0]["cname"] == OTHER_CNAME


def test_nothing_half_written_remains(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broke off"):
        write_trace(FakeResult((FakeSlice(),), broken=True), tmp_path / "t.json")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_an_existing_trace_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("mine")
    with pytest.raises(OutputExistsError):
        write_trace(FakeResult((FakeSlice(),)), path)  # type: ignore[arg-type]
    assert path.read_text() == "mine"
    write_trace(FakeResult((FakeSlice(),)), path, force=True)  # type: ignore[arg-type]
    assert slices_of(json.loads(path.read_text()))


def test_another_process_writes_the_same_bytes(norm: Path, tmp_path: Path) -> None:
    words = "gradOut=fp32[4,32,256] input=fp32[4,32,256] mean=fp32[4,8] rstd=fp32[4,8] gamma=null"
    words += " N=4 C=32 HxW=256 group=8 outputMask=true,true,true"
    for seed in ("1", "77"):
        path = tmp_path / f"{seed}.json"
        command = [sys.executable, "-m", "npusim", "trace", "GroupNormBackward", *words.split()]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([*command, "-s", "910b3", "-o", path], check=True, env=environment)
        assert path.read_bytes() == norm.read_bytes()


# Sizes


LARGE = (
    "trace aclnnMultiScaleDeformableAttentionGrad -s 910b3 value=fp32[1,5440,8,32] "
    "spatialShape=int32[4,2] levelStartIndex=int32[4] location=fp32[1,5440,8,4,4,2] "
    "attnWeight=fp32[1,5440,8,4,4] gradOutput=fp32[1,5440,256] --json"
)


def test_a_large_trace_is_refused_with_its_size_and_a_part_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.json"
    refused = command(capsys, LARGE, "-o", file)
    assert refused.code == 2
    assert not file.exists()
    error = refused.json["error"]
    assert re.search(r"about [\d,]+ MB", error["message"])
    for way in ("--cores 0", "--window 0-", "--all"):
        assert way in error["remedy"]
    part = command(capsys, LARGE, "-o", file, "--cores", 0, "--window", "100-130")
    assert part.code == 0
    events = [each for each in json.loads(file.read_text())["traceEvents"] if each["ph"] == "X"]
    inside = [each for each in events if each["pid"] != "tasks"]
    assert len(inside) == part.json["slices"] > 100
    assert all(each["ts"] <= 130 and each["ts"] + each["dur"] >= 100 for each in inside)


def test_the_estimated_size_is_about_that_of_the_file(tmp_path: Path) -> None:
    x = npusim.TensorSpec((4096, 512), "float16")
    res = npusim.Device("910b3").estimate("Add", x1=x, x2=x)
    middle_us = (res.duration_us / 2, res.duration_us)
    for cores, window_us in ((None, None), ((0, 1), None), (None, middle_us)):
        written = write_trace(
            res, tmp_path / "t.json", cores=cores, window_us=window_us, force=True
        )
        actual = written.path.stat().st_size
        assert 0.4 < estimated_bytes(res, cores, window_us) / actual < 2.5
    assert res.timeline.count() == sum(1 for _ in res.timeline.slices())
    cores_used = res.timeline.cores[:1]
    assert res.timeline.count(cores_used) == sum(1 for _ in res.timeline.slices(cores_used))


@pytest.mark.parametrize("window", ["5", "9-3", "a-b", "1-1", "-3-4"])
def test_a_window_is_a_span(window: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = command(capsys, f"trace Add x1=fp16[64] x2=fp16[64] -s 910b3 --window={window}")
    assert said.code == 2
    assert "is no span of microseconds" in said.err


def test_progress_hears_what_is_looked_at(tmp_path: Path) -> None:
    heard: list[int] = []
    x = npusim.TensorSpec((8192, 8192), "float16")
    res = npusim.Device("910b3").estimate("Add", x1=x, x2=x)
    write_trace(res, tmp_path / "t.json", progress=heard.append)
    assert heard == sorted(heard)
    assert len(heard) == res.timeline.count() // 20_000


def test_counters_add_up_to_what_was_moved(tmp_path: Path) -> None:
    """The area below each counter is the bytes, and the time that pipes work, of the tasks."""
    result = npusim.Device("Ascend910B3").estimate(
        "Add",
        x1=npusim.TensorSpec((4096, 1024), "float16"),
        x2=npusim.TensorSpec((4096, 1024), "float16"),
    )
    npusim.trace(result, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    area: dict[tuple[str, str], float] = {}
    tracks: dict[str, list[dict[str, Any]]] = {}
    for each in events:
        if each["ph"] == "C":
            tracks.setdefault(each["name"], []).append(each)
    for name, found in tracks.items():
        for here, then in itertools.pairwise(found):
            for series, value in here["args"].items():
                sums = area.get((name, series), 0.0)
                area[name, series] = sums + value * (then["ts"] - here["ts"])
        assert set(found[-1]["args"].values()) == {0.0}
    (task,) = result.tasks
    assert area["L2, GB/s", "read"] * 1e3 == pytest.approx(task.bytes_read, rel=0.01)
    assert area["L2, GB/s", "written"] * 1e3 == pytest.approx(task.bytes_written, rel=0.01)
    assert area["HBM, GB/s", "HBM"] * 1e3 == pytest.approx(task.hbm_bytes, rel=0.01)
    worked_us = sum(each.duration_us for each in result.timeline.slices() if each.pipe == "VECTOR")
    assert area["cores at work", "VECTOR"] == pytest.approx(worked_us, rel=0.01)
