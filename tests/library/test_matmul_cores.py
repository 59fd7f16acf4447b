"""How products are cut for cores, as the library's host does it."""

from __future__ import annotations

import random

import pytest

from npusim.hardware import load_profile
from npusim.library.matmul_cores import Cut, cut_for_cores
from npusim.library.matmul_product import HostProduct, Room, aligned_part

ROOM = Room.of(load_profile("Ascend910B3"))


def cut(m: int, n: int, k: int, cores: int, **more: object) -> Cut:
    product = HostProduct(m, n, k, (m, n, k), 16, 16, 32)
    return cut_for_cores(HostProduct(**(vars(product) | more)), cores, ROOM)  # type: ignore[arg-type]


# Worked out by hand from the public host code: the way tried last wins while rows stay short, long
# rows win over more cores, and as few groups of fractals as possible win over all.
KNOWN: dict[tuple[int, ...], tuple[int, int, int, int]] = {
    (512, 128, 128, 2): (512, 64, 128, 2),  # a sample's kernel begins at its core times 64 columns
    (640, 1024, 512, 48): (64, 256, 512, 40),
    (16, 16, 64, 20): (16, 16, 64, 1),
}


@pytest.mark.parametrize("shape", KNOWN)
def test_known_products_are_cut_as_on_the_host(shape: tuple[int, int, int, int]) -> None:
    found = cut(*shape)
    assert (found.single_m, found.single_n, found.single_k, found.used) == KNOWN[shape]
    assert found.blocks is None


def test_a_shape_that_was_not_set_is_cut_by_its_blocks() -> None:
    """24 cores, 4096 x 5120: three parts of columns, whole lines of 256 bytes, leave 1,792 each."""
    found = cut(4096, 5120, 4096, 24, has_shape=False)
    assert (found.single_m, found.single_n, found.used) == (512, 1792, 24)
    assert (found.blocks, found.steps) == ((128, 256, 64), (4, 4))
    set_blocks = cut(4096, 5120, 4096, 24, has_shape=False, fixed=(64, 128))
    assert set_blocks.blocks == (64, 128, 64)
    few_rows = cut(64, 128 * 24, 4096, 24, has_shape=False)
    assert (few_rows.single_m, few_rows.single_n, few_rows.used) == (64, 128, 24)


@pytest.mark.parametrize("has_shape", [True, False])
@pytest.mark.parametrize("splits_k", [True, False])
def test_parts_cover_the_product_on_the_cores_there_are(has_shape: bool, splits_k: bool) -> None:
    drawn = random.Random(7)  # noqa: S311 - shapes
    for _ in range(150):
        m, n, k = (drawn.choice((drawn.randint(1, 400), 16 * drawn.randint(1, 600))) for _ in "mnk")
        cores = drawn.choice((1, 2, 7, 20, 24, 40, 48))
        found = cut(
            m, n, k, cores, has_shape=has_shape, splits_k=splits_k,
            turned_a=drawn.random() < 0.5, turned_b=drawn.random() < 0.5,
        )  # fmt: skip
        assert 1 <= found.used <= cores
        parts = [
            -(-whole // part)
            for whole, part in zip(
                (m, n, k), (found.single_m, found.single_n, found.single_k), strict=True
            )
        ]
        assert parts[0] * parts[1] * parts[2] <= found.used
        assert parts[2] == 1 or splits_k


def test_a_part_is_rounded_up_only_where_as_many_parts_stay() -> None:
    assert aligned_part(1000, 3, 128, wanted=True) == (True, 384)
    assert aligned_part(1000, 3, 256, wanted=True) == (False, 334)
    assert aligned_part(1000, 3, 128, wanted=False) == (True, 334)
    assert aligned_part(1000, 1, 128, wanted=True) == (True, 1000)
