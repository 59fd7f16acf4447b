"""Products with few results and long sums: parts of k on different cores, summed up afterwards.

The cube cores store the products of their parts of k in float32 in workspace. When all of them
have, the vector cores add these up, convert and store. The order of the sum is fixed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from npusim.ascendc import Core, GlobalTensor, GmBuffer, Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.queues import BUFFER_NUM
from npusim.library.matmul import GmMatrix, Matmul, Product
from npusim.library.matmul_tiling import grain_of
from npusim.ops.matmul.operands import Operand, Problem
from npusim.ops.matmul.tiling import estimated_cycles, partition
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.shapes import Partition, Shape

_SHARE_BLOCK = 64  # elements that a vector core's share is a multiple of


@dataclass(frozen=True, slots=True)
class Split:
    """``parts`` of k, ``depth`` elements each (the last one what remains), partitioned alike."""

    parts: int
    depth: int
    partition: Partition


def split_of(profile: Profile, shape: Shape) -> Split | None:
    """How to split k, where that beats working on whole sums by what it costs."""
    cores = profile.cores.cube_cores
    if profile.cores.style != "split" or shape.batch > 1 or not shape.dtype.is_float:
        return None
    whole = partition(profile, shape)
    if whole.block_dim > cores // 2:
        return None
    best, found = estimated_cycles(profile, whole), None
    for parts in range(2, cores + 1):
        depth = round_up(ceil(shape.k / parts), max(grain_of(profile, shape.dtype), 256))
        if ceil(shape.k / depth) != parts:
            continue
        part = partition(profile, shape._replace(k=depth, out_bytes=FLOAT.itemsize), cores // parts)
        cycles = estimated_cycles(profile, part) + _summing_up(profile, shape, parts)
        if cycles < best:
            best, found = cycles, Split(parts, depth, part)
    return found


def _summing_up(profile: Profile, shape: Shape, parts: int) -> float:
    """Cycles of everything after the products, roughly."""
    launch, path = profile.launch, profile.paths.gm_to_ub
    each = shape.m * shape.n * FLOAT.itemsize * (parts + 1) / profile.cores.vector_cores
    waiting = (launch.mix_extra_us + launch.sync_all_us) * profile.clock_mhz
    return waiting + each / path.bytes_per_cycle + 2 * path.latency_cycles


class SplitMatMul(Kernel):
    """c = a @ b for a single, plain product whose sums are long."""

    op_type: str = "MatMul"
    is_mix = True

    def __init__(
        self,
        profile: Profile,
        problem: Problem,
        split: Split,
        *,
        bias: GlobalTensor | None = None,
        hf32: bool = False,
        op_type: str = "MatMul",
    ) -> None:
        self.op_type = op_type  # one kernel for operators of several names
        self.generated = not op_type.endswith("V3")  # those are written in Ascend C
        self.problem, self.split, self.bias, self.hf32 = problem, split, bias, hf32
        self.grid = split.partition.block_dim
        self.block_dim = split.parts * self.grid
        shape = (split.parts, problem.m, problem.n)
        nbytes = split.parts * problem.m * problem.n * FLOAT.itemsize
        self.partial = GlobalTensor(GmBuffer("partial_sums", nbytes), FLOAT, shape)
        vectors = self.block_dim * (profile.cores.vector_cores // profile.cores.cube_cores)
        self.share = round_up(ceil(problem.m * problem.n / vectors), _SHARE_BLOCK)
        self.reads = (problem.a.tensor, problem.b.tensor, *(() if bias is None else (bias,)))
        self.writes, self.scratch = (problem.c.tensor,), (self.partial,)
        self.cold = problem.known

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the partial sums."""
        return self.partial.nbytes

    def block_kind(self, block_idx: int) -> Hashable:
        """What the cube core multiplies, and how much each vector core adds up."""
        part, place = divmod(block_idx, self.grid)
        return (
            self.split.partition.order(place),
            self._depth(part),
            part == 0,
            self._sums(block_idx, 0),
            self._sums(block_idx, 1),
        )

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """Products, then sums."""
        if core.unit.kind == "cube":
            self._multiply(core)
            yield core.sync_all()
        else:
            yield core.sync_all()
            self._sum_up(core)

    def _multiply(self, core: Core) -> None:
        problem, depth = self.problem, self.split.depth
        part, place = divmod(core.get_block_idx(), self.grid)
        # The bias belongs to one of the parts.
        bias = self.bias if part == 0 else None
        matmul = Matmul(
            core,
            self.split.partition.blocks,
            problem.a.tensor.dtype,
            FLOAT,
            depth,
            bias=None if bias is None else bias.dtype,
            hf32=self.hf32,
        )
        target = Operand(self.partial, (self.split.parts,), problem.m, problem.n)
        for share in self.split.partition.shares(place):
            first = part * depth
            matmul.run(
                Product(
                    target.matrix(False, part, share.row, share.column),
                    problem.a.matrix(problem.turned_a, 0, share.row, first),
                    problem.b.matrix(problem.turned_b, 0, first, share.column),
                    share.rows,
                    share.columns,
                    self._depth(part),
                    None if bias is None else GmMatrix(bias, ((share.column, 1),), 0),
                )
            )

    def _sum_up(self, core: Core) -> None:
        """Add up the partial sums of a stretch of results."""
        place = core.get_block_idx(), core.get_sub_block_idx()
        length = self._sums(*place)
        if not length:
            return
        first, out = self._place(*place) * self.share, self.problem.c.tensor
        size = self.problem.m * self.problem.n
        ins, sums = TQue(TPosition.VECIN, BUFFER_NUM, "partial"), TBuf("sum")
        outs = TQue(TPosition.VECOUT, BUFFER_NUM, "result")
        per_element = FLOAT.itemsize * (BUFFER_NUM + 1) + out.dtype.itemsize * BUFFER_NUM
        room = core.capacity_bytes("UB") // per_element // _SHARE_BLOCK * _SHARE_BLOCK
        tile = min(room, round_up(length, _SHARE_BLOCK))
        core.pipe.init_buffer(ins, BUFFER_NUM, tile * FLOAT.itemsize)
        core.pipe.init_buffer(sums, 1, tile * FLOAT.itemsize)
        core.pipe.init_buffer(outs, BUFFER_NUM, tile * out.dtype.itemsize)
        flat = out.view(out.numel)
        for start, elements in core.tiles(first, length, tile):
            total = sums.get(FLOAT, elements)
            for part in range(self.split.parts):
                piece = ins.copy_in(self.partial.span(start + part * size, elements))
                if part:
                    core.add(total, total, piece)
                else:
                    core.adds(total, piece, 0.0)
                ins.free_tensor(piece)
            result = outs.alloc_tensor(out.dtype, elements)
            if out.dtype is FLOAT:
                core.adds(result, total, 0.0)
            else:
                core.cast(result, total, RoundMode.CAST_RINT)
            outs.copy_out(flat.span(start, elements), result)

    def _depth(self, part: int) -> int:
        """Elements of k in a part."""
        return min(self.split.depth, self.problem.k - part * self.split.depth)

    def _sums(self, block: int, sub_block: int) -> int:
        """Results that a vector core adds up."""
        total = self.problem.m * self.problem.n
        return max(0, min(self.share, total - self._place(block, sub_block) * self.share))

    def _place(self, block: int, sub_block: int) -> int:
        """The number of a vector core among all of them."""
        return sub_block * self.block_dim + block
