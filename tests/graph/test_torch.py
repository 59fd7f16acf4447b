"""Programs of torch.export: read for any batch, called as torch_npu calls them, timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from npusim import Model
from npusim.catalogue import facts
from npusim.graph import from_torch
from npusim.graph.aten.calls import on_device, rows
from npusim.model.compiled import COMPILED
from npusim.values.errors import ArgumentError, FileError, NpusimError
from support.commands import npusim

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")

CHIP = "Ascend910B3"


class Small(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Layers of both kinds of networks, views, masks, numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.linear = torch.nn.Linear(16, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x: Any, which: Any) -> Any:
        x = torch.relu(self.conv(x)).flatten(2).transpose(1, 2)
        x = self.norm(torch.nn.functional.gelu(self.linear(x.contiguous())))
        heads = x.view(x.shape[0], -1, 4, 8).transpose(1, 2)
        y = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        x = x + 2 * y.transpose(1, 2).reshape(x.shape)
        x = x.masked_fill(x > 0, -1.0)
        return torch.cat([x[:, :3], which[:, None, None].expand(-1, 1, 32).to(x.dtype)], 1).mean(1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    batch = torch.export.Dim("batch", min=1, max=64)
    fed = (torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64))
    exported = torch.export.export(Small().eval(), fed, dynamic_shapes=({0: batch}, {0: batch}))
    made: Path = tmp_path_factory.mktemp("torch") / "small.pt2"
    torch.export.save(exported, str(made))
    return made


def test_calls_are_those_of_torch_npu(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, f"model {file} -s {CHIP} --batch 4 --json")
    (answer,) = said.json["answers"]
    assert said.code == 0
    assert " ".join(task["op"].removeprefix("aclnn") for task in answer["tasks"]) == (
        "Convolution Relu InplaceCopy Addmm Gelu LayerNorm FlashAttentionScore InplaceCopy Muls "
        "Add GtScalar InplaceCopy InplaceMaskedFillScalar Cast Cat Mean"
    )
    assert answer["batch"] == 4
    assert answer["host_dispatch_us"] == answer["eager"]["host_dispatch_us"]
    assert answer["duration_us"] >= 16 * answer["host_dispatch_us"]
    assert answer["simulated_share"] == pytest.approx(1.0)
    assert answer["memory"]["weights_bytes"] == 4 * (16 * 27 + 16 + 16 * 32 + 32 + 64)


@pytest.mark.filterwarnings("ignore:The tensor attributes self.cells")  # torch's LSTM itself
def test_what_is_changed_in_place_is_read_before() -> None:
    """Activations and dropout in place, the largest of windows, an LSTM: none is lost."""

    class Layers(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 16, 3)
            self.act, self.drop = torch.nn.Hardswish(inplace=True), torch.nn.Dropout(inplace=True)
            self.pool = torch.nn.MaxPool2d(3, 2, 1)
            self.cells = torch.nn.LSTM(16, 32, batch_first=True)

        def forward(self, x: Any) -> Any:
            x = self.drop(self.pool(self.act(self.conv(x))))
            return self.cells(x.flatten(2).transpose(1, 2))[0]

    exported = torch.export.export(Layers().eval(), (torch.zeros(2, 3, 12, 12),))
    result = Model.read(from_torch(exported)).estimate(CHIP)
    assert result.simulated_share == 1
    assert {each.op for each in result.operators} >= {
        "aclnnConvolution", "aclnnHardswish", "aclnnMaxPool2dWithMask", "aclnnLSTM"
    }  # fmt: skip


def test_a_captured_graph_needs_no_host(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, eager = (
        npusim(capsys, f"model {file} -s {CHIP} --mode {mode} --json").json["answers"][0]
        for mode in ("graph", "eager")
    )
    assert graph["device_us"] == pytest.approx(eager["device_us"])
    assert graph["duration_us"] == pytest.approx(graph["device_us"])
    assert graph["duration_us"] < 0.6 * eager["duration_us"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (f"-s {CHIP} --batch 65", "exported for 1 to 64, not for 65"),
        (f"-s {CHIP} --mode om", "for an offline model"),
        (f"-s {CHIP} --aipp", "runs call by call"),
        (f"-s {CHIP} --fast none", "runs call by call"),
        ("-s 310p3 --mode graph", "replays no captured graphs"),
        (f"-s {CHIP} --shape x=1,3,9,9", "not [1,3,9,9]"),
    ],
)
def test_what_can_t_be_asked_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], words: str, problem: str
) -> None:
    said = npusim(capsys, f"model {file} {words}")
    assert said.code == 2
    assert problem in said.err


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    from npusim.model import read_model

    broken = tmp_path / "net.pt2"
    broken.write_bytes(b"PK no")
    with pytest.raises(FileError, match=r"torch\.export\.load"):
        read_model(broken)


def test_what_the_host_does_is_named() -> None:
    from npusim import Model
    from npusim.graph import from_torch

    class Odd(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.special.i1(torch.relu(x)) + torch.special.airy_ai(x)

    program = from_torch(torch.export.export(Odd(), (torch.zeros(4, 4),)))
    result = Model.read(program).estimate(CHIP)
    assert result.not_counted == 2
    assert all("copied to the host" in each.timing.note for each in result.items
               if each.item.op.startswith("aten."))  # fmt: skip
    with pytest.raises(ArgumentError, match="no exported program"):
        from_torch(Odd())


def test_what_depends_on_data_is_named() -> None:
    from npusim.graph import from_torch

    class Picks(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x[x > 0].sum()

    program = from_torch(torch.export.export(Picks(), (torch.zeros(4),)))
    with pytest.raises(NpusimError, match=r"index|nonzero"):
        program.network()


def test_every_row_is_a_call_of_the_catalogue() -> None:
    """APIs and their parameters are those of CANN's headers, aten names those of op-plugin."""
    known = facts.catalogue()
    for aten, row in rows().items():
        api = known.api_named(row.api.lower())
        assert api is not None, row.api
        names = {name for name, _, _ in known.prototype_of(api)}
        used = {name for name, _, _ in row.parameters} | set(row.results)
        assert used <= names, (aten, used - names)
    bases = {aten.partition("/")[0].partition(".")[0] for aten in rows()}
    assert len(bases & on_device()) > 0.8 * len(bases)  # the others are composites of PyTorch


FED = (torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64))


def test_a_module_is_timed_without_exporting_it() -> None:
    module = Small().eval()
    traced = Model.read(from_torch(module, *FED)).estimate(CHIP)
    exported = Model.read(from_torch(torch.export.export(module, FED))).estimate(CHIP)
    assert [each.item.op for each in traced.items] == [each.item.op for each in exported.items]
    assert traced.duration_us == exported.duration_us
    assert traced.memory.weights_bytes == exported.memory.weights_bytes


def test_a_step_of_training_has_its_backward_pass() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))

    def step(x: Any) -> None:
        module(x).square().mean().backward()

    x = torch.zeros(16, 64)
    forward = Model.read(from_torch(module, x)).estimate(CHIP)
    both = Model.read(from_torch(step, x, backward=True)).estimate(CHIP)
    products = [each.item.op for each in both.items if each.item.op in ("aclnnMm", "aclnnAddmm")]
    assert len(products) == 5  # two forward; two for weights and one for what came in between
    assert both.duration_us > 2 * forward.duration_us
    assert all(each.grad is None for each in module.parameters())
    with pytest.raises(ArgumentError, match="backward pass"):
        from_torch(step, x)


def test_backward_passes_are_the_calls_of_torch_npu() -> None:
    layers = (
        *(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU()),
        *(torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16 * 9, 32)),
        *(torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.SiLU(), torch.nn.Softmax(-1)),
    )
    module = torch.nn.Sequential(*layers)
    program = from_torch(
        lambda x: module(x).sum().backward(), torch.zeros(2, 3, 8, 8), backward=True
    )
    step = Model.read(program).estimate(CHIP)
    assert not step.refused
    called = [each.item.op.removeprefix("aclnn") for each in step.items]
    assert [each for each in called if "Backward" in each] == [
        *("SoftmaxBackward", "SiluBackward", "LayerNormBackward", "GeluBackward"),
        *("MaxPool2dWithMaskBackward", "ThresholdBackward", "BatchNormBackward"),
        "ConvolutionBackward",
    ]
    assert not [each for each in called if each.startswith("aten")]


def test_what_python_asks_of_a_tensor_cannot_be_traced() -> None:
    def chosen(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(ArgumentError, match="can't be traced without data"):
        from_torch(chosen, torch.zeros(4))


def test_torch_compile_shows_every_graph_to_npusim() -> None:
    module = torch.nn.Linear(64, 64)

    def chosen(x: Any) -> Any:
        y = torch.relu(module(x))
        return module(y) if y.sum() > 0 else y

    COMPILED.clear()
    x = torch.ones(8, 64)
    with torch.no_grad():
        found = torch.compile(chosen, backend="npusim")(x)
        assert torch.equal(found, chosen(x))
    first, second = COMPILED.estimate(CHIP)
    assert [each.item.op for each in second.items] == ["aclnnAddmm"]
    assert [each.item.op for each in first.items][:2] == ["aclnnAddmm", "aclnnRelu"]
    assert second.memory.weights_bytes == 4 * (64 * 64 + 64)
    with pytest.raises(Exception, match="unknown option 'chip'"):
        torch.compile(module, backend="npusim", options={"chip": "910b3"})(x)
    COMPILED.clear()
    torch._dynamo.reset()
