"""How long sequences are where tensors tell it, and where their queries and keys lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.ops.attention.heads import Heads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor


class Lengths(NamedTuple):
    """Queries and keys of each sequence, and where packed ones begin."""

    queries: NDArray[np.int64]
    keys: NDArray[np.int64]
    first_queries: NDArray[np.int64]
    first_keys: NDArray[np.int64]

    @classmethod
    def of(
        cls, query: GlobalTensor, key: GlobalTensor, table: GlobalTensor | None,
        own: GlobalTensor | None, theirs: GlobalTensor | None, layout: str,
    ) -> Lengths:  # fmt: skip
        """Those that tensors tell; without numbers all sequences are as long as they may be."""
        packed = layout == "TND"
        batch = own.numel if packed and own is not None else query.shape[0]
        if packed:
            queries = _parts(own, query.shape[0], batch)
            firsts = np.cumsum(queries) - queries
        else:
            queries = _told(own, batch, query.shape[1])
            firsts = np.arange(batch) * query.shape[1]
        if table is not None:
            keys = _told(theirs, batch, table.shape[-1] * key.shape[1])
            return cls(queries, keys, firsts, np.zeros(batch, np.int64))
        if packed:
            keys = _parts(theirs, key.shape[0], batch)
            return cls(queries, keys, firsts, np.cumsum(keys) - keys)
        keys = _told(theirs, batch, key.shape[1])
        return cls(queries, keys, firsts, np.arange(batch) * key.shape[1])

    @property
    def sequences(self) -> NDArray[np.int64]:
        """The sequence of every query."""
        return np.repeat(np.arange(len(self.queries)), self.queries)

    @property
    def within(self) -> NDArray[np.int64]:
        """The place of every query in its sequence."""
        firsts = np.cumsum(self.queries) - self.queries
        return np.arange(int(self.queries.sum())) - np.repeat(firsts, self.queries)

    def seen(self) -> NDArray[np.int64]:
        """Keys of its sequence that every query sees: the last one sees all."""
        beyond = np.repeat(self.keys - self.queries, self.queries)
        return np.clip(beyond + self.within + 1, 0, None)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row of every query in a tensor of them."""
        return np.repeat(self.first_queries, self.queries) + self.within

    def of_queries(self, tensor: GlobalTensor, first: int = 0, columns: int = 0) -> Heads:
        """Each query as a sequence whose rows are its heads, all of their columns or some."""
        heads, width = tensor.shape[-2:]
        starts = tuple((self.rows * heads * width + first).tolist())
        rows = (heads,) * len(starts)
        return Heads(tensor, 1, columns or width, rows, starts, 0, width)

    def of_keys(
        self, tensor: GlobalTensor, table: GlobalTensor | None, first: int = 0, columns: int = 0
    ) -> Heads:
        """The only head of keys, of every sequence, all of its columns or some."""
        width = tensor.shape[-1]
        if table is not None:
            flat = tensor.view(*tensor.shape[:2], width)
            return Heads.paged(flat, 1, table, self.keys.tolist())
        starts = tuple((self.first_keys * width + first).tolist())
        return Heads(tensor, 1, columns or width, tuple(self.keys.tolist()), starts, 0, width)


def _told(lengths: GlobalTensor | None, batch: int, most: int) -> NDArray[np.int64]:
    """What a tensor tells of every sequence, all of ``most`` where it doesn't."""
    if lengths is None or lengths.array is None:
        return np.full(batch, most, np.int64)
    found = lengths.array.reshape(-1).astype(np.int64)
    return np.minimum(np.broadcast_to(found, (batch,)) if len(found) == 1 else found[:batch], most)


def _parts(ends: GlobalTensor | None, total: int, batch: int) -> NDArray[np.int64]:
    """Lengths of packed sequences by their ends; about the same where these aren't known."""
    found = np.arange(1, batch + 1) * total // batch
    if ends is not None and ends.array is not None:
        found = ends.array.reshape(-1).astype(np.int64)
    return np.diff(found, prepend=0)
