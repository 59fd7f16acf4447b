"""Products with what is added to them against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.values.errors import AclnnError

NPU = Device("Ascend910B3")


def of(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers around zero."""
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


A, B, C, V, W = of(3, 17), of(17, 5), of(3, 5), of(17), of(3)
A3, B3, C3 = of(2, 3, 17), of(2, 17, 5), of(2, 3, 5)
SCALED = {"beta": 0.5, "alpha": 2.0}
KEPT = {"cubeMathType": 0}

CALLS: list[tuple[str, dict[str, Any], np.ndarray[Any, Any]]] = [
    ("aclnnMv", {"self": A, "vec": V} | KEPT, A @ V),
    ("aclnnAddmv", {"self": W, "mat": A, "vec": V} | SCALED | KEPT, 0.5 * W + 2 * (A @ V)),
    (
        "aclnnAddbmm",
        {"self": C, "batch1": A3, "batch2": B3} | SCALED | KEPT,
        0.5 * C + 2 * (A3 @ B3).sum(0),
    ),
    (
        "aclnnInplaceBaddbmm",
        {"selfRef": C3, "batch1": A3, "batch2": B3} | SCALED | KEPT,
        0.5 * C3 + 2 * (A3 @ B3),
    ),
    (
        "aclnnInplaceAddmm",
        {"selfRef": C, "mat1": A, "mat2": B} | SCALED | KEPT,
        0.5 * C + 2 * (A @ B),
    ),
    (
        "aclnnBaddbmm",
        {"self": C3, "batch1": A3, "batch2": B3, "beta": 0, "alpha": 1} | KEPT,
        A3 @ B3,
    ),
    (
        "aclnnAddr",
        {"self": A, "vec1": W, "vec2": V, "betaOptional": 0.5, "alphaOptional": 2},
        0.5 * A + 2 * np.outer(W, V),
    ),
    ("aclnnDot", {"self": V, "tensor": V}, np.asarray(V @ V)),
    ("aclnnGer", {"self": W, "vec2": V}, np.outer(W, V)),
    (
        "aclnnGemm",
        {"A": np.ascontiguousarray(A.T), "B": B, "C": C, "transA": 1, "transB": 0} | SCALED | KEPT,
        0.5 * C + 2 * (A @ B),
    ),
]


@pytest.mark.parametrize(("name", "arguments", "want"), CALLS, ids=[each[0] for each in CALLS])
def test_products_are_those_of_numpy(
    name: str, arguments: dict[str, Any], want: np.ndarray[Any, Any]
) -> None:
    called = {
        key: each.copy() if isinstance(each, np.ndarray) else each
        for key, each in arguments.items()
    }
    (got,) = NPU.run(name, **called).outputs.values()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_operands_that_dont_fit_are_refused() -> None:
    with pytest.raises(AclnnError, match="161002"):
        NPU.run("aclnnMv", self=A, vec=W, cubeMathType=0)
