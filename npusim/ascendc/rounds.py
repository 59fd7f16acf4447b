"""The blocks that one core runs, one after the other, as one program: each begins with its head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from npusim.engine.program import Instruction, Loop, Node, Pipe, Program
from npusim.engine.schedule import pipes_of


def in_rounds(
    programs: Sequence[Program],
    head: float,
    fetching: float,
    starts: Sequence[float],
    *,
    ahead: float = 0.0,
) -> Program:
    """``programs`` with ``head`` cycles of the kernel's entry code in front of each.

    The core waits ``fetching`` cycles for the code, its loads ``ahead`` cycles less, whose code
    comes first. Each program begins when the one before it has
    ended on all pipes of the core, and the launch has come to it: at the cycle in ``starts``, at
    once where there are none.
    """
    first = programs[0]
    if not starts:
        return _begun(first, head, fetching, ended=(), ahead=ahead)
    used = {pipe: None for program in programs for pipe in pipes_of(program)}
    joined = Program(kernel=first.kernel)
    launched = _flag(joined, 0)
    joined.starts[launched] = tuple(start + fetching - ahead for start in starts)
    ended = {pipe: _flag(joined, 1) for pipe in used if pipe is not Pipe.SCALAR}
    for _, group in groupby(programs, key=id):
        rounds = list(group)
        begun = _begun(_after(rounds[0], joined), head, 0.0, ended=(launched, *ended.values()))
        joined.flags[len(joined.flags) :] = begun.flags[len(joined.flags) :]
        ends = [Instruction(pipe, "", 0.0, sets=(flag,)) for pipe, flag in ended.items()]
        joined.body.append(Loop(len(rounds), [*begun.body, *ends]))
    return joined


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
    pipes = {Pipe.SCALAR: None} | dict.fromkeys(pipes_of(program))
    flags = [_flag(program, 0) for _ in pipes]
    program.delays |= {
        flag: fetching - ahead if pipe is Pipe.MTE2 else fetching
        for pipe, flag in zip(pipes, flags, strict=True)
    }
    head = Instruction(Pipe.SCALAR, "kernel_head", cycles, waits=ended, sets=tuple(flags))
    gates = [
        Instruction(pipe, "", 0.0, waits=(flag,)) for pipe, flag in zip(pipes, flags, strict=True)
    ]
    program.body = [head, *gates, *program.body]
    return program


def _flag(program: Program, count: int) -> int:
    program.flags.append(count)
    return len(program.flags) - 1


def _after(program: Program, joined: Program) -> Program:
    """A copy of ``program`` whose flags follow those of ``joined``."""
    first = len(joined.flags)
    joined.names |= {flag + first: name for flag, name in program.names.items()}
    return Program(
        [_moved(node, first) for node in program.body],
        [*joined.flags, *program.flags],
        kernel=program.kernel,
    )


def _moved(node: Node, first: int) -> Node:
    if isinstance(node, Loop):
        return Loop(node.count, [_moved(each, first) for each in node.body])
    if isinstance(node, Instruction):
        waits, sets = (tuple(flag + first for flag in each) for each in (node.waits, node.sets))
        return replace(node, waits=waits, sets=sets)
    return node
