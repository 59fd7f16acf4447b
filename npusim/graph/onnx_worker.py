"""What onnx does in C++, in a process of its own: some files end it, or never let it end.

It runs by itself (`python onnx_worker.py LIBRARY`) and loads nothing but onnx's library: 30 ms.
Questions and answers are lists of bytes: their count, and the length of each before it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from typing import IO, Any

_BYTES = 1 << 30
_BYTES_FOR_EACH = 20
"""Memory for a question, and for each byte of it."""


def write(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    """Send a list of bytes."""
    stream.write(len(parts).to_bytes(8, "little"))
    for part in parts:
        stream.write(len(part).to_bytes(8, "little"))
        stream.write(part)
    stream.flush()


def read(stream: IO[bytes]) -> list[bytes]:
    """A list of bytes; EOFError where there is no more, or only a part."""
    return [_exactly(stream, _number(stream)) for _ in range(_number(stream))]


def _number(stream: IO[bytes]) -> int:
    return int.from_bytes(_exactly(stream, 8), "little")


def _exactly(stream: IO[bytes], count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise EOFError
    return found


def _answers(library: Any) -> dict[bytes, Callable[..., bytes]]:
    def infer(model: bytes, *, strict: bool = False) -> bytes:
        return bytes(library.shape_inference.infer_shapes(model, False, strict, True))

    def inline(model: bytes) -> bytes:
        return bytes(library.inliner.inline_local_functions(model, False))

    def function(op: bytes, opset: bytes, version: bytes, node: bytes, *types: bytes) -> bytes:
        schema = library.defs.get_schema(op.decode(), int(opset), "")
        make = schema.get_context_dependent_function_with_opset_version
        return bytes(make(int(version), node, list(types)))

    return {
        b"infer": infer,
        b"strict": partial(infer, strict=True),
        b"inline": inline,
        b"function": function,
    }


def _limit(question: Sequence[bytes], seconds: int) -> None:
    """No more memory than a model of this size needs, no more time than is waited for it."""
    try:
        import resource
    except ImportError:
        return
    room = _BYTES + _BYTES_FOR_EACH * sum(map(len, question))
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    for what, soft in ((resource.RLIMIT_AS, room), (resource.RLIMIT_CPU, used + seconds)):
        with suppress(ValueError, OSError):  # the system allows less
            resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))


def _main(place: str) -> None:
    spec = spec_from_file_location("onnx.onnx_cpp2py_export", place)
    if spec is None or spec.loader is None:
        raise ImportError(place)
    library = module_from_spec(spec)
    spec.loader.exec_module(library)
    answers = _answers(library)
    while True:
        try:
            seconds, what, *question = read(sys.stdin.buffer)
        except EOFError:
            return
        _limit(question, int(seconds))
        try:
            answer = [b"yes", answers[what](*question)]
        except Exception as error:  # noqa: BLE001 - all that it raises is about the file
            answer = [b"no", str(error).encode(errors="replace")]
        write(sys.stdout.buffer, answer)


if __name__ == "__main__":
    _main(sys.argv[1])
