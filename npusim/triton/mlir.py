"""Reads the text of MLIR that the compiler's front half writes: operations, regions, source lines.

Only the shape of the text is known here: results, operands, lists of numbers, types, attributes
and regions of an operation. What an operation means is for those who play it.
Source of the syntax: https://mlir.llvm.org/docs/LangRef/, and the pages of the dialects there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from npusim.values.errors import FileError

_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"^(%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*) = ")
_OPERATION = re.compile(r'"?([a-z_]\w*(?:\.[\w.]+)?)"?')
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_SHAPED = re.compile(r"^(tensor|memref)<((?:(?:\d+|\?)x)*)(\w+)")
_DYNAMIC = -1


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a scalar has no ``shape``; a size of -1 is known when the program runs."""

    element: str
    shape: tuple[int, ...] | None = None
    is_memory: bool = False

    @property
    def is_scalar(self) -> bool:
        """A number, a truth value or an index."""
        return self.shape is None


@dataclass(eq=False, slots=True)
class Value:
    """A result of an operation, or an argument of a region."""

    number: int
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Line:
    """A place in a source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(eq=False, slots=True)
class Region:
    """Operations one after the other, and the arguments of the block."""

    arguments: tuple[Value, ...] = ()
    operations: list[Operation] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        """All operations, those of inner regions behind the one that has them."""
        for each in self.operations:
            yield each
            for region in each.regions:
                yield from region.walk()


@dataclass(eq=False, slots=True)
class Operation:
    """One operation. ``lists`` are its lists in brackets, of numbers and values."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    text: str
    types: tuple[Type, ...]
    lists: tuple[tuple[int | Value, ...], ...]
    line: Line
    regions: list[Region] = field(default_factory=list)
    ins: tuple[Value, ...] = ()
    outs: tuple[Value, ...] = ()

    def has(self, attribute: str) -> bool:
        """Whether a word stands in its attributes or anywhere else in its text."""
        return attribute in self.text


@dataclass(eq=False, slots=True)
class Function:
    """A function: its arguments, its code, and its attributes as text."""

    name: str
    arguments: tuple[Value, ...]
    body: Region
    attributes: str
    values: int


def read(text: str) -> Function:
    """The first function of a module that has a body. Raises FileError where the text isn't one."""
    return _Reader(text).function()


def type_of(text: str) -> Type:
    """A type from its text."""
    text = text.strip()
    found = _SHAPED.match(text)
    if found is None:
        return Type(text.split(" ", 1)[0])
    kind, sizes, element = found.groups()
    shape = tuple(_DYNAMIC if each == "?" else int(each) for each in sizes.split("x")[:-1])
    return Type(element, shape, kind == "memref")


class _Reader:
    """One module: lines, aliases of places, and the values that are known where it stands."""

    def __init__(self, text: str) -> None:
        self._lines = list(_joined(text))
        self._at = 0
        self._count = 0
        self._scopes: list[dict[str, Value]] = [{}]
        self._aliases: dict[str, str] = {}
        for line in self._lines:
            found = _ALIAS.match(line)
            if found:
                self._aliases[found[1]] = found[2]

    def function(self) -> Function:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line.startswith("func.func") and line.endswith("{"):
                return self._function(line)
        raise FileError("the compiler's output", "has no function", "Report it with the kernel.")

    def _function(self, line: str) -> Function:
        bare, _ = _without_places(line)
        name = bare.split("@", 1)[1].split("(", 1)[0]
        inside, rest = _balanced(bare, bare.index("("))
        arguments = tuple(self._argument(each) for each in _split(inside))
        body = self._region(arguments)
        return Function(name, arguments, body, rest, self._count)

    def _argument(self, text: str) -> Value:
        name, _, kind = text.partition(":")
        return self._define(name.strip(), type_of(kind))

    def _define(self, name: str, kind: Type) -> Value:
        value = Value(self._count, name, kind)
        self._count += 1
        self._scopes[-1][name] = value
        return value

    def _look_up(self, name: str) -> Value:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise FileError("the compiler's output", f"uses {name} before it is there")

    def _region(self, arguments: tuple[Value, ...] = ()) -> Region:
        """The operations up to the line that closes the region, which is left for the caller."""
        region = Region(arguments)
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("}"):
                return region
            self._at += 1
            if line.startswith("^"):
                bare, _ = _without_places(line)
                inside = bare[bare.index("(") + 1 : bare.rindex(")")] if "(" in bare else ""
                region.arguments = tuple(self._argument(each) for each in _split(inside))
                continue
            region.operations.append(self._operation(line))
        raise FileError("the compiler's output", "ends within a region")

    def _operation(self, line: str) -> Operation:
        bare, place = _without_places(line)
        opens = bare.endswith("{")
        head = _RESULTS.match(bare)
        names = _result_names(head[1]) if head else []
        body = bare[head.end() :] if head else bare
        found = _OPERATION.match(body)
        if found is None:
            raise FileError("the compiler's output", f"has a line of no operation: {bare[:60]}")
        name = found[1]
        header = body[:-1].rstrip() if opens else body
        inner: list[tuple[str, str]] = []
        if opens:
            header, inner = _header(name, header)
        operation = Operation(
            name, tuple(self._look_up(each) for each in _operands(header, inner)), (), header,
            (), tuple(self._list(each) for each in _lists(header)), self._place(place),
        )  # fmt: skip
        operation.ins, operation.outs = (
            self._grouped(header, "ins("),
            self._grouped(header, "outs("),
        )
        end = self._regions(operation, inner) if opens else ""
        if end:
            bare_end, place = _without_places(f" {end}")
            operation.text = f"{header} {bare_end}"
            if place:
                operation.line = self._place(place)
        operation.types = tuple(_types(operation.text))
        kinds = _result_types(operation, len(names))
        operation.results = tuple(
            self._define(each, kind) for each, kind in zip(names, kinds, strict=True)
        )
        return operation

    def _regions(self, operation: Operation, inner: list[tuple[str, str]]) -> str:
        """Reads the regions of an operation; what stands behind the last brace."""
        while True:
            self._scopes.append({})
            arguments = tuple(self._define(each, type_of(kind)) for each, kind in inner)
            operation.regions.append(self._region(arguments))
            self._scopes.pop()
            line = self._lines[self._at]
            self._at += 1
            rest = line[1:].strip()
            if not rest.endswith("{"):
                return rest
            bare, _ = _without_places(rest)
            inner = []  # else { or do {: a block's arguments stand on a line of their own
            operation.text += f" {bare[:-1]}"

    def _list(self, text: str) -> tuple[int | Value, ...]:
        found: list[int | Value] = []
        for each in _split(text):
            word = each.strip()
            if word.startswith("%"):
                found.append(self._look_up(word))
            elif re.fullmatch(r"-?\d+", word):
                found.append(int(word))
        return tuple(found)

    def _grouped(self, header: str, opening: str) -> tuple[Value, ...]:
        at = header.find(opening)
        if at < 0:
            return ()
        inside, _ = _balanced(header, at + len(opening) - 1)
        return tuple(self._look_up(each) for each in _NAME.findall(inside.split(" : ")[0]))

    def _place(self, text: str, depth: int = 0) -> Line:
        """The line of a place: of a call, that in the user's function and not in a library's."""
        text = text.strip()
        if text in self._aliases and depth < 50:
            return self._place(self._aliases[text], depth + 1)
        if text.startswith("callsite("):
            inside, _ = _balanced(text, len("callsite"))
            callee, _, caller = inside.rpartition(" at ")
            own = self._place(callee, depth + 1)
            return self._place(caller, depth + 1) if _is_library(own.file) else own
        found = _PLACE.search(text)
        return Line(found[1], int(found[2])) if found else Line("", 0)


def _is_library(file: str) -> bool:
    return not file or "/site-packages/triton/" in file


def _joined(text: str) -> Iterator[str]:
    """Lines without margins; a head that goes on in the next line is joined with it."""
    waiting = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        if line.startswith("(") and waiting:
            line, waiting = f"{waiting} {line}", ""
        elif waiting:
            yield waiting
            waiting = ""
        opened = " linalg.reduce " in f" {line}" or " linalg.map " in f" {line}"
        if opened and not line.endswith("{") and " = linalg" in f" {line}".replace("(", " ", 1):
            waiting = line
            continue
        yield line
    if waiting:
        yield waiting


def _without_places(line: str) -> tuple[str, str]:
    """A line without its ``loc(...)``, and what is in the last of them."""
    place = ""
    while (at := line.find(" loc(")) >= 0:
        inside, rest = _balanced(line, at + 4)
        place, line = inside, line[:at] + rest
    return line.rstrip(), place


def _balanced(text: str, at: int) -> tuple[str, str]:
    """What is between the bracket at a place and its partner, and what stands behind."""
    depth, index, quoted = 0, at, False
    while index < len(text):
        char = text[index]
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "([{<":
            depth += 1
        elif not quoted and char in ")]}>" and text[index - 1] != "-":
            depth -= 1
            if not depth:
                return text[at + 1 : index], text[index + 1 :]
        index += 1
    raise FileError("the compiler's output", f"has a bracket without its partner: {text[:60]}")


def _split(text: str) -> list[str]:
    """Parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>" and text[index - 1] != "-":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:index])
            start = index + 1
    last = text[start:]
    return [*parts, last] if last.strip() else parts


def _result_names(text: str) -> list[str]:
    names = []
    for each in text.split(","):
        name, _, count = each.strip().partition(":")
        names += [f"{name}#{index}" for index in range(int(count))] if count else [name]
    return names


def _header(name: str, header: str) -> tuple[str, list[tuple[str, str]]]:
    """The head of an operation with a region, and the arguments of that which stand in the head."""
    if name == "scf.for":
        return header, _loop_arguments(header)
    if name in ("linalg.reduce", "linalg.map"):
        at = header.rindex("(") if header.endswith(")") else -1
        if at >= 0:
            inside, _ = _balanced(header, at)
            pairs = [each.partition(":")[::2] for each in _split(inside)]
            return header[:at].rstrip(), [(name.strip(), kind) for name, kind in pairs]
    if name == "scf.while":
        found = re.findall(r"(%[\w$.-]+) = %", header)
        kinds = header.rsplit(" : (", 1)[1].split(") ->", maxsplit=1)[0] if " : (" in header else ""
        return header, list(zip(found, _split(kinds), strict=True))
    return header, []


def _loop_arguments(header: str) -> list[tuple[str, str]]:
    index = header.split("scf.for ", 1)[1].split(" = ", 1)[0]
    tail = header.rsplit(" : ", 1)
    kind = tail[1].strip() if len(tail) > 1 and re.fullmatch(r"\w+", tail[1].strip()) else "index"
    found = [(index, kind)]
    if " iter_args(" in header:
        inside, rest = _balanced(header, header.index(" iter_args(") + len(" iter_args"))
        names = [each.split(" = ")[0].strip() for each in _split(inside)]
        kinds, _ = _balanced(rest, rest.index("("))
        found += list(zip(names, _split(kinds), strict=True))
    return found


def _operands(header: str, inner: list[tuple[str, str]]) -> list[str]:
    """The values that an operation takes, in the order of the text."""
    found = _NAME.findall(header)
    own = {each for each, _ in inner}
    return [each for each in found if each not in own]


def _lists(header: str) -> list[str]:
    """Lists in brackets, outside of types and attributes."""
    found, index = [], 0
    while index < len(header):
        char = header[index]
        if char in "<{":
            inside, _ = _balanced(header, index)
            index += len(inside) + 2
            continue
        if char == "[":
            inside, _ = _balanced(header, index)
            found.append(inside)
            index += len(inside) + 2
            continue
        index += 1
    return found


def _types(text: str) -> Iterator[Type]:
    """The types behind the last colon of an operation and behind its arrow."""
    for match in re.finditer(r"(?:tensor|memref)<", text):
        inside, _ = _balanced(text, match.end() - 1)
        yield type_of(f"{match[0]}{inside}>")


def _result_types(operation: Operation, count: int) -> Sequence[Type]:
    """The types of the results, by where the text has them."""
    if not count:
        return ()
    text = operation.text
    name = operation.name
    if name in ("scf.for", "scf.if", "scf.while"):
        behind = text[text.rindex("-> ") + 3 :].strip()
        if not behind.startswith("("):
            return [type_of(behind)]
        kinds, _ = _balanced(behind, 0)
        return [type_of(each) for each in _split(kinds)][:count]
    if operation.outs and "->" not in text:
        return [each.type for each in operation.outs][:count]
    tail = _last_types(text)
    if name in ("arith.cmpi", "arith.cmpf"):
        return [Type("i1", tail[-1].shape)]
    if name in ("tensor.extract", "memref.load"):
        return [Type(tail[-1].element)]
    if name in ("tensor.dim", "memref.dim", "linalg.index"):
        return [Type("index")]
    if name == "bufferization.to_tensor":
        return [Type(tail[-1].element, tail[-1].shape)]
    if count > 1:
        return tail[-count:] if len(tail) >= count else [tail[-1]] * count
    return [tail[-1]]


def _last_types(text: str) -> list[Type]:
    """The types behind the last colon, arrow, ``to`` or ``into``."""
    at, depth, quoted = 0, 0, False
    for index, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([{<":
            depth += 1
        elif char in ")]}>" and text[index - 1] != "-":
            depth -= 1
        elif not depth and text.startswith(" : ", index):
            at = index + 3
        elif not depth and text.startswith(" -> ", index):
            at = index + 4
    tail = text[at:].strip()
    tail = re.sub(r"\s*\{.*\}\s*$", "", tail)
    tail = re.split(r"\s(?:to|into)\s", tail)[-1].strip()
    if tail.startswith("(") and tail.endswith(")"):
        tail = tail[1:-1]
    return [type_of(each) for each in _split(tail)]
