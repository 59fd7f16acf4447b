"""What a model file tells of its operators, as far as a verdict needs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listed:
    """One operator of a model, as the file has it.

    `kind` says whose name `op` is: kernel (a profiler's OP type) or word (anything).
    `dtypes` are those of the inputs in the spelling of the operator pages, empty where absent, and
    `outputs` those of the outputs; `api` is the API that launched a kernel, when its name tells.
    `why_unknown` is set for what the catalogue can't judge.
    """

    op: str
    kind: str
    dtypes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    api: str = ""
    count: int = 1
    time_us: float = 0.0
    why_unknown: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The operators of a model."""

    kind: str
    operators: tuple[Listed, ...]
    notes: tuple[str, ...] = ()
