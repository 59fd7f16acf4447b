"""Functions of streams and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.capi.runtime.refusals import Refusal
from npusim.capi.runtime.streams import Event, elapsed_ms
from npusim.capi.runtime.tables import Functions, need
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

SCHEDULING = Functions()

_FAILURE_MODES = (0, 1)
_COMPLETE, _NOT_READY = 0, 1  # aclrtEventStatus and aclrtStreamStatus
_RECORDED_NOT_READY, _RECORDED_COMPLETE = 0, 1  # aclrtEventRecordedStatus


@SCHEDULING.entry("aclrtCreateStream", "aclrtCreateStreamWithConfig")
def create_stream(session: Session, stream: Any, *_: int) -> None:
    """A stream on the current device; priorities and flags change nothing here."""
    need(stream=stream)
    stream[0] = session.tables.streams.add(session.new_stream())


@SCHEDULING.entry("aclrtDestroyStream")
def destroy_stream(session: Session, stream: int) -> None:
    """Waits for a stream and ends it. Reports a fault that was waiting."""
    need(stream=stream)
    found = session.stream(stream)
    session.tables.streams.remove(stream)
    found.synchronize()


@SCHEDULING.entry("aclrtDestroyStreamForce")
def destroy_stream_now(session: Session, stream: int) -> None:
    """Ends a stream; what waits in it is dropped."""
    need(stream=stream)
    session.stream(stream).drop()
    session.tables.streams.remove(stream)


@SCHEDULING.entry("aclrtSynchronizeStream", "aclrtSynchronizeStreamWithTimeout")
def synchronize_stream(session: Session, stream: int, *_: int) -> None:
    """Waits for a stream: its tasks run now. A fault of one of them is reported here.

    Simulated time is never longer than a timeout.
    """
    session.stream(stream).synchronize()


@SCHEDULING.entry("aclrtStreamQuery")
def query_stream(session: Session, stream: int, status: Any) -> None:
    """Whether a stream is done: asking lets it run, so a program that polls comes to an end."""
    need(status=status)
    found = session.stream(stream)
    found.run_until(None)
    status[0] = _COMPLETE if found.is_idle else _NOT_READY


@SCHEDULING.entry("aclrtSetStreamFailureMode")
def set_failure_mode(session: Session, stream: int, mode: int) -> None:
    """Whether tasks behind one that failed still run (0, as at first) or not (1)."""
    if mode not in _FAILURE_MODES:
        raise Refusal(AclError.ACL_ERROR_INVALID_PARAM, f"there is no failure mode {mode}")
    session.stream(stream).failure_mode = mode


@SCHEDULING.entry("aclrtStreamWaitEvent")
def wait_event(session: Session, stream: int, event: int) -> None:
    """Lets a stream wait until an event has passed."""
    need(event=event)
    session.stream(stream).wait_for(_event(session, event))


@SCHEDULING.entry("aclrtCreateEvent", "aclrtCreateEventWithFlag", "aclrtCreateEventExWithFlag")
def create_event(session: Session, event: Any, *_: int) -> None:
    """An event; whatever the flags, it has a time."""
    need(event=event)
    session.current_device()
    event[0] = session.tables.events.add(Event())


@SCHEDULING.entry("aclrtDestroyEvent")
def destroy_event(session: Session, event: int) -> None:
    """Ends an event; streams that wait for it still do."""
    need(event=event)
    session.tables.events.remove(event)


@SCHEDULING.entry("aclrtRecordEvent")
def record_event(session: Session, event: int, stream: int) -> None:
    """Records an event on a stream."""
    need(event=event)
    session.stream(stream).record(_event(session, event))


@SCHEDULING.entry("aclrtResetEvent")
def reset_event(session: Session, event: int, stream: int) -> None:
    """Makes an event as new."""
    need(event=event)
    session.stream(stream)
    _event(session, event).mark = None


@SCHEDULING.entry("aclrtQueryEvent")
def query_event(session: Session, event: int, status: Any) -> None:
    """Whether an event has passed; asking lets its stream run."""
    need(event=event, status=status)
    status[0] = _COMPLETE if _has_passed(session, event) else _NOT_READY


@SCHEDULING.entry("aclrtQueryEventStatus")
def query_event_status(session: Session, event: int, status: Any) -> None:
    """As aclrtQueryEvent, with the values the other way round."""
    need(event=event, status=status)
    passed = _has_passed(session, event)
    status[0] = _RECORDED_COMPLETE if passed else _RECORDED_NOT_READY


@SCHEDULING.entry("aclrtSynchronizeEvent", "aclrtSynchronizeEventWithTimeout")
def synchronize_event(session: Session, event: int, *_: int) -> None:
    """Waits for an event; one that was never recorded has nothing to wait for.

    Simulated time is never longer than a timeout.
    """
    need(event=event)
    mark = _event(session, event).mark
    if mark is not None:
        mark.stream.run_until(mark)
        session.clock.now_us = max(session.clock.now_us, mark.time_us or 0.0)


@SCHEDULING.entry("aclrtEventElapsedTime")
def elapsed_time(session: Session, milliseconds: Any, start: int, end: int) -> None:
    """Simulated milliseconds from one event to another; both must have passed."""
    need(ms=milliseconds, startEvent=start, endEvent=end)
    milliseconds[0] = elapsed_ms(_event(session, start), _event(session, end))


def _event(session: Session, handle: int) -> Event:
    return session.tables.events.get(handle)


def _has_passed(session: Session, handle: int) -> bool:
    mark = _event(session, handle).mark
    if mark is not None:
        mark.stream.run_until(mark)
    return mark is None or mark.time_us is not None
