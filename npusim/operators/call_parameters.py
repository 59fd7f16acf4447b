"""The parameters of a call of a standard operator, its lists as long as the call has them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from npusim.operators.contract import POINTER_TYPES, Kind, Parameter
from npusim.values.errors import ArgumentError
from npusim.values.formats import Format
from npusim.values.spelling import guessed, tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npusim.operators.definition import Attribute, Operator, Prototype, Slot

_KINDS: Final[dict[str, Kind]] = {
    "int": "int64",
    "float": "double",
    "bool": "bool",
    "ints": "int_array",
    "flags": "bool_array",
    "floats": "float_array",
    "text": "text",
    "scalar": "scalar",
}
_MOST_TENSORS = 1024  # in a list


@dataclass(frozen=True)
class CallParameters:
    """What a call names, in the words of the interface and in those of the kernel.

    ``lengths`` are how many tensors its lists have.
    """

    operator: Operator
    name: str
    input_slots: tuple[Slot, ...]
    output_slots: tuple[Slot, ...]
    attributes: tuple[Attribute, ...]
    lengths: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def inputs(self) -> tuple[tuple[str, Slot], ...]:
        """Input tensors by the parameter's name."""
        return tuple([(name, slot) for slot in self.input_slots for name in self.names(slot)])

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Output tensors by the parameter's name, those changed in place among them."""
        return tuple([name for slot in self.output_slots for name in self.names(slot)])

    @cached_property
    def fresh(self) -> tuple[str, ...]:
        """Output tensors that aren't inputs changed in place."""
        own = dict(self.inputs)
        return tuple([name for name in self.outputs if name not in own])

    def required(self) -> list[str]:
        """The parameters that can't be null pointers."""
        optional = {
            name for slot in self.output_slots if slot.optional for name in self.names(slot)
        }
        pointers = (each for each in self.attributes if _KINDS[each.kind] in POINTER_TYPES)
        return [
            *(name for name, slot in self.inputs if not slot.optional),
            *(name for name in self.fresh if name not in optional),
            *(each.name for each in pointers if not each.optional),
        ]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The kernel's inputs by the parameter's name, which may stand there twice."""
        slots = self.input_slots
        return tuple([name for slot in slots for name in (self.names(slot) or (slot.name,))])

    def scalar_slots(self) -> frozenset[str]:
        """The inputs of the kernel that the interface has a scalar for."""
        own = {slot.name for slot in self.operator.inputs}
        return frozenset(each.target for each in self.attributes if each.target in own)

    def spellings(self) -> dict[str, tuple[str, ...]]:
        """What parameters are called that checks know by the operator's names, or by these."""
        found: dict[str, tuple[str, ...]]
        found = {each.name: (each.name,) for each in self.attributes}
        found |= {each.target: (each.name,) for each in self.attributes if each.target}
        scalars = self.scalar_slots()
        slots = [slot for slot in self.operator.inputs if slot.name not in scalars]
        for own, called in (slots, self.input_slots), (self.operator.outputs, self.output_slots):
            for slot, other in zip(own, called, strict=False):
                found[slot.name] = self.names(other)
        return {**found, "<": tuple(dict(self.inputs)), ">": self.outputs}

    def parameters(self) -> Iterator[Parameter]:
        """The same for a contract: inputs, outputs, attributes."""
        changed = set(self.outputs)
        tensor = partial(Parameter, kind="tensor", dtypes=self.operator.dtypes)
        for name, slot in dict(self.inputs).items():
            form = Format.FRACTAL_NZ if slot.blocked else Format.ND
            yield tensor(name, optional=slot.optional, is_changed=name in changed, formats=(form,))
        for name in self.fresh:
            yield tensor(name, io="out")
        for attribute in self.attributes:
            kind, default = _KINDS[attribute.kind], attribute.default
            yield Parameter(attribute.name, kind, optional=attribute.optional, default=default)

    def names(self, slot: Slot) -> tuple[str, ...]:
        """The parameters that a slot stands for."""
        if slot.name == "-":
            return ()
        if not slot.many:
            return (slot.name,)
        return tuple([f"{slot.name}{place}" for place in range(self.lengths[slot.name])])


def lengths_of(
    operator: Operator, called: Prototype, arguments: Mapping[str, object]
) -> dict[str, int]:
    """How many tensors each list of a call has; those that aren't given have one."""
    inputs = {slot.name: None for slot in called.inputs if slot.many}
    found = {name: _given(name, arguments) for name in inputs}
    first = max(1, found[next(iter(inputs))]) if inputs else 0
    for slot in called.outputs:
        if slot.many and slot.name not in found:
            found[slot.name] = _given(slot.name, arguments) or _told(operator, first, arguments)
    return {name: max(1, count) for name, count in found.items()}


def _given(name: str, arguments: Mapping[str, object]) -> int:
    """How many tensors of a list a call gives, one by one or in a list."""
    pattern = re.compile(rf"{re.escape(name)}(\d+)")
    given = [int(found[1]) for each in arguments if (found := pattern.fullmatch(each))]
    listed = tensors_in(arguments.get(name)) or ()
    return min(max(max(given, default=-1) + 1, len(listed)), _MOST_TENSORS)


def _told(operator: Operator, first: int, arguments: Mapping[str, object]) -> int:
    """How many tensors an output list has: as an attribute says, or the first list of inputs."""
    if first and not operator.parts:
        return first
    count = 1
    for part in operator.parts.split():
        found = guessed(arguments.get(part))
        if isinstance(found, list | tuple):
            return len(found)
        if isinstance(found, int):
            count *= 1 + found if isinstance(found, bool) else found
    if count > _MOST_TENSORS:
        problem = f"{operator.parts} = {count}; a list has at most {_MOST_TENSORS} tensors"
        raise ArgumentError(problem)
    return count
