"""Fitting the constants that nobody publishes to measured rows, pulled towards what is published.

Every constant has a physical meaning and holds for all operators of a microarchitecture. The search
goes through the constants one after the other in ever smaller steps; it uses no random numbers, so
the same rows give the same digits. The loss is the mean absolute logarithm of simulated over
measured time, large errors capped (a row whose attributes are unknown must not decide anything),
every chip counting the same, plus the squared distance from the published values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npusim.hardware import Profile

_CAP = 0.5  # logarithm beyond which a row counts no further
_STEPS = (0.5, 0.2, 0.08)  # of a constant's range of trust, from coarse to fine


@dataclass(frozen=True)
class Constant:
    """A number to be fitted.

    Where it stands in the profile, what it is, how far to trust the published value.

    ``spread`` is the factor by which the truth may well differ from the published value; a share
    (between 0 and 1) is varied on a logistic scale.
    """

    key: str
    meaning: str
    spread: float
    share: bool = False

    def moved(self, value: float, step: float) -> float:
        """The value ``step`` spreads away."""
        if not self.share:
            return value * math.exp(step * math.log(self.spread))
        inner = min(max(value, 0.01), 0.99)
        return 1 / (1 + math.exp(-(math.log(inner / (1 - inner)) + step * self.spread)))

    def distance(self, value: float, published: float) -> float:
        """How many spreads ``value`` is from the published one."""
        if not self.share:
            return math.log(value / published) / math.log(self.spread)
        inner, outer = (min(max(each, 0.01), 0.99) for each in (value, published))
        return (math.log(inner / (1 - inner)) - math.log(outer / (1 - outer))) / self.spread


CONSTANTS: tuple[Constant, ...] = (
    Constant("launch.base_us", "time from launch to the first block's first instruction", 2.0),
    Constant("launch.per_block_us", "more time for each further block of a launch", 1.5),
    Constant("launch.kernel_head_cycles", "entry code of a kernel", 2.0),
    Constant("launch.tiling_head_cycles", "more of it in kernels for any shape", 1.5),
    Constant("launch.code_us", "wait for the code of a kernel of one block", 1.5),
    Constant("launch.code_per_block_us", "more of it for each further block", 1.5),
    Constant("launch.sync_all_us", "barrier over all cores", 2.0),
    Constant(
        "memory.hbm_sustained_fraction",
        "share of the nominal HBM bandwidth that streams get",
        1.5,
        share=True,
    ),
    Constant(
        "memory.l2_sustained_fraction",
        "share of the published L2 bandwidth that streams get",
        1.5,
        share=True,
    ),
    Constant(
        "memory.l2_in_graph_share",
        "share of L2 that holds a task's inputs inside a graph",
        2.0,
        share=True,
    ),
    Constant(
        "memory.l2_recent_share",
        "share of a task's inputs inside a graph that was used lately, as far as L2 holds it",
        1.5,
        share=True,
    ),
    Constant(
        "memory.l2_write_back_share",
        "written bytes that push modified bytes out, where a task of a graph streams",
        2.0,
        share=True,
    ),
    Constant("paths.gm_to_ub.latency_cycles", "from the end of a load to the use of its data", 2.0),
    Constant("paths.gm_to_ub.setup_cycles", "occupancy of MTE2 per load", 2.0),
    Constant("paths.gm_to_ub.burst_cycles", "MTE2 per further burst of a load", 3.0),
    Constant(
        "paths.ub_to_gm.latency_cycles", "from the end of a store to the reuse of its slot", 2.0
    ),
    Constant("paths.ub_to_gm.burst_cycles", "MTE3 per further burst of a store", 3.0),
    Constant("paths.ub_to_gm.ragged_burst_cycles", "MTE3 per burst that is no whole blocks", 1.5),
    Constant(
        "memory.atomic_rate_fraction", "rate of atomic stores against plain ones", 1.5, share=True
    ),
    Constant(
        "vector.start_scale",
        "start of vector instructions against the vendor's fit on dav-c220",
        1.5,
    ),
    Constant("vector.simple_scale", "repeats of simple vector instructions against that fit", 1.3),
    Constant(
        "vector.special_scale", "repeats of exp, ln, sqrt, rsqrt, rec and div against that fit", 2.0
    ),
)


@dataclass(frozen=True)
class Fit:
    """The outcome: fitted values by key, loss before and after, number of rows."""

    values: Mapping[str, float]
    published: Mapping[str, float]
    rows: int
    loss_before: float
    loss_after: float


def with_values(profile: Profile, values: Mapping[str, float]) -> Profile:
    """A copy of ``profile`` with some numbers (dotted keys) replaced."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *path, leaf = key.split(".")
        node = tree
        for name in path:
            node = node.setdefault(name, {})
        node[leaf] = value
    updated: Profile = _replaced(profile, tree)
    return updated


def _replaced(model: Any, tree: Mapping[str, Any]) -> Any:
    update = {
        name: _replaced(getattr(model, name), value) if isinstance(value, Mapping) else value
        for name, value in tree.items()
    }
    return model.model_copy(update=update)


def value_of(profile: Profile, key: str) -> float:
    """The number at a dotted key, 0 where the chip has none."""
    node: Any = profile
    for name in key.split("."):
        node = getattr(node, name)
    return float(node or 0.0)


def descend(
    constants: Sequence[Constant],
    published: Mapping[str, float],
    loss: Callable[[Mapping[str, float]], float],
    *,
    rows: int,
    weight: float = 0.002,
    progress: Callable[[str], None] | None = None,
) -> Fit:
    """Move ``constants`` from their ``published`` values to where ``loss`` is least.

    ``loss`` is asked for the error under values by key, of ``rows`` rows; ``weight`` prices a
    spread of distance from what is published. A constant that is 0 there stays so.
    """
    chosen = [each for each in constants if published[each.key]]
    start = {each.key: published[each.key] for each in chosen}
    values = dict(start)

    def pulled(trial: Mapping[str, float]) -> float:
        pull = sum(each.distance(trial[each.key], start[each.key]) ** 2 for each in chosen)
        return loss(trial) + weight * pull

    before = best = pulled(values)
    for step in _STEPS:
        for each in chosen:
            best = _search(each, step, values, best, pulled)
            if progress is not None:
                progress(f"step {step:g}, {each.key} = {values[each.key]:.4g}, loss {best:.4f}")
    return Fit(values, start, rows, before, best)


def capped_error(simulated_us: float, measured_us: float) -> float:
    """The absolute logarithm of simulated over measured time, large ones capped."""
    return min(_CAP, abs(math.log(simulated_us / measured_us)))


def _search(
    constant: Constant,
    step: float,
    values: dict[str, float],
    best: float,
    loss: Callable[[Mapping[str, float]], float],
) -> float:
    """Move one constant while that helps.

    Returns the loss reached and leaves the value in ``values``.
    """
    for direction in (1.0, -1.0):
        moved = False
        while True:
            trial = {**values, constant.key: constant.moved(values[constant.key], direction * step)}
            reached = loss(trial)
            if reached >= best - 1e-6:
                break
            values[constant.key], best, moved = trial[constant.key], reached, True
        if moved:
            break
    return best
