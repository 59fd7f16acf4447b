"""Blocks that run one after the other on the same cores, as one program for each core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from npusim.engine.program import Instruction, Loop, Node, Pipe, Program


def in_rounds(
    blocks: Sequence[Sequence[Program]],
    head: float,
    fetching: float,
    starts: Sequence[float],
    *,
    ahead: Sequence[float] = (),
) -> list[Program]:
    """``blocks`` with ``head`` cycles of the kernel's entry code in front of each, by core.

    A block is the programs of its cores; one after the other run on the same cores. A core waits
    ``fetching`` cycles for the code, its loads ``ahead`` cycles less, whose code comes first. Each
    block begins when the one before it has ended on all pipes of its cores, and the launch has come
    to it: at the cycle in ``starts``, at once where there are none.
    """
    early = [*ahead] or [0.0] * len(blocks[0])
    if not starts:
        return [
            _begun(program, head, fetching, ended=(), ahead=each)
            for program, each in zip(blocks[0], early, strict=True)
        ]
    whole = Program(kernel=blocks[0][0].kernel)  # whose flags all cores of a block have in common
    cores = [replace(whole, body=[]) for _ in blocks[0]]
    gates, ends = _gates(blocks, whole)
    for gate, each in zip(gates, early, strict=True):
        whole.starts[gate[0]] = tuple(start + fetching - each for start in starts)
    for _, group in groupby(blocks, key=lambda block: [id(program) for program in block]):
        rounds = list(group)
        first = len(whole.flags)
        whole.flags += rounds[0][0].flags
        for core, program, gate, end in zip(cores, rounds[0], gates, ends, strict=True):
            begun = _begun(_after(program, whole, first), head, 0.0, ended=gate)
            core.body.append(Loop(len(rounds), [*begun.body, *end]))
    return cores


def _gates(
    blocks: Sequence[Sequence[Program]], whole: Program
) -> tuple[list[tuple[int, ...]], list[list[Instruction]]]:
    """The flags that each core takes before a block, and what sets them at the end of one.

    The first of them is the launch's, the others are those of every pipe of the cores together; the
    scalar unit of a core needs none for itself.
    """
    used = [
        {pipe: None for program in programs for pipe in program.totals().pipes}
        | {Pipe.SCALAR: None}
        for programs in zip(*blocks, strict=True)
    ]
    gates: list[tuple[int, ...]] = []
    ends: list[list[Instruction]] = [[] for _ in used]
    for own in range(len(used)):
        flags = [_flag(whole, 0)]
        for place, pipes in enumerate(used):
            for pipe in pipes:
                if pipe is not Pipe.SCALAR or place != own:
                    flags.append(_flag(whole, 1))
                    if place != own:
                        whole.delays[flags[-1]] = 0.0  # between cores
                    ends[place].append(Instruction(pipe, "", 0.0, sets=(flags[-1],)))
        gates.append(tuple(flags))
    return gates, ends


def _begun(
    program: Program,
    cycles: float,
    fetching: float,
    ended: tuple[int, ...],
    *,
    ahead: float = 0.0,
) -> Program:
    """The program behind its head, which every pipe waits for, and then for ``fetching`` cycles.

    Loads wait ``ahead`` cycles less.
    """
    pipes = {Pipe.SCALAR: None} | dict.fromkeys(program.totals().pipes)
    flags = [_flag(program, 0) for _ in pipes]
    program.delays |= {
        flag: fetching - ahead if pipe is Pipe.MTE2 else fetching
        for pipe, flag in zip(pipes, flags, strict=True)
    }
    head = Instruction(Pipe.SCALAR, "kernel_head", cycles, waits=ended, sets=tuple(flags))
    gates = [
        Instruction(pipe, "", 0.0, waits=(flag,)) for pipe, flag in zip(pipes, flags, strict=True)
    ]
    program.put_first([head, *gates])
    return program


def _flag(program: Program, count: int) -> int:
    program.flags.append(count)
    return len(program.flags) - 1


def _after(program: Program, whole: Program, first: int) -> Program:
    """A copy of ``program`` among the flags of ``whole``, where its own begin at ``first``."""
    whole.names |= {flag + first: name for flag, name in program.names.items()}
    whole.delays |= {flag + first: delay for flag, delay in program.delays.items()}
    return replace(whole, body=[_moved(node, first) for node in program.body])


def _moved(node: Node, first: int) -> Node:
    if isinstance(node, Loop):
        return Loop(node.count, [_moved(each, first) for each in node.body])
    if isinstance(node, Instruction):
        moved = node.copied()
        moved.waits = tuple([flag + first for flag in node.waits])
        moved.sets = tuple([flag + first for flag in node.sets])
        return moved
    return node
