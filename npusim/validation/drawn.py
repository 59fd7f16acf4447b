"""Random calls of an operator that its own rules take: shapes that stand in a relation, by a seed.

How the shapes of an operator's tensors hang together isn't written down for a machine; its checks
know. So relations are guessed (all alike, the last axis alone, an axis of one element), asked, and
those that were a yes come again with other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.operators.definition import Attribute, Slot
    from npusim.values.dtypes import DType

Shape = tuple[int, ...]
Arguments = Mapping[str, Any]

_TRIES = 3000  # guesses before an operator counts as one whose relation isn't found
_AGAIN = 0.85  # how often a relation that was a yes comes again
_TELLING = 50  # how often sizes are drawn again for a relation that is guessed
_MOST_AXES = 4
_LARGEST_AXIS = 8192
_LIST = 6  # tensors in the longest list
_EVEN = (16, 32, 64, 128)

# Shapes of a tensor by the shape of the first one, the usual ones several times.
_FORMS: Mapping[str, Callable[[Shape, int], Shape]] = {
    "same": lambda base, _: base,
    "last": lambda base, _: base[-1:],
    "row": lambda base, _: (*(1,) * (len(base) - 1), *base[-1:]),
    "outer": lambda base, _: base[:-1],
    "outer, 1": lambda base, _: (*base[:-1], *(1,) * bool(base)),
    "one": lambda *_: (1,),
    "scalar": lambda *_: (),
    "channels": lambda base, _: base[1:2],
    "first": lambda base, _: base[:1],
    "inner": lambda base, _: base[1:],
    "half": lambda base, _: (*base[:-1], *(each // 2 for each in base[-1:])),
    "double": lambda base, _: (*base[:-1], *(2 * each for each in base[-1:])),
    "matrix": lambda base, other: (*base[-1:], other),
    "transposed": lambda base, other: (other, *base[-1:]),
    "other rows": lambda base, other: (other, *base[1:]),
    "other": lambda _, other: (other,),
    "ones": lambda base, _: tuple(each if place % 2 else 1 for place, each in enumerate(base)),
    "two": lambda base, _: (*base[:1], 2),
    "axes": lambda base, _: (len(base),),
    "few": lambda _, other: (other % 8 + 1,),
    "three": lambda base, _: (*base[:-1], *(3,) * bool(base)),
}
_USUAL = ("same",) * 6 + ("last",) * 3 + ("outer", "outer, 1", "one", "one", "row")


class Relation(NamedTuple):
    """How the tensors of a call hang together; None for one that is left out."""

    rank: int
    forms: tuple[str | None, ...]
    length: int
    attributes: tuple[tuple[str, int], ...]
    dtypes: tuple[DType, ...]
    even: int


@dataclass
class Drawn:
    """Calls by their parameters: ``dtypes`` go together, one for each input; some are a yes.

    ``most_elements`` bounds the first tensor.
    """

    inputs: Sequence[Slot]
    attributes: Sequence[Attribute]
    dtypes: Sequence[tuple[DType, ...]]
    accepts: Callable[[Arguments], bool]
    random: Random
    most_elements: int = 1 << 20
    known: list[Relation] = field(default_factory=list)

    def calls(self, count: int) -> Iterator[Arguments]:
        """Up to ``count`` calls that are accepted; fewer where none, or hardly any, are found."""
        refused = 0
        while count and refused < _TRIES:
            again = self.known and self.random.random() < _AGAIN
            relation = self.random.choice(self.known) if again else self._guess()
            arguments = self._call(relation, telling=not again)
            if not self.accepts(arguments):
                refused += 1
                continue
            if not again:
                self.known.append(relation)
            count, refused = count - 1, 0
            yield arguments

    def _guess(self) -> Relation:
        random = self.random
        every = (*_USUAL, *_FORMS)
        pool = random.choice(((random.choice(every),), random.choices(every, k=2), (), ()))
        forms: list[str | None] = []
        for place, slot in enumerate(self.inputs):
            if slot.optional and random.random() < 0.5:
                forms.append(None)
            elif not place and random.random() < 0.9:
                forms.append("same")
            else:
                among = pool or (_USUAL if random.random() < 0.5 else tuple(_FORMS))
                forms.append(random.choice(among))
        told = tuple(
            (each.name, random.randrange(1 << 16))
            for each in self.attributes
            if not each.optional or random.random() < 0.5
        )
        length = random.randint(1, _LIST)
        dtypes, even = random.choice(self.dtypes), random.choice((1, 1, *_EVEN))
        return Relation(random.randint(1, _MOST_AXES), tuple(forms), length, told, dtypes, even)

    def _call(self, relation: Relation, *, telling: bool) -> dict[str, Any]:
        """A call of the relation; tensors at one place of several lists go together.

        Sizes that are ``telling`` are none of them one or alike, so that no relation fits by luck.
        """
        bases = [self._sizes(relation) for _ in range(relation.length)]
        for _ in range(_TELLING if telling else 0):
            if 1 not in bases[0] and len(set(bases[0])) == relation.rank:
                break
            bases[0] = self._sizes(relation)
        other = self.random.randint(1, 64) * relation.even
        found: dict[str, Any] = {}
        for slot, form, dtype in zip(self.inputs, relation.forms, relation.dtypes, strict=True):
            if form is None:
                continue
            for place, base in enumerate(bases if slot.many else bases[:1]):
                name = f"{slot.name}{place}" if slot.many else slot.name
                found[name] = TensorSpec(_FORMS[form](base, other), dtype)
        kinds = {each.name: each.kind for each in self.attributes}
        return found | {
            name: _value(kinds[name], draw, bases[0], relation.length)
            for name, draw in relation.attributes
        }

    def _sizes(self, relation: Relation) -> Shape:
        """Sizes whose logarithms are spread evenly, ragged ones and multiples."""
        left, found = self.most_elements, []
        for _ in range(relation.rank):
            top = max(1, min(_LARGEST_AXIS, left))
            size = round(top ** self.random.random())
            found.append(max(1, size))
            left //= found[-1]
        self.random.shuffle(found)
        if relation.even > 1:
            found[-1] = -(-found[-1] // relation.even) * relation.even
        return tuple(found)


def _value(kind: str, draw: int, base: Shape, length: int) -> Any:
    """An attribute: what fits axes, sizes and shares."""
    rank = len(base)
    axis = draw % rank if rank else 0
    options: dict[str, Sequence[Any]] = {
        "bool": (True, False),
        "int": (axis, -1, 0, 1, 2, base[axis] if rank else 1, axis - rank),
        "float": (1e-5, 0.5, 1.0, 2.0, 0.1),
        "scalar": (0.5, 1.0, 2.0, 3.0),
        "text": ("mean", "sum", "none", "tanh", "dynamic", "static"),
        "ints": ((axis,), (-1,), base, tuple(range(rank)), tuple(reversed(range(rank)))),
        "floats": ((1.0,) * length, (0.5,) * length),
        "flags": ((True,) * 3, (True,) * 2, (True,) * length),
    }
    among = options.get(kind, (0,))
    return among[(draw >> 4) % len(among)]
