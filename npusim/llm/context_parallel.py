"""Decode context parallelism (DCP): ranks that would keep the same keys keep parts of sequences.

Before attention they gather each other's queries; what their parts come to is exchanged head by
head, and merged by the logarithms of sums.
Source: vllm-ascend docs/source/developer_guide/Design_Documents/context_parallel.md and
vllm_ascend/attention/context_parallel/common_cp.py, attention_cp.py, mla_cp.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.llm.work import part, tensor
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.llm.projections import Projections


def gather_queries(to: Projections, rows: int, width: int, ranks: int) -> None:
    """Every rank gets the queries of all: so many rows of `width` numbers of each."""
    nbytes = rows * width * to.precision.activations.itemsize
    to.work.exchange("allgather", ranks, nbytes, "queries")


def merge_ranks(to: Projections, rows: int, heads: int, size: int, ranks: int) -> None:
    """What the parts of all ranks come to, for the `heads` of each: in float32, with the sums."""
    kind, every = to.precision.activations, heads * ranks
    found, sums = tensor(kind, rows, every, size), tensor(FLOAT, rows, every, 1)
    wide, both = tensor(FLOAT, rows, every, size), tensor(FLOAT, rows, every, size + 1)
    turned = tensor(FLOAT, every, size + 1, rows)
    to.work.run(
        part("Cast", (found,), (wide,)),
        part("ConcatD", (wide, sums), (both,), concat_dim=2),
        part("Transpose", (both,), (turned,), perm=[1, 2, 0]),
    )
    to.work.exchange("alltoall", ranks, rows * every * (size + 1) * FLOAT.itemsize, "attention")
    to.work.run(part("Transpose", (turned,), (both,), perm=[2, 0, 1]))
    merge_parts(to, rows * heads, size, ranks)


def merge_parts(to: Projections, rows: int, size: int, parts: int) -> None:
    """Attention of so many parts of the keys as one."""
    sums, found = tensor(FLOAT, rows), tensor(FLOAT, rows, size)
    merged = tensor(to.precision.activations, rows, size)
    to.work.run(
        part("AttentionUpdate", (*(sums,) * parts, *(found,) * parts), (found,), update_type=0),
        part("Cast", (found,), (merged,)),
    )
