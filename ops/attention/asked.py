"""A call of attention as its limits read it: sizes by axis, whatever the interface calls them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from npusim.operators.contract import TensorArg
from npusim.operators.results import numbers
from npusim.values.dtypes import INT4_IN_INT32, INT32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from npusim.operators.contract import Argument, Call
    from npusim.values.dtypes import DType
    from npusim.values.tensors import TensorSpec

FAR = 2**31 - 1  # tokens before and after, where nobody limits them
_LATENT = 512  # columns

# What operator types and interfaces call the same thing, without case, underscores, "Optional".
_ALIASES = {
    "key0": "key", "keyin": "key", "value0": "value", "headnum": "heads", "numheads": "heads",
    "numkeyvalueheads": "keyheads", "realshift": "shift", "pseshift": "shift",
    "pretockens": "before", "pretokens": "before", "nexttockens": "after", "nexttokens": "after",
    "actualseqqlen": "ends", "actualseqkvlen": "keyends", "actualseqlengths": "ends",
    "actualseqlengthskv": "keyends", "inputlayout": "layout", "softmaxlse": "lse",
    "deqscale1": "dequantscale1", "deqscale2": "dequantscale2", "dqout": "dq", "dkout": "dk",
    "dvout": "dv", "attentionoutout": "attentionout", "sinkin": "sink", "keyinrope": "keyrope",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One call; sizes are None, or the lists empty, where its tensors don't tell."""

    interface: str
    arguments: Mapping[str, Argument]

    @classmethod
    def of(cls, call: Call) -> Asked:
        """What a call asks for, read once for all its limits."""
        found = _known.get(call)
        if found is None:
            found = _known[call] = cls(call.contract.name, call.arguments)
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """The call's parameters that are given, by the one word for each."""
        given = tuple([n for n, value in self.arguments.items() if value is not None])
        return _words(self.interface, given)

    def name(self, word: str) -> str:
        """What the call names it, for sentences."""
        return self.names.get(word, word)

    @cached_property
    def _specs(self) -> dict[str, TensorSpec]:
        """The tensors that are given and not empty."""
        given = ((word, self.arguments.get(name)) for word, name in self.names.items())
        found = {word: each.spec for word, each in given if isinstance(each, TensorArg)}
        return {word: spec for word, spec in found.items() if spec.rank and not spec.is_empty}

    def spec(self, word: str) -> TensorSpec | None:
        """A tensor that is given and not empty."""
        return self._specs.get(word)

    def shape(self, word: str) -> tuple[int, ...] | None:
        """Its shape."""
        found = self.spec(word)
        return None if found is None else found.shape

    def kind(self, word: str) -> DType | None:
        """Its dtype."""
        found = self.spec(word)
        return None if found is None else found.dtype

    def whole(self, word: str, default: int) -> int:
        """A whole number, or a flag as one."""
        found = self.arguments.get(self.names.get(word, ""))
        return int(found) if isinstance(found, int | float) else default

    def entries(self, word: str) -> list[int]:
        """A list of whole numbers, empty where it isn't given."""
        return numbers(self.arguments.get(self.names.get(word, ""))) or []

    def ends(self, word: str) -> list[int]:
        """Where sequences end; zeros at the tail are sequences that are left out."""
        return without_tail(self.entries(word))

    @cached_property
    def layout(self) -> str:
        """The layout that the call names; OpTypes without one have the usual one."""
        found = self.arguments.get(self.names.get("layout", ""))
        if isinstance(found, str) and found:
            return found
        shape = self.shape("query") or ()
        return "BSH" if "layout" not in self.names and len(shape) == len("BSH") else "BNSD"

    @property
    def axes(self) -> str:
        """The axes of the inputs: what is in front of an underscore."""
        return self.layout.partition("_")[0]

    @property
    def packed(self) -> bool:
        """Sequences one behind the other."""
        return "T" in self.axes

    @property
    def paged(self) -> bool:
        """Keys and values in pages."""
        return self.shape("blocktable") is not None

    def _sizes(self, word: str) -> dict[str, int]:
        shape = self.shape(word)
        if shape is None or len(shape) != len(self.axes):
            return {}
        return dict(zip(self.axes, shape, strict=True))

    @cached_property
    def query(self) -> dict[str, int]:
        """The query's axes with B, S, N, D; T where it is packed."""
        return self._whole("query", self.whole("heads", 0))

    @cached_property
    def key(self) -> dict[str, int]:
        """The same of keys; of pages only what they tell."""
        return self._of_keys("key")

    @cached_property
    def value(self) -> dict[str, int]:
        """The same of values."""
        return self._of_keys("value")

    def _of_keys(self, word: str) -> dict[str, int]:
        shape = self.shape(word)
        named = self.whole("keyheads", 0) or (self.whole("heads", 0) if self._infers else 0)
        if self.paged:
            if shape is None or len(shape) not in (3, 4):
                return {}
            if len(shape) == len("BNSD"):
                return {"N": shape[1], "S": shape[2], "D": shape[3]}
            return {"N": named, "S": shape[1], "D": shape[2] // max(1, named), "H": shape[2]}
        if not named and "H" in self.axes and (own := self.query.get("D")):
            first = self.shape("key")  # the heads of values are those of keys
            named = 0 if first is None else first[-1] // own
        found = self._whole(word, named)
        if self.kind(word) is INT32:
            found |= {axis: found[axis] * INT4_IN_INT32 for axis in "DH" if axis in found}
        return found

    @property
    def _infers(self) -> bool:
        return any(each in self.interface for each in ("Infer", "Prompt", "Incre"))

    def _whole(self, word: str, heads: int) -> dict[str, int]:
        sizes = self._sizes(word)
        if "H" in sizes and heads > 0:
            sizes |= {"N": heads, "D": sizes["H"] // heads}
        return sizes

    @property
    def batch(self) -> int:
        """Number of sequences; 0 where nothing tells."""
        return len(self.entries("ends")) if self.packed else self.query.get("B", 0)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Queries and keys of each sequence, of packed ones only where both lists are given."""
        if not self.packed:
            return [(self.query.get("S", 0), self.key.get("S", 0))] * self.batch
        ends, keys = (self.ends(word) for word in ("ends", "keyends"))
        if self.paged:
            return list(zip(_apart(ends), self.entries("keyends"), strict=False))
        return list(zip(_apart(ends), _apart(keys), strict=False))

    @property
    def single(self) -> bool:
        """Every sequence has one query (decoding)."""
        return not self.packed and self.query.get("S") == 1

    @property
    def latent(self) -> bool:
        """Keys are compressed, with turned parts beside (MLA)."""
        return self.query.get("D") == _LATENT and self.spec("queryrope") is not None


_known: WeakKeyDictionary[Call, Asked] = WeakKeyDictionary()


@lru_cache(maxsize=1 << 8)
def _words(contract: str, given: tuple[str, ...]) -> dict[str, str]:
    """The parameters that are given to a contract, by the one word for each."""
    plain = [(name.removesuffix("Optional").replace("_", "").lower(), name) for name in given]
    found = {_ALIASES.get(word, word): name for word, name in plain}
    if "Incre" in contract and "keyends" not in found and "ends" in found:
        found["keyends"] = found.pop("ends")  # queries are single tokens there
    return found


def without_tail(ends: list[int]) -> list[int]:
    """The same with the last end instead of zeros behind it."""
    last = next((each for each in reversed(ends) if each), 0)
    kept = len(ends) - next((at for at, each in enumerate(reversed(ends)) if each), len(ends))
    return [*ends[:kept], *[last] * (len(ends) - kept)]


def _apart(ends: list[int]) -> list[int]:
    return [b - a for a, b in zip([0, *ends], ends, strict=False)]
