"""What the operators that reduce have in common, and what sets them apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from npusim.ascendc.folds import LARGEST, PRODUCT, SMALLEST, SUM, Fold
from npusim.values.dtypes import FLOAT, FLOAT16, INT64, DType

if TYPE_CHECKING:
    from npusim.ascendc import Core, LocalTensor
    from npusim.hardware.profile import Profile

Before = Literal["", "square", "abs"]
After = Literal["", "mean", "square", "half"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How elements are folded, what happens to them before and to the result after.

    ``keeps`` tells that the elements as they are folded are a second result.
    """

    fold: Fold
    before: Before = ""
    after: After = ""
    keeps: bool = False

    def on(self, profile: Profile, dtype: DType) -> Kind:
        """The kind for elements of a dtype: integers of 64 bits are folded by pairs."""
        wide = self.fold.of_64_bits()
        known = dtype is INT64 and not self.before and not self.after
        if known and profile.supports_vector(wide.pairwise, dtype.intrinsic):
            return replace(self, fold=wide)
        return self

    def compute_dtype(self, profile: Profile, dtype: DType) -> DType:
        """Sums and products of half types are formed in float32; comparisons need no wider type.

        Bytes are compared in float16, which holds them and is what they convert to.
        """
        exact = self.fold in (LARGEST, SMALLEST) and not self.before
        if exact and dtype.itemsize == 1:
            return FLOAT16
        native = profile.supports_vector(self.fold.pairwise, dtype.intrinsic)
        if native and (exact or dtype.category != "float" or dtype is FLOAT):
            return dtype
        return FLOAT

    def prepare(self, core: Core, dst: LocalTensor, src: LocalTensor) -> LocalTensor:
        """What is folded of an element."""
        if self.before == "square":
            return core.mul(dst, src, src)
        return core.abs(dst, src)

    def finish(self, core: Core, result: LocalTensor, count: int) -> LocalTensor:
        """What becomes of a folded number, the fold of ``count`` elements."""
        if self.after == "mean":
            core.muls(result, result, 1.0 / count)
        elif self.after == "half":
            core.muls(result, result, 0.5)
        elif self.after == "square":
            core.mul(result, result, result)
        return result

    @property
    def is_linear(self) -> bool:
        """True where parts can be finished before they are added up."""
        return self.fold is SUM and self.after != "square"


KINDS: dict[str, Kind] = {
    "ReduceSum": Kind(SUM),
    "ReduceMean": Kind(SUM, after="mean"),
    "ReduceMax": Kind(LARGEST),
    "ReduceMin": Kind(SMALLEST),
    "ReduceProd": Kind(PRODUCT),
    "ReduceAll": Kind(SMALLEST),
    "ReduceAny": Kind(LARGEST),
    "BiasAddGrad": Kind(SUM),
    "SquareSumV1": Kind(SUM, before="square"),
    "SquareSumV2": Kind(SUM, before="square", keeps=True),
    "L2Loss": Kind(SUM, before="square", after="half"),
    "FusionOp_ReduceSum_Square": Kind(SUM, after="square"),
}
