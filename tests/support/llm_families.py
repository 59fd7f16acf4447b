"""Public configs of language models with how many weights their safetensors hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MLA = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_KEYS = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "intermediate_size", "vocab_size",
)  # fmt: skip


def _of(kind: str, sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    return {"architectures": [kind], **dict(zip(_KEYS, sizes, strict=True)), **more}


def _glm(layers: int, vocabulary: int) -> dict[str, Any]:
    return {
        "architectures": ["ChatGLMModel"], "num_layers": layers, "hidden_size": 4096,
        "num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128,
        "ffn_hidden_size": 13696, "padded_vocab_size": vocabulary, "torch_dtype": "float16",
    }  # fmt: skip


def _experts(count: int, active: int, width: int, **more: Any) -> dict[str, Any]:
    return {"num_experts_per_tok": active, "moe_intermediate_size": width,
            "num_experts": count, "n_routed_experts": count, **more}  # fmt: skip


def _text(sizes: dict[str, int]) -> dict[str, Any]:
    return {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": sizes}


_LOCAL = {"num_local_experts": 8, "num_experts_per_tok": 2}
_WIDE = {"head_dim": 256}
_TIED = {"tie_word_embeddings": True}

FAMILIES: Mapping[str, tuple[dict[str, Any], int]] = {
    "Llama-2-70B": (_of("LlamaForCausalLM", (8192, 80, 64, 8, 28672, 32000)), 68_976_648_192),
    "Llama-3.1-8B": (_of("LlamaForCausalLM", (4096, 32, 32, 8, 14336, 128256)), 8_030_261_248),
    "Llama-3.2-1B": (
        _of("LlamaForCausalLM", (2048, 16, 32, 8, 8192, 128256), **_TIED), 1_235_814_400),
    "Mistral-7B": (_of("MistralForCausalLM", (4096, 32, 32, 8, 14336, 32000)), 7_241_732_096),
    "Mixtral-8x7B": (
        _of("MixtralForCausalLM", (4096, 32, 32, 8, 14336, 32000), **_LOCAL), 46_702_792_704),
    "Qwen2.5-0.5B": (
        _of("Qwen2ForCausalLM", (896, 24, 14, 2, 4864, 151936), **_TIED), 494_032_768),
    "Qwen2.5-72B": (_of("Qwen2ForCausalLM", (8192, 80, 64, 8, 29568, 152064)), 72_706_203_648),
    "Qwen2-57B-A14B": (
        _of("Qwen2MoeForCausalLM", (3584, 28, 28, 4, 18944, 151936),
            **_experts(64, 8, 2560, shared_expert_intermediate_size=20480)), 57_409_011_712),
    "Qwen3-4B": (
        _of("Qwen3ForCausalLM", (2560, 36, 32, 8, 9728, 151936), head_dim=128, **_TIED),
        4_022_468_096),
    "DeepSeek-V2-Lite": (
        _of("DeepseekV2ForCausalLM", (2048, 27, 16, 16, 10944, 102400), **_MLA, q_lora_rank=None,
            **_experts(64, 6, 1408, n_shared_experts=2, first_k_dense_replace=1)), 15_706_484_224),
    "DeepSeek-V3": (
        _of("DeepseekV3ForCausalLM", (7168, 61, 128, 128, 18432, 129280), **_MLA,
            q_lora_rank=1536,
            **_experts(256, 8, 2048, n_shared_experts=1, first_k_dense_replace=3)),
        671_026_419_200),
    "GLM-4-9B": (_glm(40, 151552), 9_399_951_360),
    "ChatGLM3-6B": (_glm(28, 65024), 6_243_584_000),
    "GLM-4-32B": (
        _of("Glm4ForCausalLM", (6144, 61, 48, 2, 23040, 151552), head_dim=128), 32_566_016_000),
    "GLM-4.5-Air": (
        _of("Glm4MoeForCausalLM", (4096, 46, 96, 8, 10944, 151552), head_dim=128,
            **_experts(128, 8, 1408, n_shared_experts=1, first_k_dense_replace=1)),
        106_852_251_264),
    "Baichuan2-13B": (
        _of("BaichuanForCausalLM", (5120, 40, 40, 40, 13696, 125696)), 13_896_668_160),
    "Gemma-2B": (_of("GemmaForCausalLM", (2048, 18, 8, 1, 16384, 256000), **_WIDE), 2_506_172_416),
    "Gemma-2-9B": (
        _of("Gemma2ForCausalLM", (3584, 42, 16, 8, 14336, 256000), **_WIDE), 9_241_705_984),
    "Gemma-3-1B": (_of("Gemma3ForCausalLM", (1152, 26, 4, 1, 6912, 262144), **_WIDE), 999_885_952),
    "Gemma-3-4B": (
        _text({"hidden_size": 2560, "num_hidden_layers": 34, "intermediate_size": 10240}),
        3_880_263_168),
    "Phi-2": (_of("PhiForCausalLM", (2560, 32, 32, 32, 10240, 51200)), 2_779_683_840),
    "Phi-3-mini": (_of("Phi3ForCausalLM", (3072, 32, 32, 32, 8192, 32064)), 3_821_079_552),
    "Phi-3.5-MoE": (
        _of("PhiMoEForCausalLM", (4096, 32, 32, 8, 6400, 32064),
            **_LOCAL | {"num_local_experts": 16}),
        41_873_153_344),
    "Starcoder2-3B": (_of("Starcoder2ForCausalLM", (3072, 30, 24, 2, 12288, 49152)), 3_030_371_328),
    "InternLM2-7B": (_of("InternLM2ForCausalLM", (4096, 32, 32, 8, 14336, 92544)), 7_737_708_544),
}  # fmt: skip
