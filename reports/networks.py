"""Makes reports/networks.md: measured training steps, replayed on their chip and on another one.

python reports/networks.py > reports/networks.md
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from network_steps import kernel_details, training_steps

from npusim.model import StepResult, read_model, retime
from npusim.reporting.spelling import latency, percent

TABLE = Path(__file__).parent / "data" / "measured_ops.csv.gz"
CHIPS = {"LLM": "Ascend910B1", "CNN": "Ascend910B2"}
"""The chips of steps that weren't measured on the first generation, by the first word."""

FIRST_GENERATION = "Ascend910B"
OTHER = "Ascend310P3"
BAR = 0.2

HEAD = f"""# Training steps, measured and replayed

Each step is a `kernel_details.csv` made from the rows of `data/measured_ops.csv.gz`, timed again
on the chip that it was measured on and on {OTHER}. Operators that npusim doesn't simulate
(convolution, pooling, some fusions) keep their measured time, as do those that add at indices,
which only the data tell; on another chip that time is scaled by the ratio of the two rooflines. So
the error of the step's total flatters where little is simulated; the error of the simulated
operators alone stands beside it. The table has no order of kernels, so inputs come from memory
(`--l2 busy`). Most rows are calibration rows, from which constants of the chips were fitted.

Remade by `python reports/networks.py > reports/networks.md`.

| step | chip | kernels | measured | replayed | error | simulated part | its error | on {OTHER} |
|---|---|---:|---:|---:|---:|---:|---:|---:|
"""


def chip_of(workload: str) -> str:
    """The chip that a step was measured on."""
    return CHIPS.get(workload.partition(" ")[0], FIRST_GENERATION)


def replayed(workload: str) -> tuple[StepResult, StepResult]:
    """The step on its own chip and on the other one."""
    chip = chip_of(workload)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel_details.csv"
        file.write_text(kernel_details(TABLE, workload), encoding="utf-8")
        step = read_model(file).at()
    here, there = (retime(step, soc, l2="busy", measured_on=chip) for soc in (chip, OTHER))
    return here, there


def line(workload: str, here: StepResult, there: StepResult) -> str:
    """The step's row of the first table."""
    cells = (
        workload.partition(" train step")[0],
        here.soc,
        f"{here.step.launches:,}",
        latency(here.measured_us or 0.0),
        latency(here.device_us, here.band_us),
        "" if here.error is None else f"{here.error:+.1%}",
        percent(here.simulated_share),
        "" if here.simulated_error is None else f"{here.simulated_error:+.1%}",
        latency(there.device_us, there.band_us),
    )
    return f"| {' | '.join(cells)} |"


def section(workload: str, here: StepResult, there: StepResult) -> str:
    """The step's operator classes."""
    lines = [
        f"## {workload}",
        "",
        f"| class | kernels | measured | replayed on {here.soc} | on {there.soc} | how |",
        "|---|---:|---:|---:|---:|---|",
    ]
    elsewhere = {each.kind: each for each in there.classes}
    for each in here.classes:
        measured = "" if each.measured_us is None else latency(each.measured_us)
        cells = (
            each.kind,
            f"{each.count:,}",
            measured,
            latency(each.duration_us),
            latency(elsewhere[each.kind].duration_us),
            ", ".join(how.value for how in each.how),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def judgement(errors: dict[str, float | None]) -> str:
    """Which steps miss the bar."""
    missed = [
        f"{name.partition(' train step')[0]} ({error:+.1%})"
        for name, error in errors.items()
        if error is None or abs(error) > BAR
    ]
    within = len(errors) - len(missed)
    words = f"{within} of {len(errors)} totals are within {BAR:.0%} of the measured ones"
    return f"{words}; outside: {', '.join(missed)}." if missed else f"{words}."


def main() -> None:
    """Print the whole page."""
    lines, sections = [], []
    errors: dict[str, float | None] = {}
    for workload in training_steps(TABLE):
        sys.stderr.write(f"{workload}\n")
        pair = replayed(workload)
        errors[workload] = pair[0].error
        lines.append(line(workload, *pair))
        sections.append(section(workload, *pair))
    sys.stdout.write("\n\n".join((HEAD + "\n".join(lines), judgement(errors), *sections)) + "\n")


if __name__ == "__main__":
    main()
