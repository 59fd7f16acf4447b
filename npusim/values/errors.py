"""The error tree: everything that npusim raises because of what a user asked for.

::

    NpusimError
    |-- UsageError                  exit 2: the question is put wrongly
    |   |-- UnknownNameError        a chip, operator, parameter ... that doesn't exist
    |   |-- ArgumentError           a value of the wrong kind or size
    |   |-- DTypeError              a dtype we don't know
    |   |-- FileError               a file that is missing or can't be read
    |   |-- ProfileError            a key of a hardware profile with a wrong value
    |   `-- OutputExistsError       we would overwrite something
    |-- HostMemoryError             exit 1: more memory than this machine has
    `-- RejectedError               exit 1: a proper question whose answer is no
        |-- AclnnError              an aclnn call returned a code other than 0
        |   `-- NotModelledError    exit 3: npusim can't tell what the call would return
        |-- KernelError             a kernel does what the chip can't, or what npusim doesn't model
        |   |-- RefusedTaskError    what the operator itself refuses, on every chip
        |   |-- UnsaidError         a profiler's record leaves out what decides the time
        |   |-- BufferOverflowError
        |   |-- UnsupportedIntrinsicError
        |   |-- AlignmentError
        |   |-- TileStateError      a tile or buffer used out of turn
        |   |-- KernelCodeError     an exception of Python in a kernel's own code
        |   `-- DeadlockError
        `-- DeviceFault             the device raised an exception while it ran
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ClassVar

from npusim.values.language import say
from npusim.values.status import Verdict, code_name
from npusim.values.suggest import did_you_mean, near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from npusim.values.status import Status


class NpusimError(Exception):
    """Base of the tree: `message` says what is wrong, `remedy` what to type instead."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The subclasses take other arguments than the message, so pickling (worker processes of a
        # sweep hand errors back this way) restores the attributes and doesn't call __init__.
        return _restore, (type(self), self.args, self.__dict__.copy())


def _restore(kind: type[NpusimError], args: tuple[Any, ...], state: dict[str, Any]) -> NpusimError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(NpusimError):
    """The question is put wrongly; nothing was simulated."""

    exit_code = 2


def brief(value: object) -> str:
    """A value in a sentence: its beginning and end, or its type where Python can't spell it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - too many lists in lists, or digits, or its own
        return say("a value of type {kind}").format(kind=type(value).__name__)
    return text if len(text) <= 200 else f"{text[:100]}...{text[-20:]}"


def expect(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """ArgumentError where `what` was given as something of another kind."""
    if not isinstance(value, kind):
        raise ArgumentError(
            say("{what} can't be of type {kind}: {value}").format(
                what=what, kind=type(value).__name__, value=brief(value)
            )
        )


class UnknownNameError(UsageError):
    """A name of some `kind` ("chip", "operator", ...) that isn't among the candidates."""

    def __init__(self, kind: str, got: object, candidates: Iterable[str], remedy: str = "") -> None:
        self.kind = kind
        self.got = got
        self.candidates = tuple(candidates)
        word = got if isinstance(got, str) else brief(got)
        self.suggestions = tuple(near(word, self.candidates))
        hint = did_you_mean(word, self.candidates)
        if not hint and not remedy and 0 < len(self.candidates) <= 12:
            hint = say("Known: {candidates}.").format(candidates=", ".join(self.candidates))
        problem = say("unknown {kind} {got}").format(kind=say(kind), got=brief(got))
        super().__init__(problem, f"{hint} {remedy}".strip())


class ArgumentError(UsageError):
    """A value of the wrong kind, size or form."""


class DTypeError(UsageError):
    """A dtype that we don't know, or that can't be used here."""


class FileError(UsageError):
    """A file that is missing, unreadable or not what it should be."""

    def __init__(self, path: str | PathLike[str], problem: str, remedy: str = "") -> None:
        self.path = fspath(path)
        self.problem = problem
        super().__init__(f"{self.path}: {problem}", remedy)


class ProfileError(UsageError):
    """A wrong value in a hardware profile: file, key, value and what is allowed."""

    def __init__(
        self, file: str | PathLike[str], key: str, value: object, allowed: str, remedy: str = ""
    ) -> None:
        self.file = fspath(file)
        self.key = key
        self.value = value
        self.allowed = allowed
        problem = say("{key} = {value} is not allowed; expected {allowed}").format(
            key=key, value=brief(value), allowed=allowed
        )
        super().__init__(f"{self.file}: {problem}", remedy)


class OutputExistsError(UsageError):
    """An output path that already exists; we don't overwrite without being told."""

    def __init__(self, path: str | PathLike[str], remedy: str = "") -> None:
        self.path = fspath(path)
        super().__init__(
            say("{path} already exists").format(path=self.path),
            remedy or say("Choose another path, or pass --force to overwrite it."),
        )


class HostMemoryError(NpusimError):
    """What is asked needs more memory than the machine that simulates has (bytes; 0: unknown)."""

    def __init__(self, what: str, need_bytes: int = 0, have_bytes: int | None = None) -> None:
        self.need_bytes, self.have_bytes = need_bytes, have_bytes
        sizes = [f"need {need_bytes / 2**30:.3g} GiB"] if need_bytes else []
        sizes += [] if have_bytes is None else [f"have {have_bytes / 2**30:.3g} GiB"]
        super().__init__(
            say("{what} is too large for this host: {value}").format(
                what=what, value=", ".join(sizes) or say("its memory is full")
            ),
            say(
                "Ask for smaller tensors, or on a machine with more memory; an estimate needs no "
                "data."
            ),
        )


class RejectedError(NpusimError):
    """A proper question whose answer is no."""


class AclnnError(RejectedError):
    """An aclnn call that returned a code other than 0."""

    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.sentence, status.remedy)
        self.reason = status.message

    @property
    def code(self) -> int | None:
        """The return code, e.g. 161002; None where it isn't known."""
        return self.status.code

    @property
    def verdict(self) -> Verdict:
        """No, or unknown."""
        return self.status.verdict

    @property
    def name(self) -> str:
        """The name of the code, e.g. ``ACLNN_ERR_PARAM_INVALID``."""
        return self.status.name

    @property
    def ok(self) -> bool:
        """Always false; the mirror of `Status.ok`."""
        return self.status.ok


class NotModelledError(AclnnError):
    """A call of which npusim can't tell whether a device runs it, or how long that takes."""

    exit_code = Verdict.UNKNOWN.exit_code


def error_of(status: Status) -> AclnnError:
    """The error for a status that isn't a yes, or that is one without a time."""
    return AclnnError(status) if status.verdict is Verdict.NO else NotModelledError(status)


class KernelError(RejectedError):
    """A kernel asks for what the chip can't do, or an operator for what its kernel here can't.

    Of one's own kernel it is the device's no. Of an operator of the library it is a limit of
    npusim, unless it is a `RefusedTaskError`.

    `kernel` is its name and `site` the line of its code (``file.py:12``), empty where unknown.
    """

    def __init__(self, kernel: str, message: str, remedy: str = "", *, site: str = "") -> None:
        self.problem = message
        super().__init__(message, remedy)
        self.locate(kernel, site)

    def locate(self, kernel: str, site: str, *, told: bool = True) -> None:
        """Add the kernel's name and the line, and to the message too if they are `told`."""
        self.kernel, self.site = kernel, site
        if told:
            where = ", ".join(part for part in (kernel and f"kernel {kernel}", site) if part)
            self.message = f"{where}: {self.problem}" if where else self.problem
            self.args = (self.message,)


class RefusedTaskError(KernelError):
    """Tensors or attributes that an operator takes on no chip: they don't belong together."""


class UnsaidError(KernelError):
    """A profiler's record leaves out what decides the time of the kernel: it has no price."""


class BufferOverflowError(KernelError):
    """A buffer doesn't fit into the on-chip memory it belongs to (sizes in bytes)."""

    def __init__(
        self, kernel: str, buffer: str, need_bytes: int, capacity_bytes: int, remedy: str = ""
    ) -> None:
        self.buffer = buffer
        self.need_bytes = need_bytes
        self.capacity_bytes = capacity_bytes
        super().__init__(
            kernel,
            say("{buffer} needs {need_bytes} bytes, the chip has {capacity_bytes}").format(
                buffer=buffer, need_bytes=need_bytes, capacity_bytes=capacity_bytes
            ),
            remedy or say("Use smaller tiles, fewer buffers or a queue of depth 1."),
        )


class UnsupportedIntrinsicError(KernelError):
    """An intrinsic that the chip doesn't have for this dtype."""

    def __init__(
        self,
        kernel: str,
        intrinsic: str,
        dtype: str,
        chip: str,
        allowed: Sequence[str],
        *,
        remedy: str = "",
    ) -> None:
        self.intrinsic = intrinsic
        self.dtype = dtype
        self.chip = chip
        self.allowed = tuple(allowed)
        takes = (
            say("it takes {allowed}").format(allowed=", ".join(self.allowed))
            if allowed
            else say("the chip doesn't have it")
        )
        super().__init__(
            kernel,
            say("{intrinsic} doesn't take {dtype} on {chip}; {takes}").format(
                intrinsic=intrinsic, dtype=dtype, chip=chip, takes=takes
            ),
            remedy or (say("Cast to one of these dtypes first.") if self.allowed else ""),
        )


class AlignmentError(KernelError):
    """An address or length that isn't a multiple of what the instruction needs (bytes)."""

    def __init__(
        self, kernel: str, what: str, value_bytes: int, alignment_bytes: int, remedy: str = ""
    ) -> None:
        self.what = what
        self.value_bytes = value_bytes
        self.alignment_bytes = alignment_bytes
        super().__init__(
            kernel,
            say("{what} is {value_bytes} bytes, not a multiple of {alignment_bytes}").format(
                what=what, value_bytes=value_bytes, alignment_bytes=alignment_bytes
            ),
            remedy or say("Pad it, or use data_copy_pad."),
        )


class TileStateError(KernelError):
    """A tile of a queue or a scratch buffer used out of turn: freed, not dequeued, carried on."""


class KernelCodeError(KernelError):
    """A mistake in a kernel's own code: an exception of Python, or what C++ of a project does."""


class DeadlockError(KernelError):
    """A pipe of a core waits for a flag that no one sets.

    `waits` has a line for each pipe that waits: its core, the flag or queue, and where in the code.
    """

    def __init__(
        self,
        *,
        core: int,
        pipe: str,
        kernel: str = "",
        waits: Sequence[str] = (),
        remedy: str = "",
    ) -> None:
        self.core = core
        self.pipe = pipe
        self.waits = tuple(waits)
        problem = say(
            "deadlock: pipe {pipe} of core {core} waits for a flag that nobody sets"
        ).format(pipe=pipe, core=core)
        super().__init__(
            kernel,
            "\n".join((problem, *(f"  {each}" for each in self.waits))),
            remedy or say("Give each wait its set, and each alloc_tensor its free_tensor."),
        )


class DeviceFault(RejectedError):  # noqa: N818 - what the runtime calls it
    """The device stopped with an exception; the next synchronise returns `code` (e.g. 507035)."""

    def __init__(self, code: int, message: str, remedy: str = "") -> None:
        self.code = int(code)
        self.name = code_name(self.code)
        super().__init__(f"{self.name} ({self.code}): {message}", remedy)
