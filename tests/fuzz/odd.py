"""Odd values: what nobody means, and what somebody tries."""

from __future__ import annotations

import random
from typing import Any

TEXTS = (
    "", " ", "null", "nan", "-1", "0", "²", "1e999", "0x10", "a" * 300, "../../etc/passwd", "/dev/zero",
    "=1+1", "<script>", "\x1b[2J", "{B}", "{", "}", "{1/0}", "{9**9}", "fp16[4]", "fp16[", "fp16[-1]",
    "fp16[9223372036854775807]", "[" * 50, "*", "&", "é", "\u202e", "\ud800", "a\0b", "all", "910b3",
    "1,2,3", "true", "2001-99-99", "1:30", "%s", "\\", '"', "'", "\n",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, 3, 7, 64, 255, 1000, 65_536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
    10**30, -(2**63), 0.0, -0.0, 0.5, 1e-300, 1e-40, 1e300, float("inf"), float("-inf"), float("nan"), 9e15,
)  # fmt: skip
SCALARS = (*TEXTS, *NUMBERS, None, True, False)
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 64, 100, 128, 255, 1000, 4096)
HUGE = (2**20, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 10**25)
KINDS = (
    "fp16", "fp32", "bf16", "int32", "int64", "bool", "int8", "uint8", "double", "complex64", "fp8", "x", "",
)  # fmt: skip
FORMATS = ("", "", "", "", ":NCHW", ":ND", ":NHWC", ":FRACTAL_NZ", ":NCL", ":X", ":", ":29")
CHIPS = (
    "Ascend910A", "Ascend910B3", "Ascend310P3", "Ascend910B2", "Ascend910_9391", "910b3", "310p3", "all",
    "Atlas 800T A2", "A2", "910b", "x", "", "Ascend910B3,x",
)  # fmt: skip


def scalar(dice: random.Random) -> Any:
    """Any odd value that isn't made of others."""
    return dice.choice(SCALARS)


def value(dice: random.Random, depth: int = 3) -> Any:
    """Any odd value."""
    kind = dice.randrange(8)
    if kind < 6 or not depth:
        return scalar(dice)
    size = dice.choice((0, 1, 2, 5))
    if kind == 6:
        return [value(dice, depth - 1) for _ in range(size)]
    return {str(scalar(dice)): value(dice, depth - 1) for _ in range(size)}


def tensor(dice: random.Random) -> str:
    """The spelling of a tensor, mostly a small one."""
    rank = dice.choice((0, 1, 1, 2, 2, 2, 3, 4, 4, 5, 8, 9))
    sizes = [dice.choice(SIZES[:12]) for _ in range(rank)]
    if sizes and dice.random() < 0.06:
        sizes[dice.randrange(rank)] = dice.choice(HUGE)
    kind = dice.choice(KINDS[:5] if dice.random() < 0.8 else KINDS)
    return f"{kind}[{','.join(map(str, sizes))}]{dice.choice(FORMATS)}"


def chip(dice: random.Random) -> str:
    """A chip, mostly one that exists."""
    return dice.choice(CHIPS[:5] if dice.random() < 0.8 else CHIPS)


def changed(dice: random.Random, content: Any) -> Any:
    """A nested value with one of its parts changed, dropped, doubled or replaced."""
    if not isinstance(content, dict | list) or not content or dice.random() < 0.1:
        return value(dice)
    if isinstance(content, dict):
        key = dice.choice(list(content))
        copy: Any = dict(content)
        act = dice.randrange(12)
        if act == 0:
            del copy[key]
        elif act == 1:
            copy[str(scalar(dice))] = value(dice)
        else:
            copy[key] = changed(dice, content[key])
        return copy
    place = dice.randrange(len(content))
    copy = list(content)
    act = dice.randrange(12)
    if act == 0:
        del copy[place]
    elif act == 1:
        copy.insert(place, content[place])
    else:
        copy[place] = changed(dice, content[place])
    return copy


def bent(dice: random.Random, data: bytes) -> bytes:
    """Bytes with some of them changed, dropped, doubled or cut off."""
    copy = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(len(copy) + 1)
        act = dice.randrange(7)
        if act == 0:
            del copy[place:]
        elif act == 1:
            del copy[place : place + dice.choice((1, 4, 50))]
        elif act == 2:
            copy[place:place] = bytes(dice.randrange(256) for _ in range(dice.choice((1, 4))))
        elif act == 3:
            copy[place:place] = copy[place : place + dice.choice((1, 30, 300))]
        elif act == 4:
            copy[place:place] = str(scalar(dice)).encode("utf-8", "surrogatepass")
        elif copy:
            copy[place % len(copy)] = dice.randrange(256)
    return bytes(copy)
