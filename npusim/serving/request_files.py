"""Requests as people have them: traces and data sets, recognised by their keys or columns.

CSV tables are those of Azure LLM and BurstGPT (`npusim.capacity.traces`). JSON is a list or lines,
each row one request, by the first of these that it has:

``input_length, output_length`` with ``timestamp`` in ms and ``hash_ids`` (Mooncake),
``input_lens, output_lens``: what ``vllm bench serve --save-detailed`` saved, all requests in a row,
``conversations`` (ShareGPT) and ``messages`` (chats): the first answer and what comes before it,
``prompt`` with ``output_tokens`` (vLLM's custom data sets); a list of numbers counts its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from npusim.reading.limits import MOST_SERVED
from npusim.values.errors import FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from pathlib import Path

BYTES_OF_A_TOKEN: Final = 4
"""Of text in UTF-8, where a file says what was said and not how many tokens that is: about what
the tokenizers of today's models make of English, and of Chinese."""

_MOST_TOKENS: Final = 1 << 24
_FORMS: Final = (
    "input_length and output_length (Mooncake), input_lens and output_lens (vllm bench serve), "
    "conversations (ShareGPT), messages, or prompt (vLLM's custom data sets)"
)
_ANSWER: Final = ("gpt", "assistant", "model", "chatgpt", "bing", "bard")


class Asked(NamedTuple):
    """One request: when it comes, if the file says so, its tokens, and names of its contents."""

    at_ms: float | None
    input_tokens: int
    output_tokens: int
    contents: tuple[int, ...] = ()


class _WrongError(Exception):
    """What is wrong with a row."""


def json_requests(path: Path, usual_output: int) -> list[Asked]:
    """The requests of a JSON file, in its order; FileError with the line for what isn't one."""
    found: list[Asked] = []
    for place, row in _rows(path):
        try:
            found.extend(_asked(row, usual_output))
        except _WrongError as wrong:
            raise FileError(path, f"{place} {wrong}") from None
        if len(found) > MOST_SERVED:
            raise FileError(
                path,
                say("has more than {most_served:,} requests").format(most_served=MOST_SERVED),
                "Cut it.",
            )
    if not found:
        raise FileError(path, say("has no requests"))
    if len({each.at_ms is None for each in found}) > 1:
        raise FileError(path, say("has times of some requests, and none of others"))
    return found


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """The rows of a file and where they are: its lines, or what its one list holds."""
    from npusim.reading.files import read_text
    from npusim.reading.markup import json_value
    from npusim.reading.tables import lines_of

    if _in_lines(path):
        with lines_of(path) as lines:
            for line in lines:
                if line.strip():
                    yield f"line {lines.number}", _of_line(line, path, lines.number)
        return
    whole = json_value(read_text(path), path)
    for number, row in enumerate(whole if isinstance(whole, list) else [whole], 1):
        yield f"request {number}", row


def _in_lines(path: Path) -> bool:
    """Whether the first line is a whole mapping: then every line is one."""
    from npusim.reading.markup import json_value
    from npusim.reading.tables import lines_of

    with lines_of(path) as lines:
        try:
            first = next((line.strip() for line in lines if line.strip()), "")
            return path.suffix == ".jsonl" or isinstance(json_value(first, path), dict)
        except FileError:
            return path.suffix == ".jsonl"


def _of_line(line: str, path: Path, number: int) -> Any:
    from npusim.reading.markup import json_value

    try:
        return json_value(line, path)
    except FileError as error:
        raise FileError(path, f"line {number} {error.problem}") from None


def _asked(row: Any, usual_output: int) -> Iterator[Asked]:
    if not isinstance(row, Mapping):
        raise _WrongError(say("is no mapping with {forms}").format(forms=say(_FORMS)))
    for keys, read in _READERS:
        if any(key in row for key in keys):
            yield from read(row, usual_output)
            return
    raise _WrongError(say("has none of {forms}").format(forms=say(_FORMS)))


def _counted(row: Mapping[str, Any], _: int) -> Iterator[Asked]:
    names = ("input_length", "output_length")
    if not all(name in row for name in names):
        raise _WrongError(say("lacks one of {names}").format(names=", ".join(names)))
    contents = row.get("hash_ids", [])
    if not isinstance(contents, list) or not all(isinstance(each, int) for each in contents):
        raise _WrongError(say("has hash_ids that are no list of whole numbers"))
    at_ms = _number(row["timestamp"], "timestamp") if "timestamp" in row else None
    inputs, outputs = (_tokens(row[name], name) for name in names)
    yield Asked(at_ms, inputs, outputs, tuple(contents))


def _results(row: Mapping[str, Any], _: int) -> Iterator[Asked]:
    """What ``vllm bench serve`` saved; ``start_times`` in seconds, by a clock of its own."""
    names = ("input_lens", "output_lens")
    columns = [row.get(name) for name in names]
    starts = row.get("start_times")
    lists = columns if starts is None else [*columns, starts]
    if not all(isinstance(each, list) and len(each) == len(lists[0] or ()) for each in lists):
        raise _WrongError(
            say("lacks one of {names} as lists of one length").format(names=", ".join(names))
        )
    for number, (inputs, outputs) in enumerate(zip(*columns, strict=True)):
        at_ms = None if starts is None else 1e3 * _number(starts[number], "start_times")
        yield Asked(at_ms, _tokens(inputs, names[0]), _tokens(outputs, names[1]))


def _talked(row: Mapping[str, Any], usual_output: int) -> Iterator[Asked]:
    """Up to the first answer: talks without one (or that begin with it) are left out."""
    key = "conversations" if "conversations" in row else "messages"
    turns = row[key]
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise _WrongError(say("has {key} that are no list of mappings").format(key=key))
    said = 0
    for turn in turns:
        text = _text(turn.get("value", turn.get("content")), key)
        if turn.get("from", turn.get("role")) in _ANSWER:
            if said and text:
                yield Asked(None, said, text)
            return
        said += text
    if key == "messages" and said:  # a chat that waits for its answer
        yield Asked(None, said, usual_output)


def _prompted(row: Mapping[str, Any], usual_output: int) -> Iterator[Asked]:
    prompt = row["prompt"]
    tokens = len(prompt) if isinstance(prompt, list) else _text(prompt, "prompt")
    if "prompt_len" in row:
        tokens = _tokens(row["prompt_len"], "prompt_len")
    wanted = next((row[key] for key in ("output_tokens", "output_len") if key in row), usual_output)
    yield Asked(None, max(1, tokens), _tokens(wanted, "output_tokens"))


_READERS: Final[
    tuple[tuple[tuple[str, ...], Callable[[Mapping[str, Any], int], Iterator[Asked]]], ...]
] = (
    (("input_length", "output_length", "timestamp"), _counted),
    (("input_lens", "output_lens"), _results),
    (("conversations", "messages"), _talked),
    (("prompt",), _prompted),
)


def _text(value: Any, key: str) -> int:
    """Tokens of a text, or of the texts among the parts of a message."""
    if isinstance(value, list):
        return sum(_text(each.get("text", ""), key) for each in value if isinstance(each, Mapping))
    if not isinstance(value, str):
        raise _WrongError(say("has {key} with something that is no text").format(key=key))
    return -(-len(value.encode("utf-8", "replace")) // BYTES_OF_A_TOKEN)


def _number(value: Any, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (abs(value) < 1e18 and isfinite(value)) or value < 0:
        raise _WrongError(
            say("has {name} {value!r}: say a number, 0 or more").format(
                name=name, value=str(value)[:40]
            )
        )
    return float(value)


def _tokens(value: Any, name: str) -> int:
    found = _number(value, name)
    if found > _MOST_TOKENS or found != int(found):
        raise _WrongError(
            say("has {name} {value!r}: say whole tokens, up to {most_tokens}").format(
                name=name, value=str(value)[:40], most_tokens=_MOST_TOKENS
            )
        )
    return max(1, int(found))
