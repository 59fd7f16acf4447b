"""The one pass over a kernel's code that yields numbers and instruction streams."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc import host_threads, observer
from npusim.ascendc.block import Block, SharedBlock, Storage, units_of
from npusim.ascendc.cluster import Progress
from npusim.ascendc.costs import InstructionCosts
from npusim.ascendc.issuing import add_issue
from npusim.ascendc.mistakes import is_shipped, told
from npusim.ascendc.rounds import in_rounds
from npusim.engine import ALL_LOST, block_cycles
from npusim.engine.program import CoreGroup, Instruction, Loop, Pipe, Program, Unit, fingerprint
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.chains import Engine
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.queueing import Queue
    from npusim.engine import Code
    from npusim.engine.program import Node
    from npusim.hardware.profile import Profile

_WORTH_COMPILING_BYTES = 1 << 26  # of tensors: below, compiling takes longer than it saves
_MOST_CYCLES = 2.0**53  # of a core: beyond, double precision skips some

Work = dict[str, tuple[int, int]]  # instructions and bytes by what they are


def trace(
    kernel: Kernel,
    profile: Profile,
    *,
    numerics: bool,
    reference: bool = False,
    code: Code = ALL_LOST,
) -> tuple[CoreGroup, ...]:
    """Run a kernel's code once.

    Returns the instruction streams, and leaves the numbers in its tensors.

    Without ``numerics`` only one block of each kind is run. A ``reference`` run takes no shortcut:
    every block is written down by itself, and every iteration of its loops. ``code`` says
    where its code is.
    """
    reference = reference or kernel.literal
    if not numerics and not reference and (found := _apart(kernel, profile, code)) is not None:
        return found
    kinds: dict[Hashable, list[int]] = {}
    for block in range(kernel.block_dim):
        kinds.setdefault(block if reference else kernel.block_kind(block), []).append(block)
    first = [blocks[0] for blocks in kinds.values()]
    last = [blocks[-1] for blocks in kinds.values()] if numerics else []
    costs = InstructionCosts(profile, for_any_shape=_for_any_shape(kernel, code))
    wanted = range(kernel.block_dim) if numerics else sorted(first)
    recorded = {*first, *last}
    running = _run(kernel, costs, wanted, recorded, numerics=numerics, reference=reference)
    if numerics and not reference:  # where data decides what is done, a reference run follows it
        _compare_blocks(kernel, running, kinds)
    if kernel.literal or len(kinds) > _cores_for(kernel, profile):
        kinds = _alike(kinds, running)
    groups = _groups(kernel, profile, costs, kinds, running, code=code)
    _refuse_endless(kernel, groups)
    _let_go(running)
    return groups


def _apart(kernel: Kernel, profile: Profile, code: Code) -> tuple[CoreGroup, ...] | None:
    """The streams of a kernel whose cores meet in ``sync_all`` alone, each kind of core run once.

    None for others, and for launches of more blocks than there are cores.
    """
    units = units_of(kernel, profile)
    alone = len(units) == 1 or observer.current() is not None
    if alone or kernel.unit_kind(0, units[0]) is None:
        return None
    if kernel.block_dim > _cores_for(kernel, profile):
        return None
    kinds: dict[tuple[str, Hashable], dict[Unit, list[int]]] = {}
    for unit in units:
        for block in range(kernel.block_dim):
            alike = kinds.setdefault((unit.kind, kernel.unit_kind(block, unit)), {})
            alike.setdefault(unit, []).append(block)
    costs = InstructionCosts(profile, for_any_shape=_for_any_shape(kernel, code))
    running: dict[int, Block] = {}
    for number, alike in enumerate(kinds.values()):
        unit, blocks = next(iter(alike.items()))
        running[number] = Block(
            kernel, costs, blocks[0], {unit: {}}, numerics=False, recording=True, reference=False
        )
    with told(kernel.op_type, shipped=is_shipped(type(kernel))):
        host_threads.run(kernel, running, [range(len(running))], numerics=False)
    played = [*running.values()]
    begins = _beginning(kernel, profile, costs, played, code=code)
    groups = []
    for number, alike in enumerate(kinds.values()):
        program = running[number].cores[0].recorder.program
        (joined,) = in_rounds([[program]], *begins.head, (), ahead=[begins.ahead(program)])
        for unit, blocks in alike.items():
            groups.append(CoreGroup(tuple(blocks), joined, unit, (number, unit)))
    _refuse_endless(kernel, groups)
    _let_go(running)
    return tuple(groups)


def is_separable(kernel: Kernel) -> bool:
    """Whether what a kernel of ours does and its numbers may be found one after the other."""
    return not kernel.literal and observer.current() is None


def compute(kernel: Kernel, profile: Profile) -> None:
    """Run a kernel's code for the numbers alone, and leave them in its tensors."""
    kernel, costs = kernel.for_numbers(), InstructionCosts(profile)
    blocks = range(kernel.block_dim)
    _let_go(_run(kernel, costs, blocks, set(), numerics=True, reference=False))


def _run(
    kernel: Kernel,
    costs: InstructionCosts,
    wanted: Sequence[int],
    recorded: set[int],
    *,
    numerics: bool,
    reference: bool,
) -> dict[int, Block]:
    """Run some blocks, of which those ``recorded`` are written down."""
    watched = observer.current()
    alone = reference or watched is not None
    parts = host_threads.shares(kernel, wanted, numerics=numerics and not alone)
    if watched is not None:
        watched.begin(kernel)
    running: dict[int, Block] = {}
    engine = _engine(kernel) if numerics and not reference else None
    with host_threads.spread(kernel, engine) as engine:
        for own, part in zip(host_threads.copies(kernel, len(parts)), parts, strict=True):
            storage: dict[Unit, Storage] = {unit: {} for unit in units_of(kernel, costs.profile)}
            together = numerics and kernel.independent and not alone
            progress = Progress(part[-1]) if together else None
            for block in part:
                spared = kernel.shares_all and block not in recorded
                running[block] = (SharedBlock if spared else Block)(
                    own,
                    costs,
                    block,
                    storage,
                    numerics=numerics,
                    recording=block in recorded,
                    reference=reference,
                    engine=engine,
                    progress=progress,
                )
        with told(kernel.op_type, shipped=is_shipped(type(kernel))):
            host_threads.run(kernel, running, parts, numerics=numerics)
    return running


def _let_go(running: Mapping[int, Block]) -> None:
    for core in (core for block in running.values() for core in block.cores):
        core.let_go()


def _refuse_endless(kernel: Kernel, groups: Sequence[CoreGroup]) -> None:
    """Raise KernelError where no clock tells one cycle from the next any more."""
    for group in groups:
        cycles = group.program.totals().cycles
        if cycles > _MOST_CYCLES:
            reason = f"its cores would be busy for {cycles:.0e} cycles, and a clock counts 2^53"
            raise KernelError(kernel.op_type, reason)


def _groups(
    kernel: Kernel,
    profile: Profile,
    costs: InstructionCosts,
    kinds: Mapping[Hashable, Sequence[int]],
    running: Mapping[int, Block],
    *,
    code: Code,
) -> tuple[CoreGroup, ...]:
    """What the cores do, by the blocks that have been run, one of each kind."""
    apart = _cores_for(kernel, profile)
    each = block_cycles(profile)
    busy = _last_with_work(kinds, running)
    played = [running[blocks[0]] for blocks in kinds.values()]
    begins = _beginning(kernel, profile, costs, played, code=code)
    found: list[CoreGroup] = []
    for rounds, cores in _rounds(kernel, kinds, apart).items():
        programs = [[core.recorder.program for core in running[block].cores] for block in rounds]
        joined = in_rounds(
            programs,
            *begins.head,
            [each * block for block in _late(kernel, cores, apart, busy)],
            ahead=[begins.ahead(program) for program in programs[0]],
        )
        cluster = cores[0] if kernel.is_mix else None
        for core, program in zip(running[rounds[0]].cores, joined, strict=True):
            found.append(CoreGroup(cores, program, core.unit, cluster))
    return tuple(found)


def _for_any_shape(kernel: Kernel, code: Code) -> bool:
    """Whether code learns of shapes when it runs: those whose names end with D (but 2D) know."""
    stem, last = kernel.op_type[:-1], kernel.op_type[-1:]
    return not (code.one_shape or (last == "D" and not stem[-1:].isdigit()))


class _Beginning(NamedTuple):
    """What cores do before their own code: cycles of its head, and until the code is there."""

    head: tuple[float, float]
    early: Mapping[int, float]  # cycles that loads wait in a queue, by program

    def ahead(self, program: Program) -> float:
        """How much earlier than the code its loads begin to wait."""
        return min(self.early.get(id(program), 0.0), self.head[1])


def _beginning(
    kernel: Kernel,
    profile: Profile,
    costs: InstructionCosts,
    played: Sequence[Block],
    *,
    code: Code,
) -> _Beginning:
    """How the cores of a launch begin; what its scalar units issue is written down."""
    apart = _cores_for(kernel, profile)
    _issue(played, costs)
    one_shape = not costs.for_any_shape or profile.software.compiled_for_shape
    told = kernel.cores == "cube" or (one_shape and kernel.generated)  # sizes, by its code
    blocks = min(kernel.block_dim, apart)
    reserved = max(core.pipe.reserved for block in played for core in block.cores)
    head = costs.kernel_head(
        tiling_of=0 if told else blocks,
        buffers=reserved if kernel.chooses else 0,
        prepares=(kernel.hard_sync and costs.for_any_shape)
        or (kernel.finds_axes and not code.one_shape),
        guarded=kernel.guarded,
        begins_us=kernel.begins_us,
    )
    fetching = costs.code_fetch(
        blocks,
        code=code,
        fits=not kernel.chooses,
        many_variants=kernel.many_variants and costs.for_any_shape,
        mix=kernel.is_mix,
    )
    queue = costs.code_queue(kernel.block_dim, code=code, fits=not kernel.chooses)
    in_turns = kernel.block_dim > apart  # most blocks come when the code has long been there
    return _Beginning((head, fetching), _queue(played, None if in_turns else queue))


def _rounds(
    kernel: Kernel, kinds: Mapping[Hashable, Sequence[int]], apart: int
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Which cores do alike blocks one after the other, by the first blocks of those kinds.

    A launch of more blocks than there are cores, ``apart``, goes in rounds.
    """
    if kernel.block_dim <= apart:
        return {(blocks[0],): tuple(blocks) for blocks in kinds.values()}
    kind = {block: blocks[0] for blocks in kinds.values() for block in blocks}
    found: dict[tuple[int, ...], list[int]] = {}
    for core in range(apart):
        rounds = tuple(kind[block] for block in range(core, kernel.block_dim, apart))
        found.setdefault(rounds, []).append(core)
    return {rounds: tuple(members) for rounds, members in found.items()}


def _cores_for(kernel: Kernel, profile: Profile) -> int:
    """How many blocks of a kernel run at once."""
    cube = kernel.is_mix or kernel.cores == "cube"
    return profile.cores.cube_cores if cube else profile.cores.vector_cores


def _alike(
    kinds: Mapping[Hashable, Sequence[int]], running: Mapping[int, Block]
) -> dict[Hashable, list[int]]:
    """Blocks whose cores have been given the same instructions."""
    found: dict[Hashable, list[int]] = {}
    for blocks in kinds.values():
        programs = (core.recorder.program for core in running[blocks[0]].cores)
        found.setdefault(tuple(map(fingerprint, programs)), []).extend(blocks)
    return {told: sorted(blocks) for told, blocks in found.items()}


def _issue(blocks: Iterable[Block], costs: InstructionCosts) -> None:
    """Write down what the scalar unit does for every instruction of other pipes."""
    if each := costs.issue():
        for program in (core.recorder.program for block in blocks for core in block.cores):
            add_issue(program.body, each)


def _queue(blocks: Iterable[Block], queue: Queue | None) -> dict[int, float]:
    """Let the first transfers of every core wait in a queue; how long loads do, by program."""
    found: dict[int, float] = {}
    if queue is not None:
        for program in (core.recorder.program for block in blocks for core in block.cores):
            found[id(program)] = queue.hold_up(program)
    return found


def _engine(kernel: Kernel) -> Engine:
    """What computes chains of steps; machine code where that makes up for compiling it."""
    from npusim.ascendc import blockwise, machine_code  # estimates compute nothing

    nbytes = sum(tensor.nbytes for tensor in (*kernel.reads, *kernel.writes))
    compiles = nbytes >= _WORTH_COMPILING_BYTES and machine_code.is_available()
    return machine_code.run if compiles else blockwise.run


def _last_with_work(kinds: Mapping[Hashable, Sequence[int]], running: Mapping[int, Block]) -> int:
    """The last block that uses more of its cores than the scalar unit."""
    last = {blocks[-1]: running[blocks[0]].cores for blocks in kinds.values()}
    busy = [
        block
        for block, cores in last.items()
        if any(_works(core.recorder.program.body) for core in cores)
    ]
    return max(busy, default=max(last))


def _works(nodes: Sequence[Node]) -> bool:
    for node in nodes:
        if isinstance(node, Loop):
            if _works(node.body):
                return True
        elif isinstance(node, Instruction) and node.pipe is not Pipe.SCALAR:
            return True
    return False


def _late(kernel: Kernel, cores: Sequence[int], apart: int, busy: int) -> Sequence[int]:
    """How many blocks the launch hands out from its zero to the rounds of some cores.

    None if they are there at zero: that is when the last block with work, ``busy``, is handed out,
    or, of a launch in rounds, the first block.
    """
    if kernel.block_dim > apart:
        return range(cores[-1], kernel.block_dim, apart)
    if kernel.is_mix:
        return ()
    return (cores[-1] - busy,) if cores[0] > busy else ()


def _compare_blocks(
    kernel: Kernel, running: Mapping[int, Block], kinds: Mapping[Hashable, Sequence[int]]
) -> None:
    """Refuse blocks that the kernel calls alike and that did not do the same."""
    for first, *_, other in (blocks for blocks in kinds.values() if len(blocks) > 1):
        expected, found = _work(running[first]), _work(running[other])
        if found != expected:
            raise KernelError(
                kernel.op_type,
                f"block_kind calls blocks {first} and {other} alike, but {other} did "
                f"{_summed(found)} and {first} {_summed(expected)}",
                "Return something from block_kind that tells them apart, e.g. how much each "
                "has to do; without block_kind every block is timed by itself.",
            )


def _work(block: Block) -> Work:
    """Instructions and bytes of a block by core, pipe and name; addresses and cycles don't count.

    Cycles depend on where rows begin in a line of L2, so alike blocks may differ a little.
    """
    counted: Work = {}
    for core in block.cores:
        for instruction, times in core.recorder.program.instructions():
            key = f"{instruction.name} on {instruction.pipe} of the {core.unit}"
            count, nbytes = counted.get(key, (0, 0))
            moved = instruction.transfer.payload_bytes if instruction.transfer else 0
            if instruction.name:
                counted[key] = (count + times, nbytes + moved * times)
    return counted


def _summed(work: Work) -> str:
    """Instructions and bytes in a few words."""
    count = sum(number for number, _ in work.values())
    return f"{count} instructions with {sum(nbytes for _, nbytes in work.values())} bytes"
