"""What happens to blocks of a product on their way out through UB, on chips without a fixpipe.

Results leave L0C with the vector unit, some rows at a time; there a bias is added, and a fused
kernel goes on to compute with them and with tiles of other tensors before MTE3 stores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from npusim.ascendc.queues import BUFFER_NUM, TBuf, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.library.channel_sums import ChannelSums
from npusim.schedules.buffers import BufferPlan
from npusim.schedules.formula import Formula, Term
from npusim.schedules.masks import BITS, keep
from npusim.schedules.runner import Runner
from npusim.values.dtypes import INT32

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, LocalTensor
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.scalars import Scalar
    from npusim.hardware.profile import Profile
    from npusim.library.matmul import Block, Finish, Product
    from npusim.library.matmul_tiling import MatmulTiling
    from npusim.library.operands import GmMatrix, Span
    from npusim.values.dtypes import DType


@dataclass(frozen=True, slots=True)
class Side:
    """A tensor of matrices as large as the results, tile by tile a term of the formula."""

    tensor: GlobalTensor
    term: Term


@dataclass(frozen=True)
class Epilogue:
    """A recorded formula and the tensors that it reads and stores.

    ``product`` is the term of the product itself, to which the bias has been added unless
    ``bias_last`` says that it comes at the end. ``numbers`` are single elements by the name that
    the formula's quantities know them by; their values are in ``scalars`` while a core runs.
    ``totals`` are sums over all rows, a number for every column each; cores add into them.
    Of results in slices those are kept whose bit in the ``mask`` is set, the others become 0. Sums
    of whole numbers leave L0C multiplied with their column's ``scale``, which the product has in
    64 bits, a whole bias added before.
    """

    formula: Formula
    product: Term
    sides: tuple[Side, ...]
    results: tuple[Side, ...]
    bias_last: bool = False
    numbers: tuple[GlobalTensor, ...] = ()
    scalars: dict[int, Scalar] = field(default_factory=dict)
    totals: tuple[Side, ...] = ()
    mask: GlobalTensor | None = None
    scale: DType | None = None

    @classmethod
    def plain(cls, profile: Profile, c: GlobalTensor) -> Epilogue:
        """No formula."""
        formula = Formula(profile, c.dtype)
        product = formula.operand(c.dtype)
        return cls(formula, product, (), (Side(c, product),))

    @property
    def reads(self) -> tuple[GlobalTensor, ...]:
        """Tensors that it reads besides the operands of the product."""
        bits = () if self.mask is None else (self.mask,)
        return (*(side.tensor for side in self.sides), *self.numbers, *bits)

    @property
    def writes(self) -> tuple[GlobalTensor, ...]:
        """Tensors that it stores."""
        return tuple(side.tensor for side in (*self.results, *self.totals))

    def start(self, core: Core, blocks: MatmulTiling, *, bias: bool) -> WayOut:
        """Reserve UB on a core; what takes the blocks of products out of L0C there."""
        return WayOut(core, self, blocks, bias=bias)


class WayOut:
    """An epilogue on one core: its queues and buffers in UB."""

    def __init__(self, core: Core, epilogue: Epilogue, blocks: MatmulTiling, *, bias: bool) -> None:
        self._core, self._epilogue = core, epilogue
        stored = [side.term for side in epilogue.results]
        self._made = [term for term in stored if term is not epilogue.product]
        summed = tuple(side.term for side in epilogue.totals)
        kept = (epilogue.product, *summed)
        self._plan = BufferPlan.of(epilogue.formula.steps, self._made, kept)
        per_element = sum(self._plan.widths) + BUFFER_NUM * sum(
            term.dtype.itemsize
            for term in (
                *(side.term for side in epilogue.sides),
                *dict.fromkeys((*stored, epilogue.product)),
            )
        )
        self.totals: ChannelSums | None = None
        if summed:
            targets = [side.tensor for side in epilogue.totals]
            self.totals = ChannelSums(core, targets, blocks.base_n)
        bits = 0 if epilogue.mask is None else 2 * BUFFER_NUM / BITS  # with what fills up rows
        room = core.capacity_bytes("UB") - core.pipe.used_bytes.get("UB", 0)
        self._scale = TQue(TPosition.VECIN, 1, "scale")
        if epilogue.scale is not None:
            row = blocks.base_n * epilogue.scale.itemsize
            core.pipe.init_buffer(self._scale, 1, row)
            room -= row
        if bias:
            kind = epilogue.product.dtype if epilogue.scale is None else INT32
            row = blocks.base_n * kind.itemsize
            self._bias = TQue(TPosition.VECIN, 1, "bias")
            core.pipe.init_buffer(self._bias, 1, row)
            room -= row
        grain = core.profile.cube.fractal_m
        fitting = int(room // (blocks.base_n * (per_element + bits))) // grain * grain
        self._rows = max(grain, min(blocks.base_m, fitting))
        self._tile = self._rows * blocks.base_n
        self._product = self._queue(epilogue.product, TPosition.VECOUT)
        self._sides = [self._queue(side.term, TPosition.VECIN) for side in epilogue.sides]
        self._outs = {term: self._queue(term, TPosition.VECOUT) for term in self._made}
        self._temps = [TBuf(f"temp{index}") for index in range(len(self._plan.widths))]
        for buffer, width in zip(self._temps, self._plan.widths, strict=True):
            core.pipe.init_buffer(buffer, 1, self._tile * width)
        self._mask = TQue(TPosition.VECIN, BUFFER_NUM, "mask")
        if epilogue.mask is not None:
            rows_apart = blocks.base_n // core.profile.cube.fractal_n * core.block_bytes
            core.pipe.init_buffer(self._mask, BUFFER_NUM, self._tile // BITS + rows_apart)
        for index, tensor in enumerate(epilogue.numbers):
            epilogue.scalars[index] = core.load_scalar(tensor.span(0, 1))
        self._runner = Runner(core, epilogue.formula.steps)

    def of(self, product: Product) -> Finish:
        """What takes a block of this product out."""

        def finish(block: Block) -> None:
            sums, rows, columns = block
            bias, scale = self._load_bias(product, columns), self._load_scale(product, columns)
            step = self._rows if self._core.recording else rows[1]
            for first in range(0, rows[1], step):
                part = min(step, rows[1] - first)
                here = (rows[0] + first, part)
                self._part(product, sums[first : first + part], here, columns, (bias, scale))
            if bias is not None:
                self._bias.free_tensor(bias)
            if scale is not None:
                self._scale.free_tensor(scale)

        return finish

    def _part(
        self,
        product: Product,
        block: LocalTensor,
        rows: Span,
        columns: Span,
        lines: tuple[LocalTensor | None, LocalTensor | None],
    ) -> None:
        """Some rows of a block: out of L0C, through the formula, and away."""
        bias, scale = lines
        core, epilogue, lanes = self._core, self._epilogue, product.c.lanes
        shape = (columns[1] // lanes, rows[1] * lanes) if lanes else (rows[1], columns[1])
        tile = self._product.alloc_tensor(epilogue.product.dtype, *shape)
        if scale is not None:
            core.take_out_scaled(tile, block, scale, bias, lanes)
            bias = None
        else:
            core.take_out(tile, block, lanes)
        if bias is not None and not epilogue.bias_last:
            self._add_bias(tile, bias, lanes)
        values = {epilogue.product: tile}
        beside = product.sides or [_as_c(product, side) for side in epilogue.sides]
        for queue, side, matrix in zip(self._sides, epilogue.sides, beside, strict=True):
            values[side.term] = queue.copy_in(matrix.block(*rows, *columns), shape)

        def target(term: Term, sources: list[LocalTensor]) -> LocalTensor:  # noqa: ARG001 - alike
            out = self._outs.get(term)
            if out is not None:
                return out.alloc_tensor(term.dtype, *shape)
            return self._temps[self._plan.places[term]].get(term.dtype, *shape)

        self._runner.run(epilogue.formula.steps, values, target)
        if self.totals is not None:
            tiles = [values[side.term] for side in epilogue.totals]
            self.totals.add(tiles, (columns[0] + product.column, columns[1]), lanes)
        for queue, side in zip(self._sides, epilogue.sides, strict=True):
            queue.free_tensor(values[side.term])
        if bias is not None and epilogue.bias_last:
            self._add_bias(values[epilogue.results[0].term], bias, lanes)
        if epilogue.mask is not None:
            found = values[epilogue.results[0].term]
            self._keep(found, mask_of(epilogue.mask, product, rows, columns))
        for side in epilogue.results:
            queue = self._outs.get(side.term, self._product)
            part = _as_c(product, side).block(*rows, *columns)
            queue.copy_out(part, values[side.term])
        if not any(side.term is epilogue.product for side in epilogue.results):
            self._product.free_tensor(tile, by=Pipe.VECTOR)

    def _keep(self, tile: LocalTensor, mask: GmSlice) -> None:
        """Zeros where the mask's bits aren't set."""
        blocks, rows, width = mask.shape
        bits = self._mask.copy_in(mask, (blocks, rows * width))
        flat = tile.view(tile.numel)
        keep(self._core, flat, bits.view(bits.numel), flat)
        self._mask.free_tensor(bits)

    def _queue(self, term: Term, position: TPosition) -> TQue:
        queue = TQue(position, BUFFER_NUM, f"{str(position).lower()}{term.number}")
        self._core.pipe.init_buffer(queue, BUFFER_NUM, self._tile * term.dtype.itemsize)
        return queue

    def _load_bias(self, product: Product, columns: Span) -> LocalTensor | None:
        if product.bias is None:
            return None
        row = product.bias
        source = row.tensor.window((*row.start, (columns[0], 1)), (columns[1],), (1,))
        return self._bias.copy_in(source)

    def _load_scale(self, product: Product, columns: Span) -> LocalTensor | None:
        line = product.scale
        if line is None:
            return None
        if line.tensor.numel == 1:
            return self._scale.copy_in(line.tensor.span(0, 1))
        source = line.tensor.window((*line.start, (columns[0], 1)), (columns[1],), (1,))
        return self._scale.copy_in(source)

    def _add_bias(self, tile: LocalTensor, bias: LocalTensor, lanes: int) -> None:
        """Add a row to all rows, block of columns by block of columns."""
        core = self._core
        if not lanes:
            core.add(tile, tile, bias.view(1, bias.numel))
            return
        blocks = bias.view(tile.shape[0], lanes)
        for index in core.loop(tile.shape[0], at_once=tile.shape[0]):
            core.by_lanes("vadd", tile[index], tile[index], blocks[index])


def mask_of(mask: GlobalTensor, product: Product, rows: Span, columns: Span) -> GmSlice:
    """The bits of this part of the product: those of a row of lanes lie side by side."""
    c, lanes = product.c, product.c.lanes // BITS
    start = tuple(
        (place // BITS, step) if step % BITS and isinstance(place, int) else (place, step // BITS)
        for place, step in c.start
    )
    bits = replace(
        c, tensor=mask, start=start, step=c.step // BITS, lanes=lanes, apart=c.apart // BITS
    )
    first = columns[0] // BITS
    return bits.block(*rows, first, columns[1] // BITS)


def _as_c(product: Product, side: Side) -> GmMatrix:
    """The matrix of another tensor that lies as the product does."""
    return replace(product.c, tensor=side.tensor)
