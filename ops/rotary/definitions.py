"""Rotary position embeddings: pairs of a row turned by angles, and their gradient."""

from npusim.operators.checks import attribute_at_least, attribute_in, rank_in, rank_is, same_dtype
from npusim.operators.definition import Aclnn, Operator, family, flag, ints, real, text, whole
from npusim.operators.dtype_checks import together
from npusim.operators.results import like
from npusim.operators.shape_checks import broadcast, fits
from npusim.ops.rotary.checks import caches_fit
from npusim.ops.rotary.limits import (
    alike,
    angle_gradients_fit,
    applicable,
    cached_angles_fit,
    interleavable,
    matrix_fits,
    slice_turned,
    turnable,
)
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16

_MODE = (whole("mode?"),)
_IN_PLACE = "queryRef keyRef cos sin -> queryRef keyRef"
_BSND = whole("layout?", None)
_DOCS = "hicann/ops-transformer posembedding"
_ROTARY = f"{_DOCS}/rotary_position_embedding/docs/aclnnRotaryPositionEmbedding"
_APPLIED = f"{_DOCS}/apply_rotary_pos_emb/docs/aclnnApplyRotaryPosEmb"
_CACHED = (real("epsilon"), text("cacheModeOptional?", "cache_mode"),
    flag("isOutputKv", "is_output_kv"))  # fmt: skip

# x cos sin: vllm-ascend csrc/attention/inplace_partial_rotary_mul/op_host
_PARTIAL = dict.fromkeys(("A2", "A3"), (
    "FLOAT16 FLOAT16 FLOAT16", "BFLOAT16 BFLOAT16 BFLOAT16", "FLOAT FLOAT FLOAT",
    "FLOAT16 FLOAT FLOAT", "BFLOAT16 FLOAT FLOAT"))  # fmt: skip

# fmt: off
OPERATORS = family(
    "rotary",
    kernel=(
        Operator("ApplyRotaryPosEmb", "query key cos sin -> query key",
            (_BSND, text("rotary_mode?")),
            (Aclnn("aclnnApplyRotaryPosEmb", _IN_PLACE, (whole("layout"),), rules=f"{_APPLIED}.md"),
             Aclnn("aclnnApplyRotaryPosEmbV2", _IN_PLACE,
                (whole("layout"), text("rotaryMode", "rotary_mode")),
                rules=f"{_APPLIED}V2.md")),
            kernel="apply_rotary", checks=(
                (rank_is, 4, "query", "key", "cos", "sin"),
                (alike, "query", "key", "cos", "sin"),
                (applicable, "query", "key", "layout", "rotary_mode"),
                (fits, "query", "b s n d", "key", "b s m d", "cos", "b s 1 d", "sin", "b s 1 d"),
            )),
        Operator("RotaryPositionEmbedding", "x cos sin rotate? -> y", _MODE,
            (Aclnn("aclnnRotaryPositionEmbedding", "x cos sin -> out", (whole("mode"),),
                rules=f"{_ROTARY}.md"),
             Aclnn("aclnnRotaryPositionEmbeddingV2", "x cos sin rotate? -> out",
                (whole("mode"),), rules=f"{_ROTARY}V2.md")),
            ("RotaryMul",), kernel="Rotary", infer=like, checks=(
                (rank_in, (3, 4), "x", "cos", "sin", "y"),
                (alike, "x", "cos", "sin", "y", "rotate"),
                (broadcast, "y", "x", "cos"), (broadcast, "y", "x", "sin"),
                (fits, "x", "*x", "y", "*x", "cos", "*cos", "sin", "*cos"),
                (attribute_in, "mode", (0, 1)),
                (turnable, "x", "cos", "mode"), (matrix_fits, "x", "rotate"),
            )),
        Operator("RotaryPositionEmbeddingGrad", "dy cos sin x? -> dx dcos? dsin?", _MODE,
            Aclnn("aclnnRotaryPositionEmbeddingGrad",
                "dy cos sin xOptional? -> dxOut dcosOut dsinOut", (whole("mode"),),
                rules=f"{_DOCS}/rotary_position_embedding_grad/docs/"
                    "aclnnRotaryPositionEmbeddingGrad.md"),
            kernel="RotaryGrad", infer=like, checks=(
                (rank_is, 4, "dy", "cos", "sin", "dx"),
                (alike, "dy", "cos", "sin", "x", "dx", "dcos", "dsin"),
                (broadcast, "dx", "dy", "cos"), (broadcast, "dx", "dy", "sin"),
                (fits, "dy", "*x", "dx", "*x", "cos", "*cos", "sin", "*cos"),
                (attribute_in, "mode", (0, 1)),
                (turnable, "dy", "cos", "mode", "dcos", "dsin"),
                (angle_gradients_fit, "dy", "cos", "x", "dcos", "dsin"),
            )),
    ),
    key_cache=(
        Operator("KvRmsNormRopeCache",
            "kv gamma cos sin index k_cache ckv_cache k_rope_scale? c_kv_scale? k_rope_offset? "
            "c_kv_offset? v? -> k_cache ckv_cache k_rope? c_kv?",
            (real("epsilon?"), text("cache_mode?"), flag("is_output_kv?")),
            (Aclnn("aclnnKvRmsNormRopeCache",
                "kv gamma cos sin index kCacheRef ckvCacheRef kRopeScaleOptional? "
                "cKvScaleOptional? kRopeOffsetOptional? cKvOffsetOptional? -> "
                "kCacheRef ckvCacheRef kRopeOut? cKvOut?", _CACHED,
                rules=f"{_DOCS}/kv_rms_norm_rope_cache/docs/aclnnKvRmsNormRopeCache.md"),
             Aclnn("aclnnKvRmsNormRopeCacheV2",
                "kv gamma cos sin index kCacheRef ckvCacheRef kRopeScaleOptional? "
                "cKvScaleOptional? kRopeOffsetOptional? cKvOffsetOptional? vOptional? -> "
                "kCacheRef ckvCacheRef kRopeOut? cKvOut?", _CACHED)),
            kernel="key_cache", checks=(
                (caches_fit, "kv", "gamma", "cos", "sin", "index", "k_cache", "ckv_cache",
                    "k_rope_scale", "c_kv_scale", "cache_mode"),
                (fits, "kv", "b n s *d", "k_rope", "b n s 64", "c_kv", "b n s 512"))),
    ),
    cached_angles=(
        Operator("RopeWithSinCosCache", "positions queryIn keyIn cosSinCache -> queryOut keyOut",
            (whole("numQHeads?", None), whole("numKHeads?", None), whole("headSize"),
             ints("mropeSection?"), whole("qStride?", None), whole("kStride?", None),
             flag("isNeoxStyle?")),
            Aclnn("aclnnRopeWithSinCosCache",
                "positions queryIn keyIn cosSinCache -> queryOut keyOut",
                (ints("mropeSection?"), whole("headSize"), flag("isNeoxStyle")),
                rules=f"{_DOCS}/rope_with_sin_cos_cache/docs/aclnnRopeWithSinCosCache.md"),
            kernel="rope_with_sin_cos_cache", infer=lambda given, _: [*given[1:3]], checks=(
                (same_dtype, "queryIn", "keyIn", "cosSinCache", "queryOut", "keyOut"),
                (rank_is, 2, "queryIn", "keyIn", "cosSinCache"),
                (fits, "queryIn", "t q", "keyIn", "t k", "queryOut", "t q", "keyOut", "t k"),
                (attribute_at_least, "headSize", 1),
                (cached_angles_fit, "positions", "queryIn", "keyIn", "cosSinCache",
                    "mropeSection", "headSize"),
            )),
    ),
    interleaved=(
        Operator("InterleaveRope", "x cos sin -> y", (),
            Aclnn("aclnnInterleaveRope", "x cos sin -> out"), kernel="interleave_rope",
            infer=like, checks=((rank_is, 4, "x", "cos", "sin"),
                (interleavable, "x", "cos", "sin"),
                (fits, "x", "b n s d", "y", "b n s d"))),
    ),
    partial=(
        Operator("InplacePartialRotaryMul", "x cos sin -> x",
            (whole("mode"), ints("partial_slice")),
            Aclnn("aclnnInplacePartialRotaryMul", "xRef cos sin -> xRef",
                (whole("mode"), ints("partialSlice", "partial_slice")),
                rules="vllm-ascend csrc/attention/inplace_partial_rotary_mul (definition, tiling)"),
            kernel="inplace_partial_rotary_mul",
            checks=((together, "x", "cos", "sin", {"rows": _PARTIAL}),
                (rank_is, 4, "x", "cos", "sin"), (attribute_in, "mode", (1,)),
                (fits, "x", "a b n d", "cos", "a *c 1 w", "sin", "a *c 1 w"),
                (slice_turned, "x", "cos", "partial_slice")),
            dtypes=dict.fromkeys(("A2", "A3"), (FLOAT16, FLOAT, BFLOAT16))),
    ),
)
