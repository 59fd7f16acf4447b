"""What fusions would save: the tasks of a profile through the passes of the graph compiler.

A row is a node, an input the tensor that was last written with its shape, dtype and format. The
passes that fuse (``npusim/graph/passes``) edit that network as they edit one from ONNX; chains that
a program writes out (``missed_fusions.yaml``) become their one task. Both networks are timed alike:
a fusion saves the difference between the tasks that it takes and the one that it makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from npusim.graph.network import Network, Node, Value
from npusim.graph.passes import chosen
from npusim.graph.target import Target
from npusim.model.cache_state import Tensors
from npusim.model.missed_fusions import Fusion, missed
from npusim.model.results import How
from npusim.model.retiming import retime
from npusim.model.step import Item, Operation
from npusim.operators.tasks import TaskSpec
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.hardware import Profile
    from npusim.model.results import TimedItem
    from npusim.model.step import Step

_MOST: Final = 20_000  # rows: passes over more take longer than they are worth
_ON_TASKS: Final = ("unified_buffer", "activations")
"""Modules of passes that need no more than tasks tell; others ask for the numbers of weights."""


@dataclass(frozen=True)
class Fused:
    """One task in the place of several rows of a step.

    `places` are those of the rows; `by` says who fuses (a pass, or the call to write instead), and
    `saved_us` what that saves of their estimates, None where one of the times isn't simulated.
    """

    name: str
    by: str
    is_compiled: bool
    places: tuple[int, ...]
    saved_us: float | None


def fused(step: Step, timed: Sequence[TimedItem], profile: Profile) -> Iterator[Fused]:
    """What the compiler and fused operators would make of a step whose rows are `timed`."""
    if len(step.items) > _MOST:
        return
    built = _Built(step)
    chains = list(built.fold_chains(timed))
    fuses = {each.name: each for each in chosen(Target(profile.family))}
    passed: list[tuple[str, Node]] = []
    for name, each in fuses.items():
        if each.fuses and each.module in _ON_TASKS:
            before = set(built.network.nodes)
            each.run(built.network, Target(profile.family))
            passed += [(name, node) for node in built.network.nodes if node not in before]
    made = {node: (fusion.call, False) for node, fusion in chains}
    made |= {node: (name, True) for name, node in passed}
    if not made:
        return
    nodes = built.network.ordered()
    items = tuple(built.item(node) for node in nodes)
    found = retime(replace(step, items=items), profile).items
    for node, after in zip(nodes, found, strict=True):
        if node in made:
            by, is_compiled = made[node]
            places = tuple(sorted(map(int, node.covers)))
            saved_us = _saved_us([timed[place] for place in places], after)
            yield Fused(node.op, by, is_compiled, places, saved_us)


def _saved_us(before: Sequence[TimedItem], after: TimedItem) -> float | None:
    every = [*before, after]
    if any(each.timing.how is not How.SIMULATED for each in every):
        return None
    return sum(each.timing.duration_us for each in before) - after.timing.duration_us


class _Built:
    """A step as a network: its values are the tensors that its rows share."""

    def __init__(self, step: Step) -> None:
        self.network = Network(step.name)
        self._specs: dict[Value, TensorSpec] = {}
        self._items: dict[Node, Item] = {}
        self._rows: dict[int, Node] = {}
        values: dict[int, Value] = {}
        tensors = Tensors()
        for place, item in enumerate(step.items):
            reads, writes = tensors.of(item.operation)
            work = item.work
            if not isinstance(work, TaskSpec) or item.engine:
                continue
            numbers = iter(reads)
            given: list[Value | None] = []
            for spec in work.inputs:
                if spec is None:
                    given.append(None)
                else:
                    number = next(numbers).number
                    given.append(values.setdefault(number, self._value(number, spec)))
            made = [
                self._value(number, spec) for number, spec in zip(writes, work.outputs, strict=True)
            ]
            values |= dict(zip(writes, made, strict=True))
            node = self.network.add(
                work.op_type, given, made, work.attributes, name=str(place), covers=(str(place),)
            )
            self._items[node], self._rows[place] = replace(item, measured_us=None), node
        read = {value for node in self.network.nodes for value in node.given}
        self.network.outputs = [
            value for node in self.network.nodes for value in node.outputs if value not in read
        ]

    def _value(self, number: int, spec: TensorSpec) -> Value:
        # The shape as it lies in memory: passes compare shapes and formats, and no more.
        made = Value(f"t{number}", spec.shape, spec.dtype, Format.ND)
        self._specs[made] = spec
        return made

    def fold_chains(self, timed: Sequence[TimedItem]) -> Iterator[tuple[Node, Fusion]]:
        """The chains that one fused operator would do, each made that operator."""
        for place, fusion in missed([each.item.op for each in timed]):
            places = range(place, place + len(fusion.tasks))
            chain = [self._rows[each] for each in places if each in self._rows]
            if len(chain) < len(fusion.tasks) or not fusion.given:
                continue
            inner = {value for node in chain for value in node.outputs}
            inputs = [self._named(name, chain, inner) for name in fusion.given]
            outputs = [self._named(name, chain, set()) for name in fusion.made]
            results = [each for each in outputs if each is not None]
            if None in inputs or len(results) < len(outputs):
                continue
            if _is_chain(chain, inner, inner.difference(results)):
                yield self.network.replace(chain, fusion.fused, inputs, results), fusion

    def _named(self, name: str, chain: Sequence[Node], inner: set[Value]) -> Value | None:
        """A tensor of a chain: ``1:0`` is the first input of its second task, ``1:y0`` a result.

        ``1:x`` is the input that the chain doesn't make, ``0:0[-1]`` a vector as long as the last
        axis of a tensor, ``0:0+1:x`` two of them side by side.
        """
        if "+" in name:
            parts = [self._named(each, chain, inner) for each in name.split("+")]
            return None if None in parts else self._joined([each for each in parts if each])
        if name.endswith("[-1]"):
            whole = self._named(name.removesuffix("[-1]"), chain, inner)
            if whole is None:
                return None
            spec = self._specs[whole]
            return self._value(-1, TensorSpec(spec.shape[-1:], spec.dtype, spec.format))
        task, _, which = name.partition(":")
        node = chain[int(task)]
        if which == "x":
            return next((each for each in node.given if each not in inner), None)
        side = node.outputs if which.startswith("y") else node.inputs
        at = int(which.removeprefix("y"))
        return side[at] if at < len(side) else None

    def _joined(self, parts: Sequence[Value]) -> Value:
        specs = [self._specs[each] for each in parts]
        wide = sum(spec.shape[-1] for spec in specs)
        first = specs[0]
        return self._value(-1, TensorSpec((*first.shape[:-1], wide), first.dtype, first.format))

    def item(self, node: Node) -> Item:
        """The row of a node, or a new one of what was made of several."""
        if node in self._items:
            return self._items[node]
        inputs = tuple(None if each is None else self._spec(each) for each in node.inputs)
        outputs = tuple(map(self._spec, node.outputs))
        return Item(Operation(node.op, TaskSpec(node.op, inputs, outputs, node.attributes)))

    def _spec(self, value: Value) -> TensorSpec:
        return self._specs.get(value) or value.spec


def _is_chain(chain: Sequence[Node], inner: set[Value], gone: set[Value]) -> bool:
    """Whether each task of a chain reads what it made before, and nobody else what is then gone."""
    linked = all(any(value in inner for value in node.given) for node in chain[1:])
    return linked and all(user in chain for value in gone for user in value.users)
