"""What LLVM is told of a pass: a function over rows, in LLVM's assembly language.

The function takes the address of a table of 64-bit numbers: the sizes of the outer axes and of a
row, then every array's address and its steps in bytes along the outer axes, then the addresses of
rows of scratch memory, one for each fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from npusim.ascendc.passes import Pass

MOST_OUTER_AXES = 3
_TYPES = {"float32": "float", "float16": "half", "bfloat16": "i16", "uint8": "i8", "bool": "i8"}


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """What NumPy calls a dtype; it takes its time."""
    return dtype.name


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a pass: its dtype, and whether its rows are ``packed`` or repeat one number."""

    dtype: str
    packed: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """A step of a pass, as far as its code depends on it."""

    name: str
    sources: tuple[int, ...]
    dtype: str
    settles: bool
    folds: bool


@dataclass(frozen=True, slots=True)
class Structure:
    """What machine code depends on: everything of a pass but sizes and addresses.

    ``arrays`` are the inputs and then the outputs that lie in memory of their own; ``outputs`` are
    pairs of a step and one of the arrays.
    """

    inputs: int
    arrays: tuple[Operand, ...]
    steps: tuple[Instruction, ...]
    outputs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, work: Pass, arrays: tuple[Operand, ...]) -> Structure:
        """The structure of a pass over such arrays."""
        own, outputs = len(work.inputs), []
        for output in work.outputs:
            outputs.append((output.step, own if output.shares is None else output.shares))
            own += output.shares is None
        steps = tuple(
            Instruction(
                step.work.name,
                step.sources,
                name_of(step.dtype),
                work.saturates and step.work.settles and step.dtype.kind == "f",
                step.work.folds,
            )
            for step in work.steps
        )
        return cls(len(work.inputs), arrays, steps, tuple(outputs))

    @property
    def parameters(self) -> list[str]:
        """What the function for a row is given: its arrays, and scratch memory for each fold."""
        arrays = [f"%a{number}" for number in range(len(self.arrays))]
        return arrays + [f"%s{number}" for number, step in enumerate(self.steps) if step.folds]


class _Lines:
    """Lines of a function's body, and names for their results that begin with a letter."""

    def __init__(self, letter: str) -> None:
        self.lines: list[str] = []
        self._letter = letter

    def put(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def value(self, expression: str) -> str:
        name = f"%{self._letter}{len(self.lines)}"
        self.put(f"{name} = {expression}")
        return name

    def element(self, dtype: str, row: str) -> str:
        """Where the loop is in a row of an array."""
        return self.value(f"getelementptr {_TYPES[dtype]}, ptr {row}, i64 %i")


Emit = Callable[..., str]


def _operation(name: str, dtype: str = "float") -> Emit:
    return lambda f, a, b: f.value(f"{name} {dtype} {a}, {b}")


def _larger(comparison: str) -> Emit:
    """NumPy's maximum or minimum: a NaN stays, and of equal numbers the second is taken."""

    def emit(f: _Lines, a: str, b: str) -> str:
        first = f.value(f"fcmp {comparison} float {a}, {b}")
        chosen = f.value(f"select i1 {first}, float {a}, float {b}")
        nan = f.value(f"fcmp uno float {a}, {a}")
        return f.value(f"select i1 {nan}, float {a}, float {chosen}")

    return emit


def _axpy(f: _Lines, x: str, number: str, before: str) -> str:
    product = f.value(f"fmul float {x}, {number}")
    return f.value(f"fadd float {before}, {product}")


def _sum(f: _Lines, row: str) -> str:
    """The sum of a row that lies in memory."""
    return f.value(f"call float @sum(ptr {row}, i64 %n)")


def _size(f: _Lines, x: str) -> str:
    return f.value(f"call float @llvm.fabs.f32(float {x})")


def _root(f: _Lines, x: str) -> str:
    return f.value(f"call float @llvm.sqrt.f32(float {x})")


def _inverse(f: _Lines, x: str) -> str:
    return f.value(f"fdiv float 1.0, {x}")


def _compared(condition: str) -> Emit:
    def emit(f: _Lines, a: str, b: str) -> str:
        return f.value(f"zext i1 {f.value(f'fcmp {condition} float {a}, {b}')} to i8")

    return emit


def _truth(f: _Lines, byte: str) -> str:
    return f.value(f"zext i1 {f.value(f'icmp ne i8 {byte}, 0')} to i8")


def _selected(f: _Lines, mask: str, a: str, b: str) -> str:
    return f.value(f"select i1 {f.value(f'icmp ne i8 {mask}, 0')}, float {a}, float {b}")


def _widened(f: _Lines, half: str) -> str:
    """A bfloat16 is the upper half of a float32."""
    bits = f.value(f"shl i32 {f.value(f'zext i16 {half} to i32')}, 16")
    return f.value(f"bitcast i32 {bits} to float")


def _narrowed(mode: str) -> Emit:
    """Round as npusim.ascendc.rounding does: add to the bits, and cut off the lower half."""

    def emit(f: _Lines, x: str) -> str:
        bits = f.value(f"bitcast float {x} to i32")
        if mode == "CAST_ROUND":
            added = "32768"
        elif mode == "CAST_TRUNC":
            added = "0"
        elif mode in ("CAST_FLOOR", "CAST_CEIL"):
            away = "slt" if mode == "CAST_FLOOR" else "sge"
            added = f.value(f"select i1 {f.value(f'icmp {away} i32 {bits}, 0')}, i32 65535, i32 0")
        else:
            odd = f.value(f"and i32 {f.value(f'lshr i32 {bits}, 16')}, 1")
            added = f.value(f"add i32 {odd}, 32767")
        upper = f.value(f"lshr i32 {f.value(f'add i32 {bits}, {added}')}, 16")
        half = f.value(f"trunc i32 {upper} to i16")
        nan = f.value(f"fcmp uno float {x}, {x}")
        return f.value(f"select i1 {nan}, i16 {0x7FC0}, i16 {half}")

    return emit


_MODES = ("CAST_NONE", "CAST_RINT", "CAST_ROUND", "CAST_TRUNC", "CAST_FLOOR", "CAST_CEIL")
_TO_EVEN = ("CAST_NONE", "CAST_RINT")
_CONDITIONS = {"lt": "olt", "gt": "ogt", "eq": "oeq", "le": "ole", "ge": "oge", "ne": "une"}

_F1, _F2, _F3 = (("float32",) * count for count in (1, 2, 3))

# What the work of a step is called, the dtypes of its sources and its result: what LLVM is told.
_WORKS: dict[tuple[str, tuple[str, ...], str], Emit] = {
    **{
        (name, _F2, "float32"): emit
        for names, emit in (
            (("add", "adds"), _operation("fadd")),
            (("sub",), _operation("fsub")),
            (("mul", "muls"), _operation("fmul")),
            (("div",), _operation("fdiv")),
            (("max", "maxs"), _larger("ogt")),
            (("min", "mins"), _larger("olt")),
        )
        for name in names
    },
    ("axpy", _F3, "float32"): _axpy,
    ("abs", _F1, "float32"): _size,
    ("sqrt", _F1, "float32"): _root,
    ("rsqrt", _F1, "float32"): lambda f, x: _inverse(f, _root(f, x)),
    ("reciprocal", _F1, "float32"): _inverse,
    ("relu", _F1, "float32"): lambda f, x: _larger("ogt")(f, x, "0.0"),
    ("duplicate", _F1, "float32"): lambda _, x: x,
    ("fold sum", _F1, "float32"): _sum,
    ("select", ("uint8", *_F2), "float32"): _selected,
    ("truth", ("uint8",), "bool"): _truth,
    **{
        (f"compare {mode}", _F2, "uint8"): _compared(condition)
        for mode, condition in _CONDITIONS.items()
    },
    **{(f"bfloat16 to float32 {mode}", ("bfloat16",), "float32"): _widened for mode in _MODES},
    **{(f"float32 to bfloat16 {mode}", _F1, "bfloat16"): _narrowed(mode) for mode in _MODES},
    **{
        (f"float16 to float32 {mode}", ("float16",), "float32"): lambda f, x: f.value(
            f"fpext half {x} to float"
        )
        for mode in _MODES
    },
    **{
        (f"float32 to float16 {mode}", _F1, "float16"): lambda f, x: f.value(
            f"fptrunc float {x} to half"
        )
        for mode in _TO_EVEN
    },
    **{
        (name, ("float16",) * 2, "float16"): _operation(f"f{name[:3]}", "half")
        for name in ("add", "adds", "sub", "mul", "muls", "div")
    },
}

_LARGEST = "0x47EFFFFFE0000000"  # float32's largest number, as LLVM spells it


def _settled(f: _Lines, x: str) -> str:
    """What a chip without infinities leaves: the largest number of its sign, and 0 of NaN."""
    infinite = f.value(f"fcmp ogt float {_size(f, x)}, {_LARGEST}")
    largest = f.value(f"call float @llvm.copysign.f32(float {_LARGEST}, float {x})")
    finite = f.value(f"select i1 {infinite}, float {largest}, float {x}")
    nan = f.value(f"fcmp uno float {x}, {x}")
    return f.value(f"select i1 {nan}, float 0.0, float {finite}")


def text_of(structure: Structure) -> str | None:
    """The function ``@run``; None where LLVM isn't told of all its steps."""
    if not _is_known(structure):
        return None
    return "\n".join((*_row(structure), *_rows(structure), _LIBRARY))


def _is_known(structure: Structure) -> bool:
    dtypes = [each.dtype for each in structure.arrays[: structure.inputs]]
    for step in structure.steps:
        dtypes.append(step.dtype)
        if step.settles and step.dtype != "float32":
            return False
        if (step.name, tuple(dtypes[source] for source in step.sources), step.dtype) not in _WORKS:
            return False
    return all(each.dtype in _TYPES for each in structure.arrays) and all(
        structure.steps[step].folds or structure.arrays[array].packed
        for step, array in structure.outputs
    )


def _row(structure: Structure) -> list[str]:
    """The function for one row: one loop over it, then the folds."""
    head, loop, tail = _Lines("h"), _Lines("v"), _Lines("t")
    values: list[str] = []
    for number, array in enumerate(structure.arrays[: structure.inputs]):
        lines, place = head, f"%a{number}"
        if array.packed:
            lines, place = loop, loop.element(array.dtype, place)
        values.append(lines.value(f"load {_TYPES[array.dtype]}, ptr {place}, align 1"))
    dtypes = [each.dtype for each in structure.arrays[: structure.inputs]]
    for number, step in enumerate(structure.steps):
        lines, sources = loop, [values[source] for source in step.sources]
        if step.folds:  # over a copy of the row
            lines, row = tail, f"%s{number}"
            loop.put(f"store float {sources[0]}, ptr {loop.element('float32', row)}, align 1")
            sources = [row]
        emit = _WORKS[step.name, tuple(dtypes[source] for source in step.sources), step.dtype]
        found = emit(lines, *sources)
        values.append(_settled(lines, found) if step.settles else found)
        dtypes.append(step.dtype)
    for number, array_number in structure.outputs:
        step, place, lines = structure.steps[number], f"%a{array_number}", tail
        if not step.folds:
            lines, place = loop, loop.element(step.dtype, place)
        value = values[structure.inputs + number]
        lines.put(f"store {_TYPES[step.dtype]} {value}, ptr {place}, align 1")
    given = ", ".join(f"ptr noalias {name}" for name in structure.parameters)
    return [
        f"define internal void @row({given}, i64 %n) noinline {{",
        "entry:",
        *head.lines,
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *loop.lines,
        "  %next = add nuw nsw i64 %i, 1",
        "  %more = icmp ult i64 %next, %n",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *tail.lines,
        "  ret void",
        "}",
    ]


def _rows(structure: Structure) -> list[str]:
    """The function for all rows: a loop for every outer axis around the one for a row."""
    axes, count, f = MOST_OUTER_AXES, len(structure.arrays), _Lines("v")

    def entries(number: int) -> list[str]:
        places = [f.value(f"getelementptr i64, ptr %t, i64 {each}") for each in range(number)]
        return [f.value(f"load i64, ptr {place}") for place in places]

    found = entries((axes + 1) * (count + 1) + len(structure.parameters) - count)
    sizes, arrays = found[: axes + 1], found[axes + 1 : (axes + 1) * (count + 1)]
    starts, before = arrays[:: axes + 1], "entry"
    for axis in range(axes):
        f.put(f"br label %loop{axis}")
        f.label(f"loop{axis}")
        f.put(f"%i{axis} = phi i64 [0, %{before}], [%n{axis}, %after{axis}]")
        moved = [f.value(f"mul i64 %i{axis}, {step}") for step in arrays[axis + 1 :: axes + 1]]
        pairs = zip(starts, moved, strict=True)
        starts, before = [f.value(f"add i64 {a}, {b}") for a, b in pairs], f"loop{axis}"
    addresses = (*starts, *found[(axes + 1) * (count + 1) :])
    given = [f"ptr {f.value(f'inttoptr i64 {address} to ptr')}" for address in addresses]
    f.put(f"call void @row({', '.join(given)}, i64 {sizes[-1]})")
    f.put(f"br label %after{axes - 1}")
    for axis in reversed(range(axes)):
        f.label(f"after{axis}")
        f.put(f"%n{axis} = add i64 %i{axis}, 1")
        f.put(f"%m{axis} = icmp ult i64 %n{axis}, {sizes[axis]}")
        behind = f"after{axis - 1}" if axis else "done"
        f.put(f"br i1 %m{axis}, label %loop{axis}, label %{behind}")
    return ["define void @run(ptr %t) {", "entry:", *f.lines, "done:", "  ret void", "}"]


# The sum of a row in NumPy's order: halves down to 128 numbers, which eight lanes add up.
_LIBRARY = """
declare float @llvm.fabs.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.copysign.f32(float, float)

define internal float @sum(ptr %a, i64 %n) {
  %found = call float @halves(ptr %a, i64 %n)
  %whole = fadd float 0.0, %found
  ret float %whole
}

define internal float @halves(ptr %a, i64 %n) {
entry:
  %is_leaf = icmp ule i64 %n, 128
  br i1 %is_leaf, label %leaf, label %split
split:
  %half = lshr i64 %n, 1
  %front = and i64 %half, -8
  %back = sub i64 %n, %front
  %behind = getelementptr float, ptr %a, i64 %front
  %left = call float @halves(ptr %a, i64 %front)
  %right = call float @halves(ptr %behind, i64 %back)
  %both = fadd float %left, %right
  ret float %both
leaf:
  %is_short = icmp ult i64 %n, 8
  br i1 %is_short, label %rest, label %lanes
lanes:
  %first = load <8 x float>, ptr %a, align 4
  %whole = and i64 %n, -8
  br label %lane.check
lane.check:
  %i = phi i64 [8, %lanes], [%i.next, %lane.body]
  %r = phi <8 x float> [%first, %lanes], [%r.next, %lane.body]
  %lane.more = icmp ult i64 %i, %whole
  br i1 %lane.more, label %lane.body, label %lane.end
lane.body:
  %place = getelementptr float, ptr %a, i64 %i
  %eight = load <8 x float>, ptr %place, align 4
  %r.next = fadd <8 x float> %r, %eight
  %i.next = add i64 %i, 8
  br label %lane.check
lane.end:
  %e = shufflevector <8 x float> %r, <8 x float> poison, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %o = shufflevector <8 x float> %r, <8 x float> poison, <4 x i32> <i32 1, i32 3, i32 5, i32 7>
  %pairs = fadd <4 x float> %e, %o
  %p0 = extractelement <4 x float> %pairs, i32 0
  %p1 = extractelement <4 x float> %pairs, i32 1
  %p2 = extractelement <4 x float> %pairs, i32 2
  %p3 = extractelement <4 x float> %pairs, i32 3
  %q0 = fadd float %p0, %p1
  %q1 = fadd float %p2, %p3
  %q = fadd float %q0, %q1
  br label %rest
rest:
  %from = phi i64 [0, %leaf], [%i, %lane.end]
  %start = phi float [-0.0, %leaf], [%q, %lane.end]
  br label %rest.check
rest.check:
  %j = phi i64 [%from, %rest], [%j.next, %rest.body]
  %s = phi float [%start, %rest], [%s.next, %rest.body]
  %rest.more = icmp ult i64 %j, %n
  br i1 %rest.more, label %rest.body, label %rest.end
rest.body:
  %last = getelementptr float, ptr %a, i64 %j
  %v = load float, ptr %last, align 4
  %s.next = fadd float %s, %v
  %j.next = add i64 %j, 1
  br label %rest.check
rest.end:
  ret float %s
}
"""
