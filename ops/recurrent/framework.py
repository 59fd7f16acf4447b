"""LSTM as a framework starts it on the device: layers, in one direction or both.

The weights of input and state are joined and turned, their biases added, and DynamicRNN gets zeros
for the first states. It works in FRACTAL_NZ: input and weight are brought there, and the states
back. Backwards the input is reversed before and the states behind; bfloat16 is cast to float32 and
back, the gates among it. Source: the lists of kernels that are published with measurements of it
(hicann/cann-bench, tasks/level4/lstm). A layer on top of another gets its results, those of both
directions side by side, and starts the same tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ascendc.task import made
from npusim.operators.tasks import Tasks
from npusim.values.dtypes import BFLOAT16, FLOAT
from npusim.values.formats import Format
from npusim.values.layouts import storage_shape

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task

_RESULTS = 8  # of DynamicRNN: y, h, c, and what gradients need
_STATES = 3  # of these, what a framework gives back
_FORWARD, _BACKWARD = "UNIDIRECTIONAL", "REDIRECTIONAL"


def lstm(task: Task) -> tuple[Kernel, ...]:
    """x (steps, batch, inputs), weights of inputs and of states, biases of both, first h and c.

    Weights (4 h, inputs) and biases come one for each direction of each layer, all of a kind in a
    row.
    """
    return tuple(_Layers(task).run())


class _Layers:
    """The tasks of layers, one after the other."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.tasks = Tasks(task.profile)
        ways = 2 if task.attributes.get("bidirectional") else 1
        biased = bool(task.attributes.get("bias", True))
        kinds = 4 if biased else 2
        task.present(1)
        x, *rest = (each for each in task.inputs if each is not None)
        if task.whole_number("projSize", 0):
            raise task.refused("projections aren't modelled")
        places = max(1, task.whole_number("numLayers", 1)) * ways
        if task.first("batchFirst") or len(rest) not in (kinds * places, kinds * places + 2):
            raise task.refused(f"{len(rest)} weights, biases and states for {places} directions")
        self.x, self.ways, self.states = x, ways, rest[kinds * places :]
        self.params = [rest[place : kinds * places : places] for place in range(places)]
        self.kind = FLOAT if x.dtype is BFLOAT16 else x.dtype

    def run(self) -> list[Kernel]:
        """Layer after layer and direction after direction; the states of both side by side."""
        columns = self.params[0][1].shape[-1]
        first, results = self._first(columns), [self.x]
        for layer in range(0, len(self.params), self.ways):
            x = results[0]
            found = [self._direction(x, layer + way, first) for way in range(self.ways)]
            results = found[0]
            if len(found) > 1:
                shape = (*self.x.shape[:2], 2 * columns)
                results = [
                    self.tasks.run("ConcatD", *parts, out=made(shape, self.x.dtype), concat_dim=2)
                    for parts in zip(*found, strict=True)
                ]
        for each, out in zip(results, self.task.outputs, strict=False):
            self.tasks.run("TensorMove", each, out=out)
        return self.tasks.kernels

    def _first(self, columns: int) -> list[GlobalTensor]:
        """Zeros for what isn't given: h and c, and a state that only the product's kernel has."""
        shape = (len(self.params), self.x.shape[1], columns)
        zeros = [made(shape, self.x.dtype) for _ in range(_STATES)]
        for each in zeros:
            self.tasks.run("ZerosLike", each, out=each)
        return self.states or zeros[:2]

    def _direction(
        self, x: GlobalTensor, place: int, first: list[GlobalTensor]
    ) -> list[GlobalTensor]:
        """y, h and c of a direction of a layer, in the order of the steps."""
        below, beside, *biases = self.params[place]
        shape = below.shape[0], below.shape[1] + beside.shape[1]
        way, kind = place % self.ways, x.dtype
        weight = self.tasks.run("ConcatD", below, beside, out=made(shape, kind), concat_dim=1)
        weight = self.tasks.run("Transpose", weight, out=made(shape[::-1], kind), perm=[1, 0])
        bias = made(shape[:1], kind, "bias")
        if biases:
            self.tasks.run("Add", *biases, out=bias)
        else:
            self.tasks.run("ZerosLike", bias, out=bias)
        if way:
            x = self.tasks.run("ReverseV2", x, out=made(x.shape, kind), axis=[0])
        given = (x, weight, bias, *(_of_way(each, place) for each in first))
        x, weight, bias, h, c = (self.tasks.cast(each, self.kind) for each in given)
        self._laid_out(x, weight)
        states = (x.shape[0], x.shape[1], h.shape[-1])
        results = [made(states, self.kind) for _ in range(_RESULTS)]
        self.tasks.run("DynamicRNN", x, weight, bias, None, h, c, out=results,
            direction=_FORWARD, gate_order="ifjo", is_training=True)  # fmt: skip
        self._laid_out(*results[:_STATES])
        results = [self.tasks.cast(each, kind) for each in results]
        found = results[:_STATES]
        if way:
            found = [
                self.tasks.run("ReverseV2", each, out=made(each.shape, kind), axis=[0])
                for each in found
            ]
        return found

    def _laid_out(self, *tensors: GlobalTensor) -> None:
        """What it takes to bring tensors from one layout to the other; numbers stay as they lie."""
        for each in tensors:
            nz = storage_shape(each.shape, each.dtype, Format.FRACTAL_NZ)
            fractals = replace(made(nz, each.dtype), format=Format.FRACTAL_NZ)
            self.tasks.run("TransData", each, out=fractals)


def _of_way(states: GlobalTensor, way: int) -> GlobalTensor:
    """The first states of a direction, as one step."""
    _, rows, columns = states.shape
    return replace(states, start=states.start + way * rows * columns, shape=(1, rows, columns))
