"""ONNX operators that become several of the device's, or that ONNX itself says by others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim.graph.mapping import map_operators
from npusim.graph.onnx_reader import read
from npusim.values.errors import ArgumentError
from support.networks import Network

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from npusim.graph import network

IMAGES: dict[str, Sequence[int | str]] = {"x": [2, 6, 8, 8]}


def mapped(tmp_path: Path, made: Network, output: str, **shapes: Sequence[int]) -> network.Network:
    file = made.save(tmp_path / "net.onnx", output, inputs={**(shapes or IMAGES)})
    found, _ = read(file)
    map_operators(found)
    return found


def names(found: network.Network) -> list[str]:
    return [node.op for node in found.ordered()]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "wanted"),
    [
        ("LayerNormalization", [(8,), (8,)], {"axis": -1}, ["LayerNorm"]),
        ("LayerNormalization", [(8, 8)], {"axis": 2}, ["LayerNorm"]),
        ("LpNormalization", [], {"axis": 1}, ["Square", "ReduceSumD", "Sqrt", "RealDiv"]),
        ("Trilu", [], {"upper": 0}, ["Tril"]),
        ("Celu", [], {}, ["Identity", "RealDiv", "Elu", "Mul"]),  # a function of ONNX, by default
        ("Mish", [], {}, ["Mish"]),  # a function too, but the device has it
    ],
)
def test_single_nodes(
    tmp_path: Path,
    op: str,
    inputs: Sequence[Sequence[int]],
    attributes: Mapping[str, Any],
    wanted: Sequence[str],
) -> None:
    made = Network(opset=18)
    weights = [made.weight(*shape) for shape in inputs]
    found = mapped(tmp_path, made, made.node(op, "x", *weights, **attributes))
    assert [each for each in names(found) if each != "Identity"] == [
        each for each in wanted if each != "Identity"
    ]
    assert found.outputs[0].shape == (2, 6, 8, 8)


def test_updates_go_into_a_copy(tmp_path: Path) -> None:
    made = Network(opset=16)
    indices = made.constant([[0], [1]])
    scattered = made.node("ScatterND", "x", indices, "u")
    found = mapped(tmp_path, made, scattered, x=[4, 3], u=[2, 3])
    assert names(found) == ["TensorMove", "ScatterNdUpdate"]
    made = Network(opset=16)
    scattered = made.node("ScatterND", "x", made.constant([[0], [1]]), "u", reduction="mul")
    with pytest.raises(ArgumentError, match="reduction mul"):
        mapped(tmp_path, made, scattered, x=[4, 3], u=[2, 3])


def test_places_in_images(tmp_path: Path) -> None:
    made = Network(opset=16)
    found = mapped(
        tmp_path, made, made.node("GridSample", "x", "g"), x=[1, 4, 8, 8], g=[1, 5, 5, 2]
    )
    assert names(found) == ["GridSampler2D"]
    made = Network(opset=16)
    images = made.constant([0, 0])
    bins = made.node("RoiAlign", "x", "b", images, output_height=3, output_width=2)
    found = mapped(tmp_path, made, bins, x=[1, 4, 8, 8], b=[2, 4])
    assert "ROIAlign" in names(found)
    assert found.outputs[0].shape == (2, 4, 3, 2)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bind,jd->bnij", [(2, 3, 4, 5), (6, 5)]),
        ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)]),
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("ij,k->ikj", [(2, 3), (4,)]),
        ("ijk->ki", [(2, 3, 4)]),
        ("i,i->", [(5,), (5,)]),
        ("ab,bc,cd->da", [(2, 3), (3, 4), (4, 5)]),
        ("abc,bd->a", [(2, 3, 4), (3, 5)]),
    ],
)
def test_einsum_is_a_product_between_transpositions(
    tmp_path: Path, equation: str, shapes: Sequence[Sequence[int]]
) -> None:
    made = Network()
    given = [f"x{place}" for place in range(len(shapes))]
    out = made.node("Einsum", *given, equation=equation)
    found = mapped(tmp_path, made, out, **dict(zip(given, shapes, strict=True)))
    generator = np.random.default_rng(0)
    fed = [generator.standard_normal(shape) for shape in shapes]
    assert "Einsum" not in names(found)
    got = _computed(found, dict(zip((each.name for each in found.inputs), fed, strict=True)))
    np.testing.assert_allclose(got, np.einsum(equation, *fed), atol=1e-12)


_NUMPY: dict[str, Any] = {
    "Identity": lambda _, x: x,
    "Reshape": lambda node, x: x.reshape(node.output.shape),
    "TransposeD": lambda node, x: x.transpose(node.attributes["perm"]),
    "ReduceSumD": lambda node, x: x.sum(tuple(node.attributes["axes"])),
    "MatMulV2": lambda _, a, b: a @ b,
    "BatchMatMulV2": lambda _, a, b: a @ b,
}


def _computed(found: network.Network, values: dict[str, Any]) -> Any:
    for node in found.ordered():
        given = [values[value.name] for value in node.given]
        values[node.output.name] = _NUMPY[node.op](node, *given)
        assert values[node.output.name].shape == node.output.shape
    return values[found.outputs[0].name]


def test_a_diagonal_is_refused(tmp_path: Path) -> None:
    made = Network()
    with pytest.raises(ArgumentError, match="takes a diagonal"):
        mapped(tmp_path, made, made.node("Einsum", "x", equation="ii->i"), x=[3, 3])


def test_lists_of_tensors_are_the_tensors(tmp_path: Path) -> None:
    """Two parts, one of them taken out and put in front, joined again."""
    made = Network()
    parts = made.node("SplitToSequence", "x", made.constant(3), axis=1)
    last = made.node("SequenceAt", parts, made.constant(-1))
    rest = made.node("SequenceErase", parts, made.constant(1))
    both = made.node("SequenceInsert", rest, made.node("Relu", last), made.constant(0))
    found = mapped(tmp_path, made, made.node("ConcatFromSequence", both, axis=1))
    assert [each for each in names(found) if each != "Identity"] == ["SplitD", "Relu", "ConcatD"]
    assert found.outputs[0].shape == (2, 6, 8, 8)


def test_shapes_that_are_known_late_are_known(tmp_path: Path) -> None:
    """Inference has an open axis first; what makes its size is folded afterwards."""
    made = Network()
    size = made.node("Shape", made.node("Concat", "x", "x", axis=0))
    many = made.node("Gather", size, made.constant([0]))
    filled = made.node("ConstantOfShape", many)
    found = mapped(tmp_path, made, made.node("Unsqueeze", filled, made.constant([1])))
    assert found.outputs[0].shape == (4, 1)


def test_nothing_is_joined_to_nothing(tmp_path: Path) -> None:
    from npusim.graph.compiling import compile_network
    from npusim.graph.lowering import tasks_of
    from npusim.graph.target import Target

    made = Network()
    none = made.node("Slice", "x", *(made.constant([each]) for each in (0, 0, 1)))
    file = made.save(tmp_path / "net.onnx", made.node("Concat", none, "x", axis=1), inputs=IMAGES)
    tasks = list(tasks_of(compile_network(read(file)[0], Target("310P")).network))
    assert not [task.spec.op_type for task in tasks if task.spec.op_type != "Cast"]
