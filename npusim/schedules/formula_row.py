"""A row of a table of operators: the formula, and what decides how its kernel works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from npusim.schedules.block_split import Axes
from npusim.schedules.formula import Term

if TYPE_CHECKING:
    from npusim.values.dtypes import DType

Results = Term | tuple[Term | None, ...]


@dataclass(frozen=True)
class Compute:
    """One row of a family's table.

    ``formula`` takes a :class:`Formula`, the operands (None where one is absent) and the
    ``attributes``, which are given with their defaults. ``half_in_float`` computes float16 in
    float32, or says of the attributes whether to; ``raw`` are operands that keep their dtype;
    operand ``typed_by`` decides what is computed in. ``result`` is the dtype of the results where
    it isn't that operand's. ``like`` are the operands that the results have the shape of, all of
    them if empty. ``numbers`` are
    operands that are single elements by definition; others are treated so where the result has
    more. ``cold`` are operands that nothing has used since the training step before, or long ago
    in this one, so that none of them is left in L2. ``axes`` says when the schedule fuses axes,
    ``buffers`` how many it counts where it deals out whole tiles. ``generated`` is false for those
    that the device has a kernel in Ascend C for. Integers of eight bits that wrap around are
    computed in ``wraps``. A result that nobody asked for is None and isn't stored.
    """

    op_type: str
    formula: Callable[..., Results]
    outputs: int = 1
    half_in_float: bool | Callable[[Mapping[str, object]], bool] = False
    raw: tuple[int, ...] = ()
    typed_by: int = 0
    result: DType | None = None
    like: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    axes: Axes = Axes.FUSED
    buffers: float = 0
    cold: tuple[int, ...] = ()
    generated: bool = True
    wraps: DType | None = None

    def in_float(self, attributes: Mapping[str, object]) -> bool:
        """Whether float16 is computed in float32, with these attributes and the usual others."""
        asked = self.half_in_float
        return asked if isinstance(asked, bool) else asked({**self.attributes, **attributes})
