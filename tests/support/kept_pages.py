"""Pages of sweeps, validations, language models, comparisons and the catalogue, in no time."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from npusim.catalogue.queries import matrix
from npusim.llm.memory import LlmMemory
from npusim.reporting.llm_pages import served_page, steps_page
from npusim.reporting.matrix import matrix_page
from npusim.reporting.side_by_side import compared, compared_page, read_result
from npusim.reporting.sweep import sweep_page
from npusim.reporting.validation import validation_page
from npusim.serving.results import Quantiles, Served
from npusim.validation.asking import Validation

if TYPE_CHECKING:
    from npusim.catalogue.queries import MatrixRow
    from npusim.llm import LlmStep
    from npusim.reporting.document import Page
    from npusim.reporting.llm_pages import Answered
    from npusim.validation.replay import Prediction

CHIPS = ("Ascend910B3", "Ascend910A")
ROWS: list[dict[str, Any]] = [
    {
        "key": f"{chip}{batch}", "index": 0, "op": "aclnnMatmul", "soc": chip,
        "axes": {"batch": batch}, "arguments": {}, "status": "ok", "code": 0,
        "duration_us": slow * (30 + batch), "band_us": [slow * (20 + batch), slow * (60 + batch)],
        "bound": "memory bound",
    }
    for slow, chip in enumerate(CHIPS, 1)
    for batch in (1, 16, 256)
]  # fmt: skip
ROWS[-1] |= {"status": "rejected", "code": 161002}
_MEMORY = LlmMemory(2**31, 2**28, 2**29, 2**30, 64 * 2**30, 58 * 2**30, 114688.0, 500_000)


def of_sweep() -> Page:
    """Six points, one of which is refused."""
    return sweep_page(ROWS, ("batch",), ("", ""), "sweep.yaml", "npusim sweep sweep.yaml")


def of_validation() -> Page:
    """Rows of two chips, one of them not modelled."""
    rows = [
        SimpleNamespace(
            row=SimpleNamespace(
                line=line, chip=CHIPS[line % 2], op="Relu", family="Activation", later=False,
                workload="a step", duration_us=4.0 * line,
            ),
            simulated_us=None if line == 5 else 4.4 * line, band_us=(4.0 * line, 5.0 * line),
            roofline_us=3.0 * line, bound="memory bound", reason="" if line != 5 else "no kernel",
            pipes={}, error=None if line == 5 else 0.1,
        )
        for line in range(1, 9)
    ]  # fmt: skip
    found = Validation(cast("tuple[Prediction, ...]", tuple(rows)))
    return validation_page(found, 3, "rows.csv", "npusim validate rows.csv")


def of_steps() -> Page:
    """A step on two chips."""
    found = [_step(chip, slow) for slow, chip in enumerate(CHIPS, 1)]
    return steps_page(cast("list[LlmStep]", found), 5, "npusim llm step config.json")


def _step(chip: str, slow: int) -> SimpleNamespace:
    timing = SimpleNamespace(how=SimpleNamespace(value="simulated"))
    operators = [
        SimpleNamespace(op=op, tensors="float16[8,8]", count=2, total_us=us * slow, timing=timing)
        for op, us in (("MatMulV2", 9e3), ("RmsNorm", 1e3))
    ]
    sizes = SimpleNamespace(parameters=6e8, drafts=(), draft_weights=0)
    batch = SimpleNamespace(phase="decode", sequences=8, context=64, prompts=0)
    return SimpleNamespace(
        soc=chip, step_ms=12.0 * slow, band_ms=(10.0 * slow, 15.0 * slow), compute_ms=10.0 * slow,
        communication_ms=1.5 * slow, host_ms=0.5 * slow, beside_ms=0.0, tok_s=660 / slow, runs=True,
        memory=_MEMORY, device=SimpleNamespace(operators=operators, refused=()), exchanges=(),
        model=SimpleNamespace(name="Qwen3-0.6B", architecture=sizes), batch=batch, graph="decode",
        layout=SimpleNamespace(cards=2), precision=SimpleNamespace(name="bfloat16"), notes=(),
        simulated_share=1.0, guesses=(), replaced=(),
    )  # fmt: skip


def of_served() -> Page:
    """Requests served by two chips."""
    found = [(_deployment(chip), _served(float(slow))) for slow, chip in enumerate(CHIPS, 1)]
    return served_page(cast("list[Answered]", found), "npusim llm serve config.json")


def _deployment(chip: str) -> SimpleNamespace:
    return SimpleNamespace(
        model=SimpleNamespace(name="Qwen3-0.6B"), chip=SimpleNamespace(name=chip),
        layout=SimpleNamespace(cards=2), costs=SimpleNamespace(band=(0.9, 1.3)), memory=_MEMORY,
        policy=SimpleNamespace(max_sequences=64, max_tokens=8192, schedule="chunked"),
    )  # fmt: skip


def _served(slow: float) -> Served:
    ttft, tpot = (Quantiles(*[slow * each] * 4) for each in (30.0, 9.0))
    return Served(
        300, 30.0, 1000 / slow, 10 / slow, ttft, tpot, ttft, 9 / slow, 9.0, 0, 99, 0.9, 500_000, 9
    )


def of_comparison() -> Page:
    """The sweep against one that is faster on one chip."""
    faster = json.loads(json.dumps(ROWS))
    for row in faster[:3]:
        row |= {"duration_us": row["duration_us"] / 3, "band_us": [5.0, 10.0]}
    before, now = (read_result(rows, Path(f"{name}.jsonl")) for name, rows in
                   (("old", ROWS), ("new", faster)))  # fmt: skip
    return compared_page(compared(before, now), "npusim compare old.jsonl new.jsonl")


def of_catalogue() -> Page:
    """A part of the matrix of interfaces and products."""
    return matrix_page(_rows())


@cache
def _rows() -> list[MatrixRow]:
    return list(matrix()[:40])
