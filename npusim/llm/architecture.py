"""A transformer as numbers: what a layer is made of, whatever its config calls things."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from npusim.llm.parts import (
    Block,
    Experts,
    Latent,
    Layers,
    Mixer,
    Part,
    Size,
    Some,
    State,
    Tower,
)
from npusim.values.language import say


class Architecture(Part):
    """Sizes of a transformer."""

    name: str = Field(description="what it is called")
    stack: tuple[Block, ...] = Field(min_length=1, description="layers by kind")
    hidden: Size = Field(description="width of a token")
    heads: Size = Field(description="heads of queries")
    kv_heads: Size = Field(description="heads of keys and values")
    head_dim: Size = Field(description="size of a head")
    width: Size = Field(description="width of a dense layer's unit")
    vocabulary: Size = Field(description="tokens that there are")
    qk_norm: bool = Field(False, description="whether queries and keys are normalised")
    qkv_bias: bool = Field(False, description="whether queries, keys and values have a bias")
    tied: bool = Field(False, description="whether embeddings are the head too")
    activation: Literal["silu", "gelu"] = Field("silu", description="activation of a unit")
    gated: bool = Field(
        True,
        description="whether units are gated; else each is a product, the activation, a product",
    )
    gated_heads: bool = Field(
        False,
        description="whether attention's results are gated by as many columns as there are queries",
    )
    rotated: float = Field(1.0, ge=0, le=1, description="share of a head that positions turn")
    norms: int = Field(2, ge=2, le=4, description="norms of a layer")
    positions: Some = Field(0, description="learned positions; 0: none")
    window: Some = Field(0, description="how far layers of that kind look back; 0: there are none")
    head: bool = Field(True, description="whether there are logits")
    causal: bool = Field(
        True,
        description=(
            "whether tokens see those before alone; else a text is read at once and no cache kept"
        ),
    )
    crossed: bool = Field(
        False, description="whether layers attend to what the tower heard as well"
    )
    drafts: Layers = Field(0, description="layers that propose a token more (MTP)")
    latent: Latent | None = Field(None, description="latent attention")
    state: State | None = Field(None, description="linear attention")
    experts: Experts | None = Field(None, description="a mixture of experts")
    tower: Tower | None = Field(None, description="what sees or hears")
    approximated: tuple[tuple[str, str], ...] = Field(
        (), description="parts of which the time is a guess, and why"
    )

    @field_validator("kv_heads")
    @classmethod
    def _shared_evenly(cls, kv_heads: int, so_far: ValidationInfo) -> int:
        """Each is read by as many heads."""
        if (heads := so_far.data.get("heads", kv_heads)) % kv_heads:
            raise PydanticCustomError(
                "uneven", say("doesn't divide the {heads} heads"), {"heads": heads}
            )
        return kv_heads

    @property
    def layers(self) -> int:
        """Layers in all."""
        return sum(each.count for each in self.stack)

    @property
    def dense_layers(self) -> int:
        """Layers with one unit."""
        return sum(each.count for each in self.stack if not each.mixed)

    @property
    def expert_layers(self) -> int:
        """Layers with a mixture of experts."""
        return self.layers - self.dense_layers

    def layers_that(self, mixer: Mixer) -> int:
        """Layers that mix tokens in a way."""
        return sum(each.count for each in self.stack if each.mixer == mixer)

    @property
    def plain(self) -> bool:
        """Whether it is attention to everything before and units, in a causal decoder."""
        others = self.state or self.window or self.crossed or not self.causal
        return not (others or self.gated_heads or (self.latent and self.latent.indexer))

    @property
    def cached_per_token(self) -> int:
        """Numbers that one layer of attention keeps of a token in the cache."""
        if self.latent is not None:
            return self.latent.cached
        return 2 * self.kv_heads * self.head_dim if self.causal else 0

    def mixer_weights(self, mixer: Mixer = "full") -> int:
        """Weights of what mixes the tokens of one layer."""
        if mixer == "linear" and self.state is not None:
            return self.state.weights(self.hidden)
        if self.latent is not None:
            return self.latent.weights(self.hidden, self.heads)
        queries = self.heads * (3 if self.gated_heads else 2)
        crossing = 2 * (self.heads + self.kv_heads) if self.crossed else 0
        return self.hidden * self.head_dim * (queries + 2 * self.kv_heads + crossing)

    @cached_property
    def attention_weights(self) -> int:
        """Weights of one layer's attention."""
        return self.mixer_weights()

    @cached_property
    def all_mixers(self) -> int:
        """Weights of what mixes tokens, of all layers."""
        return sum(each.count * self.mixer_weights(each.mixer) for each in self.stack)

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
    def tower_weights(self) -> int:
        """Weights of what sees or hears, with what brings it into the model."""
        if self.tower is None:
            return 0
        return self.tower.weights(0 if self.crossed else self.hidden)

    @cached_property
    def draft_weights(self) -> int:
        """Weights of the layers that propose tokens, each like the last layer, ends left out."""
        last = self.stack[-1]
        unit = self.expert_weights + self.beside_experts if last.mixed else self.dense_weights
        return self.drafts * (self.mixer_weights() + unit + 2 * self.hidden * self.hidden)

    @cached_property
    def end_weights(self) -> int:
        """Weights of the embeddings of tokens and positions, and of the logits or a pooler."""
        once = self.tied or not self.head
        rows = self.vocabulary * (1 if once else 2) + self.positions
        return self.hidden * (rows + (0 if self.causal else self.hidden))

    @cached_property
    def parameters(self) -> int:
        """Weights in all; norms and biases left out, and what drafts have of their own."""
        units = self.dense_layers * self.dense_weights
        units += self.expert_layers * (self.expert_weights + self.beside_experts)
        return self.end_weights + self.all_mixers + units + self.tower_weights
