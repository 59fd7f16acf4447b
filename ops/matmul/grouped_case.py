"""A call of products of groups: its lists of tensors, and how groups are told.

Source: hicann/ops-transformer gmm/grouped_matmul/op_host/op_api/aclnn_grouped_matmul.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from npusim.operators.contract import Call
    from npusim.values.tensors import TensorSpec

EACH, ROWS, SUMS = -1, 0, 2  # groupType: every tensor, rows of x, what is summed up
BY_LIST, BY_TENSOR = (1, 2), 3  # versions: groupList as numbers, from one on as a tensor


class Lists(NamedTuple):
    """The tensors of a call by parameter."""

    x: list[TensorSpec]
    weight: list[TensorSpec]
    bias: list[TensorSpec]
    scale: list[TensorSpec]
    offset: list[TensorSpec]
    factors: list[TensorSpec]
    shifts: list[TensorSpec]
    per_row: list[TensorSpec]
    y: list[TensorSpec]


@dataclass(frozen=True)
class Grouping:
    """A call with its lists, the version of the interface and how groups are told."""

    call: Call
    version: int
    lists: Lists

    @classmethod
    def of(cls, call: Call, version: int, *names: tuple[str, ...]) -> Grouping:
        """A call; `names` in the order of :class:`Lists`."""
        lists = Lists(*([spec for _, spec in call.given(*each)] for each in names))
        return cls(call, version, lists)

    def number(self, name: str, default: int) -> int:
        """An attribute, which not every version has."""
        value = self.call.arguments.get(name)
        return value if isinstance(value, int) else default

    @property
    def group_type(self) -> int:
        """What is split; the first version has no word for it: each of lists, else rows."""
        x, y, weight = (len(each) for each in (self.lists.x, self.lists.y, self.lists.weight))
        lists = (x > 1 and y > 1) or x == y == weight == 1
        return self.number("groupType", EACH if self.version == 1 and lists else ROWS)

    @property
    def split_item(self) -> int:
        """Whether y is one tensor (2, 3) or a list (0, 1)."""
        return self.number("splitItem", 0)

    @property
    def told(self) -> tuple[int, ...] | TensorSpec | None:
        """Where groups end."""
        if not self.call.is_given("groupListOptional"):
            return None
        if self.version in BY_LIST:
            return self.call.ints("groupListOptional")
        return self.call.spec("groupListOptional")
