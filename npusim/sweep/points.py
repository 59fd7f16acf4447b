"""From a specification to its points: every call on every product, each with a key of its content.

Two points have the same key only if the simulator answers both alike: the key covers operator,
arguments, the content of the chip's profile, how it is played, and npusim's version.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.hardware.loading import profile_names
from npusim.operators.arguments import bind
from npusim.operators.contract import TensorArg
from npusim.operators.registry import operator
from npusim.report import jsonout
from npusim.runtime.cache_start import MODES
from npusim.runtime.device import Device
from npusim.sweep.templates import fill, variables_of
from npusim.values.errors import ArgumentError, FileError, NpusimError, UnknownNameError, UsageError
from npusim.values.formats import Format
from npusim.values.spelling import names_in
from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Contract
    from npusim.sweep.spec import CallSpec, SweepSpec
    from npusim.values.tensors import TensorSpec

MAX_POINTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Point:
    """One call on one chip: `axes` are the variables that led to it, `chip` its profile's hash.

    Tensors among the arguments are text (``FLOAT16[2,64]``); `problem` says why the call can't
    even be asked, and is empty for nearly all.
    """

    index: int
    key: str
    op: str
    soc: str
    chip: str
    axes: Mapping[str, Any]
    arguments: Mapping[str, Any]
    assume: Mapping[str, float]
    l2: str
    exact: bool
    problem: str = ""


@dataclass(frozen=True)
class Sweep:
    """The points of a specification in its order, each once, and the chips by their hash.

    `notes` are what a reader should know about how names were understood.
    """

    points: tuple[Point, ...]
    chips: Mapping[str, Profile]
    axes: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all points."""
        return frozenset(point.key for point in self.points)


def expand(
    spec: SweepSpec,
    file: str = "the sweep",
    *,
    products: Sequence[str] = (),
    l2: str | None = None,
    exact: bool | None = None,
) -> Sweep:
    """All points of a specification; `products`, `l2` and `exact` replace its own if given.

    Raises a UsageError that names file and key for an operator, parameter, chip or variable that
    doesn't exist, and for a call none of whose points can be asked.
    """
    if l2 is not None and l2 not in MODES:
        raise UnknownNameError("state of L2", l2, MODES)
    changes = {"l2": l2, "exact": exact or None}
    spec = spec.model_copy(update={key: each for key, each in changes.items() if each is not None})
    builder = _Builder(spec, file, tuple(products))
    points: dict[str, Point] = {}
    for number, call in enumerate(spec.calls):
        for point in builder.points_of(f"calls.{number}", call):
            if point.key not in points:
                points[point.key] = replace(point, index=len(points))
            if len(points) > MAX_POINTS:
                raise FileError(file, f"gives more than {MAX_POINTS:,} points", "Shorten an axis.")
    builder.refuse_unused()
    return Sweep(
        tuple(points.values()), builder.chips, builder.axes, tuple(dict.fromkeys(builder.notes))
    )


def content_hash(profile: Profile) -> str:
    """A hash of every number of a profile, with sources and confidences."""
    return _digest(profile.model_dump(mode="json"))


def _digest(value: object) -> str:
    text = json.dumps(jsonout.plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class _Builder:
    """Expands one call after the other, and remembers the chips and variables they use."""

    spec: SweepSpec
    file: str
    products: tuple[str, ...]
    chips: dict[str, Profile] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    used: dict[str, None] = field(default_factory=dict)

    @property
    def axes(self) -> tuple[str, ...]:
        """The variables that points have, in the order in which they are first met."""
        return tuple(self.used)

    def points_of(self, place: str, call: CallSpec) -> Iterator[Point]:
        """The points of one call: operators, then variables, then products."""
        settings = list(self._settings(place, call))
        chips = self._chips_of(place, call)
        for name in call.op:
            contract = self._explained(f"{place}.op", operator, name)
            self._know_parameters(f"{place}.arguments", contract, call)
            problems: list[str] = []
            for variables in settings:
                arguments, problem = _arguments(contract, call, variables)
                problems += [problem] if problem else []
                for chip, profile in chips.items():
                    yield self._point(
                        contract.name, profile.name, chip, call, variables, arguments, problem
                    )
            if len(problems) == len(settings):
                raise FileError(
                    self.file, f"{place}: no point of {contract.name} can be asked: {problems[0]}"
                )

    def refuse_unused(self) -> None:
        """Raise FileError for a variable of the whole sweep that no call uses: a misspelling."""
        shared = [*self.spec.axes, *(name for point in self.spec.points for name in point)]
        for name in shared:
            if name not in self.used:
                raise FileError(
                    self.file, f"{name}: no argument uses this variable", f"Write {{{name}}}."
                )

    def _settings(self, place: str, call: CallSpec) -> Iterator[dict[str, Any]]:
        """Every combination of the variables that the call uses."""
        wanted = self._explained(f"{place}.arguments", variables_of, [*call.arguments.values()])
        axes = {**self.spec.axes, **call.axes}
        rows = call.points or self.spec.points
        known = {*axes, *(name for row in rows for name in row)}
        own = [*call.axes, *(name for row in call.points for name in row)]
        for name in own:
            if name not in wanted:
                raise FileError(
                    self.file,
                    f"{place}: no argument uses the variable {name}",
                    f"Write {{{name}}}.",
                )
        missing = sorted(wanted - known)
        if missing:
            raise FileError(
                self.file,
                f"{place}.arguments: the variable {missing[0]} has no values",
                f"Known: {', '.join(sorted(known)) or 'none'}. Give it values under `axes`.",
            )
        listed = _distinct({k: v for k, v in row.items() if k in wanted} for row in rows) or [{}]
        grid = {name: axes[name] for name in axes if name in wanted}
        self.used.update(dict.fromkeys([*(name for row in listed for name in row), *grid]))
        if len(listed) * math.prod(map(len, grid.values())) > MAX_POINTS:
            raise FileError(self.file, f"{place} gives more than {MAX_POINTS:,} points")
        for row in listed:
            if lacking := wanted - {*row, *grid}:
                problem = f"{place}: the point {row} has no {min(lacking)}"
                raise FileError(self.file, problem)
            free = {name: values for name, values in grid.items() if name not in row}
            for values in itertools.product(*free.values()):
                yield {**row, **dict(zip(free, values, strict=True))}

    def _chips_of(self, place: str, call: CallSpec) -> dict[str, Profile]:
        """The chips of a call by their hash, in the order in which they are named."""
        names = self.products or call.products or self.spec.products
        if not names:
            raise FileError(
                self.file, f"{place} has no products", "Write `products: [Ascend910B3]`, or -s."
            )
        key = f"{place}.products" if call.products else "products"
        found: dict[str, Profile] = {}
        for name in names_in(names, profile_names):
            device = Device(name) if self.products else self._explained(key, Device, name)
            self.notes += [device.note] if device.note else []
            found[content_hash(device.profile)] = device.profile
        self.chips |= found
        return found

    def _know_parameters(self, place: str, contract: Contract, call: CallSpec) -> None:
        """Refuse a misspelled parameter; what the values are worth is judged point by point."""
        names = [
            spelling for each in contract.parameters for spelling in (each.name, *each.aliases)
        ]
        for name in call.arguments:
            if name not in names:
                known = ", ".join(each.name for each in contract.parameters)
                raise FileError(
                    self.file,
                    f"{place}.{name}: {contract.name} has no such parameter",
                    f"{did_you_mean(name, names)} It has {known}.".strip(),
                )

    def _explained(self, key: str, read: Any, *values: Any) -> Any:
        """What `read` gives, with file and key in front of the message if it objects."""
        try:
            return read(*values)
        except UsageError as problem:
            raise FileError(self.file, f"{key}: {problem.message}", problem.remedy) from problem

    def _point(
        self,
        op: str,
        soc: str,
        chip: str,
        call: CallSpec,
        variables: Mapping[str, Any],
        arguments: Mapping[str, Any],
        problem: str,
    ) -> Point:
        content = {
            "npusim": npusim.__version__,
            "op": op,
            "arguments": arguments,
            "assume": call.assume,
            "chip": chip,
            "l2": self.spec.l2,
            "exact": self.spec.exact,
        }
        return Point(
            index=0,
            key=_digest(content),
            op=op,
            soc=soc,
            chip=chip,
            axes=variables,
            arguments=arguments,
            assume=call.assume,
            l2=self.spec.l2,
            exact=self.spec.exact,
            problem=problem,
        )


def _arguments(
    contract: Contract, call: CallSpec, variables: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """The arguments in one spelling, and what is wrong with them if they can't be read."""
    filled: dict[str, Any] = {}
    try:
        for name, template in call.arguments.items():
            filled[name] = fill(template, variables)
        filled = {name: _number(contract, name, value) for name, value in filled.items()}
        bound = bind(contract, filled, require_data=False)
    except NpusimError as problem:
        return {**call.arguments, **filled}, str(problem).replace("\n", " ")
    return {name: _spelled(value) for name, value in bound.items()}, ""


def _number(contract: Contract, name: str, value: Any) -> Any:
    """YAML takes 1e-5 for text, which nobody expects."""
    kinds = {
        spelling: each.kind
        for each in contract.parameters
        for spelling in (each.name, *each.aliases)
    }
    if not isinstance(value, str) or kinds[name] not in {"float", "double"}:
        return value
    try:
        return float(value)
    except ValueError:
        raise ArgumentError(f"{name}={value} is not a number") from None


def _spelled(value: Any) -> Any:
    if isinstance(value, TensorArg):
        return _tensor_text(value.spec)
    return list(value) if isinstance(value, tuple) else value


def _tensor_text(tensor: TensorSpec) -> str:
    """A contiguous tensor as `parse_tensor` reads it."""
    text = f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"
    return text if tensor.format is Format.UNDEFINED else f"{text}:{tensor.format.name}"


def _distinct(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without repetitions, in order; their values may be lists."""
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())
