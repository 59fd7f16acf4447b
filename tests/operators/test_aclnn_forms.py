"""Interfaces that are forms of others: gradients of two tasks, dropout by its own words."""

from __future__ import annotations

import numpy as np
import pytest

from npusim import Device

NPU = Device("Ascend910B3")
RNG = np.random.default_rng(3)
X, DY = (RNG.standard_normal((6, 40)).astype(np.float32) for _ in range(2))
GAIN = RNG.standard_normal(40).astype(np.float32)


@pytest.mark.parametrize(
    ("chip", "tasks"),
    [
        ("Ascend910B3", ["LayerNormGradV3"]),
        ("Ascend910A", ["LayerNormXBackpropV3", "LayerNormBetaGammaBackpropV2"]),
    ],
)
def test_gradients_of_a_layer_norm(chip: str, tasks: list[str]) -> None:
    mean = X.mean(1, keepdims=True)
    rstd = 1 / np.sqrt(X.var(1, keepdims=True) + 1e-5)
    called = {"gradOut": DY, "input": X, "normalizedShape": [40], "mean": mean, "rstd": rstd}
    outputs = {name: np.zeros(40, np.float32) for name in ("gradWeightOut", "gradBiasOut")}
    done = Device(chip).run(
        "aclnnLayerNormBackward", **called, weightOptional=GAIN, biasOptional=GAIN,
        outputMask=[True, True, True], gradInputOut=np.zeros_like(X), **outputs,
    )  # fmt: skip
    normed, scaled = (X - mean) * rstd, DY * GAIN
    shared = scaled.mean(1, keepdims=True) + normed * (scaled * normed).mean(1, keepdims=True)
    assert done.outputs is not None
    np.testing.assert_allclose(done.outputs["gradInputOut"], rstd * (scaled - shared), atol=1e-5)
    np.testing.assert_allclose(outputs["gradWeightOut"], (DY * normed).sum(0), atol=1e-5)
    np.testing.assert_allclose(outputs["gradBiasOut"], DY.sum(0), atol=1e-5)
    assert [task.name for task in done.tasks if task.name != "MemSet"] == tasks


def test_only_the_gradient_of_the_input() -> None:
    ones = np.ones((6, 1), np.float32)
    done = Device("Ascend910A").run(
        "aclnnLayerNormBackward", gradOut=DY, input=X, normalizedShape=[40], mean=ones, rstd=ones,
        weightOptional=GAIN, biasOptional=None, outputMask=[True, False, False],
        gradInputOut=np.zeros_like(X), gradWeightOut=None, gradBiasOut=None,
    )  # fmt: skip
    assert [task.name for task in done.tasks] == ["LayerNormXBackpropV3"]


def test_dropout_and_its_gradient() -> None:
    mask = np.packbits(RNG.random(256) > 0.4, bitorder="little")
    kept = np.unpackbits(mask, bitorder="little")[: X.size].reshape(X.shape).astype(bool)
    (got,) = NPU.run("aclnnDropoutDoMask", self=X, mask=mask, prob=0.25).outputs.values()
    np.testing.assert_allclose(got, np.where(kept, X / 0.75, 0), rtol=1e-5)
    (got,) = NPU.run("aclnnDropoutBackward", gradOutput=X, mask=mask, scale=2.0).outputs.values()
    np.testing.assert_allclose(got, np.where(kept, X * 2, 0), rtol=1e-5)
