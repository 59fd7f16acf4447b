"""How a model is laid out over cards: tensor, pipeline, data, expert and context parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import takes, tells

if TYPE_CHECKING:
    from npusim.llm.architecture import Architecture


SEQUENCE_PARALLEL_FROM: Final = 1000
"""Tokens of a step from which ranks share the rows of norms (vllm-ascend's FlashComm)."""
_NAMES: Final = ("tp", "pp", "dp", "ep", "dcp", "sp")


@tells
@dataclass(frozen=True)
class Layout:
    """Ranks: `tp` share every layer, `pp` share the layers, `dp` have requests of their own.

    `experts` is over how many ranks experts are dealt (1: every expert is cut like a layer). With
    `sp` ranks of `tp` share the rows of norms in steps of many tokens (vllm-ascend's FlashComm,
    which it leaves off by default). Of ranks that would keep the same keys `dcp` keep a part of
    every sequence each (decode context parallelism of vllm).
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    experts: int = 1
    sp: bool = False
    dcp: int = 1

    def __post_init__(self) -> None:
        for name, value in self.sizes.items():
            if not 1 <= value <= 4096:
                raise ArgumentError(f"--{name} {value}", "Say 1 to 4096.")
        if self.experts not in (1, self.tp * self.dp):
            raise ArgumentError(
                say("--ep {experts} with tp {tp} and dp {dp}").format(
                    experts=self.experts, tp=self.tp, dp=self.dp
                ),
                say("Experts are dealt over all of them: ")
                + " or ".join(f"--ep {each}" for each in sorted({1, self.tp * self.dp}))
                + ".",
            )

    @property
    def sizes(self) -> dict[str, int]:
        """How many ranks there are of each kind, by the options of the command line."""
        return {
            "tp": self.tp, "pp": self.pp, "dp": self.dp, "ep": self.experts, "dcp": self.dcp,
        }  # fmt: skip

    @property
    def cards(self) -> int:
        """Ranks in all."""
        return self.tp * self.pp * self.dp

    @property
    def shares_experts(self) -> bool:
        """Whether data-parallel ranks exchange tokens with the same experts, and wait for them."""
        return self.experts > 1 and self.dp > 1

    @takes()
    def check(self, model: Architecture) -> None:
        """ArgumentError where the model can't be cut so."""
        if model.heads % self.tp:
            raise ArgumentError(
                say("{heads} heads can't be shared by {tp} ranks").format(
                    heads=model.heads, tp=self.tp
                ),
                "Choose another --tp.",
            )
        if self.pp > model.layers:
            raise ArgumentError(
                say("{pp} stages for {layers} layers").format(pp=self.pp, layers=model.layers),
                "Choose another --pp.",
            )
        if self.experts > 1 and model.experts is None:
            raise ArgumentError(say("the model has no experts"), "Leave --ep away.")
        self._check_keys(model)

    def _check_keys(self, model: Architecture) -> None:
        """ArgumentError where ranks of `dcp` don't have the same keys, or what they do is unknown.

        Source: vllm-ascend docs/source/user_guide/feature_guide/context_parallel.md.
        """
        if self.dcp == 1:
            return
        if not shares_keys(model):
            raise ArgumentError(
                say("--dcp beside windows, states, sparse or crossed attention isn't modelled"),
                "Leave --dcp away.",
            )
        times = copies_of_keys(model, self.tp)
        if times % self.dcp:
            raise ArgumentError(
                say("--dcp {dcp}, and ranks of --tp {tp} keep keys {times} times").format(
                    dcp=self.dcp, tp=self.tp, times=times
                ),
                say("Choose a divisor of that."),
            )

    def __str__(self) -> str:
        words = [f"{name.upper()}{size}" for name, size in self.sizes.items() if size > 1]
        words = words or ["TP1"]
        return " ".join([*words, "SP"] if self.sp else words)


def copies_of_keys(model: Architecture, tp: int) -> int:
    """How many of so many ranks keep the same keys."""
    return tp if model.latent is not None else max(1, tp // max(1, model.kv_heads))


def shares_keys(model: Architecture) -> bool:
    """Whether ranks may keep parts of sequences, as far as that is modelled."""
    sparse = model.latent is not None and model.latent.indexer is not None
    return model.causal and not (model.window or model.state or model.crossed or sparse)


def shares_rows(layout: Layout, tokens: int) -> bool:
    """Whether ranks share the rows of norms in a step of so many tokens."""
    return layout.sp and layout.tp > 1 and tokens >= SEQUENCE_PARALLEL_FROM


def layout_of(text: str) -> Layout:
    """A layout as it is written, ``tp=4,dp=8,ep=32,sp=1``; ArgumentError for anything else."""
    sizes: dict[str, int] = {}
    for word in text.split(","):
        name, _, size = word.strip().partition("=")
        odd = name not in _NAMES or name in sizes or (name == "sp" and size not in ("0", "1"))
        if odd or not size.isdecimal():
            raise ArgumentError(
                f"a layout {text!r}",
                say("Say tp, pp, dp, ep, dcp with their sizes, and sp=1: for example tp=4,dp=8."),
            )
        sizes[name] = int(size)
    tp, pp, dp, ep, dcp = (sizes.get(name, 1) for name in _NAMES[:5])
    return Layout(tp, pp, dp, ep, bool(sizes.get("sp", 0)), dcp)
