"""Products with weights, norms and gated units, in the precision of a model."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from npusim.llm.work import Part, Work, part, tensor
from npusim.values.dtypes import FLOAT, INT8, UINT64
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.llm.popularity import Popularity
    from npusim.llm.precision import Precision

_FRACTALS: Final = Format.FRACTAL_NZ


@dataclass(frozen=True)
class Projections:
    """Writes parts into `work`; rows are tokens, which go to experts by `popularity`."""

    work: Work
    precision: Precision
    gelu: bool = False
    gated: bool = True
    popularity: Popularity | None = None

    def product(self, rows: int, depth: int, columns: int, *, plain: bool = False) -> None:
        """``[rows, depth] x [depth, columns]``; `plain` with weights that aren't quantised."""
        self.work.run(*self.product_parts(rows, depth, columns, plain=plain))

    def product_parts(
        self, rows: int, depth: int, columns: int, *, plain: bool = False
    ) -> list[Part]:
        """The same as parts."""
        floating, stored = self.precision.activations, self.precision.weights
        x, y = tensor(floating, rows, depth), tensor(floating, rows, columns)
        if plain or stored is floating:
            weight = tensor(floating, depth, columns)
            return [part("MatMulV2", (x, weight), (y,), weights=(weight,))]
        weight, scale = tensor(stored, depth, columns), tensor(floating, columns)
        if self.precision.widened:
            inputs = (x, weight, scale)
            return [part("WeightQuantBatchMatmulV2", inputs, (y,), weights=(weight, scale))]
        quantised, per_row = tensor(INT8, rows, depth), tensor(FLOAT, rows)
        weight = self.in_fractals(depth, columns)
        if self.work.fixed_scales:
            scale = tensor(UINT64, columns)
            return [
                part("AscendQuantV2", (x, tensor(floating, 1)), (quantised,)),
                part("QuantBatchMatmulV3", (quantised, weight, scale), (y,),
                     weights=(weight, scale)),
            ]  # fmt: skip
        scale = tensor(FLOAT, columns)
        return [
            part("DynamicQuant", (x,), (quantised, per_row)),
            part("QuantBatchMatmulV3", (quantised, weight, scale, None, None, per_row), (y,),
                 weights=(weight, scale)),
        ]  # fmt: skip

    @staticmethod
    def in_fractals(depth: int, columns: int, *groups: int) -> TensorSpec:
        """Weights of whole numbers as engines keep them.

        Source: vllm-ascend quantization/methods (maybe_trans_nz), VLLM_ASCEND_ENABLE_NZ.
        """
        return TensorSpec((*groups, ceil(columns / 32), ceil(depth / 16), 16, 32), INT8, _FRACTALS)

    def norm(self, rows: int, hidden: int, *, added: bool = False) -> None:
        """A root-mean-square norm of every row, of the sum with the residual where `added`.

        Behind a sum it is vllm-ascend's own kernel on A2 and A3, without a bias, which only
        checkpoints with moved outliers bring (ops/layernorm.py, since January 2026).
        """
        kind = self.precision.activations
        x, gamma, root = tensor(kind, rows, hidden), tensor(kind, hidden), tensor(FLOAT, rows, 1)
        plain = part("RmsNorm", (x, gamma), (x, root), weights=(gamma,))
        if not added:
            self.work.run(plain)
            return
        name = "AddRmsNorm" if self.work.fixed_scales else "AddRmsNormBias"
        fused = part(name, (x, x, gamma), (x, root, x), weights=(gamma,))
        self.work.first_of([fused], [part("Add", (x, x), (x,)), plain])

    def gate(self, rows: int, width: int) -> None:
        """The gated unit between its products: one half through SiLU or GELU, times the other."""
        kind = self.precision.activations
        both, half = tensor(kind, rows, 2 * width), tensor(kind, rows, width)
        fused = part("GeGluV2" if self.gelu else "SwiGlu", (both,), (half,) * (1 + self.gelu))
        self.work.first_of([fused], [self._curve(half), part("Mul", (half, half), (half,))])

    def feed_forward(self, rows: int, hidden: int, width: int, *, plain: bool = False) -> None:
        """Up, gate and down; without a gate where the model has none."""
        self.product(rows, hidden, (1 + self.gated) * width, plain=plain)
        if self.gated:
            self.gate(rows, width)
        else:
            self.work.run(self._curve(tensor(self.precision.activations, rows, width)))
        self.product(rows, width, hidden, plain=plain)

    def _curve(self, x: TensorSpec) -> Part:
        return part("Gelu" if self.gelu else "Swish", (x,), (x,))
