"""Packets that rows of a matrix go in, where they are turned into fractals on their way.

A packet is a line of L2, half of one or a quarter, and begins at a multiple of its size; what is
less than a quarter takes one, too. Source: public cube tiling model of the vendor (cann-ops,
op_tiling/gemm/common/cache_tiling_request_bytes.cc).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import ceil


def packets(begin: int, nbytes: int, line_bytes: int) -> tuple[int, int]:
    """How many packets a row is that begins so far behind a line, and the bytes of all of them."""
    half, quarter = line_bytes // 2, line_bytes // 4
    number, sent = 0, 0
    if begin % quarter:
        part = quarter - begin % quarter
        number, sent, nbytes, begin = 1, quarter, nbytes - part, (begin + part) % line_bytes
    while nbytes > 0 and begin:
        packet = half if begin == half and nbytes >= half else quarter
        number, sent, nbytes = number + 1, sent + packet, nbytes - packet
        begin = (begin + packet) % line_bytes
    nbytes = max(0, nbytes)
    lines, halves = nbytes // line_bytes, nbytes % line_bytes // half
    rest = ceil(nbytes % half / quarter)
    return (
        number + lines + halves + rest,
        sent + lines * line_bytes + halves * half + rest * quarter,
    )


@lru_cache(maxsize=4096)
def packets_of(run_bytes: int, grain_bytes: int, line_bytes: int) -> float:
    """How many a run is that begins at any multiple of ``grain_bytes`` in a line, on average."""
    quarter = line_bytes // 4

    def wholes(nbytes: int) -> int:
        """Those of runs that begin at each quarter, or at each multiple in front of one."""
        begins = range(0, line_bytes, max(quarter, grain_bytes))
        return sum([packets(begin, nbytes, line_bytes)[0] for begin in begins])

    number = wholes(run_bytes)
    # Others have one more, up to the next quarter; how many the rest is follows from its quarters.
    rests = [max(0, run_bytes - each) for each in range(grain_bytes, quarter, grain_bytes)]
    for alike, times in Counter((each // quarter, each % quarter > 0) for each in rests).items():
        number += times * (4 + wholes(alike[0] * quarter + alike[1]))
    return number * grain_bytes / line_bytes
