"""What CTC computes, for all sequences at once: alphas, losses and gradients, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]


def sequences(told: Array | None, count: int, most: int) -> tuple[int, ...]:
    """How long each sequence is, or may be."""
    return (most,) * count if told is None else tuple(int(each) for each in told.reshape(-1))


def losses(given: Sequence[Array], width: int, blank: int, *, zero: bool) -> tuple[Array, Array]:
    """The negative logarithm of every likelihood, and all alphas."""
    probs, targets, lengths, labels = given
    found, alphas = np.zeros(len(lengths)), np.full((len(lengths), len(probs), width), -np.inf)
    for n, (words, steps) in enumerate(zip(_words(targets, labels, blank), lengths, strict=True)):
        own = _alphas(probs[:steps, n].astype(np.float64), words, blank)
        alphas[n, :steps, : len(words)] = own
        found[n] = -np.logaddexp.reduce(own[-1, -2:]) if steps else 0.0
    return np.where(zero & np.isinf(found), 0.0, found), alphas


def gradients(given: Sequence[Array], blank: int, *, zero: bool) -> Array:
    """Of the log probabilities, zeros behind a sequence's end."""
    grad, probs, targets, lengths, labels, loss, alphas = given
    found = np.zeros(probs.shape)
    for n, (words, steps) in enumerate(zip(_words(targets, labels, blank), lengths, strict=True)):
        own, cost = probs[:steps, n].astype(np.float64), float(loss.reshape(-1)[n])
        if zero and (np.isinf(cost) or cost == 0):
            cost = -np.logaddexp.reduce(_alphas(own, words, blank)[-1, -2:])
            if np.isinf(cost):
                continue
        betas = _alphas(own[::-1], words[::-1], blank)[::-1, ::-1]
        both = alphas[n, :steps, : len(words)].astype(np.float64) + betas
        common = np.full(own.shape, -np.inf)
        for place, word in enumerate(words):
            common[:, word] = np.logaddexp(common[:, word], both[:, place])
        with np.errstate(all="ignore"):
            share = np.exp(own) - np.exp(common + cost - own)
        found[:steps, n] = share * float(grad.reshape(-1)[n])
    return found


def _words(targets: Array, labels: Array, blank: int) -> list[Array]:
    """Each sequence's labels with blanks between and around them."""
    ends = np.cumsum(labels)
    found = []
    for n, count in enumerate(labels.tolist()):
        own = targets[n, :count] if targets.ndim > 1 else targets[ends[n] - count : ends[n]]
        words = np.full(2 * count + 1, blank, np.int64)
        words[1::2] = own
        found.append(words)
    return found


def _alphas(probs: Array, words: Array, blank: int) -> Array:
    """Logarithms of what leads to each place at each step."""
    found = np.full((len(probs), len(words)), -np.inf)
    if not len(probs):
        return found
    found[0, :2] = probs[0, words[:2]]
    skips = np.zeros(len(words), bool)
    skips[2:] = (words[2:] != blank) & (words[2:] != words[:-2])
    with np.errstate(all="ignore"):
        for step in range(1, len(probs)):
            before = found[step - 1]
            one = np.concatenate(([-np.inf], before[:-1]))
            two = np.concatenate(([-np.inf, -np.inf], before))[: len(words)]
            total = np.logaddexp(np.logaddexp(before, one), np.where(skips, two, -np.inf))
            found[step] = total + probs[step, words]
    return found
