"""One kernel under the names of several operators."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from npusim.ascendc.kernel import Kernel

KernelT = TypeVar("KernelT", bound="Kernel")


def named(kind: type[KernelT], op_type: str) -> type[KernelT]:
    """The kernel class ``kind`` with another operator type."""
    return cast("type[KernelT]", _named(kind, op_type))


@cache
def _named(kind: type[Kernel], op_type: str) -> type[Kernel]:
    if kind.op_type == op_type:
        return kind
    return type(kind.__name__, (kind,), {"op_type": op_type, "__doc__": kind.__doc__})
