"""What nodes of custom domains cost: a row of YAML or a Python function for each operator.

::

    operators:
      com.example.FancyNorm:    # domain and operator, as in the file
        op: LayerNorm           # costs like this operator of CANN
        inputs: [0, 1, 2]       # with these of its inputs; left out: all
        attributes: {begin_norm_axis: 1}
        shapes: [0]             # its outputs are shaped like these inputs, or [2, 64]
      com.example.Detect:
        duration_us: 120        # or takes this long, on every product
        shapes: [[1, 100, 6]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import ArgumentError, FileError, brief
from npusim.values.language import say
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from npusim.graph.network import Network, Node

GIVEN: Final = "duration_us"
"""The attribute of a node whose time the user gives."""


class CustomCost(BaseModel):
    """What one node costs: like `op` with some of its inputs, or `duration_us`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    op: str = Field("", description="an operator that it costs as much as")
    inputs: tuple[int, ...] | None = Field(
        None, description="places of the inputs that this one takes; all where it isn't said"
    )
    attributes: dict[str, Any] = Field(
        default_factory=dict, description="attributes of the operator"
    )
    duration_us: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="its time, where no operator is like it",
    )
    shapes: tuple[int | tuple[int, ...], ...] = Field(
        (), description="for each output the place of an input that it is like, or its sizes"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.op) == (self.duration_us is not None):
            raise ValueError(say("say either op or duration_us"))
        return self


Custom = CustomCost | Callable[[tuple[TensorSpec | None, ...], Mapping[str, Any]], CustomCost]
"""A cost, or a function of a node's input tensors and its attributes that returns one."""


def read_custom(file: Path) -> dict[str, CustomCost]:
    """The rows of a file, by domain and operator; FileError says what is wrong with it."""
    raw = yaml_mapping(read_text(file), str(file))
    rows = raw.get("operators")
    if set(raw) != {"operators"} or not isinstance(rows, Mapping) or not rows:
        raise FileError(
            file, say("has no operators"), say("Write operators: {com.example.Op: {op: ...}}.")
        )
    found = {}
    for name, row in rows.items():
        try:
            found[str(name)] = CustomCost.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, ("operators", name, *first["loc"])))
            raise FileError(file, f"{where}: {first['msg']}") from None
    return found


def cost_of(
    known: Custom, name: str, inputs: tuple[TensorSpec | None, ...], attributes: Mapping[str, Any]
) -> CustomCost:
    """The cost of one node; ArgumentError where a function gives none or names no such input."""
    try:
        cost = known if isinstance(known, CustomCost) else known(inputs, attributes)
    except Exception as error:
        problem = say("the function for {name} raised {kind}: {error}").format(
            name=name, kind=type(error).__name__, error=error
        )
        raise ArgumentError(problem, say("It gets the inputs and the attributes.")) from error
    if not isinstance(cost, CustomCost):
        raise ArgumentError(
            say("the function for {name} returned {cost}, no CustomCost").format(
                name=name, cost=brief(cost)
            )
        )
    places = (*(cost.inputs or ()), *(each for each in cost.shapes if isinstance(each, int)))
    for place in places:
        if not 0 <= place < len(inputs):
            raise ArgumentError(
                say("{name} has {count} inputs, none of them is number {place}").format(
                    name=name, count=len(inputs), place=place
                )
            )
    return cost


def apply(network: Network, custom: Mapping[str, Custom]) -> None:
    """Make the nodes that somebody says the cost of into what they cost like."""
    for node in network.named(*custom) if custom else ():
        _replace(network, node, custom[node.op])


def _replace(network: Network, node: Node, known: Custom) -> None:
    given = tuple(None if value is None else value.spec for value in node.inputs)
    cost = cost_of(known, node.op, given, node.attributes)
    if cost.duration_us is not None:
        attributes = {**node.attributes, GIVEN: cost.duration_us}
        network.replace([node], node.op, node.inputs, node.outputs, attributes)
        return
    places = range(len(node.inputs)) if cost.inputs is None else cost.inputs
    inputs = [node.inputs[place] for place in places]
    network.replace([node], cost.op, inputs, node.outputs, cost.attributes)
