"""Products beside collectives: the product and what the ranks exchange, one after the other.

On the device one task does both, tile by tile; published times of the functions together (32 on
eight chips of A2) are those of both in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.hardware.interconnect import interconnect_of
from npusim.ops.collective.exchange import MOST_RANKS
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host


def all_reduced(
    host: Host, x: GlobalTensor, weight: GlobalTensor, bias: GlobalTensor | None = None,
    added: GlobalTensor | None = None, *, reduction: str = "sum",
) -> Any:  # fmt: skip
    """The sum of the products of all ranks; a bias and what is added count once."""
    ranks = _ranks(host, None)
    product = _product(host, x, _lying(host, weight), bias)
    found = host.run("HcomAllReduce", product, reduction=reduction, rank_size=ranks)
    return found if added is None else host.together("Add", found, added)


def reduced_and_normalised(
    host: Host, x: GlobalTensor, weight: GlobalTensor, bias: GlobalTensor | None,
    residual: GlobalTensor, gamma: GlobalTensor, *, epsilon: float, reduction: str = "sum",
) -> Any:  # fmt: skip
    """The sum of all products and what is left of the layers before, and that normalised."""
    found = all_reduced(host, x, weight, bias, reduction=reduction).view(*residual.shape)
    normed, _, total = host.run("AddRmsNorm", found, residual, gamma, epsilon=epsilon)
    return total, normed


def bytes_reduced(
    host: Host, x: GlobalTensor, weight: GlobalTensor, scale: GlobalTensor,
    bias: GlobalTensor | None = None, added: GlobalTensor | None = None,
    by_row: GlobalTensor | None = None, *, reduction: str = "sum",
) -> Any:  # fmt: skip
    """The sum of products of bytes, each scaled on its rank."""
    ranks, told = _ranks(host, None), host.told("output")
    matrix, turned = _lying(host, weight)
    out = host.empty((*x.shape[:-1], weight.shape[-1]), told.dtype if told else FLOAT16)
    given = (x, matrix, scale, None, bias, by_row)
    named = {"transpose_x1": False, "transpose_x2": turned}
    product = host.run("QuantBatchMatmulV3", *given, outputs=(out,), **named)
    found = host.run("HcomAllReduce", product, reduction=reduction, rank_size=ranks)
    return found if added is None else host.together("Add", found, added)


def gathered(
    host: Host, x: GlobalTensor, weight: GlobalTensor, bias: GlobalTensor | None = None,
) -> Any:  # fmt: skip
    """The product of the rows of all ranks, and these."""
    told = host.told("output")
    ranks = _ranks(host, None if told is None else told.shape[0] // max(1, x.shape[0]))
    kept = host.told("gatherOut") is not None
    outputs = (host.chain.output("gatherOut", x.dtype),) if kept else ()
    matrix = _lying(host, weight)
    rows = host.run("HcomAllGather", x, outputs=outputs, rank_size=ranks)
    return _product(host, rows, matrix, bias), rows


def scattered(
    host: Host, x: GlobalTensor, weight: GlobalTensor, bias: GlobalTensor | None = None, *,
    reduction: str = "sum",
) -> Any:  # fmt: skip
    """This rank's rows of the sum of the products of all ranks."""
    told = host.told("output")
    ranks = _ranks(host, None if told is None else x.shape[0] // max(1, told.shape[0]))
    product = _product(host, x, _lying(host, weight), bias)
    return host.run("HcomReduceScatter", product, reduction=reduction, rank_size=ranks)


def _ranks(host: Host, shown: int | None) -> int:
    """How many ranks there are, as shapes show or else as assumed; and what is assumed of them."""
    links = interconnect_of(host.profile.name)
    host.assume("the product and the collective follow one another, and ranks begin together")
    host.assume("all ranks have equal tensors, and this one is the first")
    if shown is not None:
        if not 1 <= shown <= MOST_RANKS:
            raise KernelError("", f"shapes of {shown} ranks")
        return shown
    sentence = f"{{value}} ranks on {links.title}"
    return int(host.chain.assumed("ranks", links.server_ranks, sentence, at_least=1,
        at_most=MOST_RANKS))  # fmt: skip


def _lying(host: Host, weight: GlobalTensor) -> tuple[GlobalTensor, bool]:
    """The matrix as it lies, and whether that is turned; no copy of it is made then."""
    lying, tasks = host.chain.turned_input("x2"), host.chain.tasks
    if lying is None:
        return weight, False
    tasks[:] = [each for each in tasks if all(y.buffer is not weight.buffer for y in each.writes)]
    return lying, True


def _product(
    host: Host, x: GlobalTensor, weight: tuple[GlobalTensor, bool], bias: GlobalTensor | None
) -> GlobalTensor:
    name, (matrix, turned) = f"MatMulV{host.profile.software.matmul_generation}", weight
    found: GlobalTensor = host.run(name, x, matrix, bias, transpose_x2=turned)
    return found
