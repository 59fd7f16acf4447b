"""What the catalogue answers: verdicts with both sides, messages people search for, names."""

from __future__ import annotations

import pytest

from npusim.catalogue.facts import catalogue
from npusim.catalogue.families import place_of
from npusim.catalogue.judging import support
from npusim.catalogue.names import API, GRAPH, OPERATOR, AmbiguousNameError, find
from npusim.catalogue.queries import diff, matrix, search
from npusim.catalogue.verdicts import Answer
from npusim.catalogue.wording import rank_allows
from npusim.values.errors import DTypeError, UnknownNameError
from npusim.values.status import Verdict
from npusim.values.tensors import TensorSpec

YES, NO, OPEN = Answer.SUPPORTED, Answer.REJECTED, Answer.UNKNOWN

# operator, product, dtypes, by page, by operator information, our verdict
VERDICTS = [
    ("aclnnAdd", "910B3", ["bf16", "bf16"], YES, YES, YES),
    ("aclnnAdd", "910A", ["fp16", "fp16"], YES, YES, YES),
    ("aclnnAdd", "910A", ["bf16", "bf16"], YES, YES, NO),
    # The page of 2026 doesn't list 310P; CANN 8.1 has the API and its kernels.
    ("aclnnAdd", "310P3", ["fp16", "fp16"], NO, YES, YES),
    ("aclnnAdd", "310P3", ["bf16", "bf16"], NO, YES, NO),
    # The page lists BFLOAT16 on 910 and 310P, host code doesn't let it pass there.
    ("aclnnFlatten", "310P", ["bf16"], YES, YES, NO),
    ("aclnnFlatten", "A2", ["bf16"], YES, YES, YES),
    # The page lists BFLOAT16 for all products at once, and nothing else confirms it on 310P.
    ("aclnnConvolution", "310P", ["bf16", "bf16"], YES, YES, OPEN),
    ("aclnnConvolution", "310P", ["fp16", "fp16"], YES, YES, YES),
    # Neither the page nor a kernel.
    ("aclnnFlashAttentionScore", "310P3", ["fp16"], NO, NO, NO),
    ("aclnnSwiGlu", "910A", ["fp16"], NO, NO, NO),
    ("aclnnSwiGlu", "310P3", ["fp16"], YES, YES, YES),
    ("aclnnRmsNorm", "A3", ["bf16", "fp32"], YES, YES, YES),
    ("aclnnMaxPool", "910A", ["fp32"], YES, YES, NO),
    # Operator types: kernels, and the APIs that do the same.
    ("MatMulV2", "310P3", ["bf16", "bf16"], YES, YES, NO),
    ("MatMulV2", "310P3", ["fp16", "fp16"], YES, YES, YES),
    ("MatMulV3", "910A", ["fp16", "fp16"], YES, OPEN, YES),
    ("RotaryMul", "910A", ["fp16"], NO, YES, YES),
    ("TransData", "910A", ["bf16"], OPEN, YES, YES),
    ("RotaryPositionEmbedding", "910A", ["fp16"], NO, NO, NO),
]


@pytest.mark.parametrize(("op", "product", "dtypes", "page", "information", "verdict"), VERDICTS)
def test_a_verdict_shows_both_sides(
    op: str, product: str, dtypes: list[str], page: Answer, information: Answer, verdict: Answer
) -> None:
    found = support(op, product, dtypes)
    assert found.answer is verdict, found.why
    assert (found.by_page, found.by_operator) in (
        (page, information),
        (OPEN, information),  # a kernel decided, and no API had anything to say
    )
    assert found.sources
    assert found.why


@pytest.mark.parametrize(
    ("op", "product", "answer", "says"),
    [
        # Only the reference page of CANN 8.0 and the operator information have it there.
        ("aclnnRoiAlignV2Backward", "310P", YES, "reference page of CANN 8.0"),
        ("aclnnRelu", "310P", YES, "CANN 8.1 has the API and its kernels"),
        ("aclnnScatter", "910", OPEN, "the current page says no, an older one yes"),
        ("aclnnSoftsign", "A2", OPEN, "only an experimental folder"),
        ("aclnnCastV3", "910", OPEN, "no page lists the product"),
        ("aclnnScasum", "A2", YES, "an older page has it (cann-ops-2025-09)"),
    ],
)
def test_where_the_current_page_doesnt_say_yes_others_are_heard(
    op: str, product: str, answer: Answer, says: str
) -> None:
    found = support(op, product)
    assert found.answer is answer
    assert says in found.why


def test_a_refused_bf16_says_the_familiar_sentence_and_the_remedy() -> None:
    found = support("MatMulV2", "Ascend310P3", ["bf16", "bf16"])
    assert found.why == (
        "aclnnMatmul: tensor self not implemented for DT_BFLOAT16 on Ascend310P3, "
        "should be in dtype support list [DT_FLOAT, DT_FLOAT16]"
    )
    assert found.status is not None
    assert found.status.code == 161002
    assert found.status.name == "ACLNN_ERR_PARAM_INVALID"
    assert found.remedy == (
        "BF16 needs an Atlas A2 product (Ascend910B1..B4) or later; "
        "cast to FLOAT16, or choose another --soc-version."
    )
    assert found.supported_by == ("A2", "A3", "950")


def test_a_missing_product_is_561003_and_names_those_that_have_it() -> None:
    found = support("aclnnFlashAttentionScore", "310P3")
    assert found.status is not None
    assert found.status.code == 561003
    assert "is not supported on Ascend310P3" in found.why
    assert found.supported_by == ("A2", "A3", "950")
    assert "FLOAT16" not in found.remedy
    assert found.remedy.startswith("This needs an Atlas A2 product")


def test_a_contradicted_dtype_is_on_the_page_and_not_in_the_checked_column() -> None:
    found = support("aclnnFlatten", "910A", {"self": "bf16"})
    (tensor,) = (each for each in found.parameters if each.name == "self")
    assert "BFLOAT16" in (tensor.page or ())
    assert "BFLOAT16" not in (tensor.checked or ())
    assert tensor.given == "BFLOAT16"
    assert tensor.answer is NO


@pytest.mark.parametrize(
    ("api", "parameter", "taken", "refused"),
    [
        ("aclnnGroupedMatmulFinalizeRoutingV3", "x2", "int32", "fp16"),
        ("aclnnGroupedMatmulFinalizeRoutingV2", "x2", "int32", "fp16"),
        ("aclnnGroupedMatmulFinalizeRouting", "w", "int32", "fp16"),
        ("aclnnDequantRopeQuantKvcache", "x", "int32", "int8"),
    ],
)
def test_what_host_code_takes_beyond_the_page_is_taken(
    api: str, parameter: str, taken: str, refused: str
) -> None:
    assert support(api, "A2", {parameter: taken}).answer is YES
    assert support(api, "A2", {parameter: refused}).answer is NO


def test_an_unconfirmed_dtype_says_how_rare_it_is() -> None:
    found = support("aclnnConvolution", "310P", {"input": "bf16"})
    assert "nothing confirms it: 1 of 842 operators of this product take BFLOAT16" in found.why
    assert found.status.verdict is Verdict.UNKNOWN
    assert found.remedy.startswith("BF16 needs an Atlas A2 product")


def test_tensors_are_given_by_name_in_any_case_and_by_the_headers_names() -> None:
    by_page = support("aclnnRoiAlignV2Backward", "910B3", {"OUT": "fp32"})
    by_header = support("aclnnRoiAlignV2Backward", "910B3", {"gradInput": "fp32"})
    for found in (by_page, by_header):
        assert [each.name for each in found.parameters if each.given] == ["out"]
        assert found.answer is YES
    with pytest.raises(UnknownNameError, match="gradOut") as error:
        support("aclnnRoiAlignV2Backward", "910B3", {"gradOut": "fp32"})
    assert "gradOutput" in error.value.suggestions


def test_tabulated_combinations_are_looked_at_together() -> None:
    good = {"x1": "fp16", "x2": "fp32", "gamma": "fp32"}
    bad = {"x1": "fp32", "x2": "fp32", "gamma": "fp16"}
    assert support("aclnnAddLayerNorm", "910B3", good).answer is YES
    found = support("aclnnAddLayerNorm", "910B3", bad)
    assert found.answer is OPEN
    assert "x1 FLOAT, x2 FLOAT, gamma FLOAT16 isn't one of them" in found.why


def test_a_shape_of_the_wrong_rank_is_refused_with_the_familiar_sentence() -> None:
    found = support("aclnnRmsNorm", "910B3", {"x": TensorSpec((1,) * 9, "bf16")})
    assert found.answer is NO
    assert "dimension input, but got x with sizes [1, 1, 1, 1, 1, 1, 1, 1, 1]" in found.why
    assert support("aclnnRmsNorm", "910B3", {"x": TensorSpec((4, 8), "bf16")}).answer is YES


@pytest.mark.parametrize(
    ("rank", "allowed", "refused"),
    [("2", {2}, {1, 3}), ("1-3", {1, 2, 3}, {0, 4}), ("2;4", {2, 4}, {3}), ("", {0, 9}, set())],
)
def test_ranks_as_pages_write_them(rank: str, allowed: set[int], refused: set[int]) -> None:
    assert all(rank_allows(rank, dimensions) for dimensions in allowed)
    assert not any(rank_allows(rank, dimensions) for dimensions in refused)


# Names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "means"),
    [
        ("aclnnAdd", API, "aclnnAdd"),
        ("add", API, "aclnnAdd"),
        ("ACLNNADD", API, "aclnnAdd"),
        ("aten::add.Tensor", API, "aclnnAdd"),
        ("torch.relu_", API, "aclnnInplaceRelu"),
        ("group_norm", API, "aclnnGroupNorm"),
        ("native_layer_norm", API, "aclnnLayerNorm"),
        ("npu_rotary_mul", API, "aclnnRotaryPositionEmbedding"),
        ("MatMulV2", OPERATOR, "aclnnMatmul"),
        ("matmulv3", OPERATOR, "aclnnMatmul"),
        ("ROIAlignGrad", OPERATOR, "aclnnRoiAlignV2Backward"),
        ("Conv", OPERATOR, "aclnnConvolution"),
        ("Gemm", API, "aclnnGemm"),
        ("DynamicGRUV2", OPERATOR, None),
        ("Identity", GRAPH, None),
    ],
)
def test_names_in_use_lead_to_the_catalogue(name: str, kind: str, means: str | None) -> None:
    subject = find(catalogue(), name)
    assert subject.kind == kind
    assert (subject.apis[0] if subject.apis else None) == means


def test_near_misses_are_offered_with_the_prefix_that_was_typed() -> None:
    with pytest.raises(UnknownNameError) as bare:
        support("GrupNormBackward", "A2")
    assert bare.value.suggestions[0] == "GroupNormBackward"
    with pytest.raises(UnknownNameError) as full:
        support("aclnnGrupNormBackward", "A2")
    assert full.value.suggestions[0] == "aclnnGroupNormBackward"
    with pytest.raises(UnknownNameError, match="910C3") as chip:
        support("Add", "Ascend910C3")
    assert chip.value.suggestions


def test_a_name_of_several_operators_lists_them() -> None:
    with pytest.raises(AmbiguousNameError) as error:
        support("aten::masked_fill", "A2")
    assert error.value.candidates == (
        "aclnnInplaceMaskedFillScalar",
        "aclnnInplaceMaskedFillTensor",
    )
    assert all(name in str(error.value) for name in error.value.candidates)
    assert error.value.exit_code == 2


def test_a_name_that_means_something_else_as_operator_type_says_so() -> None:
    assert "operator type Equal is aclnnEqTensor" in " ".join(support("Equal", "A2").notes)
    assert support("Add", "A2").notes == ()


def test_an_unknown_dtype_is_named() -> None:
    with pytest.raises(DTypeError, match="bf17"):
        support("Add", "A2", ["bf17"])


@pytest.mark.parametrize(
    ("text", "family", "soc"),
    [
        ("910", "910", ""),
        ("a2", "A2", ""),
        ("310p3", "310P", "Ascend310P3"),
        ("Ascend910B3", "A2", "Ascend910B3"),
        ("ascend910prob", "910", "Ascend910ProB"),
        ("910B", "910", "Ascend910B"),
        ("Ascend910_9391", "A3", "Ascend910_9391"),
        ("310B4", "310B", "Ascend310B4"),
        ("Ascend950PR_9599", "950", "Ascend950PR_9599"),
        ("Atlas 300I Duo", "310P", "Ascend310P3"),
        ("Atlas 800I A2", "A2", "Ascend910B4"),
    ],
)
def test_products_by_any_name(text: str, family: str, soc: str) -> None:
    place = place_of(text)
    assert (place.family, place.soc) == (family, soc)


def test_910b_without_a_digit_gets_a_note() -> None:
    assert "first generation" in place_of("910B").note
    assert place_of("910B1").note == ""


# Many operators at once --------------------------------------------------------------------------


def test_search_finds_words_and_dtypes() -> None:
    names = [row.api for row in search("group norm")]
    assert "aclnnGroupNormBackward" in names
    assert all("groupnorm" in name.lower() for name in names)
    bf16 = search("norm bf16", "A2")
    assert bf16
    assert all(row.entries[0].bf16 for row in bf16)
    assert search("norm", "A2", dtype="bf16") == bf16
    assert search("no such operator") == ()
    # The first-generation products have next to none.
    assert len(search("bf16", "310P")) < 10
    assert len(search("bf16", "A2")) > 700


def test_search_doesnt_promise_what_a_check_leaves_open() -> None:
    for product in ("910", "310P"):
        for row in search("bf16", product):
            verdict = support(row.api, product)
            taking = [each for each in verdict.parameters if "BFLOAT16" in each.accepted]
            asked = support(row.api, product, {taking[0].name: "bf16"})
            assert asked.answer is not NO, row.api


def test_diff_is_a_partition_and_turns_round() -> None:
    there, back = diff("910B3", "310P3"), diff("310P3", "910B3")
    assert (there.only_first, there.only_second) == (back.only_second, back.only_first)
    assert there.common == back.common
    rows = {row.api: row.entries for row in matrix(["910B3", "310P3"])}
    both = [api for api, (a, b) in rows.items() if a.answer is YES is b.answer]
    assert there.common == len(both)
    assert set(there.only_first) == {
        api for api, (a, b) in rows.items() if a.answer is YES is not b.answer
    }
    assert "aclnnFlashAttentionScore" in there.only_first
    (change,) = (each for each in there.changes if each.api == "aclnnRmsNorm")
    assert change.only_first == ("BFLOAT16",)
    assert change.only_second == ()


def test_the_matrix_agrees_with_single_questions() -> None:
    for row in matrix()[::97]:
        for entry in row.entries:
            verdict = support(row.api, entry.family)
            assert verdict.answer is entry.answer
            assert (verdict.by_page, verdict.by_operator) == (entry.by_page, entry.by_operator)
