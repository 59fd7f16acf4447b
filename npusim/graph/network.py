"""A network: values with identity, nodes that make and read them, edits that keep both true."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any

from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from npusim.values.dtypes import DType


class Users:
    """Who reads a value, each as often as it does, in the order in which they came."""

    def __init__(self) -> None:
        self._times: dict[Node, int] = {}

    def add(self, node: Node, times: int = 1) -> None:
        """One more reader, or one that reads it once more."""
        self._times[node] = self._times.get(node, 0) + times

    def remove(self, node: Node, times: int = 1) -> None:
        """One that reads it less often, or not any more; KeyError for one that doesn't."""
        self._times[node] -= times
        if not self._times[node]:
            del self._times[node]

    def __iter__(self) -> Iterator[Node]:
        return chain.from_iterable(repeat(node, times) for node, times in self._times.items())

    def __len__(self) -> int:
        return sum(self._times.values())

    def __bool__(self) -> bool:
        return bool(self._times)

    def is_one(self) -> bool:
        """Whether a single node reads it, once."""
        return len(self._times) == 1 and len(self) == 1


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of a network, the same object wherever it is read.

    `shape` is the one that the file tells, whatever the `format` in which it lies in memory.
    A `weight` is on the device before anything runs; `contents` are known of small ones. `strides`
    and `offset` are those of a view, in elements of what it is a view of. A `whole` is the tensor
    that it is written into, beside others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    format: Format = Format.ND
    weight: bool = False
    contents: NDArray[Any] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0
    whole: Value | None = field(default=None, repr=False)
    maker: Node | None = field(default=None, repr=False)
    users: Users = field(default_factory=Users, repr=False)

    @property
    def spec(self) -> TensorSpec:
        """The tensor as the file describes it."""
        return TensorSpec(self.shape, self.dtype, strides=self.strides, offset=self.offset)

    @property
    def numel(self) -> int:
        """Elements, without what a format pads."""
        found = 1
        for size in self.shape:
            found *= size
        return found

    def scalar(self) -> float | None:
        """The one number that it holds; None for anything else."""
        if self.contents is None or self.contents.size != 1:
            return None
        return float(self.contents.reshape(-1)[0])


@dataclass(eq=False, slots=True)
class Node:
    """An operator with its tensors; an input that is left out is None.

    `name` is the file's; `covers` are the names of all nodes of the file that it does the work of.
    `place` orders nodes of which neither needs the other.
    """

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any]
    name: str
    covers: tuple[str, ...]
    place: float = 0.0
    _places: dict[int, list[int]] | None = field(default=None, repr=False)

    def change(self, old: Value, new: Value) -> int:
        """Read `new` where it read `old`; returns how often that is.

        Only the network does so. Nodes read 100,000 values, each of which is changed.
        """
        if self._places is None:
            self._places = {}
            for place, value in enumerate(self.inputs):
                self._places.setdefault(id(value), []).append(place)
        places = self._places.pop(id(old), [])
        for place in places:
            self.inputs[place] = new
        self._places.setdefault(id(new), []).extend(places)
        return len(places)

    @property
    def given(self) -> list[Value]:
        """The inputs that are there."""
        return [value for value in self.inputs if value is not None]

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def input(self, place: int) -> Value | None:
        """The input at a place; None where there is none."""
        return self.inputs[place] if place < len(self.inputs) else None

    def activations(self) -> list[Value]:
        """The inputs that aren't weights."""
        return [value for value in self.given if not value.weight]

    def __repr__(self) -> str:
        return f"{self.op} {self.name}"


class Network:
    """Nodes and values; passes edit it through the methods below, which keep the edges true.

    `opset` is the version of the ONNX operators as long as there are any.
    """

    def __init__(self, name: str, opset: int = 0) -> None:
        self.name = name
        self.opset = opset
        self.inputs: list[Value] = []
        self.outputs = []
        self._nodes: dict[Node, None] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def outputs(self) -> Sequence[Value]:
        """The results, in the order of the file."""
        return self._outputs

    @outputs.setter
    def outputs(self, values: Sequence[Value]) -> None:
        self._outputs = list(values)
        self._given_out: dict[int, list[int]] = {}
        for place, value in enumerate(self._outputs):
            self._given_out.setdefault(id(value), []).append(place)

    def gives(self, value: Value) -> bool:
        """Whether a value is a result."""
        return id(value) in self._given_out

    def give_instead(self, old: Value, new: Value) -> None:
        """`new` is a result where `old` was one."""
        places = self._given_out.pop(id(old), [])
        for place in places:
            self._outputs[place] = new
        if places:
            self._given_out.setdefault(id(new), []).extend(places)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, in no order that means anything; a pass may edit while it goes through."""
        return tuple(self._nodes)

    def named(self, op: str, *others: str) -> Iterator[Node]:
        """The nodes of some operators, as far as they are still there when their turn comes."""
        wanted = {op, *others}
        return (node for node in self.nodes if node.op in wanted and node in self._nodes)

    def value(
        self,
        like: Value,
        *,
        shape: Sequence[int] | None = None,
        dtype: DType | None = None,
        format: Format | None = None,  # noqa: A002 - the word of the operator pages
    ) -> Value:
        """A new value, described as another one but for what is given."""
        return Value(
            f"{like.name}:{next(self._numbers)}",
            like.shape if shape is None else tuple(shape),
            like.dtype if dtype is None else dtype,
            like.format if format is None else format,
        )

    def weight(
        self,
        like: Value,
        shape: Sequence[int] | None = None,
        contents: NDArray[Any] | None = None,
    ) -> Value:
        """A new tensor of a value's dtype that the model holds, with its numbers where known."""
        made = self.value(like, shape=shape)
        made.weight, made.contents = True, contents
        return made

    def add(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        covers: Iterable[str] = (),
        place: float | None = None,
    ) -> Node:
        """A new node that makes `outputs`, which no other node may make any more."""
        where = float(next(self._numbers)) if place is None else place
        node = Node(op, list(inputs), list(outputs), dict(attributes or {}), name,
                    tuple(dict.fromkeys(covers)), where)  # fmt: skip
        for value in node.given:
            value.users.add(node)
        for value in node.outputs:
            value.maker = node
        self._nodes[node] = None
        return node

    def remove(self, node: Node) -> None:
        """Take a node away; its outputs have no maker then unless another node was added."""
        for value in node.given:
            value.users.remove(node)
        for value in node.outputs:
            if value.maker is node:
                value.maker = None
        self._nodes.pop(node)

    def replace(
        self,
        old: Sequence[Node],
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        attributes: Mapping[str, Any] | None = None,
    ) -> Node:
        """One node in the place of several; it covers what they covered and goes by the last."""
        for node in old:
            self.remove(node)
        last = max(old, key=lambda node: node.place)
        covers = [name for node in old for name in node.covers]
        return self.add(op, inputs, outputs, attributes, name=last.name, covers=covers,
                        place=last.place)  # fmt: skip

    def redirect(self, old: Value, new: Value) -> None:
        """Whoever reads `old`, the network's results included, reads `new`."""
        for node in dict.fromkeys(old.users):
            self.rewire(node, old, new)
        self.give_instead(old, new)

    def rewire(self, node: Node, old: Value, new: Value) -> None:
        """One node reads `new` where it read `old`."""
        if times := node.change(old, new):
            old.users.remove(node, times)
            new.users.add(node, times)

    def is_private(self, value: Value) -> bool:
        """Whether a single node reads it and the network doesn't give it out."""
        return value.users.is_one() and not self.gives(value)

    def prune(self) -> None:
        """Take away the nodes whose results nobody reads."""
        kept = {id(value) for value in self.outputs}
        idle = [node for node in self._nodes if not _is_read(node, kept)]
        while idle:
            node = idle.pop()
            if node not in self._nodes:
                continue
            self.remove(node)
            makers = {value.maker: None for value in node.given if value.maker is not None}
            idle += [maker for maker in makers if not _is_read(maker, kept)]

    def ordered(self) -> list[Node]:
        """The nodes, each after those that it reads from; otherwise as in the file."""
        waits = {
            node: len({value.maker for value in node.given if value.maker is not None})
            for node in self._nodes
        }
        ready = [(node.place, number, node) for number, (node, left) in enumerate(waits.items())
                 if not left]  # fmt: skip
        heapify(ready)
        tie = count(len(waits))
        found: list[Node] = []
        while ready:
            node = heappop(ready)[2]
            found.append(node)
            after = dict.fromkeys(user for value in node.outputs for user in value.users)
            for user in after:
                waits[user] -= 1
                if not waits[user]:
                    heappush(ready, (user.place, next(tie), user))
        if len(found) < len(self._nodes):
            raise RuntimeError(f"{self.name} has nodes that wait for their own results")
        return found


def _is_read(node: Node, kept: set[int]) -> bool:
    return any(value.users or id(value) in kept for value in node.outputs)
