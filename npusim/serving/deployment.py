"""A language model deployed on cards: its memory, what its steps cost, and requests served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from npusim.cluster.collectives import duration_us
from npusim.hardware.interconnect import interconnect_of
from npusim.llm import Batch, Layout
from npusim.llm.engines import load_engine
from npusim.llm.memory import LlmMemory, memory_of
from npusim.llm.step import precision_on
from npusim.serving.costs import StepCosts, step_costs
from npusim.serving.engine import Stage, serve_in_stages
from npusim.serving.results import Served, check_objectives, served
from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import takes

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.llm import LanguageModel
    from npusim.serving.clients import Patience
    from npusim.serving.policy import Policy
    from npusim.serving.requests import Requests


@dataclass(frozen=True)
class Deployment:
    """`layout` on one product; all data-parallel groups are alike and take turns.

    Groups with experts in common step together; of others one is played, which stands for all.
    `policy` is that of a group, with as many blocks as there is memory for.
    """

    model: LanguageModel
    chip: Profile
    layout: Layout
    policy: Policy
    costs: StepCosts
    memory: LlmMemory

    @takes()
    def serve(
        self,
        requests: Requests,
        *,
        concurrency: int | None = None,
        ttft_ms: float | None = None,
        tpot_ms: float | None = None,
        replicas: int = 1,
        router: str = "round_robin",
    ) -> Served:
        """Serve requests on so many replicas alike; `concurrency` is of all of them together.

        Where they take turns one is played for all. Raises ArgumentError where a request doesn't
        ever fit, or for an unknown `router`.
        """
        check_objectives(ttft_ms=ttft_ms, tpot_ms=tpot_ms)
        alike = replicas * (1 if self.layout.shares_experts else self.layout.dp)
        alike = alike if router == "round_robin" else 1
        mine = requests if alike == 1 else requests.every(alike)
        slots = None if concurrency is None else max(1, round(concurrency / alike))
        instances = self.layout.dp * replicas // alike
        groups = min(instances, self.layout.dp)
        outcome = serve_in_stages(
            mine, [self.stage(groups, instances // groups)], concurrency=slots, router=router
        )
        return served(
            mine,
            outcome,
            kv_tokens=self.kv_tokens,
            block=self.policy.block,
            groups=alike,
            ttft_ms=ttft_ms,
            tpot_ms=tpot_ms,
        )

    @property
    def kv_tokens(self) -> int:
        """Tokens that the caches of all groups have room for."""
        return self.policy.kv_tokens * self.layout.dp

    @takes()
    def stage(self, groups: int, instances: int = 1) -> Stage:
        """So many of its groups, as they are played."""
        return Stage(self.costs, self.policy, groups, self.layout.shares_experts, instances)


def serve_apart(
    prompts: Deployment,
    answers: Deployment,
    requests: Requests,
    *,
    concurrency: int | None = None,
    ttft_ms: float | None = None,
    tpot_ms: float | None = None,
    replicas: tuple[int, int] = (1, 1),
    router: str = "round_robin",
    patience: Patience | None = None,
) -> Served:
    """Serve requests whose prompts some cards read, and other cards decode (disaggregated).

    `replicas` are how many there are of the cards that read, and of those that decode.

    The first token comes from the cards of the prompt. Then their ranks send the cache, layer by
    layer behind the prompt's computing in vllm-ascend; here all of it after it. A group sends one
    prompt's at a time, and gets one; every rank that decodes takes what it keeps through its port,
    of which ranks that read send as much as they have to. Raises ArgumentError where a request
    doesn't ever fit, TooLateError where more are late than there is `patience` for.
    """
    check_objectives(ttft_ms=ttft_ms, tpot_ms=tpot_ms)
    links = interconnect_of(prompts.chip.name)
    cards = prompts.layout.cards * replicas[0] + answers.layout.cards * replicas[1]
    ends = [each.layout.tp * each.layout.pp for each in (prompts, answers)]
    per_token = answers.memory.kv_bytes_per_token * max(1.0, ends[1] / ends[0])
    if cards > links.most_ranks:
        raise ArgumentError(
            say("caches sent among {cards} x {name}").format(cards=cards, name=prompts.chip.name),
            say("Links join {most_ranks} of them.").format(most_ranks=links.most_ranks),
        )

    @cache
    def handover_ms(tokens: int) -> float:
        nbytes = tokens * per_token
        return duration_us("sendrecv", links, cards, nbytes, in_graph=False) / 1e3

    stages = [
        each.stage(each.layout.dp, count)
        for each, count in zip((prompts, answers), replicas, strict=True)
    ]
    outcome = serve_in_stages(
        requests, stages, handover_ms=handover_ms, concurrency=concurrency, router=router,
        patience=patience,
    )  # fmt: skip
    return served(
        requests,
        outcome,
        kv_tokens=answers.kv_tokens * replicas[1],
        block=answers.policy.block,
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
    )


@takes()
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
        most_tokens=policy.max_tokens, most_sequences=policy.max_sequences,
    )  # fmt: skip
    if memory.kv_tokens < 1:
        raise ArgumentError(
            say(
                "{name} as {precision} leaves no room for a cache on {cards} x {chip} ({layout})"
            ).format(
                name=model.name,
                precision=precision.name,
                cards=layout.cards,
                chip=chip.name,
                layout=layout,
            ),
            say("Take more or larger cards, or fewer bits."),
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
