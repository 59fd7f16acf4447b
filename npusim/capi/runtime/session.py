"""The state of the simulated machine in one program: devices, tables of handles, last errors."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from npusim.capi.runtime.handles import Handles, WrongHandleError
from npusim.capi.runtime.hostmemory import HostMemory
from npusim.capi.runtime.journal import DEFAULT_SOC, LOG_VARIABLE, SOC_VARIABLE, Journal
from npusim.capi.runtime.memory import DeviceMemory
from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.streams import Clock, Event, Stream
from npusim.values.errors import NpusimError
from npusim.values.status import AclError, Status, StatusCode

if TYPE_CHECKING:
    from npusim.capi.runtime.objects import Binary, Kernel, Scalar, Source, Tensor
    from npusim.capi.runtime.planned import Planned
    from npusim.runtime.device import Device

DEVICES = 8  # that a program finds, all of them the same chip


@dataclass
class _Thread(threading.local):
    """What each thread of the program has for itself."""

    device: int | None = None
    context: int = 0
    error: str = ""
    code: int = 0  # of the last call that failed
    kept: Any = None  # the text that aclGetRecentErrMsg gave out last; C reads it


@dataclass
class Tables:
    """All objects that a program has created, by kind."""

    tensors: Handles[Tensor] = field(default_factory=lambda: Handles("aclTensor"))
    scalars: Handles[Scalar] = field(default_factory=lambda: Handles("aclScalar"))
    int_arrays: Handles[tuple[int, ...]] = field(default_factory=lambda: Handles("aclIntArray"))
    float_arrays: Handles[tuple[float, ...]] = field(
        default_factory=lambda: Handles("aclFloatArray")
    )
    bool_arrays: Handles[tuple[bool, ...]] = field(default_factory=lambda: Handles("aclBoolArray"))
    tensor_lists: Handles[tuple[int, ...]] = field(default_factory=lambda: Handles("aclTensorList"))
    scalar_lists: Handles[tuple[int, ...]] = field(default_factory=lambda: Handles("aclScalarList"))
    executors: Handles[Planned] = field(default_factory=lambda: Handles("aclOpExecutor"))
    streams: Handles[Stream] = field(default_factory=lambda: Handles("aclrtStream"))
    events: Handles[Event] = field(default_factory=lambda: Handles("aclrtEvent"))
    contexts: Handles[int] = field(default_factory=lambda: Handles("aclrtContext"))
    sources: Handles[Source] = field(default_factory=lambda: Handles("aclrtcProg"))
    binaries: Handles[Binary] = field(default_factory=lambda: Handles("aclrtBinHandle"))
    kernels: Handles[Kernel] = field(default_factory=lambda: Handles("aclrtFuncHandle"))

    def counts(self) -> dict[str, int]:
        """How many objects of each kind are alive, without the kinds that have none."""
        tables = (getattr(self, name) for name in self.__dataclass_fields__)
        return {table.kind: len(table) for table in tables if len(table)}


class Session:
    """Everything that the entries of one process share."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self.lock = threading.RLock()  # a program may call from several threads
        self.ffi = ffi
        self.lib = lib
        self.is_initialised = False
        self.has_devices = False  # a device was set without aclInit
        self.was_finalised = False
        self.tables = Tables()
        self.host = HostMemory()
        self.clock = Clock()
        self.journal = Journal.from_environment()
        self.thread = _Thread()
        self.options: dict[int, int] = {}
        self.host_blocks: dict[int, Any] = {}
        self.used_devices: set[int] = set()
        self.leaks: dict[str, int] = {}
        self._default_streams: dict[int, Stream] = {}
        self._default_contexts: dict[int, int] = {}
        self._streams_made = 0

    @cached_property
    def npu(self) -> Device:
        """The simulated chip. Its name comes from the environment."""
        from npusim.runtime.device import Device

        wanted = os.environ.get(SOC_VARIABLE, "")
        if not wanted:
            self.say(f"{SOC_VARIABLE} is not set, simulating {DEFAULT_SOC}")
        try:
            device = Device(wanted or DEFAULT_SOC)
        except NpusimError as problem:
            self.say(f"{SOC_VARIABLE}={wanted}: {problem}")
            raise
        if device.note:
            self.say(device.note)
        self.journal.begin(device.profile.name)
        return device

    @cached_property
    def memory(self) -> DeviceMemory:
        """The memory of all devices."""
        return DeviceMemory(self.npu.profile.memory.capacity_bytes, self.say)

    def text(self, address: int) -> str:
        """The C string at an address."""
        raw: bytes = self.ffi.string(self.ffi.cast("char *", address))
        return raw.decode(errors="replace")

    def keep(self, text: str) -> int:
        """The address of a C string, good until this thread asks for the next one."""
        self.thread.kept = self.ffi.new("char[]", text.encode())
        return int(self.ffi.cast("uintptr_t", self.thread.kept))

    def current_device(self) -> int:
        """The device of the calling thread. Refusal 107002 where it has none."""
        if self.thread.device is None:
            raise Refusal(
                AclError.ACL_ERROR_RT_CONTEXT_NULL,
                "no device is set in this thread",
                "Call aclInit and aclrtSetDevice first.",
            )
        return self.thread.device

    def leave_devices(self) -> None:
        """No thread has a device any more: what needs one is refused with 107002."""
        self.thread = _Thread()

    def stream(self, handle: int) -> Stream:
        """A stream of the current device; the null stream is the device's default one.

        Refusal 107000 for a wrong handle, 107003 for another device's stream.
        """
        device = self.current_device()
        if handle == 0:
            return self.default_stream(device)
        try:
            found = self.tables.streams.get(handle)
        except WrongHandleError as wrong:
            raise Refusal(
                AclError.ACL_ERROR_RT_PARAM_INVALID,
                wrong.message,
                "Use a stream from aclrtCreateStream that hasn't been destroyed.",
            ) from None
        if found.device != device:
            raise Refusal(
                AclError.ACL_ERROR_RT_STREAM_CONTEXT,
                f"the stream belongs to device {found.device}, the current device is {device}",
                "Call aclrtSetDevice with the stream's device first.",
            )
        return found

    def default_stream(self, device: int) -> Stream:
        """The stream that a null pointer stands for."""
        if device not in self._default_streams:
            self._default_streams[device] = Stream("default", device, self.clock)
        return self._default_streams[device]

    def forget_default_stream(self, device: int) -> None:
        """The device was reset: its default stream begins anew."""
        self._default_streams.pop(device, None)

    def default_context(self, device: int) -> int:
        """The handle of the context that a device has without the program creating one."""
        if device not in self._default_contexts:
            self._default_contexts[device] = self.tables.contexts.add(device)
        return self._default_contexts[device]

    def alive(self) -> dict[str, int]:
        """How many objects of each kind the program would have to destroy."""
        counts = self.tables.counts()
        made_by_us = len(self._default_contexts)
        return counts | {"aclrtContext": counts.get("aclrtContext", 0) - made_by_us}

    def new_stream(self) -> Stream:
        """A stream on the current device, named by its number."""
        device = self.current_device()
        self._streams_made += 1
        return Stream(f"stream {self._streams_made}", device, self.clock, was_created=True)

    def streams_of(self, device: int) -> list[Stream]:
        """All streams of a device, the default one first."""
        default = [self._default_streams[device]] if device in self._default_streams else []
        made = [each for each in self.tables.streams.values() if each.device == device]
        return default + made

    def report(self, where: str, status: Status) -> None:
        """Notes why a call failed, for aclGetRecentErrMsg, the journal and the log."""
        self.thread.code = returned(status)
        code = f"{status.log_code}: " if status.name.startswith("ACLNN") else ""
        text = f"{code}{where}: {status.name} ({status.code}): {status.message}"
        self.thread.error = f"{text}\n{status.remedy}" if status.remedy else text
        self.journal.problem(where, status)
        if os.environ.get(LOG_VARIABLE):
            self.say(self.thread.error)

    def say(self, text: str) -> None:
        """A line for the person, on standard error: standard output is the program's."""
        sys.stderr.write(f"npusim: {text}\n")
        sys.stderr.flush()


def returned(status: Status) -> int:
    """The code of a status; a function has to return one where npusim can't tell, too."""
    unknown = StatusCode.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
    return int(unknown if status.code is None else status.code)
