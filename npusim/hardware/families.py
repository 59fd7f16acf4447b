"""The product families that operator pages speak of, and how we name them in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, DType

# `Profile.family` -> (what its products are called, the chips in them), in the order of the pages.
# Source: product table of the aclnn pages; Ascend/pytorch torch_npu/csrc/core/npu/NpuVariables.h.
_FAMILIES: dict[str, tuple[str, str]] = {
    "910": ("Atlas training", "Ascend910A"),
    "A2": ("Atlas A2", "Ascend910B1..B4"),
    "310P": ("Atlas inference", "Ascend310P1, Ascend310P3"),
    "A3": ("Atlas A3", "Ascend910_93xx"),
    "310B": ("Atlas 200I/500 A2", "Ascend310B1..B4"),
    "950": ("Ascend 950", "Ascend950PR, Ascend950DT"),
}
FAMILIES: tuple[str, ...] = tuple(_FAMILIES)

# A2 and what came after it: where the APIs branch to other kernels, and where BFLOAT16 begins.
BF16_FAMILIES: tuple[str, ...] = ("A2", "A3", "950")

# The floating dtypes that most pages list.
FLOAT_KINDS: Mapping[str, tuple[DType, ...]] = {
    **dict.fromkeys(FAMILIES, (FLOAT, FLOAT16)),
    **dict.fromkeys(BF16_FAMILIES, (FLOAT, FLOAT16, BFLOAT16)),
}


def everywhere(*dtypes: DType) -> Mapping[str, tuple[DType, ...]]:
    """A parameter's dtypes when every family takes the same ones."""
    return dict.fromkeys(FAMILIES, dtypes)


def plural(family: str) -> str:
    """``Atlas A2 products``."""
    return f"{_FAMILIES[family][0]} products" if family in _FAMILIES else f"{family} products"


def one_of(families: Iterable[str]) -> str:
    """``an Atlas training product (Ascend910A) or Atlas A2 product (Ascend910B1..B4) or later``."""
    wanted = list(families)
    later = set(BF16_FAMILIES) <= set(wanted)
    if later:  # A2 and its successors, in few words and last
        wanted = [family for family in wanted if family not in BF16_FAMILIES] + ["A2"]
    named = [_FAMILIES.get(family, (family, "")) for family in wanted]
    phrases = [f"{name} product ({chips})" if chips else f"{name} product" for name, chips in named]
    return f"an {either(phrases)} or later" if later else f"an {either(phrases)}"


def either(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return _joined(words, "or")


def every(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return _joined(words, "and")


def _joined(words: Sequence[str], by: str) -> str:
    *head, last = words
    return f"{', '.join(head)} {by} {last}" if head else last
