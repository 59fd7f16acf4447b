"""What the graph compiler makes of networks, pass by pass."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from npusim.graph.compiling import Compiled, compile_network
from npusim.graph.lowering import tasks_of
from npusim.graph.memory import alive_bytes, weights_bytes
from npusim.graph.onnx_reader import read
from npusim.graph.passes import chosen, passes
from npusim.graph.target import Target
from npusim.hardware import load_profile
from npusim.operators.tasks import kernels_of
from npusim.values.dtypes import FLOAT, FLOAT16, INT32, INT64
from npusim.values.formats import Format
from support.networks import Network, encoder, resnet50

if TYPE_CHECKING:
    from pathlib import Path

OFFLINE = Target("310P")


def compiled(file: Path, target: Target = OFFLINE, batch: int | None = None) -> Compiled:
    return compile_network(read(file, batch=batch)[0], target)


def ops(found: Compiled) -> Counter[str]:
    return Counter(task.spec.op_type for task in tasks_of(found.network))


def one(tmp_path: Path, network: Network, output: str, *, target: Target = OFFLINE) -> list[str]:
    """The operators of a small network, casts and changes of layout left out."""
    found = compiled(network.save(tmp_path / "net.onnx", output), target)
    kept = (task.spec.op_type for task in tasks_of(found.network))
    return [op for op in kept if op not in ("Cast", "TransData")]


def test_a_resnet_is_convolutions_with_their_followers(tmp_path: Path) -> None:
    found = ops(compiled(resnet50(tmp_path / "net.onnx", "FLOAT")))
    assert found["FusionOp_Conv2D_Relu"] == 33
    assert found["FusionOp_Conv2D_Add_Relu"] == 16
    assert found["Conv2D"] == 4
    assert found["TransData"] == found["MatMulV2"] * 2 + 1
    assert "BatchNorm" not in found
    assert found["Cast"] == 2


def test_an_encoder_stays_in_fractals(tmp_path: Path) -> None:
    """Between the first product and the last norm nothing but work: no layout is changed."""
    found = ops(compiled(encoder(tmp_path / "net.onnx", layers=3), batch=2))
    per_layer = {
        "MatMulV2": 3,
        "FusionOp_MatMulV2_Add": 2,
        "FusionOp_MatMulV2_FastGeluV2": 1,
        "BatchMatMulV2": 2,
        "Muls": 1,
        "SoftmaxV2": 1,
        "LayerNorm": 2,
        "ConfusionTransposeD": 4,
    }
    assert dict(found) == {op: 3 * count for op, count in per_layer.items()} | {
        "Cast": 2,
        "TransData": 2,
    }


def test_scores_keep_their_fractals_under_masks_and_views(tmp_path: Path) -> None:
    """A row for each batch is added by the product; windows apart are a view of its fractals."""
    network = Network()
    scores = network.node("MatMul", "q", "k")
    masked = network.node("Add", scores, "mask")
    apart = network.node("Reshape", masked, network.constant([2, 2, 4, 48, 48]))
    moved = network.node("Add", apart, network.weight(1, 2, 1, 48, 48))
    together = network.node("Reshape", moved, network.constant([4, 4, 48, 48]))
    output = network.node("MatMul", network.node("Softmax", together), "v")
    shape = [4, 4, 48, 48]
    inputs = {"q": shape, "k": shape, "v": shape, "mask": [4, 1, 1, 48]}
    file = network.save(tmp_path / "net.onnx", output, inputs=inputs)
    tasks = [*tasks_of(compiled(file).network)]
    kinds = [task.spec.op_type for task in tasks if task.spec.op_type not in ("Cast", "TransData")]
    assert kinds == ["FusionOp_BatchMatMulV2_Add", "Add", "SoftmaxV2", "BatchMatMulV2"]
    assert sum(task.spec.op_type == "TransData" for task in tasks) == 4
    (product,) = (task.spec for task in tasks if "FusionOp" in task.spec.op_type)
    (second,) = (task.spec.inputs[1] for task in tasks if task.spec.op_type == "Add")
    assert product.inputs[-1] is not None
    assert product.inputs[-1].shape == (4, 1, 1, 48)
    assert kernels_of(load_profile("Ascend310P3"), product)
    assert second is not None
    assert second.shape == (1, 2, 1, 3, 3, 16, 16)


def test_selections_are_made_in_plain_layouts(tmp_path: Path) -> None:
    network = Network()
    scores = network.node("MatMul", "q", "k")
    kept = network.constant(np.tri(48, dtype=bool).reshape(1, 1, 48, 48), bool)
    chosen = network.node("Where", kept, scores, network.number(-1e4))
    output = network.node("MatMul", chosen, "v")
    shape = [4, 4, 48, 48]
    file = network.save(tmp_path / "net.onnx", output, inputs=dict.fromkeys("qkv", shape))
    (choice,) = compiled(file).network.named("SelectV2")
    assert {value.format for value in (*choice.given, choice.output)} == {Format.ND}


@pytest.mark.parametrize(("last", "form"), [("MatMul", Format.FRACTAL_NZ), ("Add", Format.ND)])
def test_a_kernel_before_a_product_works_in_its_format(
    tmp_path: Path, last: str, form: Format
) -> None:
    """Selections leave plain scores; the softmax that a product reads is back in fractals."""
    network = Network()
    kept = network.constant(np.tri(48, dtype=bool).reshape(1, 1, 48, 48), bool)
    chosen = network.node("Where", kept, network.node("MatMul", "q", "k"), network.number(-1e4))
    scaled = network.node("Mul", network.node("Softmax", chosen), network.weight(48, 48))
    output = network.node(last, scaled, "v")
    file = network.save(
        tmp_path / "net.onnx", output, inputs={name: [4, 4, 48, 48] for name in "qkv"}
    )
    found = compiled(file).network
    ((softmax,), (choice,)) = found.named("SoftmaxV2"), found.named("SelectV2")
    assert {softmax.given[0].format, softmax.output.format} == {form}
    assert choice.output.format is Format.ND
    inputs = {cast.given[0] for cast in found.named("Cast")} & {*found.inputs}
    assert {value.format for value in inputs} == {Format.ND}


def test_frames_of_zeros_are_padding(tmp_path: Path) -> None:
    """Unless rows of the window would see nothing but zeros."""
    for around, wanted in ((1, ["Conv2D"]), (3, ["PadD", "Conv2D"])):
        network = Network()
        frame = [0, 0, around, around, 0, 0, around, around]
        padded = network.node("Pad", "x", network.constant(frame))
        output = network.node("Conv", padded, network.weight(16, 3, 3, 3))
        assert one(tmp_path, network, output) == wanted


@pytest.mark.parametrize(("mode", "op"), [("reflect", "Reflection"), ("edge", "Replication")])
def test_frames_of_what_is_inside(tmp_path: Path, mode: str, op: str) -> None:
    network = Network()
    frame = network.constant([0, 0, 1, 2, 0, 0, 3, 4])
    output = network.node("Pad", "x", frame, mode=mode)
    tasks = tasks_of(compiled(network.save(tmp_path / "net.onnx", output)).network)
    (spec,) = (task.spec for task in tasks if task.spec.op_type == f"{op}Pad2d")
    assert spec.attributes["padding"] == [2, 4, 1, 3]


def test_slopes_are_one_for_each_channel(tmp_path: Path) -> None:
    network = Network()
    x = network.node("Conv", "x", network.weight(16, 3, 3, 3))
    output = network.node("PRelu", x, network.weight(16, 1, 1))
    tasks = tasks_of(compiled(network.save(tmp_path / "net.onnx", output)).network)
    (slope,) = (task.spec.inputs[1] for task in tasks if task.spec.op_type == "PRelu")
    assert slope is not None
    assert slope.shape == (1, 1, 1, 1, 16)


def test_products_are_plain_where_the_chip_takes_them_so(tmp_path: Path) -> None:
    found = compiled(encoder(tmp_path / "net.onnx"), Target("A2"))
    assert "TransData" not in ops(found)
    assert all(value.format is Format.ND for node in found.network.nodes for value in node.given)


def test_every_node_of_the_file_is_accounted_for(tmp_path: Path) -> None:
    """What a pass merges is covered by the task that does the work."""
    file = resnet50(tmp_path / "net.onnx", "FLOAT")
    names = {node.name for node in read(file)[0].nodes}
    covered = [name for task in tasks_of(compiled(file).network) for name in task.node.covers]
    assert len(covered) == len(set(covered))
    assert names - set(covered) <= {name for name in names if name.startswith("Flatten")}


@pytest.mark.parametrize("each", sorted({each.name for each in passes() if each.fuses}))
def test_a_pass_can_be_switched_off(tmp_path: Path, each: str) -> None:
    target = Target("310P", off=frozenset((each,)))
    assert each not in {found.name for found in chosen(target)}
    assert each not in dict(compiled(encoder(tmp_path / "net.onnx"), target).applied)


def test_batch_norms_are_folded_where_the_page_lists_the_product(tmp_path: Path) -> None:
    network = Network()
    output = network.conv("x", 3, 16, 3, 1)
    assert one(tmp_path, network, output) == ["Conv2D"]
    assert one(tmp_path, network, output, target=Target("A2")) == ["Conv2D", "BNInfer"]


def test_images_in_bytes_go_into_the_first_convolution_if_asked_for(tmp_path: Path) -> None:
    """Neither cast nor brought into slices: four channels follow each other."""
    network = Network()
    made = network.node("Conv", "x", network.weight(16, 3, 5, 3), pads=[2, 1, 2, 1])
    file = network.save(tmp_path / "net.onnx", made, inputs={"x": [2, 3, 32, 24]})
    asked = compiled(file, Target("310P", aipp=True))
    (first, *rest) = tasks_of(asked.network)
    assert first.spec.op_type == "Conv2D"
    x, weight = first.spec.inputs[:2]
    assert x is not None
    assert weight is not None
    assert (x.shape, weight.shape) == ((2, 1, 32, 24, 4), (4, 1, 16, 16))
    assert [each.spec.op_type for each in rest] == ["TransData", "Cast"]
    assert kernels_of(load_profile("Ascend310P3"), first.spec)
    usual = ops(compiled(file))
    assert (usual["Cast"], usual["TransData"]) == (2, 2)


def test_frozen_norms_are_folded(tmp_path: Path) -> None:
    """A factor and a summand for each channel; what differs from row to row stays."""
    for shape, wanted in (((1, 16, 1, 1), ["Conv2D"]), ((1, 1, 32, 1), ["Conv2D", "Mul", "Add"])):
        network = Network()
        made = network.node("Conv", "x", network.weight(16, 3, 1, 1))
        scaled = network.node("Mul", network.weight(*shape), made)
        output = network.node("Add", scaled, network.weight(*shape))
        file = network.save(tmp_path / "net.onnx", output, inputs={"x": [1, 3, 32, 32]})
        found = compiled(file, Target("310P", off=frozenset(("TbeEltwiseFusionPass",))))
        kept = (task.spec.op_type for task in tasks_of(found.network))
        assert [op for op in kept if op not in ("Cast", "TransData")] == wanted


def test_mish_of_kernels_for_one_shape_is_computed_in_halves(tmp_path: Path) -> None:
    """On A2 it is the kernel for any shape."""
    network = Network()
    made = network.node("Conv", "x", network.weight(16, 3, 1, 1))
    output = network.node("Mul", made, network.node("Tanh", network.node("Softplus", made)))
    assert one(tmp_path, network, output) == ["FusionOp_Conv2D_Mish"]
    (mish,) = (
        node for node in compiled(tmp_path / "net.onnx").network.named("FusionOp_Conv2D_Mish")
    )
    assert mish.attributes["parts"] == (("Mish", {"impl_mode": "high_performance"}),)
    (plain,) = compiled(tmp_path / "net.onnx", Target("A2")).network.named("Mish")
    assert not plain.attributes


@pytest.mark.parametrize(
    ("mask", "fused"),
    [([2, 1, 1, 48], True), ([1, 1, 1, 48], True), ([2, 4, 1, 48], True), ([2, 1, 48, 48], False),
     ([1, 4, 1, 48], False)],
)  # fmt: skip
def test_masks_of_a_row_go_into_the_product_before_them(
    tmp_path: Path, mask: list[int], fused: bool
) -> None:
    network = Network()
    scores = network.node("Mul", network.node("MatMul", "q", "k"), network.number(0.125))
    masked = network.node("Add", scores, "mask")
    output = network.node("MatMul", network.node("Softmax", masked), "v")
    shape = [2, 4, 48, 48]
    file = network.save(
        tmp_path / "net.onnx", output, inputs={**dict.fromkeys("qkv", shape), "mask": mask}
    )
    found = ops(compiled(file))
    assert (found["FusionOp_BatchMatMulV2_FusedMulAdd"] == 1) is fused
    assert (found["BatchMatMulV2"] == 2) is not fused


@pytest.mark.parametrize(
    ("bias", "after"),
    [([1, 4, 48, 48], "Add"), ([48, 48], "Add"), ([2, 1, 48, 48], "Add"), ([2, 4, 48, 48], "Add"),
     ([2, 4, 48, 1], ""), ([1], "")],
)  # fmt: skip
def test_products_of_a_batch_take_in_matrices_that_they_share(
    tmp_path: Path, bias: list[int], after: str
) -> None:
    """But not a number for each row; nor is a product with a number one of what they take in."""
    network = Network()
    scores = network.node("MatMul", "q", "k")
    moved = network.node("Add" if len(bias) > 1 else "Mul", scores, network.weight(*bias))
    output = network.node("MatMul", network.node("Softmax", moved), "v")
    shape = [2, 4, 48, 48]
    file = network.save(tmp_path / "net.onnx", output, inputs=dict.fromkeys("qkv", shape))
    tasks = [*tasks_of(compiled(file).network)]
    found = Counter(task.spec.op_type for task in tasks)
    assert found["FusionOp_BatchMatMulV2_Add"] == (after == "Add")
    assert found["BatchMatMulV2"] == (1 if after else 2)
    for task in tasks:
        kernels_of(load_profile("Ascend310P3"), task.spec)


def test_instance_norms_keep_the_layout_of_images(tmp_path: Path) -> None:
    """Sums in float32, then the update; what isn't an image stays one operator."""
    network = Network()
    norm = [network.weight(32) for _ in range(2)]
    made = network.node("Conv", "x", network.weight(32, 3, 1, 1))
    output = network.node("InstanceNormalization", made, *norm)
    assert one(tmp_path, network, output) == ["Conv2D", "INTrainingReduceV2", "INTrainingUpdateV2"]
    found = compiled(tmp_path / "net.onnx").network
    (update,) = found.named("INTrainingUpdateV2")
    assert {value.format for value in update.given} == {Format.NC1HWC0}
    assert [each.dtype for each in update.given] == [FLOAT16, *[FLOAT] * 4]
    network = Network()
    rows = network.node("InstanceNormalization", "x", *(network.weight(3) for _ in range(2)))
    file = network.save(tmp_path / "rows.onnx", rows, inputs={"x": [2, 3, 50]})
    assert ops(compiled(file))["InstanceNorm"] == 1


def test_views_of_the_same_planes_keep_the_layout_of_images(tmp_path: Path) -> None:
    """Images of 32 channels as one of 64, planes cut otherwise; 24 channels aren't whole slices."""
    cases = ((32, (1, 64, 8, 8), 2), (24, (1, 48, 8, 8), 4), (24, (2, 24, 4, 16), 2))
    for channels, shape, turned in (*cases, (32, (2, 64, 4, 8), 4)):
        network = Network()
        made = network.node("Conv", "x", network.weight(channels, 3, 1, 1))
        viewed = network.node("Reshape", made, network.constant(list(shape)))
        output = network.node("MaxPool", viewed, kernel_shape=[2, 2], strides=[2, 2])
        file = network.save(tmp_path / "net.onnx", output, inputs={"x": [2, 3, 8, 8]})
        assert ops(compiled(file))["TransData"] == turned


def test_volumes_take_sums_and_relu_alone(tmp_path: Path) -> None:
    for behind, wanted in (
        (["Relu"], ["FusionOp_Conv3D_Relu"]),
        (["Sigmoid"], ["Conv3D", "Sigmoid"]),
        (["Relu", "Sigmoid"], ["FusionOp_Conv3D_Relu", "Sigmoid"]),
    ):
        network = Network()
        made = network.node("Conv", "x", network.weight(16, 3, 1, 1, 1))
        for op in behind:
            made = network.node(op, made)
        file = network.save(tmp_path / "net.onnx", made, inputs={"x": [1, 3, 4, 8, 8]})
        found = (task.spec.op_type for task in tasks_of(compiled(file).network))
        assert [op for op in found if op not in ("Cast", "TransData")] == wanted


def test_sequences_are_images_of_one_row(tmp_path: Path) -> None:
    network = Network()
    rows = [network.weight(3) for _ in range(4)]
    output = network.node("BatchNormalization", network.node("Relu", "x"), *rows)
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [1, 3, 50]})
    (norm,) = compiled(file).network.named("BNInfer")
    assert norm.given[0].shape == (1, 3, 1, 50)
    assert {value.format for value in norm.given} == {Format.NC1HWC0}


def test_volumes_are_normalised_as_convolutions_leave_them(tmp_path: Path) -> None:
    network = Network()
    made = network.node("Relu", network.node("Conv", "x", network.weight(16, 3, 1, 1, 1)))
    output = network.node("BatchNormalization", made, *(network.weight(16) for _ in range(4)))
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [1, 3, 4, 8, 8]})
    (norm,) = compiled(file).network.named("BNInfer")
    assert {value.format for value in norm.given} == {Format.NDC1HWC0}


def test_tensors_that_others_read_stay_apart(tmp_path: Path) -> None:
    """A result that is needed twice, or given out, can't go into the kernel behind it."""
    network = Network()
    made = network.node("Conv", "x", network.weight(16, 3, 1, 1))
    output = network.node("Mul", network.node("Relu", made), made)
    assert one(tmp_path, network, output) == ["Conv2D", "FusionOp_Relu_Mul"]


def test_chains_are_as_long_as_the_page_says(tmp_path: Path) -> None:
    network = Network("FLOAT16")
    x = "x"
    for _ in range(8):
        x = network.node("Abs", x)
    assert one(tmp_path, network, x) == ["FusionOp_Abs_Abs_Abs_Abs_Abs_Abs", "FusionOp_Abs_Abs"]


@pytest.mark.parametrize(("gate", "wanted"), [("Sigmoid", "Swish"), ("HardSigmoid", "HardSwish")])
def test_gates_are_activations(tmp_path: Path, gate: str, wanted: str) -> None:
    network = Network("FLOAT16")
    assert one(tmp_path, network, network.node("Mul", "x", network.node(gate, "x"))) == [wanted]


def test_gelu_by_tanh(tmp_path: Path) -> None:
    network = Network("FLOAT16")
    cube = network.node("Mul", network.node("Mul", "x", "x"), "x")
    inner = network.node("Add", "x", network.node("Mul", cube, network.number(0.044715)))
    inner = network.node("Tanh", network.node("Mul", inner, network.number(0.7978845608)))
    gate = network.node("Add", inner, network.number(1))
    output = network.node("Mul", network.node("Mul", "x", network.number(0.5)), gate)
    assert one(tmp_path, network, output) == ["FastGeluV2"]
    exact = Target("310P", fast=frozenset())
    assert one(tmp_path, network, output, target=exact) == ["Gelu"]


@pytest.mark.parametrize("family", ["310P", "910"])
def test_sigmoid_in_its_faster_implementation(tmp_path: Path, family: str) -> None:
    """Behind a convolution and alone, on the chips that have one."""
    network = Network("FLOAT16")
    made = network.node("Conv", "x", network.weight(32, 3, 1, 1))
    gated = network.node("Mul", made, network.node("Sigmoid", made))
    output = network.node("Sigmoid", network.node("Softmax", gated))
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [1, 3, 8, 8]})
    found = compiled(file, Target(family, fast=frozenset(["Sigmoid"]))).network
    (fused,), (alone,) = (found.named(op) for op in ("FusionOp_Conv2D_Swish", "Sigmoid"))
    asked = {"impl_mode": "high_performance"} if family == "310P" else {}
    assert fused.attributes["parts"] == (("Swish", asked),)
    assert alone.attributes == asked


def test_numbers_that_only_look_alike_aren_t_gelu(tmp_path: Path) -> None:
    network = Network()
    inner = network.node("Erf", network.node("Div", "x", network.number(2)))
    gate = network.node("Mul", "x", network.node("Add", inner, network.number(1)))
    output = network.node("Mul", gate, network.number(0.5))
    assert "Gelu" not in one(tmp_path, network, output)


def test_the_same_work_is_done_once(tmp_path: Path) -> None:
    network = Network()
    output = network.node("Add", network.node("Softmax", "x"), network.node("Softmax", "x"))
    assert one(tmp_path, network, output) == ["SoftmaxV2", "Add"]


def test_channels_that_fill_blocks_are_joined_in_blocks(tmp_path: Path) -> None:
    """A concatenation of 16 and 32 channels needs no other layout; one of 3 and 16 does."""
    for channels, turned in ((16, 2), (3, 3)):
        network = Network()
        parts = [
            network.node("Conv", "x", network.weight(each, 3, 1, 1)) for each in (channels, 32)
        ]
        output = network.node("Concat", *parts, axis=1)
        found = ops(compiled(network.save(tmp_path / "net.onnx", output)))
        assert found["TransData"] == turned


def test_precision_is_kept_where_it_is_asked(tmp_path: Path) -> None:
    file = encoder(tmp_path / "net.onnx")
    half, whole = (
        {value.dtype for node in compiled(file, each).network.nodes for value in node.outputs}
        for each in (OFFLINE, Target("310P", precision="origin"))
    )
    assert half == {FLOAT16, FLOAT}
    assert whole == {FLOAT}


def test_memory_is_what_lives_at_once(tmp_path: Path) -> None:
    """A chain needs input and output of one operator, whatever its length."""
    network = Network("FLOAT16")
    x = "x"
    for _ in range(5):
        x = network.node("Softmax", x)
    found = compiled(network.save(tmp_path / "net.onnx", x)).network
    image_bytes = 3 * 224 * 224 * 2
    # The caller keeps the input while the chain runs.
    assert max(alive_bytes(found.ordered(), found)) == 3 * image_bytes
    assert weights_bytes(found) == 0


def test_weights_are_counted_once_in_their_format(tmp_path: Path) -> None:
    network = Network()
    shared = network.weight(20, 3, 1, 1)
    output = network.node("Concat", network.node("Conv", "x", shared), network.node(
        "Conv", network.node("Exp", "x"), shared), axis=0)  # fmt: skip
    found = compiled(network.save(tmp_path / "net.onnx", output)).network
    assert weights_bytes(found) == 32 * 16 * 2


def test_results_leave_their_layout_before_they_are_widened(tmp_path: Path) -> None:
    """TransData of float16, then the cast to what the caller wants, behind resizing too."""
    network = Network()
    weight = network.weight(40, 3, 3, 3)
    made = network.node("Conv", "x", weight, kernel_shape=[3, 3], pads=[1] * 4)
    found = compiled(network.save(tmp_path / "net.onnx", made))
    *_, turned, cast = tasks_of(found.network)
    assert (turned.spec.op_type, cast.spec.op_type) == ("TransData", "Cast")
    assert turned.spec.outputs[0].dtype is FLOAT16
    sizes = network.constant([1, 40, 448, 448])
    larger = network.node("Resize", made, "", "", sizes, mode="linear")
    found = compiled(network.save(tmp_path / "larger.onnx", larger))
    ops = [task.spec.op_type for task in tasks_of(found.network)]
    assert ops[-3:] == ["ResizeBilinearV2", "TransData", "Cast"]


def test_what_nodes_become_on_the_device(tmp_path: Path) -> None:
    """Operators of ONNX that have none of their own on the device, by those that do their work."""
    network = Network()
    sizes = network.constant([0, 0, 1, -1, 0, 0, 0, 2])
    made = {
        "DepthToSpace": network.node("DepthToSpace", network.node("Concat", *"xxxx", axis=1),
                                     blocksize=2, mode="CRD"),
        "SpaceToDepth": network.node("SpaceToDepth", "x", blocksize=2),
        "Pad": network.node("Pad", "x", sizes),
        "pool": network.node("AveragePool", "x", kernel_shape=[224, 224]),
        "small windows": network.node("MaxPool", "x", kernel_shape=[15, 17], strides=[63, 63]),
        "large windows": network.node("AveragePool", "x", kernel_shape=[16, 16], strides=[8, 8]),
        "far apart": network.node("MaxPool", "x", kernel_shape=[3, 3], strides=[64, 1],
                                  pads=[1, 0, 1, 1]),
        "BatchNormalization": network.node(
            "BatchNormalization", network.node("Flatten", "x"),
            *(network.weight(3 * 224 * 224) for _ in range(4))),
        "ReduceL2": network.node("ReduceL2", "x", axes=[3]),
        "ReduceLogSumExp": network.node("ReduceLogSumExp", "x", axes=[3]),
    }  # fmt: skip
    want = {
        "DepthToSpace": (["ConcatD", "TransposeD"], (1, 3, 448, 448)),
        "SpaceToDepth": (["TransposeD"], (1, 12, 112, 112)),
        "Pad": (["StridedSliceD", "PadD"], (1, 3, 225, 225)),
        "pool": (["ReduceMeanD"], (1, 3, 1, 1)),
        "small windows": (["MaxPoolV3"], (1, 3, 4, 4)),
        "large windows": (["TransposeD", "AvgPool", "TransposeD"], (1, 3, 27, 27)),
        "far apart": (["TransposeD", "PadD", "MaxPool", "TransposeD"], (1, 3, 4, 223)),
        "BatchNormalization": (["Mul", "Add"], (1, 3 * 224 * 224)),
        "ReduceL2": (["Square", "ReduceSumD", "Sqrt"], (1, 3, 224, 1)),
        "ReduceLogSumExp": (["Exp", "ReduceSumD", "Log"], (1, 3, 224, 1)),
    }
    for name, output in made.items():
        found = compiled(network.save(tmp_path / f"{name}.onnx", output))
        kinds = [task.spec.op_type for task in tasks_of(found.network)]
        (result,) = found.network.outputs
        parts = [part for op in kinds for part in op.removeprefix("FusionOp_").split("_")]
        kept = [op for op in parts if op not in ("Cast", "TransData")]
        assert (kept, result.shape) == want[name], name


def test_weights_under_another_name_are_the_same_weights(tmp_path: Path) -> None:
    """Exporters name those that layers share once for each layer."""
    network = Network("FLOAT16")
    weight = network.absent(224, 224)
    first = network.node("MatMul", "x", weight)
    output = network.node("MatMul", first, network.node("Identity", weight))
    found = compiled(network.save(tmp_path / "shared.onnx", output)).network
    products = [task for task in tasks_of(found) if "MatMul" in task.spec.op_type]
    assert len(products) == 2
    assert len({task.reads[1] for task in products}) == 1


def test_frames_of_planes_lie_around_images_as_they_are(tmp_path: Path) -> None:
    """Behind a convolution no TransData stands before a frame; around channels one does."""
    for sizes, form in (([0, 0, 1, 2], Format.NC1HWC0), ([0, 1, 0, 0], Format.ND)):
        network = Network("FLOAT16")
        made = network.node("Conv", "x", network.weight(16, 3, 1, 1))
        framed = network.node("Pad", network.node("Sin", made), network.constant([0] * 4 + sizes))
        output = network.node("Conv", framed, network.weight(16, 16 + sizes[1], 1, 1))
        found = compiled(network.save(tmp_path / f"{form.name}.onnx", output)).network
        (task,) = (task for task in tasks_of(found) if task.spec.op_type == "PadD")
        assert task.node.output.format is form
        height, width = 224 + sizes[2], 224 + sizes[3]
        rows, columns = task.spec.outputs[0].shape[2:4]
        assert (rows, columns) == (height, width)
        (kernel,) = kernels_of(load_profile("Ascend310P3"), task.spec)
        assert kernel.writes[0].numel == task.spec.outputs[0].numel


def test_matrices_of_a_norm_are_whole_fractals(tmp_path: Path) -> None:
    """Else LayerNorm works on rows as they are, beside products in fractals."""
    formats = []
    for tokens, width in ((96, 312), (42, 320), (96, 320)):
        network = Network()
        rows = network.node("Reshape", "x", network.constant([-1, tokens, 224]))
        x = network.node("MatMul", rows, network.weight(224, width))
        less = network.node("Sub", x, network.node("ReduceMean", x, axes=[2]))
        power = network.node("ReduceMean", network.node("Pow", less, network.number(2)), axes=[2])
        root = network.node("Sqrt", network.node("Add", power, network.number(1e-5)))
        norm = network.node("Mul", network.node("Div", less, root), network.weight(width))
        out = network.node("Add", norm, network.weight(width))
        found = compiled(network.save(tmp_path / "net.onnx", out)).network
        formats += [node.output.format for node in found.named("LayerNorm")]
    assert formats == [Format.ND, Format.ND, Format.FRACTAL_NZ]


def _branches(widths: tuple[int, ...], activation: str = "Relu") -> tuple[Network, list[str]]:
    """Convolutions of one image, side by side."""
    network = Network("FLOAT16")
    made = [network.node("Conv", "x", network.weight(each, 3, 1, 1)) for each in widths]
    return network, [network.node(activation, each) for each in made]


@pytest.mark.parametrize("images", [1, 4])
@pytest.mark.parametrize(
    ("widths", "joined"), [((16, 48, 16), False), ((16, 32, 7), False), ((16, 7, 32), True)]
)
def test_convolutions_write_into_what_joins_them(
    tmp_path: Path, images: int, widths: tuple[int, ...], joined: bool
) -> None:
    """If channels before the last part are whole blocks; one image lies so in any case."""
    network, parts = _branches(widths)
    output = network.node("MaxPool", network.node("Concat", *parts, axis=1), kernel_shape=[2, 2])
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [images, 3, 8, 8]})
    assert ops(compiled(file))["ConcatD"] == (joined and images > 1)
    assert ops(compiled(file, Target("A2")))["ConcatD"] == (images > 1)


def test_what_others_read_too_is_joined_by_a_task(tmp_path: Path) -> None:
    """And so are parts of which some are cut off and some aren't."""
    for twice, activation in ((True, "Relu"), (False, "Sigmoid")):
        network, parts = _branches((16, 16), activation)
        together = network.node("Concat", *parts, axis=1)
        output = network.node("Add", together, network.node("Concat", parts[1], parts[1], axis=1))
        file = network.save(
            tmp_path / "net.onnx", output if twice else together, inputs={"x": [2, 3, 8, 8]}
        )
        assert ops(compiled(file))["ConcatD"] == (2 if twice else 1)


@pytest.mark.parametrize(("images", "tasks"), [(1, 0), (2, 1)])
def test_one_image_is_joined_and_split_where_it_lies(
    tmp_path: Path, images: int, tasks: int
) -> None:
    network = Network("FLOAT16")
    whole = network.node("MaxPool", network.node("Conv", "x", network.weight(32, 3, 1, 1)),
                         kernel_shape=[2, 2])  # fmt: skip
    left, right = network.node("Split", whole, outputs=2, axis=1)
    pooled = [network.node("MaxPool", each, kernel_shape=[2, 2]) for each in (left, right)]
    output = network.node("MaxPool", network.node("Concat", *pooled, axis=1), kernel_shape=[2, 2])
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [images, 3, 16, 16]})
    found = compiled(file)
    assert ops(found)["ConcatD"] == ops(found)["SplitD"] == tasks
    reads = {name for task in tasks_of(found.network) for name in task.reads}
    writes = {name for task in tasks_of(found.network) for name in task.writes}
    known = {value.name for node in found.network.nodes for value in node.given if value.weight}
    assert reads <= writes | known | {"x"}


def test_a_part_of_something_is_joined_by_a_task(tmp_path: Path) -> None:
    """It lies where the other parts of what it is split from do."""
    network = Network("FLOAT16")
    whole = network.node("Conv", "x", network.weight(32, 3, 1, 1))
    left, right = network.node("Split", whole, outputs=2, axis=1)
    pooled = network.node("MaxPool", right, kernel_shape=[1, 1])
    output = network.node("MaxPool", network.node("Concat", left, pooled, axis=1),
                          kernel_shape=[2, 2])  # fmt: skip
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [1, 3, 16, 16]})
    found = ops(compiled(file))
    assert (found["SplitD"], found["ConcatD"]) == (0, 1)


def test_pieces_live_in_what_they_are_pieces_of(tmp_path: Path) -> None:
    """Memory for the joined tensor is there from its first piece on, and once."""
    network, parts = _branches((16, 16))
    output = network.node("MaxPool", network.node("Concat", *parts, axis=1), kernel_shape=[8, 8],
                          strides=[8, 8])  # fmt: skip
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [2, 3, 64, 64]})
    found = compiled(file).network
    plane_bytes = 2 * 64 * 64 * 2
    image, piece = 3 * plane_bytes, 16 * plane_bytes
    # The image in blocks of channels is read by both convolutions.
    assert max(alive_bytes(found.ordered(), found)) == image + 16 * plane_bytes + 2 * piece


@pytest.mark.parametrize(
    ("width", "kernel", "between", "merged"),
    [(32, 3, "Relu", True), (24, 3, "Relu", False), (32, 1, "Relu", False),
     (32, 3, "Sigmoid", False)],
)  # fmt: skip
def test_convolutions_of_one_image_are_one_where_others_follow(
    tmp_path: Path, width: int, kernel: int, between: str, merged: bool
) -> None:
    """If their windows are alike and their channels whole blocks; the next ones read their own."""
    network, towers = Network("FLOAT16"), []
    for channels, taps in ((16, 3), (width, kernel)):
        pads = [taps // 2] * 4
        made = network.node("Conv", "x", network.weight(channels, 16, taps, taps), pads=pads)
        weight = network.weight(16, channels, 1, 1)
        towers.append(
            network.node("Relu", network.node("Conv", network.node(between, made), weight))
        )
    joined = network.node("Concat", *towers, axis=1)
    file = network.save(tmp_path / "net.onnx", joined, inputs={"x": [2, 16, 8, 8]})
    found = tasks_of(compiled(file).network)
    convolutions = [task for task in found if "Conv2D" in task.spec.op_type]
    assert len(convolutions) == (3 if merged else 4)
    assert not any(task.spec.op_type.startswith("Split") for task in found)
    if merged:
        wide, *others = (task.spec for task in convolutions)
        assert wide.outputs[0].shape == (2, 3, 8, 8, 16)
        assert [spec.inputs[0].shape[1] for spec in others] == [1, 2]
        assert {task.reads[0] for task in convolutions[1:]} == {convolutions[0].writes[0]}


def test_places_of_largest_elements_are_cast(tmp_path: Path) -> None:
    """Where the AI Core finds them as INT32 alone."""
    network = Network()
    output = network.node("Cast", network.node("ArgMax", "x", axis=1), to=1)
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": [2, 21, 8, 8]})
    for family, dtype in (("310P", INT32), ("A2", INT64)):
        found = [task.spec for task in tasks_of(compiled(file, Target(family)).network)]
        (search,) = (spec for spec in found if spec.op_type == "ArgMaxV2")
        widened = [
            spec for spec in found if spec.op_type == "Cast" and spec.outputs[0].dtype is INT64
        ]
        assert search.outputs[0].dtype is dtype
        assert len(widened) == (dtype is INT32)


def test_norms_of_images_take_relu_in(tmp_path: Path) -> None:
    network = Network("FLOAT16")
    rows = [network.weight(16) for _ in range(4)]
    pooled = network.node("MaxPool", network.node("Conv", "x", network.weight(16, 3, 1, 1)),
                          kernel_shape=[2, 2])  # fmt: skip
    normal = network.node("BatchNormalization", pooled, *rows)
    assert one(tmp_path, network, network.node("Relu", normal))[-1] == "FusionOp_BNInfer_Relu"
    assert one(tmp_path, network, network.node("Exp", normal))[-2:] == ["BNInfer", "Exp"]
