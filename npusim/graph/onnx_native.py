"""onnx's functions in C++, asked through `onnx_worker.py`: no file ends or stops this process."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from npusim.graph import onnx_worker
from npusim.values.language import say

_SECONDS: Final = 5
_SECONDS_PER_BYTE: Final = 1e-6
"""Of a processor, that a question may take, and each byte of a model."""

_PATIENCE: Final = 10
"""How much longer is waited for it, on a busy machine."""


def begin() -> None:
    """Start the process, which takes its time while onnx is imported here."""
    _worker().begin()


def infer_shapes(model: Any, *, strict: bool = False) -> Any:
    """The model with the shapes that ONNX infers; ValueError for one that contradicts itself.

    Nodes whose attributes and inputs contradict each other stay without, unless it is `strict`.
    """
    return _model(_worker().ask(b"strict" if strict else b"infer", model.SerializeToString()))


def inline_functions(model: Any) -> Any:
    """The model with the calls of its own functions replaced by what they do; ValueError."""
    return _model(_worker().ask(b"inline", model.SerializeToString()))


def function_of(op: str, opset: int, version: int, node: Any, types: list[bytes]) -> bytes:
    """The FunctionProto of an operator that depends on its inputs; ValueError."""
    numbers = (str(opset).encode(), str(version).encode())
    return _worker().ask(b"function", op.encode(), *numbers, node.SerializeToString(), *types)


def _model(content: bytes) -> Any:
    return import_module("onnx").load_model_from_string(content)


class _Worker:
    """The process, started when it is needed, and again when a file has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._owner = threading.Lock(), os.getpid()
        atexit.register(self.close)

    def begin(self) -> None:
        """Start it, unless it runs."""
        with self._lock:
            self._running()

    def ask(self, what: bytes, *question: bytes) -> bytes:
        """What it answers; ValueError where it says no, ends or takes too long."""
        seconds = int(_SECONDS + _SECONDS_PER_BYTE * sum(map(len, question)))
        with self._lock:
            process = self._running()
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("a process without pipes")
            late = threading.Event()
            clock = threading.Timer(seconds * _PATIENCE, _stop, (process, late))
            clock.start()
            try:
                onnx_worker.write(process.stdin, [str(seconds).encode(), what, *question])
                told, answer = onnx_worker.read(process.stdout)
            except (EOFError, OSError):
                spent = late.is_set() or process.wait() in _OUT_OF_TIME
                self.close()
                how = (
                    say("takes more than {seconds} s").format(seconds=seconds)
                    if spent
                    else say("ends the process that does it")
                )
                raise ValueError(say("ONNX's own code for it {how}").format(how=how)) from None
            except BaseException:  # Ctrl-C: an answer may still come, to a question of before
                self.close()
                raise
            finally:
                clock.cancel()
        if told != b"yes":
            raise ValueError(answer.decode(errors="replace"))
        return answer

    def close(self) -> None:
        """End it; a forked process leaves it to whoever started it."""
        if os.getpid() != self._owner:
            return
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):  # what wasn't sent any more
                process.__exit__(None, None, None)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
                [sys.executable, "-I", "-S", onnx_worker.__file__, _library()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


_OUT_OF_TIME: Final = tuple(-each for each in signal.Signals if each.name == "SIGXCPU")

_workers: dict[int, _Worker] = {}
"""By the process that asks: one that is forked has its own."""


def _worker() -> _Worker:
    own = os.getpid()
    if own not in _workers:
        _workers.setdefault(own, _Worker())
    return _workers[own]


def _library() -> str:
    spec = find_spec("onnx")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("onnx_cpp2py_export.*")):
            return str(file)
    raise ImportError("the onnx package has no library")
