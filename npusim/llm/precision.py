"""Of what dtypes weights, activations and the cache are: bf16, w8a8, w8a16, w4a16, w4a8 ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from npusim.llm.headers import described_beside
from npusim.values.dtypes import BFLOAT16, FLOAT16, INT4, INT8, DType
from npusim.values.errors import FileError, UnknownNameError
from npusim.values.language import say

_FLOATS: Final = {"bf16": BFLOAT16, "fp16": FLOAT16}
SCHEMES: Final[Mapping[str, tuple[DType, bool] | None]] = {
    "bf16": None,
    "fp16": None,
    "w8a8": (INT8, True),
    "w8a16": (INT8, False),
    "w4a16": (INT4, False),
    "w4a8": (INT4, True),
}
"""Weights, and whether activations are int8 too; None where nothing is quantised."""


CONVERTED: Final = ("fp8",)
"""How weights are published that no chip here computes with, and that are converted."""
UNREADABLE: Final = ("mxfp4", "nvfp4")
"""How weights are published that have to be made anew."""


@dataclass(frozen=True)
class Precision:
    """`activations` between operators; `weights` of products; `quantised` where both are int8."""

    name: str
    activations: DType
    weights: DType
    quantised: bool
    cache: DType

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight of a product."""
        return self.weights.itemsize if self.weights is not INT4 else 0.5

    @property
    def widened(self) -> bool:
        """Whether weights are turned into what activations are on their way."""
        return self.weights is not self.activations and not self.quantised


def precision_of(name: str, floating: str, *, int8_cache: bool = False) -> Precision:
    """The precision called `name`, for a model in `floating` (bf16 or fp16).

    A trailing c8 means a cache of int8. Raises UnknownNameError.
    """
    key = name.casefold().replace("-", "")
    if key.endswith("c8"):
        key, int8_cache = key[:-2], True
    if key not in SCHEMES:
        raise UnknownNameError("quantisation", name, SCHEMES)
    activations = _FLOATS[key if key in _FLOATS else floating]
    weights, quantised = SCHEMES[key] or (activations, False)
    return Precision(key, activations, weights, quantised, INT8 if int8_cache else activations)


def quantisation_of(config: Mapping[str, Any], file: Path) -> str:
    """What a config says about quantisation, or what msModelSlim wrote beside it.

    A name of `SCHEMES`, `CONVERTED` or `UNREADABLE`; "" where nothing is quantised. Raises
    FileError for a way of quantising that isn't among them.
    """
    if isinstance(said := config.get("quantize"), str) and said:
        return _scheme(said, file)
    said = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(said, dict):
        return _scheme(described_beside(file.parent), file)
    method = str(said.get("quant_method", "")).casefold()
    if method in (*CONVERTED, *UNREADABLE):
        return method
    if method == "compressed-tensors":
        return _compressed(said, file)
    if (algorithm := said.get("quant_algo")) and method in ("modelopt", ""):
        return _optimised(str(algorithm), file)
    bits = said.get("bits", said.get("w_bit"))
    if method in ("gptq", "awq"):
        return _scheme(f"w{bits}a16", file)
    if method in ("ascend", "w8a8"):
        return "w8a8"
    if isinstance(bits, int):
        return _scheme(f"w{bits}a16", file)
    return _scheme(method or say("an unnamed way"), file)


def _compressed(said: Mapping[str, Any], file: Path) -> str:
    """The first group of compressed-tensors: bits of weights, and of activations if it has some."""
    groups = said.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    if not isinstance(first, dict):
        return "w8a8"
    weights, given = first.get("weights"), first.get("input_activations")
    weights, given = (each if isinstance(each, dict) else {} for each in (weights, given))
    if "float" in (weights.get("type"), given.get("type")):
        return "fp8" if weights.get("num_bits") == 8 else "mxfp4"
    return _scheme(f"w{weights.get('num_bits', 8)}a{given.get('num_bits', 16)}", file)


def _optimised(algorithm: str, file: Path) -> str:
    """What TensorRT's Model Optimizer calls it: FP8, NVFP4 and others with words behind them."""
    name = algorithm.casefold()
    known = (each for each in (*CONVERTED, *UNREADABLE) if name.startswith(each))
    return next(known, None) or _scheme(name, file)


def _scheme(said: str, file: Path) -> str:
    """The name of a scheme without what it says of scales: ``w8a8_dynamic``, ``W8A8SC``."""
    name = said.casefold().removesuffix("_dynamic").removesuffix("_per_token").removesuffix("sc")
    if name in ("", "float", "none"):
        return ""
    if name not in SCHEMES:
        raise FileError(
            file,
            say("is quantised as {said}").format(said=said),
            say(
                "Leave its quantization_config away, and say what it is made of: --dtype {schemes}."
            ).format(schemes=", ".join(SCHEMES)),
        )
    return name
