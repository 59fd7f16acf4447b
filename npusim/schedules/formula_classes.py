"""The kernel classes of rows, one for all rows that say the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from npusim.schedules.formula_kernel import FormulaKernel
from npusim.values.contents import digest_of

if TYPE_CHECKING:
    from npusim.schedules.formula_row import Compute


def kernel_of(
    row: Compute, doc: str = "", base: type[FormulaKernel] = FormulaKernel
) -> type[FormulaKernel]:
    """The kernel class of a row."""
    members = {name: getattr(row, name) for name in ("op_type", "axes", "buffers", "generated")}
    members |= {"row": row, "__doc__": doc or row.op_type}
    return type(row.op_type, (base,), members)


def kernel_of_call(row: Compute) -> type[FormulaKernel]:
    """The kernel class of a row that a call makes: one for all calls whose rows say the same.

    Only so are the streams and runs of its kernels found again.
    """
    try:
        return _kernel_named(_Named(row, digest_of(row)))
    except TypeError:  # something in it says nothing by itself
        return kernel_of(row)


@dataclass(frozen=True, slots=True)
class _Named:
    """A row, known by what it says."""

    row: Compute = field(compare=False)
    digest: str


@lru_cache(maxsize=1024)
def _kernel_named(named: _Named) -> type[FormulaKernel]:
    kind = kernel_of(named.row)
    kind.digest = named.digest
    return kind


def kernels_of_table(rows: tuple[Compute, ...]) -> dict[str, type[FormulaKernel]]:
    """The kernel classes of a table, by operator type."""
    return {row.op_type: kernel_of(row) for row in rows}
