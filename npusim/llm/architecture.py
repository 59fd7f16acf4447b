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


class Architecture(Part):
    """Sizes of a transformer; `width` is that of a dense layer's unit, `stack` its layers by kind.

    A unit that isn't `gated` is a product, the activation and a product. `gated_heads`: attention's
    results are gated by as many columns as there are queries. `rotated` is the share of a head that
    is turned by positions. `window` is how far layers of that kind look back. `crossed` layers
    attend to what the tower heard as well. Without a `head` there are no logits, and what isn't
    `causal` reads a text at once and keeps no cache. `drafts` are layers that propose a token more
    (MTP) and stay out of `parameters`. `approximated` says of which parts the time is a guess, why.
    """

    name: str
    stack: tuple[Block, ...] = Field(min_length=1)
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
    gated_heads: bool = False
    rotated: float = Field(1.0, ge=0, le=1)
    norms: int = Field(2, ge=2, le=4)
    positions: Some = 0
    window: Some = 0
    head: bool = True
    causal: bool = True
    crossed: bool = False
    drafts: Layers = 0
    latent: Latent | None = None
    state: State | None = None
    experts: Experts | None = None
    tower: Tower | None = None
    approximated: tuple[tuple[str, str], ...] = ()

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
