"""The simulated operators: catalogue and contract agree, or the disagreement is on the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from npusim.catalogue import facts
from npusim.catalogue.judging import support
from npusim.catalogue.queries import disagreements
from npusim.catalogue.verdicts import Answer
from npusim.hardware.families import FAMILIES
from npusim.operators.registry import operator, operators

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.catalogue.facts import Page, Parameter
    from npusim.operators.contract import Contract
    from npusim.operators.contract import Parameter as ContractParameter

NOT_STATED = "not stated"
CATALOGUE = facts.catalogue()
# What the catalogue has pages for; the rest of the simulated operators can't be compared.
SIMULATED = [name for name in operators() if name in CATALOGUE.paged_apis]

Difference = tuple[str, str, str, str, str]  # operator, family, about, contract, catalogue


def listed() -> dict[Difference, str]:
    """The documented disagreements with their reasons; `*` stands for every family of a page."""
    found = {}
    for each in disagreements():
        for family in paged(each.operator) if each.family == "*" else [each.family]:
            point = each.operator, family, each.about, each.contract, each.catalogue
            found[point] = each.reason
    return found


def paged(api: str) -> list[str]:
    """The families that the current page of an API lists."""
    pages = {family: CATALOGUE.page(api, family) for family in FAMILIES}
    return [family for family, page in pages.items() if page and page.supported == "yes"]


def differences(name: str) -> Iterator[Difference]:
    """Every point on which the contract and the catalogue differ."""
    contract = operator(name)
    for family in FAMILIES:
        offered = family in contract.products
        verdict = support(name, family).answer
        if verdict is not (Answer.SUPPORTED if offered else Answer.REJECTED):
            yield name, family, "verdict", "yes" if offered else "no", str(verdict)
        page = CATALOGUE.page(name, family)
        assert page is not None
        if offered != (page.supported == "yes") and verdict is Answer.SUPPORTED and offered:
            yield name, family, "page", "yes", page.supported
        if offered:
            yield from in_tensors(contract, family, page)


def in_tensors(contract: Contract, family: str, page: Page) -> Iterator[Difference]:
    """Differences in dtypes (also where only an older page has the product), ranks and formats."""
    older = CATALOGUE.older_pages(contract.name, family)
    used = page if page.supported == "yes" else next(p for p in older if p.supported == "yes")
    for own in contract.parameters:
        if own.kind != "tensor":
            continue
        theirs = counterpart(own, used)
        dtypes = sorted(each.name for each in own.dtypes_on(family))
        pairs = [("dtypes", " ".join(dtypes), " ".join(sorted(theirs.checked)))]
        if used is page:
            pairs.append(("rank", rank(own), theirs.rank))
            formats = " ".join(sorted(each.name for each in own.formats))
            pairs.append(("formats", formats, " ".join(sorted(theirs.formats))))
        for about, ours, said in pairs:
            if ours != said:
                what = f"{about} of {own.name}"
                yield contract.name, family, what, ours, said or NOT_STATED


def counterpart(own: ContractParameter, page: Page) -> Parameter:
    """The parameter of the page, by any of its names; pages call a lone output as they like."""
    names = {own.name.lower(), *(alias.lower() for alias in own.aliases)}
    found = [each for each in page.parameters if each.name.lower() in names]
    if not found and own.io == "out":
        found = [each for each in page.parameters if each.is_tensor and not each.is_input]
    assert len(found) == 1, f"{own.name}: {[each.name for each in page.parameters]}"
    return found[0]


def rank(own: ContractParameter) -> str:
    """A rank in the spelling of the catalogue."""
    low, high = own.rank
    return str(low) if low == high else f"{low}-{high}"


def test_there_is_something_to_compare() -> None:
    assert len(SIMULATED) >= 5


@pytest.mark.parametrize("name", SIMULATED)
def test_catalogue_and_contract_differ_only_as_listed(name: str) -> None:
    known = {difference for difference in listed() if difference[0] == name}
    found = set(differences(name))
    assert found == known, (sorted(found - known), sorted(known - found))


def test_every_listed_disagreement_has_a_reason() -> None:
    reasons = listed()
    assert ("aclnnRoiAlignV2Backward", "310P", "page", "yes", "no") in reasons
    assert all(len(reason) > 5 for reason in reasons.values())


def test_roi_align_on_310p_shows_both_sides_and_follows_cann_8() -> None:
    verdict = support("aclnnRoiAlignV2Backward", "Ascend310P3")
    assert verdict.answer is Answer.SUPPORTED
    assert verdict.by_page is Answer.REJECTED
    assert verdict.by_operator is Answer.SUPPORTED
    assert verdict.disagree
    named = {source.partition(":")[0] for source in verdict.sources}
    assert {"ops-cv", "reference-8.0", "cann-8.1"} <= named
    assert verdict.parameters[0].page == ("FLOAT",)
