"""A model as its users have it: a Hugging Face ``config.json``, or the folder that it is in.

No weights are read; the header of a safetensors file may tell the dtype. What an architecture is
beyond its config stands in ``architectures.yaml``; a YAML of the same form describes others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from npusim.llm.architecture import Architecture
from npusim.llm.gate import check_numbers
from npusim.llm.headers import dtype_of_weights
from npusim.llm.precision import quantisation_of
from npusim.reading.files import kind_of, read_text
from npusim.reading.markup import json_value, yaml_mapping
from npusim.values.errors import FileError, brief
from npusim.values.suggest import near

_USUAL: Final[Mapping[str, str]] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "width": "intermediate_size",
    "vocabulary": "vocab_size",
    "active": "num_experts_per_tok",
}
_LATENT: Final[Mapping[str, str]] = {
    "query_rank": "q_lora_rank",
    "rank": "kv_lora_rank",
    "nope": "qk_nope_head_dim",
    "rope": "qk_rope_head_dim",
    "value": "v_head_dim",
}
_NEEDED: Final = ("layers", "hidden", "heads", "vocabulary")
_PASSED_ON: Final = ("qk_norm", "qkv_bias", "activation", "gated", "norms")
_TRAITS: Final = ("keys", "defaults", "tied", "attention", *_PASSED_ON)


@dataclass(frozen=True)
class LanguageModel:
    """What a config says: sizes, the dtype of activations, and how weights are quantised."""

    name: str
    architecture: Architecture
    dtype: str
    quantisation: str

    def __repr__(self) -> str:
        kind = self.quantisation or self.dtype
        return f"<LanguageModel {self.name}: {self.architecture.name}, {kind}>"


def read_model(path: Path | str, description: Path | str | None = None) -> LanguageModel:
    """Read a ``config.json`` or a folder with one.

    `description` is a YAML that describes the architecture: a row as in ``architectures.yaml``.
    Raises FileError for what isn't there, isn't a config, or has an architecture nobody described.
    """
    file = Path(path)
    if kind_of(file) == "folder":
        file /= "config.json"
    raw = json_value(read_text(file, "Give a config.json or the folder that it is in."), file)
    if not isinstance(raw, dict):
        raise FileError(file, "holds no mapping of keys to values")
    check_numbers(raw, file)
    raw = {**raw, **raw["text_config"]} if isinstance(raw.get("text_config"), dict) else raw
    named = raw.get("architectures")
    kind = named[0] if isinstance(named, list) and named else ""
    traits = _described(description) if description else _known(str(kind), file)
    architecture = _architecture(raw, traits, str(kind) or "described", file)
    dtype = str(
        raw.get("torch_dtype") or raw.get("dtype") or dtype_of_weights(file.parent) or "bfloat16"
    )
    name = file.parent.name if file.name == "config.json" else file.stem
    return LanguageModel(
        name or str(kind),
        architecture,
        "fp16" if dtype == "float16" else "bf16",
        quantisation_of(raw, file),
    )


@cache
def _architectures() -> Mapping[str, Mapping[str, Any]]:
    file = Path(__file__).with_name("architectures.yaml")
    return yaml_mapping(read_text(file), str(file))


def _known(kind: str, file: Path) -> Mapping[str, Any]:
    if kind in _architectures():
        return _architectures()[kind]
    known = near(kind, _architectures()) or sorted(_architectures())
    raise FileError(
        file,
        f"its architecture {kind or '(none named)'} isn't known",
        f"Known are e.g. {', '.join(known)}. For another decoder say what it has in a YAML "
        f"(--architecture FILE) with any of: {', '.join(_TRAITS)}; `{{}}` is a Llama.",
    )


def _described(path: Path | str) -> Mapping[str, Any]:
    found = yaml_mapping(read_text(Path(path)), str(path))
    if unknown := sorted(map(str, set(found) - set(_TRAITS))):
        raise FileError(path, f"has {unknown[0]}", f"Known keys are {', '.join(_TRAITS)}.")
    for name, of in (("keys", "those of the config"), ("defaults", "numbers")):
        if not isinstance(found.get(name, {}), dict):
            raise FileError(path, f"its {name} are no mapping of our names to {of}")
    return found


def _architecture(
    raw: Mapping[str, Any], traits: Mapping[str, Any], kind: str, file: Path
) -> Architecture:
    names = {**_USUAL, **_LATENT, **traits.get("keys", {})}
    usual = {names.get(name, name): value for name, value in traits.get("defaults", {}).items()}
    raw = {**usual, **raw}
    if missing := [names[each] for each in _NEEDED if not raw.get(names[each])]:
        raise FileError(file, f"has no {', '.join(missing)}", "A config of this kind says them.")

    def said(name: str, default: object = None) -> Any:
        found = raw.get(names.get(name, name))
        return default if found is None else found

    latent = None
    if traits.get("attention") == "latent":
        latent = {name: said(name) for name in _LATENT}
    values: dict[str, Any] = {
        "name": kind,
        "layers": said("layers"),
        "hidden": said("hidden"),
        "heads": said("heads"),
        "kv_heads": said("kv_heads", said("heads")),
        "head_dim": said("head_dim", _quotient(said("hidden"), said("heads"))),
        "width": said("width", _of_experts(said)),
        "vocabulary": said("vocabulary"),
        "tied": bool(raw.get("tie_word_embeddings", traits.get("tied", False))),
        "latent": latent,
        "experts": _experts(said),
        **{name: traits[name] for name in _PASSED_ON if name in traits},
    }  # fmt: skip
    try:
        return Architecture.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = names.get(str(first["loc"][-1]), ".".join(map(str, first["loc"])))
        raise FileError(file, f"{where} is {brief(first['input'])}: {first['msg']}") from None


def _quotient(whole: object, part: object) -> int | None:
    if isinstance(whole, int) and isinstance(part, int) and part > 0:
        return whole // part
    return None


def _of_experts(said: Any) -> object:
    """The width of a dense layer where there is none: that of an expert stands for it."""
    return said("expert_width")


def _experts(said: Any) -> dict[str, Any] | None:
    count = said("experts")
    if not isinstance(count, int) or count < 1:
        return None
    shared, number = said("shared_width", 0), said("shared_experts", 0)
    width, listed = said("expert_width"), said("dense_layers_listed", ())
    if isinstance(number, int) and isinstance(width, int) and number and not shared:
        shared = number * width
    dense = len(listed) if isinstance(listed, list) else said("dense_layers", 0)
    return {
        "count": count,
        "active": said("active"),
        "width": width,
        "shared_width": shared,
        "dense_layers": dense,
    }
