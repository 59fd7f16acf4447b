"""`npusim demo`: the main job on real numbers, checked in front of the reader.

GroupNorm backward runs on every chip: who offers it, how long it takes, whether the gradients are
right, and a trace of what the cores did.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import calls, output
from npusim.cli.chips import every_chip
from npusim.cli.options import AsJson
from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np

    from npusim.reporting.call.answers import Answer
    from npusim.reporting.compare import Comparison

    Array = np.ndarray[Any, Any]

OPERATOR = "aclnnGroupNormBackward"
BATCH, CHANNELS, PIXELS, GROUPS = 2, 64, 4096, 8
SEED = 20250101
RTOL, ATOL = 1e-4, 1e-4
TRACED = "Ascend910B3"
DEFAULT_TRACE = Path("npusim_demo_trace.json")

TraceFile = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Where the trace goes; overwritten.")
]


def demo(path: TraceFile = DEFAULT_TRACE, as_json: AsJson = False) -> None:
    """Run one operator on all chips and check its numbers.

    Example: npusim demo
    """
    from npusim.reporting.files import claim
    from npusim.reporting.trace import write_trace

    claim(path, force=True)
    arguments = example()
    question = calls.Question(OPERATOR, arguments, None)
    answers = calls.ask_all(every_chip(), lambda device: device.run(OPERATOR, **arguments))
    comparisons = {answer.soc: check_numbers(answer, arguments) for answer in answers if answer.ok}
    traced = next((answer for answer in answers if answer.soc == TRACED), None)
    if traced is not None and traced.result is not None:
        write_trace(traced.result, path, force=True)
    if as_json:
        described = question.described(answers)
        for entry in described["answers"]:
            entry["comparisons"] = [vars(item) for item in comparisons.get(entry["soc"], ())]
        output.emit_json({**described, "trace": str(path)})
    else:
        _show(answers, comparisons, path)
    right = all(item.passed for group in comparisons.values() for item in group)
    # a chip may say no; a kernel that breaks on it is our mistake
    broken = any(answer.error is not None for answer in answers)
    if broken or not comparisons or not right:
        raise typer.Exit(1)


def example() -> dict[str, Any]:
    """Inputs with true statistics, from a fixed seed, in FLOAT (which every product line knows)."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    x = generator.normal(1.0, 2.0, (BATCH, CHANNELS, PIXELS)).astype(np.float32)
    groups = x.astype(np.float64).reshape(BATCH, GROUPS, -1)
    return {
        "gradOut": generator.standard_normal(x.shape, dtype=np.float32),
        "input": x,
        "mean": groups.mean(axis=2).astype(np.float32),
        "rstd": (1 / np.sqrt(groups.var(axis=2) + 1e-5)).astype(np.float32),
        "gamma": generator.normal(1.0, 0.1, CHANNELS).astype(np.float32),
        "N": BATCH,
        "C": CHANNELS,
        "HxW": PIXELS,
        "group": GROUPS,
        "outputMask": [True, True, True],
    }


def reference(arguments: dict[str, Any]) -> dict[str, Array]:
    """The three gradients in float64 from the closed form, on whole arrays and without any tiling.

    With xh = (x - mean) * rstd and c1, c2 the means of gamma*dy and gamma*dy*xh over a group:
    dx = rstd * (gamma*dy - c1 - xh*c2), dgamma = sum dy*xh, dbeta = sum dy.
    """
    import numpy as np

    shape = (BATCH, GROUPS, CHANNELS // GROUPS, PIXELS)
    dy = arguments["gradOut"].astype(np.float64).reshape(shape)
    x = arguments["input"].astype(np.float64).reshape(shape)
    mean = arguments["mean"].astype(np.float64)[:, :, None, None]
    rstd = arguments["rstd"].astype(np.float64)[:, :, None, None]
    gamma = arguments["gamma"].astype(np.float64).reshape(1, GROUPS, -1, 1)
    xh = (x - mean) * rstd
    c1 = (gamma * dy).mean(axis=(2, 3), keepdims=True)
    c2 = (gamma * dy * xh).mean(axis=(2, 3), keepdims=True)
    return {
        "gradInput": (rstd * (gamma * dy - c1 - xh * c2)).reshape(BATCH, CHANNELS, PIXELS),
        "gradGammaOut": (dy * xh).sum(axis=(0, 3)).ravel(),
        "gradBetaOut": dy.sum(axis=(0, 3)).ravel(),
    }


def check_numbers(answer: Answer, arguments: dict[str, Any]) -> tuple[Comparison, ...]:
    """The outputs of one chip against the reference."""
    from npusim.reporting.compare import compare

    got = (answer.result.outputs or {}) if answer.result is not None else {}
    return tuple(
        compare(name, got.get(name), want, rtol=RTOL, atol=ATOL)
        for name, want in reference(arguments).items()
    )


def _show(
    answers: Sequence[Answer], comparisons: dict[str, tuple[Comparison, ...]], path: Path
) -> None:
    from npusim.reporting.call import tables

    title = say("{operator} FLOAT N={batch} C={channels} HxW={pixels} group={groups}").format(
        operator=OPERATOR, batch=BATCH, channels=CHANNELS, pixels=PIXELS, groups=GROUPS
    )
    output.emit(
        tables.comparison(title, answers),
        tables.accuracy_table(say("largest error against the closed form in float64"), comparisons),
        say("trace of {traced}: {path}").format(traced=TRACED, path=path),
    )
    output.note(
        say("open the trace with https://ui.perfetto.dev, chrome://tracing or MindStudio Insight")
    )
