"""Tables of measured kernel times: one row per task with chip, OpType, shapes, dtypes and duration.

Columns as in the tables that `npusim validate` takes: ``chip``, ``op``, ``op_family``, ``impl``,
``input_shapes``, ``input_dtypes``, ``input_formats``, the same for outputs, ``attrs``,
``duration_us``, ``trust``, ``workload``, ``count``, ``op_state``, ``state``, ``warm``. ``chip`` is
a SoC or a product by any of its names. ``state`` says what runs before the task: others of its
``graph`` (so where nothing is said), the same call on the same tensors (``loop``), others that a
framework calls one by one (``eager``), or a whole graph (``between`` two runs of it, whose weights
have driven the task's code out of L2); ``warm`` what L2 holds of its inputs where that isn't what
the state leaves: all of them (``yes``), none (``no``), none and nothing that has to be written back
(``cleared``, a loop of `msprof op`), or the ``weights``. ``count`` tells that a
step runs the task in every layer, ``op_state`` whether it was compiled for its shapes (``static``);
``dynamic`` tasks of a workload that has static ones are called between two graphs. What a step's
optimizers update are its parameters, and what other rows of its workload read of the same shape and
dtype comes from the step before, or from long before in this one; what lays them out anew in half
of it follows their rounding. Notes and other columns are for people: nothing is read from them.
Slots are separated by ``;``, dimensions by ``,``; ``[a b]`` is a list of tensors, ``scalar`` (or an
empty slot that has a dtype) a tensor of rank 0, an empty slot without one an absent input.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf
from pathlib import Path

from npusim.hardware.naming import resolve_soc
from npusim.operators.slots import in_slots
from npusim.operators.tasks import TaskSpec
from npusim.reading.markup import json_value
from npusim.reading.tables import table_in
from npusim.runtime.cache_start import LAYERS
from npusim.validation.roles import (
    ALONE,
    Like,
    Role,
    amid,
    is_laid_out,
    is_rounded,
    streams,
    updated_by,
)
from npusim.values.dtypes import dtype
from npusim.values.errors import ArgumentError, FileError, NpusimError, UnknownNameError
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

# What the state of a row is another word for: what a framework calls one by one finds L2 as in a
# graph, and its code in L2. Cold and warm calls are those of a graph in which L2 holds so much.
_STATES = {
    "": ("graph", ""),
    "graph": ("graph", ""),
    "eager": ("graph", ""),
    "loop": ("loop", ""),
    "between": ("between", ""),
    "warm": ("graph", "yes"),
    "cold": ("graph", "no"),
}
_SPELLED = {"true": "yes", "1": "yes", "false": "no", "0": "no"}  # of the column `warm`
# What a task finds, by the columns `state` and `warm`; nothing is what a step leaves. References of
# benchmarks that get fresh tensors in every turn are loops without warm inputs.
_JUST_MADE = "warm"
_LOOP = "loop"
_CLEARS = ("AtomicAddrClean",)  # what they clear no tensor of theirs tells, but their blocks
# Those whose rows are dealt out otherwise where they are compiled for their shapes.
_DEALT_BY_SHAPE = ("ArgMaxV2", "ArgMin")
# MindSpore computes one gradient where a step uses one (frontend/optimizer/irpass/minmax_grad.h); a
# single number that tensors are cut off at is a constant, whose gradient nothing uses. It lists the
# gradient behind the operands, the device's operator before them.
_OF_EXTREMES = ("MaximumGrad", "MinimumGrad")
_BETWEEN = "between"
_FLUSHED = "flushed"
_CLEARED = "cleared"
_LOOPS = (_LOOP, _FLUSHED, _CLEARED)
_STARTS: Mapping[tuple[str, str], str] = {
    ("graph", ""): "",
    ("graph", "yes"): _JUST_MADE,
    ("graph", "no"): "uncached",
    ("graph", "weights"): "prefetched",
    (_LOOP, ""): _LOOP,
    (_LOOP, "yes"): _LOOP,
    (_LOOP, "no"): _FLUSHED,
    (_LOOP, "cleared"): _CLEARED,
    ("between", ""): _BETWEEN,
}


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement; ``soc`` is empty where the chip isn't known, and ``problem`` says so.

    ``later`` rows came after the schedules that they are simulated with were written.

    ``blocks`` is how many blocks were launched, 0 where that isn't recorded.
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
    role: Role = ALONE
    later: bool = False

    @cached_property
    def asked(self) -> Hashable:
        """Equal for rows of one chip, operator, tensors and attributes."""
        task = self.task
        told = task and (task.op_type, task.inputs, task.outputs, repr(task.attributes))
        return self.soc or self.chip, told

    @cached_property
    def question(self) -> Hashable:
        """Equal for rows that have the same answer."""
        return self.asked, self.start, self.role, self.problem


def _instead(path: str | Path, header: Sequence[str]) -> str:
    """Who answers for a table that isn't one of measurements."""
    if any(name.strip().lower().endswith("duration(us)") for name in header):
        return f"It is a profiler's table: npusim judge {path} -s CHIP compares its kernels."
    return "docs/reference/model_files.md says what the columns are."


def read_rows(path: str | Path) -> Iterator[MeasuredRow]:
    """The rows of a ``.csv`` or ``.csv.gz`` table.

    A row that can't be read carries the reason in ``problem``.

    Raises FileError for a file that isn't such a table.
    """
    with table_in(path) as table:
        missing = [name for name in _NEEDED if name not in table.header]
        if missing:
            problem = f"lacks the columns {', '.join(missing)}"
            raise FileError(path, problem, _instead(path, table.header))
        records = list(table.records())
    once = _least_counts(record for _, record in records)
    graphs = {record.get("workload", "") for _, record in records if _state(record) == "static"}
    rows = [_row(line, record, path, once, graphs) for line, record in records]
    updated: dict[str, set[Like]] = {}
    for row in rows:
        if row.task is not None:
            updated.setdefault(row.workload, set()).update(updated_by(row.task))
    for row in rows:
        yield row if row.task is None else _in_step(row, row.task, updated[row.workload])


def _in_step(row: MeasuredRow, task: TaskSpec, updated: Collection[Like]) -> MeasuredRow:
    """A row with what the others of its workload say of it."""
    found = streams(task, updated)
    role = replace(row.role, streams=found, amid=found and amid(task, updated))
    just_made = not row.start and is_rounded(task, updated)
    return replace(row, role=role, start=_JUST_MADE if just_made else row.start)


def _least_counts(records: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """How often the rarest task of each step was measured: once in every step that was read."""
    least: dict[str, int] = {}
    for record in records:
        if count := _number(record, "count"):
            step = _step(record)
            least[step] = min(count, least.get(step, count))
    return least


def _step(record: Mapping[str, str]) -> str:
    """What a row's workload is part of: tables that differ behind a comma are of one network.

    One of a network's tables may have nothing but its layers.
    """
    name, _, _ = record.get("workload", "").partition(",")
    return f"{name}|{record.get('state', '')}"


def _number(record: Mapping[str, str], column: str) -> int:
    text = record.get(column, "")
    return int(text) if text.isdecimal() else 0


def _row(
    line: int,
    record: Mapping[str, str],
    path: str | Path,
    once: Mapping[str, int],
    graphs: Collection[str],
) -> MeasuredRow:
    try:
        duration_us = float(record["duration_us"])
        if not 0 < duration_us < inf:
            raise ValueError
    except ValueError:
        raise FileError(
            path, f"line {line}: duration_us is {record['duration_us']!r}, not a time above 0"
        ) from None
    task, problem, start, soc = None, "", "", ""
    try:
        start = _start(record, graphs)
        task = _task(record)
        soc = _soc(record["chip"])
    except NpusimError as error:
        problem = " ".join(str(error).split())
    return MeasuredRow(
        line=line,
        chip=record["chip"],
        soc=soc,
        op=record["op"],
        family=record.get("op_family", ""),
        impl=record.get("impl", ""),
        trust=record.get("trust", ""),
        workload=record.get("workload", ""),
        duration_us=duration_us,
        task=task,
        problem=problem,
        start=start,
        role=Role(
            layered=start not in (*_LOOPS, _BETWEEN) and _layered(record, once),
            one_shape=_is_for_one_shape(record, start, task),
            cast_masks=start == _LOOP and record.get("impl", "").startswith("builtin"),
        ),
        counters={
            key: value
            for key, value in record.items()
            if key.startswith(("aic_", "aiv_")) and value
        },
        blocks=_number(record, "block_dim"),
        later=record.get("later", "") == "yes",
    )


def _state(record: Mapping[str, str]) -> str:
    """How the kernel was compiled: static for one shape, dynamic for any; empty if unknown."""
    return record.get("op_state", "")


def _start(record: Mapping[str, str], graphs: Collection[str]) -> str:
    """What the task finds: a value of _STARTS, nothing where a step has left it.

    ``graphs`` are the workloads that have graphs. Raises UnknownNameError for other words.
    """
    state, warm = (record.get(name, "").strip().lower() for name in ("state", "warm"))
    dynamic = _state(record) == "dynamic"
    if state in ("", "eager") and not warm and dynamic and record.get("workload", "") in graphs:
        state = _BETWEEN
    if state not in _STATES:
        raise UnknownNameError("state", state, [name for name in _STATES if name])
    named, known = _STATES[state]
    found = _STARTS.get((named, _SPELLED.get(warm, warm) or known))
    if found is None:
        kinds = [kind for each, kind in _STARTS if each == named and kind]
        raise UnknownNameError("warm", warm, kinds, f"Or nothing, for a row of {state or 'graph'}.")
    return found


@lru_cache(maxsize=256)
def _soc(chip: str) -> str:
    """The SoC of a chip or product by any of its names."""
    return resolve_soc(chip).name


def _is_for_one_shape(record: Mapping[str, str], start: str, task: TaskSpec | None) -> bool:
    """Whether the kernel was compiled for its shapes, as columns say or else laid-out weights."""
    if _state(record):
        return _state(record) == "static"
    alone = start in (*_LOOPS, _BETWEEN)
    return task is not None and not alone and is_laid_out(task)


def _layered(record: Mapping[str, str], once: Mapping[str, int]) -> bool:
    """Whether it was measured so often that its step runs it in every layer."""
    count, rarest = _number(record, "count"), once.get(_step(record), 0)
    return bool(rarest and count >= LAYERS * rarest)


def _task(record: Mapping[str, str]) -> TaskSpec:
    inputs, outputs = (
        _operands(
            record[f"{side}_shapes"], record[f"{side}_dtypes"], record.get(f"{side}_formats", "")
        )
        for side in ("input", "output")
    )
    made = tuple(spec for spec in outputs if spec is not None)
    attributes = _attributes(record.get("attrs", ""))
    if record["op"] in _CLEARS and (blocks := _number(record, "block_dim")):
        attributes = {"block_dim": blocks} | attributes
    if record["op"] in _DEALT_BY_SHAPE and _state(record) == "static":
        attributes = {"compiled_for_shape": True} | attributes
    if record["op"] in _OF_EXTREMES and len(inputs) > 2:
        inputs = (inputs[2], *inputs[:2])
        asked = inputs[2] is None or inputs[2].numel > 1
        attributes = {"grad_y": asked or record.get("state") != "graph"} | attributes
    if record.get("hf32") == "YES":
        attributes = {"enable_hf32": True} | attributes
    return in_slots(TaskSpec(record["op"], inputs, made, attributes))


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
