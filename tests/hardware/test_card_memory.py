"""What doesn't fit into the memory of a card is refused, everywhere, with what would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from npusim.hardware import load_profile
from npusim.model import read_model, retime
from npusim.operators.oracle import check, check_task
from npusim.operators.tasks import TaskSpec
from npusim.runtime.device import Device
from npusim.values.errors import AclnnError
from npusim.values.tensors import TensorSpec
from support.commands import npusim

if TYPE_CHECKING:
    from pathlib import Path

OUT_OF_MEMORY = 207001
GIB = 2**30


def halves(gib: float) -> TensorSpec:
    """A tensor of FLOAT16 of this many GiB."""
    return TensorSpec((int(gib * GIB) // 2048, 1024), "float16")


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("Relu", {"x": halves(8 * 2**30)}),
        ("aclnnRelu", {"self": TensorSpec((2**62,), "float16")}),
        ("Add", {"x1": halves(30), "x2": halves(30)}),  # with the sum it is 90 GiB
        (
            "aclnnNsaSelectedAttention",
            dict.fromkeys(("query", "key"), TensorSpec((20 * 2**20, 1, 1024), "float16")),
        ),
    ],
)
def test_what_doesn_t_fit_is_refused(op: str, arguments: dict[str, Any]) -> None:
    chip = load_profile("Ascend910B3")
    status = check(op, chip, arguments)
    assert status.code == OUT_OF_MEMORY
    assert status.name == "ACL_ERROR_RT_MEMORY_ALLOCATION"
    for words in ("needs ", "Ascend910B3 has 64.00 GiB", "aclrtMalloc fails"):
        assert words in status.message
    with pytest.raises(AclnnError) as refused:
        Device("Ascend910B3").estimate(op, **arguments)
    assert refused.value.code == OUT_OF_MEMORY


@pytest.mark.parametrize(("gib", "fits"), [(31.9, True), (32.1, False)])
def test_the_limit_is_the_card_s(gib: float, fits: bool) -> None:
    status = check("Relu", load_profile("Ascend910B3"), {"x": halves(gib)})
    assert (status.code == 0) is fits


def test_every_way_out_has_been_tried() -> None:
    status = check("Relu", load_profile("Ascend910B4"), {"x": halves(24)})
    assert "What fits: at most" in status.remedy
    assert len(status.actions) > 2
    for action in status.actions:
        chip = load_profile(action.soc_version or "Ascend910B4")
        assert check("Relu", chip, {"x": halves(24), **action.arguments}).ok
    fewer = status.actions[0].arguments["x"]
    assert isinstance(fewer, TensorSpec)
    more = TensorSpec((fewer.shape[0] + 1, *fewer.shape[1:]), "float16")
    assert not check("Relu", load_profile("Ascend910B4"), {"x": more}).ok


def test_an_attribute_that_names_the_batch_is_not_contradicted() -> None:
    sizes = {"gradOut": (200_000, 64, 4096), "input": (200_000, 64, 4096)}
    arguments: dict[str, Any] = {
        name: TensorSpec(shape, "float16") for name, shape in sizes.items()
    }
    arguments |= {name: TensorSpec((200_000, 8), "float16") for name in ("mean", "rstd")}
    arguments |= {"gamma": None, "N": 200_000, "C": 64, "HxW": 4096, "group": 8}
    arguments["outputMask"] = (True, False, False)
    status = check("aclnnGroupNormBackward", load_profile("Ascend910B3"), arguments)
    assert status.code == OUT_OF_MEMORY
    assert status.remedy == "Nothing like it fits; split the call."


def test_recorded_tasks_and_models_are_held_to_it(tmp_path: Path) -> None:
    task = TaskSpec("Unheard", (halves(60),), (halves(60),))
    assert check_task(task, load_profile("Ascend910B3")).code == OUT_OF_MEMORY
    file = tmp_path / "large.yaml"
    sizes = ",".join(map(str, halves(60).shape))
    file.write_text(
        "name: large\ncalls:\n"
        + "".join(
            f"  - {{op: Relu, inputs: ['fp16[{each}]'], outputs: ['fp16[{each}]']}}\n"
            for each in ("64,1024", sizes)
        )
    )
    result = retime(read_model(file).at(), "Ascend910B3")
    (refused,) = result.refused
    assert refused.code == OUT_OF_MEMORY
    assert refused.count == 1


@pytest.mark.parametrize("verb", ["check", "estimate"])
@pytest.mark.parametrize("op", ["aclnnRelu self", "aclnnNsaSelectedAttention query"])
def test_verbs_exit_with_one(verb: str, op: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, f"{verb} {op}=fp16[4611686018427387904,1,1] -s 910b3")
    assert said.code == 1
    assert "207001" in said.out + said.err


def test_a_chip_of_ones_own_has_its_own_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "{source: own_statement, confidence: assumed}"
    memory = f"{{capacity_bytes: 1000000, provenance: {{capacity_bytes: {own}}}}}"
    file = tmp_path / "small.yaml"
    file.write_text(f"inherits: Ascend910B3\nname: Small\nmemory: {memory}\n", "utf-8")
    for op in ("aclnnRelu", "aclnnNonzero"):  # with a kernel, and by the catalogue alone
        status = Device(str(file)).check(op, self="fp16[1024,1024]")
        assert status.code == OUT_OF_MEMORY
        assert "Small has" in status.message
        said = npusim(capsys, f"check {op} self=fp16[1024,1024] -s", file)
        assert said.code == 1
        assert "207001" in said.out


def test_a_model_larger_than_the_card_doesn_t_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "big.yaml"
    small = "fp16[64,1024]"
    call = f"calls:\n  - {{op: Relu, inputs: ['{small}'], outputs: ['{small}']}}\n"
    file.write_text(f"name: big\nmemory: {{weights_bytes: {40 * GIB}}}\n{call}")
    said = npusim(capsys, "model -s 910b4 --json", file)
    assert said.code == 1
    (answer,) = said.json["answers"]
    assert answer["verdict"] == "no"
    assert answer["headline"].startswith("big can't run on Ascend910B4: it needs 40.0 GiB of 32.0")
    assert npusim(capsys, "model -s 910b3", file).code == 0
