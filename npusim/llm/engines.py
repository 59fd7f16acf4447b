"""Serving engines as ``hw_profiles/engines.yaml`` describes them: the host, memory, pages."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from npusim.hardware.groups import Group
from npusim.hardware.numbers import Bytes, Count, Fraction, Microseconds
from npusim.hardware.provenance import Problem, Provenance, read_group
from npusim.hardware.reading import built_in_sources, data_folder, parsed, validated
from npusim.values.errors import UnknownNameError


class Engine(Group):
    """What an engine costs: microseconds of the host for a step, and memory beside the model."""

    graph_step_us: Microseconds = Field(description="a step of a captured graph")
    piecewise_layer_us: Microseconds = Field(
        description="least time of a layer of a graph in pieces"
    )
    piecewise_sequence_us: Microseconds = Field(
        description="a sequence, where ranks share layers of a graph in pieces"
    )
    eager_launch_us: Microseconds = Field(description="an operator without a graph")
    eager_experts_layer_us: Microseconds = Field(
        description="least time of a layer of experts without a graph"
    )
    rank_spread_us: Microseconds = Field(description="how far apart ranks begin a step")
    overlap_share: Fraction = Field(
        description=(
            "of a product and the collective beside it, the part of the shorter that is hidden"
        )
    )
    memory_share: Fraction = Field(description="part of a device's memory that the engine uses")
    buffer_bytes: Bytes = Field(description="memory of its own buffers, bytes")
    block_tokens: Count = Field(description="tokens of a block of the cache")
    provenance: Annotated[dict[str, Provenance], Field(exclude=True, repr=False)] = Field(
        description="key -> source and confidence"
    )


@cache
def load_engine(name: str = "vllm-ascend") -> Engine:
    """An engine by its name; UnknownNameError for others, ProfileError for a wrong file."""
    file = data_folder() / "engines.yaml"
    known = parsed(file)
    if name not in known:
        raise UnknownNameError("engine", name, known)
    problems: list[Problem] = []
    values = dict(known[name])
    origins = read_group(name, values, values.pop("provenance", None), built_in_sources(), problems)
    return validated(str(file), Engine, {**values, "provenance": origins}, problems)
