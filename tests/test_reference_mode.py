"""A reference run: no shortcut, every instruction computes and is written down."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from npusim.ascendc import Core, trace
from npusim.hardware import load_profile
from npusim.values.dtypes import FLOAT
from support.kernels import Probe, content, doubling, gm, numbers, queues

if TYPE_CHECKING:
    from npusim.engine import CoreGroup


def _executed(groups: tuple[CoreGroup, ...]) -> Counter[str]:
    found: Counter[str] = Counter()
    for group in groups:
        for instruction, times in group.program.instructions():
            found[instruction.name] += times * group.size
    return found


def test_a_reference_run_writes_every_iteration_down_by_itself() -> None:
    x, y = gm(numbers(100)), gm(np.zeros(100, np.float32), "y")
    kernel = Probe(doubling(x, y, 8), x, y, blocks=3, alike=True)
    profile = load_profile("Ascend910B3")
    fast = trace(kernel, profile, numerics=True)
    literal = trace(kernel, profile, numerics=True, reference=True)
    assert [group.size for group in fast] == [3]
    assert [group.size for group in literal] == [1, 1, 1]
    assert _executed(literal) == _executed(fast)
    assert all(times == 1 for _, times in literal[0].program.instructions())
    np.testing.assert_array_equal(content(y), 2 * numbers(100))


@pytest.mark.parametrize("reference", [False, True])
def test_a_separate_schedule_computes_by_itself_in_a_reference_run(reference: bool) -> None:
    """``separately`` writes one body down and computes the other; a reference run does both."""
    x, y = gm(numbers(32)), gm(np.zeros(32, np.float32), "y")
    ran = []

    def body(core: Core) -> None:
        into, out = queues(core, 32)

        def work(factor: float, length: int) -> None:
            ran.append((factor, core.numerics, core.recording))
            for first, count in core.tiles(0, 32, length):
                loaded = into.copy_in(x.span(first, count))
                result = core.muls(out.alloc_tensor(FLOAT, count), loaded, factor)
                into.free_tensor(loaded)
                out.copy_out(y.span(first, count), result)

        core.separately(lambda: work(3.0, 8), lambda: work(2.0, 32))

    groups = trace(Probe(body, x, y), load_profile("910B3"), numerics=True, reference=reference)
    assert _executed(groups)["vmuls"] == 4
    assert ran == ([(3.0, True, True)] if reference else [(3.0, False, True), (2.0, True, False)])
    np.testing.assert_array_equal(content(y), (3 if reference else 2) * numbers(32))
