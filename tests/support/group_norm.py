"""Calls of GroupNormBackward, and what they must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from npusim import TensorSpec
from npusim.hardware import Profile, load_profile
from npusim.ops.group_norm_backward.tiling import Tiling, tile
from npusim.values.dtypes import dtype
from support import physics
from support.chips import A2, FAMILY, TRAINING, kinds
from support.inputs import Array, generator, numpy_kind

GROUP_NORM = "aclnnGroupNormBackward"
OFFERED = A2 + TRAINING
Sizes = tuple[int, int, int, int]  # N, C, HxW, group

# What the kernel of Atlas A2 does with a group: one of each.
SIZES: dict[str, Sizes] = {
    "whole groups": (2, 24, 64, 6),
    "refetched": (3, 12, 101, 4),
    "one channel": (1, 4, 12000, 2),
    "channels": (2, 32, 4000, 4),
    "part of a channel": (1, 2, 20011, 1),
    "single elements": (4, 64, 1, 8),
}
TOLERANCE = {"float32": (1e-4, 1e-5), "float16": (2e-3, 2e-3), "bfloat16": (1.6e-2, 1.6e-2)}


def group_norm(
    batch: int,
    channels: int,
    size: int,
    group: int,
    *,
    kind: str = "float32",
    gamma: bool = True,
    mask: tuple[bool, bool, bool] = (True, True, True),
    seed: int = 1,
) -> dict[str, Any]:
    """GroupNormBackward on [N, C, HxW] with the true statistics of the input."""
    random, numpy = generator(seed), numpy_kind(kind)
    x = random.normal(0.5, 1.5, (batch, channels, size)).astype(numpy)
    groups = x.astype(np.float64).reshape(batch, group, -1)
    return {
        "gradOut": random.standard_normal(x.shape).astype(numpy),
        "input": x,
        "mean": groups.mean(axis=2).astype(numpy),
        "rstd": (1 / np.sqrt(groups.var(axis=2) + 1e-5)).astype(numpy),
        "gamma": random.normal(1.0, 0.2, channels).astype(numpy) if gamma else None,
        "N": batch,
        "C": channels,
        "HxW": size,
        "group": group,
        "outputMask": list(mask),
    }


def group_norm_reference(arguments: dict[str, Any]) -> dict[str, Array]:
    """The wanted gradients in float64 from the closed form, shaped as the operator shapes them."""
    batch, channels, size, group = (arguments[name] for name in ("N", "C", "HxW", "group"))
    shape = (batch, group, channels // group, size)
    dy, x = (arguments[name].astype(np.float64).reshape(shape) for name in ("gradOut", "input"))
    mean, rstd = (
        arguments[name].astype(np.float64).reshape(batch, group, 1, 1) for name in ("mean", "rstd")
    )
    given = arguments["gamma"]
    scale = np.ones(channels) if given is None else given.astype(np.float64).ravel()
    gamma = scale.reshape(1, group, -1, 1)
    xh = (x - mean) * rstd
    c1 = (gamma * dy).mean(axis=(2, 3), keepdims=True)
    c2 = (gamma * dy * xh).mean(axis=(2, 3), keepdims=True)
    of_gamma = (channels,) if given is None else given.shape
    everything = {
        "gradInput": (rstd * (gamma * dy - c1 - xh * c2)).reshape(arguments["input"].shape),
        "gradGammaOut": (dy * xh).sum(axis=(0, 3)).reshape(of_gamma),
        "gradBetaOut": dy.sum(axis=(0, 3)).reshape(of_gamma),
    }
    wanted = zip(everything.items(), arguments["outputMask"], strict=True)
    return {name: array for (name, array), flag in wanted if flag}


def shapes(sizes: Sizes, kind: str = "float32") -> dict[str, Any]:
    """A call by its shapes alone."""
    batch, channels, size, group = sizes
    x = TensorSpec((batch, channels, size), kind)
    statistics = TensorSpec((batch, group), kind)
    return {
        "gradOut": x,
        "input": x,
        "mean": statistics,
        "rstd": statistics,
        "gamma": TensorSpec((channels,), kind),
        "N": batch,
        "C": channels,
        "HxW": size,
        "group": group,
        "outputMask": [True, True, True],
    }


@dataclass(frozen=True)
class Chip:
    """A chip of which some things may be smaller; short to print."""

    name: str
    ub_bytes: int = 0
    cores: int = 0

    @property
    def profile(self) -> Profile:
        """The chip's profile."""
        found = load_profile(self.name)
        found = physics.with_ub(found, self.ub_bytes) if self.ub_bytes else found
        return physics.with_cores(found, self.cores) if self.cores else found


@st.composite
def calls(draw: st.DrawFn) -> tuple[Chip, dict[str, Any]]:
    """A call on a chip, now and then with so little room that small groups need every mode."""
    name = draw(st.sampled_from(["Ascend910A", "Ascend910B3", "Ascend910B3", "Ascend910B4"]))
    chip = Chip(name)
    group, depth = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    if FAMILY[name] == "A2":
        room = draw(st.sampled_from([0, 6_000, 12_000, 30_000]))
        chip = Chip(name, room, draw(st.sampled_from([0, 1, 3])))
    arguments = group_norm(
        draw(st.integers(1, 7)),
        group * depth,
        draw(st.one_of(st.integers(1, 40), st.integers(1, 600))),
        group,
        kind=draw(st.sampled_from(kinds(name))),
        gamma=draw(st.booleans()),
        mask=draw(st.tuples(*[st.booleans()] * 3)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    return chip, arguments


def tiling_of(arguments: dict[str, Any], chip: Any = "Ascend910B3") -> Tiling:
    """How the kernel would cut up a call."""
    sizes = (arguments[name] for name in ("N", "C", "HxW", "group"))
    kind = dtype(arguments["gradOut"].dtype)
    return tile(physics.profile_of(chip), *sizes, kind)
