"""Will it run? Whoever asks gets the same code, reason and remedy, and the remedy helps."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import beyond_sources
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.catalogue import apis, facts, judging, names
from npusim.catalogue import operators as operators_
from npusim.catalogue.families import Place
from npusim.catalogue.judging import support
from npusim.catalogue.question import Question
from npusim.catalogue.verdicts import Answer
from npusim.hardware.families import FAMILIES
from npusim.operators import checks, listed, oracle
from npusim.operators.contract import Call, TensorArg
from npusim.operators.registry import op_types, operators, prototype, ruled, standard_names
from npusim.operators.resolve import resolve
from npusim.operators.tasks import TaskSpec
from npusim.validation.table import read_rows
from npusim.values.errors import AclnnError, ArgumentError, NpusimError, UnknownNameError
from npusim.values.status import Status
from support.paths import ROOT
from support.standard_calls import CALLS

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

CATALOGUE = facts.catalogue()
CHIPS = ("Ascend910A", "Ascend910B3", "Ascend310P3", "Ascend910_9391")
DEVICES = {chip: Device(chip) for chip in CHIPS}
KINDS = ("FLOAT16", "FLOAT", "BFLOAT16", "INT32", "INT64", "BOOL", "INT8", "DOUBLE", "COMPLEX64")
# What pages list, or could.
KINDS_OF_PAGES = (*KINDS, "QINT8")
SHAPES = ((4, 64), (64,), (3, 7), (2, 3, 8, 16), (1,), (), (5, 0))
CONTRACTED = [name for name in operators() if prototype(name) is None]
ONLY_CATALOGUED = sorted(
    name for name in CATALOGUE.paged_apis - {*standard_names(), *operators()} if ruled(name) is None
)

SETTINGS = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

Question_ = tuple[str, str, dict[str, Any]]  # chip, operator, arguments

# Questions ---------------------------------------------------------------------------------------


@st.composite
def sensible_calls(draw: st.DrawFn) -> Question_:
    """A call that runs somewhere, with its floating tensors in another dtype."""
    name, arguments, _ = draw(st.sampled_from(CALLS))
    kind = draw(st.sampled_from(KINDS))
    return (
        draw(st.sampled_from(CHIPS)),
        name,
        {
            each: _as(kind, value) if isinstance(value, np.ndarray) else value
            for each, value in arguments.items()
        },
    )


def _as(kind: str, array: np.ndarray[Any, Any]) -> TensorSpec:
    spec = TensorSpec.of(array)
    return TensorSpec(spec.shape, kind, strides=spec.strides) if spec.dtype.is_float else spec


@st.composite
def wild_calls(draw: st.DrawFn) -> Question_:
    """Any name with a kernel, on tensors and attributes that need make no sense together."""
    name = draw(st.sampled_from([*standard_names(), *CONTRACTED]))
    known = prototype(name)
    tensors = st.builds(TensorSpec, st.sampled_from(SHAPES), st.sampled_from(KINDS))
    usual = draw(tensors)
    tensor = st.sampled_from([usual, usual, usual, draw(tensors)])
    if known is not None and not known[1].is_known:
        count = draw(st.integers(1, 4))
        return draw(st.sampled_from(CHIPS)), name, {f"x{at}": draw(tensor) for at in range(count)}
    values: dict[str, st.SearchStrategy[Any]] = {
        "tensor": tensor,
        "int64": st.sampled_from([0, 1, -1, 2, 64]),
        "double": st.sampled_from([1.0, 0.5, 1e-5]),
        "float": st.sampled_from([1.0, 0.5]),
        "bool": st.booleans(),
        "int_array": st.sampled_from([[0], [1], [-1], [0, 1], [64], [4, 64], []]),
        "bool_array": st.just([True] * 3),
        "float_array": st.sampled_from([[1.0], [0.5, 2.0], []]),
        "scalar": st.sampled_from([1, 0, -2, 0.5, True]),
        "text": st.sampled_from(["FLOAT16", "none", "tanh", "0"]),
    }
    arguments = {
        each.name: draw(values[each.kind])
        for each in resolve(name, {}).parameters
        if not (each.optional or each.io == "out") or draw(st.booleans())
    }
    return draw(st.sampled_from(CHIPS)), name, arguments


def answer(ask: Any, *where: Any, **arguments: Any) -> tuple[Any, ...]:
    """Code, reason and remedy, or the error of a wrong question."""
    try:
        found = ask(*where, **arguments)
    except AclnnError as error:
        found = error.status
    except NpusimError as error:
        return type(error), str(error)
    if not isinstance(found, Status) or (found.is_modelled and not found.code):
        return 0, "", ""  # an estimate, and what gets one: a yes, or that the product is in doubt
    return found.code, found.message, found.remedy


def follow(chip: str, op: str, arguments: dict[str, Any], status: Status) -> None:
    """Every way out that a refusal names is accepted."""
    for action in status.actions:
        asked = Device(action.soc_version or chip)
        followed = asked.check(op, **arguments | dict(action.arguments))
        assert followed.ok, (action, followed.render())


# One answer --------------------------------------------------------------------------------------


@given(st.one_of(sensible_calls(), wild_calls()))
@SETTINGS
def test_check_and_estimate_say_the_same(question: Question_) -> None:
    chip, op, arguments = question
    checked = answer(DEVICES[chip].check, op, **arguments)
    assert answer(DEVICES[chip].estimate, op, **arguments) == checked


@given(sensible_calls())
@settings(SETTINGS, max_examples=60)
def test_run_refuses_what_check_refuses(question: Question_) -> None:
    chip, op, arguments = question
    arrays = {
        name: np.ones(value.shape, value.dtype.numpy) if isinstance(value, TensorSpec) else value
        for name, value in arguments.items()
    }
    ran = answer(DEVICES[chip].run, op, **arrays)
    if ran[0] != 507035 and not isinstance(ran[0], type):  # what only data can show
        assert answer(DEVICES[chip].check, op, **arrays) == ran


@given(st.one_of(sensible_calls(), wild_calls()))
@SETTINGS
def test_whoever_follows_a_remedy_is_accepted(question: Question_) -> None:
    chip, op, arguments = question
    try:
        status = DEVICES[chip].check(op, **arguments)
    except NpusimError:
        return
    if not status.ok:
        assert status.message
        chips = any(action.soc_version for action in status.actions)
        assert ("--soc-version" in status.remedy) is chips
        assert bool(re.search(r"\b[Cc]ast ", status.remedy)) <= any(
            action.arguments for action in status.actions
        )
    follow(chip, op, arguments, status)


@given(st.sampled_from(ONLY_CATALOGUED), st.sampled_from(CHIPS), st.sampled_from(KINDS))
@SETTINGS
def test_names_without_a_kernel_are_judged_and_never_timed(api: str, chip: str, kind: str) -> None:
    pages = (CATALOGUE.page(api, family) for family in FAMILIES)
    parameters = next((page.parameters for page in pages if page and page.parameters), ())
    arguments: dict[str, Any] = {each.name: kind for each in parameters if each.is_tensor}
    device = DEVICES[chip]
    try:
        status = device.check(api, **arguments)
    except UnknownNameError:  # pages of several products may differ in names
        return
    verdict = support(api, chip, arguments)
    assert status.code == verdict.code
    assert verdict.why in status.message
    follow(chip, api, arguments, status)
    with pytest.raises(AclnnError) as refused:
        device.estimate(api, **arguments)
    assert refused.value.code == (status.code or None)
    assert status.verdict != "yes" or "can't be timed" in refused.value.message


def test_a_name_from_elsewhere_is_the_operator_that_it_stands_for() -> None:
    x = TensorSpec((4, 64), "fp32")
    for device in DEVICES.values():
        assert device.check("torch.add", self=x, other=x).ok
        assert device.estimate("aten::mul", self=x, other=x).op == "aclnnMul"
    half = TensorSpec((4, 64), "bf16")
    status = DEVICES["Ascend910A"].check("aten::add", self=half, other=half)
    assert status == DEVICES["Ascend910A"].check("aclnnAdd", self=half, other=half)


def test_the_catalogue_is_opened_only_where_a_definition_lists_no_dtypes() -> None:
    code = """
import sys
from collections import OrderedDict
from functools import partial
from npusim import Device
tensor = "fp16[64,64]"
Device("Ascend910B3").check("aclnnMatmul", self=tensor, mat2=tensor, cubeMathType=1)
print(*(name for name in sys.modules if name.startswith("npusim.catalogue.")))
Device("Ascend910B3").check("Add", x1=tensor, x2=tensor)
print("npusim.catalogue.facts" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "True"]


def test_names_that_nobody_knows_get_near_misses_from_everywhere() -> None:
    for ask in (DEVICES["Ascend910B3"].check, DEVICES["Ascend910B3"].estimate):
        with pytest.raises(UnknownNameError, match="aclnnFlashAttentionScore"):
            ask("aclnnFlashAttentionScor")
    with pytest.raises(UnknownNameError, match="parameter of aclnnFlashAttentionScore"):
        DEVICES["Ascend910B3"].check("aclnnFlashAttentionScore", quary="bf16")
    with pytest.raises(ArgumentError, match="query can't be 3"):
        DEVICES["Ascend910B3"].check("aclnnFlashAttentionScore", query=3)


# What it says ------------------------------------------------------------------------------------


def half(kind: str, *shape: int) -> TensorSpec:
    return TensorSpec(shape, kind)


@pytest.mark.parametrize(
    ("chip", "op", "names_", "code"),
    [
        ("Ascend910A", "aclnnAdd", ("self", "other"), 161002),
        ("Ascend910A", "Add", ("x1", "x2"), 161002),
        ("Ascend910A", "MatMulV2", ("x1", "x2"), 161002),
        ("Ascend310P3", "MatMulV2", ("x1", "x2"), 161002),
        ("Ascend310P3", "MatMulV3", ("x1", "x2"), 161002),
        ("Ascend910A", "MatMulV3", ("x1", "x2"), 561003),
    ],
)
def test_bfloat16_on_products_without_it(
    chip: str, op: str, names_: tuple[str, ...], code: int
) -> None:
    arguments = {name: half("bf16", 64, 64) for name in names_}
    device = DEVICES[chip]
    status = device.check(op, **arguments)
    assert status.code == code
    assert status.is_modelled
    assert status.remedy == (
        "BF16 needs an Atlas A2 product (Ascend910B1..B4) or later; cast to FLOAT16, "
        "or choose another --soc-version."
    )
    assert [bool(action.soc_version) for action in status.actions] == [False, True, True]
    follow(chip, op, arguments, status)
    arrays = {name: np.ones((64, 64), spec.dtype.numpy) for name, spec in arguments.items()}
    for ask, given_ in ((device.estimate, arguments), (device.run, arrays)):
        assert answer(ask, op, **given_) == (status.code, status.message, status.remedy)


def test_no_cast_is_advised_where_the_product_lacks_the_operator() -> None:
    def call(kind: str) -> dict[str, Any]:
        tensors = {"gradOut": (2, 8, 16), "input": (2, 8, 16), "mean": (2, 4), "rstd": (2, 4)}
        numbers = {"N": 2, "C": 8, "HxW": 16, "group": 4, "outputMask": [True, True, True]}
        return {name: half(kind, *shape) for name, shape in tensors.items()} | numbers

    status = DEVICES["Ascend310P3"].check("aclnnGroupNormBackward", **call("bf16"))
    assert status.code == 161002
    assert "cast" not in status.remedy.lower()
    follow("Ascend310P3", "aclnnGroupNormBackward", call("bf16"), status)
    status = DEVICES["Ascend910A"].check("aclnnGroupNormBackward", **call("bf16"))
    assert "cast to FLOAT16" in status.remedy
    mixed = call("bf16") | {"mean": half("fp32", 2, 4)}
    status = DEVICES["Ascend910A"].check("aclnnGroupNormBackward", **mixed)
    assert status.remedy == "Cast to FLOAT."  # of several faults the remedy cures all
    follow("Ascend910A", "aclnnGroupNormBackward", mixed, status)


def test_a_remedy_of_two_steps_names_both() -> None:
    product = {"self": half("bf16", 8, 8), "mat2": half("bf16", 8, 8), "cubeMathType": 3}
    status = DEVICES["Ascend910A"].check("aclnnMatmul", **product)
    assert status.remedy == "Cast to FLOAT16; use cubeMathType 1."
    follow("Ascend910A", "aclnnMatmul", product, status)


def test_what_only_npusim_cannot_is_told_from_what_the_device_refuses() -> None:
    x = half("fp16", 4, 64)
    ours = DEVICES["Ascend910B3"].check("SmoothL1Loss", predict=x, label=x, sigma=0.0)
    assert ours.verdict == "unknown"
    assert "not modelled" in ours.message
    assert not ours.actions
    theirs = DEVICES["Ascend910A"].check("MatMulV3", x1=half("bf16", 8, 8), x2=half("bf16", 8, 8))
    assert (theirs.code, theirs.is_modelled) == (561003, True)
    assert "not supported on Ascend910A" in theirs.message
    product = {"x1": half("fp32", 8, 8), "x2": half("fp32", 8, 8)}
    gap = DEVICES["Ascend910A"].check("MatMulV2", **product)  # the device computes it in FLOAT16
    assert not gap.is_modelled
    assert gap.remedy.startswith("For a figure nevertheless: cast to FLOAT16, or ask")
    follow("Ascend910A", "MatMulV2", product, gap)


def test_instructions_that_a_kernel_lacks_are_foreseen() -> None:
    status = DEVICES["Ascend910B3"].check("ArgMaxV2", x=half("float64", 4, 8))
    assert not status.is_modelled
    assert "vconv doesn't take float64->float32" in status.message


def test_to_say_what_comes_out_is_advised_only_where_it_helps() -> None:
    image = half("fp16", 1, 3, 8, 8)
    with pytest.raises(ArgumentError, match=r"Say what comes out: dst=DTYPE\[SIZES\]"):
        DEVICES["Ascend910B3"].check("TransData", src=image)
    status = DEVICES["Ascend910B3"].check("Add", x1=half("fp16", 6, 40), x2=half("fp16", 7))
    assert status.code == 161002
    assert "say what comes out" not in status.remedy.lower()


def test_tensors_that_are_no_call_are_refused_by_name_not_by_accident() -> None:
    scalar = half("fp16")
    for op, arguments, code, words in (
        ("MatMulV2", {"x1": scalar, "x2": scalar}, 161002, "Expected a matrix"),
        ("Silu", {f"x{at}": half("fp16", 4) for at in range(4)}, 561002, "operands don't fit"),
        ("SplitV", {"x": scalar, "split_dim": 0}, 161002, "dimension input"),
    ):
        status = DEVICES["Ascend910B3"].check(op, **arguments)
        assert status.code == code
        assert words in status.message


def test_recorded_tasks_are_judged_by_catalogue_and_kernel() -> None:
    half_, wide = half("bf16", 64, 64), half("fp32", 64, 64)
    profile = DEVICES["Ascend910A"].profile
    assert oracle.check_task(TaskSpec("MatMulV2", (half_, half_), (half_,)), profile).code == 161002
    gap = oracle.check_task(TaskSpec("MatMulV2", (wide, wide), (wide,)), profile)
    assert gap.verdict == "unknown"
    plain = TaskSpec("Add", (wide, wide), (wide,))
    assert oracle.check_task(plain, profile).ok


# Against measurements and sources ----------------------------------------------------------------


def test_what_was_measured_on_a_chip_is_accepted_there() -> None:
    seen: dict[tuple[Any, ...], TaskSpec] = {}
    socs: dict[str, Profile] = {}
    for row in read_rows(ROOT / "reports" / "data" / "measured_ops.csv.gz"):
        task = row.task
        if task is None:
            assert "C1HWNCoC0" in row.problem  # a format that no operator of ours has
            continue
        kinds = (spec.dtype.name if spec else "" for spec in (*task.inputs, *task.outputs))
        seen.setdefault((row.soc, task.op_type, *kinds), task)
        socs.setdefault(row.soc, Device(row.soc).profile)
    assert len(seen) > 300
    for (soc, op_type, *_), task in seen.items():
        if op_type in op_types():
            verdict = listed.task_verdict(task, socs[soc])
            assert verdict is None or not verdict.code, (soc, task, verdict)


@pytest.mark.slow
def test_where_the_answer_goes_beyond_its_sources_is_listed_with_the_reason() -> None:
    listed_rows = list(csv.reader(beyond_sources.FILE.read_text(encoding="utf-8").splitlines()))
    assert listed_rows[0] == list(beyond_sources.HEAD)
    assert listed_rows[1:] == [list(row) for row in beyond_sources.rows()]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_api_takes_what_its_page_lists_and_nothing_else(family: str) -> None:
    census = operators_.census(CATALOGUE, family)
    for api in sorted(CATALOGUE.paged_apis):
        page = CATALOGUE.page(api, family)
        given = page.parameters if page and page.supported == "yes" else ()
        lists = {(each.dtypes, each.checked): each for each in given if each.is_tensor}
        for tensor in lists.values():
            refused = next(kind for kind in KINDS_OF_PAGES if kind not in tensor.dtypes)
            for kind in (*tensor.dtypes, refused) if tensor.dtypes else ():
                question = Question(family, named={tensor.name: kind})
                verdict = judging.judge(CATALOGUE, names.find(CATALOGUE, api), question)
                allowed = [Answer.REJECTED]
                known = operators_.accepted_dtypes(CATALOGUE, CATALOGUE.op_types_of(api), family)
                if kind in tensor.checked and not apis.is_missing(kind, known, census):
                    allowed = [Answer.SUPPORTED, *[Answer.UNKNOWN] * census.is_rare(kind)]
                assert verdict.answer in allowed, (api, tensor.name, kind, verdict.why)


def test_null_pointers_count_in_what_a_page_tabulates() -> None:
    tensors = {"x1": "fp16", "x2": "fp16", "gamma": "fp16", "yOut": "fp16"}
    with_null = tensors | {"rstdOut": None}
    assert listed.by_name("aclnnAddRmsNorm", Place("A2"), with_null)[0].answer is Answer.SUPPORTED
    said = listed.by_name("aclnnAddRmsNorm", Place("A2"), with_null | {"x2": None})[0]
    assert said.answer is Answer.UNKNOWN
    assert "x2 null" in said.why


PADDED_BACK = {
    f"aclnn{name}Backward" for name in ("ReflectionPad2d", "ReflectionPad3d", "ReplicationPad2d")
}


def test_every_aclnn_name_with_a_kernel_is_judged_by_the_names_of_its_tensors() -> None:
    profile = DEVICES["Ascend910A"].profile
    taken = set()
    for name in standard_names():
        if name.startswith("aclnn"):
            contract = resolve(name, {})
            if any(each.dtypes for each in contract.parameters):
                continue  # an engine's, which says itself what it takes
            tensors = [each.name for each in contract.parameters if each.kind == "tensor"]
            half = {each: TensorArg(TensorSpec((4, 64), "bf16")) for each in tensors}
            verdict = listed.verdict(Call(contract, profile, half))
            assert verdict is not None, name
            if verdict.answer is Answer.SUPPORTED:
                taken.add(name)
    # The first generation computes nothing in BFLOAT16; what moves bytes may take it, and host code
    # of some gradients of padding takes it whatever the product. The page of weights says in words
    # what its table doesn't, so the operator's own check refuses them.
    weights = "aclnnTransMatmulWeight"
    assert taken == {"aclnnInplaceCopy", "aclnnTensorMove", weights, *PADDED_BACK}
    spec = TensorSpec((32, 64), "bf16")
    assert DEVICES["Ascend910B3"].check(weights, mmWeightRef=spec).ok
    assert not DEVICES["Ascend910A"].check(weights, mmWeightRef=spec).ok


def test_kernels_that_have_run_are_not_run_again_for_remedies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call: dict[str, Any] = {
        "gradOutput": TensorSpec((3, 5, 14), "float16"),
        "outputSize": [14],
        "inputSize": [3, 5, 7],
        "scales": 0.0,
    }
    name = "UpsampleNearestExact1dBackward"
    at_first = Device("Ascend910A").check(name, **call)
    assert {action.soc_version for action in at_first.actions} >= {"Ascend910B3"}
    monkeypatch.setattr(oracle, "trace", Mock(side_effect=AssertionError))
    assert Device("Ascend910A").check(name, **call) == at_first
    assert Device("Ascend310P3").check(name, **call).actions == at_first.actions
    monkeypatch.setattr(oracle.proven, "_proven", OrderedDict())
    with pytest.raises(AssertionError):
        Device("Ascend910A").check(name, **call)
    Device("Ascend910B3").estimate(name, **call)
    assert Device("Ascend910A").check(name, **call) == at_first
    chains = Mock(wraps=oracle.Chain)
    monkeypatch.setattr(oracle, "Chain", chains)  # nor are they planned, on the chip where they ran
    assert Device("Ascend910A").check(name, **call) == at_first
    assert "Ascend910B3" not in {made.args[1].name for made in chains.call_args_list}
    monkeypatch.setattr(oracle.proven, "_proven", OrderedDict())
    with pytest.raises(AssertionError):
        Device("Ascend910A").check(name, **call)
    assert "Ascend910B3" in {made.args[1].name for made in chains.call_args_list}


@pytest.mark.parametrize(
    ("name", "given", "verdict"),
    [
        ("aclnnArange", {"start": 0, "end": 0, "step": -1}, "yes"),  # of no elements
        ("aclnnCelu", {"self": "float32[4]", "alpha": 0}, "no"),  # as its host code says
        ("aclnnSoftplus", {"self": "float32[4]", "beta": 0, "threshold": 0}, "yes"),
        ("ForeachDivScalar", {"x0": "float32[3,4]", "scalar": 0}, "yes"),
        ("aclnnStdMeanCorrection", {"self": "float16[]", "dim": [0]}, "yes"),
        ("aclnnQuantMatmulV5", {"x1": "int8[]", "x2": "int8[]", "x2Scale": "float32[]"}
         | {"transposeX1": False, "transposeX2": False, "groupSize": 2}, "no"),
        ("IndexAdd", dict.fromkeys(("var", "indices", "updates"), "float32[]"), "no"),
        ("MatrixTriangularSolve", dict.fromkeys(("b", "a"), "float32[4]"), "no"),
        ("MatrixDeterminant", {"x": "float32[4]"}, "no"),
        ("SquareSumV1", {"x": "float32[]"}, "yes"),
        ("GridSampler2DGrad", dict.fromkeys(("grad", "x", "grid"), "float32[]"), "unknown"),
        ("LSTM", {}, "unknown"),
        ("aclnnEqual", dict.fromkeys(("self", "other"), "float32[0,3]"), "unknown"),
        ("aclnnSoftMarginLoss", {"self": "float32[2,0,2]", "target": "float32[2]", "reduction": 1},
         "yes"),
        ("aclnnTake", {"self": "int8[16,0]", "index": "int32[16]"}, "no"),
        ("aclnnSliceV2", {"self": "int32[]"}
         | {"starts": [-1], "ends": [-1], "axes": [-1], "steps": [1]}, "no"),
        ("aclnnSlice", {"self": "int8[4,64]", "dim": 1, "start": 64, "end": 2, "step": 1}, "yes"),
        ("aclnnDropoutBackward", {"gradOutput": "float32[64]", "mask": "uint8[16]", "scale": 0.0},
         "yes"),  # everything was lost
        ("aclnnDropoutBackward", {"gradOutput": "float32[64]", "mask": "uint8[16]", "scale": 0.5},
         "no"),
        ("aclnnDropoutDoMask", {"self": "float32[64]", "mask": "uint8[16]", "prob": 1.5}, "no"),
        ("aclnnSwiGluGrad", {"yGrad": "float32[]", "x": "float32[]", "dim": -1}, "no"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910A", "Ascend310P3"])
def test_what_no_kernel_is_made_for_gets_an_answer(
    name: str, given: dict[str, object], verdict: str, chip: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And none that hides a mistake of a rule or a plan."""
    with caplog.at_level("DEBUG", checks.__name__):
        found = Device(chip).check(name, **given).verdict
    assert not caplog.records
    assert chip != "Ascend910B3" or found == verdict


def test_a_rule_that_fails_says_so_to_developers(caplog: pytest.LogCaptureFixture) -> None:
    call = Call(resolve("aclnnAbs", {}), Device("910b3").profile, {})
    with caplog.at_level("DEBUG", checks.__name__):
        found = checks.objection_of(call, [checks.invalid("x is odd", lambda _: {}["x"])])
    assert found is not None
    assert found.status.code is None
    assert "a check of aclnnAbs" in caplog.text
    assert "KeyError" in caplog.text


@pytest.mark.parametrize("name", ["aclnnAddRmsNormBias", "MoeGatingTopKHash", "CausalConv1d"])
def test_operators_of_engines_say_themselves_who_takes_them(name: str) -> None:
    def said(family: str, **kinds: str) -> Any:
        return listed.by_name(name, Place(family), kinds)[0]

    for family in ("A2", "A3"):
        assert said(family).answer is Answer.SUPPORTED
    assert said("310P").answer is Answer.REJECTED
    assert said("310P").code == 561003
    x = "x1" if "Norm" in name else "x"
    assert said("A2", **{x: "bf16"}).answer is Answer.SUPPORTED
    assert said("A2", **{x: "int8[4,4]"}).code == 161002
