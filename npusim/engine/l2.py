"""What L2 holds between the tasks of a chain, and which share of a transfer it serves.

The cache is followed buffer by buffer: least recently used buffers leave first, a buffer that
doesn't fit keeps the part that does. Inside a kernel a repeated access hits when everything the
cores moved in between fits into L2.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from math import exp
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from npusim.engine.program import Reuse, Transfer

_ROUNDS = 40  # until the share that is gone doesn't change any more


class Code(NamedTuple):
    """Where a kernel's code is: the share that the cores have ``lost``.

    ``far`` code isn't in L2 either: nothing has run it for long. Code for ``one_shape`` has one
    variant, so that all kernels' fits into the cores.
    """

    lost: float = 1.0
    far: bool = False
    one_shape: bool = False


ALL_LOST = Code()


class L2State:
    """Resident bytes per buffer of global memory; ``capacity_bytes`` of them at most.

    ``write_back_share`` is the part of written bytes that push someone else's modified bytes out to
    HBM: 0 for a cache that holds nothing modified, and ``pushed_out_share`` that of the bytes which
    loads bring from there. ``reuse_fraction`` is the part of the cache that serves a kernel which
    reads its data again and again. Beside it stand the instruction caches of the cores, which hold
    the ``code_kernels`` that ran last; ``others`` is where that of all other kernels is. What AI
    CPUs have written last is in caches of their own.
    """

    def __init__(
        self,
        capacity_bytes: float,
        write_back_share: float = 0.0,
        reuse_fraction: float = 1.0,
        code_kernels: int = 0,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.write_back_share = write_back_share
        self.pushed_out_share = 0.0
        self.reuse_fraction = reuse_fraction
        self.others = ALL_LOST
        self._ran: set[str] = set()
        self._code: deque[Hashable] = deque(maxlen=code_kernels)
        self._resident: OrderedDict[int, float] = OrderedDict()
        self._with_cpus: dict[int, float] = {}
        self._held_bytes = 0.0

    @property
    def traits(self) -> tuple[float, ...]:
        """What decides, beside what it holds, how it serves a kernel's transfers."""
        return (
            self.capacity_bytes, self.write_back_share, self.pushed_out_share, self.reuse_fraction
        )  # fmt: skip

    def holding(self, resident: Mapping[int, float]) -> L2State:
        """A cache like this one, which holds so many bytes of some buffers and nothing else."""
        found = L2State(self.capacity_bytes, self.write_back_share, self.reuse_fraction)
        found.pushed_out_share = self.pushed_out_share
        for buffer, nbytes in resident.items():
            found.touch(buffer, nbytes)
        return found

    def resident_bytes(self, buffer: int) -> float:
        """Bytes of a buffer that are in L2."""
        return self._resident.get(buffer, 0.0)

    def place_of_code(self, code: Hashable, op_type: str = "") -> Code:
        """Where a kernel's instructions are; the cores have none of None, unless for one shape."""
        if code is not None and code in self._code:
            return self.others._replace(lost=0.0, far=False)
        lost = self.others.lost if code is not None or self.others.one_shape else 1.0
        return self.others._replace(lost=lost, far=self.others.far and op_type not in self._ran)

    def keep_code(self, code: Hashable, op_type: str = "") -> None:
        """A kernel has run."""
        self._code.append(code)
        self._ran.add(op_type)

    def repeat(self, sizes: Mapping[int, float]) -> None:
        """Bring the cache into the state in which a loop over these buffers (bytes) finds it.

        What doesn't fit drives out a part of everything, modified bytes among it.
        """
        gone = _evicted(sum(sizes.values()) / (self.reuse_fraction * self.capacity_bytes))
        for buffer, nbytes in sizes.items():
            self.touch(buffer, (1.0 - gone) * nbytes)
        self.write_back_share = gone

    def written_by_cpus(self, buffer: int, nbytes: float, room: float) -> None:
        """AI CPUs have written a buffer: the last ``room`` bytes that they write stay with them."""
        self._with_cpus.pop(buffer, None)
        self._with_cpus[buffer] = nbytes
        for older in (*reversed(self._with_cpus),):
            self._with_cpus[older] = min(room, self._with_cpus[older])
            room -= self._with_cpus[older]

    def taken_from_cpus(self, buffers: Iterable[int]) -> float:
        """Bytes of buffers that AI cores get out of the caches of AI CPUs, once."""
        return sum(self._with_cpus.pop(buffer, 0.0) for buffer in buffers)

    def touch(self, buffer: int, nbytes: float) -> None:
        """``nbytes`` of a buffer have been read or written.

        They are now the most recent content.
        """
        before = self._resident.pop(buffer, 0.0)
        kept = max(before, min(nbytes, self.capacity_bytes))
        self._held_bytes -= before
        excess = self._held_bytes - (self.capacity_bytes - kept)
        while self._resident and excess > 0:
            oldest, held = self._resident.popitem(last=False)
            gone = min(held, excess)
            if gone < held:
                self._resident[oldest] = held - gone
                self._resident.move_to_end(oldest, last=False)
            self._held_bytes -= gone
            excess -= gone
        self._resident[buffer] = kept
        self._held_bytes += kept

    def misses(
        self,
        touched: Mapping[int, float],
        sizes: Mapping[int, float],
        held: Mapping[int, float],
        users: Mapping[int, int],
        produced: Collection[int] = (),
        loaded: Mapping[int, float] | None = None,
    ) -> Callable[[Transfer], float]:
        """The share of a transfer that goes to HBM.

        ``touched`` are the bytes that all cores together move of each buffer for their own first
        time, ``sizes`` how much of the buffer that is: what one core has fetched the others find in
        L2. ``held`` are the bytes of each that were in L2 before. ``users`` counts the cores that
        touch a buffer. ``produced`` are buffers that the kernel itself fills before it reads them:
        they are read from L2 as far as they fit. ``loaded`` is what of ``touched`` are loads, by
        default all: what is stored where it was loaded doesn't make the loads hit.
        """
        return _Misses(self, touched, sizes, held, users, produced, loaded or touched).of


class _Misses:
    """What of one kernel's transfers goes to HBM; arguments as for :meth:`L2State.misses`."""

    def __init__(
        self,
        cache: L2State,
        touched: Mapping[int, float],
        sizes: Mapping[int, float],
        held: Mapping[int, float],
        users: Mapping[int, int],
        produced: Collection[int],
        loaded: Mapping[int, float],
    ) -> None:
        self._cache, self._touched, self._sizes, self._users = cache, touched, sizes, users
        capacity = cache.capacity_bytes
        self._total = sum(sizes.values())
        self._overflow = max(0.0, 1.0 - capacity / self._total) if self._total else 0.0
        self._cold = {
            buffer: max(0.0, min(size, nbytes) - held[buffer]) / nbytes
            for buffer, size in sizes.items()
            if (nbytes := loaded.get(buffer, 0.0))
        }
        self._own = {
            buffer: max(0.0, 1.0 - capacity / sizes[buffer]) if sizes[buffer] else 0.0
            for buffer in produced
        }

    def of(self, transfer: Transfer) -> float:
        """The share of a transfer's bytes."""
        cache = self._cache
        if transfer.bypasses_l2:
            return 1.0
        if transfer.write:
            # What fits stays in L2, modified, and is written back by whoever evicts it.
            evicts = max(self._overflow, cache.write_back_share)
            if transfer.buffer not in self._own:
                return evicts
            # What is written to again and again, to be read in between, stays there.
            once = self._sizes[transfer.buffer] / max(1.0, self._touched[transfer.buffer])
            return max(self._own[transfer.buffer], evicts * min(1.0, once))
        if transfer.buffer in self._own:
            return self._own[transfer.buffer]
        cold = self._cold.get(transfer.buffer, 1.0)
        if transfer.reuses:
            once = self._sizes[transfer.buffer] / max(1.0, self._touched[transfer.buffer])
            again = sum(map(self._again, transfer.reuses))
            return min(1.0, transfer.fresh_share * cold + once * again)
        if transfer.reuse_bytes is not None:
            # What is moved again and again in between takes room only once.
            cores = max(self._users.values(), default=1)
            between = min(transfer.reuse_bytes * cores, self._total)
            return 0.0 if between <= cache.capacity_bytes else 1.0
        return cold

    def _again(self, reuse: Reuse) -> float:
        """The share of repeated touches whose bytes are gone."""
        cache = self._cache
        between = sum([self._held(buffer, nbytes) for buffer, nbytes in reuse.between])
        return reuse.share * _evicted(between / (cache.reuse_fraction * cache.capacity_bytes))

    def _held(self, buffer: int, nbytes: float) -> float:
        """What of L2 the users of a buffer fill when each of them touches ``nbytes`` of it."""
        touched, size = self._touched.get(buffer), self._sizes.get(buffer, 0.0)
        if not touched:
            return 0.0
        once = size / touched  # what several cores read is there only once
        return min(size, nbytes * self._users[buffer] * once)


def _evicted(pressure: float) -> float:
    """The share of bytes that are gone when ``pressure`` times the cache has been touched since.

    The cache evicts at random, and only what misses evicts: the share m that is gone is
    1 - e**(-m * pressure). Nothing is gone while everything fits.
    """
    gone = 1.0 if pressure > 1.0 else 0.0
    for _ in range(_ROUNDS):
        before, gone = gone, 1.0 - exp(-gone * pressure)
        if gone == before:
            break
    return gone


def crowding(
    transfer: Transfer,
    touched: Mapping[int, float],
    sizes: Mapping[int, float],
    missed: float,
    slowdown: float,
) -> float:
    """The L2 bandwidth that a byte of a transfer takes; more than 1 where cores read the same.

    Reads of one line at the same time are served one after the other. Where the line has to come
    from HBM first, as the share ``missed`` does, all of them wait for it, ``slowdown`` times as
    long as for one in L2. ``touched`` and ``sizes`` as for :meth:`L2State.misses`; their ratio is
    the number of cores that read the same bytes.
    """
    size = sizes.get(transfer.buffer, 0.0)
    if transfer.write or not size or not transfer.shared_cost:
        return 1.0
    others = max(0.0, 1.0 - size / touched[transfer.buffer])
    waiting = missed * (slowdown - 1.0)
    return 1.0 + others * (transfer.shared_cost + waiting)
