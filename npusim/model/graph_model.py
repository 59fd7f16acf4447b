"""Networks and programs as models: read once, compiled for a chip, unfolded into their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from npusim.graph import onnx_reader
from npusim.graph.aten.mapping import map_calls
from npusim.graph.compiling import compile_network
from npusim.graph.custom import GIVEN, Custom
from npusim.graph.lowering import tasks_of
from npusim.graph.memory import alive_bytes, source, weights_bytes
from npusim.graph.network import Value
from npusim.graph.passes import passes
from npusim.graph.target import IMPLEMENTATIONS, PRECISIONS, USUALLY_FAST, Target
from npusim.model.step import CUSTOM, AclnnWork, Item, Operation, Step
from npusim.operators.tasks import TaskSpec
from npusim.values.errors import ArgumentError, FileError, UnknownNameError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.graph.aten.reader import Program
    from npusim.graph.lowering import Task
    from npusim.graph.network import Network, Node
    from npusim.graph.onnx_reader import Source
    from npusim.hardware import Profile

OM: Final = "om"
EAGER: Final = "eager"
CAPTURED: Final = "graph"
MODES: Final = (OM, EAGER, CAPTURED)
"""An offline model, calls of torch_npu one by one, the same calls captured once and replayed."""

_CAPTURES: Final = ("A2", "A3")
"""Families that replay captured graphs. Source: torchair, aclmdlRICapture."""

_ON_THE_HOST: Final = "host CPU"


@dataclass(frozen=True)
class Compilation:
    """What a user says about how networks run; `fuse` turns all passes that fuse on or off.

    `mode` is one of MODES, empty for what the file is made for; `custom` says what operators of
    custom domains cost. With `aipp` images come in bytes, as ATC's --insert_op_conf converts.
    `fast` are IMPLEMENTATIONS, as ATC's --optypelist_for_implmode names them.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    precision: str = ""
    fuse: bool = True
    without: tuple[str, ...] = ()
    mode: str = ""
    custom: Mapping[str, Custom] = field(default_factory=dict)
    aipp: bool = False
    fast: tuple[str, ...] = USUALLY_FAST

    def __post_init__(self) -> None:
        if self.precision and self.precision not in PRECISIONS:
            raise UnknownNameError("precision mode", self.precision, PRECISIONS)
        if self.mode and self.mode not in MODES:
            raise UnknownNameError("mode", self.mode, MODES)
        for name in self.fast:
            if name not in IMPLEMENTATIONS:
                raise UnknownNameError("implementation", name, IMPLEMENTATIONS)
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

    source: Source
    batch: int | None
    how: Compilation

    @property
    def name(self) -> str:
        """The file's name."""
        return self.source.path.stem

    def at(self, batch: int | None = None, chip: Profile | None = None) -> Step:
        """The tasks of the network compiled for a chip.

        Raises ArgumentError without a chip and for a batch that the file doesn't allow, FileError
        for a node that can't be compiled.
        """
        if chip is None:
            raise ArgumentError(
                say("{name} is compiled for a chip, and none was given").format(name=self.name)
            )
        step = self.on(chip.family, batch)
        return replace(step, call_us=chip.launch.model_call_us)

    def on(self, family: str, batch: int | None = None) -> Step:
        """The tasks of the network compiled for a product family; raises as `at`."""
        network, found = self.source.network(batch, self.how.shapes)
        precision = self.how.precision or PRECISIONS[0]
        target = Target(family, precision, self.how.off, self.how.aipp, frozenset(self.how.fast))
        try:
            compiled = compile_network(network, target, self.how.custom)
        except ArgumentError as error:
            raise FileError(self.source.path, error.message, error.remedy) from error
        notes = tuple(f"{name}: {count}x" for name, count in compiled.applied)
        step = _step(self.name, network, map(_item, tasks_of(network)), found, notes)
        given = tuple(
            say("{name} is {list}, as said (--shape): its size depends on data").format(
                name=name, list=list(shape)
            )
            for name, shape in self.source.within(self.how.shapes).items()
        )
        return replace(step, one_shape=True, assumptions=given)


@dataclass(frozen=True)
class ProgramModel:
    """An exported torch program, and how torch_npu runs it."""

    program: Program
    batch: int | None
    how: Compilation

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name

    def at(self, batch: int | None = None, chip: Profile | None = None) -> Step:
        """The aclnn calls of the program on a chip, each with what the host needs to launch it.

        Raises ArgumentError without a chip, for a batch that the program wasn't exported for and
        for captured graphs on chips without.
        """
        if chip is None:
            raise ArgumentError(
                say("{name} runs on a chip, and none was given").format(name=self.name)
            )
        captured = self.how.mode == CAPTURED
        if captured and chip.family not in _CAPTURES:
            raise ArgumentError(
                say("{chip} replays no captured graphs, products of {captures} do").format(
                    chip=chip.name, captures=", ".join(_CAPTURES)
                ),
                say("Ask with --mode eager."),
            )
        step = self.on(chip.family, batch)
        return replace(step, host_dispatch_us=0.0 if captured else chip.launch.host_dispatch_us)

    def on(self, family: str, batch: int | None = None) -> Step:
        """The aclnn calls of the program on a product family; raises as `at`."""
        network, found = self.program.network(batch, self.how.shapes)
        map_calls(network, family)
        calls = (_call(node) for node in network.ordered() if node.op != "Identity")
        return _step(self.name, network, calls, found, ())


def read_network(file: Path, how: Compilation | None = None) -> NetworkModel:
    """The model in an ONNX file; FileError says what is wrong with it."""
    asked = how or Compilation()
    if asked.mode not in ("", OM):
        raise UsageError(
            say("{file} is a graph to compile, torch_npu doesn't run it call by call").format(
                file=file
            ),
            say(
                "Export the module with torch.export and give the .pt2 file, or ask with --mode om."
            ),
        )
    found = onnx_reader.source(file, asked.custom)
    return NetworkModel(found, found.network(shapes=asked.shapes)[1], asked)


def read_program(program: Program, how: Compilation | None = None) -> ProgramModel:
    """An exported torch program as a model; FileError says what is wrong with it."""
    asked = how or Compilation()
    own = Compilation(asked.shapes, mode=asked.mode)  # what a program takes
    if asked.mode == OM or asked != own:
        raise UsageError(
            say(
                "{program} runs call by call as torch_npu does; passes of the "
                "graph compiler and its other options are for ONNX files"
            ).format(program=program.name),
            say("Export the module with torch.onnx.export for an offline model."),
        )
    return ProgramModel(program, program.network(None, asked.shapes)[1], asked)


def _step(
    name: str,
    network: Network,
    items: Iterable[Item],
    batch: int | None,
    notes: tuple[str, ...],
) -> Step:
    alive = tuple(alive_bytes(network.ordered(), network))
    return Step(
        name,
        "graph",
        tuple(items),
        batch,
        weights_bytes(network),
        max(alive, default=0),
        notes=notes,
        alive_bytes=alive,
    )


def _item(task: Task) -> Item:
    given_us = task.node.attributes.get(GIVEN)
    operation = Operation(
        task.spec.op_type,
        task.spec,
        "" if given_us is None else CUSTOM,
        "" if given_us is None else say("its time is the user's"),
        weights=task.weights,
        reads=task.reads,
        writes=task.writes,
        pieces=task.pieces,
    )
    return Item(operation, measured_us=given_us, layers=task.node.covers)


def _call(node: Node) -> Item:
    """A call of torch_npu; what it runs on the host has no work here."""
    weights = tuple(each.spec for each in node.given if source(each).weight)
    if "problem" in node.attributes:
        inputs, outputs = (tuple(each.spec for each in side) for side in (node.given, node.outputs))
        problem = node.attributes["problem"]
        on_host = node.attributes["on_host"]
        task = None if on_host else TaskSpec(node.op, inputs, outputs)
        engine = _ON_THE_HOST if on_host else ""
        return Item(Operation(node.op, task, engine, problem), layers=node.covers)
    tensors = {name: each for name, each in node.attributes.items() if isinstance(each, Value)}
    specs = {name: each.spec for name, each in tensors.items()}
    work = AclnnWork(node.op, {**node.attributes, **specs})
    reads, writes = _edges(work, tensors)
    operation = Operation(node.op, work, weights=weights, reads=reads, writes=writes)
    return Item(operation, layers=node.covers)


def _edges(
    work: AclnnWork, tensors: Mapping[str, Value]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of what a call reads and writes, as an operation orders its tensors."""
    sides = Operation(work.op, work).sides
    names = {name: source(value).name for name, value in tensors.items()}
    read = [name for name, io in sides.items() if io == "in"]
    written = [name for name, io in sides.items() if io == "out"]
    written += [name for name in sides if name.endswith("Ref")]
    return tuple(names[name] for name in read), tuple(names[name] for name in written)
