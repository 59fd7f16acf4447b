"""The public face: a device that runs, estimates and checks operators."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from os import PathLike
from typing import TYPE_CHECKING

from npusim.engine import Memo
from npusim.hardware import load_profile, resolve_soc
from npusim.hardware.profile import Profile
from npusim.operators.oracle import check, require_kernel
from npusim.runtime import call as calls
from npusim.runtime.argument_memory import allocate_results
from npusim.runtime.cache_start import MODES, hold_code, new_cache
from npusim.runtime.listening import Heard, is_heard, overridden, tell
from npusim.runtime.stream import Stream, result_of
from npusim.runtime.task import run_tasks
from npusim.values.errors import ArgumentError, UnknownNameError, error_of, expect
from npusim.values.garbage import CollectLater
from npusim.values.takes import takes

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.runtime.call import Executor
    from npusim.runtime.results import Result
    from npusim.values.status import Status


class Device:
    """A simulated chip.

    ``soc_version`` is any of its names (``Ascend910B3``, ``310p3``, ``Atlas 800I A2``), the path
    of a profile, or a profile.

    ``note`` says how an ambiguous name was understood. ``exact`` plays every repetition of every
    loop instead of jumping over the steady state: slower, and equal to within the clock's rounding.
    ``l2`` says what the cache holds when a call starts: ``cold`` nothing, ``warm`` the inputs,
    ``in_graph`` what a task before it in a graph left there. None: what the calls before it on its
    stream left there; on a stream of its own that is nothing. ``memo`` keeps what the device has
    played, 80 MB of it unless given: several devices may share one, and ``Memo(0)`` keeps nothing.
    Raises UnknownNameError for a name, ProfileError for a file that isn't a profile.
    """

    @takes()
    def __init__(
        self,
        soc_version: str | PathLike[str] | Profile,
        *,
        exact: bool = False,
        l2: str | None = None,
        memo: Memo | None = None,
    ) -> None:
        self.note = ""
        self.memo = Memo() if memo is None else memo
        expect(soc_version, (str, PathLike, Profile), "soc_version")
        expect(self.memo, Memo, "memo")
        expect(exact, bool, "exact")
        expect(l2, (str, type(None)), "l2")
        if l2 is not None and l2 not in MODES:
            raise UnknownNameError("state of L2", l2, MODES)
        self.l2 = l2
        if isinstance(soc_version, Profile):
            self.profile = soc_version
        elif isinstance(soc_version, str) and not _is_path(soc_version):
            resolution = resolve_soc(soc_version)
            self.profile, self.note = load_profile(resolution.name), resolution.note or ""
        else:
            self.profile = load_profile(soc_version)
        self.exact = exact

    def __reduce__(self) -> tuple[object, ...]:
        """A copy, in this process or another, is a device alike that has played nothing."""
        return _device_of, (self.profile, self.note, self.exact, self.l2)

    def __repr__(self) -> str:
        return f"Device({self.profile.name!r})"

    @takes()
    def run(self, op: str, /, *, stream: Stream | None = None, **arguments: object) -> Result:
        """Run an operator on arrays: numbers and time.

        Without a ``stream`` of :meth:`create_stream` the call has one of its own. With one, what is
        queued on it runs first, and the call finds in L2 what that and earlier calls left there.

        Arguments are spelled as on the aclnn page, or as in the prototype of an operator type such
        as ``MatMulV3``; outputs may be left out (created) or given (written in place). Raises
        AclnnError where the device would return a code, its NotModelledError where npusim can't
        tell, DeviceFault where the device would stop.
        """
        return self._call(op, arguments, numerics=True, stream=stream)

    @takes()
    def estimate(
        self,
        op: str,
        /,
        *,
        stream: Stream | None = None,
        assume: Mapping[str, float] | None = None,
        **arguments: object,
    ) -> Result:
        """The time of an operator, from shapes alone.

        Tensors are TensorSpec or arrays, nothing is computed. ``stream`` as for :meth:`run`, where
        passing the same TensorSpec object again means the same tensor.

        ``assume`` replaces numbers that are assumed where only data could tell them, e.g.
        ``{"samples_per_bin": 4}``; the result's ``assumptions`` name them. Raises ArgumentError for
        a number that the call doesn't assume.
        """
        with CollectLater():
            return self._call(op, arguments, numerics=False, stream=stream, assume=assume)

    @takes()
    def launch(
        self,
        kernel: type[Kernel],
        /,
        *operands: object,
        block_dim: int | None = None,
        **attributes: object,
    ) -> Result:
        """Launch a kernel of one's own: numbers and time on arrays, time alone on TensorSpec.

        The kernel is made from the chip's profile, a GlobalTensor for each operand, and the
        attributes; it runs on ``block_dim`` blocks, by default one on each core; more than there
        are cores run in rounds. What it writes is in the caller's arrays, and in ``outputs`` by the
        names of its ``__init__``. Raises KernelError for what the chip can't do, ArgumentError for
        operands it doesn't take.
        """
        from npusim.runtime.launch import Launch

        blocks = overridden("block_dim", block_dim)
        task = Launch(kernel, self.profile, operands, blocks, attributes)
        if task.numerics:
            allocate_results(task.kernel)
        mode = self.l2 or "cold"
        cache = new_cache(self.profile, task.kernel.reads, mode, (task.kernel,))
        hold_code(cache, (task.kernel,), mode)
        done = run_tasks(
            (task.kernel,),
            self.profile,
            cache,
            numerics=task.numerics,
            exact=self.exact,
            memo=self.memo,
        )
        size = task.kernel.workspace_bytes
        result = result_of(kernel.op_type, self.profile, done, task.outputs, workspace_size=size)
        if is_heard():
            read, written = task.operands()
            tell(Heard(task.kernel.block_dim, read, written, result))
        return result

    @takes()
    def check(self, op: str, /, **arguments: object) -> Status:
        """Whether the device would accept the call, and if not why and what to do.

        The answer's `verdict` is yes, no (with the device's code) or unknown: not modelled here.
        Also for operators that can only be looked up, not timed; there a dtype does for a tensor.
        Raises UnknownNameError for an operator that nobody knows, ArgumentError for a parameter
        that it doesn't have or that can't be read.
        """
        return check(op, self.profile, arguments)

    @takes()
    def get_workspace_size(self, op: str, /, **arguments: object) -> tuple[int, Executor]:
        """Phase one on arrays: workspace bytes and the executor for :meth:`Stream.execute`.

        Raises AclnnError.
        """
        contract = require_kernel(op, self.profile, arguments)
        return calls.get_workspace_size(contract, self.profile, arguments, numerics=True)

    @takes()
    def create_stream(self) -> Stream:
        """A stream to execute on."""
        return Stream(self.profile, self.exact, self.l2, self.memo)

    def _call(
        self,
        op: str,
        arguments: Mapping[str, object],
        *,
        numerics: bool,
        stream: Stream | None,
        assume: Mapping[str, float] | None = None,
    ) -> Result:
        size, executor = calls.get_workspace_size(
            require_kernel(op, self.profile, arguments),
            self.profile,
            arguments,
            numerics=numerics,
            assume=assume,
        )
        on = stream
        if on is None:  # nobody else has it
            once = self.memo.of_single_calls
            on = Stream(self.profile, self.exact, self.l2, once, nullcontext())
        expect(on, Stream, "stream")
        if on.profile is not self.profile and on.profile != self.profile:
            raise ArgumentError(
                f"the stream belongs to {on.profile.name}, the device is {self.profile.name}",
                "Use a stream of this device's create_stream().",
            )
        with on.lock:
            status = on.execute(bytearray(0), size, executor)
            if not status.ok:
                raise error_of(status)
            result = on.synchronize()[-1]
        if is_heard():
            blocks = max((task.block_dim for task in result.tasks), default=0)
            tell(Heard(blocks, *calls.operands(executor), result))
        return result


def _device_of(profile: Profile, note: str, exact: bool, l2: str | None) -> Device:
    made = Device(profile, exact=exact, l2=l2)
    made.note = note
    return made


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or "/" in text or "\\" in text
