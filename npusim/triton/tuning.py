"""What `triton.autotune` tries: every configuration with its time, or why it doesn't run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from npusim.runtime.ranking import Ranked
from npusim.triton.programs import triton_on_npu
from npusim.triton.trials import Trial, heard

if TYPE_CHECKING:
    from npusim.runtime.device import Device


@dataclass(frozen=True, slots=True)
class Tuned:
    """A kernel's configurations, fastest first, for each set of arguments that it was tuned for."""

    kernel: str
    arguments: str
    ranked: tuple[Ranked, ...]
    settings: tuple[Mapping[str, Any], ...]  # of those that run, in their order


@contextmanager
def listening() -> Iterator[list[Trial]]:
    """All configurations that are tried inside."""
    found: list[Trial] = []
    heard.append(found)
    try:
        yield found
    finally:
        heard.pop()


def tune(program: str, words: Sequence[str], device: Device) -> tuple[int, list[Tuned]]:
    """Runs a program; its exit code, and what its autotuned kernels tried.

    Configurations are timed without numbers.
    """
    from npusim.pyasc.running import run_program

    with listening() as trials:
        code, _ = run_program((program, *words), device, triton_on_npu)
    groups: dict[tuple[str, str], list[Trial]] = {}
    for each in trials:
        groups.setdefault((each.kernel, each.arguments), []).append(each)
    return code, [_ranked(*key, trials) for key, trials in groups.items()]


def _ranked(kernel: str, arguments: str, trials: list[Trial]) -> Tuned:
    ordered = sorted(trials, key=lambda each: each.duration_us)
    ranked = tuple(
        Ranked(each.told, each.duration_us, each.refusal, each.assumptions) for each in ordered
    )
    settings = tuple(each.settings for each in ordered if each.duration_us < inf)
    return Tuned(kernel, arguments, ranked, settings)


def prune_file(tuned: Sequence[Tuned], keep: int) -> str:
    """A Python module with ``prune_configs_by`` for each kernel: its ``keep`` fastest."""
    fastest: dict[str, list[dict[str, Any]]] = {}
    for each in tuned:
        kept = fastest.setdefault(each.kernel, [])
        kept += [dict(one) for one in each.settings[:keep] if dict(one) not in kept]
    listed = "".join(
        f"    {name!r}: [\n{''.join(f'        {one!r},{chr(10)}' for one in kept)}    ],\n"
        for name, kept in fastest.items()
    )
    return f'''"""The fastest configurations that npusim found.

@triton.autotune(configs=..., key=..., prune_configs_by=prune_configs_by("kernel"))
"""

FASTEST = {{
{listed}}}


def prune_configs_by(kernel):
    """Leaves the fastest ones to be tried on the card; all, where none of them is among them."""

    def early_config_prune(configs, named_args, **kwargs):
        return [each for each in configs if each.kwargs in FASTEST[kernel]] or configs

    return {{"early_config_prune": early_config_prune}}
'''
