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
    """What an engine costs: microseconds of the host for a step, and memory beside the model.

    A captured graph costs `graph_step_us` a step. One in pieces (attention apart) costs at least
    `piecewise_layer_us` a layer and, where ranks share layers, `piecewise_sequence_us` a sequence;
    without a graph the host needs `eager_launch_us` for an operator. Ranks begin a step spread over
    `rank_spread_us`. Of a product and the collective beside it, made or taken piece by piece,
    `overlap_share` of the shorter is hidden.
    """

    graph_step_us: Microseconds
    piecewise_layer_us: Microseconds
    piecewise_sequence_us: Microseconds
    eager_launch_us: Microseconds
    rank_spread_us: Microseconds
    overlap_share: Fraction
    memory_share: Fraction
    buffer_bytes: Bytes
    block_tokens: Count
    provenance: Annotated[dict[str, Provenance], Field(exclude=True, repr=False)]


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
