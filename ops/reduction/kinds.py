"""What the operators that reduce have in common, and what sets them apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from npusim.ascendc import CmpMode
from npusim.ascendc.folds import LARGEST, PRODUCT, SMALLEST, SUM, Fold
from npusim.values.dtypes import FLOAT, FLOAT16, INT64, DType

if TYPE_CHECKING:
    from npusim.ascendc import Core, LocalTensor
    from npusim.hardware.profile import Profile

Before = Literal["", "square", "abs", "exp", "number"]
After = Literal["", "mean", "square", "half", "log"]


@dataclass(frozen=True, slots=True)
class Kind:
    """How elements are folded, what happens to them before and to the result after.

    ``keeps`` tells that the elements as they are folded are a second result.
    """

    fold: Fold
    before: Before = ""
    after: After = ""
    keeps: bool = False
    of_truths: bool = False

    def on(self, profile: Profile, dtype: DType) -> Kind:
        """The kind for elements of a dtype: integers of 64 bits are folded by pairs.

        Floats are as true as they are far from zero.
        """
        if self.of_truths and dtype.is_float:
            return replace(self, before="abs")
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

    @property
    def masks(self) -> bool:
        """Whether elements are compared before they are folded."""
        return self.before == "number"

    def prepare(
        self, core: Core, dst: LocalTensor, src: LocalTensor, mask: LocalTensor | None = None
    ) -> LocalTensor:
        """What is folded of an element; ``mask`` has room for comparisons of kinds with some."""
        if self.before == "square":
            return core.mul(dst, src, src)
        if self.before == "exp":
            return core.exp(dst, src)
        if mask is not None:  # what isn't itself is no number
            return core.select(dst, core.compare(mask, src, src, CmpMode.EQ), src, 0.0)
        return core.abs(dst, src)

    def finish(self, core: Core, result: LocalTensor, count: int) -> LocalTensor:
        """What becomes of a folded number, the fold of ``count`` elements."""
        if self.after == "mean":
            core.muls(result, result, 1.0 / count)
        elif self.after == "half":
            core.muls(result, result, 0.5)
        elif self.after == "square":
            core.mul(result, result, result)
        elif self.after == "log":
            core.ln(result, result)
        return result

    @property
    def is_linear(self) -> bool:
        """True where parts can be finished before they are added up."""
        return self.fold is SUM and self.after not in ("square", "log")


KINDS: dict[str, Kind] = {
    "ReduceSum": Kind(SUM),
    "ReduceMean": Kind(SUM, after="mean"),
    "ReduceNansum": Kind(SUM, before="number"),
    "ReduceLogSum": Kind(SUM, after="log"),
    "ReduceLogSumExp": Kind(SUM, before="exp", after="log"),
    "ReduceMax": Kind(LARGEST),
    "ReduceMin": Kind(SMALLEST),
    "ReduceProd": Kind(PRODUCT),
    "ReduceAll": Kind(SMALLEST, of_truths=True),
    "ReduceAny": Kind(LARGEST, of_truths=True),
    "BiasAddGrad": Kind(SUM),
    "SquareSumV1": Kind(SUM, before="square"),
    "SquareSumV2": Kind(SUM, before="square", keeps=True),
    "L2Loss": Kind(SUM, before="square", after="half"),
    "FusionOp_ReduceSum_Square": Kind(SUM, after="square"),
}
