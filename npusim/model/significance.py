"""Does a constant help kernels that it wasn't fitted to? Cross-validation, one constant at a time.

Each kernel is left out once, and the constant takes the value that is best for the others: what that
does to the error of those left out is its gain, and the standard error of the gain says how far
chance reaches. The constant with the largest gain moves first, and the others are asked again
beside it: what two of them explain is the business of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.validation.fitting import Constant

    Floats = NDArray[np.float64]

SIGMAS: Final = 3.0
"""Standard errors that a gain must exceed: by chance one constant in 700 does."""
LEAST: Final = 0.02  # of the error before: less isn't worth a chip
_FOLDS: Final = 5
_PLAYED: Final = (-0.8, -0.4, -0.15, 0.0, 0.15, 0.4, 0.8)  # spreads from the value now
_BETWEEN: Final = np.linspace(_PLAYED[0], _PLAYED[-1], 65)
_CAP: Final = 0.5  # logarithm beyond which a kernel counts no further
_PULL: Final = 0.002  # of a spread of distance, as in the fit


@dataclass(frozen=True)
class Gain:
    """What a constant does to the mean error of kernels left out, with its standard error.

    Positive is better; errors are logarithms of measured over estimated time, and `before` is theirs
    with the constant where it was.
    """

    gain: float
    standard_error: float
    before: float

    @property
    def decides(self) -> bool:
        """Whether kernels ask for another value, beyond what chance does."""
        return self.gain > max(SIGMAS * self.standard_error, LEAST * self.before)


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
    values = dict(before)
    left, gains = list(constants), dict[str, Gain]()
    found: list[Constant] = []
    target = np.log(np.asarray(measured_us, np.float64))
    while left:
        best: tuple[Gain, Constant, float] | None = None
        for each in left:
            if progress is not None:
                progress(f"{each.key}: is it decided?")
            gain, value = _asked(each, values, target, times_us)
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
    sigma = float(gained.std(ddof=1)) / len(gained) ** 0.5
    step = float(_BETWEEN[int(np.argmin(errors.mean(axis=1) + pull))])
    return Gain(float(gained.mean()), sigma, float(stay.mean())), constant.moved(now, step)
