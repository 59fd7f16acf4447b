"""Steps of models, and profiles and measured rows against them."""

from __future__ import annotations

from typing import Any

from npusim.reporting.schemas.common import Band, Json, Number, Object, Verdict


class ModelCheck(Object):
    """Every operator of a model on every product asked: `check --model`."""

    model: str
    kind: str
    ok: bool
    verdict: Verdict
    products: list[Json]
    operators: list[Json]
    notes: list[str]


class ProfiledChip(Object):
    """What a profiler's table tells of its chip, null where it doesn't.

    `memory_gbps` is the rate of the fastest copy that no L2 holds. `can_be` are the chips that have
    this clock, these cores and such a memory, `fits` says whether the chip that is asked about is
    one, `doubt` why not.
    """

    clock_mhz: Number | None
    vector_cores: int | None
    cube_cores: int | None
    memory_gbps: Number | None
    can_be: list[str]
    fits: bool
    doubt: str | None


class Profiled(Object):
    """Where the kernels of a profile come from.

    `skipped_lines` are those of rows that don't fit the header, `level_0` says that no kernel has
    shapes.
    """

    file: str
    device_id: str | None
    skipped_lines: list[int]
    level_0: bool
    chip: ProfiledChip


class Step(Object):
    """A step of a model on a chip; `headline` says it in a sentence, `verdict` whether it runs."""

    headline: str
    verdict: Verdict
    model: str
    batch: int | None
    soc: str
    product_line: str
    runs: bool
    l2: str
    streams: int
    measured_on: str | None
    profile: Profiled | None
    duration_us: Number
    band_us: Band
    band_basis: str
    items_per_s: Number | None
    device_us: Number
    host_dispatch_us: Number | None
    eager: Json
    measured_us: Number | None
    error: Number | None
    simulated_error: Number | None
    calibrated_share: Number
    simulated_share: Number
    not_simulated_share: Number
    not_counted: int
    launches: int
    classes: list[Json]
    bounds: list[Json]
    operators: list[Json]
    dtypes: list[Json]
    memory: Json
    passes: list[Any]
    tasks: list[Json]
    assumptions: list[str]


class Steps(Object):
    """A model on one chip or several, at one batch or several: `model`.

    `best` is each chip's best batch, where several were asked or a latency limit; null where no
    batch keeps it.
    """

    answers: list[Step]
    best: list[Json] | None = None


class Waits(Object):
    """How long the device's main stream stands still for what, in `whole_us`.

    In `longest`, `us` is the gap before the kernel in `line`, `cause` host, collective or
    other_stream, and `running` the longest task that runs in it.
    """

    whole_us: Number
    host_us: Number
    collective_us: Number
    other_stream_us: Number
    longest: list[Json]


class ChangedSide(Object):
    """Kernels that are alike in one profile: how many, all their time, the one in the middle."""

    count: int
    total_us: Number
    middle_us: Number


class ChangedKernels(Object):
    """Kernels that are alike in two profiles; `us` is how much longer they take, negative: less."""

    op: str
    tensors: str
    change: str
    us: Number
    before: ChangedSide
    after: ChangedSide


class Changed(Object):
    """A profile against an earlier one, most microseconds first, whichever way."""

    against: str
    before_us: Number
    after_us: Number
    operators: list[ChangedKernels]
    kernels: list[ChangedKernels]


class Judged(Object):
    """A profile against estimates, kernel by kernel: `judge`.

    In `classes`, `ratio` is measured over estimated time, `median_ratio` the same for the kernel in
    the middle, `usual_ratio` the ends of its 80 % band. In `findings`, `us` is the measured time of
    the kernels that it is about, `saved_us` what the remedy saves of their estimates. `not_judged`
    are the lines of kernels that took far less than estimated.
    """

    name: str
    soc: str
    profile: Profiled | None
    kernels: int
    compared: int
    unusual: list[Json]
    findings: list[Json]
    not_judged: list[int]
    assumptions: list[str]
    waits: Waits
    repeats: list[Json]
    classes: list[Json]
    changes: Changed | None


class FitError(Object):
    """Mean absolute logarithms of estimated over measured time, each at most 0.5."""

    kernels: int
    error_before: Number
    error_after: Number


class FittedConstant(Object):
    """A number of the chip before and after a fit, and how many kernels depend on it.

    `gain` is by how much the error of kernels that are left out falls, null where too few depend.
    """

    key: str
    meaning: str
    before: Number
    after: Number
    kernels: int
    moved: bool
    gain: Number | None
    gain_standard_error: Number | None


class Calibrated(Object):
    """A chip fitted to a profile: `calibrate`; `holds` says whether a file is written."""

    name: str
    soc: str
    profile: Profiled | None
    holds: bool
    verdict: str
    launches: int
    fitted: FitError
    aside: FitError
    constants: list[FittedConstant]


class Accuracy(Object):
    """Errors as fractions of the measured time."""

    rows: int
    modelled: int
    median_abs_error: Number | None
    p90_abs_error: Number | None
    bias: Number | None
    rank_correlation: Number | None
    in_band: Number | None
    roofline_median_abs_error: Number | None


class Workload(Object):
    """A workload's kernels added up."""

    rows: int
    measured_us: Number
    modelled_ratio: Number
    error: Number
    absolute_error: Number


class Validated(Object):
    """Measured rows replayed: `validate`."""

    overall: Accuracy
    later: Accuracy | None
    by_chip: dict[str, Accuracy]
    by_family: dict[str, Accuracy]
    by_workload: dict[str, Workload]
    not_modelled: dict[str, int]


class Agreed(Object):
    """An operator's calls on both sides: shares that are alike."""

    calls: int
    refused: int
    blocks: Number
    tiles: Number
    times: Number
    median_ratio: Number


class Beside(Object):
    """Our schedules beside those of projects: `validate --against-project`."""

    operators: dict[str, Agreed | None]
    calls: list[dict[str, str | Number]]
