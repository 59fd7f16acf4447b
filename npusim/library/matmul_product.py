"""A product as the library's host knows it when it cuts it for cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.values.arithmetic import ceil_div, round_up

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_BLOCK_BITS = 256
_KEPT_BYTES = 256  # of L1, which the host leaves alone


@dataclass(frozen=True)
class HostProduct:
    """Sizes in elements (those to compute, and the whole ones), element sizes in bits.

    ``has_shape``: the sizes to compute were told (``SetShape``). ``bias_bits`` is 0 without a bias,
    ``fixed`` are the m and n of a block where they were set. ``blocked_in``: A or B is FRACTAL_NZ.
    """

    m: int
    n: int
    k: int
    whole: tuple[int, int, int]
    a_bits: int
    b_bits: int
    c_bits: int
    bias_bits: int = 0
    turned_a: bool = False
    turned_b: bool = False
    blocked_in: bool = False
    blocked_out: bool = False
    holds_b: bool = False
    splits_k: bool = False
    has_shape: bool = True
    fixed: tuple[int, int] = (-1, -1)

    @property
    def lanes(self) -> int:
        """Elements of A in a block of 32 bytes."""
        return _BLOCK_BITS // self.a_bits

    def stores_most(self, m: int, n: int, k: int) -> bool:
        """Whether a part's results are more bytes than twice what it loads."""
        return n * m * 2 * self.c_bits > n * k * self.a_bits + m * k * self.b_bits


@dataclass(frozen=True)
class Room:
    """Memories that the host fills, in bytes; ``is_a2``: it knows the chip as Ascend910B."""

    l1_bytes: int
    l0a_bytes: int
    l0c_bytes: int
    is_a2: bool

    @classmethod
    def of(cls, profile: Profile) -> Room:
        """The memories of a chip."""
        buffers = profile.buffers
        return cls(
            (buffers.l1_bytes or 0) - _KEPT_BYTES,
            buffers.l0a_bytes or 0,
            buffers.l0c_bytes or 0,
            profile.cores.style == "split",
        )


def aligned_part(size: int, parts: int, step: int, *, wanted: bool) -> tuple[bool, int]:
    """A part of a size, rounded up to whole steps where that leaves as many parts; whether it is.

    Without ``wanted`` it stays what it is, which counts as success.
    """
    part = ceil_div(size, parts)
    if not wanted or parts <= 1:
        return True, part
    whole = round_up(part, step)
    if whole >= ceil_div(size, parts - 1):
        return False, part
    return True, whole
