"""Blocks computed on several cores of the host give what one core gives, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device
from npusim.ascendc import host_threads as blocks
from npusim.ops.binary_cross_entropy_backward.kernel import BinaryCrossEntropyGrad
from npusim.values.errors import RejectedError
from support.cross_entropy import CROSS_ENTROPY, cross_entropy
from support.group_norm import GROUP_NORM, SIZES, group_norm

if TYPE_CHECKING:
    from npusim.engine.program import Barrier

CHIP = "Ascend910B3"


def use(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Work with so many threads, however small the tensors are."""
    monkeypatch.setattr(blocks, "_WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(blocks, "_MOST_THREADS", threads)
    monkeypatch.setattr(blocks, "cores", lambda: threads)


def outputs(monkeypatch: pytest.MonkeyPatch, threads: int, op: str, arguments: Any) -> Any:
    use(monkeypatch, threads)
    result = Device(CHIP).run(op, **arguments)
    return {name: value.tobytes() for name, value in result.outputs.items()}, result.cycles


CALLS = [
    *(
        (GROUP_NORM, group_norm(*sizes, kind=kind))
        for sizes in SIZES.values()
        for kind in ("float32", "bfloat16")
    ),
    (GROUP_NORM, group_norm(9, 24, 300, 6)),
    (CROSS_ENTROPY, cross_entropy(300, 700)),
    (CROSS_ENTROPY, cross_entropy(3, kind="float16", reduction=1)),
]


@pytest.mark.parametrize(("op", "arguments"), CALLS)
def test_threads_change_nothing(op: str, arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = outputs(monkeypatch, 1, op, arguments)
    for threads in (2, 3, 64):
        assert outputs(monkeypatch, threads, op, arguments) == alone


def test_every_thread_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    shares = blocks.shares

    def watched(*arguments: Any, **options: Any) -> list[list[int]]:
        seen.extend(shares(*arguments, **options))
        return shares(*arguments, **options)

    monkeypatch.setattr(blocks, "shares", watched)
    use(monkeypatch, 3)
    Device(CHIP).run(CROSS_ENTROPY, **cross_entropy(400, 1000))
    assert len(seen) == 3
    assert all(seen)
    together = [block for share in seen for block in share]
    assert together == sorted(set(together))


def test_small_work_and_estimates_stay_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ThreadPoolExecutor", None)  # nobody may ask for it
    Device(CHIP).run(CROSS_ENTROPY, **cross_entropy(30, 40))
    use(monkeypatch, 3)
    Device(CHIP).estimate(CROSS_ENTROPY, **cross_entropy(300, 700))


def test_a_mistake_in_a_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def process(_self: BinaryCrossEntropyGrad, core: Any) -> Iterator[Barrier]:
        if core.get_block_idx() % 2:
            yield core.sync_all()

    monkeypatch.setattr(BinaryCrossEntropyGrad, "process", process)
    use(monkeypatch, 2)
    with pytest.raises(RejectedError, match="end while the others wait in sync_all"):
        Device(CHIP).run(CROSS_ENTROPY, **cross_entropy(300, 700))


def test_overflow_is_silent_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, 2)
    arguments = cross_entropy(300, 700)
    arguments["gradOutput"] = np.full_like(arguments["gradOutput"], 3e38)
    result = Device(CHIP).run(CROSS_ENTROPY, **arguments)
    assert result.outputs is not None
    assert np.isinf(result.outputs["out"]).any()
