"""Operators that a graph compiler fuses: named after their parts, computed one after the other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.operators.registry import band_class, definition
from npusim.values.errors import KernelError, UnknownNameError
from support.tasks import cycles, like, run

_UNARY = {
    "Abs": np.abs,
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": np.negative,
    "Square": np.square,
    "Tanh": np.tanh,
}
_BINARY = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Maximum": np.maximum}


def _numbers(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float16)


@settings(max_examples=25, deadline=None)
@given(
    parts=st.lists(st.sampled_from([*_UNARY, *_BINARY]), min_size=2, max_size=5),
    shape=st.sampled_from([(1,), (37,), (3, 101), (2, 7, 7, 16)]),
    chip=st.sampled_from(["Ascend910A", "Ascend310P3", "Ascend910B3"]),
)
def test_chains_compute_part_after_part(
    parts: list[str], shape: tuple[int, ...], chip: str
) -> None:
    """Every part takes the result of the one before, then the next of the inputs."""
    inputs = [_numbers(shape, 0)]
    wanted = inputs[0].astype(np.float64)
    for number, part in enumerate(parts, 1):
        if part in _UNARY:
            wanted = _UNARY[part](wanted)
        else:
            inputs.append(_numbers(shape, number))
            wanted = _BINARY[part](wanted, inputs[-1].astype(np.float64))
    (found,) = run(chip, f"FusionOp_{'_'.join(parts)}", inputs, [like(inputs[0])])
    error = np.abs(found.astype(np.float64) - wanted)
    assert np.all(error <= 0.02 * np.maximum(1, np.abs(wanted)) * len(parts))


@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_what_follows_a_product_takes_tiles_numbers_and_attributes(chip: str) -> None:
    a, b, tile = _numbers((37, 48), 1), _numbers((48, 32), 2), _numbers((37, 32), 3)
    bias = _numbers((32,), 4)
    parts = (("Muls", {"value": 0.5}), ("Add", {}), ("LeakyRelu", {"negative_slope": 0.1}))
    (found,) = run(
        chip, "FusionOp_MatMulV2_Muls_Add_LeakyRelu", [a, b, bias, tile], [like(tile)], parts=parts
    )
    wide = [each.astype(np.float64) for each in (a, b, bias, tile)]
    wanted = (wide[0] @ wide[1] + wide[2]) * 0.5 + wide[3]
    np.testing.assert_allclose(found, np.where(wanted > 0, wanted, 0.1 * wanted), 0.01, 0.02)


def test_one_kernel_is_faster_than_its_parts() -> None:
    x, y = _numbers((512, 1024), 5), _numbers((512, 1024), 6)
    whole = cycles("Ascend310P3", "FusionOp_Add_Relu", [x, y], [like(x)])
    parts = cycles("Ascend310P3", "Add", [x, y], [like(x)])
    parts += cycles("Ascend310P3", "Relu", [x], [like(x)])
    assert whole < 0.8 * parts


def test_a_fused_operator_is_estimated_as_its_first_part() -> None:
    assert band_class("FusionOp_MatMulV2_Add") == band_class("MatMulV2")
    assert definition("FusionOp_Mul_Add").band_class == definition("Mul").band_class


@pytest.mark.parametrize(
    "name", ["FusionOp_", "FusionOp_Mul", "FusionOp_Mul_Nonsense", "FusionOp_X_Add"]
)
def test_a_name_without_known_parts_is_unknown(name: str) -> None:
    with pytest.raises(UnknownNameError, match="operator type"):
        definition(name)


def test_operands_must_be_as_many_as_the_parts_take() -> None:
    x = _numbers((16,), 0)
    with pytest.raises(KernelError, match="1 tensors where 3"):
        run("Ascend910A", "FusionOp_Add_Mul", [x], [like(x)])
    with pytest.raises(KernelError, match="too many"):
        run("Ascend910A", "FusionOp_Add_Relu", [x, x, x], [like(x)])
    with pytest.raises(KernelError, match="isn't elementwise"):
        run("Ascend910A", "FusionOp_Add_ReduceSum", [x, x], [like(x)])
