"""The one pass over a kernel's code that yields numbers and instruction streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import host_threads, observer
from npusim.ascendc.block import Block, Storage, units_of
from npusim.ascendc.costs import InstructionCosts
from npusim.ascendc.mistakes import located
from npusim.engine.program import CoreGroup, Instruction, Pipe, Program, Unit
from npusim.engine.schedule import pipes_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc.kernel import Kernel
    from npusim.hardware.profile import Profile


def trace(
    kernel: Kernel, profile: Profile, *, numerics: bool, reference: bool = False
) -> tuple[CoreGroup, ...]:
    """Run a kernel's code once.

    Returns the instruction streams, and leaves the numbers in its tensors.

    Without ``numerics`` only one block of each kind is run. A ``reference`` run takes no shortcut:
    every block is written down by itself, and every iteration of its loops.
    """
    kinds: dict[Hashable, list[int]] = {}
    for block in range(kernel.block_dim):
        kinds.setdefault(block if reference else kernel.block_kind(block), []).append(block)
    first = {blocks[0] for blocks in kinds.values()}
    costs = InstructionCosts(profile)
    wanted = range(kernel.block_dim) if numerics else sorted(first)
    watched = observer.current()
    alone = reference or watched is not None
    parts = host_threads.shares(kernel, wanted, numerics=numerics and not alone)
    if watched is not None:
        watched.begin(kernel)
    running: dict[int, Block] = {}
    for own, part in zip(host_threads.copies(kernel, len(parts)), parts, strict=True):
        storage: dict[Unit, Storage] = {unit: {} for unit in units_of(kernel, profile)}
        for block in part:
            running[block] = Block(
                own,
                costs,
                block,
                storage,
                numerics=numerics,
                recording=block in first,
                reference=reference,
            )
    try:
        host_threads.run(kernel, running, parts)
    except Exception as error:
        found = located(error, kernel.op_type, type(kernel).__module__)
        if found is error:
            raise
        raise found from error
    return tuple(
        CoreGroup(
            tuple(blocks),
            _with_head(core.recorder.program, costs),
            core.unit,
            blocks[0] if kernel.is_mix else None,
        )
        for blocks in kinds.values()
        for core in running[blocks[0]].cores
    )


def _with_head(program: Program, costs: InstructionCosts) -> Program:
    """Put the entry code of every kernel (argument loading, pipe set-up) in front."""
    others = [pipe for pipe in pipes_of(program) if pipe is not Pipe.SCALAR]
    flags = list(range(len(program.flags), len(program.flags) + len(others)))
    program.flags.extend(0 for _ in others)
    head = Instruction(Pipe.SCALAR, "kernel_head", costs.kernel_head(), sets=tuple(flags))
    gates = [
        Instruction(pipe, "", 0.0, waits=(flag,)) for pipe, flag in zip(others, flags, strict=True)
    ]
    program.body = [head, *gates, *program.body]
    return program
