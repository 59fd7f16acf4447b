"""What is asked: a product, and the dtypes of some tensors by name or by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from npusim.catalogue.families import Place, place_of
from npusim.values.dtypes import dtype
from npusim.values.errors import UnknownNameError
from npusim.values.language import say
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.catalogue.facts import Parameter


Spelling = tuple[str, str, int | None]  # name, io, position in the prototype


@dataclass(frozen=True)
class Question:
    """`named` and `inputs` hold dtypes in the spelling of the pages; an empty one isn't judged.

    Of an operator type both may be given: the names are then those of its prototype.

    `absent` are the names of tensors that are null pointers, `shapes` are by lower-case name;
    `soc` is how the answer calls the product.
    """

    family: str
    soc: str = ""
    named: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    def __hash__(self) -> int:
        named, shapes = frozenset(self.named.items()), frozenset(self.shapes.items())
        places = self.inputs, self.outputs, self.absent
        return hash((self.family, self.soc, named, shapes, places))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Every dtype that is asked about, each once."""
        every = (*self.named.values(), *self.inputs, *self.outputs)
        return tuple(dict.fromkeys(name for name in every if name))

    def on(self, family: str) -> Question:
        """The same question about another family."""
        return replace(self, family=family, soc="")

    def with_dtype(self, old: str, new: str) -> Question:
        """The same question with one dtype replaced by another."""
        named = {name: new if kind == old else kind for name, kind in self.named.items()}
        inputs, outputs = (
            tuple(new if kind == old else kind for kind in kinds)
            for kinds in (self.inputs, self.outputs)
        )
        return replace(self, named=named, inputs=inputs, outputs=outputs)

    def match(
        self, parameters: Sequence[Parameter], spellings: Sequence[Spelling], api: str
    ) -> dict[str, str]:
        """Which of the parameters of `api` have which dtype.

        Names match in any case, also those that only a header or another page has; what no page
        describes isn't judged. Positions count input and output tensors; a tensor too many is
        ignored. Raises UnknownNameError.
        """
        found: dict[str, str] = {}
        for name, kind in self.named.items():
            parameter = _named(name, parameters) or _elsewhere(name, parameters, spellings)
            if parameter is None:
                if any(own.lower() == name.lower() for own, _, _ in spellings):
                    continue  # the header has it, the page says nothing of it
                names = [each.name for each in parameters]
                raise UnknownNameError(say("parameter of {name}").format(name=api), name, names)
            found[parameter.name] = kind
        tensors = [each for each in parameters if each.is_tensor]
        incoming = [each for each in tensors if each.is_input]
        outgoing = [each for each in tensors if not each.is_input]
        for own, kinds in ((incoming, self.inputs), (outgoing, self.outputs)):
            for parameter, kind in zip(own, kinds, strict=False):
                if kind:
                    found.setdefault(parameter.name, kind)
        return found


def _named(name: str, parameters: Sequence[Parameter]) -> Parameter | None:
    return next((each for each in parameters if each.name.lower() == name.lower()), None)


def _elsewhere(
    name: str, parameters: Sequence[Parameter], spellings: Sequence[Spelling]
) -> Parameter | None:
    """What another page or the header calls otherwise: by position, or as the one output."""
    outputs = [each for each in parameters if each.is_tensor and not each.is_input]
    for own, io, position in spellings:
        if own.lower() != name.lower():
            continue
        same = [each for each in parameters if each.position == position is not None]
        if same:
            return same[0]
        if io == "out" and len(outputs) == 1:
            return outputs[0]
    return None


def ask(
    product: str | Place, dtypes: Mapping[str, object] | Sequence[object] | None = None
) -> Question:
    """A question from any spelling: a product, and dtypes (or TensorSpecs) by name or in order.

    Raises UnknownNameError for the product, DTypeError for a dtype.
    """
    place = place_of(product) if isinstance(product, str) else product
    if not dtypes:
        return Question(place.family, place.soc)
    if not isinstance(dtypes, Mapping):
        return Question(place.family, place.soc, inputs=tuple(_name(kind) for kind in dtypes))
    named = {name: _name(kind) for name, kind in dtypes.items()}
    shapes = {
        name.lower(): kind.shape
        for name, kind in dtypes.items()
        if isinstance(kind, TensorSpec) and not kind.format.is_private
    }
    return Question(place.family, place.soc, named, shapes=shapes)


def _name(kind: object) -> str:
    if kind is None or kind == "":
        return ""
    return dtype(kind.dtype if isinstance(kind, TensorSpec) else kind).name
