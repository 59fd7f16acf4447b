"""Will this operator run on this product? The one question that the catalogue is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npusim.catalogue import apis, facts, kernels, wording
from npusim.catalogue.facts import Catalogue, remembered
from npusim.catalogue.names import API, GRAPH, Subject, find
from npusim.catalogue.question import Question, ask
from npusim.catalogue.verdicts import Answer, Verdict
from npusim.hardware.families import FAMILIES
from npusim.values.errors import UnknownNameError
from npusim.values.status import StatusCode


def support(
    op: str,
    product: str,
    dtypes: Mapping[str, object] | Sequence[object] | None = None,
) -> Verdict:
    """The verdict on `op` (API, operator type, ONNX or aten name) on a chip, product or family.

    `dtypes` are judged when given: by parameter name (dtypes or TensorSpecs), or in the order of
    the input tensors. Raises UnknownNameError or AmbiguousNameError for names, DTypeError.
    """
    known = facts.catalogue()
    return answer(known, find(known, op), ask(product, dtypes))


def answer(catalogue: Catalogue, subject: Subject, question: Question) -> Verdict:
    """The verdict with the families that say yes and, for a no, the remedy."""
    verdict = judge(catalogue, subject, question)
    if subject.note and subject.note not in verdict.notes:
        verdict = replace(verdict, notes=(*verdict.notes, subject.note))
    if subject.kind == GRAPH:
        return verdict
    families = supporting(catalogue, subject, question)
    verdict = replace(verdict, supported_by=families)
    if verdict.answer is Answer.SUPPORTED:
        return verdict
    ways = ("cast to FLOAT16", "BF16") if fp16_helps(catalogue, subject, question) else ()
    return replace(verdict, remedy=wording.remedy(families, *ways))


code_of_shapes = apis.code_of_shapes
offer_of = apis.offer_of
Offer = apis.Offer
UNLISTED = apis.UNLISTED


@remembered
def judge(catalogue: Catalogue, subject: Subject, question: Question) -> Verdict:
    """The verdict alone, without looking at other families."""
    if subject.kind == GRAPH:
        why, code = "graph structure: no kernel is needed", StatusCode.ACLNN_SUCCESS
        return Verdict(
            subject.name, GRAPH, question.family, question.soc, Answer.SUPPORTED, why, code
        )
    if subject.kind == API:
        return apis.judge(catalogue, subject.apis[0], question)
    return kernels.judge(catalogue, subject, question)


def supporting(catalogue: Catalogue, subject: Subject, question: Question) -> tuple[str, ...]:
    """The families that say yes to the question, in the usual order."""
    return tuple(
        family for family in FAMILIES if _says_yes(catalogue, subject, question.on(family))
    )


def _says_yes(catalogue: Catalogue, subject: Subject, question: Question) -> bool:
    try:
        return judge(catalogue, subject, question).answer is Answer.SUPPORTED
    except UnknownNameError:  # the page of this family has other parameters
        return False


def fp16_helps(catalogue: Catalogue, subject: Subject, question: Question) -> bool:
    """True when the same question with FLOAT16 instead of BFLOAT16 gets a yes."""
    if "BFLOAT16" not in question.dtypes:
        return False
    fp16 = question.with_dtype("BFLOAT16", "FLOAT16")
    return judge(catalogue, subject, fp16).answer is Answer.SUPPORTED
