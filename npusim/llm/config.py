"""A model as its users have it: a Hugging Face ``config.json``, or the folder that it is in.

No weights are read; the header of a safetensors file may tell the dtype. What an architecture is
beyond its config stands in ``architectures.yaml``; a YAML of the same form describes others, and of
one that nobody described the keys tell what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from npusim.llm import names
from npusim.llm.architecture import Architecture
from npusim.llm.gate import check_numbers
from npusim.llm.headers import dtype_of_weights
from npusim.llm.hub import config_file
from npusim.llm.precision import quantisation_of
from npusim.llm.stacks import MisfitError, stack_of
from npusim.llm.towers import tower_of
from npusim.reading.files import read_text
from npusim.reading.markup import json_value, yaml_mapping
from npusim.values.errors import FileError, brief
from npusim.values.language import say
from npusim.values.takes import takes

_NEEDED: Final = ("layers", "hidden", "heads", "vocabulary")
_PASSED_ON: Final = (
    "qk_norm", "qkv_bias", "activation", "gated", "norms", "gated_heads", "crossed", "causal",
)  # fmt: skip
_OTHERS: Final = (
    "keys", "defaults", "tied", "attention", "state", "others", "numbered", "tower", "positions",
    "approximated",
)  # fmt: skip
_TRAITS: Final = (*_OTHERS, *_PASSED_ON)
_MOST_LAYERS: Final = 10_000
_STATES: Final = ("delta", "kda", "lightning")
_ELSEWHERE: Final = {
    ("experts", "count"): "experts",
    ("experts", "width"): "expert_width",
}
_GUESSED: Final = "its class isn't known: read by the names of its keys, as a decoder like Llama"


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


@takes()
def read_model(path: Path | str, description: Path | str | None = None) -> LanguageModel:
    """Read a ``config.json``, a folder with one, or the id of a model that is in the hub's cache.

    `description` is a YAML that describes the architecture: a row as in ``architectures.yaml``.
    Raises FileError for what isn't there, isn't a config, or lacks a size that nothing stands for.
    """
    file, name = config_file(path)
    raw = json_value(read_text(file, say("Give a config.json or the folder that it is in.")), file)
    if not isinstance(raw, dict):
        raise FileError(file, say("holds no mapping of keys to values"))
    check_numbers(raw, file)
    _, inner = names.first_in(raw, names.WITHIN)
    inner = inner if isinstance(inner, dict) else {}
    kind = _kind(raw) or _kind(inner)
    try:
        traits = _described(description) if description else _known(raw, inner)
    except MisfitError as error:
        raise FileError(
            file,
            say("its {key} names layers of kinds that nobody here reads").format(key=error.args[1]),
            say("Take a model whose layers are all a mixer and a feed forward."),
        ) from None
    text = {**raw, **inner}
    architecture = _architecture(text, traits, kind or "described", file, whole=raw)
    dtype = str(
        text.get("torch_dtype") or text.get("dtype") or dtype_of_weights(file.parent) or "bfloat16"
    )
    return LanguageModel(
        name or kind,
        architecture,
        "fp16" if dtype == "float16" else "bf16",
        quantisation_of(text, file),
    )


def _kind(raw: Mapping[str, Any]) -> str:
    """The class that a config names, or else its type."""
    named = raw.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return str(raw.get("model_type") or "")


@cache
def _architectures() -> Mapping[str, Mapping[str, Any]]:
    file = Path(__file__).with_name("architectures.yaml")
    rows = yaml_mapping(read_text(file), str(file))
    return {names.stem_of(kind): row for kind, row in rows.items()}


def _known(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of a config's class, over that of the part that writes text; a guess without one."""
    rows = _architectures()
    outer = rows.get(names.stem_of(_kind(raw)))
    within = rows.get(names.stem_of(_kind(inner))) if inner else None
    if outer is None and within is None:
        return _guessed({**raw, **inner})
    if outer is None and within is not None and names.first_in(raw, names.SEEING)[1]:
        guesses = {
            "tower": say("what sees or hears isn't known: taken as plain layers over patches")
        }
        strange = _strange({**raw, **inner})
        if strange:
            guesses["layers"] = say("its class isn't known") + strange
        return {**within, "tower": "plain", "approximated": guesses}
    return {**(within or {}), **(outer or {})}


def _guessed(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Traits of a class that nobody described: what its keys show.

    Raises MisfitError where they say that layers aren't each a mixer and a feed forward.
    """
    if (pattern := names.first_in(raw, names.KINDS))[1]:
        raise MisfitError("kinds", pattern[0])
    traits: dict[str, Any] = {"approximated": {"layers": say(_GUESSED) + _strange(raw)}}
    if all(
        names.first_in(raw, names.LATENT[each])[0] for each in ("rank", "nope", "rope", "value")
    ):
        traits["attention"] = "latent"
    if names.first_in(raw, names.STATE["value_heads"])[0]:
        traits |= {"state": "delta", "others": "linear"}
    if names.first_in(raw, names.SEEING)[1]:
        traits["tower"] = "plain"
    return traits


def _strange(raw: Mapping[str, Any]) -> str:
    """What a config says of layers that nobody here reads; nothing where all is read."""
    strange = names.unread(raw, (each for found in names.ALL.values() for each in found))
    if not strange:
        return ""
    return say("; nobody here reads its {strange}").format(strange=", ".join(strange[:6]))


def _described(path: Path | str) -> Mapping[str, Any]:
    found = yaml_mapping(read_text(Path(path)), str(path))
    if unknown := sorted(map(str, set(found) - set(_TRAITS))):
        raise FileError(
            path,
            f"has {unknown[0]}",
            say("Known keys are {traits}.").format(traits=", ".join(_TRAITS)),
        )
    for name, of in (
        ("keys", say("those of the config")),
        ("defaults", "numbers"),
        ("approximated", "reasons"),
    ):
        if not isinstance(found.get(name, {}), dict):
            raise FileError(
                path, say("its {name} are no mapping of our names to {of}").format(name=name, of=of)
            )
    return found


def _all_names(traits: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    own = {ours: (str(key),) for ours, key in traits.get("keys", {}).items()}
    return {**names.ALL, **own}


def _architecture(
    raw: Mapping[str, Any],
    traits: Mapping[str, Any],
    kind: str,
    file: Path,
    *,
    whole: Mapping[str, Any],
) -> Architecture:
    called = _all_names(traits)
    usual = traits.get("defaults", {})

    def said(name: str, default: object = None) -> Any:
        _, value = names.first_in(raw, called.get(name, (name,)))
        if value is None:
            value = usual.get(name)
        return default if value is None else value

    def key_of(name: str) -> str:
        """What the config calls it, or would."""
        keys = called.get(name, (name,))
        return names.first_in(raw, keys)[0] or next(iter(keys), name)

    lacking = [called[each][0] for each in _NEEDED if not names.one_of(said(each))]
    if lacking:
        raise FileError(
            file,
            say("has no {lacking}").format(lacking=", ".join(lacking)),
            say("A config of this kind says them."),
        )
    try:
        return Architecture.model_validate(_values(said, traits, kind, whole))
    except MisfitError as error:
        name, value = error.args
        raise FileError(
            file,
            say("{key_of} is {value}, which says nothing of layers").format(
                key_of=key_of(name), value=brief(value)
            ),
            say("Leave it out, or write it as the publisher does."),
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        part, place = str(first["loc"][0]), str(first["loc"][-1])
        where = key_of(_ELSEWHERE.get((part, place), "layers" if part == "stack" else place))
        raise FileError(file, f"{where} is {brief(first['input'])}: {first['msg']}") from None


def _values(
    said: Callable[..., Any], traits: Mapping[str, Any], kind: str, whole: Mapping[str, Any]
) -> dict[str, Any]:
    layers, hidden, heads = said("layers"), said("hidden"), said("heads")
    counted = isinstance(layers, int) and 0 < layers <= _MOST_LAYERS
    head_dim = said("head_dim") or _quotient(hidden, heads)
    values: dict[str, Any] = {
        "name": kind,
        "stack": stack_of(said, layers, traits, _window(said)) if counted else ({"count": layers},),
        "hidden": hidden,
        "heads": names.one_of(heads),
        "kv_heads": names.one_of(said("kv_heads", heads)),
        "head_dim": head_dim,
        "width": names.one_of(said("width", _expert_width(said))),
        "vocabulary": said("vocabulary"),
        "qk_norm": said("normed") is True,
        "qkv_bias": said("bias") is True,
        "tied": bool(said("tied", traits.get("tied", False))),
        "activation": "gelu" if "gelu" in str(said("act", "silu")) else "silu",
        "rotated": said("rotated", _share(said("rotated_size"), head_dim)),
        "positions": _learned(said, traits),
        "window": _window(said),
        "head": _writes(kind),
        "drafts": names.one_of(said("drafts", 0)),
        "latent": _latent(said) if traits.get("attention") == "latent" else None,
        "state": _state(said, traits, head_dim),
        "experts": _experts(said),
        "tower": tower_of(whole, traits["tower"], hidden) if traits.get("tower") else None,
        "approximated": tuple(traits.get("approximated", {}).items()),
    }  # fmt: skip
    return values | {name: traits[name] for name in _PASSED_ON if name in traits}


def _writes(kind: str) -> bool:
    """Whether a class has logits of its vocabulary."""
    if kind.endswith(("ChatModel", "GLMModel", "LMHeadModel")):
        return True
    return not kind.endswith(("Model", "Classification"))


def _quotient(whole: object, part: object) -> int | None:
    if isinstance(whole, int) and isinstance(part, int) and part > 0:
        return whole // part
    return None


def _share(part: object, whole: object) -> float:
    known = isinstance(part, int) and isinstance(whole, int) and 0 < part <= whole
    return part / whole if known else 1.0  # type: ignore[operator]


def _learned(said: Callable[..., Any], traits: Mapping[str, Any]) -> object:
    """Rows of learned positions and kinds of text, for architectures that have them."""
    if "positions" not in traits:
        return 0
    rows, types = said(traits["positions"], 0), said("types", 0)
    return rows + types if isinstance(rows, int) and isinstance(types, int) else rows


def _window(said: Callable[..., Any]) -> object:
    """How far windows look back; 0 where no text is longer."""
    window, longest = said("window") or 0, said("longest")
    known = isinstance(window, int) and isinstance(longest, int)
    return 0 if known and 0 < longest <= window else window


def _latent(said: Callable[..., Any]) -> dict[str, Any]:
    indexer = {
        "heads": said("index_heads"),
        "size": said("index_size"),
        "top": said("index_top"),
    }
    sizes = {name: said(name) for name in names.LATENT}
    return {**sizes, "indexer": indexer if indexer["top"] else None}


def _state(
    said: Callable[..., Any], traits: Mapping[str, Any], head_dim: object
) -> dict[str, Any] | None:
    if traits.get("state") not in _STATES:
        return None
    heads = said("heads")
    return {
        "kind": traits["state"],
        "key_heads": said("key_heads", heads),
        "value_heads": said("value_heads", heads),
        "key_size": said("key_size", head_dim),
        "value_size": said("value_size", head_dim),
        "convolution": said("convolution", 0),
    }


def _expert_width(said: Callable[..., Any]) -> object:
    """The width of an expert; where nobody says it, that of a dense layer stands for it."""
    return names.one_of(said("expert_width"))


def _experts(said: Callable[..., Any]) -> dict[str, Any] | None:
    if not (count := names.one_of(said("experts"))):
        return None
    shared, number = names.one_of(said("shared_width", 0)), names.one_of(said("shared_experts", 0))
    width = _expert_width(said) or names.one_of(said("width"))
    if isinstance(number, int) and isinstance(width, int) and number and not shared:
        shared = number * width
    active = names.one_of(said("active"))
    return {"count": count, "active": active, "width": width, "shared_width": shared}
