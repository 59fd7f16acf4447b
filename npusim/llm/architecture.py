"""A decoder as numbers: what a layer is made of, whatever its config calls things."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

Size = Annotated[int, Field(gt=0, le=1 << 24)]
Layers = Annotated[int, Field(ge=0, le=10_000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Latent(_Part):
    """Latent attention (MLA): ranks of queries (None: full) and of keys and values, head sizes."""

    query_rank: Size | None
    rank: Size
    nope: Size
    rope: Size
    value: Size


class Experts(_Part):
    """A mixture: `count` experts of `width`, `active` for a token, and what every token takes.

    The first `dense_layers` layers have none of it.
    """

    count: Size
    active: Size
    width: Size
    shared_width: Annotated[int, Field(ge=0, le=1 << 24)] = 0
    dense_layers: Layers = 0

    @field_validator("active")
    @classmethod
    def _of_them(cls, active: int, so_far: ValidationInfo) -> int:
        if active > (count := so_far.data.get("count", active)):
            raise PydanticCustomError("more", "there are {count} experts", {"count": count})
        return active


class Architecture(_Part):
    """Sizes of a decoder-only transformer; `width` is that of a dense layer's gated unit.

    A unit that isn't `gated` is a product, the activation and a product.
    """

    name: str
    layers: Annotated[int, Field(gt=0, le=10_000)]
    hidden: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    width: Size
    vocabulary: Size
    qk_norm: bool = False
    qkv_bias: bool = False
    tied: bool = False
    activation: Literal["silu", "gelu"] = "silu"
    gated: bool = True
    norms: Annotated[int, Field(ge=2, le=4)] = 2
    latent: Latent | None = None
    experts: Experts | None = None

    @field_validator("kv_heads")
    @classmethod
    def _shared_evenly(cls, kv_heads: int, so_far: ValidationInfo) -> int:
        """Each is read by as many heads."""
        if (heads := so_far.data.get("heads", kv_heads)) % kv_heads:
            raise PydanticCustomError(
                "uneven", "doesn't divide the {heads} heads", {"heads": heads}
            )
        return kv_heads

    @property
    def dense_layers(self) -> int:
        """Layers with one gated unit."""
        return self.layers if self.experts is None else min(self.experts.dense_layers, self.layers)

    @property
    def expert_layers(self) -> int:
        """Layers with a mixture of experts."""
        return self.layers - self.dense_layers

    @property
    def cached_per_token(self) -> int:
        """Numbers that one layer keeps of a token in the cache."""
        if self.latent is not None:
            return self.latent.rank + self.latent.rope
        return 2 * self.kv_heads * self.head_dim

    @cached_property
    def attention_weights(self) -> int:
        """Weights of one layer's attention."""
        if (latent := self.latent) is not None:
            into = latent.query_rank or 0
            query = self.heads * (latent.nope + latent.rope)
            widened = self.heads * (latent.nope + latent.value)
            return (
                (self.hidden * into + into * query if into else self.hidden * query)
                + self.hidden * (latent.rank + latent.rope)
                + latent.rank * widened
                + self.heads * latent.value * self.hidden
            )
        return self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)

    @cached_property
    def dense_weights(self) -> int:
        """Weights of a dense layer's unit: up and down, and a gate."""
        return (3 if self.gated else 2) * self.hidden * self.width

    @cached_property
    def expert_weights(self) -> int:
        """Weights of all experts of one layer, shared ones left out."""
        return (
            0 if self.experts is None else 3 * self.hidden * self.experts.count * self.experts.width
        )

    @cached_property
    def beside_experts(self) -> int:
        """Weights of one layer of experts that every token takes: the gate, shared experts."""
        if self.experts is None:
            return 0
        return self.hidden * (3 * self.experts.shared_width + self.experts.count)

    @cached_property
    def parameters(self) -> int:
        """Weights in all, norms and biases left out."""
        ends = self.vocabulary * self.hidden * (1 if self.tied else 2)
        dense = self.dense_layers * (self.attention_weights + self.dense_weights)
        mixed = self.attention_weights + self.expert_weights + self.beside_experts
        return ends + dense + self.expert_layers * mixed
