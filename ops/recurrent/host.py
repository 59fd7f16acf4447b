"""What aclnnLSTM and aclnnGRU do on the host: layer after layer, direction after direction.

Source: ops-nn rnn/dynamic_rnn and rnn/gru, op_api.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host

_WAYS = ("UNIDIRECTIONAL", "REDIRECTIONAL")
_TIME_FIRST = [1, 0, 2]
_LAST_AXIS = 2

Tensors = list["GlobalTensor"]


@dataclass(frozen=True, slots=True)
class Stack:
    """How a call's layers lie: parameters of each direction of each layer follow each other."""

    host: Host
    params: Sequence[GlobalTensor]
    each: int  # parameters of a direction
    directions: int
    layers: int

    @classmethod
    def of(
        cls, host: Host, params: Sequence[GlobalTensor], *, biased: bool, both: bool, layers: int
    ) -> Stack:
        """Raises KernelError for a list that is too short or too long."""
        found = cls(host, params, 4 if biased else 2, 2 if both else 1, layers)
        wanted = found.each * found.directions * layers
        if len(params) != wanted:
            problem = f"params has {len(params)} tensors where {wanted} are needed"
            raise KernelError("", problem)
        return found

    def of_direction(self, place: int) -> tuple[GlobalTensor, ...]:
        """The parameters of direction ``place``, counted through all layers."""
        return tuple(self.params[place * self.each : (place + 1) * self.each])

    def initial(self, states: GlobalTensor, place: int) -> GlobalTensor:
        """The first state of a direction."""
        _, rows, columns = states.shape
        size = [1, rows, columns]
        found: GlobalTensor = self.host.run("Slice", states, offsets=[place, 0, 0], size=size)
        return found

    def last(self, states: GlobalTensor, place: int) -> GlobalTensor:
        """The state that is left behind all steps."""
        steps, rows, columns = states.shape
        begin = 0 if place % self.directions else steps - 1
        size = [1, rows, columns]
        found: GlobalTensor = self.host.run("Slice", states, offsets=[begin, 0, 0], size=size)
        return found

    def joined(self, parts: Tensors, axis: int) -> GlobalTensor:
        """Several tensors as one."""
        if len(parts) == 1:
            return parts[0]
        found: GlobalTensor = self.host.run("ConcatD", *parts, concat_dim=axis)
        return found


def lstm(
    host: Host, x: GlobalTensor, params: Tensors, hx: Tensors, sizes: GlobalTensor | None, *,
    has_bias: bool, layers: int, train: bool, both_ways: bool, batch_first: bool,
) -> tuple[GlobalTensor | None, ...]:  # fmt: skip
    """All states, the last ones, and the gates of every direction where it trains."""
    _refuse_packed(sizes)
    stack = Stack.of(host, params, biased=has_bias, both=both_ways, layers=layers)
    if hx and len(hx) != 2:
        raise KernelError("", f"hx has {len(hx)} tensors where h and c are needed")
    current, made = _time_first(host, x, turned=batch_first), []
    for layer in range(layers):
        own: Tensors = []
        for way in range(stack.directions):
            place = layer * stack.directions + way
            below, beside, *biases = stack.of_direction(place)
            weight = host.run("ConcatD", below, beside, concat_dim=1)
            weight = host.run("Transpose", weight, perm=[1, 0])
            bias = host.run("Add", *biases) if biases else _zeros(host, weight)
            first = [stack.initial(each, place) for each in hx] if hx else [None, None]
            made.append(host.run("DynamicRNN", current, weight, bias, None, *first,
                direction=_WAYS[way], gate_order="ifjo", is_training=train))  # fmt: skip
            own.append(made[-1][0])
        current = stack.joined(own, _LAST_AXIS)
    lasts = [
        stack.joined([stack.last(each[which], place) for place, each in enumerate(made)], 0)
        for which in (1, 2)
    ]
    order = (3, 4, 5, 6, 1, 2, 7)  # i, j, f, o, h, c, tanh c
    gates = [each[which] for which in order for each in made] if train else []
    return (_time_first(host, current, turned=batch_first), *lasts, *gates)


def gru(
    host: Host, x: GlobalTensor, params: Tensors, hx: GlobalTensor | None,
    sizes: GlobalTensor | None, *,
    has_bias: bool, layers: int, train: bool, both_ways: bool, batch_first: bool,
) -> tuple[GlobalTensor | None, ...]:  # fmt: skip
    """All states, the last one, and the gates of every direction where it trains."""
    _refuse_packed(sizes)
    stack = Stack.of(host, params, biased=has_bias, both=both_ways, layers=layers)
    current, made = _time_first(host, x, turned=batch_first), []
    for layer in range(layers):
        own: Tensors = []
        for way in range(stack.directions):
            place = layer * stack.directions + way
            *weights, first, second = (*stack.of_direction(place), None, None)[:4]
            turned = [host.run("Transpose", each, perm=[1, 0]) for each in weights]
            before = None if hx is None else stack.initial(hx, place)
            made.append(host.run("Gru", current, *turned, first, second, None, before,
                direction=_WAYS[way], is_training=train))  # fmt: skip
            own.append(made[-1][0])
        current = stack.joined(own, _LAST_AXIS)
    last = stack.joined([stack.last(each[1], place) for place, each in enumerate(made)], 0)
    order = (2, 3, 4, 5, 1)  # r, z, n, h of n, h
    gates = [each[which] for which in order for each in made] if train else []
    return (_time_first(host, current, turned=batch_first), last, *gates)


def _refuse_packed(sizes: GlobalTensor | None) -> None:
    if sizes is not None:
        raise KernelError("", "sequences of different lengths aren't modelled")


def _time_first(host: Host, x: GlobalTensor, *, turned: bool) -> GlobalTensor:
    """Steps and rows of the batch the other way around, where they are."""
    if not turned:
        return x
    found: GlobalTensor = host.run("Transpose", x, perm=_TIME_FIRST)
    return found


def _zeros(host: Host, weight: GlobalTensor) -> GlobalTensor:
    """A bias that adds nothing."""
    found: GlobalTensor = host.run("ZerosLike", host.empty(weight.shape[1:], weight.dtype))
    return found
