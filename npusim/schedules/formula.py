"""Elementwise formulas written down once: the vector instructions that a tile goes through.

An operator's formula is a function of a :class:`Formula` and its operands. Calling it records the
instructions; from their order follows how many tile-sized buffers are alive together, which is
what the schedule sizes its tiles by. Operands of a single element are :class:`Quantity`: the
scalar unit reads them once per core.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from npusim.ascendc.conversions import conversion_path, device_dtype
from npusim.ascendc.core import Core
from npusim.ascendc.intrinsics.elementwise import Intrinsic
from npusim.ascendc.mistakes import site
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.scalars import Scalar
from npusim.values.contents import digest_of
from npusim.values.dtypes import FLOAT, INT32, INT64, UINT8, DType
from npusim.values.errors import UnsupportedIntrinsicError

if TYPE_CHECKING:
    from npusim.ascendc.intrinsics.vector import CmpMode
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile

_T = TypeVar("_T")
_MOST_KNOWN = 64  # formulas that were recorded last

Value = Scalar | float
Call = Callable[..., "LocalTensor"]


@dataclass(eq=False, slots=True)  # not frozen: that takes three times as long to make
class Term:
    """A tile-sized value: an operand, or the result of an instruction."""

    number: int
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True)
class Quantity:
    """A single number that the kernel reads; ``evaluate`` gets it from the core.

    ``operations`` counts what is computed for it.
    """

    evaluate: Callable[[Core], Value]
    operations: int = 0

    def __add__(self, other: Number) -> Quantity:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Number) -> Quantity:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: float) -> Quantity:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Number) -> Quantity:
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other: Number) -> Quantity:
        return self._with(other, lambda a, b: a / b)

    def __rtruediv__(self, other: float) -> Quantity:
        return self._with(other, lambda a, b: b / a)

    def __neg__(self) -> Quantity:
        return Quantity(lambda core: -self.evaluate(core), self.operations)

    __radd__ = __add__
    __rmul__ = __mul__

    def sqrt(self) -> Quantity:
        """The square root, by the scalar unit."""

        def root(core: Core) -> Value:
            value = self.evaluate(core)
            _spend(core, "vsqrt")
            return core.scalar_sqrt(value) if isinstance(value, Scalar) else value**0.5

        return Quantity(root, self.operations + 1)

    def where_positive(self, otherwise: float, *tests: Quantity) -> Quantity:
        """This number where all ``tests`` are positive, else ``otherwise``."""

        def chosen(core: Core) -> Value:
            value = self.evaluate(core)
            for test in tests:
                tested = test.evaluate(core)
                _spend(core, "vsel")
                if isinstance(value, Scalar) and isinstance(tested, Scalar):
                    value = core.scalar_select(tested, value, otherwise)
            return value

        return Quantity(chosen, self.operations + sum(1 + test.operations for test in tests))

    def _with(self, other: Number, operation: Callable[[Value, Value], Value]) -> Quantity:
        def combined(core: Core) -> Value:
            second = other.evaluate(core) if isinstance(other, Quantity) else other
            _spend(core, "vmuls")
            return operation(self.evaluate(core), second)

        more = other.operations if isinstance(other, Quantity) else 0
        return Quantity(combined, self.operations + more + 1)


@dataclass(frozen=True, slots=True)
class Share:
    """A number divided by the elements of a row: what is recorded holds for rows of any length."""

    of: float


def _spend(core: Core, intrinsic: str) -> None:
    """Schedules compute with single elements in the vector unit too, step by step."""
    core.emit_vector(intrinsic, FLOAT, 1, chained=True, detail="float32 1")


_OF_64_BITS: dict[Call, Call] = {
    Core.add: Core.add64,
    Core.sub: Core.sub64,
    Core.max: Core.max64,
    Core.min: Core.min64,
    Core.compare: Core.compare64,
}

Number = float | Quantity
Operand = Term | Quantity


@dataclass(slots=True, eq=False)
class Step:
    """One instruction: a method of the core, its tiles, and what else it takes."""

    call: Call
    target: Term
    sources: tuple[Term, ...]
    extras: tuple[object, ...] = ()
    site: str = ""  # the line of the formula

    @property
    def name(self) -> str:
        """What the core calls the instruction."""
        return self.call.__name__


def _of_one(call: Call, meaning: str) -> Callable[[Formula, Term], Term]:
    """The method of a formula for an instruction that takes a tile."""

    def record(self: Formula, x: Term) -> Term:
        return self.step(call, (x,))

    record.__doc__ = meaning
    return record


def _commutative(
    tiles: Call, with_number: Intrinsic[...], meaning: str
) -> Callable[[Formula, Term | Number, Term | Number | Share], Term]:
    """The method for two tiles, or for a tile and a number in any order.

    Where the chip's instruction doesn't take the number with this type, a tile is filled with it.
    """

    def record(self: Formula, a: Term | Number, b: Term | Number | Share) -> Term:
        x, number = (a, b) if isinstance(a, Term) else (b, a)
        if not isinstance(x, Term):
            x = self.fill(x)
        both = self.in_lanes(tiles, x.dtype)
        if isinstance(number, Term):
            return self.step(both, (x, number))
        name, dtype = with_number.hardware_name, x.dtype
        native = with_number.instead and both is tiles
        if native or self.profile.supports_vector(name, dtype.intrinsic):
            return self.step(with_number, (x,), (number,))
        return self.step(both, (x, self.fill(number, dtype)))

    record.__doc__ = meaning
    return record


@dataclass(slots=True)
class Formula:
    """Records instructions in ``dtype``, the type that the operator computes in on this chip.

    ``follows_from`` is all that the steps are made from, where it is known, for who compares
    kernels.
    """

    profile: Profile
    dtype: DType
    steps: list[Step] = field(default_factory=list)
    follows_from: object | None = None
    _count: int = 0

    @property
    def masks_in_memory(self) -> bool:
        """True where comparisons leave masks in UB for whole tiles, and selections read them there.

        The first generation has one mask register, for one repeat. Such chips lack comparisons
        with a number, too.
        """
        return self.profile.has("vcmpvs_eq")

    def operand(self, dtype: DType) -> Term:
        """A new value that isn't the result of a recorded instruction."""
        self._count += 1
        return Term(self._count, device_dtype(dtype))

    # -- two operands ----------------------------------------------------------------------------

    add = _commutative(Core.add, Core.adds, "a + b.")
    mul = _commutative(Core.mul, Core.muls, "a * b.")
    max = _commutative(Core.max, Core.maxs, "The larger of a and b.")
    min = _commutative(Core.min, Core.mins, "The smaller of a and b.")

    def sub(self, a: Term | Number, b: Term | Number) -> Term:
        """a - b."""
        if isinstance(a, Term) and not isinstance(b, Term):
            return self.add(a, -b)
        tiles = self._tiles(a, b)
        return self.step(self.in_lanes(Core.sub, tiles[0].dtype), tiles)

    def div(self, a: Term | Number, b: Term | Number) -> Term:
        """a / b."""
        return self.step(Core.div, self._tiles(a, b))

    def compare(self, a: Term | Number, b: Term | Number, mode: CmpMode) -> Term:
        """A mask of zeros and ones: a <mode> b."""
        tiles = self._tiles(a, b)
        return self.step(self.in_lanes(Core.compare, tiles[0].dtype), tiles, (mode,), UINT8)

    # -- one operand -----------------------------------------------------------------------------

    abs = _of_one(Core.abs, "|x|.")
    exp = _of_one(Core.exp, "e to the power of x.")
    ln = _of_one(Core.ln, "The natural logarithm.")
    sqrt = _of_one(Core.sqrt, "The square root.")
    reciprocal = _of_one(Core.reciprocal, "1 / x.")

    def neg(self, x: Term) -> Term:
        """-x."""
        return self.mul(x, -1.0)

    def relu(self, x: Term) -> Term:
        """The larger of x and 0, by the chip's own instruction where it has one for the type."""
        if self.profile.supports_vector("vrelu", x.dtype.intrinsic):
            return self.step(Core.relu, (x,))
        return self.max(x, 0.0)

    # -- the rest --------------------------------------------------------------------------------

    def fill(self, number: Number | Share, dtype: DType | None = None) -> Term:
        """A tile of one number."""
        return self.step(Core.duplicate, (), (number,), dtype or self.dtype)

    def tile(self, x: Operand) -> Term:
        """``x`` as a tile: a single element is repeated."""
        return x if isinstance(x, Term) else self.fill(x)

    def select(self, mask: Term, a: Term | Number, b: Term | Number) -> Term:
        """a where the mask is set, else b; integers of whole lanes are moved as they are."""
        x, y = self._tiles(a, b)
        call = Core.select_lanes if x.dtype in (INT32, INT64) else Core.select
        return self.step(call, (mask, x, y), (), x.dtype)

    def copied(self, x: Term) -> Term:
        """``x`` in a buffer of its own."""
        return self.step(Core.move, (x,))

    def cast(self, x: Operand, dtype: DType, mode: RoundMode = RoundMode.CAST_RINT) -> Term:
        """``x`` in ``dtype``; of several conversions the last one rounds as ``mode`` says."""
        x, wanted = self.tile(x), device_dtype(dtype)
        path = conversion_path(self.profile, x.dtype, wanted)
        for index, each in enumerate(path):
            last = index == len(path) - 1
            rounding = mode if last or each.category != "float" else RoundMode.CAST_RINT
            x = self.step(Core.cast, (x,), (rounding,), each)
        return x

    def widened(self, x: Operand) -> Operand:
        """An operand in the type that the operator computes in."""
        return x if isinstance(x, Quantity) else self.cast(x, self.dtype)

    def _tiles(self, a: Term | Number, b: Term | Number) -> tuple[Term, Term]:
        known = next((each.dtype for each in (a, b) if isinstance(each, Term)), self.dtype)
        first = a if isinstance(a, Term) else self.fill(a, known)
        second = b if isinstance(b, Term) else self.fill(b, known)
        return first, second

    def in_lanes(self, call: Call, dtype: DType) -> Call:
        """An instruction, or what the compiler makes of it for integers wider than a lane."""
        wide = _OF_64_BITS.get(call)
        native = self.profile.supports_vector(getattr(call, "hardware_name", ""), dtype.intrinsic)
        return wide if wide and dtype is INT64 and not native else call

    def require_instructions(self, op_type: str) -> None:
        """Raise UnsupportedIntrinsicError for a step that the chip has no instruction for."""
        for step in self.steps:
            if isinstance(step.call, Intrinsic):
                step.call.require(self.profile, op_type, step.target.dtype)
            elif step.call is Core.compare and not step.sources[0].dtype.is_float:
                self._require_comparison(op_type, f"vcmpv_{step.extras[0]}", step.sources[0].dtype)

    def _require_comparison(self, op_type: str, name: str, dtype: DType) -> None:
        if not self.profile.supports_vector(name, dtype.intrinsic):
            known = self.profile.vector_dtypes(name)
            chip = self.profile.name
            raise UnsupportedIntrinsicError(op_type, name, dtype.intrinsic, chip, known)

    def step(
        self,
        call: Call,
        sources: tuple[Term, ...],
        extras: tuple[object, ...] = (),
        dtype: DType | None = None,
    ) -> Term:
        """Record an instruction: any row of the core's table, or another of its methods.

        What a caller gives as a single element is repeated.
        """
        sources = tuple(self.tile(each) for each in sources)
        target = self.operand(dtype or sources[0].dtype)
        self.steps.append(Step(call, target, sources, extras, site()))
        return target


def compute_dtype(profile: Profile, dtype: DType, *, half_in_float: bool) -> DType:
    """What a chip computes in: half types in float32 where the operator or the chip wants it.

    Types without arithmetic of their own take the narrowest one that holds them.
    """
    found = device_dtype(dtype)
    if found.itemsize == 1:
        found = conversion_path(profile, found, FLOAT)[0]
    if found.category == "float":
        native = profile.supports_vector("vadd", found.intrinsic)
        return (
            found if native and not (half_in_float and found.itemsize < FLOAT.itemsize) else FLOAT
        )
    return found


class Recorded(Generic[_T]):
    """What formulas recorded last, by all that they were told.

    A call's own chain asks for it again and again, for results in other places.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _T] = {}

    def find(
        self, told: Hashable, attributes: Mapping[str, object], record: Callable[[], _T]
    ) -> _T:
        """What was recorded when the same was told; recorded now where nobody knows."""
        try:
            key = told, digest_of(attributes)
        except TypeError:  # an attribute says nothing by itself
            return record()
        found = self._known.pop(key, None)
        found = self._known[key] = record() if found is None else found
        while len(self._known) > _MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)
        return found
