"""`npusim model FILE.onnx`: latency, rate, memory, what was fused, what is wrong with a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from npusim.hardware import load_profile
from npusim.model import read_model, retime
from npusim.values.errors import ArgumentError, FileError
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
        ("--batch 0", "batch"),
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
