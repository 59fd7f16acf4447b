"""Running the code of all blocks from one barrier to the next, on all cores of the host.

Where a kernel says that its blocks have nothing in common (``independent``), each of some threads
runs a part of them with a copy of the kernel, since kernels keep their buffers on themselves. NumPy
lets the others work meanwhile. Numbers don't depend on it: adding into global memory is put off
until all have come to the barrier, and done in the order of the blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from math import ceil, prod
from threading import get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.values.errors import KernelError
from npusim.values.host import cores
from npusim.values.locks import lock

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from npusim.ascendc.block import Block
    from npusim.ascendc.chains import Engine
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.passes import Pass

_MOST_THREADS = 4  # what Python does between two calls of NumPy is done by one of them at a time
_LONGEST_WAIT_S, _BETWEEN_S = 60.0, 0.001  # of a fork, for products in other threads
_WORTHWHILE_BYTES = 1 << 22  # of tensors: below, starting threads takes longer than it saves
_WORTH_SPREADING = 1 << 19  # elements of a pass: below, handing it over takes longer


def shares(kernel: Kernel, blocks: Sequence[int], *, numerics: bool) -> list[list[int]]:
    """The blocks that each thread runs, in order; a single share for a single thread."""
    threads = 1 if kernel.shares_all or not numerics else _threads(kernel)
    length = ceil(len(blocks) / threads)
    return [list(blocks[first : first + length]) for first in range(0, len(blocks), length)]


def _threads(kernel: Kernel) -> int:
    """How many cores of the host work on a kernel's numbers."""
    nbytes = sum(tensor.buffer.nbytes for tensor in (*kernel.reads, *kernel.writes))
    worthwhile = kernel.independent and nbytes >= _WORTHWHILE_BYTES
    return min(_MOST_THREADS, cores()) if worthwhile else 1


@contextmanager
def spread(kernel: Kernel, engine: Engine | None) -> Iterator[Engine | None]:
    """The engine for a kernel's chains.

    Where all blocks' tasks are computed together, Python runs their code once, and each pass goes
    to all cores of the host.
    """
    threads = _threads(kernel) if kernel.shares_all and engine is not None else 1
    if threads == 1 or engine is None:
        yield engine
        return
    from concurrent.futures import ThreadPoolExecutor  # takes longer than many an estimate

    def one(part: Pass) -> None:
        with np.errstate(all="ignore"):  # as in `_run_phases`, by thread
            engine(part)

    def whole(work: Pass) -> None:
        parts = work.parts(threads) if prod(work.space) >= _WORTH_SPREADING else [work]
        others = [pool.submit(one, part) for part in parts[1:]]
        one(parts[0])
        for each in others:
            each.result()

    with ThreadPoolExecutor(threads - 1) as pool:
        yield whole


def copies(kernel: Kernel, count: int) -> list[Kernel]:
    """The kernel for each of ``count`` threads."""
    return [kernel, *(copy(kernel) for _ in range(count - 1))]


class _OneBlasThread:
    """While any run is inside, BLAS has one thread.

    More of them would add in another order on another host, and wait for each other on a busy one;
    what the host has more of goes to the blocks of a kernel. The limit is the process's, so the
    first to come sets it, and the last to go takes it back.
    """

    def __init__(self) -> None:
        self._entering, self._inside = lock(), list[int]()  # threads
        self._limits: Any = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._wait_for_others,
                after_in_parent=self._entering.release,
                after_in_child=self._begin_anew,
            )

    def __enter__(self) -> None:
        with self._entering:
            if not self._inside:
                from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

                self._limits = threadpool_limits(1, "blas")
            self._inside.append(get_ident())

    def _wait_for_others(self) -> None:
        """BLAS can't be forked while it multiplies in another thread: its locks stay taken."""
        self._entering.acquire()
        end = monotonic() + _LONGEST_WAIT_S
        while set(self._inside) - {get_ident()} and monotonic() < end:
            self._entering.release()
            sleep(_BETWEEN_S)
            self._entering.acquire()

    def _begin_anew(self) -> None:
        """Nobody is inside in a forked process: threads that were stayed behind."""
        if self._inside:
            self._inside.clear()
            self._limits.restore_original_limits()

    def __exit__(self, *_: object) -> None:
        with self._entering:
            if get_ident() in self._inside:  # not in a process that was forked inside
                self._inside.remove(get_ident())
            if not self._inside:
                self._limits.restore_original_limits()


_one_blas_thread = _OneBlasThread()


def run(
    kernel: Kernel,
    running: Mapping[int, Block],
    parts: Sequence[Sequence[int]],
    *,
    numerics: bool,
) -> None:
    """Run all blocks from one barrier to the next, in the order of their index."""
    multiplies = numerics and (kernel.is_mix or kernel.cores == "cube")
    with _one_blas_thread if multiplies else nullcontext():
        _run_parts(kernel, running, parts)


def _run_parts(
    kernel: Kernel, running: Mapping[int, Block], parts: Sequence[Sequence[int]]
) -> None:
    if len(parts) == 1:
        _run_phases(kernel, running, parts, None)
        return
    for block in running.values():
        for core in block.cores:
            core.defer_atomic_adds()
    from concurrent.futures import ThreadPoolExecutor  # takes longer than many an estimate

    with ThreadPoolExecutor(len(parts)) as pool:
        _run_phases(kernel, running, parts, pool)


def _run_phases(
    kernel: Kernel,
    running: Mapping[int, Block],
    parts: Sequence[Sequence[int]],
    pool: ThreadPoolExecutor | None,
) -> None:
    def advance(blocks: Sequence[int]) -> list[int]:
        with np.errstate(all="ignore"):  # the device has no floating-point traps
            return [block for block in blocks if running[block].advance()]

    while any(parts):
        arrived = list(pool.map(advance, parts)) if pool else [advance(part) for part in parts]
        for part in parts:
            for block in part:
                for core in running[block].cores:
                    core.apply_deferred_adds()
        missing = sorted({*_all(parts)} - {*_all(arrived)})
        if missing and any(arrived):
            raise KernelError(
                kernel.op_type,
                f"blocks {missing} end while the others wait in sync_all",
                "Every core has to come to it as often.",
                site=next(
                    core.waits_at for block in _all(arrived) for core in running[block].cores
                ),
            )
        parts = arrived


def _all(parts: Sequence[Sequence[int]]) -> list[int]:
    return [block for part in parts for block in part]
