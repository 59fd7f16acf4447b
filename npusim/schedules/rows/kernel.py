"""Kernels over rows made from a row of a table: an operator's formula and its tensors' forms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc.kernel import Kernel
from npusim.ascendc.task import Task, made
from npusim.schedules.rows.formats import FractalLayout, InnerLayout, is_fractal
from npusim.schedules.rows.formula import Form, RowFormula
from npusim.schedules.rows.layouts import Need, RowLayout, RowsLayout
from npusim.schedules.rows.play import RowRun
from npusim.schedules.rows.program import Results, RowProgram
from npusim.values.dtypes import FLOAT, FLOAT16, INT8
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.gm import GlobalTensor
    from npusim.ascendc.kernel import Phases
    from npusim.hardware.profile import Profile

_AXES = ("axis", "axes", "dim")  # how records call the axis


@dataclass(frozen=True)
class RowOperator:
    """One row of a family's table.

    ``formula`` takes a :class:`RowFormula`, the operands (None where one is absent; in float32
    unless ``raw``) and the ``attributes``, which are given with their defaults. ``operands`` and
    ``results`` are the forms of the tensors; where a record leaves results out, ``wide`` ones are
    float32 and ``int8`` ones that. ``generated`` kernels come from a compiler, others are written
    by hand (on chips with cores of their own for vectors); rows of up to ``most_columns`` are
    worked on together there, and columns repeated along them. Queues have ``depth`` slots in code
    that isn't for one shape. A core gets at least ``least_rows``; ``by_lanes`` kernels spend a
    repeat on every 16 elements of a fractal's row. ``fuses`` tells whether the compiler for one
    shape deals out all rows as one axis; its schedule of several reductions doesn't. ``in_place``
    kernels compute in the buffers of their operands too, so that these aren't filled again before
    all is done. ``rows_at_once`` says how many of the rows that are worked on one by one come and
    go together, of how many columns, on which chip. ``alone`` tells that where no core has more
    than one row, chips with vector cores of their own work on it as on a long one. ``compares``
    kernels look for largest elements, among halves where the chip folds no others.
    """

    op_type: str
    formula: Callable[..., Results]
    operands: tuple[Form, ...] = (Form.TILE,)
    results: tuple[Form, ...] = (Form.TILE,)
    wide: tuple[int, ...] = ()
    int8: tuple[int, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    least_rows: int = 1
    most_columns: int = 0  # 0: any, without columns being repeated
    depth: int = 2
    raw: bool = False
    generated: bool = True
    by_lanes: bool = False
    fuses: bool = True
    in_place: bool = False
    alone: bool = False
    compares: bool = False
    rows_at_once: Callable[[Profile, int], int] | None = None


class RowKernel(Kernel):
    """An operator over rows: ``(profile, *inputs, *outputs, **attributes)``."""

    row: ClassVar[RowOperator]
    shares_all = True

    def __init__(
        self, profile: Profile, *tensors: GlobalTensor | None, **attributes: object
    ) -> None:
        split = len(self.row.operands)
        inputs, outputs = tensors[:split], tensors[split:]
        self.layout = self.make_layout(profile, inputs, outputs, attributes)
        known = {name: attributes[name] for name in self.row.attributes if name in attributes}
        known = {**self.row.attributes, **known}
        columns = self.layout.columns
        generated = self.row.generated or profile.software.compiled_for_shape
        formula = RowFormula(profile, FLOAT)
        formula.in_fractals = isinstance(self.layout, FractalLayout)
        by_hand = isinstance(self.layout, RowsLayout) and self.layout.one_by_one
        together = columns <= self.row.most_columns and not by_hand
        formula.spreads = self.layout.spreads and (generated or together)
        forms = self.row.operands
        raw = self.row.raw
        record = self.row.formula
        self.program = RowProgram(formula, record, inputs, forms, outputs, known, raw=raw)
        self.many_variants = generated
        for_one_shape = profile.software.compiled_for_shape
        self.depth = self.buffer_num if for_one_shape else self.row.depth
        loaded = {bound.form for bound in self.program.operands}
        self.layout.loads_columns = Form.COLUMN in loaded
        self.layout.plan(self.need())
        self.block_dim = self.layout.block_dim
        self.independent = self.layout.computes_together
        self.reads = tuple(tensor for tensor in inputs if tensor is not None)
        self.writes = tuple(tensor for tensor in outputs if tensor is not None)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        count = len(cls.row.operands)
        given = (*task.inputs, *(None,) * count)[:count]
        if given[0] is None:
            raise task.refused("the record has no input")
        results: tuple[GlobalTensor | None, ...] = task.outputs[: len(cls.row.results)]
        if not task.outputs:
            results = cls.made_results(given, task.attributes)
        results += (None,) * (len(cls.row.results) - len(results))
        return (cls(task.profile, *given, *results, **task.attributes),)

    def make_layout(
        self,
        profile: Profile,
        inputs: Sequence[GlobalTensor | None],
        outputs: Sequence[GlobalTensor | None],
        attributes: Mapping[str, object],
    ) -> RowLayout:
        """Rows along the axis that the attributes name, or as long as a line is."""
        x = inputs[0]
        assert x is not None
        itemsize = min(each.dtype.itemsize for each in (*inputs, *outputs) if each is not None)
        fuses = self.row.fuses or not profile.software.compiled_for_shape
        if is_fractal(x) and self.takes_fractals(inputs):
            by_lanes = self.row.by_lanes
            return FractalLayout(profile, x.shape, by_lanes=by_lanes, several=not fuses)
        axis = self.axis(x, attributes)
        if prod(x.shape[axis + 1 :]) > 1:
            return InnerLayout(profile, x.shape, axis, itemsize)
        columns = self.row_length(inputs)
        if Form.LINE not in self.row.operands and x.shape:
            columns = x.shape[axis]  # axes of one element may stand behind it
        if not columns or x.numel % columns:
            raise RefusedTaskError(self.op_type, f"{x.shape} has no rows of {columns}")
        layout = RowsLayout(
            profile,
            x.numel // columns,
            columns,
            itemsize,
            self.row.least_rows,
            generated=self.row.generated,
            axes=() if fuses else x.shape[:axis],
            narrowest=self._compared_bytes(profile, itemsize),
        )
        alone = self.row.alone and profile.cores.style == "split"
        alone = alone and layout.rows <= profile.cores.vector_cores
        layout.one_by_one = 0 < self.row.most_columns < columns or alone
        layout.alone = alone
        if self.row.rows_at_once is not None:
            layout.rows_at_once = max(1, self.row.rows_at_once(profile, columns))
        return layout

    def _compared_bytes(self, profile: Profile, itemsize: int) -> int:
        """Bytes of an element of the narrowest tile.

        Source: tensor compiler (te_schedule/softmax_schedule.py: blocks of the smallest dtype).
        """
        halves = self.row.compares and not profile.supports_vector("vcmax", FLOAT.intrinsic)
        return min(itemsize, FLOAT16.itemsize) if halves else itemsize

    def need(self) -> Need:
        """Bytes of UB that tiles are chosen by."""
        return self.program.need(self.depth)

    def block_kind(self, block_idx: int) -> Hashable:
        return self.layout.block_kind(block_idx)

    def process(self, core: Core) -> Phases:
        if not self.layout.works(core.get_block_idx()):
            return None
        run = RowRun(core, self.layout, self.program, self.depth, in_place=self.row.in_place)
        if core.computes_together:
            core.separately(
                lambda: run.pieces(self.layout.pieces(core)),
                lambda: run.pieces(self.layout.pieces_of_blocks(core)),
            )
        else:
            run.pieces(self.layout.pieces(core))
        run.free_lines()
        return None

    @classmethod
    def axis(cls, x: GlobalTensor, attributes: Mapping[str, object]) -> int:
        """The axis that rows run along: the one that the attributes name, by default the last."""
        rank = max(1, len(x.shape))
        if Form.LINE in cls.row.operands:
            return rank - 1
        named = next((attributes[name] for name in _AXES if name in attributes), -1)
        if isinstance(named, list | tuple) and len(named) == 1:
            named = named[0]
        if not isinstance(named, int) or not -rank <= named < rank:
            raise RefusedTaskError(cls.op_type, f"can't work along axis {named!r} of {x.shape}")
        return named % rank

    @classmethod
    def takes_fractals(cls, inputs: Sequence[GlobalTensor | None]) -> bool:
        """Whether an operand whose shape ends in 16 x 16 is in fractals.

        So unless a line forbids.
        """
        x = inputs[0]
        assert x is not None
        for tensor, form in zip(inputs, cls.row.operands, strict=False):
            if tensor is not None and form is Form.LINE:
                return tensor.numel == x.shape[-4] * x.shape[-1]
        return x.dtype.itemsize < FLOAT.itemsize

    @classmethod
    def row_length(cls, inputs: Sequence[GlobalTensor | None]) -> int:
        """Elements of a row: those of a line where there is one, else the last axis."""
        for tensor, form in zip(inputs, cls.row.operands, strict=False):
            if tensor is not None and form is Form.LINE:
                return tensor.numel
        x = inputs[0]
        return x.shape[-1] if x is not None and x.shape else 1

    @classmethod
    def made_results(
        cls, inputs: Sequence[GlobalTensor | None], attributes: Mapping[str, object]
    ) -> tuple[GlobalTensor | None, ...]:
        """Results for a task that was recorded without them."""
        del attributes
        x = inputs[0]
        assert x is not None
        rows = x.numel // max(1, cls.row_length(inputs))
        kinds = dict.fromkeys(cls.row.wide, FLOAT) | dict.fromkeys(cls.row.int8, INT8)
        return tuple(
            made(x.shape if form is Form.TILE else (rows,), kinds.get(index, x.dtype), f"y{index}")
            for index, form in enumerate(cls.row.results)
        )


def kernel_of(row: RowOperator, base: type[RowKernel] = RowKernel) -> type[RowKernel]:
    """The kernel class of a row."""
    return type(row.op_type, (base,), {"row": row, "op_type": row.op_type, "__doc__": row.op_type})
