"""Queues whose tiles have addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ascendc.flat.memory import Place
from npusim.ascendc.flat.station import Station
from npusim.ascendc.queues import TQue
from npusim.ascendc.tile_states import State

if TYPE_CHECKING:
    from npusim.ascendc.tile_states import Tile
    from npusim.values.dtypes import DType


class PlacedQue(TQue):
    """A queue of a program: its tiles are places, which the order of pipes is followed on.

    So a tile may pass through it again, or be freed without having passed, where flags say the
    same.
    """

    def _tensor(
        self, dtype: DType, shape: tuple[int, ...], part: object, tile: Tile | None = None
    ) -> Any:
        assert not shape
        assert isinstance(part, int)
        start, size = self.start + part * self._slot_bytes, self._slot_bytes
        station = Station.here()
        place = station.place(self.position, dtype, start, size, f"queue {self.name}")
        return Place(place.memory, dtype, place.start, place.limit, place.name, tile)

    def enque(self, tensor: Any) -> None:
        """The producer is done with the slot."""
        tile = tensor.tile
        if tile is not None and tile.state is State.DEQUEUED:
            tile.state = State.ALLOCATED
        super().enque(tensor)

    def release(self, tensor: Any) -> None:
        """The consumer is done with the slot, whether or not it came through the queue."""
        self.free_tensor(tensor, by=self.consumer)
