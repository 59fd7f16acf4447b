"""Reads the operators of a model from a file: a profiler's CSV, calls, or a plain list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from npusim.model.communication import no_operator
from npusim.model.kernel_csv import KernelRows, is_absent
from npusim.model.listed import Listed, Listing
from npusim.model.profile_files import PROFILES
from npusim.model.profile_table import what_it_lacks
from npusim.reading.files import kind_of, read_text
from npusim.values.dtypes import dtype
from npusim.values.errors import DTypeError, FileError
from npusim.values.language import say

_NOT_MODELS = {
    ".om": "Give the ONNX file that it was converted from: the layout of OM files isn't published.",
    ".pt": "Export it with torch.onnx.export, or give a kernel_details.csv of a run.",
    ".pth": "Export it with torch.onnx.export, or give a kernel_details.csv of a run.",
    ".pb": "Convert it to ONNX, or give an op_summary CSV of a run.",
    ".safetensors": "These are weights; give an ONNX file or a kernel_details.csv of a run.",
}
_API_IN_KERNEL_NAME = re.compile(r"(acl[A-Za-z0-9]+)_")


def read_model(path: str | Path) -> Listing:
    """The operators in a file, by its ending.

    ``.csv`` is a profile, ``.yaml`` a list of calls, else a list of names.
    """
    file = Path(path)
    ending = file.suffix.lower()
    if ending in _NOT_MODELS:
        raise FileError(file, f"npusim can't read {ending} files", _NOT_MODELS[ending])
    if kind_of(file) == "folder" or ending in PROFILES:
        return _from_profile(file)
    if ending in (".yaml", ".yml"):
        return Listing("calls", tuple(_from_calls(file)))
    return Listing("list", tuple(_from_text(file)))


def _from_profile(path: Path) -> Listing:
    rows = KernelRows(path)
    found: list[Listed] = []
    devices: dict[str, None] = {}
    level_0 = True
    for kernel in rows:
        devices[kernel.device] = None
        level_0 = level_0 and not kernel.has_tensors
        api = _API_IN_KERNEL_NAME.match(kernel.name)
        why = no_operator(kernel.op) if kernel.is_communication else ""
        dtypes, unread = _dtypes(kernel.tensors.input_dtypes)
        outputs, unread_too = _dtypes(kernel.tensors.output_dtypes)
        listed = Listed(
            kernel.op,
            "kernel",
            dtypes,
            outputs,
            api[1] if api else "",
            time_us=kernel.duration_us or 0.0,
            why_unknown=why or unread or unread_too,
        )
        found.append(listed)
    notes = list(what_it_lacks(rows.skipped, level_0=level_0))
    if len(devices) > 1:
        notes.append(
            say("operators of {devices} devices together: {names}").format(
                devices=len(devices), names=", ".join(devices)
            )
        )
    return Listing("profile", tuple(found), notes=tuple(notes))


def _from_calls(file: Path) -> Iterator[Listed]:
    from npusim.model.call_list import read_calls

    for item in read_calls(file).at().items:
        inputs, outputs = (
            tuple(str(each.dtype) for each in tensors) for tensors in (item.inputs, item.outputs)
        )
        yield Listed(
            item.op, "word", inputs, outputs, count=item.count, why_unknown=item.operation.problem
        )


def _from_text(file: Path) -> Iterator[Listed]:
    """A line: operator, dtypes of inputs and, after ``->``, of outputs; ``#`` starts a remark."""
    hint = say("Give a CSV of the profiler, an .onnx file, or a text with one operator a line.")
    found = False
    for number, line in enumerate(read_text(file, hint).splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        found = True
        kinds = [word.rpartition("=")[2] for word in words[1:]]
        split = kinds.index("->") if "->" in kinds else len(kinds)
        dtypes, unread = _dtypes(kinds[:split])
        outputs, unread_too = _dtypes(kinds[split + 1 :])
        if unread or unread_too:
            hint = say("Write OP [DTYPE ...] [-> DTYPE ...], e.g. Cast fp32 -> bf16.")
            raise FileError(
                file,
                say("line {number}: {value}").format(number=number, value=unread or unread_too),
                hint,
            )
        yield Listed(words[0], "word", dtypes, outputs)
    if not found:
        hint = say("Write one operator a line: OP [DTYPE ...] [-> DTYPE ...].")
        raise FileError(file, "lists no operators", hint)


def _dtypes(texts: Iterable[str]) -> tuple[tuple[str, ...], str]:
    """Dtypes in the pages' spelling, and what is wrong with the first one that nobody knows."""
    read: list[str] = []
    for text in texts:
        word = text.strip()
        if is_absent(word):
            read.append("")
            continue
        try:
            read.append(dtype(word).name)
        except DTypeError as error:
            return tuple(read), error.message
    return tuple(read), ""
