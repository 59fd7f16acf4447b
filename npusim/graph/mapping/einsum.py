"""Einsum as a matrix product between transpositions, as the graph compiler takes it apart.

Letters that both operands and the result have are a stack of products; those that only the
operands have are summed. Source: EinsumPass of the public operator library, whose equations are
all of this form.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.graph.network import Network, Node, Value

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MATRIX: Final = 2  # axes


def einsum(network: Network, node: Node) -> None:
    """One operand is turned and summed; two are multiplied; more are multiplied in turn.

    Raises ArgumentError for an equation that takes diagonals.
    """
    terms, result = _terms(node)
    if any(len(set(term)) != len(term) for term in (*terms, result)):
        equation = node.attributes["equation"]
        raise ArgumentError(
            say("{op} {name} takes a diagonal ({equation}); no operator does").format(
                op=node.op, name=node.name, equation=equation
            )
        )
    steps = _Steps(network, node)
    operands, out = list(node.given), node.output
    network.remove(node)
    so_far, letters = operands[0], terms[0]
    for place, (value, term) in enumerate(zip(operands[1:], terms[1:], strict=True), 2):
        later = "".join(terms[place:]) + result
        so_far, letters = steps.product(so_far, letters, value, term, later)
    so_far, letters = steps.summed(so_far, letters, result)
    steps.turned(so_far, letters, result, out)


def _terms(node: Node) -> tuple[list[str], str]:
    """The letters of each operand and of the result; an ellipsis as letters that nobody uses."""
    equation = node.attributes["equation"].replace(" ", "")
    left, arrow, right = equation.partition("->")
    free = [each for each in _LETTERS if each not in equation]
    terms = left.split(",")
    hidden = max(
        (len(value.shape) - len(term) + 3 for value, term in zip(node.given, terms, strict=True)
         if "..." in term), default=0,
    )  # fmt: skip
    dots = "".join(free[:hidden])
    filled = []
    for value, term in zip(node.given, terms, strict=True):
        own = len(value.shape) - len(term) + 3 if "..." in term else 0
        filled.append(term.replace("...", dots[len(dots) - own :]))
    if not arrow:
        whole = "".join(terms).replace(".", "")
        right = "..." * bool(dots) + "".join(
            each for each in sorted(set(whole)) if whole.count(each) == 1
        )
    return filled, right.replace("...", dots)


class _Steps:
    """Adds the operators that an equation consists of."""

    def __init__(self, network: Network, node: Node) -> None:
        self._network = network
        self._how: dict[str, Any] = {
            "name": node.name, "covers": node.covers, "place": node.place,
        }  # fmt: skip

    def product(
        self, left: Value, first: str, right: Value, second: str, wanted: str
    ) -> tuple[Value, str]:
        """Both operands' product over the letters that nobody wants later, and its letters."""
        left, first = self.summed(left, first, second + wanted)
        right, second = self.summed(right, second, first + wanted)
        sizes = dict(zip(first + second, left.shape + right.shape, strict=True))
        both = [each for each in first if each in second]
        stack = "".join(each for each in both if each in wanted)
        inner = "".join(each for each in both if each not in wanted)
        rows = "".join(each for each in first if each not in second)
        columns = "".join(each for each in second if each not in first)
        a = self._matrices(left, first, (stack, rows, inner), sizes)
        b = self._matrices(right, second, (stack, inner, columns), sizes)
        shape = (*a.shape[:-1], b.shape[-1])
        made = self._network.value(left, shape=shape)
        op = "BatchMatMulV2" if len(shape) > _MATRIX else "MatMulV2"
        self._network.add(op, [a, b], [made], **self._how)
        letters = stack + rows + columns
        return self._viewed(made, [sizes[each] for each in letters]), letters

    def summed(self, value: Value, letters: str, wanted: str) -> tuple[Value, str]:
        """The sum over the letters that nobody wants."""
        axes = [place for place, each in enumerate(letters) if each not in wanted]
        if not axes:
            return value, letters
        kept = "".join(each for each in letters if each in wanted)
        shape = [size for place, size in enumerate(value.shape) if place not in axes]
        total = self._network.value(value, shape=shape)
        self._network.add("ReduceSumD", [value], [total], {"axes": axes, "keep_dims": False},
                          **self._how)  # fmt: skip
        return total, kept

    def turned(self, value: Value, letters: str, wanted: str, out: Value) -> None:
        """The axes in the order that is wanted, as the node's result."""
        perm = [letters.index(each) for each in wanted]
        op, said = ("Identity", {}) if perm == sorted(perm) else ("TransposeD", {"perm": perm})
        self._network.add(op, [value], [out], said, **self._how)

    def _matrices(
        self, value: Value, letters: str, groups: Sequence[str], sizes: Mapping[str, int]
    ) -> Value:
        """A stack of matrices, or one: the letters of each group together are an axis."""
        wanted = "".join(groups)
        if wanted != letters:
            turned = self._network.value(value, shape=[sizes[each] for each in wanted])
            self.turned(value, letters, wanted, turned)
            value = turned
        sides = [prod(sizes[each] for each in group) for group in groups]
        return self._viewed(value, sides if groups[0] else sides[1:])

    def _viewed(self, value: Value, shape: Sequence[int]) -> Value:
        if tuple(shape) == value.shape:
            return value
        viewed = self._network.value(value, shape=shape)
        self._network.add("Reshape", [value], [viewed], **self._how)
        return viewed
