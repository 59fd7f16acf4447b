"""Models written by hand: a YAML list of calls with counts, sizes given by variables.

::

    name: Detection head
    batch: 2                        # the default of {B}; leave it out if nothing depends on it
    variables: {C: 256, HW: "{64*64}"}
    calls:
      - op: aclnnGroupNormBackward  # an aclnn operator: arguments as on its page
        count: 4
        arguments:
          gradOut: bf16[{B},{C},{HW}]
          N: "{B}"
          outputMask: [true, true, true]
        weights: [gamma]            # arguments that stay on the device
      - op: Add                     # an operator type: tensors in, tensors out
        inputs: ["fp16[{B},{C},{HW}]", "fp16[{B},{C},{HW}]"]
        outputs: ["fp16[{B},{C},{HW}]"]
        weights: [1]                # places among the inputs

Further keys: `assume` and `attributes` of a call, `measured_us` of one that can't be simulated;
`host_dispatch_us`, `memory: {weights_bytes, activation_bytes}` of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from npusim.model.call_reading import Place, item_of
from npusim.model.step import Step
from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.values.errors import ArgumentError, NpusimError
from npusim.values.language import say
from npusim.values.templates import evaluate, fill, variables_of

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.hardware import Profile

BATCH_NAMES: Final = ("B", "batch")
_KEYS: Final = ("name", "batch", "variables", "calls", "host_dispatch_us", "memory")
_MEMORY_KEYS: Final = ("weights_bytes", "activation_bytes")


@dataclass(frozen=True)
class CallListModel:
    """A list of calls that can be unfolded for any batch."""

    file: Path
    raw: Mapping[str, Any]
    name: str
    batch: int | None

    def at(self, batch: int | None = None, chip: Profile | None = None) -> Step:
        """The step for a batch, or for the file's own.

        Raises ArgumentError for a batch where no size of the model depends on it.
        """
        del chip
        if batch is not None and self.batch is None:
            raise ArgumentError(
                say("{name} has no batch axis: no size in {file} depends on {{B}}").format(
                    name=self.name, file=self.file
                ),
                say("Write {B} where the batch belongs."),
            )
        if batch is not None and batch < 1:
            raise ArgumentError(
                say("the batch is {batch}; it must be at least 1").format(batch=batch)
            )
        place = Place(self.file)
        size = batch or self.batch
        variables = _variables(place, self.raw, size)
        filled = fill_all(self.raw["calls"], variables, place / "calls")
        items = tuple(item_of(place / f"calls[{index}]", raw) for index, raw in enumerate(filled))
        memory = _memory(place, self.raw, variables)
        return Step(
            self.name,
            "calls",
            items,
            size,
            memory.get("weights_bytes"),
            memory.get("activation_bytes"),
            _dispatch(place, self.raw),
        )


def read_calls(file: Path) -> CallListModel:
    """The model in a YAML file; FileError says which key is wrong."""
    raw = yaml_mapping(read_text(file), str(file))
    place = Place(file)
    place.know_the_keys(raw, _KEYS)
    calls = raw.get("calls")
    if not isinstance(calls, list) or not calls:
        raise (place / "calls").wrong(say("must be a list of calls with at least one entry"))
    batch = raw.get("batch", 1 if _mentions_batch(raw) else None)
    if batch is not None and (type(batch) is not int or batch < 1):
        raise (place / "batch").wrong(
            say("is {batch!r}; it must be a whole number of at least 1").format(batch=batch)
        )
    if batch is not None and not _mentions_batch(raw):
        batch = None
    model = CallListModel(file, raw, str(raw.get("name") or file.stem), batch)
    model.at()  # what is wrong with it is said now, not in the middle of a plan
    return model


def fill_all(value: object, variables: Mapping[str, int], place: Place) -> Any:
    """A value with all braces replaced; what YAML reads as ``{B: null}`` is an expression too."""
    try:
        if isinstance(value, str):
            return fill(value, variables)
        if isinstance(value, Mapping):
            if len(value) == 1 and (key := next(iter(value))) and value[key] is None:
                return _lone(str(key), value, variables)
            return {
                str(key): fill_all(each, variables, place / str(key)) for key, each in value.items()
            }
    except NpusimError as error:
        if getattr(error, "path", None) is not None:
            raise
        raise place.wrong(error.message, error.remedy) from error
    if isinstance(value, list):
        return [fill_all(each, variables, place.entry(index)) for index, each in enumerate(value)]
    return value


def _lone(key: str, value: Mapping[Any, Any], variables: Mapping[str, int]) -> object:
    """`N: {B}` without quotes is a mapping for YAML; a null pointer in a mapping stays one."""
    names = _names_in(f"{{{key}}}")
    if not names or not names <= set(variables):
        return dict(value)
    return evaluate(key, variables)


def _variables(place: Place, raw: Mapping[str, Any], batch: int | None) -> dict[str, int]:
    variables = {} if batch is None else dict.fromkeys(BATCH_NAMES, batch)
    given = raw.get("variables") or {}
    where = place / "variables"
    if not isinstance(given, Mapping):
        raise where.wrong(say("must be a mapping of names to whole numbers"))
    for name, value in given.items():
        if str(name) in BATCH_NAMES or not str(name).isidentifier():
            raise where.wrong(say("{name!r} can't be the name of a variable").format(name=name))
        number = fill_all(value, variables, where / str(name))
        if isinstance(number, str) and number.lstrip("-").isdecimal():
            number = int(number)
        if type(number) is not int:
            raise (where / str(name)).wrong(
                say("is {value!r}; it must be a whole number").format(value=value)
            )
        variables[str(name)] = number
    return variables


def _memory(
    place: Place, raw: Mapping[str, Any], variables: Mapping[str, int]
) -> dict[str, int | None]:
    given = raw.get("memory") or {}
    where = place / "memory"
    if not isinstance(given, Mapping):
        raise where.wrong(
            say("must have the keys {memory_keys}").format(memory_keys=", ".join(_MEMORY_KEYS))
        )
    where.know_the_keys(given, _MEMORY_KEYS)
    found: dict[str, int | None] = {}
    for key, value in given.items():
        number = fill_all(value, variables, where / key)
        if type(number) is not int or number < 0:
            raise (where / key).wrong(
                say("is {value!r}; it must be a whole number of bytes").format(value=value)
            )
        found[key] = number
    return found


def _dispatch(place: Place, raw: Mapping[str, Any]) -> float | None:
    value = raw.get("host_dispatch_us")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise (place / "host_dispatch_us").wrong(
            say("is {value!r}; it must be a number of at least 0").format(value=value)
        )
    return float(value)


def _names_in(text: str) -> set[str]:
    """The variables in braces; what can't be read is refused where it is filled."""
    try:
        return variables_of(text)
    except ArgumentError:
        return set()


def _mentions_batch(raw: object) -> bool:
    if isinstance(raw, str):
        return not _names_in(raw).isdisjoint(BATCH_NAMES)
    if isinstance(raw, Mapping):
        lone = len(raw) == 1 and next(iter(raw.values())) is None
        if lone and not _names_in(f"{{{next(iter(raw))}}}").isdisjoint(BATCH_NAMES):
            return True
        return any(map(_mentions_batch, raw.values()))
    return isinstance(raw, list) and any(map(_mentions_batch, raw))
