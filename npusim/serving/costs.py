"""What a step costs, tabulated: a few steps are timed, and what lies between is interpolated.

A decoding step is a line in the tokens of all contexts together. A step with prompts costs what
its tokens cost as prompts, and on top what the decoding sequences' contexts cost beside prompts, as
far as the device didn't wait for the host; it is never shorter than without prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from npusim.llm import Batch, step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from npusim.hardware import Profile
    from npusim.llm import LanguageModel, Layout, LlmStep

_SEQUENCES: Final = (1, 8, 32, 96, 256, 1024)
# Beyond, every token costs as much as the last ones.
_PROMPTS: Final = (64, 512, 2048, 4096, 16384, 65536)
_FEW: Final = (1, 32, 256)
_FEW_PROMPTS: Final = (256, 2048)
_LEAST_CONTEXT: Final = 128


@dataclass(frozen=True)
class StepCosts:
    """Milliseconds by counts.

    ``decode[b]`` for b sequences without context, ``context[b]`` for each token of theirs
    together; ``prompt[t]`` for t tokens of prompts, ``behind[t]`` for each token in front of them,
    ``waits[t]`` what of it the device waits for the host (empty: nothing). ``mixed`` is what each
    token of context costs in a step with prompts, None where that is as without.
    `band` are the factors of the 80 % band of a decoding step in the middle, `prompt_band` those of
    the largest step of prompts.
    """

    decode: Sequence[float]
    context: Sequence[float]
    prompt: Sequence[float]
    behind: Sequence[float]
    waits: Sequence[float] = field(default_factory=tuple)  # no class attributes: LaterCosts
    mixed: float | None = field(default_factory=lambda: None)
    band: tuple[float, float] = field(default_factory=lambda: (1.0, 1.0))
    prompt_band: tuple[float, float] = field(default_factory=lambda: (1.0, 1.0))

    def slower(self) -> StepCosts:
        """Every step takes as long as the slow end of its band."""
        return LaterCosts(
            decode=lambda: [each * self.band[1] for each in self.decode],
            context=lambda: [each * self.band[1] for each in self.context],
            prompt=lambda: [each * self.prompt_band[1] for each in self.prompt],
            behind=lambda: [each * self.prompt_band[1] for each in self.behind],
            waits=lambda: self.waits,
            mixed=lambda: None if self.mixed is None else self.mixed * self.band[1],
            band=lambda: self.band, prompt_band=lambda: self.prompt_band,
        )  # fmt: skip

    def step_ms(self, sequences: int, tokens: float, prompts: int, before: float) -> float:
        """A step: `sequences` with `tokens` of context in all, `prompts` tokens behind `before`."""
        if not prompts:
            return self.decode[sequences] + self.context[sequences] * tokens
        both = min(prompts + sequences, len(self.prompt) - 1)
        further = (self.context[sequences] if self.mixed is None else self.mixed) * tokens
        read = self.prompt[both] + self.behind[both] * before
        hidden = min(further, self.waits[both]) if self.waits else 0.0
        return max(read - hidden, self.decode[sequences]) + further


class LaterCosts(StepCosts):
    """Costs each of which is made when it is asked for: cards that read prompts never decode."""

    def __init__(self, **made: Callable[[], Any]) -> None:
        self.__dict__["made"] = made

    def __getattr__(self, name: str) -> Any:
        if name not in (made := self.__dict__.get("made", {})):
            raise AttributeError(name)
        self.__dict__[name] = value = made[name]()
        return value


def step_costs(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    *,
    max_sequences: int,
    max_tokens: int,
    longest: int,
    prompt: int,
    draft: int = 0,
    tokens_per_step: float = 1.0,
    coarse: bool = False,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> StepCosts:
    """Time what a deployment's steps lie between, when somebody asks for it.

    `longest` is the longest context, `prompt` the usual length of a prompt; `options` are those
    of `npusim.llm.step`. With a `draft` of so many tokens a decoding step verifies one more than
    that for each sequence and gives `tokens_per_step` of them on average, so that a token costs
    that part of it; a draft costs what the model's layers for it do, and nothing where it has none.
    A `coarse` table has fewer places.
    """

    def timed(batch: Batch, **more: Any) -> LlmStep:
        if progress:
            progress(f"step of {batch.tokens} tokens")
        return step(model, chip, layout, batch, **{**options, **more})

    def decoded(size: int, context: int) -> LlmStep:
        return timed(Batch(size, context, drafted=draft))

    # A full graph holds steps that only decode: those with prompts are launched by operators.
    graph = "eager" if options.get("graph") == "full" else options.get("graph")

    def read(count: int, before: int) -> LlmStep:
        return timed(_prompts(count, prompt, before), graph=graph)

    sizes = _up_to(_FEW if coarse else _SEQUENCES, max_sequences)

    @cache
    def decoding() -> _Decoding:
        return _decoding(decoded, sizes, longest, tokens_per_step)

    def mixed_ms() -> float | None:
        """What a token of context costs beside a prompt, where attention takes both at once."""
        size, near = sizes[min(2, len(sizes) - 1)], _LEAST_CONTEXT
        far = max(2 * near, longest)
        chunk = min(_FEW_PROMPTS[0], max_tokens)
        short, long = (
            timed(Batch(size, each, prompts=1, chunk=chunk, drafted=draft), graph=graph)
            for each in (near, far)
        )
        busy = [each.step_ms - each.host_ms for each in (short, long)]
        return max(0.0, busy[1] - busy[0]) / (size * (far - near))

    @cache
    def reading() -> _Reading:
        places = _FEW_PROMPTS if coarse else _PROMPTS
        return _reading(read, places, prompt, max_tokens, max_tokens + max_sequences)

    return LaterCosts(
        decode=lambda: _table(sizes, decoding()[0], max_sequences),
        context=lambda: _shares(sizes, decoding()[1], max_sequences),
        prompt=lambda: reading()[0], behind=lambda: reading()[1], waits=lambda: reading()[3],
        mixed=mixed_ms, band=lambda: decoding()[2], prompt_band=lambda: reading()[2],
    )  # fmt: skip


_Decoding = tuple[list[float], list[float], tuple[float, float]]
_Reading = tuple[list[float], list[float], tuple[float, float], list[float]]


def _shares(sizes: Sequence[int], slopes: Sequence[float], most: int) -> list[float]:
    """Milliseconds of a token of context by sequences: what all of them together take is even."""
    together = [slope * size for slope, size in zip(slopes, sizes, strict=True)]
    table = _table([0, *sizes], [0.0, *together], most)
    return [slopes[0], *(each / count for count, each in enumerate(table[1:], 1))]


def _decoding(
    decoded: Callable[[int, int], LlmStep],
    sizes: Sequence[int],
    longest: int,
    tokens_per_step: float,
) -> _Decoding:
    """Milliseconds of some numbers of sequences without context, and of a token of context.

    From steps with little and with the most context; the band is that of the middle one.
    """
    near, far = _LEAST_CONTEXT, max(2 * _LEAST_CONTEXT, longest)
    short, long = ([decoded(size, each) for size in sizes] for each in (near, far))
    slopes = [
        max(0.0, b.step_ms - a.step_ms) / (size * (far - near)) / tokens_per_step
        for size, a, b in zip(sizes, short, long, strict=True)
    ]
    bases = [
        a.step_ms / tokens_per_step - slope * size * near
        for size, a, slope in zip(sizes, short, slopes, strict=True)
    ]
    return bases, slopes, _band(long[len(long) // 2])


def _band(of: LlmStep) -> tuple[float, float]:
    low_ms, high_ms = of.band_ms
    return low_ms / of.step_ms, high_ms / of.step_ms


def _reading(
    read: Callable[[int, int], LlmStep], places: Sequence[int], usual: int, largest: int, most: int
) -> _Reading:
    """Milliseconds of prompts by their tokens, up to `most`, and of a token in front of them.

    The band is that of the largest step; at last comes what the device waits for the host.
    """
    counts = _up_to(places, min(places[-1], largest))
    alone = [read(count, 0) for count in counts]
    last_ms, behind_ms = alone[-1].step_ms, read(counts[-1], usual).step_ms
    further = max(0.0, behind_ms - last_ms) / usual / counts[-1]
    table = _table(counts, [each.step_ms for each in alone], counts[-1])
    # Beyond the last place the device goes on as before, even where it waited for the host there.
    device = _table(counts, [each.step_ms - each.host_ms for each in alone], most)
    begun_ms = min(each.host_ms for each in alone)
    table += [max(last_ms, each + begun_ms) for each in device[len(table) :]]
    waits = _table(counts, [each.host_ms - begun_ms for each in alone], counts[-1])
    waits += [0.0] * (most + 1 - len(waits))
    return table, [further * count for count in range(most + 1)], _band(alone[-1]), waits


def _prompts(tokens: int, usual: int, before: int) -> Batch:
    """About so many tokens of prompts of the usual length."""
    chunk = min(tokens, usual)
    return Batch(prompts=max(1, round(tokens / chunk)), chunk=chunk, before=before)


def _up_to(sizes: Sequence[int], most: int) -> list[int]:
    return [*(size for size in sizes if size < most), most]


def _table(places: Sequence[int], values: Sequence[float], most: int) -> list[float]:
    """A value for every count from 0 to `most`: straight between the places, and beyond them."""
    import numpy as np

    counts = np.arange(most + 1)
    found = np.interp(counts, places, values)
    if len(places) > 1:
        (near, far), (low, high) = places[-2:], values[-2:]
        beyond = high + (counts - far) * (high - low) / (far - near)
        found = np.where(counts > far, beyond, found)
    table: list[float] = found.tolist()
    return table
