"""How chips are linked: levels of links, HCCL's engines that drive them, and what HCCL chooses.

The numbers stand in ``hw_profiles/interconnects/*.yaml``; rates are GB/s one way, of one link
(``mesh``: every pair of ranks has one) or one port (``ports``: every rank has one into a switch).
A rank is a chip: one die of an Atlas A3 package, one of the two chips of an Atlas 300I Duo.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from npusim.hardware.groups import Group, as_tuple
from npusim.hardware.naming import resolve_soc
from npusim.hardware.numbers import (
    Bytes,
    Count,
    Fraction,
    Microseconds,
    Speed,
)
from npusim.hardware.products import product_lines, products
from npusim.hardware.provenance import Problem, Provenance, read_group
from npusim.hardware.reading import (
    built_in_sources,
    data_folder,
    parsed,
    stems,
    validated,
)
from npusim.values.errors import UnknownNameError
from npusim.values.language import say

Operation = Literal["allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "sendrecv"]
Algorithm = Literal["mesh", "one_shot", "ring", "doubling", "nhr", "pairwise"]


class Level(Group):
    """Links that join ranks."""

    ranks: Count = Field(description="most ranks that the links join")
    shape: Literal["mesh", "ports"] = Field(
        description=(
            "`mesh`: every pair of ranks has a link; `ports`: every rank has one into a switch"
        )
    )
    gbps: Speed = Field(description="rate of a link or port one way, GB/s")
    step_us: Microseconds = Field(
        description="what each step over them takes beside its bytes, microseconds"
    )
    through: str = Field(
        "", description="level whose ports it goes through, which it shares; empty: its own"
    )
    write_us: Microseconds = Field(
        default=0.0,
        description="what a core's store to another rank takes longer than to its own memory",
    )


class Driver(Group):
    """What moves the data: copies by SDMA, vector cores, or tasks that an AI CPU or host queues."""

    start_us: Microseconds = Field(description="a collective once")
    step_us: Microseconds = Field(description="each step")
    rise_us: Microseconds = Field(description="most that a step takes more as its bytes grow")
    rise_bytes: Bytes = Field(
        description="bytes over a link from which on it takes the whole of that"
    )
    least_us: Microseconds = Field(description="least time of steps over links")
    rate_fraction: Fraction = Field(description="part of a link's rate that is reached")
    reduce_fraction: Fraction = Field(description="part of that where data is reduced")
    in_graph_us: Microseconds = Field(
        description="more for each step inside a network, where ranks don't arrive at once"
    )

    def rise(self, nbytes: float) -> float:
        """Microseconds that a step takes more when the busiest pair moves `nbytes`."""
        short = max(0.0, 1.0 - nbytes / self.rise_bytes)
        return self.rise_us * (1.0 - short * short)


class Choice(Group):
    """What HCCL takes for operations, message sizes and numbers of ranks."""

    operations: Annotated[tuple[Operation, ...], BeforeValidator(as_tuple)] = Field(
        description="collectives that it is for"
    )
    algorithm: Algorithm = Field(description="how they run")
    engine: str = Field(description="what moves their data, a key of `engines`")
    ranks: Annotated[tuple[int, ...] | None, BeforeValidator(as_tuple)] = Field(
        None, description="numbers of ranks; none: any"
    )
    most_bytes: Bytes | None = Field(None, description="largest tensor of a rank, bytes; none: any")
    most_shard_bytes: Bytes | None = Field(
        None, description="largest part of the whole that a rank gives, bytes; none: any"
    )

    def fits(self, operation: str, ranks: int, nbytes: float, shard_bytes: float) -> bool:
        """Whether HCCL takes this for the collective."""
        return (
            operation in self.operations
            and (self.ranks is None or ranks in self.ranks)
            and (self.most_bytes is None or nbytes <= self.most_bytes)
            and (self.most_shard_bytes is None or shard_bytes <= self.most_shard_bytes)
        )


class Interconnect(Group):
    """The links of a server and beyond."""

    name: str = Field(description="name of the file")
    title: str = Field(description="what people call it")
    server_ranks: Count = Field(description="ranks of a server")
    levels: Mapping[str, Level] = Field(description="name -> links, from the innermost outwards")
    engines: Mapping[str, Driver] = Field(description="name -> what moves data")
    choices: Annotated[tuple[Choice, ...], BeforeValidator(as_tuple)] = Field(
        description="what HCCL takes, the first that fits"
    )
    provenance: Annotated[Mapping[str, Provenance], Field(exclude=True, repr=False)] = Field(
        description="key -> source and confidence"
    )

    def __hash__(self) -> int:
        return hash(self.name)

    @field_validator("levels")
    @classmethod
    def _goes_through_one_of_them(cls, levels: Mapping[str, Level]) -> Mapping[str, Level]:
        for each in levels.values():
            if each.through and each.through not in levels:
                raise ValueError(say("{name} isn't a level").format(name=each.through))
        return levels

    @property
    def most_ranks(self) -> int:
        """How many ranks the outermost level joins."""
        return max(level.ranks for level in self.levels.values())

    def level_of(self, one: int, other: int) -> tuple[str, Level]:
        """The innermost level that joins two ranks, with the name of its links or ports.

        The outermost joins all that there are: how many a group has is asked where it is made.
        """
        *inner, outermost = self.levels.items()
        found = (each for each in inner if one // each[1].ranks == other // each[1].ranks)
        name, level = next(found, outermost)
        return level.through or name, level


def interconnect_names() -> list[str]:
    """The interconnects that there are, sorted."""
    return stems(data_folder() / "interconnects")


@cache
def load_interconnect(name: str) -> Interconnect:
    """An interconnect by its name; UnknownNameError, or ProfileError for a wrong file."""
    if name not in interconnect_names():
        raise UnknownNameError("interconnect", name, interconnect_names())
    file = data_folder() / "interconnects" / f"{name}.yaml"
    raw = dict(parsed(file))
    problems: list[Problem] = []
    origins: dict[str, Provenance] = {}
    for group in ("levels", "engines"):
        values = dict(raw[group])
        entries = values.pop("provenance", None)
        origins |= read_group(group, values, entries, built_in_sources(), problems)
        raw[group] = values
    choices, said = {"rows": raw["choices"]}, {"default": raw.pop("choices_provenance", None)}
    origins |= read_group("choices", choices, said, built_in_sources(), problems)
    return validated(str(file), Interconnect, {**raw, "provenance": origins}, problems)


def interconnect_of(text: str) -> Interconnect:
    """How the chips of what `text` names are linked: a product, or the first with the chip."""
    wanted = text.casefold()
    for product in products():
        if wanted in (name.casefold() for name in product.names):
            return load_interconnect(product.interconnect)
    soc = resolve_soc(text).name
    for entry in (*products(), *product_lines()):
        if entry.soc == soc:
            return load_interconnect(entry.interconnect)
    return load_interconnect(_of_family(soc))


def _of_family(soc: str) -> str:
    """The interconnect of the product line that a chip without products belongs to."""
    from npusim.hardware.naming import load_profile

    family = load_profile(soc).family
    return next(line.interconnect for line in product_lines() if line.family == family)
