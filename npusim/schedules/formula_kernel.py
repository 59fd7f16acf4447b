"""Kernels that compute an operator's formula, tile by tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from npusim.ascendc.conversions import device_dtype
from npusim.ascendc.queues import TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.schedules.broadcast_tiling import PlaneTiling, Tile
from npusim.schedules.broadcasting import broadcast
from npusim.schedules.buffers import BufferPlan
from npusim.schedules.elementwise import ElementwiseKernel
from npusim.schedules.formula import (
    Formula,
    Operand,
    Quantity,
    Recorded,
    Term,
    compute_dtype,
)
from npusim.schedules.packing import PackedTiling
from npusim.schedules.runner import Runner
from npusim.schedules.spreading import spread_box, spread_column
from npusim.values.dtypes import FLOAT, INT8, INT16, INT32, UINT8
from npusim.values.errors import KernelError, RefusedTaskError, UnsupportedIntrinsicError
from npusim.values.tensors import broadcastable

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile
    from npusim.schedules.block_split import BlockSplit
    from npusim.schedules.formula_row import Compute
    from npusim.values.dtypes import DType

FLOAT_BYTES = 4


class _Recorded(NamedTuple):
    """A formula's steps, the values of its operands and results, and its plan of buffers."""

    formula: Formula
    operands: list[Operand | None]
    results: list[Term | None]
    plan: BufferPlan


_known: Recorded[_Recorded] = Recorded()


class FormulaKernel(ElementwiseKernel):
    """An elementwise operator, built from its row: profile, inputs, outputs, attributes."""

    row: ClassVar[Compute]

    def __init__(
        self, profile: Profile, *tensors: GlobalTensor | None, **attributes: object
    ) -> None:
        outputs = _present(self.row.op_type, tensors[-self.row.outputs :])
        given = tensors[: -self.row.outputs]
        self.quantities = {
            index: tensor
            for index, tensor in enumerate(given)
            if tensor is not None and tensor.numel == 1
            if outputs[0].numel > 1 or index in self.row.numbers
        }
        recorded = self._record(profile, given, outputs, attributes)
        self.formula, operands, found, self.plan = recorded
        self.sums = _sums_of(found, outputs)
        pairs = zip(found, outputs, strict=True)
        stored = tuple((term, out) for term, out in pairs if term is not None)
        outputs = tuple(out for _, out in stored)
        self.independent = not self.sums  # which are added up in the order of the tiles
        self.results: tuple[Term, ...] = tuple(term for term, _ in stored if term not in self.sums)
        self.operands: dict[int, Term] = {}  # place among the inputs -> its value
        inputs: list[GlobalTensor] = []
        for tensor, operand in zip(given, operands, strict=True):
            if tensor is None or not isinstance(operand, Term) or operand not in self.plan.last_use:
                continue
            self.operands[len(inputs)] = operand
            inputs.append(_on_device(tensor))
        whole = tuple(_on_device(out) for term, out in stored if term not in self.sums)
        if not whole:
            raise KernelError(self.row.op_type, "a sum alone isn't modelled")
        self.spread = _spread_operands(whole, inputs)
        single = profile.buffers.block_bytes * (len(self.quantities) + len(self.sums))
        room = 1 - single / profile.buffers.ub_bytes  # what tiles may take of UB
        self.coexisting = self._bytes_per_element(inputs) / FLOAT_BYTES / room
        self.operand_shapes = tuple(tensor.shape for tensor in given if tensor is not None)
        self.computed = self._computed_tensors()
        kinds = [each.dtype for each in inputs] + [step.target.dtype for step in self.formula.steps]
        self.widest = max((each.itemsize for each in kinds), default=1)
        super().__init__(profile, tuple(inputs), whole)
        self.broadcasts = self.generated and not self.plane.is_flat
        self.reads = tuple(tensor for tensor in given if tensor is not None)
        self.writes = outputs
        self.cold = tuple(
            tensor
            for index, tensor in enumerate(given)
            if tensor is not None and index in self.row.cold
        )
        if self.generated and profile.software.compiled_for_shape and self._has_unequal_blocks():
            self.guarded = len(self.reads) + len(self.writes)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        row = cls.row
        known = {name: task.attributes[name] for name in row.attributes if name in task.attributes}
        outputs = task.outputs or _made_outputs(row, task.inputs)
        return (cls(task.profile, *task.inputs, *outputs[: row.outputs], **known),)

    def init_buffers(self, core: Core) -> None:
        """Reserve queues and scratch."""
        elements = self.tile_elements
        self.in_ques, self.spread_bufs = [], {}
        for index, tensor in enumerate(self.inputs):
            queue = TQue(TPosition.VECIN, self.depth, f"x{index}")
            core.pipe.init_buffer(queue, self.depth, elements * tensor.dtype.itemsize)
            self.in_ques.append(queue)
            if index in self.spread:
                buffer = self.spread_bufs[index] = TBuf(f"wide{index}")
                core.pipe.init_buffer(buffer, 1, elements * tensor.dtype.itemsize)
        self.out_ques = [
            TQue(TPosition.VECOUT, self.depth, f"y{index}") for index in range(len(self.results))
        ]
        for queue, term in zip(self.out_ques, self.results, strict=True):
            core.pipe.init_buffer(queue, self.depth, elements * term.dtype.itemsize)
        self.temps = [TBuf(f"t{index}") for index in range(len(self.plan.widths))]
        for buffer, width in zip(self.temps, self.plan.widths, strict=True):
            core.pipe.init_buffer(buffer, 1, elements * width)
        self.number_que = TQue(
            TPosition.VECIN, len(self.quantities) * self.depth, "numbers", consumer=Pipe.SCALAR
        )
        if self.quantities:
            core.pipe.init_buffer(self.number_que, self.number_que.depth, core.block_bytes)
        if self.sums:
            self.sum_que = TQue(TPosition.VECOUT, len(self.sums), "sums")
            core.pipe.init_buffer(self.sum_que, len(self.sums), core.block_bytes)
            self.totals = {
                tensor.buffer.number: core.duplicate(
                    self.sum_que.alloc_tensor(tensor.dtype, 1), 0.0
                )
                for tensor in self.sums.values()
            }

    def process(self, core: Core) -> None:
        """The work of one block."""
        core.shares_rows = self.profile.software.compiled_for_shape
        super().process(core)
        self._finish(core)

    def compute(self, core: Core, tile: Tile) -> None:
        """One tile: load, compute, store."""
        values: dict[Term, LocalTensor] = {}
        loaded: dict[Term, tuple[TQue, LocalTensor]] = {}
        for index, term in self.operands.items():
            values[term], loaded[term] = self._operand(core, tile, index)
        self._read_numbers(core)

        def target(term: Term, sources: list[LocalTensor]) -> LocalTensor:
            return self._target(term, sources, tile)

        def used(term: Term) -> None:
            if term in loaded and term not in self.sums:
                queue, tensor = loaded[term]
                queue.free_tensor(tensor)

        self.runner.run(self.formula.steps, values, target, used)
        self._store(core, tile, values)

    def plan_planes(
        self, profile: Profile, widest: int, split: BlockSplit | None
    ) -> PlaneTiling | PackedTiling:
        """Tiles for operands that broadcast along some axes."""
        if split and PackedTiling.fits(profile, self.plane, widest):
            return PackedTiling.of(profile, self.plane, self.coexisting, widest, split)
        tensors = (*self.outputs, *self.inputs)
        narrowest = min(*(each.dtype.itemsize for each in tensors), widest, *self.plan.widths)
        return PlaneTiling.of(
            profile,
            self.plane,
            self.coexisting,
            widest,
            narrowest=narrowest,
            split=split,
        )

    def _has_unequal_blocks(self) -> bool:
        return len({self.block_kind(block) for block in range(self.block_dim)}) > 1

    # -- what the formula looks like ---------------------------------------------------------------

    def _record(
        self,
        profile: Profile,
        given: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        attributes: Mapping[str, object],
    ) -> _Recorded:
        """What the formula records of this call's operands, once for all that are alike."""
        row = self.row
        decisive = given[row.typed_by] if row.typed_by < len(given) else None
        dtype = (decisive or outputs[0]).dtype
        computed = compute_dtype(profile, dtype, half_in_float=row.in_float(attributes))
        if row.wraps is not None and dtype in (INT8, UINT8):
            computed = row.wraps

        def recorded() -> _Recorded:
            try:
                return self._recorded(Formula(profile, computed), given, outputs, attributes)
            except UnsupportedIntrinsicError:
                if computed not in (INT16, INT32):
                    raise
            # What whole numbers have no instruction for is computed in float32, as operators of
            # the tensor compiler convert them.
            return self._recorded(Formula(profile, FLOAT), given, outputs, attributes)

        kinds = tuple(each and (each.dtype, min(each.numel, 2)) for each in (*given, *outputs))
        return _known.find((type(self), profile, kinds), attributes, recorded)

    def _recorded(
        self,
        formula: Formula,
        given: tuple[GlobalTensor | None, ...],
        outputs: tuple[GlobalTensor, ...],
        attributes: Mapping[str, object],
    ) -> _Recorded:
        """Run the formula: single elements are quantities, other operands tiles."""
        row = self.row
        operands = [self._symbol(formula, index, each) for index, each in enumerate(given)]
        handed = [
            each if each is None or index in row.raw else formula.widened(each)
            for index, each in enumerate(operands)
        ]
        named = {**row.attributes, **attributes}
        try:
            found = row.formula(formula, *handed, **named)
        except TypeError:
            _refuse_operands(row, formula, handed, named)
            raise
        terms = found if isinstance(found, tuple) else (found,)
        if row.wraps is not None and outputs[0].dtype in (INT8, UINT8):
            terms = tuple(each and _wrapped(formula, each, outputs[0].dtype) for each in terms)
        results = [
            term and _stored(formula, term, tensor.dtype)
            for term, tensor in zip(terms, outputs, strict=True)
        ]
        formula.require_instructions(row.op_type)
        kinds = [each and (each.dtype, each.numel == 1) for each in (*given, *outputs)]
        formula.follows_from = row.formula, formula.dtype, tuple(kinds), dict(named)
        sums = _sums_of(results, outputs)
        tiles = [term for term in results if term is not None and term not in sums]
        plan = BufferPlan.of(formula.steps, tiles, tuple(sums))
        return _Recorded(formula, operands, results, plan)

    def _symbol(self, formula: Formula, index: int, tensor: GlobalTensor | None) -> Operand | None:
        if tensor is None:
            return None
        if index in self.quantities:
            return Quantity(lambda core: core.singles[index])
        return formula.operand(tensor.dtype)

    def _computed_tensors(self) -> int:
        """What the compiler's graph computes: steps, operands that are repeated, single numbers."""
        extras = {extra for step in self.formula.steps for extra in step.extras}
        numbers = sum(each.operations for each in extras if isinstance(each, Quantity))
        return len(self.formula.steps) + len(self.spread) + len(self.quantities) + numbers

    def _bytes_per_element(self, inputs: list[GlobalTensor]) -> int:
        spread = sum(inputs[index].dtype.itemsize for index in self.spread)
        queues = sum(tensor.dtype.itemsize for tensor in inputs)
        results = sum(term.dtype.itemsize for term in self.results)
        return queues + results + spread + self.plan.bytes_per_element

    # -- what happens to a tile --------------------------------------------------------------------

    def _read_numbers(self, core: Core) -> None:
        """The single elements come with every tile; the scalar unit computes with them."""
        queue = self.number_que
        loaded = {}
        for index, tensor in self.quantities.items():
            loaded[index] = queue.alloc_tensor(tensor.dtype, 1)
            core.copy_runs(loaded[index], tensor.span(0, 1))
            queue.enque(loaded[index])
        for index, tensor in self.quantities.items():
            number = core.get_value(queue.deque(loaded[index]))
            if number.value is not None and tensor.dtype.is_float:
                number.value = np.asarray(number.value, np.float32)
            core.singles[index] = number
            queue.free_tensor(loaded[index])
        self._begin(core)

    def _begin(self, core: Core) -> None:
        """Compute with the single elements that have been read."""
        self.runner = Runner(core, self.formula.steps)
        core.singles.clear()

    def _operand(
        self, core: Core, tile: Tile, index: int
    ) -> tuple[LocalTensor, tuple[TQue, LocalTensor]]:
        """An operand's tile as the formula sees it, and what to give back to its queue."""
        queue, source = self.in_ques[index], tile.sources[index]
        if source is None:
            raise KernelError(self.op_type, f"operand {index} has no place in the tile")
        if index not in self.spread:
            tensor = queue.copy_in(source)
            return tensor, (queue, tensor)
        if tile.box is None and source.shape[-1] == tile.shape[-1]:  # rows repeat themselves
            tensor = queue.copy_in(source)
            return tensor, (queue, tensor)
        wide = self.spread_bufs[index].get(source.tensor.dtype, *tile.shape)
        tensor = queue.copy_in(source, (source.numel,))
        if tile.box is None:
            spread_column(core, wide, tensor)
        elif tensor.numel == wide.numel:
            return tensor, (queue, tensor)
        else:
            spread_box(core, wide, tensor, source.shape, tile.box)
        return wide, (queue, tensor)

    def _target(self, term: Term, sources: list[LocalTensor], tile: Tile) -> LocalTensor:
        shapes = [source.shape for source in sources]
        if term in self.results:
            queue = self.out_ques[self.results.index(term)]
            return queue.alloc_tensor(term.dtype, *tile.shape)
        shape = _joint(self.op_type, shapes) if shapes else tile.shape
        return self.temps[self.plan.places[term]].get(term.dtype, *shape)

    def _store(self, core: Core, tile: Tile, values: dict[Term, LocalTensor]) -> None:
        for queue, term, target in zip(self.out_ques, self.results, tile.targets, strict=True):
            queue.copy_out(target, values[term])
        for term, tensor in self.sums.items():
            self._add_up(core, values[term], tensor)

    def _add_up(self, core: Core, tile: LocalTensor, target: GlobalTensor) -> None:
        """A single element's gradient is a sum: cores add up what their tiles give."""
        if len(tile.shape) != 1:
            raise KernelError(self.op_type, "sums up gradients of single elements only")
        total = self.totals[target.buffer.number]

        def add_at_once() -> None:
            core.set_atomic_add()
            core.copy_runs(target.span(0, 1), core.reduce_sum(tile[:1], tile))
            core.set_atomic_none()

        core.separately(
            lambda: core.add(total, total, core.reduce_sum(tile[:1], tile)), add_at_once
        )

    def _finish(self, core: Core) -> None:
        """Every core adds its sum to the cleared single element in global memory."""

        def store() -> None:
            for target in self.sums.values():
                core.set_atomic_add()  # cores start, and so come here, one after the other
                self.sum_que.copy_out(target.span(0, 1), self.totals[target.buffer.number])
                core.set_atomic_none()

        core.separately(store, lambda: None)


def _sums_of(
    results: Sequence[Term | None], outputs: Sequence[GlobalTensor]
) -> dict[Term, GlobalTensor]:
    """The gradients of operands that are single elements, which are sums over tiles."""
    several = any(out.numel > 1 for out in outputs)
    pairs = zip(results, outputs, strict=True)
    return {term: out for term, out in pairs if term is not None and several and out.numel == 1}


def _present(op_type: str, tensors: tuple[GlobalTensor | None, ...]) -> tuple[GlobalTensor, ...]:
    found = tuple(tensor for tensor in tensors if tensor is not None)
    if len(found) < len(tensors):
        raise KernelError(op_type, "an output is missing")
    return found


def _on_device(tensor: GlobalTensor) -> GlobalTensor:
    return replace(tensor, dtype=device_dtype(tensor.dtype))


def _refuse_operands(
    row: Compute, formula: Formula, operands: Sequence[object], attributes: Mapping[str, object]
) -> None:
    """Raise KernelError if these aren't the operands and attributes that the formula takes."""
    try:
        signature(row.formula).bind(formula, *operands, **attributes)
    except TypeError as error:
        raise RefusedTaskError(row.op_type, f"operands don't fit: {error}") from None
    for index in row.numbers:
        if isinstance(operands[index], Term):
            raise KernelError(row.op_type, f"operand {index} isn't a single number")


def _wrapped(f: Formula, x: Term, dtype: DType) -> Term:
    """A whole number less as many multiples of 256 as leave what eight bits hold.

    Source: public operator sources (impl/util/util_common.py, uint8_int8_overflow_proc), which add,
    sub, mul, neg and assign_sub end with.
    """
    shift = 128.0 if dtype is INT8 else 0.0
    x = f.add(x, shift) if shift else x
    turns = f.cast(f.cast(f.mul(x, 2.0**-8), INT32, RoundMode.CAST_FLOOR), x.dtype)
    x = f.sub(x, f.mul(turns, 2.0**8))
    return f.add(x, -shift) if shift else x


def _stored(formula: Formula, term: Term, dtype: DType) -> Term:
    """The value in the dtype of its output; an operand that is stored as it is becomes a copy.

    What becomes an integer is cut off, everything else rounds to nearest even.
    """
    cut = term.dtype.is_float and not dtype.is_float
    wanted = formula.cast(term, dtype, RoundMode.CAST_TRUNC if cut else RoundMode.CAST_RINT)
    produced = any(step.target is wanted for step in formula.steps)
    return wanted if produced else formula.copied(wanted)


def _spread_operands(
    outputs: tuple[GlobalTensor, ...], inputs: list[GlobalTensor]
) -> frozenset[int]:
    """Operands that broadcast along an axis and may have to be repeated in UB."""
    plane = broadcast(outputs[0].shape, (*outputs, *inputs), len(outputs))
    if plane.is_flat:
        return frozenset()
    size = prod((*plane.outer, plane.rows, plane.columns))
    return frozenset(index for index, tensor in enumerate(inputs) if tensor.numel < size)


def _made_outputs(
    row: Compute, inputs: tuple[GlobalTensor | None, ...]
) -> tuple[GlobalTensor, ...]:
    """Outputs for a task that was recorded without them: the operands' joint shape."""
    chosen = [inputs[index] for index in row.like] if row.like else list(inputs)
    present = [tensor for tensor in chosen if tensor is not None]
    if not present:
        raise RefusedTaskError(row.op_type, "no operand tells the shape of the result")
    decisive = inputs[row.typed_by] if row.typed_by < len(inputs) else None
    dtype = row.result or (decisive or present[0]).dtype
    shape = _joint(row.op_type, [tensor.shape for tensor in present])
    return tuple(made(shape, dtype, f"y{index}") for index in range(row.outputs))


def _joint(op_type: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all of these broadcast to; raises KernelError where there is none."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    joint = tuple(next((s for s in sizes if s != 1), 1) for sizes in zip(*padded, strict=True))
    if not all(broadcastable(shape, joint) for shape in shapes):
        raise RefusedTaskError(op_type, f"{', '.join(map(str, shapes))} don't broadcast")
    return joint
