"""The physics of a call, whatever the operator: how its time and its numbers come about.

Every function takes a chip (a profile or its name), an operator, and arguments as for
``Device.run``. Arrays may be given everywhere; what asks about time alone looks at their shapes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from npusim import Device, Result, TensorSpec
from npusim.ascendc import Kernel
from npusim.engine import Pipe
from npusim.hardware import Profile, load_profile
from support import digests
from support.closeness import assert_close
from support.one_pass import in_one_pass
from support.spying import TaskWatch, watching

Arguments = Mapping[str, Any]
Chip = Profile | str

OTHER_HASH_SEED = "4242"
ROUNDING_CYCLES = 1.0  # what a float clock and the rounding to whole cycles explain
FLOAT_BYTES = 4


def profile_of(chip: Chip) -> Profile:
    """The profile itself, or the one of that name."""
    return load_profile(chip) if isinstance(chip, str) else chip


def shapes_only(arguments: Arguments) -> dict[str, Any]:
    """The arguments with every array replaced by its description."""
    return {
        name: TensorSpec.of(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


def estimate(chip: Chip, op: str, arguments: Arguments, *, exact: bool = False) -> Result:
    """The time of a call from its shapes."""
    return Device(profile_of(chip), exact=exact).estimate(op, **shapes_only(arguments))


def core_cycles(result: Result) -> float:
    """Cycles of all tasks without their launches."""
    return sum(task.cycles * (1 - task.launch_us / task.duration_us) for task in result.tasks)


# -- other chips ---------------------------------------------------------------------------------


def with_cores(chip: Chip, count: int) -> Profile:
    """The chip with ``count`` vector cores (and cube cores in proportion), otherwise as it is."""
    profile = profile_of(chip)
    cores = profile.cores
    share = count / cores.vector_cores
    fewer = cores.model_copy(
        update={
            "vector_cores": count,
            "cube_cores": max(1, ceil(cores.cube_cores * share)),
            "ai_cores": max(1, ceil(cores.ai_cores * share)),
        }
    )
    return profile.model_copy(update={"cores": fewer})


def with_ub(chip: Chip, nbytes: int) -> Profile:
    """The chip with a unified buffer of ``nbytes`` bytes."""
    profile = profile_of(chip)
    return profile.model_copy(
        update={"buffers": profile.buffers.model_copy(update={"ub_bytes": nbytes})}
    )


@contextmanager
def queue_depth(depth: int) -> Iterator[None]:
    """All kernels with queues of ``depth`` slots."""
    classes = [Kernel]
    for each in classes:
        classes.extend(each.__subclasses__())
    patches = [
        patch.object(each, "buffer_num", depth)
        for each in dict.fromkeys(classes)
        if "buffer_num" in vars(each)
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


# -- time ----------------------------------------------------------------------------------------


def compulsory_bytes(arguments: Arguments, result: Result | None = None) -> int:
    """Bytes of all tensors among the arguments: what any implementation has to move."""
    specs = (value for value in shapes_only(arguments).values() if isinstance(value, TensorSpec))
    named = sum(min(spec.nbytes, spec.storage_bytes) for spec in specs)
    if result is not None and result.outputs is not None:
        named += sum(
            array.nbytes for name, array in result.outputs.items() if arguments.get(name) is None
        )
    return named


def roofline_us(profile: Profile, nbytes: float, vector_work: Mapping[str, float]) -> float:
    """The least time for ``nbytes`` of traffic and ``vector_work`` (float32 elements by name)."""
    memory = profile.memory
    both_ways_gbps = memory.l2_gbps * (1 + memory.l2_write_fraction)
    memory_us = nbytes / (max(memory.hbm_nominal_gbps, both_ways_gbps) * 1e3)
    lanes = profile.vector.repeat_bytes / FLOAT_BYTES
    cycles = sum(
        elements / lanes * profile.vector.instructions[name]["float32"].cycles_per_repeat
        for name, elements in vector_work.items()
    )
    vector_us = cycles / profile.cores.vector_cores / profile.clock_mhz
    return max(memory_us, vector_us)


def l2_us(profile: Profile, read_bytes: float, written_bytes: float) -> float:
    """The least time for traffic that the L2 serves, which it reads and writes at the same time."""
    memory = profile.memory
    writing_gbps = memory.l2_gbps * memory.l2_write_fraction
    return max(read_bytes / memory.l2_gbps, written_bytes / writing_gbps) / 1e3


def assert_above_roofline(
    chip: Chip, op: str, arguments: Arguments, vector_work: Mapping[str, float] | None = None
) -> None:
    """No task is faster than its traffic, no call faster than its tensors and arithmetic allow."""
    profile, result = profile_of(chip), estimate(chip, op, arguments)
    for task in result.tasks:
        least = l2_us(profile, task.bytes_read, task.bytes_written)
        assert task.duration_us - task.launch_us >= least, (
            f"{task.name} on {profile.name} moves its bytes faster than the chip can"
        )
        assert all(0 <= ratio <= 1 + 1e-9 for ratio in task.pipes.values()), task.pipes
    least = roofline_us(profile, compulsory_bytes(arguments), vector_work or {})
    assert result.duration_us >= least, f"{result.duration_us} us, the roofline is {least} us"


def assert_larger_is_not_faster(
    chip: Chip, op: str, growing: Iterable[Arguments], *, slack: float = 0.0, kernel: str = ""
) -> None:
    """Each call takes at least as long as the one before it, less a share of ``slack``.

    With a ``kernel`` its tasks alone do: others may have a tiling for larger shapes that is better.
    """
    before = 0.0
    for arguments in growing:
        tasks = estimate(chip, op, arguments).tasks
        now = sum(task.duration_us for task in tasks if kernel in ("", task.name))
        assert now > 0
        assert now >= before * (1 - slack), f"{op}: {before} us, then {now} us for more elements"
        before = now


def assert_double_buffering_helps(chip: Chip, op: str, arguments: Arguments) -> float:
    """Queues of depth two are never slower than of depth one; returns how many times faster.

    But for 0.1 %: a load ahead shares the memory with a store, which then ends some cycles later
    (910A, one image of 120 channels of 547 in float32: 53 of 89,486).
    """
    double = estimate(chip, op, arguments)
    with queue_depth(1):
        single = estimate(chip, op, arguments)
    assert [task.name for task in single.tasks] == [task.name for task in double.tasks]
    assert double.cycles <= 1.001 * single.cycles + ROUNDING_CYCLES * len(double.tasks), (
        f"{op}: {double.cycles} cycles with depth two, {single.cycles} with depth one"
    )
    return single.cycles / double.cycles


def assert_more_cores_help(
    chip: Chip, op: str, arguments: Arguments, counts: Sequence[int], *, launches: bool = False
) -> None:
    """The cores' time never grows with their number, for work that all of ``counts`` divide.

    But for their wait for code: all read the same lines of it, one after the other.
    With ``launches`` the launch counts as well, which costs more for more cores: for much work,
    which may take that longer, and 0.1 %, where fewer cores keep memory busy already.
    """
    times = []
    for count in sorted(counts):
        result = estimate(with_cores(chip, count), op, arguments)
        times.append(float(result.cycles) if launches else core_cycles(result))
    launch, clock = with_cores(chip, 1).launch, with_cores(chip, 1).clock_mhz
    steps = zip(sorted(counts), sorted(counts)[1:], times[:-1], times[1:], strict=False)
    for fewer, count, before, now in steps:
        each = launch.code_per_block_us + launch.variants_per_block_us
        each += launch.per_block_us if launches else 0.0
        waiting = (count - fewer) * each * clock
        slack = (ROUNDING_CYCLES + waiting) * len(result.tasks)
        assert now <= before * (1 + (1e-3 if launches else 1e-9)) + slack, (
            f"{op}: {now} cycles on {count} cores, {before} on fewer"
        )


def assert_players_agree(chip: Chip, op: str, arguments: Arguments) -> None:
    """The compiled player ends at the cycle at which SimPy ends."""
    compiled = estimate(chip, op, arguments)
    played = estimate(chip, op, arguments, exact=True)
    for one, other in zip(compiled.tasks, played.tasks, strict=True):
        assert abs(one.cycles - other.cycles) <= ROUNDING_CYCLES, (
            f"{one.name}: {one.cycles} cycles compiled, {other.cycles} in SimPy"
        )


def assert_time_needs_no_data(chip: Chip, op: str, arguments: Arguments) -> Result:
    """A run on arrays and an estimate from shapes give one timeline; returns the run."""
    with in_one_pass():
        run = Device(profile_of(chip)).run(op, **arguments)
    assert digests.digest(run) == digests.digest(estimate(chip, op, arguments))
    return run


def assert_same_in_another_process(calls: Iterable[tuple[str, str, Arguments]]) -> None:
    """Calls (chip, operator, arguments) give the same timeline whatever the seed of hashes."""
    listed = [
        {"soc": soc, "op": op, "arguments": _spelled(arguments)} for soc, op, arguments in calls
    ]
    here = digests.digests(listed)
    done = subprocess.run(
        [sys.executable, str(Path(digests.__file__))],
        input=json.dumps(listed),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": OTHER_HASH_SEED},
    )
    assert json.loads(done.stdout) == here, (
        f"another timeline with PYTHONHASHSEED={OTHER_HASH_SEED}"
    )


def _spelled(arguments: Arguments) -> dict[str, Any]:
    def spell(value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return f"{value.dtype.name}[{','.join(map(str, value.shape))}]"
        return list(value) if isinstance(value, tuple) else value

    return {name: spell(value) for name, value in shapes_only(arguments).items()}


# -- numbers -------------------------------------------------------------------------------------


def assert_written_once(chip: Chip, op: str, arguments: Arguments) -> Result:
    """Every element of every output is stored exactly once, and nothing beside it; returns the run.

    Sums are added into elements that the same call has stored before. Intermediate tensors are
    covered as well.
    """
    with watching() as watches:
        result = Device(profile_of(chip)).run(op, **arguments)
    assert result.outputs is not None
    for watch in watches:
        name = watch.kernel.op_type
        assert not watch.overwritten_sums, f"{name} stores over sums in {watch.overwritten_sums}"
        for tensor in watch.kernel.writes:
            assert_covered(watch, watches, tensor)
    return result


def assert_covered(watch: TaskWatch, watches: Sequence[TaskWatch], tensor: Any) -> None:
    """One task's output: no element stored twice, each stored by it or by an earlier task."""
    name = f"{tensor.buffer.name} of {watch.kernel.op_type}"
    stored = watch.of_tensor(watch.writes, tensor)
    assert stored.max(initial=0) <= 1, f"{name}: an element is stored {stored.max()} times"
    earlier = watches[: watches.index(watch)]
    before = sum(each.of_tensor(each.writes, tensor) for each in earlier)
    assert (stored + before >= 1).all(), f"{name}: an element is never stored"
    beside = watch.writes.get(tensor.buffer.number)
    if beside is not None:
        assert beside.sum() == stored.sum(), f"{name}: elements beside the tensor are stored to"


def assert_numbers_pay_for_themselves(
    chip: Chip, op: str, arguments: Arguments, *, tolerance: float = 0.0
) -> list[TaskWatch]:
    """The bytes that the numbers came by are the bytes in the timeline, and they came tile by tile.

    Returns what was watched, task by task.
    """
    profile = profile_of(chip)
    with watching() as watches:
        result = Device(profile).run(op, **arguments)
    assert [watch.kernel.op_type for watch in watches] == [task.name for task in result.tasks]
    for watch, task in zip(watches, result.tasks, strict=True):
        for moved, paid in (
            (watch.bytes_read, task.bytes_read),
            (watch.bytes_written, task.bytes_written),
        ):
            assert abs(moved - paid) <= tolerance * paid, (
                f"{task.name}: the numbers moved {moved} bytes, the timeline has {paid}"
            )
        assert watch.largest_tile_bytes <= profile.buffers.ub_bytes, (
            f"{task.name}: a tile too large"
        )
    return watches


def assert_tiling_changes_no_number(
    profiles: Iterable[Profile], op: str, arguments: Arguments, *, rtol: float, atol: float
) -> None:
    """Other numbers of cores and buffer sizes give the same outputs, up to the order of sums."""
    first: Mapping[str, Any] | None = None
    for profile in profiles:
        outputs = Device(profile).run(op, **arguments).outputs
        assert outputs is not None
        if first is None:
            first = {name: array.copy() for name, array in outputs.items()}
        for name, array in outputs.items():
            assert_close(array, first[name], rtol=rtol, atol=atol, what=name)


def busy_pipes(result: Result) -> set[Pipe]:
    """The pipes that any task uses."""
    return {Pipe(name) for task in result.tasks for name, ratio in task.pipes.items() if ratio}
