"""Serving: the curves and batches of a plan's models on one product, and whether they can work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.capacity.fleet import Stream
from npusim.capacity.results import MemoryFit, ModelOnProduct
from npusim.capacity.units import US_PER_MS
from npusim.values.errors import ArgumentError, UnknownNameError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.capacity.boards import Board
    from npusim.capacity.plan import ModelPlan, ProductPlan, WorkloadPlan
    from npusim.capacity.service import End, LatencySource, ServiceCurve


class Conflict(NamedTuple):
    """Why a limit can't be kept even by an idle fleet, and what would help."""

    message: str
    remedy: str


def served_models(
    workload: WorkloadPlan,
    product: ProductPlan,
    board: Board,
    latencies: LatencySource | None,
    limit_us: float,
) -> tuple[ModelOnProduct, ...]:
    """Every model of the workload with its curve on the product and its largest batch.

    Raises `ArgumentError` for a batch beyond the curve, and whatever the latency source raises.
    """
    return tuple(
        _served(workload, model, curve_of(model, product, board, latencies), board, limit_us)
        for model in workload.models
    )


def curve_of(
    model: ModelPlan, product: ProductPlan, board: Board, latencies: LatencySource | None
) -> ServiceCurve:
    """The model's curve on a product: written in the plan, or from the source for a reference."""
    if model.curve is not None:
        return model.curve.curve()
    if model.curves is not None:
        for name in (product.product, board.name, board.soc):
            if name in model.curves:
                return model.curves[name].curve()
        raise UnknownNameError(
            say("product in the curves of model {name!r}:").format(name=model.name),
            product.product,
            model.curves,
        )
    if latencies is None:
        raise ArgumentError(
            say("model {name!r} refers to {reference!r}, and nothing is there to time it").format(
                name=model.name, reference=model.reference
            ),
            say("Give the plan a curve, or evaluate it with a latency source."),
        )
    return latencies.curve(model, board)


def conflict(
    models: Sequence[ModelOnProduct], board: Board, limit_us: float, end: End = "estimate"
) -> Conflict | None:
    """Why no number of cards keeps the limit, or None.

    A fleet has quiet minutes, in which batches fill slowly.  So a request that waits as long as it
    may and then runs in a full batch has to be in time; else the plan would hold at the peak and
    break in the valley.
    """
    limit = say("the limit is {ms}").format(ms=_ms(limit_us))
    for model in models:
        single_us = model.batch_us(1, end)
        if single_us > limit_us:
            return Conflict(
                say(
                    "one request of model {name!r} takes {ms} on an idle {board}, and {limit}"
                ).format(name=model.name, ms=_ms(single_us), board=board.name, limit=limit),
                say("No number of cards helps; a limit above {ms} can be met.").format(
                    ms=_ms(single_us)
                ),
            )
        batch_us = model.batch_us(model.requests_per_batch, end)
        if batch_us > limit_us:
            return Conflict(
                say(
                    "a full batch of {max_batch} items of model {name!r} takes {ms} on {board}, "
                    "and {limit}"
                ).format(
                    max_batch=model.max_batch,
                    name=model.name,
                    ms=_ms(batch_us),
                    board=board.name,
                    limit=limit,
                ),
                say("max_batch: {largest_within} would fit.").format(
                    largest_within=_largest_within(model, limit_us, end)
                ),
            )
        if model.max_wait_us + batch_us > limit_us:
            return Conflict(
                say(
                    "a request of model {name!r} may wait {ms} for its batch, which then takes "
                    "up to {batch_ms} on {board}, and {limit}"
                ).format(
                    name=model.name,
                    ms=_ms(model.max_wait_us),
                    batch_ms=_ms(batch_us),
                    board=board.name,
                    limit=limit,
                ),
                say("max_wait_ms up to {limit_us:.4g} would fit.").format(
                    limit_us=(limit_us - batch_us) / US_PER_MS
                ),
            )
    return None


def streams_of(models: Sequence[ModelOnProduct], end: End = "estimate") -> tuple[Stream, ...]:
    """The models as the fleet simulation takes them, at one end of their band."""
    return tuple(
        Stream(
            model.name,
            (0.0, *(model.batch_us(requests, end) for requests in _requests(model))),
            model.share,
            model.max_wait_us,
        )
        for model in models
    )


def memory_fit(models: Sequence[ModelOnProduct], board: Board) -> MemoryFit | None:
    """All models at their largest batch on one device, or None where a number is missing."""
    needs = [model.curve.at(model.max_batch).memory_bytes for model in models]
    known = [size for size in needs if size is not None]
    if len(known) < len(needs) or board.memory_bytes_per_device is None:
        return None
    return MemoryFit(sum(known), board.memory_bytes_per_device)


def _served(
    workload: WorkloadPlan, model: ModelPlan, curve: ServiceCurve, board: Board, limit_us: float
) -> ModelOnProduct:
    batching = workload.batching_of(model)
    wanted = batching.max_batch or model.items_per_request
    if wanted > curve.max_batch:
        raise ArgumentError(
            say(
                "model {name!r} is to run batches of {wanted} items on {board}, where its "
                "latency is known for up to {max_batch}"
            ).format(name=model.name, wanted=wanted, board=board.name, max_batch=curve.max_batch),
            say("Time larger batches, or set max_batch to {max_batch} or less.").format(
                max_batch=curve.max_batch
            ),
        )
    max_wait_us = batching.max_wait_ms * US_PER_MS
    stated = batching.max_batch is not None
    chosen = (
        wanted if stated else _best_batch(model.items_per_request, curve, limit_us, max_wait_us)
    )
    return ModelOnProduct(
        model.name, model.share, model.items_per_request, chosen, max_wait_us, stated, curve
    )


def _best_batch(items: int, curve: ServiceCurve, limit_us: float, max_wait_us: float) -> int:
    """The batch with the highest throughput that is in time behind another batch of its kind."""
    sizes = range(items, curve.max_batch + 1, items)
    within = [size for size in sizes if max_wait_us + 2 * curve.latency_us(size) <= limit_us]
    return max(within, key=lambda size: (curve.throughput_per_s(size), -size), default=items)


def _largest_within(model: ModelOnProduct, time_us: float, end: End) -> int:
    fitting = [
        requests for requests in _requests(model) if model.batch_us(requests, end) <= time_us
    ]
    return max(fitting) * model.items_per_request


def _ms(time_us: float) -> str:
    return f"{time_us / US_PER_MS:.4g} ms"


def _requests(model: ModelOnProduct) -> range:
    return range(1, model.requests_per_batch + 1)
