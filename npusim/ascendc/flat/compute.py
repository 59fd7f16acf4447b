"""Vector and scalar instructions of programs, on places in the memories of a core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from npusim.ascendc.flat.memory import View
from npusim.ascendc.flat.station import Station
from npusim.engine.program import Pipe
from npusim.values.dtypes import UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.core import Core
    from npusim.ascendc.flat.memory import Place
    from npusim.ascendc.flat.spans import Repeats, Span
    from npusim.ascendc.folds import Fold
    from npusim.ascendc.intrinsics.vector import CmpMode

_REPEAT_BYTES = 256  # Compare by count takes whole repeats (source: public page of Compare)
Number = int | float
Work = Callable[..., object]


def vector(
    work: Callable[[Core], Work],
    span: Span,
    dst: Place,
    sources: Sequence[Place],
    *numbers: Any,
    updates: bool = False,
) -> None:
    """One instruction: ``work`` is the core's intrinsic, called with views and ``numbers``.

    ``updates`` says that it goes on from what ``dst`` holds.
    """
    here = Station.here()
    target = span.view(dst, 0)
    views = [span.view(place, 1 + index) for index, place in enumerate(sources)]
    kept = span.kept(target)
    reads = [*views, target] if updates else views
    with here.order.touching(Pipe.VECTOR, reads, [target]):
        before = target.values(0).copy() if kept is not None else None
        was_filled = target.filled.copy() if kept is not None else None
        core = here.core
        core.slowed = max(core.costs.bank_conflicts(each.apart) for each in (target, *views))
        work(core)(target, *views, *numbers)
        core.slowed = 1.0
        if kept is not None and before is not None:
            target.target(0)[kept] = before[kept]
    if kept is not None and was_filled is not None:
        target.filled[kept] = was_filled[kept]


def reduce(fold: Fold, dst: Place, src: Place, count: int) -> None:
    """One number of ``count`` (ReduceSum, ReduceMax, ReduceMin)."""
    here = Station.here()
    source, target = src.run(count), dst.run(1)
    with here.order.touching(Pipe.VECTOR, [source], [target]):
        here.core.whole_reduce(fold, target, source)


def reduce_repeats(
    fold: Fold, dst: Place, src: Place, span: Repeats, *, step: int, groups: int = 1
) -> None:
    """One number of each repeat, or of each of the ``groups`` of one, ``step`` bytes apart."""
    here = Station.here()
    source = span.view(src, 1)
    rows = span.times * groups
    target = View(dst, (rows,), (step,), aligned=False)
    grouped = _in_rows(source, rows)
    if len(grouped.shape) > len(target.shape) + 1:  # gaps between repeats
        shape = grouped.shape[:-1]
        target = View(dst, shape, (step * shape[1], step), turns=rows, aligned=False)
    with here.order.touching(Pipe.VECTOR, [source], [target]):
        here.core.whole_reduce(fold, target, grouped)


def _in_rows(source: View, rows: int) -> View:
    """The elements of a source as so many rows, each in one run."""
    place, size = source.place, source.dtype.itemsize
    each = source.numel // rows
    if len(source.shape) == 1:
        return View(place, (rows, each), (each * size, size), turns=rows)
    turn = source.steps[0]
    if rows == source.turns:
        return View(place, (rows, each), (turn, size), turns=rows)
    shape = (source.turns, rows // source.turns, each)
    return View(place, shape, (turn, each * size, size), turns=rows)


def compare(dst: Place, src0: Place, src1: Place | Number, mode: CmpMode, count: int) -> None:
    """A bit for each of ``count`` elements, the first one lowest (Compare, CompareScalar)."""
    here = Station.here()
    if count * src0.dtype.itemsize % _REPEAT_BYTES:
        raise KernelError(
            here.core.kernel_name,
            f"a comparison of {count * src0.dtype.itemsize} bytes, no multiple of {_REPEAT_BYTES}",
            "Round the count up to whole repeats: what is left over isn't compared.",
        )
    first, bits = src0.run(count), dst.cast(UINT8).run(-(-count // 8))
    other = src1 if isinstance(src1, int | float) else src1.run(count)
    reads = [each for each in (first, other) if isinstance(each, View)]
    with here.order.touching(Pipe.VECTOR, reads, [bits]):
        here.core.compare(bits, first, other, mode, packed=True)


def select(dst: Place, bits: Place, src0: Place, src1: Place | Number, count: int) -> None:
    """``src0`` where a bit is set, else ``src1`` (Select)."""
    here = Station.here()
    target, first = dst.run(count), src0.run(count)
    mask = bits.cast(UINT8).run(-(-count // 8))
    other = src1 if isinstance(src1, int | float) else src1.run(count)
    reads = [each for each in (mask, first, other) if isinstance(each, View)]
    with here.order.touching(Pipe.VECTOR, reads, [target]):
        here.core.select(target, mask, first, other, packed=True)


def get_value(src: Place, index: int) -> Number:
    """One element, read by the scalar unit behind what the vector unit has waited for (GetValue).

    What the vector unit has written needs a flag V_S.
    """
    here = Station.here()
    view = src.element(index)
    here.check_scalar(view)
    here.core.wait_vector()
    with here.order.touching(Pipe.SCALAR, [view]):
        here.core.emit_scalar("ld_ub", loads=1, detail=src.name)
    number: Number = view.values(0)[0].item()
    return number


def set_value(dst: Place, index: int, value: Number) -> None:
    """Store one element by the scalar unit (SetValue)."""
    here = Station.here()
    view = dst.element(index)
    here.core.wait_vector()
    with here.order.touching(Pipe.SCALAR, (), [view]):
        here.core.emit_scalar("st_ub", stores=1, detail=dst.name)
    view.target(0)[...] = value
