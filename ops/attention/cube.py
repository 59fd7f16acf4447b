"""The cube core's side of attention: products for the blocks of both vector cores.

Scores leave for the vector core as soon as a round begins, one round ahead of it; the product with
the values waits for the probabilities.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.engine.program import Pipe
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import MatmulTiling, grain_of
from npusim.ops.attention.spaces import OUTPUTS, SCORES, WEIGHTS
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.ops.attention.blocks import Dealing
    from npusim.ops.attention.call import Call
    from npusim.ops.attention.spaces import Spaces
    from npusim.ops.attention.steps import Job
    from npusim.values.dtypes import DType

    Steps = Iterator[Barrier | CoreWait]

_BASE = 128  # rows and columns of a block in L0C
_DEEPEST = 256  # elements of k in L1 that a streamed product has at a time


def tiling(profile: Profile, dtype: DType, m: int, n: int, k: int, products: int) -> MatmulTiling:
    """Blocks of one of several products that have an equal share of the memories each."""
    buffers, size, grain = profile.buffers, dtype.itemsize, grain_of(profile, dtype)
    base_m = min(_BASE, round_up(m, grain))
    in_l0c = buffers.l0c_bytes // (products * base_m * FLOAT.itemsize)
    base_n = min(_BASE, round_up(n, grain), 1 << in_l0c.bit_length() - 1)
    in_l0 = min(buffers.l0a_bytes // base_m, buffers.l0b_bytes // base_n) // (2 * products * size)
    base_k = min(round_up(k, grain), max(grain, in_l0 // grain * grain), _BASE)
    share = buffers.l1_bytes // products
    panel = base_m * round_up(k, base_k) * size
    keep_a = n > base_n and panel + 4 * base_n * base_k * size <= share
    panels = 2 if 2 * panel + 4 * base_n * base_k * size <= share else 1
    room = share - (panels * panel if keep_a else 0)
    in_l1 = room // (2 * size * (base_n + (0 if keep_a else base_m)))
    step_k = max(base_k, min(in_l1, _DEEPEST, round_up(k, base_k)) // base_k * base_k)
    return MatmulTiling(base_m, base_n, base_k, step_k, keep_a, False, 1, panels=panels)


def multiply(core: Core, products: Matmul, product: Product) -> None:
    """A product, written down once for all of its size and buffers that lie alike."""
    c, a, b, m, n, k, *_ = product
    plain = [each for each in (c, a, b) if type(each) is GmMatrix]
    if len(plain) < len((c, a, b)):
        products.run(product)
        return
    key = m, n, k, *(each.step for each in plain)
    core.alike(key, [partial(products.run, product)], [each.corner for each in plain])


class CubeSide:
    """The products of one cluster; each is asked for in so many ``messages``.

    Blocks are those of one vector core each, or ``shared`` by all.
    """

    def __init__(
        self,
        core: Core,
        call: Call,
        dealing: Dealing,
        spaces: Spaces,
        *,
        messages: int,
        shared: bool = False,
    ) -> None:
        self._core, self._call, self._spaces, self._messages = core, call, spaces, messages
        self._shared = shared
        profile = core.profile
        dtype = call.query.tensor.dtype
        columns, wide = call.columns, call.value.columns
        keys = min(dealing.keys, max(keys for _, keys in dealing.lengths))
        rows = min(dealing.rows, max(queries for queries, _ in dealing.lengths))
        first = tiling(profile, dtype, rows, keys, columns, 2)
        second = tiling(profile, dtype, rows, wide, keys, 2)
        self._scores = Matmul(core, first, dtype, FLOAT, columns)
        self._outputs = Matmul(core, second, dtype, FLOAT, keys)

    def begin(self, job: Job) -> Steps:
        """scores = q @ k.T."""
        call, core = self._call, self._core
        core.take_messages(self._messages)
        into = self._spaces.scores.matrix(core, job, job.keys)
        queries, keys = call.queries(call.query, job), self._keys(job)
        product = Product(into, queries, keys, job.rows, job.keys, call.columns)
        multiply(core, self._scores, product)
        core.cross_core_set_flag(SCORES, Pipe.FIXP, sub_block=self._lane(job))
        yield from ()

    def finish(self, job: Job) -> Steps:
        """outputs = weights @ v, as soon as the vector core has made the weights."""
        call, spaces, core = self._call, self._spaces, self._core
        lane = self._lane(job)
        yield core.cross_core_wait_flag(WEIGHTS, sub_block=lane)
        core.take_messages(self._messages)
        wide = call.value.columns
        into = spaces.outputs.matrix(core, job, wide)
        weights = spaces.weights.matrix(core, job, job.keys)
        product = Product(into, weights, self._values(job), job.rows, wide, job.keys)
        multiply(core, self._outputs, product)
        core.cross_core_set_flag(OUTPUTS, Pipe.FIXP, sub_block=lane)

    def _lane(self, job: Job) -> int | None:
        """The vector core whose block it is; None: all of them."""
        return None if self._shared else job.lane

    def _keys(self, job: Job) -> GmMatrix:
        return self._call.keys(self._call.key, job, transposed=True)

    def _values(self, job: Job) -> GmMatrix:
        return self._call.keys(self._call.value, job)
