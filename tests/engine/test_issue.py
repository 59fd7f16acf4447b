"""Instructions that wait inside their pipe: busy from their issue on, which queues hold up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npusim.engine import Instruction, KernelRun, Loop, Pipe, Program
from support.programs import machine, play, transfer

LOADED, FREE, SUMMED, EMPTY = range(4)
LOAD, PRODUCT, LEAVE = 10.0, 30.0, 20.0


def block(products: int, *, unit_flag: bool) -> list[Instruction | Loop]:
    """Sums of products, and their way out of L0C: two operands in L0, one block in L0C."""
    load = Instruction(Pipe.MTE1, "load", LOAD, waits=(FREE,), sets=(LOADED,))
    product = Instruction(Pipe.CUBE, "mad", PRODUCT, waits=(LOADED,), sets=(FREE,))
    leave = Instruction(
        Pipe.FIXP,
        "fixpipe",
        0.0,
        transfer(LEAVE, 1.0, write=True),
        waits=(SUMMED,),
        sets=(EMPTY,),
        unit_flag=unit_flag,
    )
    return [
        Instruction(Pipe.CUBE, "", 0.0, waits=(EMPTY,)),
        Loop(products, [load, product]),
        Instruction(Pipe.CUBE, "", 0.0, sets=(SUMMED,)),
        leave,
    ]


def played(
    products: int, blocks: int, entries: int, *, unit_flag: bool = True, exact: bool = False
) -> KernelRun:
    body = block(products, unit_flag=unit_flag)
    program = Program([Loop(blocks, body)] if blocks > 1 else list(body), [0, 2, 0, 1])
    return play((1, program), on=replace(machine(), issue_queue=entries), exact=exact)


def fixpipe(run: KernelRun) -> float:
    return run.records[0].busy[Pipe.FIXP]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("loads", "products"), [(2, 10), (4, 10), (9, 10), (4, 60)])
def test_a_fixpipe_with_a_unit_flag_is_busy_from_its_issue_on(
    loads: int, products: int, *, exact: bool
) -> None:
    """A load and its flag are two entries; a load begins as the product before the last ends."""
    run = played(products, 1, 2 * loads, exact=exact)
    summed = LOAD + products * PRODUCT
    begun = LOAD + max(0, products - loads - 2) * PRODUCT
    assert run.core_cycles == pytest.approx(summed + LEAVE)
    assert fixpipe(run) == pytest.approx(summed + LEAVE - begun, abs=PRODUCT)


def test_without_it_a_fixpipe_waits_in_front_of_its_pipe() -> None:
    flagged, other = (played(40, 6, 16, unit_flag=each) for each in (True, False))
    assert fixpipe(other) == pytest.approx(6 * LEAVE)
    assert fixpipe(flagged) > 6 * (LEAVE + 4 * PRODUCT)
    assert flagged.core_cycles == other.core_cycles


def test_a_longer_queue_issues_it_sooner() -> None:
    times = [fixpipe(played(40, 3, entries)) for entries in (2, 8, 16, 32)]
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]


@pytest.mark.parametrize(("products", "blocks"), [(12, 200), (200, 6), (100, 100)])
def test_what_is_jumped_over_counts_as_much(products: int, blocks: int) -> None:
    jumped, all_of_it = (played(products, blocks, 32, exact=each) for each in (False, True))
    assert fixpipe(jumped) == pytest.approx(fixpipe(all_of_it), rel=0.05)
