"""Why is it slow: times by pipe and line, the critical path, and suggestions that were played."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from npusim import Device, TensorSpec
from npusim.engine.verdict import RULE
from npusim.pyasc import session
from npusim.pyasc.modules import provided
from npusim.reporting.explain import explained
from npusim.runtime.explain import explain
from npusim.runtime.what_if import suggestions
from support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.runtime.results import Result

HEAD = """
import asc
import numpy as np

@asc.jit
def kernel(x: asc.GlobalAddress, z: asc.GlobalAddress):
    f32, V, E = asc.float32, asc.TPosition.VECCALC, asc.HardEvent
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    block, blocks = asc.get_block_idx(), asc.get_block_num()
    share = x_gm.get_size() // blocks
    pipe = asc.TPipe()
    q, o = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)
{body}

kernel[{blocks}](np.ones({size}, np.float32), np.zeros({size}, np.float32))
"""

LOOP = """
tile, depth = {tile}, {depth}
pipe.init_buffer(q, depth, tile * 4)
pipe.init_buffer(o, depth, tile * 4)
for i in range({turns}):
    first = block * share + i * tile
    t = q.alloc_tensor(f32)
    {load}
    q.enque(t)
    t = q.deque(f32)
    r = o.alloc_tensor(f32)
    {work}
    q.free_tensor(t)
    o.enque(r)
    r = o.deque(f32)
    asc.data_copy(z_gm[first:], r, tile)
    o.free_tensor(r)
    {end}
"""
GOOD = {
    "tile": "8192",
    "depth": "2",
    "turns": "share // tile",
    "load": "asc.data_copy(t, x_gm[first:], tile)",
    "work": "asc.adds(r, t, 1.0, tile)",
    "end": "pass",
}
SIZE = 40 * 8 * 8192

# What is planted, how many blocks, and what the first suggestion says.
FAULTS: dict[str, tuple[dict[str, str], int, str]] = {
    "single buffer": ({"depth": "1"}, 40, "double buffering|another slot"),
    "short bursts": (
        {"load": "asc.data_copy(t, x_gm[first:], asc.DataCopyParams(512, 2, 2, 0))",
         "turns": "share // tile - 1"}, 40, "bursts of 512 B"),
    "too few blocks": ({}, 4, "40 blocks instead of 4"),
    "scalar loop": (
        {"work": "asc.adds(r, t, 1.0, tile)\n    for j in range(64): r.set_value(j, 2.0)",
         "turns": "2"}, 40, "scalar"),
    "needless barrier": ({"end": "asc.pipe_barrier(asc.PipeID.PIPE_ALL)"}, 40, "barrier"),
    "bank conflict": (
        {"work": "asc.duplicate(r, 0.0, tile)\n    for j in range(24):\n"
                 "        asc.adds(r, t, 1.0, 64, 8, asc.UnaryRepeatParams(16, 1, 1, 8))"},
        40, "bank conflicts"),
    "tiny tiles": ({"tile": "128", "turns": "64"}, 40, "tiles of 4 times"),
    "uneven split": (
        {"turns": "share // tile * (2 if block < 4 else 1) // 2"}, 40, "same work"),
    "cold reread": (
        {"load": "asc.data_copy(t, x_gm[block * share:], tile)"}, 40, "read again"),
    "needless wait for all cores": ({"end": "asc.sync_all()"}, 40, "waiting for all cores"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _chip() -> Iterator[None]:
    with session.held(Device("Ascend910B3")), provided():
        yield


def _launched(tmp_path: Path, given: dict[str, str], blocks: int) -> Result:
    body = LOOP.format(**GOOD | given)
    text = "\n".join(f"    {line}" for line in body.strip().splitlines())
    path = tmp_path / "kernel.py"
    path.write_text(HEAD.format(body=text, blocks=blocks, size=SIZE))
    runpy.run_path(str(path))
    return session.session().launched[-1].result


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_suggestion_names_the_planted_fault(name: str, tmp_path: Path) -> None:
    given, blocks, expected = FAULTS[name]
    result = _launched(tmp_path, given, blocks)
    (run,) = result.timeline.runs
    found = suggestions(run, result.timeline.profile)
    assert found, "nothing is suggested"
    assert re.search(expected, str(found[0])), [str(each) for each in found]
    assert found[0].after_us < found[0].before_us == pytest.approx(result.duration_us, rel=0.05)


def test_pipes_and_path_add_up(tmp_path: Path) -> None:
    result = _launched(tmp_path, {}, 40)
    (run,) = result.timeline.runs
    told = explain(run, result.timeline.profile)
    assert {pipe.pipe for pipe in told.pipes} >= {"MTE2", "VECTOR", "MTE3"}
    for pipe in told.pipes:
        assert pipe.busy_us + pipe.idle_us == pytest.approx(told.core_us, rel=1e-6)
        # One number for one thing: blocks are alike, so the slowest is as busy as they all are.
        share = pipe.busy_us / told.core_us
        assert share == pytest.approx(result.tasks[0].pipes[pipe.pipe], rel=0.01)
    assert sum(each.us for each in told.path) == pytest.approx(told.core_us, rel=1e-6)
    assert all(each.site.endswith(tuple("0123456789")) for each in told.path if each.site)
    page: Any = explained(result)
    assert "critical path" in page.sections[0].blocks[1].columns


def test_the_docs_tell_the_rule_of_what_limits() -> None:
    """Reports, tables and traces have the engine's word for it; its rule stands in one place."""
    page = ROOT / "docs" / "explanation" / "time.md"
    assert RULE in " ".join(page.read_text().split())


@pytest.mark.parametrize(
    ("op", "given", "files"),
    [
        ("aclnnGelu", {}, {"activation/forward.py"}),
        ("aclnnErf", {}, {"schedules/functions.py"}),
        ("aclnnSin", {}, {"elementwise/arithmetic.py"}),
        ("aclnnSoftmax", {"dim": -1}, {"softmax/kernel.py"}),
    ],
)
def test_lines_of_formulas_are_the_operators(op: str, given: Any, files: set[str]) -> None:
    """What the schedules derive stands for the formula, not for the room that derives it."""
    spec = TensorSpec((512, 4096), "float16")
    timeline = Device("Ascend910B3").estimate(op, self=spec, **given).timeline
    told = explain(timeline.runs[0], timeline.profile)
    shares = [*told.path, *(each for pipe in told.pipes for each in pipe.worked)]
    assert {each.site.rpartition(":")[0] for each in shares if each.site} == files
