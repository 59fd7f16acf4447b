"""One call of a list: operator, count, tensors and attributes, with words for what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from npusim.model.step import AclnnWork, Item, Operation
from npusim.operators.arguments import bind, itemized, parameter_of
from npusim.operators.oracle import contract_of
from npusim.operators.tasks import TaskSpec
from npusim.reading.limits import MOST_CALLS
from npusim.values.errors import FileError, NpusimError
from npusim.values.language import say
from npusim.values.spelling import is_null, is_tensor, value_of, with_nulls
from npusim.values.suggest import did_you_mean
from npusim.values.tensors import TensorSpec, parse_tensor

_KEYS: Final = (
    "op",
    "count",
    "arguments",
    "inputs",
    "outputs",
    "attributes",
    "assume",
    "weights",
    "measured_us",
)


@dataclass(frozen=True)
class Place:
    """Where in which file we are reading, for the messages."""

    file: Path
    key: str = ""

    def __truediv__(self, key: str) -> Place:
        """The place of a key inside this one."""
        return Place(self.file, f"{self.key}.{key}" if self.key else key)

    def entry(self, index: int) -> Place:
        """The place of an entry of this list."""
        return Place(self.file, f"{self.key}[{index}]")

    def wrong(self, problem: str, remedy: str = "") -> FileError:
        """The error for what is wrong here."""
        text = f"{self.key}: {problem}" if self.key else problem
        return FileError(self.file, text, remedy)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What is wrong within is wrong here."""
        try:
            yield
        except NpusimError as error:
            raise self.wrong(error.message, error.remedy) from error

    def know_the_keys(self, raw: Mapping[Any, Any], known: Sequence[str]) -> None:
        """Refuse a key that nobody reads."""
        for key in raw:
            if key not in known:
                hint = did_you_mean(str(key), known) or say("Known: {known}.").format(
                    known=", ".join(known)
                )
                raise self.wrong(say("unknown key {key!r}").format(key=key), hint)


def item_of(place: Place, raw: object) -> Item:
    """The item that one entry of the list describes."""
    if not isinstance(raw, Mapping):
        raise place.wrong(say("must be a call: op, count, arguments or inputs and outputs"))
    place.know_the_keys(raw, _KEYS)
    op = raw.get("op")
    if not isinstance(op, str) or not op.strip():
        raise (place / "op").wrong(
            "names no operator", say("Write e.g. op: aclnnGroupNormBackward.")
        )
    tensors = "inputs" in raw or "outputs" in raw
    if tensors == ("arguments" in raw):
        raise place.wrong(
            say(
                "needs either arguments (an aclnn operator) or inputs and "
                "outputs (an operator type)"
            )
        )
    measured_us = _time(place / "measured_us", raw.get("measured_us"))
    count = _count(place / "count", raw.get("count", 1))
    work = _task(place, op.strip(), raw) if tensors else _call(place, op.strip(), raw)
    name = work.op if isinstance(work, AclnnWork) else work.op_type
    operation = Operation(name, work, weights=_weights(place, raw, work))
    return Item(operation, count, measured_us)


def _call(place: Place, op: str, raw: Mapping[str, Any]) -> AclnnWork:
    if not isinstance(raw["arguments"], Mapping):
        raise (place / "arguments").wrong(say("must be a mapping of parameters to values"))
    given = raw["arguments"]
    with (place / "op").explained():
        contract = contract_of(op, with_nulls(given))
    assume = _assumed(place / "assume", raw.get("assume"))
    if contract is None:
        return AclnnWork(op, _catalogued(place / "arguments", given), assume)
    arguments: dict[str, object] = {}
    for name, value in itemized(contract, given):
        with (place / f"arguments.{name}").explained():
            parameter = parameter_of(contract, str(name))
            arguments[parameter.name] = value_of(parameter.name, parameter.kind, value)
    with (place / "arguments").explained():
        bind(contract, arguments, require_data=False)
    return AclnnWork(contract.name, arguments, assume)


def _catalogued(place: Place, given: Mapping[str, Any]) -> dict[str, object]:
    """The arguments of an operator that only the catalogue knows: tensors, else the words."""
    found: dict[str, object] = {}
    for name, value in with_nulls(given).items():
        if isinstance(value, str) and is_tensor(value):
            found[name] = _tensor(place / name, value)
        else:
            found[name] = value
    return found


def _tensor(where: Place, value: object) -> TensorSpec:
    if not isinstance(value, str):
        raise where.wrong(
            say("{value!r} is no tensor").format(value=value),
            say("Write DTYPE[SIZES], e.g. fp16[8,64]."),
        )
    with where.explained():
        return parse_tensor(value)


def _task(place: Place, op: str, raw: Mapping[str, Any]) -> TaskSpec:
    sides: dict[str, list[TensorSpec | None]] = {}
    for side in ("inputs", "outputs"):
        listed = raw.get(side, [])
        if not isinstance(listed, list):
            raise (place / side).wrong(say("must be a list of tensors"))
        sides[side] = [
            None if is_null(each) else _tensor((place / side).entry(index), each)
            for index, each in enumerate(listed)
        ]
    outputs = tuple(spec for spec in sides["outputs"] if spec is not None)
    if not outputs and not any(sides["inputs"]):
        raise place.wrong("has no tensors")
    attributes = raw.get("attributes") or {}
    if not isinstance(attributes, Mapping):
        raise (place / "attributes").wrong(say("must be a mapping of names to values"))
    return TaskSpec(op, tuple(sides["inputs"]), outputs, dict(attributes))


def _weights(
    place: Place, raw: Mapping[str, Any], work: AclnnWork | TaskSpec
) -> tuple[TensorSpec, ...]:
    where, listed = place / "weights", raw.get("weights") or []
    if not isinstance(listed, list):
        raise where.wrong(say("must be a list of parameters, or of places among the inputs"))
    found = []
    for each in listed:
        spec: object = None
        if isinstance(work, AclnnWork):
            name = str(each)
            if work.contract is not None:
                with where.explained():
                    name = parameter_of(work.contract, name).name
            spec = work.arguments.get(name)
        elif type(each) is int and 0 <= each < len(work.inputs):
            spec = work.inputs[each]
        if not isinstance(spec, TensorSpec):
            raise where.wrong(say("{each!r} is no tensor among the inputs").format(each=each))
        found.append(spec)
    return tuple(found)


def _count(where: Place, value: object) -> int:
    if type(value) is not int or not 1 <= value <= MOST_CALLS:
        raise where.wrong(
            say("{value!r} is no whole number from 1 to {most_calls:,}").format(
                value=value, most_calls=MOST_CALLS
            )
        )
    return value


def _time(where: Place, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise where.wrong(say("{value!r} is no positive time in microseconds").format(value=value))
    return float(value)


def _assumed(where: Place, value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise where.wrong(say("must be a mapping of names to numbers"))
    for name, number in value.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise (where / str(name)).wrong(say("{number!r} is no number").format(number=number))
    return {str(name): float(number) for name, number in value.items()}
