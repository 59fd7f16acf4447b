"""The instruction streams of kernels: traced once for all kernels that are described alike.

Kernels of npusim do what their attributes say; so two of a class whose attributes are equal, up to
which memory they work on, have the same instructions, and those are found without numbers. Kernels
that look at numbers in global memory even then are traced each time. What a user's own kernel
depends on nobody knows, so it is traced each time with its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel, trace
from npusim.ascendc.mistakes import is_shipped
from npusim.engine import Streams
from npusim.values.contents import Contents, digest_of
from npusim.values.version import __version__

if TYPE_CHECKING:
    from npusim.engine import Code, CoreGroup, Memo
    from npusim.hardware.profile import Profile


class Described(NamedTuple):
    """What a kernel is known by on a chip, in any process.

    ``buffers`` have the numbers of its memory in the order in which it was met, ``given`` says
    whether some of that has numbers.
    """

    key: bytes
    buffers: tuple[int, ...]
    held: tuple[GmBuffer, ...]

    @property
    def given(self) -> bool:
        """Whether some of its memory has numbers."""
        return any(each.has_data for each in self.held)


class Traced(NamedTuple):
    """What a kernel's cores do, and the number of each buffer by that in it.

    ``asked`` tells that it has asked for numbers in global memory.
    """

    groups: tuple[CoreGroup, ...]
    known_as: Mapping[int, int]
    asked: bool = False


def streams_of(
    kernel: Kernel,
    profile: Profile,
    memo: Memo | None,
    described: Described | None,
    *,
    numerics: bool,
    code: Code,
) -> Traced:
    """The instruction streams of a kernel; those that ``memo`` knows aren't traced.

    Those that are ``described`` are another's that is described alike, unless numbers in global
    memory were asked for: without numbers only a kernel does that for which they decide what it
    does. With ``numerics`` those of others are computed, too. ``code`` says where the kernel's is.
    """
    if described is None:
        return Traced(trace(kernel, profile, numerics=numerics, code=code), {})
    given = described.given
    found = None if memo is None else memo.streams(described.key)
    if found is not None and not (found.asked and given):
        known_as = dict(zip(found.buffers, described.buffers, strict=True))
        return Traced(found.groups, known_as, found.asked)
    for each in described.held:
        each.asked = False
    groups = trace(kernel, profile, numerics=False, code=code)
    asked = any(each.asked for each in described.held)
    if memo is not None and not (asked and given):
        memo.keep_streams(described.key, Streams(groups, described.buffers, asked))
    return Traced(groups, {}, asked)


def describe(kernel: Kernel, profile: Profile, *, code: Code) -> Described | None:
    """What a kernel is known by; None where there is something that can't be described."""
    if kernel.follows_numbers or not is_shipped(type(kernel)):
        return None
    contents = _Contents(profile)
    try:
        contents.tell_all("kernel", (_chip(profile), code, type(kernel), vars(kernel)))
    except TypeError:
        return None
    buffers = contents.buffers
    contents.parts.append(repr([(each.name, each.nbytes, each.wide) for each in buffers.values()]))
    return Described(contents.digest(), tuple(buffers), tuple(contents.held))


_chips: dict[int, tuple[Profile, str]] = {}  # by their id: kept, so that no other takes their place


def _chip(profile: Profile) -> str:
    """What a chip's numbers are known by in any process, with this version of npusim."""
    found = _chips.get(id(profile))
    if found is None:
        told = digest_of((__version__, repr(profile)))
        found = _chips[id(profile)] = profile, told
    return found[1]


class _Contents(Contents):
    """What distinguishes a kernel from others; ``buffers`` are listed as they are met."""

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self._profile = profile
        self.buffers: dict[int, GmBuffer] = {}
        self.held: list[GmBuffer] = []
        self._places: dict[int, int] = {}

    def tell_tensor(self, value: GlobalTensor) -> None:
        """A tensor in global memory: as any dataclass, in fewer steps."""
        if self.is_new(value):
            self._tell_buffer(value.buffer)
            place = value.shape, value.start, value.strides, value.past_l2
            self.parts.append(f"{value.dtype.name} {value.format.name} {place}")

    def _tell_buffer(self, value: GmBuffer) -> None:
        self.held.append(value)
        self.buffers.setdefault(value.number, value)
        place = self._places.setdefault(value.number, len(self._places))
        self.parts.append(f"buffer {place}")

    def tell_other(self, value: Any) -> None:
        """Memory by its place among all, objects of ours by what they hold or follow from."""
        kind: type = type(value)
        if value is self._profile:
            self.parts.append("profile")
        elif isinstance(value, GmBuffer):
            self._tell_buffer(value)
        elif not is_shipped(kind):
            super().tell_other(value)
        elif self.is_new(value):
            source = getattr(value, "follows_from", None)
            self.tell_all("of", (kind, vars(value) if source is None else source))


_Contents.ways[GlobalTensor] = _Contents.tell_tensor
