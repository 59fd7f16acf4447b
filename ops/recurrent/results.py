"""Results and states of recurrent layers, where a call leaves them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec

_LSTM, _GRU = 8, 6  # results with all gates


def _states(x: TensorSpec, columns: int, count: int) -> list[TensorSpec]:
    return [described((*x.shape[:2], columns), x.dtype)] * count


def lstm_states(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """y, h and c of all steps, and the gates."""
    return _states(given[0], given[1].shape[-1] // 4, _LSTM)


def gru_states(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """y and h of all steps, and the gates."""
    return _states(given[0], given[1].shape[-1] // 3, _GRU)


def convolved(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """y as x, and the states."""
    states = next(each for each in given[2:] if each.rank > 1)
    return [described(each.shape, each.dtype) for each in (given[0], states)]


def passed_through(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """Rows as the values', states as those that came."""
    return [described(each.shape, each.dtype) for each in (given[2], given[4])]
