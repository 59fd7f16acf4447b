"""Transfers that never get in each other's way, and so need no clock in common.

Between two barriers, a pipe has at most one transfer under way. Where all pipes together, each with
its largest, can't take more of a resource than there is, nobody ever waits for that resource. A
transfer that uses only such ones takes its bytes over its own ceiling, whoever else moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from npusim.engine.streams import Kind, Step

if TYPE_CHECKING:
    from npusim.engine.state import PipeState


def settle_uncontended(pipes: Sequence[PipeState], bandwidths: Mapping[str, float]) -> None:
    """Turn transfers that are never slowed down by others into cycles of their pipes."""
    phases = [_phases(state.steps) for state in pipes]
    if len({len(each) for each in phases}) > 1:  # barriers in loops
        phases = [[[step for steps in each for step in steps]] for each in phases]
    flags = [state.group.flags.unordered for state in pipes]
    for at_once in zip(*phases, strict=True):
        wanted = dict.fromkeys(bandwidths, 0.0)
        for steps in at_once:
            for name, amount in _most(steps).items():
                wanted[name] += amount
        short = {name for name, amount in wanted.items() if amount > bandwidths[name]}
        for steps, unordered in zip(at_once, flags, strict=True):
            for step in steps:
                _settle(step, short, unordered)


def _settle(step: Step, short: AbstractSet[str], unordered: AbstractSet[int]) -> None:
    claim = step.claim
    if claim is None or not claim.uses.isdisjoint(short):
        return
    if unordered and not unordered.isdisjoint((*step.waits, *(flag for flag, _ in step.sets))):
        return  # such flags are taken in the order of time
    step.cycles += step.bus_bytes / claim.ceiling
    step.claim = None


def _phases(steps: Sequence[Step]) -> list[list[Step]]:
    """The transfers of a pipe from barrier to barrier; all in one where barriers are in loops."""
    phases: list[list[Step]] = [[]]
    depth = 0
    for step in steps:
        if step.claim is not None:
            phases[-1].append(step)
        elif step.kind is Kind.MEET:
            if depth:
                return [[each for each in steps if each.claim is not None]]
            phases.append([])
        else:
            depth += (step.kind is Kind.ENTER) - (step.kind is Kind.TURN)
    return phases


def _most(steps: Sequence[Step]) -> dict[str, float]:
    """The most that one of these transfers takes of each resource."""
    most: dict[str, float] = {}
    for claim in {step.claim: None for step in steps}:
        for name, amount in claim.most if claim is not None else ():
            most[name] = max(most.get(name, 0.0), amount)
    return most
