"""Functions that begin and end: the program, devices, contexts; and what is known of them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import npusim
from npusim.capi.runtime.journal import LEAKS_VARIABLE
from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.session import DEVICES, Session
from npusim.capi.runtime.tables import Functions, need
from npusim.values.errors import DeviceFault
from npusim.values.status import AclError

LIFE = Functions()
_HOST_RUN_MODE = 1
_OPTIONS = (0, 1)  # aclSysParamOpt


@LIFE.entry("aclInit")
def init(session: Session, config: int) -> None:
    """Begins; a second time is 100002, a configuration file that isn't there 100000."""
    if session.is_initialised:
        raise Refusal(AclError.ACL_ERROR_REPEAT_INITIALIZE, "aclInit has been called before")
    path = session.text(config) if config else ""
    if path and not Path(path).is_file():
        raise Refusal(
            AclError.ACL_ERROR_INVALID_PARAM,
            f"the configuration {path} is no file",
            "Pass a null pointer to do without.",
        )
    _ = session.npu  # an unknown chip shows here
    session.is_initialised, session.was_finalised = True, False


@LIFE.entry("aclFinalize")
def finalize(session: Session) -> None:
    """Ends: waits for all streams and reports what was never given back, if asked to."""
    if session.was_finalised:
        raise Refusal(AclError.ACL_ERROR_REPEAT_FINALIZE, "aclFinalize has been called before")
    _require_init(session)
    for device in sorted(session.used_devices):
        _wait_for_all(session, device)
    if os.environ.get(LEAKS_VARIABLE):
        _report_leaks(session)
    session.is_initialised, session.was_finalised, session.has_devices = False, True, False
    session.leave_devices()


@LIFE.entry("aclnnInit")
def nn_init(session: Session, config: int) -> None:
    """Accepted for programs that call it."""
    del session, config


@LIFE.entry("aclnnFinalize")
def nn_finalize(session: Session) -> None:
    """Accepted for programs that call it."""
    del session


@LIFE.entry("aclrtGetVersion")
def version(session: Session, major: Any, minor: Any, patch: Any) -> None:
    """The version of npusim."""
    del session
    need(majorVersion=major, minorVersion=minor, patchVersion=patch)
    numbers = [int(part) for part in npusim.__version__.split(".")[:3] if part.isdigit()]
    major[0], minor[0], patch[0] = (*numbers, 0, 0, 0)[:3]


@LIFE.entry("aclGetRecentErrMsg")
def recent_error(session: Session) -> int:
    """The last error of this thread, once; null where there is none since."""
    text, session.thread.error = session.thread.error, ""
    return session.keep(text) if text else 0


@LIFE.entry("aclrtGetLastError")
def last_error(session: Session, _level: int) -> int:
    """The code of this thread's last call that failed, once; 0 where there is none since."""
    code, session.thread.code = session.thread.code, 0
    return code


@LIFE.entry("aclrtPeekAtLastError")
def peek_at_last_error(session: Session, _level: int) -> int:
    """As aclrtGetLastError, which finds it again."""
    return session.thread.code


@LIFE.entry("aclrtGetSocName")
def soc_name(session: Session) -> int:
    """The name of the simulated chip."""
    return session.keep(session.npu.profile.name)


@LIFE.entry("aclrtSetDevice")
def set_device(session: Session, device: int) -> None:
    """Makes a device the current one of this thread; begins where aclInit was left out.

    Source: public samples of asc-devkit, which do without aclInit.
    """
    if not session.is_initialised:
        _ = session.npu  # an unknown chip shows here
        session.was_finalised, session.has_devices = False, True
    _require_device(device)
    session.thread.device, session.thread.context = device, 0
    session.used_devices.add(device)


@LIFE.entry("aclrtResetDevice")
def reset_device(session: Session, device: int) -> None:
    """Waits for the device and takes back all that it holds. Reports a fault that was waiting."""
    _require_init(session)
    _require_device(device)
    if device not in session.used_devices:
        raise Refusal(AclError.ACL_ERROR_RT_CONTEXT_NULL, f"device {device} was never set")
    fault = _wait_for_all(session, device)
    left = Counter(session.leaks)
    for block in session.memory.reset(device):
        left["blocks of device memory"] += 1
        left["bytes of device memory"] += block.size
    for stream in session.streams_of(device):
        session.tables.streams.remove_if(stream)
        left["aclrtStream"] += stream.was_created
    session.leaks = dict(left)
    session.forget_default_stream(device)
    session.used_devices.discard(device)
    if session.thread.device == device:
        session.thread.device = None
    if fault is not None:
        raise fault


@LIFE.entry("aclrtGetDevice")
def get_device(session: Session, device: Any) -> None:
    """The current device of this thread."""
    need(deviceId=device)
    device[0] = session.current_device()


@LIFE.entry("aclrtGetDeviceCount")
def device_count(session: Session, count: Any) -> None:
    """How many devices there are."""
    del session
    need(count=count)
    count[0] = DEVICES


@LIFE.entry("aclrtGetRunMode")
def run_mode(session: Session, mode: Any) -> None:
    """Programs run on the host."""
    del session
    need(runMode=mode)
    mode[0] = _HOST_RUN_MODE


@LIFE.entry("aclrtCreateContext")
def create_context(session: Session, context: Any, device: int) -> None:
    """A context on a device; it becomes the current one."""
    _require_init(session)
    need(context=context)
    _require_device(device)
    session.thread.device = device
    session.used_devices.add(device)
    session.thread.context = context[0] = session.tables.contexts.add(device)


@LIFE.entry("aclrtDestroyContext")
def destroy_context(session: Session, context: int) -> None:
    """Ends a context."""
    need(context=context)
    session.tables.contexts.remove(context)
    if session.thread.context == context:
        session.thread.context, session.thread.device = 0, None


@LIFE.entry("aclrtSetCurrentContext")
def set_context(session: Session, context: int) -> None:
    """Makes a context the current one of this thread, and with it its device."""
    need(context=context)
    session.thread.device = session.tables.contexts.get(context)
    session.thread.context = context


@LIFE.entry("aclrtGetCurrentContext")
def get_context(session: Session, context: Any) -> None:
    """The current context; where only a device was set, the device's own."""
    need(context=context)
    device = session.current_device()
    context[0] = session.thread.context or session.default_context(device)


@LIFE.entry("aclrtCtxSetSysParamOpt", "aclrtSetSysParamOpt")
def set_option(session: Session, option: int, value: int) -> None:
    """Options are kept; results are deterministic with and without."""
    _require_option(option)
    session.options[option] = value


@LIFE.entry("aclrtCtxGetSysParamOpt", "aclrtGetSysParamOpt")
def get_option(session: Session, option: int, value: Any) -> None:
    """An option as it was set, 0 at first."""
    need(value=value)
    _require_option(option)
    value[0] = session.options.get(option, 0)


@LIFE.entry("aclrtSynchronizeDevice")
def synchronize_device(session: Session) -> None:
    """Waits for all streams of the current device."""
    fault = _wait_for_all(session, session.current_device())
    if fault is not None:
        raise fault


def _wait_for_all(session: Session, device: int) -> DeviceFault | None:
    """Runs what waits on a device; the first fault, if any."""
    first: DeviceFault | None = None
    for stream in session.streams_of(device):
        try:
            stream.synchronize()
        except DeviceFault as fault:
            first = first or fault
    return first


def _report_leaks(session: Session) -> None:
    left = Counter(session.leaks) + Counter(session.alive())
    blocks = session.memory.blocks()
    left["blocks of device memory"] += len(blocks)
    left["bytes of device memory"] += sum(block.size for block in blocks)
    left["blocks of host memory"] += len(session.host_blocks)
    found = [f"{count} {kind}" for kind, count in left.items() if count]
    session.say(f"never given back: {', '.join(found)}" if found else "everything was given back")


def _require_init(session: Session) -> None:
    if not session.is_initialised and not session.has_devices:
        raise Refusal(
            AclError.ACL_ERROR_UNINITIALIZE, "aclInit has not been called", "Call aclInit first."
        )


def _require_device(device: int) -> None:
    if not 0 <= device < DEVICES:
        raise Refusal(
            AclError.ACL_ERROR_RT_INVALID_DEVICEID,
            f"there is no device {device}",
            f"Devices are numbered from 0 to {DEVICES - 1}.",
        )


def _require_option(option: int) -> None:
    if option not in _OPTIONS:
        raise Refusal(AclError.ACL_ERROR_INVALID_PARAM, f"there is no option {option}")
