"""An accepted call between its two phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.capi.runtime.memory import Block
    from npusim.capi.runtime.objects import Bound
    from npusim.runtime.call import Executor


@dataclass(eq=False)
class Planned:
    """An accepted call: what an aclOpExecutor stands for."""

    op: str
    arguments: dict[str, Any]
    executor: Executor
    bounds: dict[str, Bound]
    versions: dict[str, int] | None = None  # of the memory that the plan saw, if it saw any
    is_repeatable: bool = False

    @property
    def workspace_size(self) -> int:
        """Bytes that the call asked for."""
        return self.executor.workspace_size

    def blocks(self) -> list[tuple[str, Block]]:
        """The memory that the call's tensors are in, by their names."""
        return [(name, bound.block) for name, bound in self.bounds.items() if bound.block]

    def versions_now(self) -> dict[str, int]:
        """How often the memory of each tensor has been written."""
        return {name: block.version for name, block in self.blocks()}
