"""Kernels on cube cores whose body is a function."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from npusim.ascendc import Core, GlobalTensor, Kernel

if TYPE_CHECKING:
    from support.kernels import Body


class Cubes(Kernel):
    """Runs ``body`` on cube cores."""

    op_type: str = "Probe"
    cores: ClassVar[Literal["vector", "cube"]] = "cube"

    def __init__(
        self, body: Body, *tensors: GlobalTensor, blocks: int = 1, alike: bool = False
    ) -> None:
        self.body, self.block_dim, self.alike = body, blocks, alike
        self.reads, self.writes = tensors, ()

    def block_kind(self, block_idx: int) -> Hashable:
        return 0 if self.alike else block_idx

    def process(self, core: Core) -> Any:
        return self.body(core)
