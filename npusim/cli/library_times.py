"""A program's kernels against calls of the vendor's library on the same tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.cli import output
from npusim.cli.calls import read_call
from npusim.values.errors import RejectedError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from npusim.capi.running import Run
    from npusim.reporting.document import Table
    from npusim.runtime.device import Device

_ASKED = re.compile(r"\s*([^\s:]+)\s*:\s*(\S+)\s*(.*)")
_EXAMPLE = "Write --against 'softmax_kernel: aclnnSoftmax self=x_ptr dim=-1 out=out_ptr'."


@dataclass(frozen=True, slots=True)
class Against:
    """A kernel's name, an interface, and its arguments: a kernel's tensors by their names."""

    kernel: str
    interface: str
    words: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Against:
        """``KERNEL: INTERFACE NAME=VALUE...``. Raises UsageError for anything else."""
        found = _ASKED.fullmatch(text)
        words = tuple(found[3].split()) if found else ()
        if found is None or not all("=" in each for each in words):
            raise UsageError(f"--against {text!r}", _EXAMPLE)
        return cls(found[1], found[2], words)


def library_table(run: Run, asked: Sequence[Against], device: Device) -> Table:
    """A row for each of a kernel's times that is compared.

    Raises UnknownNameError for a kernel that didn't run.
    """
    from npusim.reporting.call.tables import BAND_COLUMN
    from npusim.reporting.document import Table
    from npusim.reporting.spelling import latency, significant

    names = sorted({str(call["op"]) for call in run.calls})
    rows = []
    for each in asked:
        if each.kernel not in names:
            raise UnknownNameError("kernel of the program", each.kernel, names)
        calls = [call for call in run.calls if call["op"] == each.kernel]
        for call in {call["cycles"]: call for call in calls}.values():
            low_us, high_us = call["band_us"]
            own = latency(call["duration_us"], (low_us, high_us))
            question = read_call(each.interface, list(_words(call, each)))
            try:
                result = device.estimate(question.name, **question.arguments)
            except RejectedError as error:
                output.note(f"{question.name}: {error}")
                continue
            ratio = significant(call["duration_us"] / result.duration_us, 3)
            library = latency(result.duration_us, result.band_us)
            rows.append((each.kernel, own, question.name, library, ratio))
    columns = ("kernel", BAND_COLUMN, "library", f"its {BAND_COLUMN}", "times as long")
    caption = f"Against the vendor's library on {run.soc}: kernels alone, on the same tensors"
    return Table(columns, rows, (columns[1], *columns[3:]), caption)


def _words(call: dict[str, Any], asked: Against) -> Iterator[str]:
    """The call's arguments, with tensors of the kernel spelled out."""
    tensors = {each["name"]: each for each in call["tensors"].values()}
    for word in asked.words:
        name, _, value = word.partition("=")
        if value in tensors:
            sizes = ",".join(map(str, tensors[value]["shape"]))
            yield f"{name}={tensors[value]['dtype']}[{sizes}]"
        else:
            yield word
