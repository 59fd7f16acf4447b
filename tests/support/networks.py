"""ONNX models built node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Network:
    """Nodes with zeros for weights; every node has one output unless it says otherwise."""

    def __init__(self, dtype: str = "FLOAT", opset: int = 13) -> None:
        self.dtype = getattr(TensorProto, dtype)
        self.opset = opset
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        """A weight of zeros."""
        name = f"w{len(self.weights)}"
        width = 4 if self.dtype == TensorProto.FLOAT else 2
        size = width * int(np.prod(shape))
        self.weights.append(helper.make_tensor(name, self.dtype, shape, bytes(size), raw=True))
        return name

    def absent(self, *shape: int) -> str:
        """A weight whose contents are in a file that isn't there."""
        name = self.weight(*shape)
        tensor = self.weights[-1]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="elsewhere")
        return name

    def constant(self, values: Any, kind: Any = np.int64) -> str:
        """A constant with contents."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    def number(self, value: float) -> str:
        """A constant of one number in the network's dtype."""
        kind = np.float32 if self.dtype == TensorProto.FLOAT else np.float16
        return self.constant(value, kind)

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """A node; its output's name, or the names of several."""
        place = len(self.nodes)
        names = [f"t{place}"] if outputs == 1 else [f"t{place}_{each}" for each in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"{op}_{place}", **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x: str, into: int, out: int, kernel: int, stride: int) -> str:
        """A convolution and a batch normalisation."""
        weight = self.weight(out, into, kernel, kernel)
        attributes = {"strides": [stride] * 2, "pads": [kernel // 2] * 4}
        x = self.node("Conv", x, weight, **attributes)
        made: str = self.node("BatchNormalization", x, *(self.weight(out) for _ in range(4)))
        return made

    def save(
        self, path: Path, *outputs: str, inputs: dict[str, Sequence[int | str]] | None = None
    ) -> Path:
        """The file; inputs are images of 3 x 224 x 224 by default, their axes numbers or names."""
        given = {"x": [1, 3, 224, 224]} if inputs is None else inputs
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "network",
            [info(name, self.dtype, list(shape)) for name, shape in given.items()],
            [info(name, self.dtype, None) for name in outputs],
            self.weights,
        )
        opset = [helper.make_opsetid("", self.opset)]
        onnx.save(helper.make_model(graph, opset_imports=opset), str(path))
        return path


def resnet50(path: Path, dtype: str, batch: int | str = 1) -> Path:
    """Blocks, widths and strides of ResNet-50, with narrow layers."""
    network = Network(dtype)
    x = network.node("Relu", network.conv("x", 3, 8, 7, 2))
    x = network.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    into = 8
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 8 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = network.node("Relu", network.conv(x, into, width, 1, 1))
            y = network.node("Relu", network.conv(y, width, width, 3, stride))
            y = network.conv(y, width, 4 * width, 1, 1)
            shortcut = x if block else network.conv(x, into, 4 * width, 1, stride)
            x = network.node("Relu", network.node("Add", y, shortcut))
            into = 4 * width
    x = network.node("Flatten", network.node("GlobalAveragePool", x))
    x = network.node("Gemm", x, network.weight(into, 10), network.weight(10))
    output = network.node("Softmax", x, axis=1)
    return network.save(path, output, inputs={"x": [batch, 3, 224, 224]})


def encoder(path: Path, *, layers: int = 1, width: int = 64, heads: int = 4) -> Path:
    """Layers of a transformer as exporters write them: LayerNorm and Gelu in many nodes."""
    network = Network()
    x = "x"
    for _ in range(layers):
        x = _norm(network, network.node("Add", _attention(network, x, width, heads), x), width)
        y = network.node("MatMul", x, network.absent(width, 4 * width))
        y = _gelu(network, network.node("Add", network.weight(4 * width), y))
        y = network.node("MatMul", y, network.absent(4 * width, width))
        y = network.node("Add", network.weight(width), y)
        x = _norm(network, network.node("Add", y, x), width)
    return network.save(path, x, inputs={"x": ["batch", 32, width]})


def _attention(network: Network, x: str, width: int, heads: int) -> str:
    apart = network.constant([0, -1, heads, width // heads])
    together = network.constant([0, -1, width])

    def projected(order: list[int]) -> str:
        y = network.node("MatMul", x, network.absent(width, width))
        y = network.node("Add", network.weight(width), y)
        made: str = network.node("Transpose", network.node("Reshape", y, apart), perm=order)
        return made

    scores = network.node("MatMul", projected([0, 2, 1, 3]), projected([0, 2, 3, 1]))
    scores = network.node("Div", scores, network.number((width // heads) ** 0.5))
    weighted = network.node("MatMul", network.node("Softmax", scores), projected([0, 2, 1, 3]))
    joined = network.node("Transpose", weighted, perm=[0, 2, 1, 3])
    y = network.node(
        "MatMul", network.node("Reshape", joined, together), network.absent(width, width)
    )
    made: str = network.node("Add", network.weight(width), y)
    return made


def _gelu(network: Network, x: str) -> str:
    inner = network.node("Erf", network.node("Div", x, network.number(2**0.5)))
    gate = network.node("Mul", x, network.node("Add", inner, network.number(1)))
    made: str = network.node("Mul", gate, network.number(0.5))
    return made


def _norm(network: Network, x: str, width: int) -> str:
    centred = network.node("Sub", x, network.node("ReduceMean", x, axes=[-1]))
    squares = network.node("Pow", centred, network.number(2))
    spread = network.node(
        "Add", network.node("ReduceMean", squares, axes=[-1]), network.number(1e-5)
    )
    y = network.node("Div", centred, network.node("Sqrt", spread))
    made: str = network.node(
        "Add", network.node("Mul", y, network.weight(width)), network.weight(width)
    )
    return made
