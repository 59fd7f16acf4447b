"""`npusim model FILE.onnx`: latency, rate, memory, what was fused, what is wrong with a file."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from npusim import Model
from npusim.hardware import load_profile
from npusim.model import read_model, retime
from npusim.values.errors import ArgumentError, FileError, UnknownNameError
from support.commands import npusim
from support.networks import Network, encoder

if TYPE_CHECKING:
    from pathlib import Path

CHIP = "Ascend310P3"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder(tmp_path_factory.mktemp("net") / "net.onnx")


def test_a_network_has_a_rate_memory_and_tasks(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = npusim(capsys, f"model {file} -s {CHIP} --batch 4 --json")
    (answer,) = said.json["answers"]
    assert said.code == 0
    assert answer["batch"] == 4
    assert answer["items_per_s"] == pytest.approx(4e6 / answer["duration_us"])
    low, high = answer["band_us"]
    assert low < answer["duration_us"] < high
    assert answer["memory"]["weights_bytes"] > 2 * 12 * 64 * 64
    assert answer["memory"]["activation_bytes"] > 4 * 32 * 256 * 2
    nodes = [name for task in answer["tasks"] for name in task["nodes"]]
    assert any("Softmax" in name for name in nodes)
    assert len(nodes) == len(set(nodes))
    assert any(line.startswith("GeluFusionPass") for line in answer["passes"])


def test_what_was_fused_is_explained(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, f"model {file} -s {CHIP} --explain")
    assert "items/s" in said.out
    assert "TbeEltwiseFusionPass" in said.out
    assert "FusionOp_MatMulV2_FastGeluV2" in said.out


def test_without_fusion_it_takes_longer(file: Path) -> None:
    def time_us(*words: str) -> float:
        from npusim.model.graph_model import Compilation

        how = Compilation(fuse="fused" in words)
        chip = load_profile(CHIP)
        return retime(read_model(file, how=how).at(1, chip), chip).duration_us

    assert time_us() > 1.5 * time_us("fused")


def test_a_larger_batch_takes_longer_and_serves_more(file: Path) -> None:
    chip = load_profile(CHIP)
    model = read_model(file)
    one, many = (retime(model.at(batch, chip), chip) for batch in (1, 16))
    assert one.duration_us < many.duration_us
    assert one.items_per_s is not None
    assert many.items_per_s is not None
    assert one.items_per_s < many.items_per_s


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--shape x", "says no input and its sizes"),
        ("--shape y=1,32,64", "no input y"),
        ("--shape x=1,32", "not [1,32]"),
        ("--precision fp8", "unknown precision mode 'fp8'"),
        ("--without Nothing", "unknown pass 'Nothing'"),
        ("--fast Gelu,Tanh", "unknown implementation 'Tanh'"),
        ("--fast=", "unknown implementation ''"),
        ("--batch 0", "batch"),
        ("--batch a", "names no batches"),
        ("--within soon", "is no time"),
        ("--mode eager", "torch_npu doesn't run it call by call"),
        ("--mode fast", "unknown mode 'fast'"),
        ("--streams 0", "0 streams"),
    ],
)
def test_what_can_t_be_asked_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], words: str, problem: str
) -> None:
    said = npusim(capsys, f"model {file} -s {CHIP} {words}")
    assert said.code == 2
    assert problem in said.err


def test_lists_of_operators_aren_t_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "calls.yaml"
    listed.write_text("calls: [{op: Relu, inputs: ['fp16[8]'], outputs: ['fp16[8]']}]")
    said = npusim(capsys, f"model {listed} -s {CHIP} --no-fuse")
    assert said.code == 2
    assert "only networks are compiled" in said.err


@pytest.mark.parametrize("verb", ["model {} ", "check --model {}"])
def test_profiles_aren_t_compiled_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    rows = tmp_path / "kernel_details.csv"
    rows.write_text("Step Id,Name,Type,Accelerator Core,Duration(us)\n1,a,Add,AI_VECTOR_CORE,2\n")
    for option in ("--aipp", "--fast none", "--precision origin"):
        said = npusim(capsys, f"{verb.format(rows)} -s {CHIP} {option}")
        assert said.code == 2
        assert "only networks are compiled" in said.err


def test_faster_implementations_can_be_asked_for_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network()
    file = network.save(tmp_path / "net.onnx", network.node("Sigmoid", "x"))
    slow, fast = (
        Model.read(file, fast=each).estimate(CHIP).duration_us for each in ((), ("Sigmoid",))
    )
    assert fast < slow
    told = npusim(capsys, f"model {file} -s {CHIP} --fast Sigmoid --json").json["answers"]
    assert told[0]["duration_us"] == fast
    assert npusim(capsys, f"check --model {file} -s {CHIP} --fast Sigmoid").code == 0
    with pytest.raises(UnknownNameError, match="implementation"):
        Model.read(file, fast=("Tanh",))


def test_a_node_that_can_t_be_compiled_is_named(tmp_path: Path) -> None:
    network = Network()
    axes = network.node("Cast", network.node("ReduceMax", "x", keepdims=0), to=7)
    output = network.node("TopK", "x", network.node("Reshape", axes, network.constant([1])),
                          outputs=2)[0]  # fmt: skip
    file = network.save(tmp_path / "net.onnx", output)
    chip = load_profile(CHIP)
    with pytest.raises(FileError, match="TopK"):
        read_model(file).at(1, chip)


def test_a_network_is_compiled_for_a_chip(file: Path) -> None:
    with pytest.raises(ArgumentError, match="compiled for a chip"):
        read_model(file).at(1)


def test_several_batches_are_a_curve(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, f"model {file} -s {CHIP} --batch 1,4,16 --json")
    rates = {each["batch"]: each["items_per_s"] for each in said.json["answers"]}
    (best,) = said.json["best"]
    assert list(rates) == [1, 4, 16]
    assert best == {"soc": CHIP, "within_us": None, "batch": max(rates, key=rates.__getitem__)}
    times = [each["duration_us"] for each in said.json["answers"]]
    limit = f"{(times[0] + times[1]) / 2:.3f}us"
    within = npusim(capsys, f"model {file} -s {CHIP} --batch 1,4,16 --within {limit}")
    assert within.code == 0
    assert f"best batch on {CHIP}  1: " in within.out
    none = npusim(capsys, f"model {file} -s {CHIP} --batch 1,4 --within 0.001ms")
    assert none.code == 1
    assert "none keeps the limit" in none.out


def test_streams_share_the_device(file: Path) -> None:
    """Small tasks of several streams run side by side; a device's worth of work doesn't."""
    from npusim import Model

    model = Model.read(file)
    one, two = (model.estimate(CHIP, batch=1, streams=number) for number in (1, 2))
    assert one.items_per_s is not None
    assert two.items_per_s is not None
    assert one.duration_us <= two.duration_us
    assert one.items_per_s <= two.items_per_s <= 2 * one.items_per_s
    with pytest.raises(ArgumentError, match="0 streams"):
        model.estimate(CHIP, streams=0)


def custom_network(folder: Path) -> Path:
    """A convolution's worth of an operator that nobody knows between two that everybody does."""
    network = Network()
    x = network.node("Relu", "x")
    x = network.node("Blend", x, network.weight(64), domain="com.example")
    output = network.node("Sigmoid", network.node("Relu", x))
    return network.save(folder / "net.onnx", output, inputs={"x": ["n", 64]})


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{op: Mul, shapes: [0]}", "simulated"),
        ("{duration_us: 500, shapes: [[8, 64]]}", "measured time, not scaled"),
    ],
)
def test_what_nobody_knows_costs_what_the_user_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, says: str
) -> None:
    net, costs = custom_network(tmp_path), tmp_path / "costs.yaml"
    unknown = npusim(capsys, f"model {net} -s {CHIP} --batch 8")
    assert unknown.code == 2
    assert "Blend" in unknown.err
    costs.write_text(f"operators: {{com.example.Blend: {row}}}")
    said = npusim(capsys, f"model {net} -s {CHIP} --batch 8 --custom {costs} --json")
    assert said.code == 0
    (answer,) = said.json["answers"]
    assert says in {each["how"] for each in answer["operators"]}
    assert (answer["duration_us"] > 500) == ("duration" in row)


def test_a_function_may_say_what_a_node_costs(tmp_path: Path) -> None:
    from npusim import Model
    from npusim.graph.custom import CustomCost

    def blend(inputs: object, attributes: object) -> CustomCost:
        del attributes
        assert isinstance(inputs, tuple)
        return CustomCost(duration_us=inputs[0].numel / 64, shapes=(0,))

    model = Model.read(custom_network(tmp_path), custom={"com.example.Blend": blend})
    few, many = (model.estimate(CHIP, batch=batch).duration_us for batch in (1, 1001))
    assert many - few > 1000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x: 1", "has no operators"),
        ("operators: {a.B: {op: Mul, duration_us: 3}}", "either op or duration_us"),
        ("operators: {a.B: {duration_us: -1}}", "operators.a.B.duration_us"),
        ("operators: {a.B: {opp: Mul}}", "operators.a.B.opp"),
    ],
)
def test_a_wrong_row_is_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    costs = tmp_path / "costs.yaml"
    costs.write_text(text)
    said = npusim(capsys, f"model {file} -s {CHIP} --custom {costs}")
    assert said.code == 2
    assert problem in said.err


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_model_has_a_page(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    page = tmp_path / f"page.{ending}"
    said = npusim(capsys, f"report {file} -s {CHIP},910A --batch 2 -o {page}")
    assert said.code == 0
    text = page.read_text(encoding="utf-8")
    for word in ("Products side by side", "Memory over time", "GeluFusionPass", "items/s",
                 "Roofline of layers", "Ascend910", "FusionOp_MatMulV2_FastGeluV2"):  # fmt: skip
        assert word in text
    assert text.count("<svg") == (4 if ending == "html" else 0)
    again = npusim(capsys, f"report {file} -s {CHIP} -o {page}")
    assert again.code == 2
    assert "exists" in again.err


def test_memory_is_what_is_alive(file: Path) -> None:
    step = read_model(file).at(4, load_profile(CHIP))
    assert len(step.alive_bytes) == len(step.items)
    assert max(step.alive_bytes) == step.activation_bytes
    assert min(step.alive_bytes) < max(step.alive_bytes)


def test_a_model_has_a_trace(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "trace.json"
    said = npusim(capsys, f"trace {file} -s {CHIP} --streams 2 -o {made} --json")
    assert said.code == 0
    events = json.loads(made.read_text())["traceEvents"]
    tasks = [each for each in events if "args" in each and each["ph"] == "X"]
    assert {each["tid"] for each in tasks} == {"stream 0", "stream 1"}
    one = [each for each in tasks if each["tid"] == "stream 0"]
    assert len(one) == len(read_model(file).at(1, load_profile(CHIP)).items)
    for before, after in pairwise(one):
        assert before["ts"] + before["dur"] == pytest.approx(after["ts"])
    assert one[-1]["ts"] + one[-1]["dur"] == pytest.approx(said.json["end_us"])


def test_a_models_trace_counts_what_memory_carries(file: Path, tmp_path: Path) -> None:
    from npusim import Model
    from npusim.reporting.network_trace import write_step_trace

    for streams in (1, 2):
        step = Model.read(file).estimate(CHIP, streams=streams)
        made, _ = write_step_trace(step, tmp_path / "trace.json", force=True)
        events = json.loads(made.read_text())["traceEvents"]
        counted = [each for each in events if each["ph"] == "C" and each["name"] == "HBM, GB/s"]
        carried = sum(
            before["args"]["HBM"] * 1e3 * (after["ts"] - before["ts"])
            for before, after in pairwise(counted)
        )
        moved = sum(
            task.hbm_bytes * each.item.count for each in step.items for task in each.timing.tasks
        )
        assert counted[-1]["args"] == {"HBM": 0.0}
        assert carried == pytest.approx(streams * moved, rel=1e-3)


def test_modules_span_their_tasks(tmp_path: Path) -> None:
    from npusim import Model
    from npusim.reporting.network_trace import write_step_trace

    network = Network()
    x = "x"
    for name in ("/body/one/Exp", "/body/one/Erf", "/body/two/Exp", "/head/Erf"):
        x = network.node(name.rpartition("/")[2], x)
        network.nodes[-1].name = name
    net = network.save(tmp_path / "net.onnx", x)
    made, slices = write_step_trace(Model.read(net).estimate(CHIP), tmp_path / "t.json")
    events = json.loads(made.read_text())["traceEvents"]
    spans = {
        each["name"]: (each["ts"], each["ts"] + each["dur"]) for each in events if "dur" in each
    }
    assert slices == sum("dur" in each for each in events)
    assert spans["body"][0] == spans["one"][0]
    assert spans["one"][1] == pytest.approx(spans["two"][0])
    assert spans["body"][1] == pytest.approx(spans["two"][1])
    assert spans["two"][1] == pytest.approx(spans["head"][0])
