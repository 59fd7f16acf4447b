"""Public configs of the last two years as published, with the weights that their pages state.

Keys that say nothing about sizes are left out. Weights are those of the safetensors files, which
the hub counts (`safetensors.total` of its API), with drafts (MTP) where the files have them and
scales of 8-bit blocks; `UNSEEN` are those whose count wasn't found in public material again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NEXT = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
_SWA = ["sliding_attention", "full_attention"]
_MLA = {
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "hidden_size": 7168, "num_hidden_layers": 61, "moe_intermediate_size": 2048,
    "moe_layer_freq": 1, "intermediate_size": 18432, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "tie_word_embeddings": False, "n_group": 8, "topk_group": 4,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
_DEEPSEEK = {
    "vocab_size": 129280, "n_routed_experts": 256, "first_k_dense_replace": 3,
    "num_attention_heads": 128, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
}  # fmt: skip
_QWEN25_EYES = {
    "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420,
    "num_heads": 16, "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14,
    "spatial_merge_size": 2, "spatial_patch_size": 14, "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2,
}  # fmt: skip
_QWEN3_EYES = {
    "deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "in_channels": 3,
    "intermediate_size": 4304, "num_heads": 16, "num_position_embeddings": 2304,
    "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
}  # fmt: skip
_SIGLIP = {
    "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16,
    "num_hidden_layers": 27, "patch_size": 14,
}  # fmt: skip
_LLAMA4 = {
    "attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "no_rope_layers": [], "num_attention_heads": 40,
    "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
    "tie_word_embeddings": False, "vocab_size": 202048, "model_type": "llama4_text",
}  # fmt: skip
_LLAMA4_EYES = {
    "hidden_size": 1408, "image_size": 336, "intermediate_size": 5632, "num_attention_heads": 16,
    "num_hidden_layers": 34, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
    "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096,
}  # fmt: skip


def _sizes(
    kind: str, hidden: int, layers: int, heads: int, kv_heads: int, width: int, vocabulary: int,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "architectures": [kind], "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": width,
        "vocab_size": vocabulary, **more,
    }  # fmt: skip


def _bert(kind: str, vocabulary: int, positions: int, types: int) -> dict[str, Any]:
    sizes = _sizes(kind, 1024, 24, 16, 16, 4096, vocabulary, type_vocab_size=types)
    del sizes["num_key_value_heads"]
    return {**sizes, "max_position_embeddings": positions, "hidden_act": "gelu"}


def _whisper(decoder: int) -> dict[str, Any]:
    return {
        "architectures": ["WhisperForConditionalGeneration"], "d_model": 1280,
        "decoder_attention_heads": 20, "decoder_ffn_dim": 5120, "decoder_layers": decoder,
        "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "encoder_layers": 32,
        "max_source_positions": 1500, "max_target_positions": 448, "num_hidden_layers": 32,
        "num_mel_bins": 128, "vocab_size": 51866, "activation_function": "gelu",
        "torch_dtype": "float16",
    }  # fmt: skip


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    return _sizes(
        "GptOssForCausalLM", 2880, layers, 64, 8, 2880, 201088, head_dim=64, attention_bias=True,
        num_local_experts=experts, num_experts_per_tok=4, experts_per_token=4, sliding_window=128,
        layer_types=_SWA * (layers // 2), tie_word_embeddings=False,
        quantization_config={"quant_method": "mxfp4"},
    )  # fmt: skip


def _gemma3(hidden: int, layers: int, heads: int, kv_heads: int, width: int) -> dict[str, Any]:
    sizes = _sizes("", hidden, layers, heads, kv_heads, width, 262208)
    text = {**sizes, "head_dim": 128 if hidden > 5000 else 256, "sliding_window": 1024}
    del text["architectures"], text["vocab_size"]
    text["model_type"] = "gemma3_text"
    return {"architectures": ["Gemma3ForConditionalGeneration"], "mm_tokens_per_image": 256,
            "text_config": text, "vision_config": _SIGLIP}  # fmt: skip


def _qwen25_vl(
    hidden: int, layers: int, heads: int, kv_heads: int, width: int, vocabulary: int,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    kind = "Qwen2_5_VLForConditionalGeneration"
    eyes = _QWEN25_EYES | {"out_hidden_size": hidden}
    if hidden > 5000:
        eyes["intermediate_size"] = 3456
    return _sizes(
        kind, hidden, layers, heads, kv_heads, width, vocabulary, vision_config=eyes,
        use_sliding_window=False, sliding_window=32768, max_window_layers=70, **more,
    )  # fmt: skip


RECENT: Mapping[str, tuple[dict[str, Any], float]] = {
    "DeepSeek-V3": (
        {"architectures": ["DeepseekV3ForCausalLM"], **_MLA, **_DEEPSEEK}, 684_531_386_000),
    "DeepSeek-V3.2-Exp": (
        {"architectures": ["DeepseekV32ForCausalLM"], **_MLA, **_DEEPSEEK, "index_head_dim": 128,
         "index_n_heads": 64, "index_topk": 2048}, 685_396_921_376),
    "Kimi-K2-Instruct": (
        {"architectures": ["DeepseekV3ForCausalLM"], **_MLA, "vocab_size": 163840, "n_group": 1,
         "n_routed_experts": 384, "first_k_dense_replace": 1, "num_attention_heads": 64,
         "num_key_value_heads": 64, "num_nextn_predict_layers": 0}, 1_026_408_235_864),
    "Qwen3-Next-80B-A3B": (
        _sizes("Qwen3NextForCausalLM", 2048, 48, 16, 2, 5120, 151936, head_dim=256,
               decoder_sparse_step=1, full_attention_interval=4, linear_conv_kernel_dim=4,
               linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32,
               linear_value_head_dim=128, mlp_only_layers=[], moe_intermediate_size=512,
               num_experts=512, num_experts_per_tok=10, partial_rotary_factor=0.25,
               shared_expert_intermediate_size=512, tie_word_embeddings=False), 79_674_391_296),
    "Qwen3-Coder-480B-A35B": (
        _sizes("Qwen3MoeForCausalLM", 6144, 62, 96, 8, 8192, 151936, head_dim=128,
               decoder_sparse_step=1, mlp_only_layers=[], moe_intermediate_size=2560,
               num_experts=160, num_experts_per_tok=8, qkv_bias=False), 480_154_875_392),
    "Qwen3-Embedding-0.6B": (
        _sizes("Qwen3ForCausalLM", 1024, 28, 16, 8, 3072, 151669, head_dim=128,
               tie_word_embeddings=True), 595_776_512),
    "Qwen3-Reranker-4B": (
        _sizes("Qwen3ForCausalLM", 2560, 36, 32, 8, 9728, 151669, head_dim=128,
               tie_word_embeddings=True), 4_021_784_576),
    "Qwen2.5-VL-3B": (
        _qwen25_vl(2048, 36, 16, 2, 11008, 151936, tie_word_embeddings=True), 3_754_622_976),
    "Qwen2.5-VL-7B": (
        _qwen25_vl(3584, 28, 28, 4, 18944, 152064, tie_word_embeddings=False), 8_292_166_656),
    "Qwen2.5-VL-72B": (
        _qwen25_vl(8192, 80, 64, 8, 29568, 152064, tie_word_embeddings=False), 73_410_777_344),
    "Qwen3-VL-8B": (
        {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
         "text_config": _sizes("", 4096, 36, 32, 8, 12288, 151936, head_dim=128,
                               attention_bias=False, model_type="qwen3_vl_text"),
         "tie_word_embeddings": False, "vision_config": _QWEN3_EYES}, 8_767_123_696),
    "Qwen3-VL-30B-A3B": (
        {"architectures": ["Qwen3VLMoeForConditionalGeneration"],
         "text_config": _sizes("", 2048, 48, 32, 4, 6144, 151936, head_dim=128, num_experts=128,
                               num_experts_per_tok=8, moe_intermediate_size=768,
                               decoder_sparse_step=1, mlp_only_layers=[]),
         "vision_config": _QWEN3_EYES | {"out_hidden_size": 2048}}, 31_070_754_032),
    "GLM-4.5": (
        _sizes("Glm4MoeForCausalLM", 5120, 92, 96, 8, 12288, 151552, head_dim=128,
               attention_bias=True, first_k_dense_replace=3, moe_intermediate_size=1536,
               n_routed_experts=160, n_shared_experts=1, num_experts_per_tok=8,
               num_nextn_predict_layers=1, partial_rotary_factor=0.5, use_qk_norm=True),
        358_337_791_296),
    "GLM-4.5-Air": (
        _sizes("Glm4MoeForCausalLM", 4096, 46, 96, 8, 10944, 151552, head_dim=128,
               attention_bias=True, first_k_dense_replace=1, moe_intermediate_size=1408,
               n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8,
               num_nextn_predict_layers=1, partial_rotary_factor=0.5, use_qk_norm=False),
        110_468_824_832),
    "gpt-oss-120b": (_gpt_oss(36, 128), 116_829_156_672),
    "gpt-oss-20b": (_gpt_oss(24, 32), 20_914_757_184),
    "MiniMax-M1": (
        _sizes("MiniMaxM1ForCausalLM", 6144, 80, 64, 8, 9216, 200064, head_dim=128,
               attn_type_list=([0] * 7 + [1]) * 10, num_local_experts=32, num_experts_per_tok=2,
               rotary_dim=64, shared_intermediate_size=0, tie_word_embeddings=False),
        456_089_655_296),
    "MiniMax-M2": (
        _sizes("MiniMaxM2ForCausalLM", 3072, 62, 48, 8, 1536, 200064, head_dim=128,
               attn_type_list=[1] * 62, num_local_experts=256, num_experts_per_tok=8,
               rotary_dim=64, shared_intermediate_size=0, use_qk_norm=True,
               tie_word_embeddings=False, quantization_config={"quant_method": "fp8"}),
        228_689_764_864),
    "Llama-4-Scout": (
        {"architectures": ["Llama4ForConditionalGeneration"],
         "text_config": _LLAMA4 | {"num_local_experts": 16, "interleave_moe_layer_step": 1},
         "vision_config": _LLAMA4_EYES}, 108_641_793_536),
    "Llama-4-Maverick": (
        {"architectures": ["Llama4ForConditionalGeneration"],
         "text_config": _LLAMA4 | {"num_local_experts": 128, "interleave_moe_layer_step": 2},
         "vision_config": _LLAMA4_EYES}, 401_583_781_376),
    "Llama-3.1-405B": (
        _sizes("LlamaForCausalLM", 16384, 126, 128, 8, 53248, 128256), 405_853_388_800),
    "Mistral-7B-v0.1": (
        _sizes("MistralForCausalLM", 4096, 32, 32, 8, 14336, 32000, sliding_window=4096),
        7_241_732_096),
    "Mistral-Small-3.1-24B": (
        {"architectures": ["Mistral3ForConditionalGeneration"], "spatial_merge_size": 2,
         "text_config": _sizes("", 5120, 40, 32, 8, 32768, 131072, head_dim=128,
                               model_type="mistral", sliding_window=None),
         "vision_config": {"head_dim": 64, "hidden_size": 1024, "image_size": 1540,
                           "intermediate_size": 4096, "num_attention_heads": 16,
                           "num_hidden_layers": 24, "patch_size": 14, "model_type": "pixtral"}},
        24_011_361_280),
    "Mixtral-8x22B": (
        _sizes("MixtralForCausalLM", 6144, 56, 48, 8, 16384, 32768, num_local_experts=8,
               num_experts_per_tok=2, sliding_window=None), 140_630_071_296),
    "Gemma-3-4B": (_gemma3(2560, 34, 8, 4, 10240), 4_300_079_472),
    "Gemma-3-12B": (_gemma3(3840, 48, 16, 8, 15360), 12_187_325_040),
    "Gemma-3-27B": (_gemma3(5376, 62, 32, 16, 21504), 27_432_406_640),
    "Phi-4": (_sizes("Phi3ForCausalLM", 5120, 40, 40, 10, 17920, 100352), 14_659_507_200),
    "Phi-4-mini": (
        _sizes("Phi3ForCausalLM", 3072, 32, 24, 8, 8192, 200064, partial_rotary_factor=0.75,
               max_position_embeddings=131072,
               sliding_window=262144, tie_word_embeddings=True), 3_836_021_760),
    "InternLM3-8B": (
        _sizes("InternLM3ForCausalLM", 4096, 48, 32, 2, 10240, 128512, head_dim=128, bias=False,
               qkv_bias=False), 8_804_241_408),
    "InternVL3-8B": (
        {"architectures": ["InternVLChatModel"], "downsample_ratio": 0.5, "force_image_size": 448,
         "llm_config": _sizes("Qwen2ForCausalLM", 3584, 28, 28, 4, 18944, 151674),
         "vision_config": {"hidden_size": 1024, "image_size": 448, "intermediate_size": 4096,
                           "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}},
        7_944_373_760),
    "Hunyuan-A13B": (
        _sizes("HunYuanMoEV1ForCausalLM", 4096, 32, 32, 8, 3072, 128167, head_dim=128,
               moe_intermediate_size=[3072] * 32, moe_topk=[8] * 32, num_experts=64,
               num_shared_expert=[1] * 32, tie_word_embeddings=True, use_qk_norm=True),
        80_393_183_232),
    "Hunyuan-7B": (
        _sizes("HunYuanDenseV1ForCausalLM", 4096, 32, 32, 8, 14336, 128167, head_dim=128,
               tie_word_embeddings=True, use_qk_norm=True), 7_504_994_304),
    "ERNIE-4.5-21B-A3B": (
        _sizes("Ernie4_5_MoeForCausalLM", 2560, 28, 20, 4, 12288, 103424, moe_k=6,
               moe_intermediate_size=1536, moe_layer_start_index=1, moe_layer_end_index=27,
               moe_layer_interval=1, moe_num_experts=64, moe_num_shared_experts=2,
               tie_word_embeddings=True), 21_825_437_888),
    "ERNIE-4.5-300B-A47B": (
        _sizes("Ernie4_5_MoeForCausalLM", 8192, 54, 64, 8, 28672, 103424, moe_k=8,
               moe_intermediate_size=3584, moe_layer_start_index=3, moe_layer_end_index=53,
               moe_layer_interval=1, moe_num_experts=64, moe_num_shared_experts=0,
               tie_word_embeddings=False), 300e9),
    "ERNIE-4.5-0.3B": (
        _sizes("Ernie4_5ForCausalLM", 1024, 18, 16, 2, 3072, 103424, head_dim=128,
               tie_word_embeddings=True, use_bias=False), 360_748_032),
    "Seed-OSS-36B": (
        _sizes("SeedOssForCausalLM", 5120, 64, 80, 8, 27648, 155136, head_dim=128,
               attention_bias=True, tie_word_embeddings=False), 36_151_104_512),
    "dots.llm1": (
        _sizes("Dots1ForCausalLM", 4096, 62, 32, 32, 10944, 152064, first_k_dense_replace=1,
               moe_intermediate_size=1408, n_routed_experts=128, n_shared_experts=2,
               num_experts_per_tok=6, tie_word_embeddings=False), 142.8e9),
    "openPangu-Embedded-7B": (
        _sizes("PanguEmbeddedForCausalLM", 4096, 34, 32, 8, 12800, 153376, bias=True,
               tie_word_embeddings=False), 8.0e9),
    "whisper-large-v3": (_whisper(32), 1_543_490_560),
    "whisper-large-v3-turbo": (_whisper(4), 808_878_080),
    "bge-m3": (_bert("XLMRobertaModel", 250002, 8194, 1), 567_754_752),
    "bge-reranker-v2-m3": (
        _bert("XLMRobertaForSequenceClassification", 250002, 8194, 1), 567_755_777),
    "bge-large-en-v1.5": (_bert("BertModel", 30522, 512, 2), 335_141_888),
}  # fmt: skip

UNSEEN: Mapping[str, str] = {
    "Qwen2.5-VL-72B": "72B on its page",
    "InternLM3-8B": "8B on its page",
    "InternVL3-8B": "8B on its page",
    "Hunyuan-A13B": "80B on its page, and at the hub",
    "Hunyuan-7B": "7B on its page, 8B at the hub",
    "ERNIE-4.5-21B-A3B": "21B on its page, 22B at the hub",
    "ERNIE-4.5-300B-A47B": "300B on its page, which is taken",
    "dots.llm1": "142B on its page",
    "openPangu-Embedded-7B": "7B on its page, without embeddings",
}
"""What is known of those in public: a rounded number."""

SHIPPED: Mapping[str, int] = {
    "DeepSeek-R1": 684_489_845_504,
    "Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
}
"""Counts of configs that come with the repository, where they were found."""
