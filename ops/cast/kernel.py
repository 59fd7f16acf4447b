"""Cast: one vconv per tile, several where the chip has no direct conversion."""

from __future__ import annotations

from npusim.schedules.formula_kernel import Compute, kernel_of

Cast = kernel_of(
    Compute("Cast", lambda _, x: x, raw=(0,)),
    "out = x in out's dtype, to nearest even where it rounds, toward zero where it's an integer.",
)
