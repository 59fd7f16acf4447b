"""A step from a profiler's table of kernels: each row a task with its shapes and its time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import median_low
from typing import Final

from npusim.model.kernel_csv import (
    NO_OPERATOR,
    Kernel,
    Tensors,
    is_absent,
    is_communication,
    read_kernels,
)
from npusim.model.records import reading_of
from npusim.model.step import AI_CPU, COMMUNICATION, Item, Operation, Step
from npusim.operators.tasks import TaskSpec
from npusim.values.errors import ArgumentError, FileError, NpusimError, UnknownNameError
from npusim.values.tensors import TensorSpec

_CPU: Final = ("AI_CPU", "AICPU")


def read_profile(file: Path, step: str = "") -> Step:
    """The step in an op_summary or kernel_details table.

    Of several steps the one with the Step Id `step`, or the one of median time.  Rows without
    shapes keep their measured time.  Raises FileError for other files, UnknownNameError for a step
    that isn't there.
    """
    return read_launches(file, step)[0]


def read_launches(file: Path, step: str = "") -> tuple[Step, tuple[Kernel, ...]]:
    """The same step, and beside each of its items the row of the file that it comes from."""
    rows: dict[str, list[tuple[Kernel, Item]]] = {}
    for pair in _items(file):
        rows.setdefault(pair[0].step, []).append(pair)
    steps = {name: [item for _, item in pairs] for name, pairs in rows.items()}
    chosen, notes = _choose(file, steps, step)
    kernels = tuple(kernel for kernel, _ in rows[chosen])
    compiled = all(each.in_model for each in kernels)
    made = Step(file.stem, "profile", tuple(steps[chosen]), notes=notes, one_shape=compiled)
    return made, kernels


def _items(file: Path) -> Iterator[tuple[Kernel, Item]]:
    operation = lru_cache(maxsize=65_536)(_operation)  # many rows share a few of them
    for kernel in read_kernels(file):
        same = operation(kernel.op, kernel.task_type, kernel.tensors, kernel.hf32)
        yield kernel, Item(same, 1, kernel.duration_us)


def _choose(file: Path, steps: dict[str, list[Item]], wanted: str) -> tuple[str, tuple[str, ...]]:
    if not steps:
        raise FileError(file, "has no kernels")
    if len(steps) > 1:
        steps.pop("", None)  # what ran between the steps
    if wanted:
        if wanted not in steps:
            raise UnknownNameError(f"step of {file}", wanted, steps)
        return wanted, ()
    if len(steps) == 1:
        return next(iter(steps)), ()
    total_us = {
        name: sum(item.measured_us or 0.0 for item in items) for name, items in steps.items()
    }
    middle = median_low(total_us.values())
    chosen = next(name for name in steps if total_us[name] == middle)
    note = f"step {chosen} of {len(steps)} steps in the file, the one of median time"
    return chosen, (note,)


def _operation(op: str, task_type: str, tensors: Tensors, hf32: bool) -> Operation:
    if is_communication(op, task_type):
        return Operation(op, None, COMMUNICATION, NO_OPERATOR)
    engine = AI_CPU if task_type.upper() in _CPU else ""
    shapes, dtypes, formats, out_shapes, out_dtypes, out_formats = tensors
    if not shapes and not out_shapes:
        return Operation(op, None, engine, "the file has no shapes for it")
    try:
        inputs = _operands(shapes, dtypes, formats)
        outputs = _operands(out_shapes, out_dtypes, out_formats)
        made = tuple(spec for spec in outputs if spec is not None)
        said = reading_of(TaskSpec(op, inputs, made, {"enable_hf32": True} if hf32 else {}))
    except NpusimError as error:
        return Operation(op, None, engine, f"its tensors can't be read: {error.message}")
    why = "it runs on the AI CPU" if engine else ""
    return Operation(op, said.task, engine, why, others=said.others, assumption=said.note)


def _operands(
    shapes: tuple[str, ...], dtypes: tuple[str, ...], formats: tuple[str, ...]
) -> tuple[TensorSpec | None, ...]:
    found: list[TensorSpec | None] = []
    for index in range(max(len(shapes), len(dtypes))):
        kind = dtypes[index] if index < len(dtypes) else ""
        if is_absent(kind):
            found.append(None)
            continue
        layout = formats[index] if index < len(formats) else ""
        layout = "ND" if is_absent(layout) else layout.partition(":")[0]
        sizes = _sizes(shapes[index] if index < len(shapes) else "")
        found.append(TensorSpec(sizes, kind, layout))
    return tuple(found)


def _sizes(text: str) -> tuple[int, ...]:
    """The sizes in one slot; an empty slot is a scalar."""
    if is_absent(text):
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ArgumentError(f"{text!r} is no shape")
    return tuple(map(int, parts))
