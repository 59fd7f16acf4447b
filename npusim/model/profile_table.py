"""A step from a profiler's table of kernels: each row a task with its shapes and its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median_low
from typing import Final

from npusim.model.communication import no_operator
from npusim.model.kernel_csv import (
    Kernel,
    KernelRows,
    Tensors,
    is_absent,
    is_communication,
)
from npusim.model.profiled import Profiled, chip_of
from npusim.model.records import reading_of
from npusim.model.step import AI_CPU, COMMUNICATION, Item, Operation, Step
from npusim.operators.tasks import TaskSpec
from npusim.values.errors import ArgumentError, FileError, NpusimError, UnknownNameError
from npusim.values.language import say
from npusim.values.tensors import TensorSpec

_CPU: Final = ("AI_CPU", "AICPU")
_LISTED: Final = 5
LEVEL_0: Final = (
    "no kernel has shapes: it was collected at level 0, so there is nothing to estimate; profile "
    "with profiler_level=ProfilerLevel.Level1 and record_shapes=True (msprof: --task-time=l1)"
)
"""What a table without tensors can't answer, and how to get one that can."""


def read_profile(path: Path, step: str = "", device_id: str = "") -> Step:
    """The step in a profiler's table or in a folder that has one.

    Of several steps the one with the Step Id `step`, or the one of median time; of several devices
    the kernels of `device_id`.  Rows without shapes keep their measured time.  Raises FileError for
    other files and for several devices none of which is chosen, UnknownNameError for a step or a
    device that isn't there.
    """
    return read_launches(path, step, device_id)[0]


def read_launches(
    path: Path, step: str = "", device_id: str = ""
) -> tuple[Step, tuple[Kernel, ...]]:
    """The same step, and beside each of its items the row of the file that it comes from."""
    rows = KernelRows(path)
    file = rows.file
    kernels, device_id = _of_one_device(file, list(rows), device_id)
    steps: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        steps.setdefault(kernel.step, []).append(kernel)
    chosen, notes = _choose(file, steps, step)
    found = tuple(steps[chosen])
    level_0 = not rows.has_tensors or not any(each.has_tensors for each in found)
    profiled = Profiled(str(file), device_id, tuple(rows.skipped), level_0, chip_of(kernels))
    made = Step(
        _name(path, file),
        "profile",
        tuple(_items(found)),
        notes=(*notes, *what_it_lacks(profiled.skipped_lines, level_0=level_0)),
        one_shape=_is_compiled(found),
        profiled=profiled,
    )
    return made, found


def _name(path: Path, file: Path) -> str:
    """The file's own name; the folder's where all tables are called the same."""
    return file.stem if path == file else path.resolve().name


def _is_compiled(kernels: Sequence[Kernel]) -> bool:
    """Whether all that has tensors is of a compiled model; collectives are of none."""
    asked = [each.in_model for each in kernels if each.has_tensors]
    return bool(asked) and all(asked)


def _items(kernels: Sequence[Kernel]) -> Iterator[Item]:
    operation = lru_cache(maxsize=65_536)(_operation)  # many rows share a few of them
    for kernel in kernels:
        same = operation(kernel.op, kernel.task_type, kernel.tensors, kernel.hf32)
        yield Item(same, 1, kernel.duration_us)


def _of_one_device(file: Path, kernels: list[Kernel], wanted: str) -> tuple[list[Kernel], str]:
    """The kernels of the device that is asked for, or of the only one, and which that is."""
    devices = dict.fromkeys(each.device for each in kernels)
    if wanted and wanted not in devices:
        raise UnknownNameError(say("device of {file}").format(file=file), wanted, devices)
    if len(devices) > 1 and not wanted:
        listed = ", ".join(devices)
        raise FileError(
            file,
            say("has kernels of {devices} devices: {listed}").format(
                devices=len(devices), listed=listed
            ),
            say("Ask about one at a time: --device-id {next}.").format(next=next(iter(devices))),
        )
    if len(devices) > 1:
        return [each for each in kernels if each.device == wanted], wanted
    return kernels, next(iter(devices), "")


def what_it_lacks(lines: Sequence[int], *, level_0: bool) -> Iterator[str]:
    """What isn't in a file, in a sentence each; `lines` are those of rows that were left out."""
    if lines:
        number = (
            "1 row doesn't"
            if len(lines) == 1
            else say("{lines} rows don't").format(lines=len(lines))
        )
        first = ", ".join(map(str, lines[:_LISTED]))
        more = ", ..." if len(lines) > _LISTED else ""
        where = "line" if len(lines) == 1 else "lines"
        yield say("{number} fit the header and are left out: {where} {first}{more}").format(
            number=number, where=where, first=first, more=more
        )
    if level_0:
        yield LEVEL_0


def _choose(file: Path, steps: dict[str, list[Kernel]], wanted: str) -> tuple[str, tuple[str, ...]]:
    if not steps:
        raise FileError(file, "has no kernels")
    if len(steps) > 1:
        steps.pop("", None)  # what ran between the steps
    if wanted:
        if wanted not in steps:
            raise UnknownNameError(say("step of {file}").format(file=file), wanted, steps)
        return wanted, ()
    if len(steps) == 1:
        return next(iter(steps)), ()
    total_us = {
        name: sum(each.duration_us or 0.0 for each in kernels) for name, kernels in steps.items()
    }
    middle = median_low(total_us.values())
    chosen = next(name for name in steps if total_us[name] == middle)
    note = say("step {chosen} of {steps} steps in the file, the one of median time").format(
        chosen=chosen, steps=len(steps)
    )
    return chosen, (note,)


def _operation(op: str, task_type: str, tensors: Tensors, hf32: bool) -> Operation:
    if is_communication(op, task_type):
        return Operation(op, None, COMMUNICATION, no_operator(op))
    engine = AI_CPU if task_type.upper() in _CPU else ""
    shapes, dtypes, formats, out_shapes, out_dtypes, out_formats = tensors
    if not shapes and not out_shapes:
        return Operation(op, None, engine, say("the file has no shapes for it"))
    try:
        inputs = _operands(shapes, dtypes, formats)
        outputs = _operands(out_shapes, out_dtypes, out_formats)
        made = tuple(spec for spec in outputs if spec is not None)
        said = reading_of(TaskSpec(op, inputs, made, {"enable_hf32": True} if hf32 else {}))
    except NpusimError as error:
        return Operation(
            op,
            None,
            engine,
            say("its tensors can't be read: {message}").format(message=error.message),
        )
    why = say("it runs on the AI CPU") if engine else ""
    return Operation(op, said.task, engine, why, others=said.others, assumption=said.note)


def _operands(
    shapes: tuple[str, ...], dtypes: tuple[str, ...], formats: tuple[str, ...]
) -> tuple[TensorSpec | None, ...]:
    if shapes and len(shapes) != len(dtypes):
        shapes = _of_one_tensor(shapes, dtypes)
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


def _of_one_tensor(shapes: tuple[str, ...], dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """The shape of a single tensor whose axes are parted by semicolons, as some exports have it."""
    if len(dtypes) == 1 and all(each.isdecimal() for each in shapes):
        return (",".join(shapes),)
    raise ArgumentError(
        say("{shapes} shapes and {dtypes} dtypes").format(shapes=len(shapes), dtypes=len(dtypes))
    )


def _sizes(text: str) -> tuple[int, ...]:
    """The sizes in one slot; an empty slot is a scalar."""
    if is_absent(text):
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ArgumentError(say("{text!r} is no shape").format(text=text))
    return tuple(map(int, parts))
