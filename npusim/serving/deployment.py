"""A language model deployed on cards: its memory, what its steps cost, and requests served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from npusim.llm import Batch, Layout
from npusim.llm.engines import load_engine
from npusim.llm.memory import LlmMemory, memory_of
from npusim.llm.step import precision_on
from npusim.serving.costs import StepCosts, step_costs
from npusim.serving.engine import serve_in_step
from npusim.serving.results import Served, served
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm import LanguageModel
    from npusim.serving.policy import Policy
    from npusim.serving.requests import Requests


@dataclass(frozen=True)
class Deployment:
    """`layout` on one product; all data-parallel groups are alike and take turns.

    Groups with experts in common step together; the first one's figures stand for all.
    `policy` is that of a group, with as many blocks as there is memory for.
    """

    model: LanguageModel
    chip: Profile
    layout: Layout
    policy: Policy
    costs: StepCosts
    memory: LlmMemory

    def serve(
        self,
        requests: Requests,
        *,
        concurrency: int | None = None,
        ttft_ms: float | None = None,
        tpot_ms: float | None = None,
    ) -> Served:
        """Serve requests; `concurrency` is of all groups together.

        Raises ArgumentError where a request doesn't ever fit.
        """
        groups = self.layout.dp
        dealt = [requests.every(groups, first) for first in range(min(groups, len(requests)))]
        slots = None if concurrency is None else max(1, round(concurrency / groups))
        together = dealt if self.layout.experts > 1 else dealt[:1]
        mine = dealt[0]
        outcome = serve_in_step(together, self.costs, self.policy, concurrency=slots)[0]
        return served(
            mine,
            outcome,
            kv_tokens=self.policy.kv_tokens,
            block=self.policy.block,
            groups=groups,
            ttft_ms=ttft_ms,
            tpot_ms=tpot_ms,
        )


def deploy(
    model: LanguageModel,
    chip: Profile,
    layout: Layout,
    policy: Policy,
    *,
    longest: int,
    prompt: int,
    dtype: str | None = None,
    draft: int = 0,
    tokens_per_step: float = 1.0,
    coarse: bool = False,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Deployment:
    """Deploy a model for requests up to `longest` tokens, with prompts of about `prompt`.

    A model that doesn't fit has no room in its cache. Raises ArgumentError for that.
    """
    engine = load_engine()
    precision = precision_on(model, chip, dtype)
    memory = memory_of(
        model.architecture, layout, precision, Batch(1), chip, engine,
        most_tokens=policy.max_tokens,
    )  # fmt: skip
    if memory.kv_tokens < 1:
        raise ArgumentError(
            f"{model.name} as {precision.name} leaves no room for a cache on {layout.cards} x "
            f"{chip.name} ({layout})",
            "Take more or larger cards, or fewer bits.",
        )
    blocks = memory.kv_tokens // engine.block_tokens
    fitting = replace(policy, block=engine.block_tokens, kv_blocks=blocks)
    costs = step_costs(
        model, chip, layout,
        max_sequences=policy.max_sequences, max_tokens=policy.max_tokens, longest=longest,
        prompt=prompt, draft=draft, tokens_per_step=tokens_per_step, coarse=coarse,
        progress=progress, dtype=dtype, **options,
    )  # fmt: skip
    return Deployment(model, chip, layout, fitting, costs, memory)
