"""What the catalogue knows, as typed facts: pages, operator information, host code, and sources.

Nothing here judges. A fact says what one source says, and names the source; dtypes are spelled as
on the operator pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.catalogue import store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DATA_FILE = Path(__file__).with_name("catalogue.bin")
ANY_CHIP = "any"  # how AI CPU operators, the same on every chip, are filed
AI_CORE_ENGINES = ("aicore", "dsa")


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


@dataclass(frozen=True, slots=True)
class OperatorTensor:
    """One tensor of an operator: its dtypes, and entry i of each tensor as combination i."""

    io: str
    name: str
    param_type: str
    dtypes: tuple[str, ...]
    combinations: tuple[str, ...]


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


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(";")) if text else ()


class Catalogue:
    """The facts of one catalogue file. Tables are unpacked when first asked for."""

    def __init__(self, path: Path = DATA_FILE) -> None:
        self.path = path
        self._tables = store.read(path)

    def table(self, name: str) -> store.Table:
        """A table as it is stored, for what has no typed fact of its own."""
        return self._tables[name]

    @cached_property
    def apis(self) -> tuple[str, ...]:
        """Every API with a page or a prototype, sorted."""
        tables = ("pages", "other_pages", "prototypes")
        return tuple(sorted({api for name in tables for api in self.table(name).keys}))

    @cached_property
    def paged_apis(self) -> frozenset[str]:
        """The APIs with a page on a current branch."""
        return frozenset(self.table("pages").keys)

    @cached_property
    def op_types(self) -> tuple[str, ...]:
        """Every operator type of the operator information and the definitions, sorted."""
        tables = ("operators", "operator_tensors", "operator_definitions")
        return tuple(sorted({op for name in tables for op in self.table(name).keys}))

    def is_operator(self, op_type: str) -> bool:
        """True for a type that some product has or had."""
        return bool(self._operators(op_type))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The repositories behind the facts."""
        table = self.table("sources")
        return tuple(Source(*table.row(number)) for number in range(len(table)))

    def page(self, api: str, family: str) -> Page | None:
        """What the current page of `api` says of `family`; None without such a page."""
        return self._pages(api).get(family)

    @lru_cache(maxsize=2048)  # noqa: B019 - one catalogue lives as long as the process
    def _pages(self, api: str) -> dict[str, Page]:
        rows = [row for row in self.table("pages").records(api) if row["primary"] == "1"]
        return {page.family: page for page in _pages_of(rows)}

    def older_pages(self, api: str, family: str) -> tuple[Page, ...]:
        """What earlier pages say: the 8.5 branches, 2025-09, and reference pages of CANN 8.0."""
        rows = [*self.table("reference_pages").records(api), *self.table("other_pages").records(api)]
        mine = [row for row in rows if row["product"] == family]
        return tuple(_pages_of(mine))

    def operators(self, op_type: str, family: str) -> tuple[Operator, ...]:
        """Who can run `op_type` on `family`: one entry per engine and source.

        AI CPU operators are filed under no chip and are given for every family.
        """
        return self._operators(op_type).get(family, ()) + self._operators(op_type).get(ANY_CHIP, ())

    @lru_cache(maxsize=2048)  # noqa: B019 - as above
    def _operators(self, op_type: str) -> dict[str, tuple[Operator, ...]]:
        found: dict[str, tuple[Operator, ...]] = {}
        listed = {
            (row["product"], row["engine"]): row for row in self.table("operators").records(op_type)
        }
        groups: dict[tuple[str, str], list[dict[str, str]]] = {key: [] for key in listed}
        for row in self.table("operator_tensors").records(op_type):
            groups.setdefault((row["product"], row["engine"]), []).append(row)
        for (family, engine), rows in groups.items():
            operator = self._information(op_type, family, engine, rows)
            found[family] = (*found.get(family, ()), operator)
        for operator in self._definitions(op_type):
            found[operator.family] = (*found.get(operator.family, ()), operator)
        return found

    def _information(
        self, op_type: str, family: str, engine: str, rows: list[dict[str, str]]
    ) -> Operator:
        basis = rows[0]["basis"] if rows else "listed"
        soc = rows[0]["soc"] if rows else family
        tensors = tuple(_operator_tensor(row) for row in rows)
        return Operator(op_type, family, engine, basis, tensors, self._information_source(soc, engine))

    @lru_cache(maxsize=32)  # noqa: B019 - as above
    def _information_source(self, soc: str, engine: str) -> str:
        base = next(source for source in self.sources if source.id == "cann-8.1")
        return f"cann-8.1:{engine} operator information of {soc}@{base.commit[:8]}"

    def _definitions(self, op_type: str) -> Iterator[Operator]:
        groups: dict[str, list[dict[str, str]]] = {}
        for row in self.table("operator_definitions").records(op_type):
            groups.setdefault(row["product"], []).append(row)
        for family, rows in groups.items():
            tensors = tuple(_operator_tensor(row) for row in rows)
            yield Operator(op_type, family, "aicore", "definition", tensors, rows[0]["source"])

    def prototype(self, op_type: str) -> tuple[OperatorTensor, ...]:
        """The tensors of an operator with the widest dtypes any product may have (8.1)."""
        rows = self.table("operator_prototypes").records(op_type)
        return tuple(
            OperatorTensor(
                row["io"], row["name"], row["param_type"], _split(row["dtype_superset"]), ()
            )
            for row in rows
        )

    def kernel_code_dtypes(self, op_type: str, family: str) -> tuple[str, ...]:
        """The AI Core dtypes that host code lists for an operator under the name of a family."""
        rows = self.table("kernel_code_dtypes").records(op_type)
        mine = (row for row in rows if row["product_hint"] == family)
        return next((_split(row["dtypes"]) for row in mine if row["engine_hint"] == "aicore"), ())

    def op_types_of(self, api: str) -> tuple[str, ...]:
        """The operators that do the work of `api` (casts, copies and reshapes left out)."""
        for page in self._pages(api).values():
            if page.op_types:
                return page.op_types
        rows = self.table("called_operators").records(api)
        return tuple(row["op_function"] for row in rows if row["role"] == "main")

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

    def combinations(self, api: str, family: str) -> tuple[dict[str, str], ...]:
        """The dtype combinations that the page of `api` tabulates for `family`; empty = none."""
        return tuple(
            dict(pair.split("=", 1) for pair in row["combination"].split(";"))
            for row in self.table("combinations").records(api)
            if family in row["products"].split(";")
        )

    def bf16_gate(self, api: str) -> tuple[str, str]:
        """How host code selects BFLOAT16 (``soc_gated`` ...), and the file that was read."""
        for row in self.table("bf16_gates").records(api):
            return row["bf16_gate"], row["source"]
        return "", ""


def _operator_tensor(row: dict[str, str]) -> OperatorTensor:
    aligned = row["dtypes_aligned"]
    return OperatorTensor(
        row["io"],
        row["name"],
        row["param_type"],
        _split(row["dtype_set"]),
        tuple(aligned.split("|")) if aligned else (),
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


def _parameter(row: dict[str, str]) -> Parameter:
    return Parameter(
        row["param"],
        int(row["pos"]) if row["pos"] else None,
        row["io"],
        row["c_type"],
        _split(row["dtypes"]),
        _split(row.get("dtypes_checked", row["dtypes"])),
        _split(row["formats"]),
        row["rank"],
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
