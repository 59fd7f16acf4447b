"""MoeGatingTopK and MoeGatingTopKHash: experts of tokens, of the best groups of experts.

Token by token: shares by a sigmoid or a softmax, a bias that only decides, groups of experts sorted
each, the best groups by their largest share or the sum of two, their lists merged; the shares of
those that are chosen add up to one after a sigmoid, and are scaled. Where no group is left out, all
experts are sorted together; or a table tells by a token's number which experts are its, and only
what they count for is by shares. Source: ops-transformer moe/moe_gating_top_k, host tiling and
device schedules (e_k_fullload, without_group, generalized); vllm-ascend
csrc/moe/moe_gating_top_k_hash, the same with tables and another curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.task import Task, made
from npusim.library.sorted_pairs import GROUP, LISTS, PAIR_BYTES, record_sort
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

MOST_EXPERTS = 2048  # in groups that are filled up to 32
_COUNTED = 8  # places that the scalar unit writes, from which the vector unit counts on
_SOFTMAX, _SIGMOID, _ROOT_OF_SOFTPLUS = range(3)
_TOP_TWO = 1
_SCRATCH = 4  # buffers of a row in float32 beside pairs


@dataclass(frozen=True, slots=True)
class Choice:
    """How experts are chosen: ``kept`` of ``groups`` groups, then ``count`` experts of these."""

    experts: int
    count: int
    groups: int
    kept: int
    by_two: bool
    curve: int
    factor: float
    epsilon: float

    @property
    def grouped(self) -> bool:
        """Whether some groups are left out."""
        return self.groups not in (1, self.experts) and self.kept < self.groups

    @property
    def each(self) -> int:
        """Experts of a group."""
        return self.experts // self.groups

    @property
    def padded(self) -> int:
        """Numbers that are sorted: groups are filled up."""
        if self.grouped:
            return self.groups * round_up(self.each, GROUP)
        return round_up(self.experts, GROUP)

    def refused(self) -> str:
        """What is wrong with it, nothing if it can be done."""
        if self.groups < 1 or self.experts % self.groups or not 0 < self.kept <= self.groups:
            return f"{self.kept} of {self.groups} groups of {self.experts} experts"
        if self.by_two and self.each < 2:
            return "groups of one expert have no two largest"
        if self.padded > MOST_EXPERTS:
            return f"{self.padded} experts, where groups are filled up, and {MOST_EXPERTS} at most"
        if not 0 < self.count <= self.kept * self.each:
            return f"{self.count} experts of {self.kept} groups of {self.each}"
        if self.curve == _ROOT_OF_SOFTPLUS and self.groups != 1:
            return f"{self.groups} groups where shares are roots of softplus"
        return ""

    def chosen(self, values: NDArray[np.float32]) -> NDArray[np.int64]:
        """The places of a row's chosen experts, largest first."""
        left = values.astype(np.float64)
        if self.grouped:
            apart = left.reshape(*left.shape[:-1], self.groups, self.each)
            ordered = -np.sort(-apart, axis=-1)
            score = ordered[..., :2].sum(-1) if self.by_two else ordered[..., 0]
            best = np.argsort(-score, axis=-1, kind="stable")[..., : self.kept]
            kept = np.zeros(score.shape, bool)
            np.put_along_axis(kept, best, values=True, axis=-1)
            left = np.where(kept[..., None], apart, -np.inf).reshape(left.shape)
        return np.argsort(-left, axis=-1, kind="stable")[..., : self.count]


class MoeGatingTopK(Kernel):
    """y, experts [tokens, k], and all shares where ``out`` is wanted.

    ``told`` are numbers of tokens and the experts of every number, unless shares choose.
    """

    op_type = "MoeGatingTopK"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        bias: GlobalTensor | None,
        results: tuple[GlobalTensor, GlobalTensor],
        out: GlobalTensor | None,
        choice: Choice,
        told: tuple[GlobalTensor, GlobalTensor] | None = None,
    ) -> None:
        self.x, self.bias, self.out, self.choice = x, bias, out, choice
        self.y, self.experts = results
        self.told = None if choice.grouped else told  # kernels for groups don't look at them
        self.reads = (x,) if bias is None else (x, bias)
        self.reads += self.told or ()
        self.writes = results if out is None else (*results, out)
        self.division = self.share = RowShare.of(x.shape[0], profile.cores.vector_cores, 1)
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        """The bias once, then row after row."""
        self._init(core)
        line = None if self.bias is None else self._widened(core, self.bias.span(0, self.width))
        first = core.get_block_idx() * self.share.per_core
        for row, _ in core.tiles(first, self.share.length(core.get_block_idx()), 1):
            self._row(core, row, line)

    def _init(self, core: Core) -> None:
        choice, size = self.choice, self.x.dtype.itemsize
        self.width = choice.experts
        wide, chosen = choice.padded * FLOAT.itemsize, round_up(choice.count, 8) * FLOAT.itemsize
        self.ins, self.outs = TQue(TPosition.VECIN, 2, "x"), TQue(TPosition.VECOUT, 1, "shares")
        self.y_que, self.id_que = (TQue(TPosition.VECOUT, 1, name) for name in ("y", "experts"))
        names = ("bias", "wide", "shares", "biased", "pairs", "small", "found")
        self.bufs = {name: TBuf(name) for name in names}
        core.pipe.init_buffer(self.ins, 2, round_up(self.width * size, core.block_bytes))
        core.pipe.init_buffer(self.outs, 1, wide)
        core.pipe.init_buffer(self.y_que, 1, chosen)
        core.pipe.init_buffer(self.id_que, 1, chosen)
        for name in names[:_SCRATCH]:
            core.pipe.init_buffer(self.bufs[name], 1, wide)
        core.pipe.init_buffer(self.bufs["pairs"], 1, choice.padded * PAIR_BYTES)
        core.pipe.init_buffer(self.bufs["small"], 1, core.block_bytes)
        core.pipe.init_buffer(self.bufs["found"], 1, chosen)
        if self.told is not None:
            self.lists = TQue(TPosition.VECIN, 1, "listed")
            nbytes = choice.count * self.told[1].dtype.itemsize
            core.pipe.init_buffer(self.lists, 1, round_up(nbytes, core.block_bytes))

    def _widened(self, core: Core, source: object, name: str = "bias") -> LocalTensor:
        """A row in float32."""
        tile = self.ins.copy_in(source)  # type: ignore[arg-type]
        wide = self.bufs[name].get(FLOAT, tile.numel)
        _converted(core, wide, tile)
        self.ins.free_tensor(tile)
        return wide

    def _row(self, core: Core, row: Index, line: LocalTensor | None) -> None:
        """One token."""
        choice, width = self.choice, self.width
        x = self._widened(core, self.x.window(((row, width),), (width,), (1,)), "wide")
        shares = self._shares(core, x)
        biased = self.bufs["biased"].get(FLOAT, width)
        if line is None:
            core.adds(biased, shares, 0.0)
        else:
            core.add(biased, shares, line)
        if self.out is not None:
            copy = core.move(self.outs.alloc_tensor(FLOAT, width), shares)
            self.outs.copy_out(self.out.window(((row, width),), (width,), (1,)), copy)
        experts = self._best(core, biased) if self.told is None else self._listed(core, row)
        found = self.bufs["found"].get(FLOAT, choice.count)
        core.record_vector("vmuls", found, choice.count)
        core.record_vector("vgather", found, choice.count)
        if core.numerics:
            order = experts.values(core.depth).astype(np.int64)
            values = np.take_along_axis(shares.values(core.depth), order, -1)
            found.target(core.depth)[...] = values
        core.wrote(found)
        y = self._scaled(core, found)
        self.y_que.copy_out(self.y.window(((row, choice.count),), (choice.count,), (1,)), y)
        target = self.experts.window(((row, choice.count),), (choice.count,), (1,))
        self.id_que.copy_out(target, experts)

    def _best(self, core: Core, biased: LocalTensor) -> LocalTensor:
        """Those of the largest shares."""
        count = self.choice.count
        self._sort(core)
        experts = self.id_que.alloc_tensor(INT32, count)
        core.record_vector("vreducev2", experts, 2 * count)
        if core.numerics:
            experts.target(core.depth)[...] = self.choice.chosen(biased.values(core.depth))
        core.wrote(experts)
        return experts

    def _listed(self, core: Core, row: Index) -> LocalTensor:
        """Those of the table's row for the token."""
        assert self.told is not None
        (ids, table), count = self.told, self.choice.count
        token = core.load_scalar(ids.window(((row, 1),), (), ()))
        listed = self.lists.copy_in(table.window(((token, count),), (count,), (1,)))
        experts = _converted(core, self.id_que.alloc_tensor(INT32, count), listed)
        self.lists.free_tensor(listed)
        return experts

    def _shares(self, core: Core, x: LocalTensor) -> LocalTensor:
        shares, ones = self.bufs["shares"].get(FLOAT, x.numel), self.bufs["biased"]
        if self.choice.curve == _ROOT_OF_SOFTPLUS:
            core.adds(shares, core.exp(shares, x), 1.0)
            return core.sqrt(shares, core.ln(shares, shares))
        if self.choice.curve == _SIGMOID:
            core.muls(shares, x, -1.0)
            core.exp(shares, shares)
            core.adds(shares, shares, 1.0)
            return core.div(shares, core.duplicate(ones.get(FLOAT, x.numel), 1.0), shares)
        small = self.bufs["small"].get(FLOAT, 1)
        largest = core.get_value(core.reduce_max(small, x))
        core.adds(shares, x, largest * -1.0)
        core.exp(shares, shares)
        total = core.get_value(core.reduce_sum(small, shares))
        return core.muls(shares, shares, 1.0 / total)

    def _sort(self, core: Core) -> None:
        """Sorted lists of groups, the best of them merged; or all experts at once."""
        choice, pairs = self.choice, self.bufs["pairs"].get(FLOAT, 2 * self.choice.padded)
        lanes = core.costs.repeat_elements(FLOAT.itemsize)
        self._count_up(core, pairs, choice.experts)
        if not choice.grouped:
            record_sort(core, pairs, choice.padded)
            return
        each = round_up(choice.each, GROUP)
        if each == GROUP:
            core.record_vector("vbitsort32", pairs, lanes, rows=choice.groups)
        else:
            for _ in core.loop(choice.groups):
                record_sort(core, pairs, each)
        self._best_groups(core, pairs, lanes)
        lists, length = choice.kept, min(choice.count, choice.each)
        while lists > 1:
            core.record_vector(
                "vmrgsort4v2", pairs, lanes, rows=ceil(lists * length / (GROUP * LISTS))
            )
            lists, length = ceil(lists / LISTS), min(choice.count, LISTS * length)

    def _best_groups(self, core: Core, pairs: LocalTensor, lanes: int) -> None:
        """Their scores out of the lists, sorted; and their numbers sorted, to merge in order."""
        choice = self.choice
        core.wait_vector()
        core.emit_scalar("st_ub", stores=2)
        core.record_vector("vreducev2", pairs, lanes, rows=choice.groups)
        if choice.by_two:
            core.record_vector("vcpadd", pairs, 2 * choice.groups)
        self._count_up(core, pairs, choice.groups)
        for _ in range(2):
            core.record_vector("vector_dup", pairs, GROUP)
            record_sort(core, pairs, choice.groups)
            core.record_vector("vreducev2", pairs, 2 * choice.kept)
            core.record_vector("vconv", pairs, choice.kept)
        core.wait_vector()
        core.emit_scalar("ld_ub", loads=choice.kept, operations=2 * choice.kept)

    def _count_up(self, core: Core, pairs: LocalTensor, count: int) -> None:
        """0, 1, 2 ...: the first ones by the scalar unit, the others by adding to them."""
        core.emit_scalar("st_ub", operations=_COUNTED, stores=_COUNTED)
        core.record_vector("vadds", pairs, _COUNTED, rows=max(1, ceil(count / _COUNTED)))

    def _scaled(self, core: Core, found: LocalTensor) -> LocalTensor:
        """Shares that add up to the factor, or are multiplied with it."""
        choice = self.choice
        if choice.curve != _SOFTMAX:
            small = self.bufs["small"].get(FLOAT, 1)
            total = core.get_value(core.reduce_sum(small, found)) + choice.epsilon
            divisor = core.duplicate(self.bufs["wide"].get(FLOAT, choice.count), total)
            core.div(found, found, divisor)
        y = self.y_que.alloc_tensor(self.y.dtype, choice.count)
        if y.dtype is FLOAT:
            return core.muls(y, found, choice.factor)
        core.muls(found, found, choice.factor)
        return core.cast(y, found, RoundMode.CAST_RINT)


def _converted(core: Core, target: LocalTensor, tile: LocalTensor) -> LocalTensor:
    """A tile in the dtype of the target."""
    return core.move(target, tile) if tile.dtype is target.dtype else core.cast(target, tile)


def _choice(task: Task, x: GlobalTensor, bias: GlobalTensor | None) -> Choice:
    if task.profile.cores.style != "split" or len(x.shape) != 2:
        raise task.refused(f"{task.profile.name} has no kernel for {x.shape}")
    if bias is not None and (bias.shape != x.shape[1:] or bias.dtype is not x.dtype):
        raise task.refused(f"a bias {bias.shape} in {bias.dtype} for {x.shape} in {x.dtype}")
    whole = task.whole_number
    choice = Choice(
        x.shape[1],
        task.outputs[0].shape[-1] if task.outputs else whole("k", 1),
        whole("group_count", 1),
        whole("k_group", 1),
        whole("group_select_mode", 0) == _TOP_TWO,
        whole("norm_type", 0),
        task.number("routed_scaling_factor", 1.0),
        task.number("eps", 1e-20),
    )
    problem = choice.refused()
    if problem or whole("renorm", 0):
        raise task.refused(problem or "renorm isn't 0")
    return choice


def _results(task: Task, x: GlobalTensor, count: int) -> tuple[Any, GlobalTensor | None]:
    """y and experts, and all shares where they are wanted."""
    shape = (x.shape[0], count)
    given = [*task.outputs, made(shape, x.dtype), made(shape, INT32, "experts")]
    out = task.outputs[2] if len(task.outputs) > 2 else None
    wanted = bool(task.attributes.get("out_flag", False))
    if wanted and out is None:
        out = made(x.shape, FLOAT, "out")
    return (given[0], given[1] if task.outputs[1:] else given[-1]), out if wanted else None


def moe_gating_top_k(task: Task) -> tuple[Kernel, ...]:
    """x and a bias; the results are shares, experts, and all shares where they are wanted."""
    (x,) = task.present(1)
    bias = task.inputs[1] if len(task.inputs) > 1 else None
    choice = _choice(task, x, bias)
    if choice.curve not in (_SOFTMAX, _SIGMOID):
        raise task.refused(f"norm_type {choice.curve}")
    results, out = _results(task, x, choice.count)
    return (MoeGatingTopK(task.profile, x, bias, results, out, choice),)


def moe_gating_top_k_hash(task: Task) -> tuple[Kernel, ...]:
    """x, a bias, numbers of tokens and the experts of each number."""
    (x,) = task.present(1)
    bias, ids, table = (*task.inputs[1:], None, None, None)[:3]
    choice = _choice(task, x, bias)
    told = None if ids is None or table is None else (ids.view(ids.numel), table.view(table.numel))
    if told is not None and told[0].numel < x.shape[0]:
        raise task.refused(f"{told[0].numel} numbers of {x.shape[0]} tokens")
    listed = None if told is None else told[1].array
    if listed is not None and not ((listed >= 0) & (listed < choice.experts)).all():
        raise task.unfit(f"experts beyond the {choice.experts} of x")
    results, out = _results(task, x, choice.count)
    kind = MoeGatingTopK.called("MoeGatingTopKHash")
    return (kind(task.profile, x, bias, results, out, choice, told),)
