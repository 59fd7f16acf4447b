"""Matrix products: MatMul, BatchMatMul, Gemm, quantised ones, and fusions with what follows."""

import re
from collections.abc import Mapping, Sequence

from npusim.operators.checks import absent, attribute_in, rank_in, rank_is
from npusim.operators.conditions import in_fractals, unsure, when
from npusim.operators.definition import (
    Aclnn,
    Attribute,
    Composed,
    Operator,
    Page,
    family,
    flag,
    ints,
    real,
    scalar,
    text,
    whole,
)
from npusim.operators.dtype_checks import together
from npusim.operators.shape_checks import fits
from npusim.ops.matmul.checks import (
    batches_small,
    batches_turn,
    math_type,
    product,
    scales_fit,
)
from npusim.ops.matmul.grouped_checks import grouped, grouped_as_on_page
from npusim.ops.matmul.prolog_rules import latent_queries, prolog_fits
from npusim.ops.matmul.quant_checks import (
    FIFTH,
    FOURTH,
    IN_FRACTALS,
    THIRD,
    WIDENED,
    quantised,
    widened,
)
from npusim.ops.matmul.quant_groups import aligned_scale, blocks_fit, grouped_scales
from npusim.ops.matmul.ruled import RULED, gated_checks
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8

_TURNED = (flag("transpose_x1?"), flag("transpose_x2?"))
_TURNED_EACH = (flag("adj_x1?"), flag("adj_x2?"))
_HF32 = flag("enable_hf32?")
_BIASED = "x1 x2 bias? -> y"


def _checked(
    flags: tuple[Attribute, ...], *, packed: bool = False
) -> tuple[tuple[object, ...], ...]:
    options = {"turned": tuple(each.name for each in flags), "packed": packed}
    return ((product, "x1", "x2", "bias", "y", options),)


_SAID = (flag("transposeX1", "transpose_x1"), flag("transposeX2", "transpose_x2"))
_SCALED = (
    *_checked(_TURNED, packed=True),
    (scales_fit, "x1", "x2", "y", "scale", "bias", "pertoken_scale"),
)
_QUANTISED = (quantised, "x1", "x2", "scale", "offset", "bias", "pertoken_scale", "y",
    {"turned": ("transpose_x1", "transpose_x2")})  # fmt: skip
_WIDENED = ((product, "x", "weight", "bias", "y",
    {"turned": ("transpose_x", "transpose_weight"), "packed": True}),)  # fmt: skip
_WIDENED_CALL = (
    (together, "x", "weight", "antiquant_scale", "antiquant_offset", "quant_scale", "quant_offset",
        "bias", "y", {"rows": WIDENED}),
    (widened, "x", "weight", "antiquant_scale", "antiquant_offset", "bias",
        "antiquant_group_size"),
)  # fmt: skip
# As its second version, which goes by this name in profiles.
_WIDENED_DTYPES = dict.fromkeys(("A2", "A3"), (FLOAT16, BFLOAT16, INT8, FLOAT))

_MATH = (whole("cubeMathType", "math_type"),)
_BETA_ALPHA = (scalar("beta"), scalar("alpha"))
_OPTIONAL = (scalar("betaOptional?", "beta"), scalar("alphaOptional?", "alpha"))
_BATCHES = (fits, "batch1", "n m k", "batch2", "n k p")
_MATRICES = (fits, "mat1", "m k", "mat2", "k n")
_VECTOR = (fits, "mat", "m k", "vec", "k")
_OUTER = (rank_is, 1, "vec1", "vec2")


def _summed(
    name: str, factors: str, host: str, numbers: tuple[Attribute, ...],
    check: tuple[object, ...], math: tuple[Attribute, ...] = _MATH,
) -> tuple[Composed, Composed]:  # fmt: skip
    """A product that something is added to: into an output, and into what is added."""
    attributes = (*numbers, *math)
    checks = (check, (math_type, *factors.split())) if math else (check,)
    return (
        Composed(name, f"self {factors} -> out", attributes, host, checks=checks),
        Composed(name.replace("aclnn", "aclnnInplace"), f"selfRef {factors} -> selfRef",
                 attributes, host, checks=checks),
    )  # fmt: skip


def _quantised(name: str, weight: str, rows: Mapping[str, Sequence[str]]) -> tuple[Composed]:
    """A product of whole numbers with scales of rows and columns."""
    tensors = (f"x1 {weight} x1Scale? x2Scale yScale? x1Offset? x2Offset? yOffset? bias? -> out",)
    flags = {"turned": ("transpose_x1", "transpose_x2")}
    checks: tuple[tuple[object, ...], ...]
    checks = ((absent, "yScale", "x1Offset"),
        (together, "x1", "x2", "x1Scale", "x2Scale", "x2Offset", "yOffset", "bias", "out",
            {"rows": rows}),
        (quantised, "x1", "x2", "x2Scale", "x2Offset", "bias", "x1Scale", "out", flags),
        (product, "x1", "x2", "bias", "out", {**flags, "packed": True}),
        (when, "groupSize", (0,), (scales_fit, "x1", "x2", "out", "x2Scale", "bias", "x1Scale")),
        (grouped_scales, "x1", "x2", "x1Scale", "x2Scale", "x2Offset"))  # fmt: skip
    if weight.endswith("#"):
        checks = ((attribute_in, "groupSize", (0,)), *checks, (blocks_fit, "x1", "x2", "out"))
    else:
        checks += ((in_fractals, "x2", (blocks_fit, "x1", "x2", "out")),)
    numbers = (*_SAID, whole("groupSize", only=0))
    return (Composed(name, *tensors, numbers, "quantised_product", checks=checks),)


_PROLOG_NAMES = (
    "token_x", "weight_dq", "weight_uq_qr", "weight_uk", "weight_dkv_kr", "rmsnorm_gamma_cq",
    "rmsnorm_gamma_ckv", "rope_sin", "rope_cos", "cache_index", "kv_cache", "kr_cache",
    "cache_mode",
)  # fmt: skip
_PROLOG_SAID = (
    real("rmsnormEpsilonCq", "rmsnorm_epsilon_cq"),
    real("rmsnormEpsilonCkv", "rmsnorm_epsilon_ckv"),
    text("cacheModeOptional?", "cache_mode"),
)
_PROLOG_RESERVED = (
    *(whole(f"{each}Mode", only=0)
      for each in ("weightQuant", "kvCacheQuant", "queryQuant", "ckvkrRepo", "quantScaleRepo")),
    whole("tileSize", None),
    *(real(each, only=1.0) for each in ("qcQrScale", "kcScale")),
)  # fmt: skip


def _prolog(
    version: str,
    caches: str,
    hidden: tuple[int, ...],
    more: tuple[str, str] = ("", ""),
    said: tuple[Attribute, ...] = (),
) -> Operator:
    """A prolog that stores keys in caches, with further tensors and attributes."""
    first = (
        "tokenX weightDq# weightUqQr# weightUk weightDkvKr# rmsnormGammaCq rmsnormGammaCkv ropeSin "
        f"ropeCos {caches} dequantScaleXOptional? dequantScaleWDqOptional? "
        "dequantScaleWUqQrOptional? dequantScaleWDkvKrOptional? quantScaleCkvOptional? "
        f"quantScaleCkrOptional? smoothScalesCqOptional?{more[0]} -> queryOut queryRopeOut "
        f"kvCacheRef krCacheRef dequantScaleQNopeOutOptional?{more[1]}"
    )
    own = re.sub("(Ref|Optional|Out)\\b", "", first)
    own = re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", own).lower()
    return Operator(
        f"MlaProlog{version}",
        own,
        (real("rmsnorm_epsilon_cq?"), real("rmsnorm_epsilon_ckv?"), text("cache_mode?")),
        Aclnn(f"aclnnMlaProlog{version}WeightNz", first, (*_PROLOG_SAID, *said)),
        kernel="mla_prolog_cached",
        infer=latent_queries,
        checks=((prolog_fits, *_PROLOG_NAMES, {"hidden": hidden}),),
        band_class="matmul",
    )


_WIDENED_TENSORS = (
    "x weight antiquantScale antiquantOffsetOptional? quantScaleOptional? quantOffsetOptional? "
    "biasOptional? -> y"
)
_GROUP_SIZE = (whole("antiquantGroupSize", "antiquant_group_size"),)

_GROUPS = ("x* weight* biasOptional*? scaleOptional*? offsetOptional*? antiquantScaleOptional*? "
           "antiquantOffsetOptional*?")  # fmt: skip
_SPLIT = (whole("splitItem", "split_item"),)
_GROUP_TYPE = (*_SPLIT, whole("groupType", "group_type"))
_LISTED = (*_GROUP_TYPE, whole("groupListType", "group_list_type"), whole("actType", only=0))
_OF_GROUPS = (
    f"{_GROUPS} perTokenScaleOptional*? groupListOptional? activationInputOptional*? "
    "activationQuantScaleOptional*? activationQuantOffsetOptional*? -> "
    "out* activationFeatureOutOptional*? dynQuantScaleOutOptional*?"
)
_ENDS = (ints("groupListOptional?", "group_list"),)
_VERSIONS = {"WeightNz": 5}  # the interface that another one is as
_WITH_MORE = 4  # the version from which on there are parameters of an activation
_RESERVED = tuple(
    f"activation{each}Optional" for each in ("Input", "QuantScale", "QuantOffset", "FeatureOut")
)


def _grouped(
    name: str, tensors: str, numbers: tuple[Attribute, ...], host: str = "grouped_product"
) -> Composed:
    """Products of groups as lists of tensors have them."""
    version = _VERSIONS.get(name) or int(name[1:] or 1)
    result = "y" if version < _WITH_MORE else "out"
    lists = ("x", "weight", "biasOptional", "scaleOptional", "offsetOptional",
        "antiquantScaleOptional", "antiquantOffsetOptional", "perTokenScaleOptional",
        result)  # fmt: skip
    words = tuple((each,) for each in lists)
    checks: tuple[tuple[object, ...], ...]
    checks = ((grouped, *words, {"version": version}),
        (unsure, (grouped_as_on_page, *words, {"version": version})))  # fmt: skip
    if version >= _WITH_MORE:
        checks = ((absent, *_RESERVED), *checks)
    return Composed(f"aclnnGroupedMatmul{name}", tensors, numbers, host, checks=checks)


# fmt: off
OPERATORS = family(
    "matmul",
    Page("aclnnMatmul", "contract:MATMUL", ("matmul",)),
    Page("aclnnMm", "contract:MM", ("mm",)),
    Page("aclnnAddmm", "contract:ADDMM", ("addmm",)),
    Page("aclnnBatchMatMul", "contract:BATCH_MATMUL", ("bmm",)),
    Page("aclnnMatmulWeightNz", "contract:MATMUL_WEIGHT_NZ"),
    Page("aclnnBatchMatMulWeightNz", "contract:BATCH_MATMUL_WEIGHT_NZ"),
    Page("aclnnAddmmWeightNz", "contract:ADDMM_WEIGHT_NZ"),
    fused="records:fused_product",
    ruled=RULED,
    host=(
        *_summed("aclnnAddbmm", "batch1 batch2", "summed_batches", _BETA_ALPHA, _BATCHES),
        *_summed("aclnnBaddbmm", "batch1 batch2", "added_batches", _BETA_ALPHA, _BATCHES),
        _summed("aclnnAddmm", "mat1 mat2", "added_batches", _BETA_ALPHA, _MATRICES)[1],
        _summed("aclnnAddmv", "mat vec", "added_vector", _BETA_ALPHA, _VECTOR)[0],
        *_summed("aclnnAddr", "vec1 vec2", "added_outer_product", _OPTIONAL, _OUTER, math=()),
        Composed("aclnnDot", "self tensor -> out", (), "dot_product",
            checks=((fits, "self", "k", "tensor", "k"),)),
        Composed("aclnnGemm", "A B C -> out",
            (real("alpha", "alpha"), real("beta", "beta"), whole("transA", "turned_a"),
             whole("transB", "turned_b"), *_MATH), "general",
            checks=((rank_is, 2, "A", "B", "out"), (math_type, "A", "B"))),
        Composed("aclnnGer", "self vec2 -> out", (), "outer_product",
            checks=((fits, "self", "m", "vec2", "n", "out", "m n"),)),
        _grouped("", f"{_GROUPS} -> y*", (*_ENDS, *_SPLIT)),
        _grouped("V2", f"{_GROUPS} -> y*", (*_ENDS, *_GROUP_TYPE)),
        _grouped("V3", f"{_GROUPS} groupListOptional? -> y*", _GROUP_TYPE, "grouped_by_tensor"),
        _grouped("V4", _OF_GROUPS, _LISTED, "grouped_by_row"),
        _grouped("V5", _OF_GROUPS, (*_LISTED, ints("tuningConfigOptional?", None)),
            "grouped_by_row"),
        _grouped("WeightNz", _OF_GROUPS.replace("weight*", "weight*#"), (*_SPLIT, *_LISTED[1:],
            ints("tuningConfigOptional?", None), whole("quantGroupSize", None)), host=""),

        Composed("aclnnQuantMatmulV2", "x1 x2 bias? deqScale -> out",
            (flag("adjX1", "turned_a"), flag("adjX2", "turned_b")), "packed_product",
            checks=((product, "x1", "x2", "bias", "out", {"turned": ("turned_a", "turned_b")}),
                (rank_in, (2, 3), "x1", "x2"), (rank_is, 1, "bias", "deqScale"),
                (aligned_scale, "deqScale", "out")),
            rules="hicann/ops-nn matmul/quant_matmul (docs)"),
        *(Composed(f"aclnnTransposeBatchMatMul{ending}", f"x1 {weight} bias? scale? -> out",
            (ints("permX1", "order_a"), ints("permX2", "order_b"), ints("permY", "order"),
             *_MATH, whole("batchSplitFactor", "parts")), "turned_batches",
            checks=((rank_in, (3,), "x1"), (absent, "bias"), (batches_turn, "x1", "x2"),
                (batches_small, "x1", "x2"), (math_type, "x1", "x2")))
          for ending, weight in (("", "x2"), ("WeightNz", "x2#"))),
        *_quantised("aclnnQuantMatmulV5", "x2", FIFTH),
        *_quantised("aclnnQuantMatmulWeightNz", "x2#", IN_FRACTALS),
        Composed("aclnnMv", "self vec -> out", _MATH, "matrix_vector",
            checks=((fits, "self", "m k", "vec", "k", "out", "m"), (math_type, "self", "vec"))),
    ),
    records=(
        Operator("MatMul", _BIASED, _TURNED, also=("MatMulV2",), kernel="product",
            checks=_checked(_TURNED)),
        Operator("MatMulV3", _BIASED, (*_TURNED, _HF32), kernel="product",
            checks=_checked(_TURNED)),
        Operator("BatchMatMul", "x1 x2 -> y", _TURNED_EACH, kernel="product",
            checks=_checked(_TURNED_EACH)),
        Operator("BatchMatMulV2", _BIASED, _TURNED_EACH, kernel="product",
            checks=_checked(_TURNED_EACH)),
        Operator("BatchMatMulV3", _BIASED, (*_TURNED_EACH, _HF32), kernel="product",
            checks=_checked(_TURNED_EACH)),
        Operator("Gemm", kernel="product"),
    ),
    grouped_calls=(
        Operator("GroupedMatmul", "x weight bias? scale? offset? antiquant_scale? "
            "antiquant_offset? group_list? per_token_scale? -> y",
            (flag("transpose_x?"), flag("transpose_weight?"), whole("group_type?"),
             whole("group_list_type?")), kernel="grouped_matmul", checks=(
), band_class="grouped_matmul"),
    ),
    grouped_swiglu=(
        Operator("GroupedMatmulSwigluQuant",
            "x weight weight_scale x_scale group_list? -> y y_scale", (),
            Aclnn("aclnnGroupedMatmulSwigluQuant",
                "x weight weightScale xScale groupList bias? offset? -> "
                "output outputScale outputOffset?", checks=gated_checks(always_blocked=False),
                rules="hicann/ops-transformer gmm/grouped_matmul_swiglu_quant (docs, op_api)"),
            also=("GroupedMatmulSwigluQuantV2",), kernel="grouped_matmul_swiglu_quant", checks=(),
            band_class="grouped_matmul"),
    ),
    latent_queries=(
        Operator("MlaProlog", "token_x weight_dq weight_uq_qr weight_uk weight_dkv_kr "
            "rmsnorm_gamma_cq rmsnorm_gamma_ckv rope_sin rope_cos -> "
            "query query_rope key? key_rope?",
            (real("rmsnorm_epsilon_cq?"), real("rmsnorm_epsilon_ckv?")), kernel="mla_prolog",
            checks=(), band_class="matmul"),
        _prolog("V2", "cacheIndex kvCacheRef krCacheRef", (7168, 7680)),
        _prolog("V3", "kvCacheRef krCacheRef cacheIndexOptional", (6144, 7168, 7680),
            (" actualSeqLenOptional? kNopeClipAlphaOptional?",
             " queryNormOutOptional? dequantScaleQNormOutOptional?"),
            _PROLOG_RESERVED),
    ),
    turned_batches=(
        Operator("TransposeBatchMatMul", "x1 x2 bias? scale? -> y",
            (ints("perm_x1?"), ints("perm_x2?"), ints("perm_y?"), whole("math_type?"),
             whole("batch_split_factor?")),
            kernel="transpose_batch_mat_mul", checks=(), band_class="matmul"),
    ),
    weight_quant=(
        Operator("WeightQuantBatchMatmulV2",
            "x weight antiquant_scale antiquant_offset? quant_scale? quant_offset? bias? -> y",
            (flag("transpose_x?"), flag("transpose_weight?"),
             whole("antiquant_group_size?")),
            (Aclnn("aclnnWeightQuantBatchMatmulV2", _WIDENED_TENSORS, _GROUP_SIZE,
                checks=_WIDENED_CALL),
             Aclnn("aclnnWeightQuantBatchMatmulV3", _WIDENED_TENSORS,
                (*_GROUP_SIZE, whole("innerPrecise", None)), checks=_WIDENED_CALL)),
            kernel="weight_quant_batch_matmul_v2", checks=_WIDENED,
            band_class="weight_quant_matmul"),
        Operator("WeightQuantBatchMatmul",
            "x weight antiquant_scale antiquant_offset? bias? -> y",
            (flag("transpose_x?"), flag("transpose_weight?")),
            kernel="weight_quant_batch_matmul", checks=_WIDENED, dtypes=_WIDENED_DTYPES,
            band_class="weight_quant_matmul"),
    ),
    quantised=(
        Operator("QuantBatchMatmulV3", "x1 x2 scale offset? bias? pertoken_scale? -> y",
            (whole("dtype?", None), *_TURNED),
            (Aclnn("aclnnQuantMatmulV3", "x1 x2 scale offset? bias? -> out", _SAID, checks=(
                (together, "x1", "x2", "scale", "offset", "bias", "y", {"rows": THIRD}),
                _QUANTISED)),
             Aclnn("aclnnQuantMatmulV4",
                "x1 x2 scale offset? bias? pertokenScaleOptional? -> out", _SAID, checks=(
                (together, "x1", "x2", "scale", "offset", "bias", "pertoken_scale", "y",
                    {"rows": FOURTH}), _QUANTISED))),
            kernel="quant_batch_matmul", checks=_SCALED, band_class="quant_matmul"),
        Operator("QuantMatmul", "x1 x2 scale offset? pertoken_scale? bias? -> y", _TURNED,
            checks=_SCALED, kernel="quant_matmul", band_class="quant_matmul"),
    ),
)
