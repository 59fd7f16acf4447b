"""What an operator is: its names, its parameters, and where its kernel and its rules are found.

Every folder of ``ops`` has a ``definitions.py`` with a tuple ``OPERATORS`` of such definitions.
They name the modules of kernels and contracts, so that looking a name up imports neither. Sources
of the parameters: operator prototypes of CANN 8.1.RC1 and operator definitions of hicann/ops-math
and hicann/ops-nn; headers of the aclnn interfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from npusim.values.errors import ArgumentError, expect
from npusim.values.takes import tells

if TYPE_CHECKING:
    from npusim.operators.contract import Contract
    from npusim.values.dtypes import DType
    from npusim.values.tensors import TensorSpec

    # From the inputs that are there and the attributes by the kernel's names to all results; none
    # where they don't tell, and None for a result that isn't asked for.
    Rule = Callable[[Sequence[TensorSpec], Mapping[str, Any]], Sequence[TensorSpec | None]]

# A constructor of checks, or one of shape_checks, and its arguments.
CheckRow = tuple[Any, ...]

AttributeKind = Literal["int", "float", "bool", "ints", "flags", "floats", "text", "scalar"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor parameter, or a list of them (``many``), which callers spell ``x0``, ``x1`` ...

    A ``blocked`` one is in FRACTAL_NZ and in nothing else.
    """

    name: str
    optional: bool = False
    many: bool = False
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """A parameter that is no tensor.

    ``target`` is what the kernel knows it by, empty where it decides nothing; ``only`` is the one
    value that is modelled, where there is but one; ``default`` what one is that is left out.
    """

    name: str
    kind: AttributeKind
    optional: bool = True
    target: str = ""
    only: float | None = None
    default: float | None = None


def page(folder: str, *interfaces: str) -> str:
    """How a page is cited: ``ops-math math/add``, and the interfaces that it describes."""
    named = "&".join(f"aclnn{each}" for each in interfaces)
    return f"hicann/{folder}/docs/{named}.md"


def _attribute(
    kind: AttributeKind, name: str, target: str | None, only: float | None = None
) -> Attribute:
    expect(name, str, "the name of a parameter")
    expect(target, (str, NoneType), "the kernel's name of a parameter")
    expect(only, (int, float, NoneType), "the only value of a parameter")
    plain = name.rstrip("?")
    own = "" if target is None or only is not None else target or plain
    return Attribute(plain, kind, name.endswith("?"), own, only)


def whole(name: str, target: str | None = "", *, only: int | None = None) -> Attribute:
    """A whole number; ``?`` behind a name marks what can be left out.

    ``target`` is the kernel's name for it where that is another, None where it decides nothing;
    ``only`` is the one value that is modelled.
    """
    return _attribute("int", name, target, only)


def real(name: str, target: str | None = "", *, only: float | None = None) -> Attribute:
    """A floating number; ``only`` is the one value that is modelled."""
    return _attribute("float", name, target, only)


def flag(name: str, target: str | None = "") -> Attribute:
    """A truth value."""
    return _attribute("bool", name, target)


def ints(name: str, target: str | None = "") -> Attribute:
    """A list of whole numbers."""
    return _attribute("ints", name, target)


def text(name: str, target: str | None = "") -> Attribute:
    """A word."""
    return _attribute("text", name, target)


def flags(name: str, target: str | None = "") -> Attribute:
    """A list of truth values."""
    return _attribute("flags", name, target)


def reals(name: str, target: str | None = "") -> Attribute:
    """A list of floating numbers: an aclFloatArray, or an aclScalarList."""
    return _attribute("floats", name, target)


def scalar(name: str, target: str | None = "", *, default: float | None = None) -> Attribute:
    """An aclScalar: a number of any kind, which takes part in the promotion of dtypes.

    Where ``target`` is a tensor of the kernel, it is that tensor with one element. One with a
    ``default`` can be left out here, but isn't null in C.
    """
    return replace(_attribute("scalar", name, target), default=default)


class Prototype:
    """A name with its parameters: tensors in the kernel's order, ``inputs -> outputs``.

    ``?`` behind a tensor marks one that can be left out, ``*`` a list, ``#`` one in FRACTAL_NZ,
    ``-`` alone an input of the kernel that callers don't give. An output called as an input is that
    tensor changed in place.
    """

    name: str
    tensors: str
    attributes: tuple[Attribute, ...]

    @property
    def is_known(self) -> bool:
        """False where no prototype is known: tensors are then taken in the order of the call."""
        return bool(self.tensors)

    @cached_property
    def inputs(self) -> tuple[Slot, ...]:
        """The inputs in the kernel's order."""
        return tuple(map(_slot, self.tensors.partition("->")[0].split()))

    @cached_property
    def outputs(self) -> tuple[Slot, ...]:
        """The outputs in the kernel's order."""
        return tuple(map(_slot, self.tensors.partition("->")[2].split()))


def _slot(word: str) -> Slot:
    name = word.rstrip("?*#")
    marks = word[len(name) :]
    optional = "?" in marks or name == "-"
    return Slot(name, optional=optional, many="*" in marks, blocked="#" in marks)


@dataclass(frozen=True)
class Aclnn(Prototype):
    """An aclnn interface that amounts to one operator type.

    ``in_place``: a second one, ``aclnnInplaceX``, changes its first input, which is ``selfRef``.
    ``also`` are interfaces that differ by name only. ``promoted`` computes in the dtype that the
    inputs and scalars have together, with Cast tasks for those of another; ``floating`` too, and in
    float32 where that would be whole numbers. ``host`` is a function of the family's module
    (``module:function``) for an interface that queues more than the one operator: see
    :class:`Composed`. ``into`` are outputs that C has no parameter for: each takes the memory of
    the input it is written next to, whose tensor is from then on in FRACTAL_NZ. ``rules`` cites the
    page or host code of which every rule is checked; without it some may not be. ``checks`` are
    what this interface asks beside what its operator does. ``note`` tells readers what would
    surprise them.
    """

    name: str
    tensors: str = "self -> out"
    attributes: tuple[Attribute, ...] = ()
    in_place: bool = False
    also: tuple[str, ...] = ()
    promoted: bool = False
    floating: bool = False
    host: str = ""
    into: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[CheckRow, ...] = ()
    rules: str = ""
    note: str = ""

    def spelled(self) -> Iterator[Aclnn]:
        """The interface under each of its names, and in place."""
        for name in (self.name, *self.also):
            yield replace(self, name=name, in_place=False, also=())
        if self.in_place:
            others = self.tensors.partition("->")[0].split()[1:]
            tensors = f"{' '.join(['selfRef', *others])} -> selfRef"
            name = self.name.replace("aclnn", "aclnnInplace", 1)
            yield replace(self, name=name, tensors=tensors, in_place=False, also=())


@tells
@dataclass(frozen=True)
class Operator(Prototype):
    """An operator type as profilers name it.

    ``also`` are operator types that differ by name only. ``kernel`` is what makes its kernels: a
    kernel class, a function from a task to kernels, or the name of one in the module that
    :func:`family` says (there or in its table ``KERNELS``), by default the operator's own.
    ``infer`` describes results that a call leaves out, where the kernel itself can't. ``parts``
    names the attribute that tells how many tensors an output list has, or several by whose product
    it goes (a flag counts twice); without it, as many as the first list of inputs. Errors of
    operators of one ``band_class`` are estimated together.
    ``checks`` are what a call must fulfil beside its dtypes, in order
    (npusim/operators/shape_checks.py), None for those of the module. ``dtypes`` lists what each
    product family takes, for every tensor, and ``most_axes`` how many dimensions; without them the
    catalogue says it. ``fused`` makes the kernels where elementwise operators follow in the same
    one (:mod:`npusim.operators.fusions`). ``package`` is where the module is.
    """

    name: str
    tensors: str = ""
    attributes: tuple[Attribute, ...] = ()
    aclnn: Aclnn | tuple[Aclnn, ...] = ()
    also: tuple[str, ...] = ()
    kernel: str | Callable[..., Any] = ""
    infer: Rule | None = None
    parts: str = ""
    band_class: str = ""
    checks: tuple[CheckRow, ...] | None = None
    dtypes: Mapping[str, tuple[DType, ...]] | None = None
    most_axes: int = 8
    fused: str = ""
    package: str = ""

    @property
    def has_type(self) -> bool:
        """False for one that is a sequence of others, which no device task is called by."""
        return not self.name.startswith("aclnn")

    @property
    def has_kernels(self) -> bool:
        """False for an interface of which only the rules are known."""
        return self.has_type or any(each.host for each in self.interfaces)

    @property
    def answers(self) -> bool:
        """True for one that compares: its result is BOOL, whatever is compared."""
        return isinstance(self.kernel, str) and self.kernel.startswith("comparison:")

    @property
    def interfaces(self) -> tuple[Aclnn, ...]:
        """The aclnn interfaces that amount to this operator."""
        given = (self.aclnn,) if isinstance(self.aclnn, Aclnn) else self.aclnn
        return tuple(each for one in given for each in one.spelled())

    def spelled(self) -> Iterator[Operator]:
        """The operator under each of its operator types."""
        yield self
        for name in self.also:
            yield replace(self, name=name, aclnn=(), also=())


@dataclass(frozen=True)
class Composed(Prototype):
    """An aclnn interface that is a sequence of operators, as its host code calls them.

    ``host`` is a function of the family's module: from a :class:`~npusim.operators.host.Host`, the
    inputs in the order of ``tensors`` (a list for a list) and the attributes by name to the
    results in order; without it only the rules of the interface are known, not its kernels. The
    other fields are those of an operator and its interface; results that a call leaves out are as
    the function makes them.
    """

    name: str
    tensors: str
    attributes: tuple[Attribute, ...] = ()
    host: str = ""
    in_place: bool = False
    also: tuple[str, ...] = ()
    checks: tuple[CheckRow, ...] = ()
    parts: str = ""
    into: Mapping[str, str] = field(default_factory=dict)
    rules: str = ""
    note: str = ""

    def as_operator(self, module: str) -> Operator:
        """The operator without a type that the interface stands for."""
        words = (self.name, self.tensors, self.attributes)
        interface = Aclnn(
            *words,
            self.in_place,
            self.also,
            host=f"{module}:{self.host}" if self.host else "",
            into=self.into,
            rules=self.rules,
            note=self.note,
        )
        return Operator(*words, interface, parts=self.parts, checks=self.checks)


@dataclass(frozen=True)
class Page:
    """An aclnn operator with a contract of its own, as its page describes it.

    ``contract`` is the contract, or ``module:attribute`` in the folder; ``aliases`` are other names
    of the operator.
    """

    name: str
    contract: str | Contract
    aliases: tuple[str, ...] = ()
    band_class: str = ""
    package: str = ""


Definition = Operator | Page

# What the fields of a definition may be, and the entries of those that are tuples.
_FIELDS: dict[str, Any] = {
    "name": str, "tensors": str, "attributes": tuple, "aclnn": (Aclnn, tuple), "also": tuple,
    "kernel": (str, Callable), "infer": (Callable, NoneType), "parts": str, "band_class": str,
    "checks": (tuple, NoneType), "dtypes": (Mapping, NoneType), "most_axes": int, "fused": str,
    "package": str, "aliases": tuple, "host": str, "into": Mapping, "rules": str,
}  # fmt: skip
_ENTRIES: dict[str, type] = {
    "attributes": Attribute, "aclnn": Aclnn, "also": str, "checks": tuple, "aliases": str,
}  # fmt: skip


def expect_definition(value: object) -> None:
    """ArgumentError for what is no definition, or one with a field of another kind."""
    expect(value, (Operator, Page), "a definition")
    _expect_fields(value)


def _expect_fields(value: Any) -> None:
    named = f"{type(value).__name__}({value.name!r})" if isinstance(value.name, str) else "a name"
    for each in fields(value):
        given = getattr(value, each.name)
        expect(given, _FIELDS.get(each.name, object), f"{each.name} of {named}")
        entries = given if isinstance(given, tuple) else (given,) * isinstance(given, Aclnn)
        for entry in entries if each.name in _ENTRIES else ():
            expect(entry, _ENTRIES[each.name], f"an entry of {each.name} of {named}")
            if isinstance(entry, Aclnn):
                _expect_fields(entry)
            if each.name == "checks" and not (entry and callable(entry[0])):
                raise ArgumentError(f"a check of {named} doesn't begin with a constructor")
    if not value.name.strip():
        raise ArgumentError("a definition without a name", "Name the operator.")


def family(
    band_class: str,
    *definitions: Definition,
    checks: Mapping[str, tuple[CheckRow, ...]] | None = None,
    fused: str = "",
    **modules: tuple[Operator | Composed, ...],
) -> tuple[Definition, ...]:
    """The definitions of a folder, operators by the module that has their kernels.

    Their errors are estimated together as ``band_class``; ``checks`` are those of each module's
    operators that name none themselves, ``fused`` what makes the kernels of all of them where
    elementwise operators follow.
    """
    for each in definitions:
        expect_definition(each)
    found = [replace(each, band_class=each.band_class or band_class) for each in definitions]
    expect(checks, (Mapping, NoneType), "checks")
    for module, operators in modules.items():
        expect(operators, (tuple, list), f"the operators of {module}")
        for row in operators:
            expect(row, (Operator, Composed), f"an operator of {module}")
            each = row.as_operator(module) if isinstance(row, Composed) else row
            kernel = each.kernel
            if isinstance(kernel, str):
                kernel = f"{module}:{kernel or each.name}"
            own = each.band_class or band_class
            checked = each.checks if each.checks is not None else (checks or {}).get(module)
            found.append(replace(each, band_class=own, kernel=kernel, checks=checked, fused=fused))
    return tuple(found)
