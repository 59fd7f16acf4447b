"""Who listens to autotuners, and what they hear."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any

from npusim.values.errors import NpusimError
from npusim.values.host import cores

_DONE = "_npusim_listens"


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration that was tried for a kernel with some arguments."""

    kernel: str
    arguments: str
    settings: Mapping[str, Any]
    duration_us: float
    refusal: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The configuration in a few words."""
        return " ".join(f"{name}={value}" for name, value in self.settings.items()) or "as it is"


heard: list[list[Trial]] = []
refusals: list[str] = []  # why what is tried now doesn't run
assumptions: list[str] = []  # on which what is tried now runs


def listen_to(autotuner: Any) -> None:
    """Lets a class of autotuners tell what it tries; what the chip refuses takes for ever."""
    if getattr(autotuner, _DONE, False):
        return
    original = autotuner._bench  # noqa: SLF001 - its only place where one is tried

    def bench(self: Any, *arguments: Any, config: Any, **named: Any) -> Any:
        refusal = ""
        refusals.clear()
        assumptions.clear()
        try:
            taken = original(self, *arguments, config=config, **named)
        except NpusimError as error:
            taken, refusal = [inf] * 3, error.message
        refusal = refusal or next(iter(refusals), "")  # the autotuner has caught it
        first = taken[0] if isinstance(taken, list) else taken
        if heard:
            heard[-1].append(_trial(self, arguments, config, first * 1e3, refusal))
        return taken

    autotuner._bench = bench  # noqa: SLF001
    pruned = autotuner.prune_configs

    def prune_configs(self: Any, named: Mapping[str, Any]) -> Any:
        configs = pruned(self, named)
        if heard and not named.get("warmup"):
            _compile_together(self, configs, named)
        return configs

    autotuner.prune_configs = prune_configs
    setattr(autotuner, _DONE, True)


def _compile_together(tuner: Any, configs: Any, named: Mapping[str, Any]) -> None:
    """Configurations on all cores; who tries one later finds it compiled.

    Most of a compilation is a process of its own. What fails does so again when it is tried.
    """

    def compiled(config: Any) -> None:
        with suppress(Exception):
            given = {**named, **config.all_kwargs(), "warmup": True}
            tuner.fn.run(*tuner.nargs.values(), **given)

    first, *others = configs
    compiled(first)  # makes what all of them share
    with ThreadPoolExecutor(max_workers=max(2, cores())) as pool:
        list(pool.map(compiled, others))


def _trial(tuner: Any, arguments: Any, config: Any, taken_us: float, refusal: str) -> Trial:
    sizes = [tuple(each.shape) if hasattr(each, "shape") else each for each in arguments]
    told = refusal or ("" if taken_us < inf else "it doesn't compile")
    return Trial(
        tuner.base_fn.__name__, repr(sizes), dict(config.kwargs), taken_us, told,
        tuple(dict.fromkeys(assumptions)),
    )  # fmt: skip
