"""The verdict on an API: does a product offer it, and does each tensor take its dtype?

Pages come first, because host code follows them; where a page says nothing or what it says is
doubtful, the operator information and older pages decide, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING

from npusim.catalogue import facts, operators, wording
from npusim.catalogue.facts import DATA_FILE, NULL, Catalogue, Page, Parameter, remembered
from npusim.catalogue.verdicts import Answer, Evidence, ParameterVerdict, Verdict, worst
from npusim.reading.tables import table_in
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.catalogue.question import Question

UNLISTED = ("undocumented on this product",)
_SAYS = {"yes": Answer.SUPPORTED, "no": Answer.REJECTED, "unlisted": Answer.UNKNOWN}
_REFERENCE = "reference-8.0"
_MOST_AXES = 8  # of a tensor
# Host code that selects BFLOAT16 without asking for the product.
_OPEN_GATES = ("ungated", "bf16_in_910_list")
# The families that the reference pages of CANN 8.0 could know.
_REFERENCE_FAMILIES = ("910", "A2", "310P")


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether a family offers an API at all, and the page whose dtypes then count."""

    answer: Answer
    why: str
    evidence: tuple[Evidence, ...]
    page: Page | None = None
    notes: tuple[str, ...] = ()
    bf16_gate: str = ""


def judge(catalogue: Catalogue, api: str, question: Question) -> Verdict:
    """The verdict for one family; `supported_by` and the remedy are left to the caller."""
    offer = offer_of(catalogue, api, question.family)
    verdict = Verdict(
        api, "api", question.family, question.soc, offer.answer, offer.why, None, offer.evidence,
        notes=offer.notes,
    )  # fmt: skip
    parameters = tuple(_parameters(catalogue, api, offer, question))
    if offer.answer is Answer.REJECTED:
        code = StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
        why = wording.not_offered(api, question, offer.why)
        return replace(verdict, parameters=parameters, code=code, why=why)
    asked = [each for each in parameters if each.given]
    answer = worst([offer.answer, *(each.answer for each in asked)])
    deciding = next((each for each in asked if each.answer is answer and each.why), None)
    if answer is Answer.REJECTED and deciding:
        why, code = wording.dtype_refused(deciding, question), StatusCode.ACLNN_ERR_PARAM_INVALID
        return replace(verdict, parameters=parameters, answer=answer, why=why, code=code)
    if offer.answer is Answer.SUPPORTED and deciding:
        verdict = replace(verdict, answer=answer, why=deciding.why)
    verdict = _judge_together(catalogue, replace(verdict, parameters=parameters), question)
    if verdict.answer is Answer.SUPPORTED:
        return replace(verdict, code=StatusCode.ACLNN_SUCCESS)
    return verdict


@remembered
def offer_of(catalogue: Catalogue, api: str, family: str) -> Offer:
    """Does the family offer the API at all, whatever the dtypes?"""
    page = catalogue.page(api, family)
    has_it = page is not None and page.supported == "yes"
    # Where the current page says yes, of the older ones only the reference pages are worth a word.
    older = catalogue.older_pages(api, family, only_reference=has_it)
    information = operators.presence(catalogue, catalogue.op_types_of(api), family)
    evidence = (*_page_evidence(page, older), information)
    if page and page.supported == "yes":
        offer = _offered_by_page(page, information, evidence)
        return replace(offer, bf16_gate=catalogue.bf16_gate(api))
    others = [each for each in older if each.supported == "yes"]
    earlier = next((each for each in others if not each.is_experimental), None)
    if earlier and earlier.release == _REFERENCE:
        why = "the reference page of CANN 8.0 has it"
        if information.answer is Answer.SUPPORTED:
            why += ", and so has the operator information of 8.1"
        notes = ("the current page has dropped this product; count on CANN 8.x only",)
        return Offer(Answer.SUPPORTED, why, evidence, earlier, notes)
    if page is None and earlier:
        why = f"an older page has it ({earlier.release})"
        return Offer(Answer.SUPPORTED, why, evidence, earlier)
    if page and page.in_8_1 and "op_present_8.1" in page.remarks:
        return _offered_by_release(catalogue, page, earlier, evidence)
    if page and page.supported == "no" and not earlier:
        return Offer(Answer.REJECTED, wording.no_reason(information), evidence)
    if earlier:
        why = f"the current page says no, an older one yes ({earlier.release})"
        return Offer(Answer.UNKNOWN, why, evidence, earlier)
    if others:
        why = "only an experimental folder of the operator repositories has it, not CANN"
        return Offer(Answer.UNKNOWN, why, evidence, others[0])
    return Offer(Answer.UNKNOWN, "no page lists the product", evidence)


def _offered_by_release(
    catalogue: Catalogue, page: Page, earlier: Page | None, evidence: tuple[Evidence, ...]
) -> Offer:
    """What CANN 8.1 ships and the current page doesn't list: yes where somebody else says so.

    That files lie in a release isn't that they run. Another page does say so, an older one of the
    API or one of another API that lists the product and does its work with the same kernel, or a
    published run of the kernel on the product (``seen_kernels.csv``).
    """
    why = "the page doesn't list the product, but CANN 8.1 has the API and its kernels"
    said = f"an older page ({earlier.release})" if earlier else _kernel_told(catalogue, page)
    if said:
        why += f", which run there according to {said}"
        return Offer(Answer.SUPPORTED, why, evidence, None, UNLISTED)
    why += "; no public source says that they run there"
    return Offer(Answer.UNKNOWN, why, evidence, None, UNLISTED)


def _kernel_told(catalogue: Catalogue, page: Page) -> str:
    """Who else says that a kernel of an API runs on the family of the page.

    Of several kernels those count that are called like the API; the others are there for some of
    its modes, and many APIs share them.
    """
    called = page.api.removeprefix("aclnn").removeprefix("Inplace").lower()
    plain = {each: facts.without_version(each).lower() for each in page.op_types}
    own = [each for each, word in plain.items() if word in called or called in word]
    for op_type in own or page.op_types:
        for api in catalogue.callers.get(op_type, ()):
            other = catalogue.page(api, page.family)
            if api != page.api and other and other.supported == "yes":
                return f"the page of {api}"
        if source := facts.seen_at(op_type, page.family):
            return source
    return ""


def _offered_by_page(page: Page, information: Evidence, evidence: tuple[Evidence, ...]) -> Offer:
    why, notes = "the page lists the product", []
    if information.answer is Answer.SUPPORTED:
        why += f"; {information.text}"
    if "op_absent_8.1" in page.remarks:
        notes.append("CANN 8.1 has no kernel of its own for it: composed of others, or newer")
    if "op_aicpu_only_8.1" in page.remarks:
        notes.append("in CANN 8.1 it runs on the AI CPU, which is slow")
    if not page.in_8_1:
        notes.append("not in the headers of CANN 8.1: it needs a newer CANN")
    if any("conditional" in parameter.flags for parameter in page.parameters):
        notes.append("the page ties some dtypes to conditions that the catalogue doesn't hold")
    return Offer(Answer.SUPPORTED, why, evidence, page, tuple(notes))


def _page_evidence(page: Page | None, older: tuple[Page, ...]) -> Iterator[Evidence]:
    if page:
        text = f"current page: {wording.SUPPORT_WORDS[page.supported]}"
        yield Evidence("page", _SAYS[page.supported], text, page.source)
    for each in older:
        if each.supported == "unlisted" or (each.is_experimental and each.supported == "no"):
            continue
        if each.release == _REFERENCE and each.family not in _REFERENCE_FAMILIES:
            continue
        text = f"{each.release} page: {wording.SUPPORT_WORDS[each.supported]}"
        column = "experimental page" if each.is_experimental else "older page"
        yield Evidence(column, _SAYS[each.supported], text, each.source)


def _parameters(
    catalogue: Catalogue, api: str, offer: Offer, question: Question
) -> Iterator[ParameterVerdict]:
    """Every tensor (and what else has dtypes) of the API, judged where the question names it."""
    page = offer.page or _any_page(catalogue, api)
    if page is None:
        return
    known = operators.accepted_dtypes(catalogue, catalogue.op_types_of(api), question.family)
    rare = operators.census(catalogue, question.family)
    asked = _asked(catalogue, api, page, question)
    for parameter in page.parameters:
        own = offer.page is not None
        described = ParameterVerdict(
            parameter.name,
            parameter.io,
            parameter.c_type,
            parameter.dtypes if own else None,
            tuple(each for each in parameter.checked if not is_missing(each, known, rare))
            if own
            else None,
            _operator_dtypes(parameter, known),
            parameter.formats,
            parameter.rank,
            parameter.optional,
            flags=parameter.flags,
        )
        given = asked.get(parameter.name, "")
        if given:
            answer, why = _judge_dtype(catalogue, parameter, given, offer, known, question)
            described = replace(described, given=given, answer=answer, why=why)
        yield described


def _asked(catalogue: Catalogue, api: str, page: Page, question: Question) -> dict[str, str]:
    """The dtypes that the question gives, by the page's names of the parameters."""
    if not question.dtypes:
        return {}
    return question.match(page.parameters, catalogue.spellings_of(api), api)


@remembered
def _any_page(catalogue: Catalogue, api: str) -> Page | None:
    """The page of another product: the names of the parameters are the same."""
    for family in ("A2", "A3", "950", "910", "310P", "310B"):
        for page in (catalogue.page(api, family), *catalogue.older_pages(api, family)):
            if page and page.parameters:
                return page
    return None


def _operator_dtypes(parameter: Parameter, known: operators.Dtypes) -> tuple[str, ...] | None:
    if not parameter.is_tensor or not (known.listed or known.on_cpu):
        return None
    return known.widest


def _judge_dtype(
    catalogue: Catalogue,
    parameter: Parameter,
    given: str,
    offer: Offer,
    known: operators.Dtypes,
    question: Question,
) -> tuple[Answer, str]:
    """Does this parameter take this dtype on the family, and why (not)?"""
    rare = operators.census(catalogue, question.family)
    if offer.page is None:
        return _judge_by_operator(parameter, given, known, rare)
    if not parameter.dtypes:
        return Answer.UNKNOWN, f"the page gives no dtypes for {parameter.name}"
    if given not in parameter.dtypes:
        return Answer.REJECTED, f"{given} isn't among the dtypes of {parameter.name}"
    if given not in parameter.checked or is_missing(given, known, rare):
        return Answer.REJECTED, wording.contradicted(parameter, given)
    if is_unconfirmed(offer.bf16_gate, given, known, rare):
        return Answer.UNKNOWN, wording.unconfirmed(parameter, given, rare)
    return Answer.SUPPORTED, ""


def is_missing(dtype: str, known: operators.Dtypes, rare: operators.Census) -> bool:
    """A dtype that the family's chips lack, whatever a page that speaks of several products lists.

    That is a reduced-precision one that none of the family's kernels in CANN 8.1 takes, and
    COMPLEX32 where few do and none of those that do the interface's work.
    """
    if dtype == "COMPLEX32":
        taken = known.listed or known.on_cpu
        few = rare.taking.get(dtype, 0) < operators.RARE * rare.operators
        return bool(taken) and few and dtype not in (*known.listed, *known.on_cpu)
    return rare.is_rare(dtype) and not rare.taking.get(dtype, 0) and dtype != "BFLOAT16"


def is_unconfirmed(
    api_gate: str, dtype: str, known: operators.Dtypes, rare: operators.Census
) -> bool:
    """A dtype that only the page lists, for a product that next to never computes with it.

    Host code that takes BFLOAT16 whatever the product counts as a confirmation: it may cast.
    """
    if not rare.is_rare(dtype) or dtype in known.listed:
        return False
    return dtype != "BFLOAT16" or api_gate not in _OPEN_GATES


def _judge_by_operator(
    parameter: Parameter, given: str, known: operators.Dtypes, rare: operators.Census
) -> tuple[Answer, str]:
    """Without a page for the product, the operator information is all there is."""
    if given in known.listed or (known.vague and given in known.possible):
        return Answer.SUPPORTED, ""
    if rare.is_rare(given):
        return Answer.REJECTED, wording.rarely(given, rare)
    if given in known.on_cpu:
        return Answer.SUPPORTED, f"{given} runs on the AI CPU, which is slow"
    if known.vague or not known.listed:
        return Answer.UNKNOWN, f"no list says whether {parameter.name} takes {given}"
    return Answer.REJECTED, f"no kernel takes {given}"


def _judge_together(catalogue: Catalogue, verdict: Verdict, question: Question) -> Verdict:
    """What only shows when the tensors are seen together: tabulated combinations, and ranks."""
    if verdict.answer is not Answer.SUPPORTED or not question.dtypes:
        return verdict
    given = {each.name: each.given for each in verdict.parameters if each.given}
    rows = [
        row
        for row in catalogue.combinations(verdict.subject, question.family)
        if given.keys() <= row.keys()
    ]
    tabulated = {name.lower(): name for row in rows for name in row}
    absent = {tabulated[name.lower()] for name in question.absent if name.lower() in tabulated}
    given |= dict.fromkeys(absent, NULL)
    if len(given) > 1 and rows and not any(_fits(row, given) for row in rows):
        text = ", ".join(f"{name} {dtype}" for name, dtype in given.items())
        why = f"the page tabulates the combinations it takes, and {text} isn't one of them"
        return replace(verdict, answer=Answer.UNKNOWN, why=why)
    for parameter in verdict.parameters:
        shape = question.shapes.get(parameter.name.lower())
        # One element may have any number of axes that tensors have.
        many = shape is not None and (prod(shape) > 1 or len(shape) > _MOST_AXES)
        if shape is not None and many and not wording.rank_allows(parameter.rank, len(shape)):
            why, code = wording.wrong_rank(parameter, shape), code_of_shapes(verdict.subject)
            return replace(verdict, answer=Answer.REJECTED, why=why, code=code)
    return verdict


def code_of_shapes(api: str) -> StatusCode:
    """The code that an interface's page gives for shapes and attributes that it doesn't take.

    Most host code checks them itself (161002); for the interfaces in ``tilings.csv`` it looks at
    null pointers and dtypes alone, and the kernel's tiling refuses the rest (561002); of those in
    ``unmade.csv`` it is told then that nothing was made (561103). Source: tables of return codes on
    the pages of hicann/ops-nn, ops-math and ops-transformer.
    """
    if api in _listed("tilings.csv"):
        return StatusCode.ACLNN_ERR_INNER_TILING_ERROR
    if api in _listed("unmade.csv"):
        return StatusCode.ACLNN_ERR_INNER_NULLPTR
    return StatusCode.ACLNN_ERR_PARAM_INVALID


@cache
def _listed(file: str) -> frozenset[str]:
    with table_in(DATA_FILE.with_name(file)) as table:
        return frozenset(fields[0] for _, fields in table)


def _fits(row: Mapping[str, tuple[str, ...]], given: Mapping[str, str]) -> bool:
    """Whether a tabulated combination allows these dtypes and null pointers."""

    def allowed(name: str) -> tuple[str, ...]:
        (first, *_) = kinds = row.get(name, (NULL,))
        if not first.startswith("="):
            return kinds
        like = first[1:]
        return (given[like],) if like in given else row[like]

    return all(kind in allowed(name) for name, kind in given.items())
