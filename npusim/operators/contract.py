"""What an aclnn operator promises: its parameters, products, checks in order, and output shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from npusim.hardware.families import FAMILIES
from npusim.values.dtypes import FLOAT, FLOAT16, DType
from npusim.values.formats import Format
from npusim.values.status import StatusCode, code_name
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    import numpy as np


T = TypeVar("T")

Kind = Literal[
    "tensor", "int_array", "bool_array", "float_array", "int64", "float", "double", "bool", "text",
    "scalar",
]  # fmt: skip

# The kinds that are pointers in C, so that a caller can hand over a null, by their type there.
POINTER_TYPES: Mapping[str, str] = {
    "tensor": "aclTensor",
    "int_array": "aclIntArray",
    "bool_array": "aclBoolArray",
    "float_array": "aclFloatArray",
    "scalar": "aclScalar",
}


class Chip(Protocol):
    """What the checks need to know of a hardware profile."""

    @property
    def name(self) -> str:
        """The SoC version, e.g. ``Ascend910B3``."""

    @property
    def family(self) -> str:
        """The product family that operator pages key on, e.g. ``A2``."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of the first phase, spelled as on the operator's page.

    `dtypes` lists what each product family takes, `rank` the least and greatest number of
    dimensions, `formats` the storage formats with the usual one first; all three concern tensors
    only. An `optional` parameter may be a null pointer; one with a `default` may not, but can be
    left out here. An input that `is_changed` is worked on in place. `aliases` are other spellings
    in headers and pages.
    """

    name: str
    kind: Kind
    io: Literal["in", "out"] = "in"
    dtypes: Mapping[str, tuple[DType, ...]] | None = None
    rank: tuple[int, int] = (0, 8)
    formats: tuple[Format, ...] = (Format.ND,)
    optional: bool = False
    default: float | None = None
    description: str = ""
    aliases: tuple[str, ...] = ()
    is_changed: bool = False

    @property
    def is_pointer(self) -> bool:
        """True when the argument can be null."""
        return self.kind in POINTER_TYPES

    def dtypes_on(self, family: str) -> tuple[DType, ...]:
        """The dtypes taken on `family`; for one that no page mentions, those taken anywhere."""
        lists = self.dtypes or {}
        if family in lists:
            return lists[family]
        return tuple(dict.fromkeys(each for taken in lists.values() for each in taken))


@dataclass(frozen=True, eq=False)
class TensorArg:
    """A tensor as a caller hands it over: its description and, when it has any, its data."""

    spec: TensorSpec
    data: np.ndarray[Any, Any] | None = None


Argument = (
    TensorArg | tuple[int, ...] | tuple[bool, ...] | tuple[float, ...]
    | int | float | complex | bool | str | None
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Call:
    """One first-phase call: an operator, a chip and bound arguments.

    An explicit null pointer is None in `arguments`; an output that the caller left to us is absent.
    The accessors assume an argument of the right kind: a TypeError from them is a bug in a check or
    plan that looks before the null checks ran.
    """

    contract: Contract
    profile: Chip
    arguments: Mapping[str, Argument]

    def is_null(self, name: str) -> bool:
        """True for a null pointer."""
        return name in self.arguments and self.arguments[name] is None

    def is_given(self, name: str) -> bool:
        """True for an argument that is there and not null."""
        return self.arguments.get(name) is not None

    def tensor(self, name: str) -> TensorArg:
        """The tensor called `name`."""
        return self._expect(name, TensorArg)

    def spec(self, name: str) -> TensorSpec:
        """The description of the tensor called `name`."""
        value = self.arguments.get(name)
        return value.spec if isinstance(value, TensorArg) else self.tensor(name).spec

    def given(self, *names: str) -> Iterator[tuple[str, TensorSpec]]:
        """Name and description of those tensors that are there."""
        for name in names:
            value = self.arguments.get(name)
            if value is not None:
                yield name, value.spec if isinstance(value, TensorArg) else self.tensor(name).spec

    def ints(self, name: str) -> tuple[int, ...]:
        """The entries of an aclIntArray."""
        return tuple(int(entry) for entry in self._expect(name, tuple))

    def flags(self, name: str) -> tuple[bool, ...]:
        """The entries of an aclBoolArray."""
        return tuple(bool(entry) for entry in self._expect(name, tuple))

    def integer(self, name: str) -> int:
        """An int64 attribute."""
        return self._expect(name, int)

    def number(self, name: str) -> float:
        """A float or double attribute, or a scalar that is a real number."""
        value = self.arguments.get(name)
        return float(value) if isinstance(value, int) else self._expect(name, float)

    def flag(self, name: str) -> bool:
        """A bool attribute."""
        return self._expect(name, bool)

    def _expect(self, name: str, kind: type[T]) -> T:
        value = self.arguments.get(name)
        if not isinstance(value, kind):
            problem = f"{self.contract.name}: {name} is no {kind.__name__} but {value!r}"
            raise TypeError(problem)
        return value


# What a check finds: nothing, the sentence that says what is wrong, that and a remark, or both and
# the arguments to change, where the remark is a remedy and has to be tried before it is printed.
Finding: TypeAlias = "str | tuple[str, str] | tuple[str, str, Mapping[str, Argument]] | None"


class Check(NamedTuple):
    """One rule of an operator: the code it returns, the rule in words, and the test.

    Without a code a call that fulfils the title may run or not: nobody says.
    """

    code: StatusCode | None
    title: str
    test: Callable[[Call], Finding]


class ReturnCode(NamedTuple):
    """One row of an operator's return-code table."""

    code: StatusCode
    name: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Typical:
    """A call as networks make it, which pages and reports take for an example.

    `words` describe it; `arguments` are those that an estimate needs, with its floating tensors in
    FLOAT.
    """

    words: str
    arguments: Mapping[str, object]

    def in_dtype(self, wanted: DType) -> dict[str, object]:
        """The arguments with the FLOAT tensors in another dtype."""
        return {name: _recast(value, wanted) for name, value in self.arguments.items()}


def _recast(value: object, wanted: DType) -> object:
    if isinstance(value, TensorSpec) and value.dtype is FLOAT:
        return value.recast(wanted)
    return value


# Queues the device tasks of an accepted call on a task chain, which knows contracts, not they it.
Plan = Callable[["Call", Any], None]


@dataclass(frozen=True)
class Contract:
    """Everything the first phase knows of an operator.

    `products` are the families that offer it. `checks` run in order and the first that objects
    decides. `infer_outputs` describes the outputs of a call that passed them. `is_empty` says
    whether the empty-tensor shortcut applies: success, no task, no workspace, nothing written.
    `plan` names the function that queues the tasks, as ``module:function`` in the operator's own
    folder, or is that function. `limits` and `notes` are sentences for readers, `typical` is a
    call to show them. `rules_source` cites the page or host code of which every rule is checked;
    empty where some may not be. One that isn't `has_kernels` is checked, and neither timed nor run.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    products: tuple[str, ...]
    checks: tuple[Check, ...]
    infer_outputs: Callable[[Call], dict[str, TensorSpec]]
    is_empty: Callable[[Call], bool] = lambda _: False
    plan: str | Plan = "plan:build"
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    typical: Typical | None = None
    rules_source: str = ""
    has_kernels: bool = True

    def parameter(self, name: str) -> Parameter:
        """The parameter called `name`; KeyError when there is none."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise KeyError(name)

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """Tensors and attributes that go in, in order."""
        return tuple(each for each in self.parameters if each.io == "in")

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        """Tensors that come out, in order."""
        return tuple(each for each in self.parameters if each.io == "out")

    def typical_dtypes(self, family: str) -> tuple[DType, ...]:
        """The dtypes that a family takes for the floating tensors of the typical call."""
        for name, value in (self.typical.arguments if self.typical else {}).items():
            if isinstance(value, TensorSpec) and value.dtype is FLOAT:
                return self.parameter(name).dtypes_on(family)
            if isinstance(value, TensorSpec) and value.dtype is FLOAT16:
                return (FLOAT16,)
        return ()

    def return_codes(self) -> tuple[ReturnCode, ...]:
        """The codes of the first phase with their reasons, in the order in which they are met."""
        reasons: dict[StatusCode, list[str]] = {
            StatusCode.ACLNN_ERR_PARAM_NULLPTR: ["workspaceSize or executor is a null pointer"]
        }
        for check in self.checks:
            if check.code is not None:
                reasons.setdefault(check.code, []).append(check.title)
        if not self.is_offered_everywhere:
            no_kernel = StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
            reasons.setdefault(no_kernel, []).append("the product doesn't offer the operator")
        return tuple(ReturnCode(code, code_name(code), tuple(why)) for code, why in reasons.items())

    @property
    def is_offered_everywhere(self) -> bool:
        """True when no product lacks the operator."""
        return set(self.products) >= set(FAMILIES)
