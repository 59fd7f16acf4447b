"""The numbers of iterations that are executed one by one, and whether a kernel asked for them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from npusim.ascendc.loops import LoopIndex


class Turn(int):
    """The number of an iteration that is executed by itself.

    It is an int that also knows how its loop moves it, which decides what L2 serves.
    """

    index: LoopIndex

    @classmethod
    def of(cls, index: LoopIndex) -> Turn:
        """The first of the iterations that ``index`` stands for."""
        turn = cls(index.offset + index.scale * index.first)
        turn.index = index
        return turn

    def __mul__(self, factor: int) -> int:
        return Turn.of(self.index * factor) if type(factor) is int else int(self) * factor

    def __add__(self, term: int) -> int:
        return Turn.of(self.index + term) if type(term) is int else int(self) + term

    def __sub__(self, term: int) -> int:
        return Turn.of(self.index - term) if type(term) is int else int(self) - term

    def __rsub__(self, term: int) -> int:
        return Turn.of(term - self.index) if type(term) is int else term - int(self)

    def __neg__(self) -> int:
        return Turn.of(-self.index)

    __rmul__ = __mul__
    __radd__ = __add__


class Questions:
    """Whether code has asked for the number of an iteration, and not only moved a place by it."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False


class UnaskedTurn:
    """A :class:`Turn` that notes when its number matters.

    Sums and products with whole numbers are what places are computed with: they move evenly from
    iteration to iteration. Whatever else is done with it asks for the number, and gets it. Python's
    own functions would read an int without asking, so it only says that it is one.
    """

    __slots__ = ("_questions", "index")

    def __init__(self, index: LoopIndex, questions: Questions) -> None:
        self.index, self._questions = index, questions

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # what isinstance sees
        return Turn

    def ask(self) -> int:
        """The number, for which somebody has asked."""
        self._questions.asked = True
        return int(Turn.of(self.index))

    @property
    def reach(self) -> tuple[int, int]:
        """The number now and in the last iteration; not asked for by the kernel's code."""
        index = self.index
        return tuple(index.offset + index.scale * at for at in (index.first, index.count - 1))  # type: ignore[return-value]

    def __mul__(self, factor: int) -> Any:
        if type(factor) is not int:
            return self.ask() * factor
        return UnaskedTurn(self.index * factor, self._questions)

    def __add__(self, term: int) -> Any:
        if type(term) is not int:
            return self.ask() + term
        return UnaskedTurn(self.index + term, self._questions)

    def __sub__(self, term: int) -> Any:
        return self + -term if type(term) is int else self.ask() - term

    def __rsub__(self, term: int) -> Any:
        return -self + term if type(term) is int else term - self.ask()

    def __neg__(self) -> Any:
        return self * -1

    __rmul__ = __mul__
    __radd__ = __add__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ask(), name)

    def __array__(self, *arguments: Any, **options: Any) -> NDArray[Any]:
        return np.asarray(self.ask(), *arguments, **options)


def _asking(function: Callable[..., Any], *, turned: bool = False) -> Callable[..., Any]:
    """A method that computes with the number."""

    def method(self: UnaskedTurn, *others: Any) -> Any:
        return function(*others, self.ask()) if turned else function(self.ask(), *others)

    return method


_PAIRED = ("truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor")
for _name in (*_PAIRED, "lt", "le", "gt", "ge", "eq", "ne", "pos", "abs", "invert", "index"):
    setattr(UnaskedTurn, f"__{_name}__", _asking(getattr(operator, f"__{_name}__")))
for _name in _PAIRED:
    _function = getattr(operator, f"__{_name}__")
    setattr(UnaskedTurn, f"__r{_name}__", _asking(_function, turned=True))
for _function in (int, float, complex, bool, hash, str, repr, format, divmod, round):
    setattr(UnaskedTurn, f"__{_function.__name__}__", _asking(_function))
for _name in ("trunc", "floor", "ceil"):
    setattr(UnaskedTurn, f"__{_name}__", _asking(lambda number: number))
UnaskedTurn.__rdivmod__ = _asking(divmod, turned=True)  # type: ignore[attr-defined]
