"""From a specification to its points: every call on every product, each with a key of its content.

Two points have the same key only if the simulator answers both alike: the key covers operator,
arguments, the content of the chip's profile, how it is played, and npusim's version.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.hardware.loading import profile_names
from npusim.operators.arguments import bind, itemized, parameter_of
from npusim.operators.contract import TensorArg
from npusim.operators.oracle import contract_of
from npusim.reporting.renderers import jsonout
from npusim.runtime.cache_start import MODES
from npusim.runtime.device import Device
from npusim.values.errors import FileError, NpusimError, UnknownNameError, UsageError
from npusim.values.spelling import names_in, tensor_text, value_of, with_nulls
from npusim.values.templates import fill, variables_of

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.sweeping.spec import CallSpec, SweepSpec

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
            self._explained(f"{place}.op", contract_of, name, {})
            problems: list[str] = []
            for variables in settings:
                op, arguments, problem = self._arguments(place, name, call, variables)
                problems += [problem] if problem else []
                for chip, profile in chips.items():
                    yield self._point(op, profile.name, chip, call, variables, arguments, problem)
            if len(problems) == len(settings):
                raise FileError(
                    self.file, f"{place}: no point of {name} can be asked: {problems[0]}"
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

    def _arguments(
        self, place: str, name: str, call: CallSpec, variables: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any], str]:
        """Operator and arguments in one spelling, and what is wrong if they can't be read.

        Raises FileError for a parameter that the operator doesn't have: a misspelling.
        """
        given = dict(call.arguments)
        try:
            given |= {key: fill(template, variables) for key, template in call.arguments.items()}
            contract = contract_of(name, with_nulls(given))
            if contract is None:  # only the catalogue knows it, and judges text
                return name, with_nulls(given), ""
            values: dict[str, Any] = {}
            for key, value in itemized(contract, given):
                at = f"{place}.arguments.{key}"
                parameter = self._explained(at, parameter_of, contract, key)
                values[key] = value_of(key, parameter.kind, value)
            bound = bind(contract, values, require_data=False)
        except FileError:
            raise
        except NpusimError as problem:
            return name, given, str(problem).replace("\n", " ")
        spelled = {
            each: _spelled(value)
            for each, value in bound.items()
            if value is not None or contract.parameter(each).is_pointer
        }
        return contract.name, spelled, ""

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
        played = call.assume, self.spec.l2, self.spec.exact
        point = Point(0, "", op, soc, chip, variables, arguments, *played, problem)
        content = jsonout.fields(point, "op arguments assume chip l2 exact")
        return replace(point, key=_digest({"npusim": npusim.__version__, **content}))


def _spelled(value: Any) -> Any:
    if isinstance(value, TensorArg):
        return tensor_text(value.spec)
    return list(value) if isinstance(value, tuple) else value


def _distinct(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without repetitions, in order; their values may be lists."""
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())
