"""SPEC.yaml: which calls a sweep makes, with variables that move shapes and attributes together.

::

    products: [Ascend910A, Ascend910B3, Ascend310P3]   # or `all`; also the path of a profile
    axes:                            # every combination of their values
      dtype: [fp16, fp32]
      N: [1, 8, 32]
      C: {from: 64, to: 512, times: 2}
      HW: {from: 100, to: 1000, step: 100}
    calls:
      - op: GroupNormBackward        # or a list of operators that take the same arguments
        arguments:
          gradOut: "{dtype}[{N},{C},{HW}]"
          input: "{dtype}[{N},{C},{HW}]"
          mean: "{dtype}[{N},{C // 8}]"
          rstd: "{dtype}[{N},{C // 8}]"
          gamma: null
          N: "{N}"
          C: "{C}"
          HxW: "{HW}"
          group: "{C // 8}"
          outputMask: [true, true, true]
      - op: UpsampleNearestExact1dBackward
        points:                      # values that belong together, one point after another
          - {L: 128, out: 256}
          - {L: 100, out: 300}
        arguments: {...}

`axes`, `points` and `products` at the top hold for every call that uses them; a call may replace
them. `l2` and `exact` are those of `npusim estimate`, `assume` of a call too.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from npusim.hardware.groups import Group, as_tuple
from npusim.hardware.reading import problems_of
from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.runtime.cache_start import MODES
from npusim.values.errors import FileError, brief
from npusim.values.language import say

MAX_AXIS_VALUES = 100_000
"""More values than anybody would sweep along one axis: a range that long is a typing error."""

_AXIS = "a list of values, or {from, to, step} or {from, to, times} of whole numbers"
_PLAIN = (str, int, float, bool, type(None))


def _words(value: object) -> object:
    """One word stands for a list of one."""
    return (value,) if isinstance(value, str) else as_tuple(value)


def _axis(value: object) -> object:
    """The values of one axis: those of a list, or of a range with its end."""
    if isinstance(value, Mapping):
        return _range(value)
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise ValueError(f"{_AXIS}; it is empty")
    return tuple(_single(each) for each in values)


def _single(value: object) -> object:
    """One value of a variable."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, _PLAIN) for part in parts):
        raise ValueError("a number, a word, null or a list of these")
    return value


def _range(value: Mapping[Any, Any]) -> tuple[int, ...]:
    kinds = {"from", "to", "step"}, {"from", "to", "times"}
    if set(value) not in kinds or not all(type(part) is int for part in value.values()):
        raise ValueError(_AXIS)
    first, last = value["from"], value["to"]
    step, times = value.get("step", 0), value.get("times", 0)
    if last < first or (step < 1 and times < 2) or (times and first < 1):
        raise ValueError(
            f"{_AXIS}: `to` not below `from`, step at least 1, or times at least 2 from at least 1"
        )
    values: list[int] = []
    while first <= last:
        values.append(first)
        first = first + step if step else first * times
        if len(values) > MAX_AXIS_VALUES:
            raise ValueError(f"at most {MAX_AXIS_VALUES} values on one axis")
    return tuple(values)


def _name(value: object) -> object:
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError("a name of letters, digits and _ that doesn't begin with a digit")
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_words), Field(min_length=1)]
Variable = Annotated[str, BeforeValidator(_name)]
Values = Annotated[tuple[Any, ...], BeforeValidator(_axis)]
Axes = dict[Variable, Values]
Value = Annotated[Any, BeforeValidator(_single)]
Points = Annotated[tuple[dict[Variable, Value], ...], BeforeValidator(as_tuple)]


class CallSpec(Group):
    """One operator, or several with the same arguments; what it leaves out is the sweep's."""

    op: Words = Field(description="an operator, or several with the same arguments")
    arguments: dict[str, Any] = Field(
        description="name -> value or tensor, in which `{AXIS}` stands for a value of an axis"
    )
    axes: Axes = Field(default_factory=dict, description="axes of this call alone")
    points: Points = Field((), description="points of this call alone")
    products: Words | None = Field(None, description="products of this call alone")
    assume: dict[str, float] = Field(
        default_factory=dict, description="what data would decide, by name"
    )


class SweepSpec(Group):
    """A whole sweep, as its file says it."""

    calls: Annotated[tuple[CallSpec, ...], BeforeValidator(as_tuple), Field(min_length=1)] = Field(
        description="the calls to time"
    )
    products: Words = Field((), description="products to time them on; `all` is every chip")
    axes: Axes = Field(
        default_factory=dict,
        description="name -> values: a list, or first, last and step or factor; all are combined",
    )
    points: Points = Field((), description="values of axes that belong together")
    l2: str = Field("cold", description="what L2 holds when a call begins")
    exact: bool = Field(False, description="whether every instruction is played")

    @field_validator("l2")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in MODES:
            raise ValueError(f"one of {', '.join(MODES)}")
        return value


def read_spec(path: str | PathLike[str]) -> SweepSpec:
    """The sweep that a file describes.

    Raises FileError, which names every wrong key, its value and what is allowed there.
    """
    file = str(path)
    return spec_of(yaml_mapping(read_text(Path(path)), file), file)


def spec_of(said: Mapping[str, Any], file: str) -> SweepSpec:
    """The sweep that a mapping describes, as `read_spec`; `file` is what its errors call it."""
    try:
        return SweepSpec.model_validate(said)
    except ValidationError as error:
        lines = [
            f"{problem.key} is missing"
            if problem.allowed == say("a value; the key is required")
            else f"{problem.key} = {brief(problem.value)} is not allowed; "
            f"expected {problem.allowed}"
            for problem in problems_of(error, SweepSpec)
        ]
        raise FileError(file, f"\n{file}: ".join(lines)) from None
