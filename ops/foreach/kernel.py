"""Operators on lists of tensors: one task deals them out to all cores, one behind the other.

Source: public host tiling of hicann/ops-nn, foreach/foreach_utils/op_host/foreach_tiling_class.h:
the elements of all tensors of a list in blocks of 32 bytes, shares that differ by one block at
most, and a core for every block as long as there are cores.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from math import ceil, log
from typing import TYPE_CHECKING, ClassVar

from npusim.ascendc import Core, GlobalTensor, Kernel, RoundMode
from npusim.ascendc.task import Task, made
from npusim.library.tensor_lists import read_lists
from npusim.operators.registry import kernel_class
from npusim.schedules.elementwise import FlatTiling, tile_limit
from npusim.schedules.formula_classes import kernel_of
from npusim.schedules.formula_kernel import FormulaKernel
from npusim.schedules.formula_row import Compute
from npusim.schedules.runner import Runner
from npusim.values.arithmetic import inverse
from npusim.values.contents import digest_of
from npusim.values.dtypes import FLOAT, INT32
from npusim.values.errors import KernelError, RefusedTaskError

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile
    from npusim.schedules.block_split import BlockSplit
    from npusim.schedules.formula import Formula, Number, Term

    Numbers = float | Sequence[float]


_TILING_ARRAYS = 5
_BLOCK_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Dealt(FlatTiling):
    """The elements of one tensor that each core has: the first one, and how many."""

    shares: tuple[tuple[int, int], ...]

    def length(self, block: int) -> int:
        """Elements of a core."""
        return self.shares[block][1]

    def tiles(self, core: Core) -> Iterator[tuple[Index, int]]:
        """The first element and the elements of each tile of a core."""
        first, length = self.shares[core.get_block_idx()]
        return core.tiles(first, length, self.tile)


@lru_cache(maxsize=256)
def _dealt(
    sizes: tuple[int, ...], itemsize: int, cores: int
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The shares of every tensor, core by core."""
    whole = _BLOCK_BYTES // itemsize
    blocks = max(1, ceil(sum(sizes) / whole))
    each, more = divmod(blocks, min(cores, blocks))
    counts = [whole * (each + (core < more)) for core in range(min(cores, blocks))]
    ends = list(accumulate(counts, initial=0))
    found, behind = [], 0
    for size in sizes:
        cuts = [min(max(end - behind, 0), size) for end in ends]
        found.append(tuple((first, end - first) for first, end in pairwise(cuts)))
        behind += size
    return tuple(found)


class _Part(FormulaKernel):
    """The work on one tensor of each list; the number that goes with them is read once."""

    def __init__(
        self, profile: Profile, *tensors: GlobalTensor, shares: tuple[tuple[int, int], ...]
    ) -> None:
        self.shares = shares
        firsts, lengths = zip(*shares, strict=True)  # two texts, and not one for each of them
        self.follows_from = tensors, firsts, lengths
        super().__init__(profile, *tensors)

    def _flat_tiling(
        self,
        profile: Profile,
        split: BlockSplit | None,  # noqa: ARG002 - lists are dealt out as one
    ) -> FlatTiling:
        most = max(length for _, length in self.shares)
        tile = min(most, tile_limit(profile, self.coexisting, 2, profile.buffers.block_bytes))
        return _Dealt(
            self.output.numel, most, max(1, tile), len(self.shares),
            double_buffer=True, shares=self.shares,
        )  # fmt: skip

    def process(self, core: Core) -> None:
        """The work of one block."""
        self._read_singles(core)
        super().process(core)

    def compute_whole(self, core: Core) -> None:
        """The numbers of the whole tensor."""
        self._read_singles(core)
        self.init_buffers(core)
        tiles = core.tiles(0, self.output.numel, self.tiling.tile)
        self._compute_all(core, (self._flat_tile(length, (first, 1)) for first, length in tiles))

    def _read_singles(self, core: Core) -> None:
        for place, each in self.quantities.items():
            core.singles[place] = core.load_scalar(each.span(0, 1))

    def _read_numbers(self, core: Core) -> None:
        self.runner = Runner(core, self.formula.steps)


class ForeachKernel(Kernel):
    """The same formula on the n-th tensors of every list: ``lists`` inputs, then outputs.

    ``formula`` takes a number before the operands: ``scalar``, the n-th of them where there are
    several, or what ``scalars`` holds on the device.
    """

    lists: ClassVar[int]
    formula: ClassVar[Callable[..., Term]]

    def __init__(
        self,
        profile: Profile,
        *tensors: GlobalTensor,
        scalar: Numbers = 1.0,
        scalars: GlobalTensor | None = None,
    ) -> None:
        count, rest = divmod(len(tensors), self.lists + 1)
        if rest or not count:
            raise RefusedTaskError(
                self.op_type, f"{len(tensors)} tensors for {self.lists} lists and results"
            )
        groups = [tensors[index::count] for index in range(count)]
        sizes = tuple(group[0].numel for group in groups)
        dealt = _dealt(sizes, tensors[0].dtype.itemsize, profile.cores.vector_cores)
        if scalars is None:
            self.parts: list[_Part] = [
                self._part(profile, group, shares, number)
                for group, shares, number in zip(
                    groups, dealt, self._each(scalar, count), strict=True
                )
            ]
        else:
            numbers = self._views(scalars, count)
            self.parts = [
                self._part(profile, (number, *group), shares)
                for group, shares, number in zip(groups, dealt, numbers, strict=True)
            ]
        self.block_dim = len(dealt[0])
        self.reads = (*tensors[:-count], *((scalars,) if scalars else ()))
        self.writes = tensors[-count:]

    def _part(
        self,
        profile: Profile,
        tensors: tuple[GlobalTensor, ...],
        shares: tuple[tuple[int, int], ...],
        number: float | None = None,
    ) -> _Part:
        """The kernel of one tensor of each list; without a number it is the first operand."""
        part: _Part = _part_of(type(self), number)(profile, *tensors, shares=shares)  # type: ignore[assignment]
        return part

    def _each(self, scalar: Numbers, count: int) -> Sequence[float]:
        if not isinstance(scalar, Sequence):
            return [float(scalar)] * count
        if len(scalar) != count:
            raise RefusedTaskError(self.op_type, f"{len(scalar)} numbers for {count} tensors")
        return [float(each) for each in scalar]

    def _views(self, scalars: GlobalTensor, count: int) -> Sequence[GlobalTensor]:
        if scalars.numel not in (1, count):
            raise RefusedTaskError(self.op_type, f"{scalars.numel} numbers for {count} tensors")
        places = range(count) if scalars.numel == count else [0] * count
        return [replace(scalars, shape=(1,), start=scalars.start + place) for place in places]

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a task; a number on the device stands behind the lists."""
        present = [tensor for tensor in task.inputs if tensor is not None]
        count = len(task.outputs)
        if not count or count * cls.lists > len(present):
            behind = task.op_type in _NUMBERED and "scalar" not in task.attributes
            count = (len(present) - behind) // cls.lists
        given, rest = present[: count * cls.lists], present[count * cls.lists :]
        fresh = tuple(made(each.shape, each.dtype) for each in given[:count])
        results = task.outputs if len(task.outputs) == count else fresh
        shaped = [out.view(*like.shape) for out, like in zip(results, given, strict=False)]
        scalar = task.attributes.get("scalar", 1.0)
        numbers = rest[0] if rest and rest[0].dtype.numpy is not None else None
        return (cls(task.profile, *given, *shaped, scalar=scalar, scalars=numbers),)  # type: ignore[arg-type]

    def block_kind(self, block_idx: int) -> Hashable:
        """How much the block has to do."""
        return tuple(part.shares[block_idx][1] for part in self.parts)

    def process(self, core: Core) -> None:
        """The work of one block, behind what it reads of its lists.

        The numbers of all blocks are found with those of the first.
        """
        lists = (len(self.reads) + len(self.writes)) // len(self.parts)
        read_lists(core, lists, _TILING_ARRAYS)
        block = core.get_block_idx()
        mine = [part for part in self.parts if part.shares[block][1]]
        everything = [] if block else [part for part in self.parts if part.output.numel]
        core.separately(
            lambda: self._each_by_itself(core, [part.process for part in mine]),
            lambda: self._each_by_itself(core, [part.compute_whole for part in everything]),
        )

    @staticmethod
    def _each_by_itself(core: Core, works: Sequence[Callable[[Core], None]]) -> None:
        for work in works:
            core.pipe.reset()
            work(core)


@lru_cache(maxsize=1024)
def _part_of(kind: type[ForeachKernel], number: float | None) -> type[FormulaKernel]:
    """The kernel of one tensor of each list: one class for a number, which streams are kept by."""

    def scaled(f: Formula, *operands: Term) -> Term:
        return kind.formula(f, number, *operands)

    if number is None:
        row = Compute(kind.op_type, kind.formula, half_in_float=True, typed_by=1, numbers=(0,))
    else:
        row = Compute(kind.op_type, scaled, half_in_float=True, typed_by=0)
    part = kernel_of(row, base=_Part)
    part.digest = digest_of(number)
    return part


def _plus(f: Formula, scalar: Number, a: Term, b: Term) -> Term:
    return f.add(a, b if scalar == 1.0 else f.mul(b, scalar))


def _minus(f: Formula, scalar: Number, a: Term, b: Term) -> Term:
    return f.sub(a, b if scalar == 1.0 else f.mul(b, scalar))


_ROUNDED = {
    1: RoundMode.CAST_RINT, 2: RoundMode.CAST_FLOOR, 3: RoundMode.CAST_CEIL,
    4: RoundMode.CAST_ROUND, 5: RoundMode.CAST_TRUNC,
}  # fmt: skip


_TO_ODD = 6


def _rounded(f: Formula, mode: Number, x: Term) -> Term:
    """To whole numbers as ``mode`` says, which the host knows."""
    if not isinstance(mode, float) or mode == _TO_ODD:
        raise KernelError(
            "ForeachRoundOffNumber", "rounds as the host says, but not to odd numbers"
        )
    return f.cast(f.cast(x, INT32, _ROUNDED.get(int(mode), RoundMode.CAST_RINT)), FLOAT)


def _as(op_type: str) -> Callable[..., Term]:
    """The formula of an elementwise operator; the number is nothing to it."""

    def formula(f: Formula, _: Number, *operands: Term) -> Term:
        row = kernel_class(op_type).row  # type: ignore[attr-defined]
        found: Term = row.formula(f, *operands, **row.attributes)
        return found

    return formula


def _powered(f: Formula, *operands: Term | Number) -> Term:
    row = kernel_class("Pow").row  # type: ignore[attr-defined]
    tiles = (each if not isinstance(each, float) else f.fill(each) for each in operands)
    found: Term = row.formula(f, *tiles)
    return found


_ROWS: dict[str, tuple[int, Callable[..., Term]]] = {
    "ForeachAddList": (2, _plus),
    "ForeachSubList": (2, _minus),
    "ForeachMulList": (2, lambda f, _, a, b: f.mul(a, b)),
    "ForeachDivList": (2, lambda f, _, a, b: f.div(a, b)),
    "ForeachMaximumList": (2, lambda f, _, a, b: f.max(a, b)),
    "ForeachMinimumList": (2, lambda f, _, a, b: f.min(a, b)),
    "ForeachPowList": (2, lambda f, _, a, b: _powered(f, a, b)),
    "ForeachLerpScalar": (2, lambda f, scalar, a, b: f.add(a, f.mul(f.sub(b, a), scalar))),
    "ForeachLerpList": (3, lambda f, _, a, b, weight: f.add(a, f.mul(f.sub(b, a), weight))),
    "ForeachPowScalarAndTensor": (1, _powered),
    "ForeachRoundOffNumber": (1, _rounded),
    "ForeachZeroInplace": (1, lambda f, _, x: f.fill(0.0, x.dtype)),
    "ForeachCopy": (1, lambda f, _, x: f.copied(x)),
    "ForeachNeg": (1, lambda f, _, x: f.neg(x)),
    "ForeachAbs": (1, lambda f, _, x: f.abs(x)),
    "ForeachExp": (1, lambda f, _, x: f.exp(x)),
    "ForeachLog": (1, lambda f, _, x: f.ln(x)),
    "ForeachLog2": (1, lambda f, _, x: f.mul(f.ln(x), 1.0 / log(2.0))),
    "ForeachLog10": (1, lambda f, _, x: f.mul(f.ln(x), 1.0 / log(10.0))),
    "ForeachReciprocal": (1, lambda f, _, x: f.div(1.0, x)),
    "ForeachSqrt": (1, lambda f, _, x: f.sqrt(x)),
}
_NAMED = (
    "Acos", "Asin", "Atan", "Cos", "Cosh", "Erf", "Erfc", "Expm1", "Log1p", "Sigmoid", "Sign",
    "Sin", "Sinh", "Tan", "Tanh",
)  # fmt: skip
_ROWS |= {f"Foreach{name}": (1, _as(name)) for name in _NAMED}

# With one number for all tensors, and with one for each of them.
_SCALED: dict[str, tuple[int, Callable[..., Term]]] = {
    "ForeachAdd": (1, lambda f, scalar, x: f.add(x, scalar)),
    "ForeachSub": (1, lambda f, scalar, x: f.add(x, -scalar)),
    "ForeachMul": (1, lambda f, scalar, x: f.mul(x, scalar)),
    "ForeachDiv": (1, lambda f, scalar, x: f.mul(x, inverse(scalar))),
    "ForeachMaximum": (1, lambda f, scalar, x: f.max(x, scalar)),
    "ForeachMinimum": (1, lambda f, scalar, x: f.min(x, scalar)),
    "ForeachPow": (1, lambda f, scalar, x: _powered(f, x, scalar)),
    "ForeachAddcdiv": (3, lambda f, scalar, x, a, b: f.add(x, f.mul(f.div(a, b), scalar))),
    "ForeachAddcmul": (3, lambda f, scalar, x, a, b: f.add(x, f.mul(f.mul(a, b), scalar))),
}
_ROWS |= {f"{name}{end}": row for name, row in _SCALED.items() for end in ("Scalar", "ScalarList")}
_ROWS |= {f"{name}List": _SCALED[name] for name in ("ForeachAddcdiv", "ForeachAddcmul")}


# Behind the lists of these a number may stand.
_NUMBERED = frozenset(
    (
        *(name for name in _ROWS if "Scalar" in name),
        "ForeachAddList",
        "ForeachSubList",
        "ForeachAddcdivList",
        "ForeachAddcmulList",
    )
)


def _kernel_of(op_type: str, lists: int, formula: Callable[..., Term]) -> type[ForeachKernel]:
    members = {"op_type": op_type, "lists": lists, "formula": staticmethod(formula)}
    return type(op_type, (ForeachKernel,), {**members, "__doc__": op_type})


KERNELS = {op_type: _kernel_of(op_type, *row) for op_type, row in _ROWS.items()}
