"""The sentences of the verdicts: the words that people search for, then what CANN doesn't say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from npusim.catalogue.verdicts import Answer, Evidence, ParameterVerdict
from npusim.hardware.families import one_of, plural

if TYPE_CHECKING:
    from npusim.catalogue.facts import Parameter
    from npusim.catalogue.operators import Census
    from npusim.catalogue.question import Question

SUPPORT_WORDS = {
    "yes": "supported",
    "no": "not supported",
    "unlisted": "doesn't mention the product",
}


def place(question: Question) -> str:
    """``Ascend310P3`` where a chip was named, ``Atlas inference products`` where a family was."""
    return question.soc or plural(question.family)


def not_offered(subject: str, question: Question, reason: str) -> str:
    """An API or operator that the product doesn't have."""
    return f"{subject} is not supported on {place(question)}: {reason}"


def no_reason(information: Evidence) -> str:
    """Why a product lacks an API, as far as the sources say."""
    said = "its operator page doesn't list the product"
    if information.answer is Answer.REJECTED:
        return f"{said}, and the operator information has {information.text}"
    return said


def dtype_refused(parameter: ParameterVerdict, question: Question) -> str:
    """The familiar sentence of a refused dtype, with the list of those that are taken."""
    takes = ", ".join(f"DT_{name}" for name in parameter.accepted)
    head = f"tensor {parameter.name} not implemented for DT_{parameter.given} on {place(question)}"
    return f"{head}, should be in dtype support list [{takes}]"


def kernel_refused(operator: str, dtypes: Iterable[str], takes: Iterable[str], where: str) -> str:
    """A dtype that no kernel of an operator takes."""
    refused = ", ".join(f"DT_{name}" for name in dtypes)
    support = ", ".join(f"DT_{name}" for name in takes)
    head = f"{operator} not implemented for {refused} on {where}"
    return f"{head}, should be in dtype support list [{support}]" if support else head


def contradicted(parameter: Parameter, dtype: str) -> str:
    """A dtype that the page states and the checked column drops."""
    if "bf16_contradicted" in parameter.remarks:
        return f"the page lists {dtype}, but host code keeps it off this product"
    return f"the page lists {dtype}, but no kernel of CANN 8.1 takes it on this product"


def unconfirmed(parameter: Parameter, dtype: str, census: Census) -> str:
    """A dtype that the page states for a product that next to never computes with it."""
    return (
        f"the page lists {dtype} for {parameter.name}, but nothing confirms it: "
        f"{rarely(dtype, census)}"
    )


def rarely(dtype: str, census: Census) -> str:
    """How few operators of a product take a dtype."""
    taking = census.taking.get(dtype, 0)
    return f"{taking} of {census.operators} operators of this product take {dtype}"


def wrong_rank(parameter: ParameterVerdict, shape: Sequence[int], name: str = "") -> str:
    """A shape whose number of dimensions the page doesn't list; ``name`` of a tensor of a list."""
    sizes = ", ".join(map(str, shape))
    wanted = parameter.rank.replace(";", " or ")
    return (
        f"Expected {wanted} dimension input, but got {name or parameter.name} with sizes [{sizes}] "
        "(by the page)"
    )


def rank_allows(rank: str, dimensions: int) -> bool:
    """Whether a rank as written on the page (``2``, ``1-8``, ``2;4``, empty) allows so many."""
    if not rank:
        return True
    for part in rank.split(";"):
        low, _, high = part.partition("-")
        if int(low) <= dimensions <= int(high or low):
            return True
    return False


def remedy(supported_by: Sequence[str], change: str = "", what: str = "This") -> str:
    """Who does support it, and what to `change` on this product ("cast to FLOAT16")."""
    if not supported_by:
        return f"{change[:1].upper()}{change[1:]}." if change else ""
    ways = f"{change}, or " if change else ""
    return f"{what} needs {one_of(supported_by)}; {ways}choose another --soc-version."
