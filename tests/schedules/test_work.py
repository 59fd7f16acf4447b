"""The work of operators without a kernel, against what their definitions say."""

from __future__ import annotations

import pytest
from rooflines import TABLE, as_yaml, read, show, spreads

from npusim.hardware import load_profile
from npusim.hardware.reading import data_folder
from npusim.hardware.residuals import rooflines
from npusim.operators.tasks import TaskSpec
from npusim.validation.roofline import roofline_us
from npusim.validation.work import Work, work_of
from npusim.values.tensors import TensorSpec, parse_tensor


def task(op: str, inputs: str, outputs: str = "", **attributes: object) -> TaskSpec:
    def specs(text: str) -> tuple[TensorSpec, ...]:
        return tuple(map(parse_tensor, text.split()))

    return TaskSpec(op, specs(inputs), specs(outputs), attributes)


SQUARE = "fp16[2,8,1024,64] fp16[2,8,1024,64] fp16[2,8,1024,64]"
FORWARD = 2 * 2 * 8 * 1024 * 1024 * (64 + 64)


@pytest.mark.parametrize(
    ("asked", "family", "cube"),
    [
        (task("FlashAttentionScore", SQUARE), "attention", FORWARD),
        (task("FlashAttentionScore", SQUARE, is_causal=True), "attention", FORWARD * 1025 / 2048),
        (task("FlashAttentionScore", SQUARE, sparseMode=3), "attention", FORWARD * 1025 / 2048),
        (task("FlashAttentionScore", SQUARE, sparseMode=4, preTokens=100, nextTokens=28),
         "attention", FORWARD / 8),
        (task("FlashAttentionScoreGrad", SQUARE), "attention", 2.5 * FORWARD),
        # grouped heads: the queries count, not the keys' heads
        (task("GQA", "fp16[2,1024,8,64] fp16[2,1024,2,64] fp16[2,1024,2,64]"), "attention",
         FORWARD),
        (task("IncreFlashAttention", "fp16[4,1,32,128] fp16[4,2048,8,128] fp16[4,2048,8,128]"),
         "attention", 2 * 4 * 32 * 2048 * 256),
        (task("aclnnFlashAttentionScore", "fp16[1024,2,512] fp16[1024,2,512] fp16[1024,2,512]",
              inputLayout="SBH", headNum=8), "attention", FORWARD),
        (task("SparseFlashAttention",
              "fp16[1,128,128,576] fp16[1,2048,1,576] fp16[1,2048,1,512] int32[1,128,1,512]"),
         "attention", 2 * 128 * 128 * 512 * (576 + 512)),
        (task("Conv2D", "fp16[2,64,56,56] fp16[128,64,3,3]", "fp16[2,128,56,56]"), "convolution",
         2 * 2 * 128 * 56 * 56 * 64 * 9),
        # three channels fill a fractal of sixteen
        (task("Conv2D", "fp16[2,3,56,56] fp16[128,3,3,3]", "fp16[2,128,56,56]"), "convolution",
         2 * 2 * 128 * 56 * 56 * 16 * 9),
        (task("Conv2D", "fp16[2,64,56,56] fp16[128,64,3,3]", stride=[2, 2]), "convolution",
         2 * 2 * 128 * 28 * 28 * 64 * 9),
        (task("Conv2DBackpropInput", "fp16[128,64,3,3] fp16[2,128,56,56]", "fp16[2,64,56,56]"),
         "convolution to features", 2 * 2 * 64 * 56 * 56 * 128 * 9),
        # a stride of two puts zeros between the elements of the gradient
        (task("Conv2DBackpropInput", "fp16[128,64,3,3] fp16[2,128,28,28]", "fp16[2,64,56,56]"),
         "convolution to features", 2 * 2 * 64 * 56 * 56 * 128 * 9),
        (task("Conv2DBackpropFilter", "fp16[2,64,56,56] fp16[2,128,56,56]", "fp32[128,64,3,3]"),
         "convolution to weights", 2 * 2 * 128 * 56 * 56 * 64 * 9),
        (task("DepthwiseConv2D", "fp16[2,64,56,56] fp16[64,1,3,3]", "fp16[2,64,56,56]"),
         "depthwise convolution", 2 * 2 * 64 * 56 * 56 * 16 * 9),
        (task("QuantBatchMatmulV3", "int8[128,512] int8[512,256]", "fp16[128,256]"),
         "quantised matmul", 2 * 128 * 512 * 256),
        (task("BatchMatMulV9", "fp16[8,128,512] fp16[8,512,256]", "fp16[8,128,256]"), "matmul",
         2 * 8 * 128 * 512 * 256),
        (task("WeightQuantBatchMatmulV2", "fp16[16,4096] int8[4096,11008]"), "quantised matmul",
         2 * 16 * 4096 * 11008),
        (task("GroupedMatmul", "fp16[512,1024] fp16[4,1024,256]"), "grouped matmul",
         2 * 512 * 1024 * 256),
        (task("GroupedMatmul", "fp16[128,64] fp16[384,64] fp16[64,32] fp16[64,32]"),
         "grouped matmul", 2 * 512 * 64 * 32),
    ],
)  # fmt: skip
def test_products_are_counted(asked: TaskSpec, family: str, cube: float) -> None:
    found, work = work_of(asked)
    assert found == family
    assert work.cube == pytest.approx(cube)


@pytest.mark.parametrize(
    ("plain", "fractal"),
    [
        (task("Conv2D", "fp16[2,64,56,56] fp16[128,64,3,3]", "fp16[2,128,56,56]"),
         task("Conv2D", "fp16[2,4,56,56,16]:NC1HWC0 fp16[36,8,16,16]:FRACTAL_Z",
              "fp16[2,8,56,56,16]:NC1HWC0")),
        (task("Conv2DBackpropInput", "fp16[128,64,3,3] fp16[2,128,56,56]", "fp16[2,64,56,56]"),
         task("Conv2DBackpropInput",
              "fp16[2,8,56,56,16]:NC1HWC0 fp16[36,8,16,16]:FRACTAL_Z",
              "fp16[2,4,56,56,16]:NC1HWC0")),
        (task("Conv2DBackpropFilter", "fp16[2,64,56,56] fp16[2,128,56,56]", "fp32[128,64,3,3]"),
         task("Conv2DBackpropFilter",
              "fp16[2,8,56,56,16]:NC1HWC0 fp16[2,4,56,56,16]:NC1HWC0",
              "fp32[36,8,16,16]:FRACTAL_Z")),
    ],
)  # fmt: skip
def test_storage_formats_change_no_work(plain: TaskSpec, fractal: TaskSpec) -> None:
    assert work_of(plain)[1].cube == work_of(fractal)[1].cube


@pytest.mark.parametrize(
    ("asked", "work"),
    [
        (task("MaxPoolV3", "fp16[2,64,56,56]", "fp16[2,64,28,28]", ksize=[3, 3]),
         Work(lanes=2 * 64 * 28 * 28 * 9)),
        (task("SortWithIndex", "fp32[16,1024]", "fp32[16,1024]"), Work(lanes=16 * 1024 * 10)),
        (task("Cummin", "fp32[3,4000]", dim=-1), Work(lanes=12_000, steps=4000)),
        (task("DynamicLSTM", "fp16[10,4,32] fp16[128,32] fp16[128,32]"),
         Work(cube=2 * 40 * 8192, lanes=4 * 40 * 32, steps=10)),
        (task("GridSampler3D", "fp16[2,32,8,8,8] fp16[2,8,8,8,3]"), Work(lanes=32 * 1024 * 8)),
        (task("Unheard", "fp16[64]", "fp16[64]"), Work(lanes=64)),
        (task("FlashAttentionScore", "fp16[64]"), Work(lanes=64)),  # no call of the operator
    ],
)  # fmt: skip
def test_windows_orders_and_chains_are_counted(asked: TaskSpec, work: Work) -> None:
    assert work_of(asked)[1] == work


@pytest.mark.parametrize(
    ("asked", "nbytes"),
    [
        (task("Index", "fp32[4096,151936] int64[2] int64[1] int64[4096] int64[4096]",
              "fp32[4096]"), 2 * 4096 * 8 + 24 + 2 * 4096 * 4),
        (task("GatherV3", "fp32[100000,64] int64[10]", "fp32[10,64]"), 80 + 2 * 2560),
        (task("IndexPutWithSort", "fp32[100000,64] int32[10] int32[10] fp32[10,64]",
              "fp32[100000,64]"), 2 * (80 + 2560)),
        (task("InplaceScatterSub", "fp32[100000,64] int64[10] fp32[10,64]"), 2 * (80 + 2560)),
        (task("ScatterNdMax", "fp32[100000,64] int64[10,1] fp32[10,64]", "fp32[100000,64]"),
         2 * (80 + 2560)),
        # what isn't in place makes a result of its own
        (task("ScatterElements", "fp32[1000,64] int64[10,64] fp32[10,64]", "fp32[1000,64]"),
         None),
        (task("MaskedScatter", "fp32[1000,64] bool[1000,64] fp32[1000,64]", "fp32[1000,64]"),
         None),
    ],
)  # fmt: skip
def test_indexing_is_counted_by_what_it_touches(asked: TaskSpec, nbytes: float | None) -> None:
    assert work_of(asked)[1].nbytes == nbytes


def test_a_roofline_is_no_faster_than_the_peaks() -> None:
    chip = load_profile("Ascend910B2")
    asked = task("FlashAttentionScore", SQUARE, SQUARE.split(maxsplit=1)[0])
    time_us = roofline_us(chip, asked)
    assert time_us > FORWARD / (chip.cube_peak_tops("float16") * 1e6)
    assert time_us > 4 * asked.inputs[0].nbytes / (chip.memory.hbm_nominal_gbps * 1e3)  # type: ignore[union-attr]
    assert roofline_us(chip, task("FlashAttentionScoreGrad", SQUARE)) > time_us


def test_an_unknown_family_has_the_widest_of_usual_bands() -> None:
    known = rooflines()
    everything = known.of("unheard of")
    for family in ("attention", "convolution", "matmul", "quantised matmul", "normalisation"):
        assert everything.high / everything.low > known.of(family).high / known.of(family).low or (
            known.of(family) is everything
        )


def test_the_file_of_bands_is_the_one_that_its_script_makes() -> None:
    made = as_yaml(read(TABLE))
    shipped = (data_folder() / "calibration" / "rooflines.yaml").read_text(encoding="utf-8")
    assert made == shipped


def test_bands_hold_for_families_and_sources_that_they_haven_t_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Measured rows inside their roofline's 80 % band; unseen ones a little less often."""
    rows = read(TABLE)
    stands = spreads(rows)
    show("", rows, lambda _: stands)
    show("", rows, lambda row: spreads(each for each in rows if each.family != row.family))
    show("", rows, lambda row: spreads(each for each in rows if each.source != row.source))
    said = capsys.readouterr().out.splitlines()
    inside = [float(line.split()[-1].rstrip("%")) for line in said if line.startswith("  all")]
    assert len(rows) > 4000
    for share, least in zip(inside, (80, 75, 72), strict=True):
        assert share >= least
