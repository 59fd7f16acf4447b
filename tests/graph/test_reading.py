"""ONNX files as networks: axes bound, shape arithmetic folded, what can't be known named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper

from fuzz.public_graphs import faults, shipped
from npusim.graph.onnx_reader import read
from npusim.hardware import load_profile
from npusim.model import read_model, retime
from npusim.model.graph_model import Compilation
from npusim.operators.tasks import TaskSpec
from npusim.values.dtypes import FLOAT, FLOAT16, INT32, INT64
from npusim.values.errors import ArgumentError, FileError
from support.networks import Network, encoder, resnet50

if TYPE_CHECKING:
    from pathlib import Path


def test_a_named_first_axis_is_the_batch(tmp_path: Path) -> None:
    file = resnet50(tmp_path / "net.onnx", "FLOAT", "N")
    network, batch = read(file)
    assert batch == 1
    network, batch = read(file, batch=4)
    assert batch == 4
    assert network.inputs[0].shape == (4, 3, 224, 224)
    assert network.outputs[0].shape == (4, 10)
    assert read(file, shapes={"x": (2, 3, 224, 224)})[1] == 2


def test_a_fixed_batch_is_kept(tmp_path: Path) -> None:
    file = resnet50(tmp_path / "net.onnx", "FLOAT", 8)
    assert read(file)[1] == 8
    assert read(file, batch=8)[1] == 8
    with pytest.raises(ArgumentError, match="fixed at 8, it can't be 3"):
        read(file, batch=3)


def test_other_open_axes_are_asked_for(tmp_path: Path) -> None:
    network = Network()
    file = network.save(
        tmp_path / "net.onnx", network.node("Relu", "x"), inputs={"x": ["n", 3, "s"]}
    )
    with pytest.raises(FileError, match="leaves 1 axes of its input x open: s") as caught:
        read(file)
    assert "--shape x=1,3,?" in caught.value.remedy
    found, _ = read(file, shapes={"x": (2, 3, 50)})
    assert found.outputs[0].shape == (2, 3, 50)


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ({"y": (1, 3, 5)}, "no input y"),
        ({"x": (1, 3)}, r"is \[n,3,s\], not \[1,3\]"),
        ({"x": (1, 4, 5)}, r"not \[1,4,5\]"),
        ({"x": (0, 3, 5)}, r"not \[0,3,5\]"),
    ],
)
def test_shapes_must_fit_the_inputs(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], problem: str
) -> None:
    network = Network()
    file = network.save(
        tmp_path / "net.onnx", network.node("Relu", "x"), inputs={"x": ["n", 3, "s"]}
    )
    with pytest.raises(ArgumentError, match=problem):
        read(file, shapes=shapes)


def test_one_name_is_one_size(tmp_path: Path) -> None:
    network = Network()
    output = network.node("Relu", "x")
    file = network.save(tmp_path / "net.onnx", output, inputs={"x": ["s", "s"]})
    with pytest.raises(ArgumentError, match="the axis s is 2 and 3"):
        read(file, shapes={"x": (2, 3)})


def test_shape_arithmetic_is_folded(tmp_path: Path) -> None:
    """View as exporters write it: the shape of the input, a part of it, joined with a number."""
    network = Network()
    first = network.node("Gather", network.node("Shape", "x"), network.constant(0))
    first = network.node("Unsqueeze", first, network.constant([0]))
    shape = network.node("Concat", first, network.constant([-1]), axis=0)
    file = network.save(tmp_path / "net.onnx", network.node("Reshape", "x", shape))
    found, _ = read(file)
    assert [node.op for node in found.nodes] == ["Reshape"]
    assert found.outputs[0].shape == (1, 3 * 224 * 224)


def test_a_branch_with_a_known_condition_is_taken(tmp_path: Path) -> None:
    network = Network()
    bodies = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [inner], inner)], name, [], [
                helper.make_tensor_value_info(inner, TensorProto.FLOAT, None)
            ],
        )
        for name, op, inner in (("then", "Relu", "yes"), ("else", "Sigmoid", "no"))
    }  # fmt: skip
    condition = network.node("Equal", network.constant(2), network.constant(3))
    output = network.node("If", condition, **bodies)
    found, _ = read(network.save(tmp_path / "net.onnx", output))
    assert sorted(node.op for node in found.nodes) == ["Identity", "Sigmoid"]


def rounds(network: Network, count: str) -> list[str]:
    """A Loop that multiplies and keeps what it had in each round."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["v", network.weight(16, 16)], ["m"]),
            helper.make_node("Relu", ["m"], ["w"]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "round",
        [info("k", 7, []), info("c", 9, []), info("v", 1, [8, 16])],
        [info("d", 9, []), info("w", 1, [8, 16]), info("m", 1, [8, 16])],
    )
    made: list[str] = network.node("Loop", count, "", "x", outputs=2, body=body)
    return made


def test_the_rounds_of_a_loop_are_unrolled(tmp_path: Path) -> None:
    network = Network()
    outputs = rounds(network, network.constant(3))
    found, _ = read(network.save(tmp_path / "net.onnx", *outputs, inputs={"x": [8, 16]}))
    ops = [node.op for node in found.ordered()]
    assert [ops.count(op) for op in ("MatMul", "Relu", "Loop", "Concat")] == [3, 3, 0, 1]
    assert [value.shape for value in found.outputs] == [(8, 16), (3, 8, 16)]


def test_a_loop_may_go_on_by_a_constant_outside_of_it(tmp_path: Path) -> None:
    network = Network()
    true = network.node("Cast", network.constant(1), to=TensorProto.BOOL)
    outputs = rounds(network, network.constant(2))
    network.nodes[-1].attribute[0].g.node[-1].input[0] = true
    found, _ = read(network.save(tmp_path / "net.onnx", *outputs, inputs={"x": [8, 16]}))
    assert sum(node.op == "MatMul" for node in found.nodes) == 2


def test_a_loop_that_data_end_is_named(tmp_path: Path) -> None:
    network = Network()
    count = network.node("Cast", network.node("ReduceSum", "x", keepdims=0), to=7)
    file = network.save(tmp_path / "net.onnx", *rounds(network, count), inputs={"x": [8, 16]})
    with pytest.raises(FileError, match=r"Loop_2 \(Loop\) runs depends on data"):
        read(file)


def test_a_scan_reads_its_input_part_by_part(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "p"], ["t"]), helper.make_node("Relu", ["t"], ["y"])],
        "part",
        [info("s", 1, [4]), info("p", 1, [4])],
        [info("t", 1, [4]), info("y", 1, [4])],
    )
    network = Network()
    outputs = network.node("Scan", "h", "x", outputs=2, body=body, num_scan_inputs=1)
    file = network.save(tmp_path / "net.onnx", *outputs, inputs={"h": [4], "x": [5, 4]})
    found, _ = read(file)
    assert sum(node.op == "Add" for node in found.nodes) == 5
    assert [value.shape for value in found.outputs] == [(4,), (5, 4)]


def test_what_depends_on_data_is_named(tmp_path: Path) -> None:
    network = Network()
    places = network.node("NonZero", "x")
    file = network.save(tmp_path / "net.onnx", network.node("Transpose", places))
    with pytest.raises(
        FileError, match=r"the shape of t0 isn't known.*NonZero_0 \(NonZero\)"
    ) as why:
        read(file)
    assert "--shape t0=4,N" in why.value.remedy


def test_a_size_that_data_decides_can_be_said(tmp_path: Path) -> None:
    network = Network()
    turned = network.node("Transpose", network.node("NonZero", "x"))
    file = network.save(tmp_path / "net.onnx", network.node("Cast", turned, to=TensorProto.FLOAT))
    found, _ = read(file, shapes={"t0": (4, 300)})
    assert found.outputs[0].shape == (300, 4)


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ({"t0": (3, 300)}, r"t0 is \[4,N\], not \[3,300\]"),
        ({"t0": (300,)}, r"t0 is \[4,N\], not \[300\]"),
        ({"t0": (4, 0)}, r"not \[4,0\]"),
        ({"t1": (5, 300)}, r"t1 is \[1,3,224,224\], not \[5,300\]"),
        ({"t7": (4, 300)}, "no input t7 and no value of that name"),
    ],
)
def test_only_sizes_that_data_decides_can_be_said(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], problem: str
) -> None:
    network = Network()
    places, same = network.node("NonZero", "x"), network.node("Relu", "x")
    places = network.node("Cast", places, to=TensorProto.FLOAT)
    file = network.save(tmp_path / "net.onnx", places, same)
    with pytest.raises(ArgumentError, match=problem):
        read(file, shapes=shapes)


def test_a_detector_is_timed_with_so_many_boxes_as_are_said(tmp_path: Path) -> None:
    """Its suppression counts in int32 and keeps float32 thresholds."""
    network = Network()
    limits = [network.constant([100]), *(network.constant([x], np.float32) for x in (0.5, 0.1))]
    chosen = network.node("NonMaxSuppression", "x", "scores", *limits)
    image = network.node("Gather", chosen, network.constant(2), axis=1)
    inputs = {"x": [1, 1000, 4], "scores": [1, 8, 1000]}
    file = network.save(
        tmp_path / "net.onnx", network.node("Gather", "x", image, axis=1), inputs=inputs
    )
    chip = load_profile("Ascend310P3")
    how = Compilation(shapes={chosen: (300, 3)})
    step = read_model(file, how=how).at(chip=chip)
    work = next(item.work for item in step.items if item.op == "NonMaxSuppressionV6")
    assert isinstance(work, TaskSpec)
    kinds = [each.dtype for each in work.inputs if each is not None]
    assert kinds == [FLOAT16, FLOAT16, INT64, FLOAT, FLOAT]
    assert [(each.shape, each.dtype) for each in work.outputs] == [((300, 3), INT32)]
    found = retime(step, chip)
    assert found.runs
    assert f"{chosen} is [300, 3], as said (--shape): its size depends on data" in found.assumptions
    assert step.items[-1].outputs[0].shape == (1, 300, 4)


def test_weights_need_no_contents(tmp_path: Path) -> None:
    found, batch = read(encoder(tmp_path / "net.onnx"), batch=2)
    assert batch == 2
    weights = [value for node in found.nodes for value in node.given if value.weight]
    assert any(value.contents is None and value.shape == (64, 256) for value in weights)
    assert any(value.scalar() == pytest.approx(2**0.5) for value in weights)


def test_edges_are_true_whatever_is_edited(tmp_path: Path) -> None:
    found, _ = read(encoder(tmp_path / "net.onnx", layers=2))
    order = found.ordered()
    assert len(order) == len(found)
    place = {id(node): number for number, node in enumerate(order)}
    for node in order:
        for value in node.given:
            assert node in value.users
            assert value.maker is None or place[id(value.maker)] < place[id(node)]
    some = next(node for node in order if node.op == "Softmax")
    found.replace([some], "Relu", some.inputs, some.outputs)
    found.outputs = [some.output]
    found.prune()
    assert len(found) < len(order) / 2
    assert {node.op for node in found.nodes} >= {"Relu", "MatMul"}


def test_a_wide_file_is_read_in_no_time(tmp_path: Path) -> None:
    """A deep stack of layers stays linear: twice the layers are about twice the nodes."""
    small, large = (read(encoder(tmp_path / f"{n}.onnx", layers=n))[0] for n in (2, 4))
    assert np.isclose(len(large) / len(small), 2, atol=0.1)


def test_public_graphs_get_an_answer_or_a_sentence() -> None:
    """A part of the models in the onnx package; `tests/fuzz/public_graphs.py` reads all."""
    small = [file for file in shipped() if file.stat().st_size < 20_000]
    counts, found = faults(small[:: max(1, len(small) // 30)])
    assert not found
    assert counts["answer"] > 20


def _made(*nodes: object, inputs: dict[str, object] | None = None, weights: object = ()) -> bytes:
    """A model of some nodes; shapes of inputs, or what the tensor's type is."""
    given = {"x": [1, 3, 8, 8]} if inputs is None else inputs
    info = [
        helper.make_tensor_value_info(name, *((TensorProto.FLOAT, shape)
        if isinstance(shape, list) else (shape, [1])))
        for name, shape in given.items()
    ]  # fmt: skip
    out = [helper.make_tensor_value_info("a", TensorProto.FLOAT, None)]
    graph = helper.make_graph(list(nodes), "g", info, out, list(weights))  # type: ignore[call-overload]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    found: bytes = model.SerializeToString()
    return found


def _weight(*sizes: int, held: int | None = None) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=sizes)
    count = int(np.prod(np.abs(sizes))) if held is None else held
    tensor.raw_data = bytes(4 * count)
    return tensor


def _node(op: str, *inputs: str, out: str = "a", **attributes: object) -> object:
    return helper.make_node(op, list(inputs), [out], f"the_{op}", **attributes)


CONV = _node("Conv", "x", "w")
BROKEN = [
    (_made(_node("Relu", "x"))[:40], "isn't an ONNX model"),
    (_made(_node("Add", "x", "a")), r"a circle of nodes: the_Add \(Add\)"),
    (_made(_node("Add", "x", "b"), _node("Abs", "a", out="b")), "a circle of nodes"),
    (_made(_node("Add", "x", "nowhere")), r"nothing that makes nowhere, which the_Add \(Add\)"),
    (_made(_node("Relu", "x"), _node("Abs", "x")), r"two nodes that make a, .* the_Abs"),
    (_made(_node("Relu", "x", out="b")), "nothing that makes its result a"),
    (_made(_node("Relu", "x"), inputs={"x": 99}), r"no such element type as x's \(99\)"),
    (_made(CONV, weights=[_weight(8, 3, 3, 3, held=5)]), r"hold as many numbers of w"),
    (_made(CONV, weights=[_weight(8, -3, 3, 3)]), r"gives w the shape"),
    (_made(CONV, weights=[_weight(8, 4, 3, 3)]), r"the_Conv.*no weight for \[1, 3, 8, 8\]"),
    (_made(CONV, weights=[_weight(8, 3, 12, 12)]), r"comes to .*-3, -3"),
    (_made(_node("Concat", "x", "x", axis="q")), "attribute axis of the_Concat .* another kind"),
    (_made(_node("DepthToSpace", "x", blocksize=2)), "the_DepthToSpace cuts"),
    (
        _made(_node("BatchNormalization", "x", "w"), weights=[_weight(3)]),
        "has 2 inputs of the_BatchNormalization",
    ),
    (_made(_node("SequenceAt")), "has 0 inputs of the_SequenceAt"),
]


@pytest.mark.parametrize(("content", "says"), BROKEN, ids=[says for _, says in BROKEN])
def test_broken_files_are_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    """Truncated, in circles, without what they read, of no kind or size: named, with a remedy."""
    file = tmp_path / "net.onnx"
    file.write_bytes(content)
    with pytest.raises(FileError, match=says):
        read_model(file).at(None, load_profile("Ascend310P3"))
