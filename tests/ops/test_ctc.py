"""CTC losses and their gradients against PyTorch, the codes of wrong calls, and physics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device

torch = pytest.importorskip("torch")
Array = np.ndarray[Any, Any]
A2 = Device("Ascend910B3")
FORWARD, BACKWARD = "aclnnCtcLoss", "aclnnCtcLossBackward"


def call(steps: int, lengths: list[int], labels: list[int], classes: int, blank: int = 0,
    kind: Any = np.float32, *, flat: bool = False, seed: int = 0) -> dict[str, Any]:  # fmt: skip
    """Sequences of labels beside the blank, repeated ones among them."""
    dice, batch = np.random.default_rng(seed), len(lengths)
    scores = dice.standard_normal((steps, batch, classes))
    probs = scores - np.logaddexp.reduce(scores, -1, keepdims=True)
    targets = (dice.integers(1, classes, (batch, max([*labels, 1]))) + blank) % classes
    parts = [row[:count] for row, count in zip(targets, labels, strict=True)]
    return {"logProbs": probs.astype(kind), "inputLengths": lengths, "blank": blank,
            "targets": np.concatenate(parts) if flat else targets, "targetlengths": labels,
            "zeroInfinity": False}  # fmt: skip


def expected(asked: dict[str, Any], grad: Array) -> tuple[Array, Array]:
    probs = torch.tensor(asked["logProbs"].astype(np.float64), requires_grad=True)
    found = torch.nn.functional.ctc_loss(
        probs, torch.tensor(asked["targets"]), torch.tensor(asked["inputLengths"]),
        torch.tensor(asked["targetlengths"]), asked["blank"], "none", asked["zeroInfinity"],
    )  # fmt: skip
    found.backward(torch.tensor(grad, dtype=torch.float64))
    return found.detach().numpy(), probs.grad.numpy()


def backward(asked: dict[str, Any], done: dict[str, Array], grad: Array) -> dict[str, Any]:
    more = {name: each for name, each in asked.items() if name != "targetlengths"}
    kept = {"negLogLikelihood": done["negLogLikelihoodOut"], "logAlpha": done["logAlphaOut"]}
    return {**more, **kept, "gradOut": grad, "targetLengths": asked["targetlengths"]}


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_losses_and_gradients_are_those_of_torch(data: st.DataObject) -> None:
    batch, steps = data.draw(st.sampled_from([1, 3, 50])), data.draw(st.integers(1, 12))
    lengths = data.draw(st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
    labels = data.draw(st.lists(st.integers(0, 5), min_size=batch, max_size=batch))
    labels[0] = max(1, labels[0])
    kind = data.draw(st.sampled_from([np.float32, np.float16]))
    classes = data.draw(st.sampled_from([3, 17, 5000]))
    asked = call(steps, lengths, labels, classes, data.draw(st.sampled_from([0, classes - 1])),
        kind, flat=data.draw(st.booleans()))  # fmt: skip
    asked["zeroInfinity"] = data.draw(st.booleans())
    grad = np.random.default_rng(1).uniform(0.5, 2, batch).astype(kind)
    done = A2.run(FORWARD, **asked).outputs
    assert done is not None
    loss, gradient = expected(asked, grad)
    limit = 1e-4 if kind is np.float32 else 3e-2
    np.testing.assert_allclose(done["negLogLikelihoodOut"], loss, rtol=limit, atol=limit)
    found = A2.run(BACKWARD, **backward(asked, done, grad)).outputs
    assert found is not None
    reached = np.isfinite(loss)
    got, want = found["out"][:, reached].astype(float), gradient[:, reached]
    np.testing.assert_allclose(got, want, rtol=limit, atol=2 * limit)


def test_a_step_more_takes_longer_and_sequences_share_the_cores() -> None:
    def time(api: str, steps: int, batch: int, classes: int = 50) -> float:
        asked = call(steps, [steps] * batch, [5] * batch, classes)
        if api == BACKWARD:
            zeros = {"negLogLikelihoodOut": np.zeros(batch, np.float32),
                     "logAlphaOut": np.zeros((batch, steps, 16), np.float32)}  # fmt: skip
            asked = backward(asked, zeros, np.ones(batch, np.float32))
        return A2.estimate(api, **asked).duration_us

    for api in (FORWARD, BACKWARD):
        assert time(api, 40, 3) > 1.8 * time(api, 20, 3)
        assert time(api, 20, 40) < 1.3 * time(api, 20, 1)
        assert time(api, 20, 41) > 1.5 * time(api, 20, 40)
        assert time(api, 20, 3, 60_000) > 2 * time(api, 20, 3)
    assert time(BACKWARD, 20, 3) > time(FORWARD, 20, 3)


def test_codes() -> None:
    asked = call(6, [6, 4], [2, 1], 9)
    assert A2.check(FORWARD, **asked).code == 0
    for name, wrong in (
        ("blank", 9), ("blank", -1), ("inputLengths", [6]), ("inputLengths", [7, 4]),
        ("targetlengths", [2]), ("targetlengths", [3, 1]), ("targets", asked["targets"][:1]),
        ("negLogLikelihoodOut", np.zeros(3, np.float32)),
        ("logAlphaOut", np.zeros((2, 6, 5), np.float32)),
    ):  # fmt: skip
        assert A2.check(FORWARD, **{**asked, name: wrong}).code == 161002, name
    alone = {**asked, "logProbs": asked["logProbs"][:, 0], "inputLengths": [6],
        "targetlengths": [2], "targets": asked["targets"][0]}  # fmt: skip
    done = A2.run(FORWARD, **alone).outputs
    assert done is not None
    assert done["negLogLikelihoodOut"].shape == ()
    for chip in ("Ascend910A", "Ascend310P3"):
        refused = Device(chip).check(FORWARD, **asked)
        assert refused.verdict == "unknown"
