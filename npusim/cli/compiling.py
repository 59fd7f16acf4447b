"""What is said about how a network runs: its shapes, precision, passes, mode; one group of options.

Commands that take models spell them as parameters of these types and ask `compilation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.values.errors import ArgumentError, UsageError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.model.graph_model import Compilation

MODELS = (".onnx", ".pt2", ".yaml", ".yml", ".csv")
"""Endings of files that hold models."""

_NONE = "none"
_MOST_DIGITS = 19
_LONGEST = 64  # batches of one question
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}

Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="INPUT=N,...",
        help="The shape of an input, or of a value whose size depends on data.",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option("--precision", help="ATC's precision mode: force_fp16 (default) or origin."),
]
Fuse = Annotated[
    bool, typer.Option("--fuse/--no-fuse", help="Let the graph compiler fuse operators.")
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="PASS", help="Compile without a pass."),
]
Aipp = Annotated[
    bool,
    typer.Option("--aipp", help="Images come in bytes, normalised on their way (insert_op_conf)."),
]
Fast = Annotated[
    str | None,
    typer.Option(
        "--fast",
        metavar="OP,...",
        help="Operators in their faster implementation (optypelist_for_implmode): Gelu, Sigmoid; "
        "Gelu if nothing is said, none for no operator.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help="How a network runs: om (an offline model; ONNX), eager (torch_npu call by call, "
        "launched by the host; .pt2) or graph (the same calls captured and replayed; .pt2 on A2).",
    ),
]
Custom = Annotated[
    Path | None,
    typer.Option(
        "--custom",
        metavar="FILE",
        help="A YAML file that says what operators of custom domains cost.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", help="The batch of a network, the {B} of a YAML model."),
]
Batches = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="N,...",
        help="The batch of a network, the {B} of a YAML model; several give the curve of rates.",
    ),
]
Streams = Annotated[
    int,
    typer.Option("--streams", metavar="N", help="Steps in flight at once, each on its own stream."),
]


def compilation(
    shape: Sequence[str] | None,
    precision: str | None,
    fuse: bool,
    without: Sequence[str] | None,
    mode: str | None,
    custom: Path | None,
    aipp: bool,
    fast: str | None,
) -> Compilation | None:
    """What is said about compiling a network; None where nothing is."""
    if not any((shape, precision, without, mode, custom, aipp)) and fuse and fast is None:
        return None
    from npusim.graph.custom import read_custom
    from npusim.model.graph_model import Compilation

    rows = {} if custom is None else read_custom(custom)
    sizes = dict(map(_shape, shape or ()))
    passes = tuple(without or ())
    how = Compilation(sizes, precision or "", fuse, passes, mode or "", rows, aipp)
    if fast is None:
        return how
    words = [word.strip() for word in fast.split(",")]
    return replace(how, fast=() if words == [_NONE] else tuple(words))


def is_model(file: Path) -> bool:
    """Whether what stands in the place of an operator is a model: its ending, or a profile."""
    if file.suffix.lower() in MODELS:
        return True
    from npusim.model.profile_files import is_profile

    return is_profile(file)


def no_arguments(file: Path, assignments: Sequence[str] | None) -> None:
    """Refuse parameters of a call for a model."""
    if assignments:
        raise UsageError(
            say("{file} is a model, which takes no {assignments}").format(
                file=file, assignments=assignments[0]
            )
        )


def batches_of(text: str | None) -> list[int | None]:
    """The batches that `1,4,8` names, each once; the file's own where nothing is said."""
    if text is None:
        return [None]
    words = [word.strip() for word in text.split(",")]
    numbers = [word.removeprefix("-") for word in words]
    if not all(word.isdecimal() and len(word) < _MOST_DIGITS for word in numbers):
        raise ArgumentError(f"--batch {text} names no batches", say("Write e.g. --batch 1,4,8,16."))
    if len(words) > _LONGEST:
        raise ArgumentError(f"--batch names {len(words)} batches, more than {_LONGEST}")
    return list(dict.fromkeys(map(int, words)))


def microseconds(text: str | None) -> float | None:
    """The time that `50ms` says."""
    if text is None:
        return None
    digits = text.strip().rstrip("umse ")
    factor = _UNITS.get(text.strip().removeprefix(digits).strip())
    try:
        value = float(digits)
    except ValueError:
        factor = None
    if factor is None or not 0 < value < float("inf"):
        raise ArgumentError(
            f"--within {text} is no time", say("Write e.g. --within 50ms, or 800us.")
        )
    return value * factor


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    words = [word.strip() for word in sizes.strip("[]").split(",")]
    if not name or not all(word.isdecimal() and len(word) < _MOST_DIGITS for word in words):
        raise ArgumentError(
            f"--shape {text} says no input and its sizes",
            say("Write e.g. --shape input=1,3,224,224."),
        )
    return name, tuple(map(int, words))
