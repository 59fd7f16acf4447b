"""The high-level matrix product: vector cores ask for it, the cube core of their block computes it.

On a kernel of cube cores alone, it is computed where it is asked for.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.flat import copies
from npusim.ascendc.flat.copies import Address, DeviceMemory
from npusim.ascendc.flat.station import Station
from npusim.ascendc.gm import GlobalTensor as GmTensor
from npusim.ascendc.mistakes import on_behalf, site
from npusim.engine.program import Pipe
from npusim.library.block_matmul import BlockMatmul, Product
from npusim.library.matmul_tiling import MatmulTiling
from npusim.library.operands import GmMatrix
from npusim.pyasc.tensors import GlobalAddress, GlobalTensor, LocalTensor
from npusim.pyasc.values import Int, Struct, fields_of
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.pyasc.params import MatmulConfig, MatmulType

_ASKED, _DONE = 14, 15  # flags between the cores of a block that programs don't use
_IN_L0 = 2


class TCubeTiling(Struct):
    """How a product is cut into the parts of cores, and these into blocks."""


for _name, _field in fields_of(
    """
    used_core_num m n k_a k_b single_core_m single_core_n single_core_k base_m base_n base_k
    depth_a1 depth_b1 step_m step_n is_bias trans_length iterate_order share_mode share_l1_size
    share_l0c_size share_ub_size batch_m batch_n single_batch_m single_batch_n step_ka step_kb
    depth_al1_cache_ub depth_bl1_cache_ub db_l0a db_l0b db_l0c a_layout_info_b a_layout_info_s
    a_layout_info_n a_layout_info_g a_layout_info_d b_layout_info_b b_layout_info_s
    b_layout_info_n b_layout_info_g b_layout_info_d c_layout_info_b c_layout_info_s1
    c_layout_info_n c_layout_info_g c_layout_info_s2 c_layout_info_d batch_num
    """
):
    TCubeTiling.struct_fields = TCubeTiling.struct_fields | {_name: _field}


@dataclass(frozen=True, slots=True)
class _Request:
    """What a vector core asks for: a part of C, or nothing any more."""

    matmul: Matmul | None
    rows: tuple[int, int] = (0, 0)
    columns: tuple[int, int] = (0, 0)
    c: GmMatrix | None = None
    adds: bool = False
    site: str = ""


class Server:
    """What the cores of a launch share: requests, and room for results on their way."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int], deque[_Request]] = defaultdict(deque)
        self._workspace: DeviceMemory | None = None

    def ask(self, station: Station, request: _Request) -> None:
        """Tell the cube core of the block, and wait until it is done."""
        core = station.core
        asked = self._asked[core.get_block_idx(), core.get_sub_block_idx()]
        asked.append(replace(request, site=site()))
        core.cross_core_set_flag(_ASKED, Pipe.MTE3)
        if request.matmul is not None:
            station.wait(core.cross_core_wait_flag(_DONE))

    def serve(self, station: Station) -> None:
        """What the cube core does: one request after the other, until nobody has more."""
        core, block = station.core, station.core.get_block_idx()
        vectors = [unit.sub_block for unit in core.cluster.units if unit.kind == "vector"]
        waiting = [each for each in vectors if each is not None]
        units: list[BlockMatmul | None] = []
        while waiting:
            ready = [each for each in waiting if self._asked[block, each]]
            sub_block = (ready or waiting)[0]
            station.wait(core.cross_core_wait_flag(_ASKED, sub_block=sub_block))
            request = self._asked[block, sub_block].popleft()
            if request.matmul is None:
                waiting.remove(sub_block)
                continue
            with on_behalf(request.site):
                request.matmul.compute(station, request, units)
            core.cross_core_set_flag(_DONE, Pipe.FIXP, sub_block=sub_block)
            waiting.append(waiting.pop(waiting.index(sub_block)))

    def room(self, nbytes: int, index: int, count: int) -> Address:
        """Bytes of workspace for the core with this number."""
        if self._workspace is None:
            self._workspace = DeviceMemory("workspace", np.zeros(nbytes * count, np.uint8))
        return Address(self._workspace, FLOAT, nbytes * index, nbytes * (index + 1))


class Matmul:
    """c = a @ b + bias, in parts of ``single_core_m`` x ``single_core_n`` for each core."""

    def __init__(
        self,
        a: MatmulType,
        b: MatmulType,
        c: MatmulType,
        bias: MatmulType | None = None,
        matmul_config: MatmulConfig | None = None,
        matmul_policy: object = None,
    ) -> None:
        self._types = (a, b, c, bias)
        self._tiling: TCubeTiling | None = None
        self._a: Any = None
        self._b: Any = None
        self._bias: Any = None
        self._turned = [bool(a.is_trans), bool(b.is_trans)]
        self._part: list[int] = []
        self._blocks: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._units: list[BlockMatmul | None] = []
        self._hf32 = False
        station = Station.here()
        self._number = len(station.products)
        station.products.append(self)

    def init(self, tiling: TCubeTiling) -> None:
        """The tiling; ``register_matmul`` may have given it already."""
        self._tiling = tiling
        t = tiling
        self._part = [int(t.single_core_m), int(t.single_core_n), int(t.single_core_k)]

    @property
    def tiling(self) -> TCubeTiling:
        if self._tiling is None:
            raise KernelError(
                "", "the product has no tiling", "Give it to register_matmul, or call init."
            )
        return self._tiling

    def set_tensor_a(self, tensor: GlobalTensor, transpose: bool = False) -> None:
        """The left operand, from its first element for this core on."""
        self._a, self._turned[0] = _in_global(tensor, "a"), bool(transpose)

    def set_tensor_b(self, tensor: GlobalTensor, transpose: bool = False) -> None:
        """The right operand, from its first element for this core on."""
        self._b, self._turned[1] = _in_global(tensor, "b"), bool(transpose)

    def set_bias(self, tensor: GlobalTensor) -> None:
        """A row that is added to all rows."""
        self._bias = _in_global(tensor, "bias")

    def disable_bias(self) -> None:
        """Add no row."""
        self._bias = None

    def set_tail(self, tail_m: int = -1, tail_n: int = -1, tail_k: int = -1) -> None:
        """The size of this core's part where it is smaller than others."""
        for axis, size in enumerate((tail_m, tail_n, tail_k)):
            if int(size) >= 0:
                self._part[axis] = int(size)

    set_single_shape = set_tail

    def set_hf32(self, enable_hf32: bool = False, trans_mode: int = 0) -> None:
        """Multiply float32 rounded to 12 bits of significand."""
        self._hf32 = bool(enable_hf32)

    def set_org_shape(self, *sizes: int) -> None:
        """The size of the whole matrices."""
        m, n, k_a, *others = map(int, sizes)
        self._tiling = tiling = self.tiling.by_value()
        tiling.m, tiling.n, tiling.k_a = m, n, k_a
        tiling.k_b = others[0] if others else k_a

    def iterate(self, *args: object, **named: object) -> Iterator[Int]:
        """Block after block of this core's part of C."""
        for count, block in enumerate(self._all_blocks()):
            self._blocks = [block]
            yield Int(count)

    def _all_blocks(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        t, (m, n, _) = self.tiling, self._part
        rows = [(first, min(int(t.base_m), m - first)) for first in range(0, m, int(t.base_m))]
        columns = [(first, min(int(t.base_n), n - first)) for first in range(0, n, int(t.base_n))]
        if int(t.iterate_order) == 1:
            yield from ((row, column) for row in rows for column in columns)
        else:
            yield from ((row, column) for column in columns for row in rows)

    def get_tensor_c(
        self,
        tensor: LocalTensor | GlobalTensor,
        en_atomic: int = 0,
        en_sequential_write: bool = False,
        sync: bool = True,
        optional_tensor: object = None,
    ) -> None:
        """The block of the current iteration, into UB or to its place in global memory."""
        station, (rows, columns) = Station.here(), self._blocks[0]
        if isinstance(tensor, GlobalTensor):
            c = self._matrix_c(tensor.inner)
            self._ask(station, _Request(self, rows, columns, c, bool(en_atomic)))
            return
        server, core = station.shared, station.core
        assert isinstance(server, Server)
        dtype = tensor.inner.dtype
        t = self.tiling
        nbytes = int(t.base_m) * int(t.base_n) * dtype.itemsize
        vectors = sum(unit.kind == "vector" for unit in core.cluster.units)
        index = core.get_block_idx() * vectors + core.get_sub_block_idx()
        room = server.room(nbytes, index, core.get_block_num() * vectors).cast(dtype)
        width = columns[1]
        back = rows[0] * width + columns[0]
        start = room.start // dtype.itemsize - back
        c = GmMatrix(_whole(room), ((start, 1),), width)
        self._ask(station, _Request(self, rows, columns, c))
        core.recorder.link(Pipe.VECTOR, Pipe.MTE2)
        copies.copy(tensor.inner, room, rows[1] * width)
        core.recorder.link(Pipe.MTE2, Pipe.VECTOR)

    def iterate_all(
        self, tensor: GlobalTensor, en_atomic: int = 0, *args: object, **named: object
    ) -> None:
        """All blocks of this core's part, to their places in global memory."""
        m, n, _ = self._part
        c = self._matrix_c(_in_global(tensor, "c"))
        self._ask(Station.here(), _Request(self, (0, m), (0, n), c, bool(en_atomic)))

    def end(self) -> None:
        """No further products; the cube core is told when the kernel ends."""

    def wait_iterate_all(self) -> None:
        """Results are there when :meth:`iterate_all` returns."""

    def _ask(self, station: Station, request: _Request) -> None:
        if station.core.unit.kind == "cube":
            self.compute(station, request, self._units)
            return
        assert isinstance(station.shared, Server)
        station.shared.ask(station, request)

    def compute(self, station: Station, request: _Request, units: list[BlockMatmul | None]) -> None:
        """On a cube core: the rows and columns of a request, block by block."""
        core, c = station.core, request.c
        assert c is not None
        if self._a is None or self._b is None:
            raise KernelError("", "the product lacks an operand", "Call set_tensor_a and _b first.")
        units += [None] * (self._number + 1 - len(units))
        unit = units[self._number]
        if unit is None:
            unit = units[self._number] = self._unit(station)
        (first, m), (column, n), k = request.rows, request.columns, self._part[2]
        t = self.tiling
        step_a = int(t.m) if self._turned[0] else int(t.k_a)
        step_b = int(t.k_b) if self._turned[1] else int(t.n)
        a = _matrix(self._a, first, 0, step_a, turned=self._turned[0])
        b = _matrix(self._b, 0, column, step_b, turned=self._turned[1])
        bias = None if self._bias is None else _matrix(self._bias, 0, column, 1)
        moved = replace(c, start=(*c.start, (first, c.step), (column, 1)))
        unit.begin(Product(moved, a, b, m, n, k, bias))
        if request.adds:
            core.set_atomic_add()
        for block in unit.iterate():
            unit.get_tensor_c(block, moved)
        if request.adds:
            core.set_atomic_none()

    def _unit(self, station: Station) -> BlockMatmul:
        """The buffers of the cube core for this product."""
        core, t = station.core, self.tiling
        a, _, c, bias = self._types
        dtype = a.dtype.inner
        l0 = min(core.profile.buffers.l0a_bytes, core.profile.buffers.l0b_bytes)
        base_m, base_n, base_k = int(t.base_m), int(t.base_n), int(t.base_k)
        piece = max(base_m, base_n) * base_k * dtype.itemsize
        steps = max(1, int(t.step_ka), int(t.step_kb))
        tiling = MatmulTiling(
            base_m,
            base_n,
            base_k,
            base_k * steps,
            keep_a=False,
            keep_b=False,
            depth_c=max(1, int(t.db_l0c)),
            depth_1=max(1, min(int(t.depth_a1), int(t.depth_b1)) // steps),
            depth_0=_IN_L0 if _IN_L0 * piece <= l0 else 1,
        )
        with_bias = bias.dtype.inner if bias is not None and self._bias is not None else None
        return BlockMatmul(
            core, tiling, dtype, self._part[2], out_dtype=c.dtype.inner, bias=with_bias,
            hf32=self._hf32,
        )  # fmt: skip

    def _matrix_c(self, inner: Address) -> GmMatrix:
        return _matrix(inner, 0, 0, int(self.tiling.n))


def register_matmul(
    pipe: object, workspace: GlobalAddress, matmul: Matmul, tiling: TCubeTiling | None = None
) -> None:
    """Connect a product with the cube core; the workspace that it brings isn't used."""
    if tiling is not None:
        matmul.init(tiling)


def ended(station: Station) -> None:
    """Tell the cube core of a block that a vector core has no further products."""
    if isinstance(station.shared, Server) and station.core.unit.sub_block is not None:
        station.shared.ask(station, _Request(None))


def _in_global(tensor: Any, name: str) -> Any:
    if not isinstance(tensor, GlobalTensor):
        raise KernelError(
            "", f"{name} of a product in on-chip memory isn't simulated", "Give a GlobalTensor."
        )
    return tensor.inner


def _whole(inner: Address) -> GmTensor:
    elements = inner.memory.bytes.size // inner.dtype.itemsize
    return GmTensor(inner.memory.buffer(inner.dtype), inner.dtype, (elements,))


def _matrix(inner: Address, row: int, column: int, step: int, *, turned: bool = False) -> GmMatrix:
    """The matrix whose first element is at an address, from a row and a column on."""
    start = inner.start // inner.dtype.itemsize
    first = column * step + row if turned else row * step + column
    return GmMatrix(_whole(inner), ((start + first, 1),), step, turned)
