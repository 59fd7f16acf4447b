"""What the operator information says: is there a kernel on this family, and does it take a dtype?

Three lists answer, and not all equally well: the operator information of CANN 8.1 (per chip), the
operator definitions of 2026 (which know Ascend 950), and, where a kernel chooses its dtypes when
it is compiled, the prototype, whose dtypes are those of all products together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from npusim.catalogue.facts import AI_CORE_ENGINES, Catalogue, Operator, remembered
from npusim.catalogue.verdicts import Answer, Evidence
from npusim.values.dtypes import DTYPES

COLUMN = "operator information"
# Families without operator information in CANN 8.1; only the definitions of 2026 know them.
NEWER_THAN_8_1 = frozenset({"950"})
# Bases under which the dtypes listed for a kernel (if any) aren't all that it takes.
VAGUE = ("dynamic_select", "listed", "prebuilt_kernel_list")
# A dtype that fewer than one operator in twenty takes isn't one that the chip computes with:
# BFLOAT16 is taken by 1 of 826 on 910, 1 of 842 on 310P and 13 of 695 on 310B (data movement), but
# by half of them on A2 and A3. The counts are the catalogue's; `npusim ops summary` prints them.
RARE = 0.05
# Only these are doubted for being rare: the others are the same on every chip.
DOUBTFUL = ("BFLOAT16", "FLOAT8", "HIFLOAT8", "FLOAT6", "FLOAT4")


@dataclass(frozen=True, slots=True)
class Census:
    """How many AI Core operators a family has, and how many of them take each dtype somewhere."""

    operators: int
    taking: dict[str, int]

    def is_rare(self, dtype: str) -> bool:
        """True for a reduced-precision dtype that next to no operator of the family takes."""
        if not dtype.startswith(DOUBTFUL) or not self.operators:
            return False
        return self.taking.get(dtype, 0) < RARE * self.operators


@remembered
def census(catalogue: Catalogue, family: str) -> Census:
    """The dtypes of the operators of a family; by the 2026 definitions where 8.1 knows none."""
    rows = list(catalogue.table("census").records(family))
    taking = {row["dtype"]: int(row["taking"]) for row in rows}
    return Census(taking.pop(""), taking) if rows else Census(0, {})


def on_ai_core(catalogue: Catalogue, op_type: str, family: str) -> tuple[Operator, ...]:
    """The AI Core (or DSA) entries of an operator on a family."""
    entries = catalogue.operators(op_type, family)
    return tuple(each for each in entries if each.engine in AI_CORE_ENGINES)


def on_ai_cpu(catalogue: Catalogue, op_type: str, family: str) -> tuple[Operator, ...]:
    """The AI CPU entries of an operator, which hold for every family."""
    entries = catalogue.operators(op_type, family)
    return tuple(each for each in entries if each.engine.startswith("aicpu"))


@remembered
def presence(catalogue: Catalogue, wanted: tuple[str, ...], family: str) -> Evidence:
    """Does the family have kernels for all of these operators?"""
    if not wanted:
        return Evidence(COLUMN, Answer.UNKNOWN, "no operator is known to do its work", "")
    entries = {op: on_ai_core(catalogue, op, family) for op in wanted}
    there = [op for op in wanted if entries[op]]
    cpu = [op for op in wanted if not entries[op] and on_ai_cpu(catalogue, op, family)]
    missing = [op for op in wanted if op not in there and op not in cpu]
    source = next((entries[op][0].source for op in there), _release(catalogue, family))
    if not missing and not cpu:
        return Evidence(COLUMN, Answer.SUPPORTED, f"kernel of {_list(there)}", source)
    if not missing:
        text = f"{_list(cpu)} runs on the AI CPU, which is slow"
        return Evidence(COLUMN, Answer.SUPPORTED, text, source)
    nowhere = [op for op in missing if not catalogue.operator_named(op.lower())]
    if nowhere:
        text = f"the operator information doesn't know {_list(nowhere)}"
        return Evidence(COLUMN, Answer.UNKNOWN, text, source)
    if family in NEWER_THAN_8_1:
        return Evidence(COLUMN, Answer.UNKNOWN, f"no definition of {_list(missing)} found", source)
    if not there and not cpu:
        return Evidence(COLUMN, Answer.REJECTED, f"no kernel of {_list(missing)}", source)
    text = f"kernel of {_list([*there, *cpu])}, none of {_list(missing)}"
    return Evidence(COLUMN, Answer.UNKNOWN, text, source)


@remembered
def accepted_dtypes(catalogue: Catalogue, op_types: tuple[str, ...], family: str) -> Dtypes:
    """The dtypes that these operators take together on a family, AI Core first."""
    listed: dict[str, None] = {}
    possible: dict[str, None] = {}
    on_cpu: dict[str, None] = {}
    vague = False
    for op_type in op_types:
        entries = on_ai_core(catalogue, op_type, family)
        listed.update(dict.fromkeys(name for entry in entries for name in entry.dtypes))
        if any(entry.basis in VAGUE for entry in entries):
            vague = True
            possible.update(dict.fromkeys(_wider_dtypes(catalogue, op_type, family)))
        for entry in on_ai_cpu(catalogue, op_type, family):
            on_cpu.update(dict.fromkeys(entry.dtypes))
    possible.update(listed)
    return Dtypes(_ordered(listed), _ordered(possible), _ordered(on_cpu), vague)


def _wider_dtypes(catalogue: Catalogue, op_type: str, family: str) -> list[str]:
    """What an operator without a static list takes at most: host code says, or the prototype."""
    told = catalogue.kernel_code_dtypes(op_type, family)
    if told:
        return list(told)
    rare = census(catalogue, family)
    dtypes = [name for tensor in catalogue.prototype(op_type) for name in tensor.dtypes]
    return [name for name in dtypes if not rare.is_rare(name)]


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    """In the order of aclDataType; what isn't one (``STRING`` apart) is an artefact of a list."""
    found = set(names)
    return tuple(kind.name for kind in DTYPES if kind.name in found)


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Dtypes by how well they are known.

    `listed` stand in a static list, `possible` also in the prototype of an operator without one,
    `on_cpu` are those of the AI CPU; `vague` says that `listed` isn't the whole truth.
    """

    listed: tuple[str, ...]
    possible: tuple[str, ...]
    on_cpu: tuple[str, ...]
    vague: bool

    @property
    def widest(self) -> tuple[str, ...]:
        """The best list there is of what may be taken."""
        return self.possible or self.on_cpu


def _release(catalogue: Catalogue, family: str) -> str:
    if family in NEWER_THAN_8_1:
        return "operator definitions of 2026"
    base = next(source for source in catalogue.sources if source.id == "cann-8.1")
    return f"cann-8.1:operator information@{base.commit[:8]}"


def _list(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
