"""The backend `npusim` of torch.compile: it hears of every graph that Dynamo captures.

torch runs them as ever. Where Python breaks a model into several graphs, each is a model by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from npusim.graph import from_torch
from npusim.model.model import Model
from npusim.values.errors import UsageError
from npusim.values.takes import takes

if TYPE_CHECKING:
    from npusim.model.results import StepResult

_OPTIONS: Final = ("soc", "mode")


@dataclass
class Compiled:
    """The graphs that `torch.compile(..., backend="npusim")` has seen, in their order."""

    models: list[Model] = field(default_factory=list)

    @takes()
    def estimate(self, soc: str) -> list[StepResult]:
        """A step of each on a chip, as `npusim.Model.estimate`; times of graphs add up."""
        return [each.estimate(soc) for each in self.models]

    def clear(self) -> None:
        """Forget them."""
        self.models.clear()


COMPILED: Final = Compiled()
"""What has been captured in this process."""


def backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend `npusim` of torch.compile: the graph runs as ever, and npusim knows it.

    ``options={"soc": "910b3"}`` also logs its time (logger `npusim`); `mode` is eager or graph.
    """
    for key in (options or {}).keys() - set(_OPTIONS):
        raise UsageError(f"unknown option {key!r} of the backend npusim", f"Known: {_OPTIONS}.")
    asked = dict(options or {})
    program = from_torch(module, *inputs, name=f"graph {len(COMPILED.models)}")
    model = Model.read(program, mode=asked.get("mode"))
    COMPILED.models.append(model)
    if soc := asked.get("soc"):
        logging.getLogger("npusim").warning("%s", model.estimate(soc))
    forward: Callable[..., Any] = module.forward
    return forward
