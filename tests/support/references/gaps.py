"""Modes and dtypes that the references leave out, with what the refusal of them says."""

GAPS = {
    "aclnnConvolutionBackward": ("of a window of",),
    "aclnnConvolution": ("planes that see zeros alone",),
    # dtypes that pages list for products whose vector units have no instruction for them
    "aclnnAddRelu": ("vmax64 doesn't take",),
    "aclnnAmax": ("int64->float32",),
    "aclnnAmin": ("int64->float32",),
    "aclnnAminmax": ("int64->float32",),
    "aclnnAminmaxDim": ("int64->float32",),
    "aclnnCummax": ("int64->float32",),
    "aclnnCummin": ("int64->float32",),
    "aclnnLogSoftmax": ("float64->float32",),
    "aclnnMaxV2": ("int64->float32",),
    "aclnnSoftmax": ("float64->float32",),
    "aclnnElu": ("bfloat16->float32",),
    "aclnnFloor": ("int64->int32",),
    "aclnnGeGluV3": ("bfloat16->float32",),
    "aclnnIndexAdd": ("INT32 runs on the AI CPU",),
    "aclnnLeakyRelu": ("float64->float32",),
    "aclnnMeanV2": ("doesn't take int32",),
    "aclnnQuantMatmulV5": ("offsets and scales of rows",),
    "aclnnReflectionPad3dBackward": ("bfloat16->float32",),
    "aclnnRelu": ("vmax64 doesn't take",),
    "aclnnReplicationPad3dBackward": ("bfloat16->float32",),
    # a number on the device for each tensor of a list, some of which have no elements
    "aclnnForeachAddcdivList": ("numbers for",),
    "aclnnForeachAddcdivScalarList": ("numbers for",),
    "aclnnForeachAddcmulList": ("numbers for",),
    "aclnnForeachAddcmulScalarList": ("numbers for",),
    "aclnnGridSampler2D": ("float64->float32",),
    "aclnnGridSampler3D": ("float64->float32",),
    "aclnnInplacePut": ("DOUBLE runs on the AI CPU",),
    "aclnnUpsampleBilinear2d": ("float64->float32",),
    **dict.fromkeys(
        (f"aclnnRotaryPositionEmbedding{form}" for form in ("", "V2")),
        ("rows of 16 elements aren't modelled",),
    ),
    "aclnnNLLLossBackward": ("reduction 'sum'",),
}

# By file, what it calls an interface's operator or, where it is tested by that, the interface.
ELSEWHERE = {
    "ops/test_pooling.py": {"aclnnMaxPool2dWithMask": "aclnnMaxPool2dWithMask"},
    "ops/test_key_cache.py": {
        "aclnnKvRmsNormRopeCache": "aclnnKvRmsNormRopeCache",
        "aclnnKvRmsNormRopeCacheV2": 'f"{API}V2"',
    },
    "ops/test_attention_update.py": {"aclnnAttentionUpdate": "aclnnAttentionUpdate"},
    "ops/test_mla_prolog.py": {
        f"aclnnMlaProlog{version}WeightNz": f"MlaProlog{version}" for version in ("V2", "V3")
    },
    "ops/test_paged_cache.py": {"aclnnScatterPaKvCache": "aclnnScatterPaKvCache"},
    "ops/test_sparse_attention.py": {
        "aclnnSparseFlashAttention": "SparseFlashAttention",
        "aclnnLightningIndexer": "LightningIndexer",
    },
    "ops/test_kept_logits.py": {"aclnnApplyTopKTopP": "aclnnApplyTopKTopP"},
    "ops/test_sampled_tokens.py": {"aclnnTopKTopPSample": "aclnnTopKTopPSample"},
    "ops/test_rotary_partial.py": {"aclnnInplacePartialRotaryMul": "aclnnInplacePartialRotaryMul"},
    "ops/test_chunked_delta.py": {"aclnnChunkGatedDeltaRule": "aclnnChunkGatedDeltaRule"},
    "ops/test_gated_delta.py": {"aclnnRecurrentGatedDeltaRule": "aclnnRecurrentGatedDeltaRule"},
    "ops/test_moe_distribute.py": {
        f"aclnnMoeDistribute{way}{version}": f"MoeDistribute{way}V2"
        for way in ("Dispatch", "Combine")
        for version in ("", "V2", "V3", "V4")
    },
    "ops/test_collective_products.py": {
        name: f'"{name}"'
        for name in (
            "aclnnMatmulAllReduce",
            "aclnnMatmulAllReduceV2",
            "aclnnAllGatherMatmul",
            "aclnnMatmulAllReduceV3",
            "aclnnMatmulReduceScatter",
            "aclnnQuantMatmulAllReduce",
            "aclnnQuantMatmulAllReduceV2",
        )
    }
    | {
        f"aclnn{form}MatmulAllReduceAddRmsNorm": f'"{form}MatmulAllReduceAddRmsNorm"'
        for form in ("", "Inplace")
    },
    "ops/test_ctc.py": {
        "aclnnCtcLoss": '"aclnnCtcLoss"',
        "aclnnCtcLossBackward": '"aclnnCtcLossBackward"',
    },
    "ops/test_roi_align_forward.py": {
        "aclnnRoiAlign": '"aclnnRoiAlign"',
        "aclnnRoiAlignV2": '"aclnnRoiAlignV2"',
    },
    "ops/test_grid_sample.py": {
        "aclnnGridSampler2DBackward": "aclnnGridSampler{axes}DBackward",
        "aclnnGridSampler3DBackward": "aclnnGridSampler{axes}DBackward",
    },
    "ops/test_attention.py": {
        "aclnnFlashAttentionScore": "FlashAttentionScore",
        "aclnnFlashAttentionScoreV2": "FlashAttentionScore",
        "aclnnFlashAttentionVarLenScore": "FlashAttentionScore",
        "aclnnFlashAttentionScoreGrad": "FlashAttentionScoreGrad",
        "aclnnFlashAttentionScoreGradV2": "FlashAttentionScoreGrad",
        "aclnnFlashAttentionUnpaddingScoreGrad": "FlashAttentionScoreGrad",
        "aclnnFlashAttentionScoreV3": "FlashAttention{first}Score",
        "aclnnFlashAttentionScoreGradV3": "FlashAttentionScoreGrad",
        "aclnnFusedInferAttentionScoreV3": "aclnnFusedInferAttentionScore{api}",
        "aclnnFusedInferAttentionScoreV4": "aclnnFusedInferAttentionScore{api}",
        "aclnnFusedInferAttentionScore": "FusedInferAttentionScore",
        "aclnnFusedInferAttentionScoreV2": "FusedInferAttentionScore",
        "aclnnIncreFlashAttention": "IncreFlashAttention",
        "aclnnIncreFlashAttentionV2": "IncreFlashAttention",
        "aclnnIncreFlashAttentionV3": "IncreFlashAttention",
        "aclnnIncreFlashAttentionV4": "IncreFlashAttention",
        "aclnnPromptFlashAttention": "PromptFlashAttention",
        "aclnnPromptFlashAttentionV2": "PromptFlashAttention",
        "aclnnPromptFlashAttentionV3": "PromptFlashAttention",
    },
    "ops/test_attention_packed.py": {
        **{
            f"aclnnFlashAttentionVarLenScoreV{number}": "aclnnFlashAttentionVarLenScore{name}"
            for number in "245"
        },
        "aclnnFlashAttentionVarLenScoreV3": "aclnnFlashAttentionVarLenScoreV3",
        **{
            f"aclnnFlashAttentionUnpaddingScoreGradV{number}": "UnpaddingScoreGrad{name}"
            for number in "245"
        },
    },
    "operators/test_attention_rules.py": {  # its ropes aren't modelled
        "aclnnFlashAttentionUnpaddingScoreGradV3": "aclnnFlashAttentionUnpaddingScoreGradV3",
    },
    "ops/test_moe_routing.py": {
        name: name for name in ("aclnnMoeInitRoutingQuant", "aclnnMoeInitRoutingQuantV2")
    },
    "ops/test_rotary.py": {
        "aclnnRotaryPositionEmbeddingGrad": "aclnnRotaryPositionEmbeddingGrad",
    },
    "ops/test_rotary_cached.py": {"aclnnRopeWithSinCosCache": "aclnnRopeWithSinCosCache"},
    "ops/test_moe_gradients.py": {
        name: name
        for name in (
            "aclnnMoeFinalizeRoutingV2Grad",
            "aclnnMoeInitRoutingV2Grad",
            "aclnnMoeTokenPermuteGrad",
            "aclnnMoeTokenUnpermuteGrad",
        )
    },
    "ops/test_moe.py": {
        "aclnnMoeFinalizeRouting": "aclnnMoeFinalizeRouting",
        "aclnnMoeFinalizeRoutingV2": "MoeFinalizeRouting",
        "aclnnMoeGatingTopKSoftmax": "MoeGatingTopKSoftmax",
        "aclnnMoeGatingTopKSoftmaxV2": "aclnnMoeGatingTopKSoftmaxV2",
        "aclnnMoeGatingTopK": "MoeGatingTopK",
        "aclnnMoeGatingTopKHash": "MoeGatingTopKHash",
        "aclnnMoeInitRouting": "MoeInitRouting",
        "aclnnMoeInitRoutingV3": "aclnnMoeInitRoutingV3",
        "aclnnMoeInitRoutingV2": "MoeInitRouting",
        "aclnnMoeTokenPermute": "MoeTokenPermute",
        "aclnnMoeTokenUnpermute": "MoeTokenUnpermute",
    },
    "ops/test_quant.py": {
        "aclnnAddRmsNormDynamicQuant": "AddRmsNormDynamicQuant",
        "aclnnAddRmsNormQuant": "AddRmsNormQuant",
        "aclnnDequantSwigluQuant": "DequantSwigluQuant",
        "aclnnDequantSwigluQuantV2": "aclnnDequantSwigluQuantV2",
        "aclnnSwiGluQuant": "SwigluQuant",
    },
    "ops/test_grouped_matmul.py": {
        "aclnnGroupedMatmulSwigluQuant": "GroupedMatmulSwigluQuant",
        "aclnnGroupedMatmul": "aclnnGroupedMatmul",
        **{f"aclnnGroupedMatmulV{number}": f"aclnnGroupedMatmulV{number}" for number in "2345"},
    },
    "ops/test_quant_matmul.py": {
        "aclnnQuantMatmulV4": "QuantMatmulV4",
        "aclnnWeightQuantBatchMatmulV2": "WeightQuantBatchMatmul",
        "aclnnWeightQuantBatchMatmulV3": "WeightQuantBatchMatmul",
    },
    "ops/test_random.py": {
        "aclnnBernoulli": "{form}Bernoulli",
        "aclnnBernoulliTensor": "{form}BernoulliTensor",
        "aclnnDropoutGenMask": "DropoutGenMask",
        "aclnnDropoutGenMaskV2": "DropoutGenMask",
        "aclnnDropoutGenMaskV2Tensor": "DropoutGenMask",
        "aclnnInplaceBernoulli": "{form}Bernoulli",
        "aclnnInplaceBernoulliTensor": "{form}BernoulliTensor",
        "aclnnInplaceNormal": '"Normal"',
        "aclnnInplaceNormalTensor": "{name}Tensor",
        "aclnnInplaceRandom": '"Random"',
        "aclnnInplaceRandomTensor": "{name}Tensor",
        "aclnnInplaceUniform": '"Uniform"',
        "aclnnInplaceUniformTensor": "{name}Tensor",
    },
    "ops/test_msda_grad.py": {
        "aclnnMultiScaleDeformableAttentionGrad": "MultiScaleDeformableAttentionGrad",
    },
    "ops/test_recurrent.py": {"aclnnLSTM": "LSTM", "aclnnGRU": "GRU"},
    "capi/test_programs.py": {
        "aclnnNpuFormatCast": "weights",
        "aclnnTransMatmulWeight": "weights",
    },
    "ops/test_roi_align.py": {"aclnnRoiAlignV2Backward": "RoiAlignV2Backward"},
}
"""Interfaces whose operators have float64 references in a file of tests of their own: their
arguments depend on each other beyond what a row says."""

TABLES = ("ops/test_random.py",)
"""Files with moments of random numbers."""
