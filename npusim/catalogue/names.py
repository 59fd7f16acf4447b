"""From what people call an operator (``add``, ``MatMulV2``, ONNX ``Conv``) to catalogue names.

Names that differ by more than spelling are in ``aliases.csv``, beside this file, with a source
each. Its kinds: ``onnx`` (ONNX operator to operator types, alternatives joined by ``;``),
``optype`` (operator type to the APIs that do the same, the usual one first; none for what only
graph engines insert), ``torch`` (aten name
to APIs) and ``graph`` (structure that needs no kernel).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.hardware.families import either
from npusim.reading.tables import table_in
from npusim.values.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from npusim.catalogue.facts import Catalogue

API = "api"
OPERATOR = "operator"
GRAPH = "graph"

_PREFIXES = (
    "torch.ops.aten.", "torch.ops.npu.", "torch.nn.functional.", "aten::", "npu::", "torch.",
)  # fmt: skip


class AmbiguousNameError(UsageError):
    """A name that stands for several operators; `candidates` are the ones to choose from."""

    def __init__(self, got: str, candidates: tuple[str, ...]) -> None:
        self.got = got
        self.candidates = candidates
        remedy = f"Say which: {either(list(candidates))}."
        super().__init__(f"{got!r} stands for several operators", remedy)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: an API, an operator with its types, or graph structure.

    `apis` are the APIs that do what an operator does, the usual one first; `op_types` are
    alternatives, of which the graph engine picks one. `name` is how answers call it.
    """

    kind: str
    name: str
    apis: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    note: str = ""


@cache
def aliases() -> dict[str, dict[str, tuple[str, ...]]]:
    """The alias table: kind -> lower-case name -> meanings."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    with table_in(Path(__file__).with_name("aliases.csv")) as table:
        for _, row in table.records():
            means = tuple(row["means"].split(";")) if row["means"] else ()
            found.setdefault(row["kind"], {})[row["name"].lower()] = means
    return found


def find(catalogue: Catalogue, name: str) -> Subject:
    """The subject that a user's word names; an API wins over an operator type of the same name.

    Raises UnknownNameError with near misses, AmbiguousNameError with the candidates.
    """
    plain = _plain(name)
    if api := api_named(catalogue, plain):
        return Subject(API, api, (api,), note=_other_meaning(plain, api))
    if subject := operator_named(catalogue, plain) or onnx_named(catalogue, plain):
        return subject
    apis = aliases()["torch"].get(plain.lower(), ())
    if len(apis) > 1:
        raise AmbiguousNameError(name, apis)
    if apis:
        return Subject(API, apis[0], apis, note=f"{name} runs {apis[0]}")
    remedy = "`npusim ops --search WORD` looks for a part of a name."
    raise UnknownNameError("operator", name, near_candidates(catalogue, plain), remedy)


def api_named(catalogue: Catalogue, name: str) -> str | None:
    """The API called `name`, with or without ``aclnn``, in any case, underscores or none."""
    folded = name.lower().replace("_", "")
    if name.endswith("_"):  # the in-place variant of an aten name
        return catalogue.api_named(f"aclnninplace{folded}")
    return catalogue.api_named(folded) or catalogue.api_named(f"aclnn{folded}")


def operator_named(catalogue: Catalogue, name: str) -> Subject | None:
    """The operator type called `name` with the APIs that do the same; None when there is none."""
    folded = name.lower()
    if folded in aliases()["graph"]:
        return Subject(GRAPH, name)
    op_type = catalogue.operator_named(folded)
    apis = apis_of(catalogue, op_type or name)
    if op_type is None and folded not in aliases()["optype"]:
        return None
    op_type = op_type or name
    return Subject(OPERATOR, op_type, apis, (op_type,))


def onnx_named(catalogue: Catalogue, name: str) -> Subject | None:
    """The operator types that an ONNX operator becomes, and the APIs that do the same."""
    op_types = aliases()["onnx"].get(name.lower())
    if not op_types:
        return None
    if all(op_type.lower() in aliases()["graph"] for op_type in op_types):
        return Subject(GRAPH, name)
    apis = dict.fromkeys(api for op_type in op_types for api in apis_of(catalogue, op_type))
    note = f"ONNX {name} is {either(list(op_types))}"
    return Subject(OPERATOR, name, tuple(apis), op_types, note)


def apis_of(catalogue: Catalogue, op_type: str) -> tuple[str, ...]:
    """The APIs that compute what an operator type computes, the usual one first.

    An operator that many APIs use as one step among others stands for none of them.
    """
    told = aliases()["optype"].get(op_type.lower())
    if told is not None:
        return told
    same_name = catalogue.api_named(f"aclnn{op_type.lower()}")
    if same_name in catalogue.paged_apis:
        return (same_name,)
    callers = catalogue.callers.get(op_type, ())
    alone = tuple(api for api in callers if catalogue.op_types_of(api) == (op_type,))
    return alone or (callers if len(callers) == 1 else ())


def near_candidates(catalogue: Catalogue, name: str) -> list[str]:
    """The names to offer as near misses, with the prefix when `name` has it."""
    if name.lower().startswith("acl"):
        return list(catalogue.apis)
    return [*(api.removeprefix("aclnn") for api in catalogue.apis), *catalogue.op_types]


def _plain(name: str) -> str:
    plain = name.strip()
    for prefix in _PREFIXES:
        plain = plain.removeprefix(prefix)
    return plain.split(".")[0]  # aten overloads: add.Tensor


def _other_meaning(plain: str, api: str) -> str:
    """A word when an operator type of the same name computes something else (Equal, Gather)."""
    told = aliases()["optype"].get(plain.lower()) or aliases()["onnx"].get(plain.lower(), ())
    others = [name for name in told if name.startswith("aclnn")]
    if not others or api in others:
        return ""
    return f"taken as {api}; the operator type {plain} is {either(others)}"
