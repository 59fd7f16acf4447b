"""A network as a model: read once for a batch, compiled for a chip, unfolded into its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.graph import onnx_reader
from npusim.graph.compiling import compile_network
from npusim.graph.lowering import tasks_of
from npusim.graph.memory import peak_bytes, weights_bytes
from npusim.graph.target import Target
from npusim.model.step import Item, Operation, Step
from npusim.values.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.graph.lowering import Task
    from npusim.hardware import Profile


@dataclass(frozen=True)
class NetworkModel:
    """An ONNX file; `shapes` bind axes of inputs, `precision` and `off` are those of a target."""

    file: Path
    batch: int | None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    precision: str = "force_fp16"
    off: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The file's name."""
        return self.file.stem

    def at(self, batch: int | None = None, chip: Profile | None = None) -> Step:
        """The tasks of the network compiled for a chip.

        Raises ArgumentError without a chip and for a batch that the file doesn't allow, FileError
        for a node that can't be compiled.
        """
        if chip is None:
            raise ArgumentError(f"{self.name} is compiled for a chip, and none was given")
        network, found = onnx_reader.read(self.file, batch=batch, shapes=self.shapes)
        try:
            compiled = compile_network(network, Target(chip.family, self.precision, self.off))
        except ArgumentError as error:
            raise FileError(self.file, error.message, error.remedy) from error
        return Step(
            self.name,
            "graph",
            tuple(map(_item, tasks_of(network))),
            found,
            weights_bytes(network),
            peak_bytes(network.ordered(), network),
            notes=tuple(f"{name}: {count}x" for name, count in compiled.applied),
        )


def read_network(
    file: Path,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    precision: str = "force_fp16",
    off: frozenset[str] = frozenset(),
) -> NetworkModel:
    """The model in an ONNX file; FileError says what is wrong with it."""
    _, batch = onnx_reader.read(file, shapes=shapes)
    return NetworkModel(file, batch, shapes or {}, precision, off)


def _item(task: Task) -> Item:
    operation = Operation(
        task.spec.op_type,
        task.spec,
        weights=task.weights,
        reads=task.reads,
        writes=task.writes,
    )
    return Item(operation)
