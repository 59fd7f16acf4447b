"""What the catalogue says of a call: the dtypes of operators whose definitions list none."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from npusim.catalogue import facts, judging, names, wording
from npusim.catalogue.question import Question, ask
from npusim.catalogue.verdicts import Answer, Evidence, Verdict
from npusim.hardware import load_profile, profile_names
from npusim.hardware.families import FAMILIES
from npusim.hardware.products import product_lines
from npusim.operators import memory
from npusim.operators.checks import dtype_supported, null_checks
from npusim.operators.contract import TensorArg
from npusim.operators.registry import definition, has_kernel, is_fused, prototype
from npusim.values.dtypes import BFLOAT16, FLOAT16, DType, dtype
from npusim.values.errors import ArgumentError, UnknownNameError, brief
from npusim.values.formats import Format
from npusim.values.language import say
from npusim.values.spelling import is_null, is_tensor
from npusim.values.status import Action, StatusCode
from npusim.values.tensors import TensorSpec, parse_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from npusim.catalogue.families import Place
    from npusim.catalogue.names import Subject
    from npusim.catalogue.verdicts import ParameterVerdict
    from npusim.operators.contract import Call, Check, Chip, Contract, Parameter
    from npusim.operators.definition import Operator, Prototype
    from npusim.operators.tasks import TaskSpec

_PREFIX = "aclnn"
_INVALID = StatusCode.ACLNN_ERR_PARAM_INVALID


class _Asked(NamedTuple):
    """A tensor as the catalogue judges it: its dtype, empty for none, None for a null pointer."""

    name: str
    io: str
    kind: str | None


def verdict(call: Call) -> Verdict | None:
    """The verdict on the dtypes of a call; None where the catalogue doesn't know the operator."""
    name, chip = call.contract.name, call.profile
    subject = _subject(name)
    if subject is None or chip.family not in FAMILIES:
        return None
    asked = []
    for each in call.contract.parameters:
        if each.kind == "tensor":
            given = call.arguments.get(each.name, "")
            none = None if given is None else ""
            kind = given.spec.dtype.name if isinstance(given, TensorArg) else none
            asked.append(_Asked(each.name, each.io, kind))
    place = chip.family, chip.name
    return _verdict(facts.catalogue(), subject, name, place, tuple(asked))


@facts.remembered
def _verdict(
    known: facts.Catalogue,
    subject: Subject,
    name: str,
    place: tuple[str, str],
    asked: tuple[_Asked, ...],
) -> Verdict:
    """The first refusal of the questions about a call of ``name``, else what the first gets."""
    verdicts = (
        judging.judge(known, subject, question)
        for question in _questions(subject, name, place, asked)
    )
    first = next(verdicts)
    refused = (each for each in (first, *verdicts) if each.code == _INVALID)
    return next(refused, first)


def unlisted(call: Call) -> judging.Offer | None:
    """What speaks for an interface on a product that its page doesn't list; mostly None."""
    subject = _subject(call.contract.name)
    if subject is None or subject.kind != names.API or call.profile.family not in FAMILIES:
        return None
    offer = judging.offer_of(facts.catalogue(), subject.name, call.profile.family)
    return offer if offer.notes == judging.UNLISTED else None


def described(verdict: Verdict, name: str) -> ParameterVerdict | None:
    """What a verdict on an interface says of a tensor of the call, or of the list that it is in."""
    own = _known(facts.catalogue(), verdict.subject, name) or ""
    return next((each for each in verdict.parameters if each.name.lower() == own.lower()), None)


def as_coded(api: str, checks: Iterable[Check]) -> tuple[Check, ...]:
    """Checks of shapes and attributes with the code that the interface's page gives for them."""
    code = judging.code_of_shapes(api)
    return tuple(each._replace(code=code) if each.code == _INVALID else each for each in checks)


def as_listed(contract: Contract) -> Contract:
    """A contract with what the catalogue lists, for people to read: nothing else asks it.

    Products, and for each the dtypes of every tensor, ranks and formats, and the check of dtypes
    where the interface makes it: behind that of null pointers. As it is where the definition lists
    dtypes itself, or the catalogue doesn't know the operator.
    """
    subject = _subject(contract.name)
    if subject is None or any(parameter.dtypes for parameter in contract.parameters):
        return contract
    known = facts.catalogue()
    verdicts = [judging.judge(known, subject, Question(family)) for family in FAMILIES]
    offering = [each for each in verdicts if each.answer is not Answer.REJECTED]
    parameters = tuple(
        _as_listed(each, offering, is_api=subject.kind == names.API) for each in contract.parameters
    )
    tensors = [each.name for each in parameters if each.dtypes]
    if not tensors:
        return contract
    nulls, others = null_checks(contract.checks)
    return replace(
        contract,
        parameters=parameters,
        products=tuple(each.family for each in offering),
        checks=(*nulls, dtype_supported(*tensors), *as_coded(contract.name, others)),
    )


def _as_listed(parameter: Parameter, verdicts: Sequence[Verdict], *, is_api: bool) -> Parameter:
    """A tensor, or the first of a list, with its dtypes on each product, its ranks and formats.

    Of an interface's page that gives a tensor no dtypes, it is one that has to be left out.
    """
    called = {parameter.name.lower(), parameter.name.rstrip("0123456789").lower()}
    found = [
        (verdict.family, each)
        for verdict in verdicts
        for each in (verdict.parameters if parameter.kind == "tensor" else ())
        if each.name.lower() in called
    ]
    paged = any(each.page for _, each in found) or not is_api
    lists = {family: tuple(map(dtype, each.accepted)) for family, each in found}
    if not any(lists.values()) or not paged:
        return parameter
    ranks = [int(number) for _, each in found for number in re.findall(r"\d+", each.rank)]
    formats = dict.fromkeys(kind for _, each in found for kind in _formats(each.formats))
    lists = {verdict.family: lists.get(verdict.family, ()) for verdict in verdicts}
    return replace(
        parameter,
        dtypes=lists,
        rank=(min(ranks), max(ranks)) if ranks else parameter.rank,
        formats=tuple(formats) or parameter.formats,
    )


def _formats(names: Sequence[str]) -> list[Format]:
    return [Format[name] for name in names if name in Format.__members__]


def task_verdict(task: TaskSpec, chip: Chip) -> Verdict | None:
    """The same for a recorded task, whose tensors have places but no names.

    None for an operator whose definition says itself what it takes. What was fused runs where each
    part does.
    """
    if is_fused(task.op_type):
        from npusim.operators.fusions import unfused  # kernels, which dtypes need not wait for

        return _worst(task_verdict(part, chip) for part in unfused(task))
    if has_kernel(task.op_type) and definition(task.op_type).dtypes is not None:
        return None
    subject = _subject(task.op_type)
    if subject is None or chip.family not in FAMILIES:
        return None
    inputs, outputs = (
        tuple(spec.dtype.name if spec else "" for spec in side)
        for side in (task.inputs, task.outputs)
    )
    question = Question(chip.family, chip.name, inputs=inputs, outputs=outputs)
    return judging.judge(facts.catalogue(), subject, question)


def _worst(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The verdict on what does all of it: a refusal first, then what isn't known."""
    found = list(verdicts)
    order = (Answer.REJECTED, None, Answer.UNKNOWN, Answer.SUPPORTED)
    return min(found, key=lambda each: order.index(each and each.answer), default=None)


def judged(name: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The arguments that the catalogue judges by: tensors, but neither attributes nor nulls."""
    if _defined(name):
        return tuple(each for each, value in arguments.items() if not is_null(value))
    return tuple(_kinds(names.find(facts.catalogue(), name), arguments))


def by_name(
    name: str, place: Place, arguments: Mapping[str, object]
) -> tuple[Verdict, tuple[Action, ...]]:
    """The verdict on any name that the catalogue knows, and the ways out that its remedy names.

    Tensors and dtypes, or the text of either, are judged, null pointers where the page tabulates
    combinations; attributes are set aside. Raises UnknownNameError or AmbiguousNameError for a
    name, ArgumentError for a value.
    """
    if defined := _defined(name):
        return _by_definition(*defined, place, arguments), ()
    subject = names.find(facts.catalogue(), name)
    kinds = _kinds(subject, arguments)
    absent = tuple(name for name, value in arguments.items() if is_null(value))
    question = replace(ask(place, dict(kinds.values())), absent=absent)
    verdict = judging.answer(facts.catalogue(), subject, question)
    if verdict.answer is not Answer.REJECTED:
        tensors = {each: spec for each, (_, spec) in kinds.items() if isinstance(spec, TensorSpec)}
        chip = place.profile
        if chip is None and place.soc in profile_names():  # else a family, or a chip without one
            chip = load_profile(place.soc)
        status = None if chip is None else memory.status_of(tensors, chip)
        if status is None:
            return verdict, ()
        refused = replace(
            verdict, answer=Answer.REJECTED, why=status.message.rstrip("."), code=status.code
        )
        return refused, ()
    chips = (line.soc for line in product_lines() if line.family in verdict.supported_by)
    actions = [Action(soc_version=chip) for chip in chips]
    if judging.fp16_helps(facts.catalogue(), subject, question):
        half = {each: _half(kind) for each, (_, kind) in kinds.items()}
        actions.insert(0, Action({each: kind for each, kind in half.items() if kind}))
    return verdict, tuple(actions)


def _defined(name: str) -> tuple[Operator, Prototype] | None:
    """An operator that says itself which products take it, as those of engines do."""
    found = prototype(name)
    return None if found is None or found[0].dtypes is None else found


def _by_definition(
    operator: Operator, called: Prototype, place: Place, arguments: Mapping[str, object]
) -> Verdict:
    taken = operator.dtypes or {}
    source = getattr(called, "rules", "")
    families = tuple(taken)
    tensors = {each.name.lower() for each in (*called.inputs, *called.outputs)}
    kinds = {
        each: _kind(each, value)
        for each, value in arguments.items()
        if each.lower() in tensors and not is_null(value)
    }
    answer, code = Answer.SUPPORTED, StatusCode.ACLNN_SUCCESS
    why = say("its definition lists the product")
    if place.family not in taken:
        answer, code = Answer.REJECTED, StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
        why = say("its definition doesn't list the product")
    for each, given in kinds.items() if not code else ():
        kind = given.dtype if isinstance(given, TensorSpec) else given
        if kind not in taken[place.family]:
            listed = ", ".join(one.name for one in taken[place.family])
            answer, code = Answer.REJECTED, _INVALID
            why = say("{name} is {kind}, but takes {listed}").format(
                name=each, kind=kind.name, listed=listed
            )
    said = Answer.SUPPORTED if place.family in taken else Answer.REJECTED
    return Verdict(
        called.name, names.OPERATOR, place.family, place.soc, answer, why, code,
        evidence=(Evidence("operator information", said, say("its definition"), source),),
        supported_by=families,
        remedy=wording.remedy(families) if code and code != _INVALID else "",
    )  # fmt: skip


def _half(kind: TensorSpec | DType) -> TensorSpec | DType | None:
    """The same in FLOAT16, if it is BFLOAT16."""
    if isinstance(kind, TensorSpec):
        return kind.recast(FLOAT16) if kind.dtype is BFLOAT16 else None
    return FLOAT16 if kind is BFLOAT16 else None


def _subject(name: str) -> Subject | None:
    """What a contract's name is in the catalogue: an API, or an operator type."""
    known = facts.catalogue()
    if not name.startswith(_PREFIX):
        return names.operator_named(known, name)
    api = known.api_named(name.lower())
    if api in known.paged_apis:
        return names.Subject(names.API, api, (api,))
    kernel = prototype(name)  # an API of the headers alone: its kernel is all that is known
    return names.operator_named(known, kernel[0].name) if kernel else None


def _question(
    subject: Subject, called: str, place: tuple[str, str], asked: Sequence[_Asked]
) -> Question:
    """Tensors by name where the page has these names, else by their places."""
    sides = {io: [each for each in asked if each.io == io] for io in ("in", "out")}
    inputs, outputs = (tuple([each.kind or "" for each in side]) for side in sides.values())
    placed = Question(*place, inputs=inputs, outputs=outputs)
    ordered = [each for side in sides.values() for each in side]
    if subject.kind != names.API:
        if called.startswith(_PREFIX):  # its tensors aren't called as the operator's
            return placed
        return replace(placed, named={each.name: each.kind for each in ordered if each.kind})
    known, api = facts.catalogue(), subject.apis[0]
    named = {_known(known, api, name) or "": kind for name, _, kind in ordered if kind}
    if "" in named:
        return placed
    absent = tuple([name for name, _, kind in ordered if kind is None])
    return replace(placed, named=named, inputs=(), outputs=(), absent=absent)


def _questions(
    subject: Subject, called: str, place: tuple[str, str], asked: Sequence[_Asked]
) -> Iterator[Question]:
    """The question about a call; one more for each tensor of a list that differs from the others.

    The catalogue knows a list by one name, and what it takes is the same for all in it.
    """
    first = _question(subject, called, place, asked)
    yield first
    if not first.named or subject.kind != names.API:
        return
    for name, _, kind in asked:
        own = _known(facts.catalogue(), subject.apis[0], name) if kind else None
        if kind and own is not None and first.named.get(own) != kind:
            yield replace(first, named={**first.named, own: kind})


@facts.remembered
def _known(known: facts.Catalogue, api: str, name: str) -> str | None:
    """The name by which the pages or the header of an API know a tensor, or a list with it."""
    own = {each.lower(): each for each, _, _ in known.spellings_of(api)}
    # tensors0, tensors1 ... are one list of tensors.
    ends = (end for end in range(len(name), 0, -1) if name[end:].isdigit() or end == len(name))
    return next((own[name[:end].lower()] for end in ends if name[:end].lower() in own), None)


def _kinds(
    subject: Subject, arguments: Mapping[str, object]
) -> dict[str, tuple[str, TensorSpec | DType]]:
    """The tensors and dtypes among the arguments, and the names by which the pages know them."""
    plain: set[str] = set()
    if subject.apis:
        prototype = facts.catalogue().prototype_of(subject.apis[0])
        plain = {each.lower() for each, _, kind in prototype if "aclTensor" not in kind}
    found = {}
    for name, value in arguments.items():
        if is_null(value) or name.lower() in plain:
            continue
        own = (
            _known(facts.catalogue(), subject.apis[0], name) if subject.kind == names.API else name
        )
        if own is None:
            every = [each for each, _, _ in facts.catalogue().spellings_of(subject.apis[0])]
            raise UnknownNameError(
                say("parameter of {name}").format(name=subject.name), name, every
            )
        found[name] = own, _kind(name, value)
    return found


def _kind(name: str, value: object) -> TensorSpec | DType:
    if isinstance(value, TensorSpec | DType):
        return value
    if isinstance(value, TensorArg):
        return value.spec
    if isinstance(value, str):
        return parse_tensor(value) if is_tensor(value) else dtype(value)
    if isinstance(value, list | tuple) and value:
        return _kind(name, value[0])  # a list of tensors: they are of one dtype
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return TensorSpec.of(cast("NDArray[Any]", value))
    raise ArgumentError(
        f"{name} can't be {brief(value)}", "Give a tensor such as bf16[2,64], or null."
    )
