"""Where the catalogue's answer isn't what its sources say by themselves, and why.

`python reports/beyond_sources.py` writes npusim/catalogue/beyond_sources.csv anew. Four comparisons
go over the whole catalogue: what a product offers by the page of an API; by the operator
information of a type with a kernel here; every dtype of every tensor of such a type; and every
combination of dtypes that a page tabulates, null pointers included.
"""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import npusim.catalogue
from npusim.catalogue import facts, judging, names, operators
from npusim.catalogue.question import Question
from npusim.catalogue.verdicts import Answer
from npusim.hardware.families import FAMILIES
from npusim.operators.registry import op_types
from npusim.values.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npusim.catalogue.names import Subject
    from npusim.catalogue.verdicts import Verdict

FILE = Path(npusim.catalogue.__file__).with_name("beyond_sources.csv")
HEAD = ("operator", "families", "verdict", "reason")
CATALOGUE = facts.catalogue()
KINDS = tuple(kind.name for kind in DTYPES)

Row = tuple[str, str, str, str]
Point = tuple[str, str, str, str]  # operator, family, verdict, reason


def rows() -> list[Row]:
    """The file's rows: the points of all comparisons, families with one reason together."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for comparison in (_offers, _kernels, _dtypes, _combinations):
        for name, family, said, why in comparison():
            families = found.setdefault((name, said, why), [])
            if family not in families:
                families.append(family)
    return [(name, " ".join(where), said, why) for (name, said, why), where in found.items()]


def _offers() -> Iterator[Point]:
    """Where the current page says otherwise of the product."""
    for api in sorted(CATALOGUE.paged_apis):
        subject = names.Subject(names.API, api, (api,))
        for family in FAMILIES:
            page, verdict = CATALOGUE.page(api, family), _judge(subject, Question(family))
            rejected = verdict.answer is Answer.REJECTED
            if page and {"yes": rejected, "no": not rejected}.get(page.supported):
                yield subject.name, family, str(verdict.answer), verdict.why


def _kernels() -> Iterator[Point]:
    """Where a type without a kernel on the product is supported."""
    for subject in _types():
        for family in FAMILIES if subject.apis else ():
            if CATALOGUE.operators(subject.name, family):
                continue
            if _judge(subject, Question(family)).answer is Answer.SUPPORTED:
                why = f"{subject.apis[0]} computes the same, with another kernel"
                yield subject.name, family, str(Answer.SUPPORTED), why


def _dtypes() -> Iterator[Point]:
    """Where a tensor takes a dtype that no list of a kernel has for it, or refuses a listed one."""
    for subject in _types():
        for family in FAMILIES:
            found: dict[tuple[str, str], dict[str, None]] = {}
            for kind, listed, verdict in _of_tensors(subject, family):
                if verdict.answer is (Answer.REJECTED if listed else Answer.SUPPORTED):
                    why = _why(subject, verdict, family)
                    found.setdefault((str(verdict.answer), why), {})[kind] = None
            for (said, why), kinds in found.items():
                yield subject.name, family, said, f"{why}: {', '.join(sorted(kinds))}"


def _of_tensors(subject: Subject, family: str) -> Iterator[tuple[str, bool, Verdict]]:
    """Every dtype of every tensor of a type: whether a list has it, and the verdict."""
    lists: dict[str, set[str]] = {}
    kernels = operators.on_ai_core(CATALOGUE, subject.name, family)
    entries = (*kernels, *operators.on_ai_cpu(CATALOGUE, subject.name, family)) if kernels else ()
    for tensor in (each for entry in entries for each in entry.tensors if each.io == "input"):
        lists.setdefault(tensor.name, set()).update(tensor.dtypes)
    for place, (name, kinds) in enumerate(lists.items()):
        for kind in KINDS:
            inputs = (*("",) * place, kind)
            question = Question(family, named={name: kind}, inputs=inputs)
            yield kind, kind in kinds, _judge(subject, question)


def _why(subject: Subject, verdict: Verdict, family: str) -> str:
    api = subject.apis[0] if subject.apis else ""
    known = operators.accepted_dtypes(CATALOGUE, (subject.name,), family)
    if verdict.answer is Answer.REJECTED and not known.vague:
        return "an AI CPU lists it, the product's AI Core and next to no other operator there do"
    if not known.vague:
        return f"the page of {api} takes it, the operator information doesn't list it"
    if api and verdict.by_page is Answer.SUPPORTED:
        return f"its kernel has no static list of dtypes, so the page of {api} decides"
    return "its kernel has no static list of dtypes, so prototype and host code decide"


def _combinations() -> Iterator[Point]:
    """Where a combination that the page tabulates is refused."""
    for api in sorted(CATALOGUE.paged_apis):
        subject = names.Subject(names.API, api, (api,))
        for family in FAMILIES:
            for verdict in (_judge(subject, each) for each in tabulated(api, family)):
                if verdict.answer is Answer.SUPPORTED:
                    continue
                said = (each.why for each in verdict.parameters if each.answer is verdict.answer)
                why = next(filter(None, said), verdict.why)
                yield api, family, str(verdict.answer), f"a combination of its page: {why}"


def tabulated(api: str, family: str) -> Iterator[Question]:
    """Every combination that a page tabulates, its alternatives one by one."""
    for row in CATALOGUE.combinations(api, family):
        plain = {name: kinds for name, kinds in row.items() if not kinds[0].startswith("=")}
        like = {name: kinds[0][1:] for name, kinds in row.items() if name not in plain}
        for chosen in product(*plain.values()):
            given = dict(zip(plain, chosen, strict=True))
            yield _asked(family, given | {name: given[other] for name, other in like.items()})


def _asked(family: str, given: Mapping[str, str]) -> Question:
    named = {name: kind for name, kind in given.items() if kind != facts.NULL}
    absent = tuple(name for name in given if name not in named)
    return Question(family, named=named, absent=absent)


def _types() -> Iterator[Subject]:
    for op_type in op_types():
        subject = names.operator_named(CATALOGUE, op_type)
        if subject is not None:
            yield subject


def _judge(subject: Subject, question: Question) -> Verdict:
    return judging.judge(CATALOGUE, subject, question)


def main() -> None:
    """Write the file."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows()])


if __name__ == "__main__":
    main()
