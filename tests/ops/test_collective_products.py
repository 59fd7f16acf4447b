"""Products beside collectives: numbers with equal ranks, their tasks, and published times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.cluster import collective

A2 = "Ascend910B2"
LAST = {"group": "tp", "commTurn": 0, "streamMode": 1}
RNG = np.random.default_rng(0)
X, W, BIAS = (
    RNG.integers(-2, 3, shape).astype(np.float16) for shape in ((32, 48), (48, 40), 40)
)  # fmt: skip
PRODUCT = X.astype(np.float64) @ W.astype(np.float64)


@pytest.mark.parametrize(
    ("api", "more", "want"),
    [
        ("aclnnMatmulAllReduce", {"reduceOp": "sum"}, 8 * PRODUCT),
        ("aclnnMatmulAllReduceV2", {"reduceOp": "sum", "x3": np.ones((32, 40), np.float16)},
         8 * PRODUCT + 1),
        ("aclnnMatmulAllReduceV3", {"reduceOp": "sum", "commMode": "ai_cpu"}, 8 * PRODUCT),
        ("aclnnMatmulReduceScatter", {"reduceOp": "sum", "output": "fp16[8,40]"}, 4 * PRODUCT[:8]),
        ("aclnnAllGatherMatmul", {"gatherIndex": 0, "output": "fp16[64,40]"},
         np.concatenate([PRODUCT] * 2)),
    ],
)  # fmt: skip
def test_ranks_have_equal_tensors(api: str, more: dict[str, Any], want: Any) -> None:
    result = Device(A2).run(api, x1=X, x2=W, **LAST, **more)
    np.testing.assert_allclose(result.outputs["output"], want, rtol=1e-3)
    assert "all ranks have equal tensors, and this one is the first" in result.assumptions


@pytest.mark.parametrize("api", ["MatmulAllReduceAddRmsNorm", "InplaceMatmulAllReduceAddRmsNorm"])
def test_sums_of_products_normalised(api: str) -> None:
    residual = RNG.standard_normal((1, 32, 40)).astype(np.float16)
    gamma, wide = np.linspace(0.5, 2, 40).astype(np.float16), residual.astype(np.float64)
    given = {"x1": X[None], "x2": W, "bias": BIAS, "residual": residual, "gamma": gamma, **LAST}
    result = Device(A2).run(f"aclnn{api}", epsilon=1e-5, reduceOp="sum", **given)
    want = 8 * (PRODUCT + BIAS) + wide
    name = "residual" if api.startswith("Inplace") else "y"
    np.testing.assert_allclose(result.outputs[name], want, rtol=2e-3, atol=0.3)
    normed = want / np.sqrt((want**2).mean(-1, keepdims=True) + 1e-5) * gamma
    np.testing.assert_allclose(result.outputs["normOut"], normed, rtol=5e-3, atol=5e-3)
    names = [task.name for task in result.tasks]
    assert names[:3] == ["MatMulV3", "HcomAllReduce", "AddRmsNorm"]


@pytest.mark.parametrize("api", ["aclnnQuantMatmulAllReduce", "aclnnQuantMatmulAllReduceV2"])
def test_sums_of_products_of_bytes(api: str) -> None:
    x, w = (RNG.integers(-9, 10, shape).astype(np.int8) for shape in ((32, 64), (64, 48)))
    scale = np.linspace(0.01, 0.02, 48).astype(np.float32)
    bits = scale.view(np.uint32).astype(np.uint64)
    result = Device(A2).run(api, x1=x, x2=w, dequantScale=bits, reduceOp="sum", **LAST,
        output="fp16[32,48]")  # fmt: skip
    want = 8 * (x.astype(np.float64) @ w.astype(np.float64)) * scale
    np.testing.assert_allclose(result.outputs["output"], want, rtol=2e-2, atol=0.5)
    assert [task.name for task in result.tasks] == ["QuantBatchMatmulV3", "HcomAllReduce"]


def test_gathered_rows_and_a_turned_matrix() -> None:
    turned = np.ascontiguousarray(W.T).T
    given = {"x1": X, "x2": turned, "bias": BIAS, "gatherIndex": 0, **LAST}
    given |= {"output": "fp16[128,40]", "gatherOut": "fp16[128,48]"}
    result = Device(A2).run("aclnnAllGatherMatmul", **given)
    np.testing.assert_array_equal(result.outputs["gatherOut"], np.tile(X, (4, 1)))
    want = np.tile(PRODUCT + BIAS, (4, 1))
    np.testing.assert_allclose(result.outputs["output"], want, rtol=1e-3)
    assert [task.name for task in result.tasks] == ["HcomAllGather", "MatMulV3"]


def test_a_collective_takes_what_it_takes_alone() -> None:
    x, w = TensorSpec((4096, 4096), "bf16"), TensorSpec((4096, 8192), "bf16")
    times = {}
    for ranks in (2, 8):
        result = Device(A2).estimate("aclnnMatmulAllReduce", x1=x, x2=w, reduceOp="sum", **LAST,
                                     assume={"ranks": ranks})  # fmt: skip
        *_, last = result.tasks
        alone = collective("allreduce", A2, cards=ranks, nbytes=4096 * 8192 * 2)
        assert last.duration_us == pytest.approx(alone.closed_form_us, rel=0.02)
        times[ranks] = last.duration_us
        assert any(f"{ranks} ranks" in each for each in result.assumptions)
    assert times[2] != times[8]


@pytest.mark.parametrize(
    ("api", "shapes", "rows", "measured_us"),
    [
        ("aclnnMatmulAllReduce", ((5864, 2732), (2732, 8192)), 5864, 2030.7),
        ("aclnnMatmulAllReduce", ((4096, 1408), (1408, 11264)), 4096, 1828.2),
        ("aclnnMatmulReduceScatter", ((4096, 6144), (6144, 12288)), 512, 2962.5),
        ("aclnnMatmulReduceScatter", ((16384, 1792), (1792, 5120)), 2048, 2108.1),
        ("aclnnAllGatherMatmul", ((2048, 5120), (5120, 640)), 16384, 1480.9),
        ("aclnnAllGatherMatmul", ((2048, 4096), (4096, 4096)), 16384, 2244.9),
    ],
)
def test_published_times_on_eight_chips(
    api: str, shapes: tuple[tuple[int, int], ...], rows: int, measured_us: float
) -> None:
    """Source: hicann/cann-bench, device times of eight Ascend910B2."""
    x1, x2 = (TensorSpec(each, "fp16") for each in shapes)
    more = {"gatherIndex": 0} if "Gather" in api else {"reduceOp": "sum"}
    output = TensorSpec((rows, shapes[1][1]), "fp16")
    result = Device(A2).estimate(api, x1=x1, x2=x2, output=output, **LAST, **more)
    assert result.duration_us == pytest.approx(measured_us, rel=0.25)


def test_what_is_refused() -> None:
    given = {"x1": X, "x2": W, "reduceOp": "sum", **LAST}
    status = Device(A2).check("aclnnMatmulReduceScatter", **given, output="fp16[8,41]")
    assert status.code == 161002
    status = Device(A2).check("HcomAllReduce", x=X, reduction="mean")
    assert status.verdict == "unknown"
    assert "sum, max, min, prod are known" in status.message
