"""Does a constant help kernels that it wasn't fitted to? Cross-validation, one constant at a time.

Each kernel is left out once, and the constant takes the value that is best for the others: what
that does to the error of those left out is its gain, over the kernels that depend on it, and the
standard error of the gain says how far chance reaches (Student's t). The constant with the largest
gain moves first, and the others are asked again beside it: what two of them explain is the business
of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from npusim.values.language import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.validation.fitting import Constant

    Floats = NDArray[np.float64]

_SIGMAS: Final = 2.33  # of a normal distribution: one in a hundred gains as much by chance
LEAST: Final = 0.02  # of the error before: less isn't worth a chip
_FOLDS: Final = 5
_FELT: Final = 0.02  # logarithm of a time, over all values that are tried
_LEAST_KERNELS: Final = 5
_PLAYED: Final = (-0.8, -0.3, 0.0, 0.3, 0.8)  # spreads from the value now
_BETWEEN: Final = np.linspace(_PLAYED[0], _PLAYED[-1], 65)
_CAP: Final = 0.5  # logarithm beyond which a kernel counts no further
_PULL: Final = 0.002  # of a spread of distance, as in the fit


@dataclass(frozen=True)
class Gain:
    """What a constant does to the mean error of kernels left out, with its standard error.

    Positive is better; errors are logarithms of measured over estimated time, and `before` is
    theirs with the constant where it was. `kernels` are those that depend on it.
    """

    gain: float
    standard_error: float
    before: float
    kernels: int

    @property
    def wanted(self) -> float:
        """Standard errors that the gain must exceed, more the fewer kernels there are."""
        freedom = max(1, self.kernels - 1)
        return _SIGMAS * (1 + (_SIGMAS**2 + 1) / (4 * freedom))

    @property
    def decides(self) -> bool:
        """Whether kernels ask for another value, beyond what chance does."""
        return self.gain > max(self.wanted * self.standard_error, LEAST * self.before)


Times = Callable[[Mapping[str, float]], Sequence[float]]
"""Estimated microseconds of every kernel under some values."""


def deciding(
    constants: Sequence[Constant],
    before: Mapping[str, float],
    measured_us: Sequence[float],
    times_us: Times,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Constant], dict[str, Gain]]:
    """The constants that kernels ask to move, the largest gain first, and the gains of all.

    The gain of one that stays is what it would add to those that move.
    """
    values, played = dict(before), dict[tuple[float, ...], Sequence[float]]()

    def known(trial: Mapping[str, float]) -> Sequence[float]:
        key = tuple(trial.values())
        if key not in played:
            played[key] = times_us(trial)
        return played[key]

    left, gains = list(constants), dict[str, Gain]()
    found: list[Constant] = []
    target = np.log(np.asarray(measured_us, np.float64))
    while left:
        best: tuple[Gain, Constant, float] | None = None
        for each in left:
            if progress is not None:
                progress(say("{key}: is it decided?").format(key=each.key))
            gain, value = _asked(each, values, target, known)
            gains[each.key] = gain
            if gain.decides and (best is None or gain.gain > best[0].gain):
                best = gain, each, value
        if best is None:
            break
        _, chosen, values[chosen.key] = best
        gains[chosen.key] = best[0]
        found.append(chosen)
        left.remove(chosen)
    return found, gains


def _asked(
    constant: Constant, values: Mapping[str, float], target: Floats, times_us: Times
) -> tuple[Gain, float]:
    """The gain of one constant, and the value that is best for all kernels."""
    now = values[constant.key]
    played = np.log(
        [times_us({**values, constant.key: constant.moved(now, step)}) for step in _PLAYED]
    )
    # Times hardly bend between values that were played.
    between = np.stack([np.interp(_BETWEEN, _PLAYED, column) for column in played.T], axis=1)
    errors = np.minimum(_CAP, np.abs(between - target))
    stay = errors[int(np.argmin(np.abs(_BETWEEN)))]
    pull = _PULL * _BETWEEN**2
    folds = np.arange(len(target)) % _FOLDS
    gained = np.empty_like(target)
    for fold in range(_FOLDS):
        out = folds == fold
        best = int(np.argmin(errors[:, ~out].mean(axis=1) + pull))
        gained[out] = stay[out] - errors[best, out]
    step = float(_BETWEEN[int(np.argmin(errors.mean(axis=1) + pull))])
    felt = np.ptp(between, axis=0) > _FELT
    if felt.sum() < _LEAST_KERNELS:
        return Gain(0.0, 0.0, 0.0, int(felt.sum())), constant.moved(now, step)
    mine = gained[felt]
    sigma = float(mine.std(ddof=1)) / len(mine) ** 0.5
    gain = Gain(float(mine.mean()), sigma, float(stay[felt].mean()), len(mine))
    return gain, constant.moved(now, step)
