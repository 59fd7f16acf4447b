"""What the catalogue knows, as typed facts: pages, operator information, host code, and sources.

Nothing here judges. A fact says what one source says, and names the source; dtypes are spelled as
on the operator pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from npusim.catalogue import store
from npusim.reading.tables import table_in

_Work = TypeVar("_Work", bound="Callable[..., Any]")

DATA_FILE = Path(__file__).with_name("catalogue.bin")
ANY_CHIP = "any"  # how AI CPU operators, the same on every chip, are filed
API_TABLES = ("pages", "other_pages", "prototypes")
OPERATOR_TABLES = ("operators", "operator_tensors", "operator_definitions")
AI_CORE_ENGINES = ("aicore", "dsa")
NULL = "null"  # a tensor that a tabulated combination leaves out
_MOST_ANSWERS = 1 << 14


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an API as one page describes it for one product family.

    `dtypes` is what the page states, `checked` the same without BFLOAT16 where other evidence
    contradicts the page. `rank` is kept as written (``2``, ``1-8``, ``2;4``, empty = not stated),
    `position` counts in the prototype (None where the page's name isn't in it).
    """

    name: str
    position: int | None
    io: str
    c_type: str
    dtypes: tuple[str, ...]
    checked: tuple[str, ...]
    formats: tuple[str, ...]
    rank: str
    non_contiguous: str
    optional: bool
    basis: str
    flags: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def is_tensor(self) -> bool:
        """True for tensors and lists of tensors."""
        return self.c_type.startswith("aclTensor")

    @property
    def is_input(self) -> bool:
        """True for what the caller fills, in-place parameters included."""
        return self.io.startswith("in")


@dataclass(frozen=True, slots=True)
class Page:
    """What one operator page says of one product family; `supported` is yes, no or unlisted."""

    api: str
    family: str
    supported: str
    parameters: tuple[Parameter, ...]
    remarks: tuple[str, ...]
    release: str
    source: str
    op_types: tuple[str, ...] = ()
    in_8_1: bool = False

    @property
    def is_experimental(self) -> bool:
        """True for a page in an experimental folder of a current branch: nothing that ships."""
        return "/experimental/" in self.source or ":experimental/" in self.source


@dataclass(frozen=True, slots=True)
class OperatorTensor:
    """One tensor of an operator, with every dtype that it takes in some combination."""

    io: str
    name: str
    param_type: str
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator on one family: which engine runs it, and how far its dtype lists can be trusted.

    `basis`: explicit; prebuilt_kernel_list (may be narrower than what is supported);
    dynamic_select (no static list); explicit_set (AI CPU); definition (operator definition, 2026).
    """

    op_type: str
    family: str
    engine: str
    basis: str
    tensors: tuple[OperatorTensor, ...]
    source: str

    @property
    def dtypes(self) -> frozenset[str]:
        """Every dtype that some tensor of it takes."""
        return frozenset(name for tensor in self.tensors for name in tensor.dtypes)


@dataclass(frozen=True, slots=True)
class Source:
    """A repository and the commit that was read."""

    id: str
    repository: str
    ref: str
    commit: str
    date: str
    what: str


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(";")) if text else ()


class Catalogue:
    """The facts of one catalogue file. Tables are unpacked when first asked for."""

    def __init__(self, path: Path = DATA_FILE) -> None:
        self.path = path
        self._tables = store.read(path)
        self.answers = lru_cache(_MOST_ANSWERS)(_ask)

    @cached_property
    def checksum(self) -> str:
        """Names the content of the file."""
        return store.checksum(self.path)

    def table(self, name: str) -> store.Table:
        """A table as it is stored, for what has no typed fact of its own."""
        return self._tables[name]

    @property
    def apis(self) -> list[str]:
        """Every API with a page or a prototype, sorted."""
        return self.table("api_names").distinct("name")

    @cached_property
    def paged_apis(self) -> frozenset[str]:
        """The APIs with a page on a current branch."""
        return frozenset(self.table("pages").keys)

    @property
    def op_types(self) -> list[str]:
        """Every operator type of the operator information and the definitions."""
        return self.table("operator_names").distinct("name")

    def api_named(self, folded: str) -> str | None:
        """The API with this lower-case spelling, as its page spells it, or else its header."""
        return self._paged_by_folded.get(folded) or _named(self.table("api_names"), folded)

    @cached_property
    def _paged_by_folded(self) -> dict[str, str]:
        return {api.lower(): api for api in self.table("pages").keys}

    def operator_named(self, folded: str) -> str | None:
        """The operator type with this lower-case spelling."""
        return _named(self.table("operator_names"), folded)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The repositories behind the facts."""
        table = self.table("sources")
        return tuple(Source(*table.row(number)) for number in range(len(table)))

    @lru_cache(maxsize=8192)  # noqa: B019 - one catalogue lives as long as the process
    def page(self, api: str, family: str) -> Page | None:
        """What the current page of `api` says of `family`; None without such a page."""
        rows = self.table("pages").records(api, product=family, primary="1")
        return next(_pages_of(rows), None)

    @lru_cache(maxsize=8192)  # noqa: B019 - one catalogue lives as long as the process
    def older_pages(
        self, api: str, family: str, *, only_reference: bool = False
    ) -> tuple[Page, ...]:
        """What others say: reference pages (CANN 8.0), 8.5 branches, 2025-09, experimental ones."""
        tables = ("reference_pages",) if only_reference else ("reference_pages", "other_pages")
        return tuple(
            page
            for table in tables
            for page in _pages_of(self.table(table).records(api, product=family))
        )

    @lru_cache(maxsize=8192)  # noqa: B019 - one catalogue lives as long as the process
    def operators(self, op_type: str, family: str) -> tuple[Operator, ...]:
        """Who can run `op_type` on `family`: one entry per engine and source.

        AI CPU operators are filed under no chip and are given for every family.
        """
        return (
            *self._informed(op_type, family),
            *self._defined(op_type, family),
            *self._informed(op_type, ANY_CHIP),
        )

    @lru_cache(maxsize=8192)  # noqa: B019 - one catalogue lives as long as the process
    def _informed(self, op_type: str, product: str) -> tuple[Operator, ...]:
        """The operator information of 8.1, an operator without tensors included."""
        listed = self.table("operators").records(op_type, product=product)
        groups: dict[str, list[dict[str, str]]] = {row["engine"]: [] for row in listed}
        for row in self.table("operator_tensors").records(op_type, product=product):
            groups.setdefault(row["engine"], []).append(row)
        return tuple(
            Operator(
                op_type,
                product,
                engine,
                rows[0]["basis"] if rows else "listed",
                _operator_tensors(rows),
                self._information_source(rows[0]["soc"] if rows else product, engine),
            )
            for engine, rows in groups.items()
        )

    def _defined(self, op_type: str, family: str) -> tuple[Operator, ...]:
        """The operator definition of 2026."""
        rows = self.table("operator_definitions").records(op_type, product=family)
        if not rows:
            return ()
        tensors = _operator_tensors(rows)
        return (Operator(op_type, family, "aicore", "definition", tensors, rows[0]["source"]),)

    @lru_cache(maxsize=32)  # noqa: B019 - as above
    def _information_source(self, soc: str, engine: str) -> str:
        base = next(source for source in self.sources if source.id == "cann-8.1")
        return f"cann-8.1:{engine} operator information of {soc}@{base.commit[:8]}"

    def prototype(self, op_type: str) -> tuple[OperatorTensor, ...]:
        """The tensors of an operator with the widest dtypes any product may have (8.1)."""
        rows = self.table("operator_prototypes").records(op_type)
        return tuple(
            OperatorTensor(row["io"], row["name"], row["param_type"], _split(row["dtype_superset"]))
            for row in rows
        )

    def kernel_code_dtypes(self, op_type: str, family: str) -> tuple[str, ...]:
        """The AI Core dtypes that host code lists for an operator under the name of a family."""
        rows = self.table("kernel_code_dtypes").records(op_type)
        mine = (row for row in rows if row["product_hint"] == family)
        return next((_split(row["dtypes"]) for row in mine if row["engine_hint"] == "aicore"), ())

    def op_types_of(self, api: str) -> tuple[str, ...]:
        """The operators that do the work of `api` (casts, copies and reshapes left out)."""
        pages = self.table("pages")
        paged = pages.rows_of(api)
        if paged and (told := _split(pages.text(paged[0], "op_types"))):
            return told
        rows = self.table("called_operators").records(api, role="main")
        return tuple(row["op_function"] for row in rows)

    @cached_property
    def callers(self) -> dict[str, tuple[str, ...]]:
        """For each operator type, the APIs with a page whose work it does."""
        found: dict[str, list[str]] = {}
        for api, op_types in self.table("pages").distinct_rows("api", "op_types"):
            for op_type in _split(op_types):
                found.setdefault(op_type, []).append(api)
        return {op_type: tuple(apis) for op_type, apis in found.items()}

    def prototype_of(self, api: str) -> tuple[tuple[str, str, str], ...]:
        """The C parameters of an API in order: name, io and C type; the first variant counts."""
        rows = sorted(
            (row for row in self.table("prototypes").records(api) if row["variant"] == "0"),
            key=lambda row: int(row["pos"]),
        )
        return tuple((row["name"], row["io"], row["c_type"]) for row in rows)

    @lru_cache(maxsize=8192)  # noqa: B019 - one catalogue lives as long as the process
    def spellings_of(self, api: str) -> list[tuple[str, str, int | None]]:
        """Every name that a header or page gives a parameter of an API, with io and position."""
        found: dict[tuple[str, str, int | None], None] = {}
        for at, (name, io, _) in enumerate(self.prototype_of(api)):
            found[name, io, at] = None
        for table in ("pages", "reference_pages"):
            for row in self.table(table).records(api):
                position = int(row["pos"]) if row["pos"] else None
                if row["param"]:
                    found[row["param"], row["io"], position] = None
        return list(found)

    @lru_cache(maxsize=8192)  # noqa: B019 - one catalogue lives as long as the process
    def combinations(self, api: str, family: str) -> tuple[dict[str, tuple[str, ...]], ...]:
        """The dtype combinations that the page of `api` tabulates for `family`; empty = none.

        By parameter the alternatives, `NULL` where it is left out, ``=x`` for the dtype of ``x``.
        """
        return tuple(
            {
                name: tuple(NULL if kind == "-" else kind for kind in cell.split("/"))
                for name, _, cell in (pair.partition("=") for pair in row["combination"].split(";"))
            }
            for row in self.table("combinations").records(api)
            if family in row["products"].split(";")
        )

    def bf16_gate(self, api: str) -> str:
        """How host code selects BFLOAT16 (``soc_gated``, ``ungated`` ...); empty = not known."""
        return next((row["bf16_gate"] for row in self.table("bf16_gates").records(api)), "")


def _ask(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


def remembered(work: _Work) -> _Work:
    """A function of a catalogue and hashable arguments, whose answers that catalogue remembers."""

    @wraps(work)
    def ask(catalogue: Catalogue, *arguments: Any) -> Any:
        return catalogue.answers(work, catalogue, *arguments)

    return cast("_Work", ask)


def _named(table: store.Table, folded: str) -> str | None:
    rows = table.rows_of(folded)
    return table.row(rows[0])[1] if rows else None


def _operator_tensors(rows: Iterable[dict[str, str]]) -> tuple[OperatorTensor, ...]:
    ordered = sorted(rows, key=lambda row: (row["io"], int(row["index"])))
    return tuple(
        OperatorTensor(row["io"], row["name"], row["param_type"], _split(row["dtype_set"]))
        for row in ordered
    )


def _pages_of(rows: Iterable[dict[str, str]]) -> Iterator[Page]:
    """Rows of one API to pages: one page per source and product."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault((row["source"], row["product"]), []).append(row)
    for (source, family), mine in groups.items():
        first = mine[0]
        parameters = [_parameter(row) for row in mine if row["param"]]
        parameters.sort(key=lambda parameter: (parameter.position is None, parameter.position or 0))
        yield Page(
            first["api"],
            family,
            first["supported"],
            tuple(parameters),
            tuple(dict.fromkeys(remark for row in mine for remark in _split(row.get("check", "")))),
            first["release"],
            source,
            _split(first.get("op_types", "")),
            first.get("in_8_1") == "1",
        )


@cache
def _told(file: str) -> dict[tuple[str, str], str]:
    """What is known of parameters beside their cells on pages, by API and parameter.

    ``ranks.csv``: numbers of axes that pages give in words, or for one case of several;
    ``dtypes.csv`` and ``formats.csv``: dtypes and formats that host code takes too.
    """
    with table_in(Path(__file__).with_name(file)) as table:
        return {(api, name): said for _, (api, name, said, _) in table}


@cache
def seen_kernels() -> dict[tuple[str, str], str]:
    """Who published that a kernel ran, by operator type and family: ``seen_kernels.csv``.

    Versions of an operator (``LayerNormV3``, ``TransposeD``) count as one.
    """
    with table_in(Path(__file__).with_name("seen_kernels.csv")) as table:
        return {
            (without_version(op_type), family): source for _, (op_type, family, source) in table
        }


def seen_at(op_type: str, family: str) -> str:
    """Who published that a kernel, in any version, ran on a family; empty where nobody did."""
    return seen_kernels().get((without_version(op_type), family), "")


def without_version(op_type: str) -> str:
    """The name of an operator that its versions have in common."""
    return re.sub(r"(V\d+)?D?$", "", op_type)


def _parameter(row: dict[str, str]) -> Parameter:
    place = row["api"], row["param"]
    stated, checked = row["dtypes"], row.get("dtypes_checked", row["dtypes"])
    more = _split(_told("dtypes.csv").get(place, ""))
    return Parameter(
        row["param"],
        int(row["pos"]) if row["pos"] else None,
        row["io"],
        row["c_type"],
        (*_split(stated), *more),
        (*_split(checked), *more),
        (*_split(row["formats"]), *_split(_told("formats.csv").get(place, ""))),
        _told("ranks.csv").get(place, row["rank"]),
        row["non_contiguous"],
        row.get("optional") == "yes",
        row["dtype_basis"],
        _split(row.get("flags", "")),
        _split(row.get("check", "")),
    )


@cache
def catalogue() -> Catalogue:
    """The catalogue that ships with npusim; raises FileError when it is damaged."""
    return Catalogue()
