"""Matrix products on the cube cores: c = a @ b, with a bias or what else a fusion adds to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel
from npusim.ascendc.loops import Dealt
from npusim.ascendc.rounding import RoundMode, convert
from npusim.ascendc.scalars import Scalar
from npusim.library.epilogue import Epilogue
from npusim.library.matmul import Finish, GmMatrix, Matmul, Product
from npusim.ops.matmul.operands import Operand
from npusim.ops.matmul.shapes import Partition, Shape, Share
from npusim.ops.matmul.tiling import partition
from npusim.values.dtypes import FLOAT, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.operands import Problem

_WIDE_BYTES = 1 << 29  # float32 copies of operands are made up to this size


class MatMul(Kernel):
    """The product of a problem, on as many cube cores as pay.

    ``bias`` is a row that is added to all others, ``scale`` what a fixpipe multiplies the columns
    of whole numbers with. ``epilogue`` is what a fused kernel of a chip
    without a fixpipe does to blocks on their way out. ``hf32`` multiplies float32 at twice the
    speed; ``tiling`` cuts the product. ``adds`` adds it to what c holds. Of matrices b that are
    loaded ``once``, by one row of blocks, none is left in L2.
    """

    op_type: str = "MatMul"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"

    def __init__(
        self,
        profile: Profile,
        problem: Problem,
        *,
        bias: GlobalTensor | None = None,
        scale: GlobalTensor | None = None,
        epilogue: Epilogue | None = None,
        hf32: bool = False,
        op_type: str = "MatMul",
        tiling: Callable[[Profile, Shape], Partition] = partition,
        adds: bool = False,
        once: bool = False,
    ) -> None:
        self.adds = adds
        self.op_type = op_type  # one kernel for operators of several names
        self.generated = not op_type.endswith("V3")  # those are written in Ascend C
        # Fixpipe of MatMulV2 on Ascend910B2 takes 0.5 us however long sums take (Ascend/msinsight).
        self.unit_flag = op_type != "MatMulV2"
        self.problem, self.bias, self.scale, self.hf32 = problem, bias, scale, hf32
        through_ub = profile.paths.l0c_to_gm is None
        if epilogue is not None and not through_ub:
            raise KernelError(op_type, f"{profile.name} doesn't fuse vector work into products")
        self.epilogue = Epilogue.plain(profile, problem.c.tensor) if through_ub else None
        self.epilogue = epilogue or self.epilogue
        if bias is not None and self.epilogue is not None:
            through = INT32 if self.epilogue.scale else self.epilogue.product.dtype
            if bias.dtype is not through:
                raise KernelError(op_type, f"a bias in {bias.dtype} for a product in {through}")
        self.beside = _beside(self.epilogue, problem)
        steps_out = 0 if self.epilogue is None else len(self.epilogue.formula.steps)
        self.partition = tiling(profile, shape_of(problem, hf32, bias is not None, steps_out))
        self.block_dim = self.partition.block_dim
        if once and problem.m <= self.partition.blocks.base_m:
            past = replace(problem.b.tensor, past_l2=True)
            self.problem = problem = replace(problem, b=replace(problem.b, tensor=past))
        others = () if self.epilogue is None else self.epilogue.reads
        rows = tuple(each for each in (bias, scale) if each is not None)
        self.reads = (problem.a.tensor, problem.b.tensor, *rows, *others)
        self.writes = (problem.c.tensor,) if self.epilogue is None else self.epilogue.writes
        self.cold = problem.known
        self._wide: dict[int, GlobalTensor] = {}

    def block_kind(self, block_idx: int) -> Hashable:
        """Matrices, rows and columns of a core's rectangles."""
        found = self.partition
        return found.order(block_idx) if found.window is None else found.sizes(block_idx)

    def process(self, core: Core) -> None:
        """One product after the other of this core's part."""
        problem = self.problem
        matmul = Matmul(
            core,
            self.partition.blocks,
            problem.a.tensor.dtype,
            problem.c.tensor.dtype,
            problem.k,
            bias=self.bias.dtype if self.bias is not None and self.epilogue is None else None,
            scaled=self.scale.dtype if self.scale is not None and self.epilogue is None else None,
            hf32=self.hf32,
            unit_flag=self.unit_flag,
            finish=self.finish(core),
            step_operations=self._step_operations(core),
        )
        if self.adds:
            core.set_atomic_add()
        for share, index in self.matrices(core):
            matmul.run(self.product(core, share, index))
        core.set_atomic_none()
        if core.get_block_idx() == self.block_dim - 1:
            self._wide.clear()

    def _step_operations(self, core: Core) -> int:
        """What finding the addresses of a piece of k takes; code for one shape has them."""
        if not (self.generated and core.costs.for_any_shape):
            return 0
        return core.profile.software.matmul_step_operations

    def finish(self, core: Core) -> Callable[[Product], Finish] | None:
        """What takes blocks out of L0C; None where they go to c as they are."""
        if self.epilogue is None:
            return None
        return self.epilogue.start(core, self.partition.blocks, bias=self.bias is not None).of

    def matrices(self, core: Core) -> Iterator[tuple[Share, Place]]:
        """A core's rectangles, of one matrix after the other; dealt ones in loops."""
        if self.partition.window is not None:
            yield from self.in_loops(core)
            return
        for share in self.partition.shares(core.get_block_idx()):
            yield from self.matrices_of(core, share)

    def in_loops(self, core: Core) -> Iterator[tuple[Share, Place]]:
        """A core's rectangles, those of one size in a loop."""
        for (count, rows, columns), starts in self.partition.by_size(core.get_block_idx()).items():
            if count > 1:
                for begin, row, column in starts.T.tolist():
                    share = Share(begin, count, row, rows, column, columns)
                    yield from self.matrices_of(core, share)
                continue
            dealt = [Dealt(each) for each in starts]
            for turn in core.loop(starts.shape[1], sequential=True):
                first, row, column = (each.at(turn) for each in dealt)
                yield Share(int(starts[0, 0]), count, row, rows, column, columns), first

    def matrices_of(self, core: Core, share: Share) -> Iterator[tuple[Share, Place]]:
        """A rectangle of some matrices, one after the other."""
        if share.matrices == 1:
            yield share, share.first
            return
        for index in core.loop(share.matrices):
            yield share, index + share.first

    def product(self, core: Core, share: Share, index: Place) -> Product:
        """The product of a rectangle of a matrix."""
        problem = self.problem
        a, b = (self._operand(core, each) for each in (problem.a, problem.b))
        return Product(
            problem.c.matrix(False, index, share.row, share.column),
            a.matrix(problem.turned_a, index, share.row, 0),
            b.matrix(problem.turned_b, index, 0, share.column),
            share.rows,
            share.columns,
            problem.k,
            self._row(index, share.column),
            scale=None if self.scale is None else GmMatrix(self.scale, ((share.column, 1),), 0),
            sides=tuple(each.matrix(False, index, share.row, share.column) for each in self.beside),
        )

    def _row(self, index: Place, column: Index) -> GmMatrix | None:
        """The bias of a product: one for all, or one for some of the batch each."""
        if self.bias is None:
            return None
        n, bias = self.problem.n, self.bias
        places: list[tuple[Place, int]] = [(column, 1)]
        rows = bias.numel // n
        if rows > 1 and not isinstance(index, Scalar):
            places.append((index // (self.problem.batch // rows), n))
        short = bias.numel < n  # fractals have columns that the bias lacks
        if short and (data := bias.buffer.data) is not None:
            padded = np.zeros(n, data.dtype)
            padded[: bias.numel] = data[bias.start : bias.start + bias.numel]
            bias = replace(bias, buffer=bias.buffer.shown_as(padded), start=0)
        return GmMatrix(replace(bias, shape=(bias.numel,)), tuple(places), 0)

    def _operand(self, core: Core, operand: Operand) -> Operand:
        """The operand with its numbers in float32, converted once for all cores."""
        tensor = operand.tensor
        half = tensor.dtype.is_float and tensor.dtype.itemsize < FLOAT.itemsize
        if not core.numerics or not half:
            return operand
        data = tensor.buffer.data
        if data is None or data.dtype == np.float32:
            return operand
        wide = self._wide.get(tensor.buffer.number)
        if wide is None:
            if data.size * FLOAT.itemsize > _WIDE_BYTES:
                return operand
            numbers = np.empty(data.shape, np.float32)
            convert(data, numbers, FLOAT, RoundMode.CAST_NONE)
            shadow = tensor.buffer.shown_as(numbers, wide=True)
            wide = self._wide[tensor.buffer.number] = replace(tensor, buffer=shadow)
        return replace(operand, tensor=replace(wide, start=tensor.start, shape=tensor.shape))


def _beside(epilogue: Epilogue | None, problem: Problem) -> tuple[Operand, ...]:
    """What is read beside the products, if products share some of it; else it lies as they do."""
    tensors = [] if epilogue is None else [side.tensor for side in epilogue.sides]
    if all(each.shape == problem.c.tensor.shape for each in tensors):
        return ()
    found = (Operand.of(each).beside(problem.c) for each in tensors)
    return tuple(each for each in found if each is not None)


def shape_of(problem: Problem, hf32: bool, has_bias: bool, steps_out: int = 0) -> Shape:
    """What decides about the tiling of a problem."""
    return Shape(
        problem.batch,
        problem.m,
        problem.n,
        problem.k,
        problem.turned_a,
        problem.turned_b,
        bool(problem.a.lanes),
        problem.a.tensor.dtype,
        problem.c.itemsize,
        hf32,
        steps_out,
        has_bias,
        bool(problem.b.lanes),
    )
