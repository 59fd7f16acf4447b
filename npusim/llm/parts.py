"""What a layer may hold beside plain attention: latent ranks, states, experts, towers."""

from __future__ import annotations

from math import isqrt
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from npusim.values.language import say

Size = Annotated[int, Field(gt=0, le=1 << 24, strict=True)]
Some = Annotated[int, Field(ge=0, le=1 << 24, strict=True)]
Layers = Annotated[int, Field(ge=0, le=10_000, strict=True)]
Mixer = Literal["full", "window", "linear"]
"""How a layer mixes tokens: attention to all before, to the last ones, or a state."""


class Part(BaseModel):
    """A frozen group of numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Indexer(Part):
    """What chooses the tokens that a sparse attention looks at: small heads of its own."""

    heads: Size = Field(description="its heads")
    size: Size = Field(description="size of a head")
    top: Size = Field(description="tokens that it chooses")


class Latent(Part):
    """Latent attention (MLA)."""

    query_rank: Size | None = Field(description="rank of queries; none: full")
    rank: Size = Field(description="rank of keys and values")
    nope: Size = Field(description="part of a head that positions don't turn")
    rope: Size = Field(description="part that they turn")
    value: Size = Field(description="size of a head's value")
    indexer: Indexer | None = Field(
        None, description="what chooses tokens, where attention is sparse"
    )

    def weights(self, hidden: int, heads: int) -> int:
        """Weights of one layer's attention."""
        into = self.query_rank or 0
        query = heads * (self.nope + self.rope)
        found = hidden * into + into * query if into else hidden * query
        found += hidden * (self.rank + self.rope) + self.rank * heads * (self.nope + self.value)
        found += heads * self.value * hidden
        if (indexer := self.indexer) is not None:
            found += (into or hidden) * indexer.heads * indexer.size
            found += hidden * (indexer.size + indexer.heads)
        return found

    @property
    def cached(self) -> int:
        """Numbers that one layer keeps of a token."""
        return self.rank + self.rope + (self.indexer.size if self.indexer else 0)


class State(Part):
    """Linear attention: a state of ``key_size x value_size`` for each value head.

    ``delta`` (gated delta net) has a gate and a decay for each value head and a short convolution
    over keys, queries and values, ``kda`` a decay for each channel of a key, ``lightning`` fixed
    decays and a gate.
    """

    kind: Literal["delta", "kda", "lightning"] = Field(
        description="gated delta net, Kimi's, or lightning attention"
    )
    key_heads: Size = Field(description="heads of keys")
    value_heads: Size = Field(description="heads of values")
    key_size: Size = Field(description="size of a key's head")
    value_size: Size = Field(description="size of a value's head")
    convolution: Some = Field(0, description="width of the short convolution; 0: none")

    @property
    def columns(self) -> int:
        """Queries, keys and values of a token."""
        return 2 * self.key_heads * self.key_size + self.value_heads * self.value_size

    @property
    def gates(self) -> int:
        """Columns of what a token is gated and forgotten by."""
        if self.kind == "kda":
            return 2 * self.key_size + self.value_heads
        out = self.value_heads * self.value_size
        return out + (2 * self.value_heads if self.kind == "delta" else 0)

    @property
    def widened(self) -> int:
        """Weights of second products that make gates of every channel from narrow ones."""
        if self.kind != "kda":
            return 0
        each = self.value_heads * self.value_size
        return self.key_size * (self.value_heads * self.key_size + each)

    @property
    def numbers(self) -> int:
        """Numbers that one layer keeps of a sequence, however long it is."""
        kept = self.value_heads * self.key_size * self.value_size
        return kept + self.columns * max(0, self.convolution - 1)

    def weights(self, hidden: int) -> int:
        """Weights of one layer."""
        out = self.value_heads * self.value_size
        ends = hidden * (self.columns + self.gates + out)
        return ends + self.columns * self.convolution + self.widened


class Experts(Part):
    """A mixture of experts."""

    count: Size = Field(description="experts of a layer")
    active: Size = Field(description="experts of a token")
    width: Size = Field(description="width of an expert")
    shared_width: Some = Field(0, description="width of what every token takes; 0: nothing")

    @field_validator("active")
    @classmethod
    def _of_them(cls, active: int, so_far: ValidationInfo) -> int:
        if active > (count := so_far.data.get("count", active)):
            raise PydanticCustomError("more", say("there are {count} experts"), {"count": count})
        return active


class Block(Part):
    """Layers alike."""

    count: Size = Field(description="layers")
    mixer: Mixer = Field(
        "full",
        description="how they mix tokens: attention to all before, to the last ones, or a state",
    )
    mixed: bool = Field(False, description="whether they have experts")


class Tower(Part):
    """What sees or hears: layers over patches (or frames) that all attend to each other."""

    layers: Size = Field(description="layers")
    hidden: Size = Field(description="width of a patch")
    heads: Size = Field(description="heads of attention")
    width: Size = Field(description="width of a unit")
    inputs: Size = Field(description="numbers of a patch")
    gated: bool = Field(False, description="whether units are gated")
    merged: Size = Field(1, description="patches that become one token")
    projected: Some = Field(0, description="width of the product between; 0: none")
    mergers: Size = Field(1, description="mergers")
    near: Some = Field(
        0,
        description="patches that attend to each other in all but `wide_layers` layers; 0: all do",
    )
    wide_layers: Layers = Field(0, description="layers in which all attend to all")
    patch: Size | None = Field(None, description="pixels of a patch's side; none for what is heard")
    fixed: Some = Field(0, description="frames of what is heard; 0: as many as there are")
    positions: Some = Field(0, description="learned positions; 0: none")
    pooled: bool = Field(False, description="whether patches are averaged before they are merged")

    def weights(self, out: int) -> int:
        """Weights of the tower and of what brings its results into a model `out` wide."""
        layer = 4 * self.hidden * self.hidden + (3 if self.gated else 2) * self.hidden * self.width
        into = self.hidden * (1 if self.pooled else self.merged)
        between = self.projected or into
        merger = into * self.projected + between * out
        ends = self.hidden * (self.inputs + self.positions)
        return self.layers * layer + ends + self.mergers * merger

    def patches(self, width: int, height: int) -> int:
        """Patches of an image of so many pixels; sides are rounded to whole merged patches."""
        if self.fixed or self.patch is None:
            return self.fixed
        side = self.patch * isqrt(self.merged)
        across, down = (max(1, round(pixels / side)) for pixels in (width, height))
        return across * down * self.merged

    def tokens(self, patches: int) -> int:
        """Tokens of the model that patches become."""
        return -(-patches // self.merged)
