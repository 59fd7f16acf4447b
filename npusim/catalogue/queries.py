"""Questions about many operators at once: search, difference of two products, matrix, summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.catalogue import apis, facts, operators
from npusim.catalogue.families import family_of
from npusim.catalogue.question import Question
from npusim.catalogue.verdicts import Answer
from npusim.hardware.families import FAMILIES
from npusim.reading.tables import table_in
from npusim.values.dtypes import dtype as dtype_of
from npusim.values.errors import DTypeError

if TYPE_CHECKING:
    from npusim.catalogue.facts import Catalogue


@dataclass(frozen=True, slots=True)
class Entry:
    """One API on one family: by page, by operator information, our answer, and its dtypes.

    `dtypes` are those that some tensor of it takes, as far as we expect them to work; `doubted` are
    those that the page lists and other evidence contradicts, or nothing else confirms.
    """

    api: str
    family: str
    by_page: Answer
    by_operator: Answer
    answer: Answer
    dtypes: tuple[str, ...]
    doubted: tuple[str, ...]

    @property
    def bf16(self) -> bool:
        """True when some tensor takes BFLOAT16."""
        return "BFLOAT16" in self.dtypes


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One API on all families that were asked for."""

    api: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """An API that both products have, with other dtypes."""

    api: str
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """What one product has and the other lacks; `common` counts the APIs that both have."""

    first: str
    second: str
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    changes: tuple[Change, ...]
    common: int


@dataclass(frozen=True, slots=True)
class FamilySummary:
    """The numbers of one family.

    APIs: how many the current pages list, how many of those list BFLOAT16, how many keep it after
    checking, and how many we expect to run beyond the pages. Operators: those with AI Core kernels
    in CANN 8.1, and how many take BFLOAT16 (both None for a product that 8.1 doesn't know).
    """

    family: str
    apis_by_page: int
    bf16_by_page: int
    bf16_checked: int
    apis_beyond_pages: int
    operators: int | None
    operators_bf16: int | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A point on which the contract of a simulated operator and the catalogue differ, and why.

    `family` is ``*`` for every family that the operator's page lists.
    """

    operator: str
    family: str
    about: str
    contract: str
    catalogue: str
    reason: str


def entry(catalogue: Catalogue, api: str, family: str) -> Entry:
    """The row of one API for one family."""
    offer = apis.offer_of(catalogue, api, family)
    listed, dtypes = _dtypes(catalogue, api, family, offer)
    said = {evidence.column: evidence.answer for evidence in offer.evidence}
    return Entry(
        api,
        family,
        said.get("page", Answer.UNKNOWN),
        said.get(operators.COLUMN, Answer.UNKNOWN),
        offer.answer,
        dtypes,
        tuple(name for name in listed if name not in dtypes),
    )


def search(
    text: str = "",
    product: str | None = None,
    *,
    dtype: object = None,
) -> tuple[MatrixRow, ...]:
    """The APIs whose name holds every word of `text`, on `product` or on all families.

    A word that is a dtype (``bf16``) asks for operators that take it, as `dtype` does; with a
    product, only operators that run there are given. Raises UnknownNameError, DTypeError.
    """
    known = facts.catalogue()
    words, kinds = _words(text)
    if dtype is not None:
        kinds.append(dtype_of(dtype).name)
    wanted = [family_of(product)] if product else list(FAMILIES)
    found = []
    for api in sorted(known.paged_apis):
        spoken = " ".join((api, *known.op_types_of(api))).lower()
        if not all(word in spoken for word in words):
            continue
        entries = tuple(entry(known, api, family) for family in wanted)
        fits = [each for each in entries if all(kind in each.dtypes for kind in kinds)]
        if product or kinds:
            fits = [each for each in fits if each.answer is not Answer.REJECTED]
        if fits:
            found.append(MatrixRow(api, entries))
    return tuple(found)


_WORDS = re.compile(r"[A-Z][a-z0-9]+|[A-Z]+(?![a-z])")
_DIRECTIONS = {"Backward", "Grad"}


def relatives(api: str, family: str) -> tuple[Entry, ...]:
    """What a family offers that does the like: names of the same direction, two words in common.

    Nothing where the family offers the API itself. Of versions of one name the first stands for
    all; those with most words in common come first.
    """
    known = facts.catalogue()
    if entry(known, api, family).answer is not Answer.REJECTED:
        return ()
    words, backward = _name_words(api)
    common = {
        other: len(words & others)
        for other in known.paged_apis
        for others, is_backward in [_name_words(other)]
        if backward == is_backward and not re.search(r"V\d+$", other)
    }
    alike = [name for name in sorted(common, key=lambda n: (-common[n], n)) if common[name] > 1]
    entries = (entry(known, name, family) for name in alike)
    return tuple(each for each in entries if each.answer is Answer.SUPPORTED)


def _name_words(api: str) -> tuple[set[str], bool]:
    words = set(_WORDS.findall(api.removeprefix("aclnn")))
    return words - _DIRECTIONS, bool(words & _DIRECTIONS)


def diff(first: str, second: str) -> Difference:
    """What the one product has and the other lacks, and where they take different dtypes."""
    known = facts.catalogue()
    one, other = family_of(first), family_of(second)
    only_first, only_second, changes = [], [], []
    common = 0
    for api in sorted(known.paged_apis):
        left, right = entry(known, api, one), entry(known, api, other)
        has_left = left.answer is Answer.SUPPORTED
        has_right = right.answer is Answer.SUPPORTED
        if has_left and has_right:
            common += 1
            gone, new = _minus(left.dtypes, right.dtypes), _minus(right.dtypes, left.dtypes)
            if gone or new:
                changes.append(Change(api, gone, new))
        elif has_left:
            only_first.append(api)
        elif has_right:
            only_second.append(api)
    return Difference(one, other, tuple(only_first), tuple(only_second), tuple(changes), common)


def matrix(products: Sequence[str] = ()) -> tuple[MatrixRow, ...]:
    """Every API with a page on the families of `products`, or on all."""
    known = facts.catalogue()
    wanted = [family_of(product) for product in products] or list(FAMILIES)
    return tuple(
        MatrixRow(api, tuple(entry(known, api, family) for family in dict.fromkeys(wanted)))
        for api in sorted(known.paged_apis)
    )


def summary() -> tuple[FamilySummary, ...]:
    """How many APIs and operators each family has, and how many of them take BFLOAT16."""
    known = facts.catalogue()
    return tuple(_summary(known, family) for family in FAMILIES)


def disagreements() -> tuple[Disagreement, ...]:
    """Where contracts of simulated operators and the catalogue differ, with the reasons."""
    with table_in(Path(__file__).with_name("disagreements.csv")) as table:
        return tuple(Disagreement(*fields) for _, fields in table)


def _summary(catalogue: Catalogue, family: str) -> FamilySummary:
    paged = lists = keeps = beyond = 0
    for api in catalogue.paged_apis:
        page = catalogue.page(api, family)
        if page is None:
            continue
        if page.supported == "yes":
            paged += 1
            lists += any("BFLOAT16" in each.dtypes for each in page.parameters if each.is_tensor)
            keeps += any("BFLOAT16" in each.checked for each in page.parameters if each.is_tensor)
        else:
            beyond += apis.judge(catalogue, api, Question(family)).answer is Answer.SUPPORTED
    census = operators.census(catalogue, family)
    known = family not in operators.NEWER_THAN_8_1
    taking = census.taking.get("BFLOAT16", 0)
    return FamilySummary(
        family, paged, lists, keeps, beyond,
        census.operators if known else None,
        taking if known else None,
    )  # fmt: skip


def _dtypes(
    catalogue: Catalogue, api: str, family: str, offer: apis.Offer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The dtypes of the tensors of an API, as listed and after checking; none for a no."""
    if offer.answer is Answer.REJECTED:
        return (), ()
    if offer.page is None:
        known = operators.accepted_dtypes(catalogue, catalogue.op_types_of(api), family)
        return known.widest, known.widest
    tensors = [each for each in offer.page.parameters if each.is_tensor]
    listed = dict.fromkeys(name for each in tensors for name in each.dtypes)
    checked = dict.fromkeys(name for each in tensors for name in each.checked)
    rare = operators.census(catalogue, family)
    known = operators.accepted_dtypes(catalogue, catalogue.op_types_of(api), family)
    for name in list(checked):
        unconfirmed = apis.is_unconfirmed(offer.bf16_gate, name, known, rare)
        if unconfirmed or apis.is_missing(name, known, rare):
            del checked[name]
    return tuple(listed), tuple(checked)


def _minus(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    without = set(others)
    return tuple(name for name in names if name not in without)


def _words(text: str) -> tuple[list[str], list[str]]:
    """The words to look for in names, and the dtypes among them."""
    words, kinds = [], []
    for word in text.lower().split():
        try:
            kinds.append(dtype_of(word).name)
        except DTypeError:
            words.append(word.removeprefix("aclnn"))
    return words, kinds
