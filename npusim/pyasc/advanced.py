"""``asc.adv``: functions made of several instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ascendc import RoundMode, TPosition
from npusim.ascendc.flat import compute
from npusim.ascendc.flat.memory import View
from npusim.ascendc.flat.spans import Count
from npusim.ascendc.flat.station import Station
from npusim.ascendc.folds import LARGEST, SUM
from npusim.engine.program import Pipe
from npusim.pyasc.values import Struct, fields_of
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.flat.memory import Place
    from npusim.pyasc.params import QuantConfig
    from npusim.pyasc.tensors import LocalTensor


class SoftmaxTiling(Struct):
    """How a softmax is cut; here rows decide that."""


for _name, _field in fields_of(
    """
    src_m src_k src_size out_max_m out_max_k out_max_size split_m split_k split_size reduce_m
    reduce_k reduce_size range_m tail_m tail_split_size tail_reduce_size
    """
):
    SoftmaxTiling.struct_fields = SoftmaxTiling.struct_fields | {_name: _field}


def softmax(
    dst: LocalTensor,
    sum: LocalTensor,
    max: LocalTensor,
    src: LocalTensor,
    tiling: SoftmaxTiling,
    temp_buffer: LocalTensor | None = None,
    **options: object,
) -> None:
    """The softmax of each row; ``sum`` and ``max`` get a block of each row's sum and maximum.

    Shapes come from ``set_shape_info``.
    """
    info = src.shape_info
    if info is None:
        raise KernelError("", "softmax of a tensor without a shape", "Call set_shape_info first.")
    *outer, width = (int(size) for size in info.shape)
    rows = 1
    for size in outer:
        rows *= size
    here = Station.here()
    core, block = here.core, here.core.block_bytes
    source, target = (_rows(each.inner, rows, width) for each in (src, dst))
    largest, total = (_blocks(each.inner, rows, block) for each in (max, sum))
    with here.order.touching(Pipe.VECTOR, [source], [target, largest, total]):
        for number, fold, tile in ((largest, LARGEST, source), (total, SUM, target)):
            first = View(number.place, (rows,), (block,), aligned=False)
            core.whole_reduce(fold, first, tile)
            core.emit_vector("vbrcb", number.dtype, number.row_elements, rows=rows, chained=True)
            number.target(0)[...] = first.values(0)[:, None]
            column = View(number.place, (rows, 1), (block, number.dtype.itemsize), turns=rows)
            if fold is LARGEST:
                core.sub(target, source, column)
                core.exp(target, target)
            else:
                core.div(target, target, column)


def _rows(place: Place, rows: int, width: int) -> View:
    size = place.dtype.itemsize
    return View(place, (rows, width), (width * size, size), turns=rows)


def _blocks(place: Place, rows: int, block: int) -> View:
    size = place.dtype.itemsize
    return View(place, (rows, block // size), (block, size), turns=rows)


def quant(
    dst: LocalTensor,
    src: LocalTensor,
    scale: float,
    offset: float,
    count: int | None = None,
    temp_buffer: LocalTensor | None = None,
    reuse_source: bool = False,
    config: QuantConfig | None = None,
) -> None:
    """int8 of ``src * scale + offset``, rounded to nearest even (AscendQuant).

    Half types are computed as float16, in the scratch memory of the caller.
    """
    number = src.inner.length if count is None else int(count)
    here = Station.here()
    half = src.inner.cast(FLOAT16) if src.inner.dtype.itemsize == FLOAT16.itemsize else None
    work = _scratch(here, temp_buffer, number)
    span = Count(number)
    if half is None:
        _call("cast", span, work, [src.inner], RoundMode.CAST_NONE)
        _call("muls", span, work, [work], float(scale))
    else:
        _call("muls", span, work, [half], float(scale))
    _call("adds", span, work, [work], float(offset))
    _call("cast", span, dst.inner, [work], RoundMode.CAST_RINT)


def _scratch(here: Station, temp: LocalTensor | None, count: int) -> Place:
    """Room for ``count`` halves: the caller's, or as the compiler would find it."""
    need = count * FLOAT16.itemsize
    if temp is not None and temp.inner.limit - temp.inner.start >= need:
        return temp.inner.cast(FLOAT16)
    if temp is not None:
        raise KernelError(
            here.core.kernel_name,
            f"quant of {count} numbers needs {need} bytes of scratch memory, not "
            f"{temp.inner.limit - temp.inner.start}",
            "Give a larger temp_buffer, or none.",
        )
    return here.allocated(TPosition.VECCALC, FLOAT16, need, "scratch memory of quant")


def _call(name: str, span: Count, dst: Place, sources: list[Place], *numbers: Any) -> None:
    compute.vector(lambda core: getattr(core, name), span, dst, sources, *numbers)
