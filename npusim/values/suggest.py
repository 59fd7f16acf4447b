"""Near misses: what a reader probably meant by a name that we don't know."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Iterable


_LONGEST = 200  # letters of a name


def near(got: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """Up to `n` candidates that resemble `got`, best first; case and input order don't matter.

    A candidate resembles `got` when difflib says so, or when one contains the other (``GroupNorm``
    for ``aclnnGroupNormBackward``).
    """
    return list(_near(got.strip().lower(), tuple(sorted(set(candidates))), n))


@lru_cache(maxsize=256)
def _near(wanted: str, candidates: tuple[str, ...], n: int) -> tuple[str, ...]:
    if not wanted:
        return ()
    by_lower: dict[str, str] = {}
    for candidate in candidates:
        by_lower.setdefault(candidate.lower(), candidate)
    if len(wanted) > _LONGEST:  # difflib takes its time over long texts, and nobody meant one
        return ()
    import difflib  # for mistakes alone

    found = difflib.get_close_matches(wanted, by_lower, n=n, cutoff=0.6)
    if len(wanted) >= 3:
        parts = (name for name in by_lower if wanted in name or (len(name) >= 3 and name in wanted))
        found += sorted((name for name in parts if name not in found), key=len)
    return tuple(by_lower[name] for name in found[:n])


def did_you_mean(got: str, candidates: Iterable[str], n: int = 3) -> str:
    """``Did you mean A, B or C?``, or the empty string when nothing comes close."""
    names = near(got, candidates, n)
    if not names:
        return ""
    *head, last = names
    if not head:
        return say("Did you mean {last}?").format(last=last)
    return say("Did you mean {head} or {last}?").format(head=", ".join(head), last=last)
