"""Prints a digest of the timeline of each call on standard input: run in a process of its own.

A call is ``{"soc": ..., "op": ..., "arguments": {...}}`` with tensors written ``bf16[2,64]``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import npusim
from npusim.runtime.timeline import core_name


def digest(result: Any) -> str:
    """A fingerprint of everything that has to do with time in a result."""
    text = hashlib.sha256()
    for task in result.tasks:
        text.update(repr(task).encode())
    # Cores that work in step have one record.
    for run in result.timeline._runs:
        for record in run.records:
            name = core_name(result.timeline._profile, record.blocks[0], record.unit)
            text.update(repr((record.blocks, name, record.end)).encode())
            for span in record.spans():
                done = span.instruction
                moved = done.transfer.payload_bytes if done.transfer else 0
                # Kernels that are written in the library alone have the line that runs them.
                line = "" if done.site.startswith("runtime/") else done.site
                told = (done.name, done.detail, line, moved)
                text.update(repr((str(span.pipe), span.start, span.end, *told)).encode())
    rest = (result.cycles, result.duration_us, result.band_us, result.bound, result.pipes)
    text.update(repr((*rest, result.workspace_size, result.assumptions)).encode())
    return text.hexdigest()


def digests(calls: list[dict[str, Any]]) -> list[str]:
    """The fingerprint of each call's estimate."""
    return [
        digest(npusim.Device(call["soc"]).estimate(call["op"], **call["arguments"]))
        for call in calls
    ]


if __name__ == "__main__":
    json.dump(digests(json.load(sys.stdin)), sys.stdout)
