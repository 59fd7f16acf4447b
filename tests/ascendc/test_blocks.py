"""Blocks computed on several cores of the host give what one core gives, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.ascendc import Core, GlobalTensor, GmSlice, chains, trace
from npusim.ascendc import host_threads as blocks
from npusim.ascendc.cluster import Progress
from npusim.ascendc.passes import Pass
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.ops.binary_cross_entropy_backward.kernel import BinaryCrossEntropyGrad
from npusim.ops.data_movement.blocked import BlockedCopy
from npusim.runtime.task import run_tasks
from npusim.schedules.elementwise import ElementwiseKernel
from npusim.schedules.rows.kernel import RowKernel
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError, RejectedError
from support.cross_entropy import CROSS_ENTROPY, cross_entropy
from support.group_norm import GROUP_NORM, SIZES, group_norm
from support.kernels import Probe, content, gm, numbers, queues

if TYPE_CHECKING:
    from npusim.engine.program import Barrier

CHIP = "Ascend910B3"


def use(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Work with so many threads, however small the tensors are."""
    monkeypatch.setattr(blocks, "_WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(blocks, "_WORTH_SPREADING", 1)
    monkeypatch.setattr(chains, "_WORTHWHILE", 1 if threads > 1 else 1 << 17)
    monkeypatch.setattr(blocks, "_MOST_THREADS", threads)
    monkeypatch.setattr(blocks, "cores", lambda: threads)


def outputs(monkeypatch: pytest.MonkeyPatch, threads: int, op: str, arguments: Any) -> Any:
    use(monkeypatch, threads)
    result = Device(CHIP).run(op, **arguments)
    return {name: value.tobytes() for name, value in result.outputs.items()}, result.cycles


_NUMBERS = np.linspace(-3, 3, 700 * 900, dtype=np.float32).reshape(70, 10, 900)

CALLS = [
    *(
        (GROUP_NORM, group_norm(*sizes, kind=kind))
        for sizes in SIZES.values()
        for kind in ("float32", "bfloat16")
    ),
    (GROUP_NORM, group_norm(9, 24, 300, 6)),
    (CROSS_ENTROPY, cross_entropy(300, 700)),
    (CROSS_ENTROPY, cross_entropy(3, kind="float16", reduction=1)),
    ("aclnnMul", {"self": _NUMBERS, "other": np.array([1.5], np.float32)}),  # a single number
    ("aclnnAddcmul", {"self": _NUMBERS, "tensor1": _NUMBERS, "tensor2": _NUMBERS[:1], "value": 3}),
    ("aclnnGtTensor", {"self": _NUMBERS, "other": _NUMBERS[::-1].copy()}),
    ("aclnnMul", {"self": _NUMBERS[0, 0].copy(), "other": _NUMBERS[:, :1].copy()}),
]


@pytest.mark.parametrize(("op", "arguments"), CALLS)
def test_threads_change_nothing(op: str, arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = outputs(monkeypatch, 1, op, arguments)
    for threads in (2, 3, 64):
        assert outputs(monkeypatch, threads, op, arguments) == alone


def rows(kind: str, *shape: int) -> Any:
    random = np.random.default_rng(7)
    return (random.standard_normal(shape, np.float32) * 3).astype(kind)


RAGGED = [(2, 1), (41, 37), (83, 100), (127, 1001), (40, 8192), (81, 20_000), (3, 41, 130)]
OVER_ROWS: list[tuple[str, Any]] = [
    ("aclnnSoftmax", lambda x: {"self": x, "dim": -1}),
    (
        "aclnnLayerNorm",
        lambda x: {
            "input": x,
            "normalizedShape": [x.shape[-1]],
            "weightOptional": x[..., 0, :],
            "biasOptional": x[..., -1, :],
            "eps": 1e-5,
        },
    ),
    ("aclnnGelu", lambda x: {"self": x}),
    (
        "aclnnReduceSum",
        lambda x: {"self": x, "dims": [0], "keepDims": False, "dtype": str(x.dtype)},
    ),
]


def assert_blocks_alone_give_the_same(op: str, arguments: Any, patch: pytest.MonkeyPatch) -> None:
    together = outputs(patch, 1, op, arguments)
    for threads in (3, 64):
        assert outputs(patch, threads, op, arguments) == together
    with patch.context() as alone:
        for kernel in (ElementwiseKernel, RowKernel, BlockedCopy):
            alone.setattr(kernel, "shares_all", False)
        assert outputs(alone, 1, op, arguments) == together
        alone.setattr(Core, "computes_together", property(lambda _: False))
        alone.setattr(GmSlice, "_even", lambda *_, **__: None)
        assert outputs(alone, 1, op, arguments) == together


@pytest.mark.parametrize("kind", ["float32", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", OVER_ROWS, ids=lambda op: op[0])
@pytest.mark.parametrize("shape", RAGGED)
def test_blocks_together_and_each_by_itself_give_the_same_bits(
    op: tuple[str, Any], shape: tuple[int, ...], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rows(kind, *shape)
    x = x.reshape(-1, shape[-1]) if op[0] == "aclnnLayerNorm" else x
    assert_blocks_alone_give_the_same(op[0], op[1](x), monkeypatch)


@pytest.mark.parametrize("kind", ["float32", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "shape", [(1, 3, 17, 20), (2, 40, 20, 23), (3, 100, 57, 56), (5, 16, 1, 9)]
)
def test_layouts_turned_together_give_the_same_bits(
    shape: tuple[int, ...], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = rows(kind, *shape), rows(kind, 19, shape[1], 3, 3)
    whole = {name: [1, 1] for name in ("stride", "padding", "dilation")}
    rest = {"transposed": False, "outputPadding": [0, 0], "groups": 1, "cubeMathType": 0}
    arguments = {"input": x, "weight": weight, **whole, **rest}
    assert_blocks_alone_give_the_same("aclnnConvolution", arguments, monkeypatch)


def test_blocks_whose_tasks_are_computed_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    had: list[bool] = []
    asked = Progress.has_had

    def watched(self: Progress, block: int) -> bool:
        had.append(asked(self, block))
        return had[-1]

    monkeypatch.setattr(Progress, "has_had", watched)
    use(monkeypatch, 1)
    result = Device(CHIP).run("aclnnSoftmax", self=rows("float32", 83, 100), dim=1)
    assert len(had) == result.tasks[0].block_dim == 28  # of three rows, and the last one of two
    assert had == [False, *[True] * 26, False]

    had.clear()  # cores get whole tiles and ragged ones: few have some of all kinds
    x, weight = rows("float32", 3, 40, 50, 50), rows("float32", 19, 40, 3, 3)
    given = {name: [1, 1] for name in ("stride", "padding", "dilation")}
    given |= {"transposed": False, "outputPadding": [0, 0], "groups": 1, "cubeMathType": 0}
    Device(CHIP).run("aclnnConvolution", input=x, weight=weight, **given)
    assert sum(had) > 0.7 * len(had)


def test_every_thread_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    shares = blocks.shares

    def watched(*arguments: Any, **options: Any) -> list[list[int]]:
        found = shares(*arguments, **options)
        seen.extend(found if options["numerics"] else ())  # what is done is found by one of them
        return found

    monkeypatch.setattr(blocks, "shares", watched)
    use(monkeypatch, 3)
    Device(CHIP).run(GROUP_NORM, **group_norm(9, 24, 300, 6))
    assert len(seen) == 3
    assert all(seen)
    together = [block for share in seen for block in share]
    assert together == sorted(set(together))


def test_every_thread_has_a_part_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []
    cut = Pass.parts

    def watched(self: Pass, count: int) -> list[Pass]:
        found = cut(self, count)
        parts.append(len(found))
        assert sum(prod(each.space) for each in found) == prod(self.space)
        return found

    monkeypatch.setattr(Pass, "parts", watched)
    use(monkeypatch, 3)
    Device(CHIP).run("aclnnSoftmax", self=rows("float32", 83, 100), dim=1)
    assert parts
    assert 3 in parts


def test_small_work_and_estimates_stay_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", None)  # nobody may ask for it
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


TASKS, WIDTH = 23, 64
FIRST = (0, 4, 8, 8, 12, 16, TASKS)  # task of each of six blocks, one of which has none


class Shared(Probe):
    """Blocks that have nothing in common; those with equally many tasks are alike."""

    independent = True

    def block_kind(self, block_idx: int) -> int:
        return FIRST[block_idx + 1] - FIRST[block_idx]


def shared(reference: bool) -> tuple[bytes, bytes, list[int], list[int]]:
    """Twice the numbers of all tasks, their sums in threes; whose body ran; its loops."""
    x, y = gm(numbers(TASKS * WIDTH)), gm(np.zeros(TASKS * WIDTH, np.float32), "y")
    z, turns = gm(np.zeros(3 * WIDTH, np.float32), "z"), []

    def body(core: Core) -> None:
        into, out = queues(core, WIDTH)
        for task in core.share(FIRST.__getitem__):
            turns.append(core.get_block_idx())
            tile, doubled = (
                into.copy_in(x.span(task * WIDTH, WIDTH)),
                out.alloc_tensor(FLOAT, WIDTH),
            )
            core.add(doubled, tile, tile)
            into.free_tensor(tile)
            out.enque(doubled)
            out.deque(doubled)
            core.copy_runs(y.span(task * WIDTH, WIDTH), doubled)
            core.set_atomic_add()
            core.copy_runs(z.window(((task % 3, WIDTH),), (WIDTH,), (1,)), doubled)
            core.set_atomic_none()
            out.free_tensor(doubled)

    kernel = Shared(body, x, y, z, blocks=len(FIRST) - 1)
    groups = trace(kernel, load_profile(CHIP), numerics=True, reference=reference)
    counts = [times for group in groups for _, times in group.program.instructions()]
    return content(y).tobytes(), content(z).tobytes(), turns, counts


def test_tasks_of_some_blocks_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    *wanted, ran, _ = shared(reference=True)
    assert len(ran) == TASKS
    known = None
    for threads in (1, 2, 4):
        use(monkeypatch, threads)
        *bits, ran, counts = shared(reference=False)
        assert bits == wanted
        known = known or counts
        assert counts == known
        if threads == 1:  # the first one computes, others are only written down
            assert ran == [0, 4, 5]


@pytest.mark.parametrize("numerics", [False, True])
def test_a_share_adds_to_places_of_its_tasks(numerics: bool) -> None:
    x, y = gm(numbers(8 * TASKS)), gm(np.zeros(8, np.float32), "y")

    def body(core: Core) -> None:
        into, _ = queues(core, 8)
        for task in core.share(FIRST.__getitem__):
            tile = into.copy_in(x.span(task * 8, 8))
            core.set_atomic_add()
            core.copy_runs(y.span(0, 8), tile)

    with pytest.raises(KernelError, match="all tasks of a share add to one place of y"):
        trace(Shared(body, x, y, blocks=6), load_profile(CHIP), numerics=numerics)


def test_tasks_of_a_share_add_to_one_place_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found, added = [], rows("float32", TASKS * 8)
    for threads, reference in ((1, True), (1, False), (3, False)):
        use(monkeypatch, threads)
        x, y = gm(added.copy()), gm(np.ones(8, np.float32), "y")

        def body(core: Core, x: GlobalTensor = x, y: GlobalTensor = y) -> None:
            into, _ = queues(core, 8)
            for task in core.share(FIRST.__getitem__, adds_in_turn=True):
                tile = into.copy_in(x.span(task * 8, 8))
                core.set_atomic_add()
                core.copy_runs(y.span(0, 8), tile)
                core.set_atomic_none()
                into.free_tensor(tile)

        kernel = Shared(body, x, y, blocks=6)
        trace(kernel, load_profile(CHIP), numerics=True, reference=reference)
        found.append(content(y).tolist())
    wanted = np.ones(8, np.float32)
    for each in added.reshape(TASKS, 8):
        wanted += each
    assert found == [wanted.tolist()] * 3


def test_a_share_is_an_outermost_loop() -> None:
    x = gm(numbers(8))

    def body(core: Core) -> None:
        for _ in core.loop(2):
            list(core.share(FIRST.__getitem__))

    with pytest.raises(KernelError, match="outermost loop"):
        trace(Shared(body, x, blocks=6), load_profile(CHIP), numerics=True)


def test_turns_of_a_share_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    x, turns = gm(numbers(TASKS)), []
    monkeypatch.setattr(Core, "_batch", lambda *_: 10)

    def body(core: Core) -> None:
        turns.extend(task.last - task.first for task in core.share(FIRST.__getitem__))

    use(monkeypatch, 1)
    trace(Shared(body, x, blocks=6), load_profile(CHIP), numerics=True)
    assert [turn for turn in turns if turn > 1] == [8, 8, 7]


@pytest.mark.parametrize("count", [5, 70_001, 3_000_001])
def test_blocks_with_as_much_of_every_tensor_are_traced_once(count: int) -> None:
    device = Device("Ascend910B3")
    x, mask = TensorSpec((count,), "float32"), TensorSpec((count,), "bool")
    (kernel,) = kernels_of(device.profile, TaskSpec("MaskedScatter", (x, mask, x), (x,)))
    (run,) = run_tasks([kernel], device.profile, exact=True).runs
    assert len(run.records) <= 4
    kernel.block_kind = lambda block: block  # type: ignore[method-assign]
    (alone,) = run_tasks([kernel], device.profile, exact=True).runs
    assert len(alone.records) == kernel.block_dim
    assert run.cycles == pytest.approx(alone.cycles, rel=1e-6)
