"""A network as a model: read once for a batch, compiled for a chip, unfolded into its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.graph import onnx_reader
from npusim.graph.compiling import compile_network
from npusim.graph.lowering import tasks_of
from npusim.graph.memory import peak_bytes, weights_bytes
from npusim.graph.passes import passes
from npusim.graph.target import PRECISIONS, Target
from npusim.model.step import Item, Operation, Step
from npusim.values.errors import ArgumentError, FileError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.graph.lowering import Task
    from npusim.hardware import Profile


@dataclass(frozen=True)
class Compilation:
    """What a user says about compiling networks; `fuse` turns all passes that fuse on or off."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    precision: str = PRECISIONS[0]
    fuse: bool = True
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UnknownNameError("precision mode", self.precision, PRECISIONS)
        known = [each.name for each in passes()]
        for name in self.without:
            if name not in known:
                raise UnknownNameError("pass", name, known)

    @property
    def off(self) -> frozenset[str]:
        """The passes that don't run."""
        fusing = () if self.fuse else (each.name for each in passes() if each.fuses)
        return frozenset((*self.without, *fusing))


@dataclass(frozen=True)
class NetworkModel:
    """An ONNX file, and how it is compiled."""

    file: Path
    batch: int | None
    how: Compilation

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
        network, found = onnx_reader.read(self.file, batch=batch, shapes=self.how.shapes)
        target = Target(chip.family, self.how.precision, self.how.off)
        try:
            compiled = compile_network(network, target)
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


def read_network(file: Path, how: Compilation | None = None) -> NetworkModel:
    """The model in an ONNX file; FileError says what is wrong with it."""
    asked = how or Compilation()
    _, batch = onnx_reader.read(file, shapes=asked.shapes)
    return NetworkModel(file, batch, asked)


def _item(task: Task) -> Item:
    operation = Operation(
        task.spec.op_type,
        task.spec,
        weights=task.weights,
        reads=task.reads,
        writes=task.writes,
    )
    return Item(operation, layers=task.node.covers)
