"""Calls of operators and what is written of them."""

from __future__ import annotations

from npusim.reporting.schemas.common import (
    Band,
    Json,
    Number,
    Object,
    Problem,
    Status,
    Tensor,
    Verdict,
)


class Task(Object):
    """A task on the device, named by its OpType; `pipes` are busy ratios after the launch."""

    name: str
    block_dim: int
    start_us: Number
    duration_us: Number
    launch_us: Number
    cycles: int
    bound: str
    pipes: dict[str, Number]
    bytes_read: int
    bytes_written: int


class Answer(Object):
    """One chip's answer: a status or an error, and for a time what it is made of."""

    soc: str
    product_line: str
    ok: bool
    verdict: Verdict
    status: Status | None = None
    error: Problem | None = None
    duration_us: Number | None = None
    band_us: Band | None = None
    """The 80 % band of `duration_us`."""
    band_basis: str | None = None
    cycles: int | None = None
    bound: str | None = None
    pipes: dict[str, Number] | None = None
    workspace_size: int | None = None
    """Bytes."""
    tasks: list[Task] | None = None
    assumptions: list[str] | None = None
    outputs: dict[str, Tensor] | None = None
    comparisons: list[Json] | None = None


class Call(Object):
    """A call on one chip or several: `check`, `estimate` and `run`."""

    op: str
    arguments: Json
    answers: list[Answer]


class Demo(Call):
    """What `npusim demo` found, and where its trace is."""

    trace: str


class Case(Answer):
    """A case of a file and how it went."""

    name: str
    outcome: str
    """pass, FAIL, ran (nothing to compare with), rejected or unknown."""
    note: str


class Cases(Object):
    """A file of cases, played: `run --case`."""

    file: str
    cases: list[Case]


class Executed(Object):
    """What a program did: `exec --json FILE`."""

    program: str
    exit_code: int
    soc: str
    calls: list[Json]
    faults: list[Json]
    problems: list[Json]


class Tuned(Object):
    """A variant of a kernel, fastest first: `tune --json FILE`; no time where it was refused."""

    variant: str
    duration_us: Number | None
    refusal: str
    assumptions: list[str]


class Tiling(Object):
    """What a project's tiling function returns for a call, its data by name: `op tiling`."""

    op: str
    soc: str
    blocks: int
    tiling_key: int
    workspace_bytes: int
    tiling_bytes: int
    data: Json


class Trace(Object):
    """What was written: `trace`."""

    path: str
    slices: int
    cores: int
    end_us: Number


class ModelTrace(Object):
    """What was written of a model's step: `trace`."""

    path: str
    slices: int
    streams: int
    end_us: Number


class Sweep(Object):
    """How the points went: `sweep`."""

    spec: str
    file: str
    points: int
    answered_now: int
    ok: int
    rejected: int
    unknown: int
    error: int
    seconds: Number
    points_per_s: Number


class Changed(Object):
    """A number that both results have."""

    name: str
    unit: str
    before: Number
    now: Number
    ratio: Number | None
    """Now over before; null where that was nothing."""
    beyond_band: bool | None
    """Whether each lies outside of the other's 80 % band; null where there is none."""
    more_is_better: bool


class Compared(Object):
    """Two results that were kept: `compare`."""

    before: str
    now: str
    kind: str
    """The verb that both are of."""
    changes: list[Changed]
    only_before: list[str]
    only_now: list[str]
