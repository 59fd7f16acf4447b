"""What configs call the sizes of a transformer: for each of ours, their names, the usual one first.

Names with a dot are of a mapping within. Which of them an architecture calls otherwise, or leaves
away, stands in its row of ``architectures.yaml``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

SIZES: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads"),
    "kv_heads": (
        "num_key_value_heads", "multi_query_group_num", "num_attention_groups", "num_kv_heads",
        "n_head_kv",
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim"),
    "width": ("intermediate_size", "ffn_hidden_size", "n_inner", "decoder_ffn_dim", "ffn_dim"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "positions": (),
    "types": ("type_vocab_size",),
    "rotated": ("partial_rotary_factor", "rotary_pct"),
    "rotated_size": ("rotary_dim",),
    "drafts": (
        "num_nextn_predict_layers", "num_mtp_modules", "mtp_num_layers", "num_mtp_layers",
        "mtp_num_hidden_layers",
    ),
    "tied": ("tie_word_embeddings",),
    "bias": ("attention_bias", "qkv_bias", "use_bias", "add_qkv_bias", "bias"),
    "normed": ("use_qk_norm", "qk_layernorm", "use_qk_layernorm", "qk_norm"),
    "act": ("hidden_act", "hidden_activation", "activation_function", "ffn_act"),
}  # fmt: skip
LATENT: Final[Mapping[str, tuple[str, ...]]] = {
    "query_rank": ("q_lora_rank",),
    "rank": ("kv_lora_rank",),
    "nope": ("qk_nope_head_dim",),
    "rope": ("qk_rope_head_dim",),
    "value": ("v_head_dim",),
}
INDEXER: Final[Mapping[str, tuple[str, ...]]] = {
    "index_heads": ("index_n_heads",),
    "index_size": ("index_head_dim",),
    "index_top": ("index_topk",),
}
STATE: Final[Mapping[str, tuple[str, ...]]] = {
    "key_heads": ("linear_num_key_heads", "linear_attn_config.num_heads"),
    "value_heads": ("linear_num_value_heads", "linear_attn_config.num_heads"),
    "key_size": ("linear_key_head_dim", "linear_attn_config.head_dim"),
    "value_size": ("linear_value_head_dim", "linear_attn_config.head_dim"),
    "convolution": ("linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"),
}
EXPERTS: Final[Mapping[str, tuple[str, ...]]] = {
    "experts": (
        "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts",
        "num_routed_experts", "ffn_config.moe_num_experts",
    ),
    "active": (
        "num_experts_per_tok", "moe_topk", "moe_k", "num_experts_per_token", "moe_top_k",
        "experts_per_token", "num_activated_experts", "ffn_config.moe_top_k", "top_k_experts",
    ),
    "expert_width": (
        "moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size",
        "expert_hidden_size", "ffn_config.ffn_hidden_size",
    ),
    "shared_experts": (
        "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
    ),
    "shared_width": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
        "share_expert_dim", "shared_intermediate_size",
    ),
    "dense_first": (
        "first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "dense_layers",
        "first_dense_layers",
    ),
    "dense_listed": ("mlp_only_layers",),
    "mixed_listed": ("moe_layers", "moe_layers_enum"),
    "mixed_every": (
        "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", "moe_layer_freq",
        "moe_every_n_layers",
    ),
}  # fmt: skip
MIXERS: Final[Mapping[str, tuple[str, ...]]] = {
    "kinds": ("layer_types", "attn_type_list", "hybrid_layer_pattern"),
    "full_listed": ("linear_attn_config.full_attn_layers",),
    "full_every": (
        "full_attention_interval", "sliding_window_pattern", "_sliding_window_pattern",
    ),
    "window": ("sliding_window", "attention_chunk_size", "sliding_window_size"),
    "longest": ("max_position_embeddings",),
    "windowed": ("use_sliding_window",),
    "windows_first": ("max_window_layers",),
}  # fmt: skip
TOWER: Final[Mapping[str, tuple[str, ...]]] = {
    "layers": ("depth", "num_hidden_layers", "encoder_layers", "num_layers", "layers"),
    "hidden": ("embed_dim", "hidden_size", "d_model", "width"),
    "heads": ("num_heads", "num_attention_heads", "encoder_attention_heads", "heads"),
    "width": ("intermediate_size", "encoder_ffn_dim"),
    "ratio": ("mlp_ratio",),
    "patch": ("patch_size",),
    "channels": ("in_channels", "in_chans", "num_channels", "num_mel_bins"),
    "frames": ("temporal_patch_size",),
    "image": ("image_size", "force_image_size"),
    "merge": ("spatial_merge_size",),
    "window": ("window_size",),
    "wide": ("fullatt_block_indexes",),
    "deep": ("deepstack_visual_indexes",),
    "positions": ("num_position_embeddings", "max_source_positions"),
}
ALL: Final[Mapping[str, tuple[str, ...]]] = {
    **SIZES, **LATENT, **INDEXER, **STATE, **EXPERTS, **MIXERS,
}  # fmt: skip
WITHIN: Final = (
    "text_config", "llm_config", "language_config", "thinker_config.text_config",
    "thinker_config",
)  # fmt: skip
"""Where the part that writes text stands in configs of models that also see or hear."""
SEEING: Final = (
    "vision_config", "visual", "thinker_config.vision_config", "vision_encoder", "audio_config",
)  # fmt: skip
"""Where the part that sees (or hears) stands."""
_ENDINGS: Final = (
    r"(for(causallm|conditionalgeneration|sequenceclassification|tokenclassification|maskedlm|"
    r"rewardmodel|embedding|questionanswering)|lmheadmodel|chatmodel|model|text)$"
)
KINDS: Final = ("hybrid_override_pattern", "layers_block_type", "block_configs")
"""What says that layers are of kinds, some of which aren't a mixer and a feed forward."""
_STRUCTURAL: Final = re.compile(
    r"expert|moe|lora_rank|conv|mamba|ssm|state|sparse|window|index|mtp|nextn|compress|"
    r"linear_|memory|hyper|loop|recurr|engram|ngram"
)
_HARMLESS: Final = re.compile(
    r"loss|coef|router_(jitter|dtype|temp)|scaling|norm_topk|init|token_id|dropout|bias|method|"
    r"func|n_group|topk_group|impl|stateful|capacity|z_|aux|use_cache|num_image|layer_types|"
    r"use_moe|ep_size|noise|precision|hidden_states|quant|rope|_act$|seq_aux|^\w+_(token_)?index$"
)


def stem_of(kind: str) -> str:
    """What classes and types of one architecture have in common: ``qwen3moe`` of Qwen3Moe..."""
    plain = re.sub(r"[^a-z0-9]", "", kind.lower())
    return re.sub(_ENDINGS, "", plain)


def found_in(raw: Mapping[str, Any], name: str) -> Any:
    """The value of a name, which may lead into a mapping within; None where there is none."""
    value: Any = raw
    for each in name.split("."):
        value = value.get(each) if isinstance(value, Mapping) else None
    return value


def first_in(raw: Mapping[str, Any], names: Iterable[str]) -> tuple[str, Any]:
    """The first name that has a value, with it; ("", None) where none has."""
    for name in names:
        if (value := found_in(raw, name)) is not None:
            return name, value
    return "", None


def one_of(value: Any) -> Any:
    """A number that is said for each layer: the commonest."""
    if isinstance(value, list) and value and all(isinstance(each, int) for each in value):
        return Counter(value).most_common(1)[0][0]
    return value


def unread(raw: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    """Keys that look as if they said what layers are made of, and that nobody reads."""
    read = {name.split(".")[0] for name in known}
    return sorted(
        str(key)
        for key, value in raw.items()
        if key not in read
        and value not in (None, False, 0, [], {}, "")
        and _STRUCTURAL.search(str(key))
        and not _HARMLESS.search(str(key))
    )
