"""Tables of measured kernel times: one row per task with chip, OpType, shapes, dtypes and duration.

Columns as in the tables that `npusim validate` takes: ``chip``, ``op``, ``op_family``, ``impl``,
``input_shapes``, ``input_dtypes``, ``input_formats``, the same for outputs, ``attrs``,
``duration_us``, ``trust``, ``workload``, ``measure_kind``, ``notes``, ``count``; the last four say
where a time is that of a loop over the same tensors, where a step brings weights into L2 ahead of
their use (what one row says of its workload holds for all its weights), or that a step runs the
task in every layer. What a step's optimizers update are its parameters, and what other rows of its
workload read of the same shape and dtype comes from the step before, or from long before in this
one; what lays them out anew in half of it follows their rounding. Slots are separated by ``;``,
dimensions by ``,``; ``[a b]`` is a list of tensors, ``scalar`` (or an empty slot that has a dtype)
a tensor of rank 0, an empty slot without one an absent input.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf
from pathlib import Path

from npusim.operators.registry import band_class
from npusim.operators.tasks import TaskSpec
from npusim.reading.markup import json_value
from npusim.reading.tables import table_in
from npusim.runtime.cache_start import laid_out_weights
from npusim.values.dtypes import dtype
from npusim.values.errors import ArgumentError, FileError, NpusimError
from npusim.values.tensors import TensorSpec

_NEEDED = (
    "chip",
    "op",
    "input_shapes",
    "input_dtypes",
    "output_shapes",
    "output_dtypes",
    "duration_us",
)

# How tables say what a task finds in L2 where that isn't what a step leaves. References of
# benchmarks get fresh tensors: 50 MB take as long as HBM needs for them.
_PREFETCHED = "prefetched"
_JUST_MADE = "warm"
_STARTS = {
    _PREFETCHED: ("prefetch", "above HBM bandwidth"),
    "flushed": ("reference implementation", "L2 flush between"),
    "loop": ("loop", "warm L2", "L2-warm", " calls"),
}
# A step that runs a task in every layer: the time is that of all but the first of them.
LAYERED = "layered"
_LAYERS = 4  # times as often as what a step runs once
_OPTIMIZERS = "optimizer"  # operators of this class update parameters
_Like = tuple[tuple[int, ...], str]  # shape and dtype

# How tables name chips -> the profile that is meant.
_CHIPS = {
    "910 gen1 (30 cores)": "Ascend910B",
    "910 gen1": "Ascend910B",
    "910B1": "Ascend910B1",
    "910B2": "Ascend910B2",
    "910B3": "Ascend910B3",
    "910B4": "Ascend910B4",
    "910_93 (A3)": "Ascend910_9391",
}


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement; ``soc`` is empty for a chip that we have no profile of.

    ``blocks`` is how many blocks were launched, 0 where that isn't recorded; ``streams`` says that
    the task works on parameters of its step, or on their gradients and states.
    """

    line: int
    chip: str
    soc: str
    op: str
    family: str
    impl: str
    trust: str
    workload: str
    duration_us: float
    task: TaskSpec | None
    problem: str
    start: str
    counters: Mapping[str, str]
    blocks: int = 0
    streams: bool = False

    @cached_property
    def question(self) -> Hashable:
        """Equal for rows that have the same answer."""
        task = self.task
        asked = task and (task.op_type, task.inputs, task.outputs, repr(task.attributes))
        return self.chip, asked, self.start, self.streams, self.problem


def read_rows(path: str | Path) -> Iterator[MeasuredRow]:
    """The rows of a ``.csv`` or ``.csv.gz`` table.

    A row that can't be read carries the reason in ``problem``.

    Raises FileError for a file that isn't such a table.
    """
    with table_in(path) as table:
        missing = [name for name in _NEEDED if name not in table.header]
        if missing:
            raise FileError(path, f"lacks the columns {', '.join(missing)}")
        records = list(table.records())
    once = _least_counts(record for _, record in records)
    updated: dict[str, set[_Like]] = {}
    rows = [_row(line, record, path, once) for line, record in records]
    for row in rows:
        if row.task is not None and band_class(row.op) == _OPTIMIZERS:
            updated.setdefault(row.workload, set()).update(_updated(row.task))
    ahead = {row.workload for row in rows if row.start == _PREFETCHED}
    for row in rows:
        loaded = row.workload in ahead and row.task is not None and _lays_out(row.task)
        known = updated.get(row.workload, ())
        rounded = row.start in ("", LAYERED) and _is_rounded(row.task, known)
        yield replace(
            row,
            start=_PREFETCHED if loaded else _JUST_MADE if rounded else row.start,
            streams=_streams(row.task, known),
        )


def _lays_out(task: TaskSpec) -> bool:
    """Whether a task multiplies with weights that its graph may have loaded into L2 ahead."""
    return bool(laid_out_weights([each for each in task.inputs[:2] if each is not None]))


def _updated(task: TaskSpec) -> Iterator[_Like]:
    """What an optimizer's task updates; those that work on lists give back flat tensors."""
    made = {(tensor.numel, tensor.dtype) for tensor in task.outputs}
    yield from map(_like, task.outputs)
    for tensor in task.inputs:
        if tensor is not None and (tensor.numel, tensor.dtype) in made:
            yield _like(tensor)


def _like(tensor: TensorSpec) -> _Like:
    return tensor.shape, tensor.dtype.name


def _streams(task: TaskSpec | None, updated: Collection[_Like]) -> bool:
    """Whether a task reads what its step's optimizers update, going by shapes and dtypes.

    What makes nothing but tensors as large and of the same dtype passes on gradients, which
    have just been made; weights are rounded, folded to norms, or looked up.
    """
    inputs = [] if task is None else [tensor for tensor in task.inputs if tensor is not None]
    read = [tensor for tensor in inputs if _like(tensor) in updated]
    if task is None or 2 * sum(map(_nbytes, read)) <= sum(map(_nbytes, inputs)):
        return False
    least, kind = read[0].numel, read[0].dtype
    return any(tensor.numel < least or tensor.dtype is not kind for tensor in task.outputs)


def _is_rounded(task: TaskSpec | None, updated: Collection[_Like]) -> bool:
    """Whether a task changes the layout of a parameter that has just been rounded to half of it."""
    if task is None or task.op_type != "TransData" or task.inputs[0] is None:
        return False
    shape, half = task.inputs[0].shape, task.inputs[0].dtype
    return any(
        shape == like and dtype(name).itemsize == 2 * half.itemsize for like, name in updated
    )


def _nbytes(tensor: TensorSpec) -> int:
    return tensor.nbytes


def _least_counts(records: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """How often each workload's rarest task was measured: once in every step that was read."""
    least: dict[str, int] = {}
    for record in records:
        if count := _number(record, "count"):
            workload = record.get("workload", "")
            least[workload] = min(count, least.get(workload, count))
    return least


def _number(record: Mapping[str, str], column: str) -> int:
    text = record.get(column, "")
    return int(text) if text.isdecimal() else 0


def _row(
    line: int, record: Mapping[str, str], path: str | Path, once: Mapping[str, int]
) -> MeasuredRow:
    try:
        duration_us = float(record["duration_us"])
        if not 0 < duration_us < inf:
            raise ValueError
    except ValueError:
        raise FileError(
            path, f"line {line}: duration_us is {record['duration_us']!r}, not a time above 0"
        ) from None
    task, problem = None, ""
    try:
        task = _task(record)
    except NpusimError as error:
        problem = str(error)
    return MeasuredRow(
        line=line,
        chip=record["chip"],
        soc=_CHIPS.get(record["chip"], ""),
        op=record["op"],
        family=record.get("op_family", ""),
        impl=record.get("impl", ""),
        trust=record.get("trust", ""),
        workload=record.get("workload", ""),
        duration_us=duration_us,
        task=task,
        problem=problem,
        start=_start(record, once),
        counters={
            key: value
            for key, value in record.items()
            if key.startswith(("aic_", "aiv_")) and value
        },
        blocks=_number(record, "block_dim"),
    )


def _start(record: Mapping[str, str], once: Mapping[str, int]) -> str:
    """What the task finds: a key of _STARTS, LAYERED, or nothing where a step has left it."""
    told = " ".join(record.get(name, "") for name in ("workload", "measure_kind", "notes"))
    for how, phrases in _STARTS.items():
        if any(phrase in told for phrase in phrases):
            return how
    count, rarest = _number(record, "count"), once.get(record.get("workload", ""), 0)
    return LAYERED if rarest and count >= _LAYERS * rarest else ""


def _task(record: Mapping[str, str]) -> TaskSpec:
    inputs, outputs = (
        _operands(
            record[f"{side}_shapes"], record[f"{side}_dtypes"], record.get(f"{side}_formats", "")
        )
        for side in ("input", "output")
    )
    made = tuple(spec for spec in outputs if spec is not None)
    attributes = _attributes(record.get("attrs", ""))
    if record.get("hf32") == "YES":
        attributes = {"enable_hf32": True} | attributes
    return TaskSpec(record["op"], inputs, made, attributes)


@lru_cache(maxsize=4096)
def _operands(shapes: str, dtypes: str, formats: str) -> tuple[TensorSpec | None, ...]:
    """The tensors of a cell with shapes, of which a table has few different ones."""
    return tuple(_slots(shapes, dtypes, formats))


def _slots(all_shapes: str, all_dtypes: str, all_formats: str) -> Iterator[TensorSpec | None]:
    dtypes = all_dtypes.split(";") if all_dtypes else []
    formats = all_formats.split(";")
    shapes = all_shapes.split(";") if all_shapes or dtypes else []
    if len(dtypes) == 1 and all(text.startswith("[") for text in shapes):
        dtypes *= len(shapes)  # lists of tensors: their dtype is written once
    for index, text in enumerate(shapes):
        kind = dtypes[index].strip() if index < len(dtypes) else ""
        layout = formats[index].strip() if index < len(formats) else ""
        yield from _slot(text.strip(), kind, layout)


def _slot(text: str, kind: str, layout: str) -> Iterator[TensorSpec | None]:
    if not kind:
        yield None
        return
    parts = text.strip("[]").split() if text.startswith("[") else [text]
    for part in parts:
        shape = (
            () if part in ("", "scalar") else tuple(_size(size, text) for size in part.split(","))
        )
        yield TensorSpec(shape, dtype(kind), layout.partition(":")[0] or "ND")


def _size(text: str, shape: str) -> int:
    if not text.isdecimal():
        raise ArgumentError(f"{shape!r} is no shape")
    return int(text)


def _attributes(text: str) -> dict[str, object]:
    """Attributes as JSON or as ``name=value`` pairs separated by ``;``; numbers become numbers."""
    if text.startswith("{"):
        try:
            found = json_value(text, "")
        except FileError:
            return {}
        return found if isinstance(found, dict) else {}
    pairs = (pair.partition("=") for pair in text.split(";"))
    return {name.strip(): _value(value.strip()) for name, mark, value in pairs if mark}


def _value(text: str) -> object:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
