"""The checks that operators share, and the run through an operator's checks.

Each constructor returns a `Check`. Null pointers and omitted outputs are skipped by every check but
`not_null`, because the null checks come first on every page. The core of each sentence is what CANN
prints (hicann/ops-math, operator error check header), so that a search for it finds both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from npusim.hardware import families
from npusim.operators.contract import POINTER_TYPES, Check, TensorArg
from npusim.values.formats import Format
from npusim.values.promotion import castable, promote
from npusim.values.status import Status, StatusCode
from npusim.values.tensors import TensorSpec, broadcastable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from npusim.operators.contract import Argument, Call, Finding, Parameter
    from npusim.values.dtypes import DType


MADE_FOR_OTHERS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What Python raises in a rule or a plan that wasn't made for such ranks, sizes or numbers."""


def note(what: str, error: Exception) -> None:
    """Tell developers (DEBUG) which mistake of ours an *unknown* hides; fuzzers listen."""
    import logging  # for mistakes of ours

    logging.getLogger(__name__).debug("%s raised", what, exc_info=error)


class Objection(NamedTuple):
    """Why a call is refused.

    `changes` are arguments that its remedy changes, maybe none that are known; None where nothing
    but the caller knows what to change.
    """

    status: Status
    changes: Mapping[str, Argument] | None = None


def objection(call: Call) -> Objection | None:
    """What the checks of the operator's definition object to, with a remedy that isn't tried.

    They run in order: the first that objects decides, a missing kernel comes last.
    """
    return objection_of(call, call.contract.checks) or no_kernel(call)


def objection_of(
    call: Call,
    checks: Iterable[Check],
    invalid: StatusCode = StatusCode.ACLNN_ERR_PARAM_INVALID,
) -> Objection | None:
    """What the first of some checks that objects says; a no goes before what isn't known.

    ``invalid`` is the interface's code for what else is 161002.
    """
    unknown = None
    for check in checks:
        try:
            finding = check.test(call)
        except MADE_FOR_OTHERS as error:
            note(f"a check of {call.contract.name}, {check.title!r}", error)
            sentence = f"Whether {check.title} can't be told of such tensors and attributes."
            unknown = unknown or Objection(Status.unknown(sentence), {})
            continue
        if finding is None:
            continue
        sentence, remedy, *changes = (finding, "") if isinstance(finding, str) else finding
        if check.code is None:
            unknown = unknown or Objection(Status.unknown(sentence, remedy), {})
            continue
        code = invalid if check.code is StatusCode.ACLNN_ERR_PARAM_INVALID else check.code
        status = Status(code, sentence, remedy)
        return Objection(status, changes[0] if changes else None)
    return unknown


def no_kernel(call: Call) -> Objection | None:
    """The objection of a product that the contract doesn't list."""
    if call.profile.family in call.contract.products:
        return None
    lacking = families.plural(call.profile.family)
    sentence = (
        f"{call.contract.name} has no kernel for {call.profile.name}: {lacking} don't offer it."
    )
    return Objection(Status(StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR, sentence), {})


def null_checks(checks: Iterable[Check]) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    """The checks of null pointers, which come first on every page, and the others."""
    sides: tuple[list[Check], list[Check]] = ([], [])
    for each in checks:
        sides[each.code is not StatusCode.ACLNN_ERR_PARAM_NULLPTR].append(each)
    return tuple(sides[0]), tuple(sides[1])


# Building blocks -------------------------------------------------------------------------------


def invalid(title: str, test: Callable[[Call], Finding]) -> Check:
    """A check that returns 161002 when `test` objects."""
    return Check(StatusCode.ACLNN_ERR_PARAM_INVALID, title, test)


def each_tensor(
    title: str, names: Sequence[str], objection: Callable[[Call, str, TensorSpec], Finding]
) -> Check:
    """A check that returns 161002 for the first tensor that `objection` objects to."""

    def test(call: Call) -> Finding:
        for name, spec in call.given(*names):
            if (finding := objection(call, name, spec)) is not None:
                return finding
        return None

    return invalid(title, test)


def unless(excused: Callable[[Call], bool], check: Check) -> Check:
    """`check`, but not for calls that are excused from it."""

    def test(call: Call) -> Finding:
        return None if excused(call) else check.test(call)

    return check._replace(test=test)


def any_empty(call: Call, *names: str) -> bool:
    """True when one of the given tensors is empty."""
    return any(spec.is_empty for _, spec in call.given(*names))


def sizes(shape: Iterable[int]) -> str:
    """``[2, 3]``, as the messages print shapes."""
    return f"[{', '.join(map(str, shape))}]"


def _or(names: Sequence[str]) -> str:
    return families.either(names) if names else "nothing"


# Null pointers ---------------------------------------------------------------------------------


def not_null(*names: str) -> Check:
    """161001 for a null pointer among `names`."""

    def test(call: Call) -> Finding:
        missing = (name for name in names if call.is_null(name))
        first = next(missing, None)
        return None if first is None else null_pointer(call.contract.parameter(first))

    return Check(StatusCode.ACLNN_ERR_PARAM_NULLPTR, f"{_or(names)} is a null pointer", test)


def not_all_null(*names: str) -> Check:
    """161001 where none of `names` is given."""

    def test(call: Call) -> Finding:
        if any(call.is_given(name) for name in names):
            return None
        return f"At least one of {_or(names)} must not be a null pointer."

    title = f"{_or(names)} are all null pointers"
    return Check(StatusCode.ACLNN_ERR_PARAM_NULLPTR, title, test)


def absent(*names: str) -> Check:
    """161002 for a tensor among `names`, which are reserved and have to be null."""

    def objection(_: Call, name: str, __: TensorSpec) -> Finding:
        return f"{name} is reserved and should be null.", f"Leave {name} out.", {name: None}

    return each_tensor(f"{_or(names)} isn't null", names, objection)


def null_pointer(parameter: Parameter) -> tuple[str, str]:
    """The objection to a null pointer."""
    name, wanted = parameter.name, POINTER_TYPES[parameter.kind]
    sentence = f"Expected a value of type {wanted} for argument {name} but instead found nullptr."
    return sentence, f"Give {name}."


def asked_for(call: Call, *outputs: str) -> tuple[str, ...]:
    """The outputs whose entries in outputMask are set."""
    return tuple(
        name for name, flag in zip(outputs, call.flags("outputMask"), strict=False) if flag
    )


def asked_not_null(*outputs: str) -> Check:
    """161001 for a null pointer among the outputs that outputMask asks for."""

    def test(call: Call) -> Finding:
        for name in asked_for(call, *outputs):
            if call.is_null(name):
                sentence, _ = null_pointer(call.contract.parameter(name))
                return sentence, f"Give {name}, or clear its entry in outputMask."
        return None

    title = "an output that outputMask asks for is a null pointer"
    return Check(StatusCode.ACLNN_ERR_PARAM_NULLPTR, title, test)


# Dtypes ----------------------------------------------------------------------------------------


def dtype_supported(*names: str) -> Check:
    """161002 for a dtype that the product doesn't take, by `Parameter.dtypes`."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        allowed = call.contract.parameter(name).dtypes_on(call.profile.family)
        if spec.dtype in allowed:
            return None
        listed = ", ".join(each.dt for each in allowed)
        sentence = (
            f"tensor {name} not implemented for {spec.dtype.dt} on {call.profile.name}, "
            f"should be in dtype support list [{listed}]."
        )
        return sentence, "", {}

    return each_tensor(f"the product doesn't take the dtype of {_or(names)}", names, objection)


def not_there(kind: DType, lacking: Sequence[str], *names: str) -> Check:
    """161002 for a dtype that an interface doesn't take on some product families."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.dtype is not kind or call.profile.family not in lacking:
            return None
        return f"{name} can't be {kind.dt} on {call.profile.name}.", "", {}

    title = f"{_or(names)} is {kind.dt} on {' or '.join(map(families.plural, lacking))}"
    return each_tensor(title, names, objection)


def same_dtype(reference: str, *names: str) -> Check:
    """161002 for a tensor among `names` whose dtype isn't that of `reference`."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        return different_dtype(call, reference, name, spec)

    return each_tensor(f"the dtype of {_or(names)} isn't that of {reference}", names, objection)


def different_dtype(call: Call, reference: str, name: str, spec: TensorSpec) -> Finding:
    """The objection to a tensor whose dtype isn't that of `reference`."""
    wanted = call.spec(reference).dtype
    if spec.dtype is wanted:
        return None
    found = f"{reference} {wanted.dt} and {name} {spec.dtype.dt}"
    return f"Expected both tensors to have same dtype, but found {found}.", "", {}


def promotable(output: str, *names: str) -> Check:
    """161002 when `names` have no common dtype, or when it can't be cast to that of `output`."""

    def test(call: Call) -> Finding:
        found = [(name, spec.dtype) for name, spec in call.given(*names)]
        common = promote(*(kind for _, kind in found))
        if common is None:
            listed = ", ".join(f"{name} {kind.dt}" for name, kind in found)
            return f"The dtypes of {listed} have no common type.", "", {}
        for name, spec in call.given(output):
            if not castable(common, spec.dtype):
                pair = f"{common.dt} can't be cast to the desired output type {spec.dtype.dt}"
                recast = {name: TensorArg(spec.recast(common))}
                return f"Result type {pair}.", f"Make {name} {common.name}.", recast
        return None

    return invalid(f"{families.every(names)} have no common dtype, or {output} can't hold it", test)


# Formats ---------------------------------------------------------------------------------------


def in_format(name: str, spec: TensorSpec, wanted: Format) -> tuple[str, dict[str, Argument]]:
    """The remedy of a tensor in another storage format."""
    described = TensorSpec(spec.shape, spec.dtype, wanted, spec.strides, spec.offset)
    return f"Describe {name} with format {wanted}.", {name: TensorArg(described)}


def same_format(reference: str, *names: str) -> Check:
    """161002 for a tensor among `names` whose stated storage format isn't that of `reference`."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = call.spec(reference).format
        if wanted is spec.format or Format.UNDEFINED in (wanted, spec.format):
            return None
        sentence = f"The format of {name} {spec.format} must equal {wanted}, that of {reference}."
        return sentence, *in_format(name, spec, wanted)

    title = f"the storage format of {_or(names)} isn't that of {reference}"
    return each_tensor(title, names, objection)


def format_is(wanted: Format, *names: str) -> Check:
    """161002 for a tensor among `names` that states another storage format."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.format in (wanted, Format.UNDEFINED):
            return None
        sentence = f"The format of {name} should be {wanted}, but got {spec.format}."
        return sentence, *in_format(name, spec, wanted)

    return each_tensor(f"the storage format of {_or(names)} isn't {wanted}", names, objection)


def format_is_not(banned: Format, *names: str) -> Check:
    """161002 for a tensor among `names` in the `banned` storage format."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.format is not banned:
            return None
        return f"The format {banned} of {name} is not supported.", *in_format(name, spec, Format.ND)

    return each_tensor(f"the storage format of {_or(names)} is {banned}", names, objection)


# Shapes ----------------------------------------------------------------------------------------


def rank_is(rank: int, *names: str) -> Check:
    """161002 for a tensor among `names` that hasn't `rank` dimensions."""
    return rank_in((rank,), *names)


def rank_in(ranks: Sequence[int], *names: str) -> Check:
    """161002 for a tensor among `names` whose number of dimensions is none of `ranks`."""
    wanted = families.either([str(rank) for rank in ranks])

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.rank in ranks:
            return None
        return f"Expected {wanted} dimension input, but got {name} with sizes {sizes(spec.shape)}."

    return each_tensor(f"{_or(names)} isn't {wanted}-dimensional", names, objection)


def rank_at_most(high: int, *names: str) -> Check:
    """161002 for a tensor among `names` with more than `high` dimensions."""

    def objection(_: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.rank <= high:
            return None
        return f"{name} with sizes {sizes(spec.shape)} cannot be larger than {high} dimensions."

    return each_tensor(f"{_or(names)} has more than {high} dimensions", names, objection)


def size_mismatch(name: str, got: Sequence[int], wanted: Sequence[int], of: str) -> Finding:
    """The objection to a shape that isn't the wanted one; `of` says what that is the shape of."""
    return None if tuple(got) == tuple(wanted) else _must_match(name, got, wanted, of)


def _must_match(name: str, got: Sequence[int], wanted: Sequence[int], of: str) -> str:
    return f"The size of tensor {name} {sizes(got)} must match the size of {of} {sizes(wanted)}."


def same_shape(reference: str, *names: str) -> Check:
    """161002 for a tensor among `names` whose shape isn't that of `reference`."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        return size_mismatch(name, spec.shape, call.spec(reference).shape, f"tensor {reference}")

    return each_tensor(f"the shape of {_or(names)} isn't that of {reference}", names, objection)


def broadcasts_to(reference: str, *names: str) -> Check:
    """161002 for a tensor among `names` that doesn't broadcast to the very shape of `reference`."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = call.spec(reference).shape
        if broadcastable(spec.shape, wanted):
            return None
        sentence = _must_match(name, spec.shape, wanted, f"tensor {reference}")
        return sentence, f"{name} may also have a shape that broadcasts to it."

    return each_tensor(f"{_or(names)} doesn't broadcast to {reference}", names, objection)


def counts_are(formula: str, *names: str) -> Check:
    """161002 for a tensor among `names` without `formula` elements (``N*C``: attributes)."""
    factors = formula.split("*")

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = math.prod(call.integer(factor) for factor in factors)
        if spec.numel == wanted:
            return None
        has = f"The size of tensor {name} {sizes(spec.shape)} ({spec.numel} elements)"
        return f"{has} must match {formula} = {wanted}."

    return each_tensor(f"{_or(names)} hasn't {formula} elements", names, objection)


# Attributes ------------------------------------------------------------------------------------


def length_is(length: int, *names: str) -> Check:
    """161002 for an aclIntArray or aclBoolArray among `names` without exactly `length` entries."""
    entries = f"{length} entry" if length == 1 else f"{length} entries"

    def test(call: Call) -> Finding:
        for name in names:
            array = call.arguments.get(name)
            if isinstance(array, tuple) and len(array) != length:
                return f"{name} should have {entries}, but got {len(array)}."
        return None

    return invalid(f"{_or(names)} hasn't {entries}", test)


def attribute_in(name: str, allowed: Sequence[int | str]) -> Check:
    """161002 when the attribute is given and none of `allowed`."""

    def test(call: Call) -> Finding:
        got = call.arguments.get(name)
        return None if got is None or got in allowed else f"{name} should be {said}, but got {got}."

    if isinstance(allowed, range):
        said = f"from {allowed[0]} to {allowed[-1]}"
        return invalid(f"{name} isn't {said}", test)
    said = f"in [{', '.join(map(str, allowed))}]"
    return invalid(f"{name} isn't {_or([str(each) for each in allowed])}", test)


def attribute_at_least(name: str, least: int) -> Check:
    """161002 when a number, or one in a list, is below `least`, or NaN."""

    def test(call: Call) -> Finding:
        value = call.arguments.get(name)
        for got in value if isinstance(value, tuple) else (value,):
            if isinstance(got, int | float) and not got >= least:
                return f"{name} should be at least {least}, but got {got}."
        return None

    return invalid(f"{name} is below {least}", test)
