"""Instance normalisation of images in two kernels that take them as convolutions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.graph.mapping.rules import per_channel
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.graph.network import Network
    from npusim.graph.target import Target

_IMAGES = 4  # axes: what has others has no format of images


def run(network: Network, target: Target) -> int:
    """Sums of every plane, and the update with them, for images with constant parameters."""
    del target
    found = 0
    for node in network.named("InstanceNorm"):
        x, *parameters = node.given
        if len(x.shape) != _IMAGES or not all(value.weight for value in parameters):
            continue
        rows = [per_channel(network, value, _IMAGES) for value in parameters]
        planes = (*x.shape[:2], 1, 1)
        sums, statistics = (
            [network.value(x, shape=planes, dtype=FLOAT) for _ in range(2)] for _ in range(2)
        )
        outputs = [node.output, *statistics]
        done = network.replace(
            [node], "INTrainingUpdateV2", [x, *sums, *rows], outputs, node.attributes
        )
        network.add("INTrainingReduceV2", [x], sums, name=done.name, place=done.place - 0.5)
        found += 1
    return found
