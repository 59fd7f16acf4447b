"""Packets that rows of a matrix go in, where they are turned into fractals on their way.

A packet is a line of L2, half of one or a quarter, and begins at a multiple of its size; what is
less than a quarter takes one, too. Source: public cube tiling model of the vendor (cann-ops,
op_tiling/gemm/common/cache_tiling_request_bytes.cc).
"""

from __future__ import annotations

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


def packets_of(run_bytes: int, grain_bytes: int, line_bytes: int) -> float:
    """How many a run is that begins at any multiple of ``grain_bytes`` in a line, on average.

    Behind the second line each further one is a packet.
    """
    further = max(0, run_bytes // line_bytes - 2)
    return further + _packets_of(run_bytes - further * line_bytes, grain_bytes, line_bytes)


@lru_cache(maxsize=4096)
def _packets_of(run_bytes: int, grain_bytes: int, line_bytes: int) -> float:
    begins = range(0, line_bytes, grain_bytes)
    return (
        sum(packets(each, run_bytes, line_bytes)[0] for each in begins) * grain_bytes / line_bytes
    )
