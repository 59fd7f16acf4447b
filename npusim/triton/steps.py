"""The scalar unit's operations as functions on the values of a program: scouts run them often."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from npusim.triton.held import UNKNOWN
from npusim.triton.numbers import wrapped
from npusim.triton.scalar import constant, predicate_of

if TYPE_CHECKING:
    from npusim.triton.mlir import Operation
    from npusim.triton.program import LoweredProgram

Env = list[Any]
Step = Callable[[Env, list[Any], list[tuple[object, Any]]], None]


def _towards_zero(a: int, b: int) -> int:
    if not b:
        return 0
    whole = abs(a) // abs(b)
    return -whole if (a < 0) != (b < 0) else whole


_WHOLE: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "maxsi": max,
    "minsi": min,
    "divsi": _towards_zero,
    "remsi": lambda a, b: a - _towards_zero(a, b) * b,
}
_TESTS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "slt": operator.lt, "sle": operator.le,
    "sgt": operator.gt, "sge": operator.ge,
}  # fmt: skip
_CUTS = ("memref.subview", "tensor.extract_slice")
_READERS = ("memref.load", "memref.reinterpret_cast", "memref.subview", "memref.cast")


def step_of(operation: Operation, program: LoweredProgram) -> Step | None:
    """One operation as a function of values, what is told, and places; None if it isn't quick."""
    dialect, _, name = operation.name.partition(".")
    if operation.name in _CUTS:
        return _cut(operation, program)
    if operation.name == "memref.reinterpret_cast":
        return _cast(operation, program)
    if dialect != "arith" or not operation.results[0].type.is_scalar:
        return None
    kind = operation.results[0].type.element
    if name == "constant":
        return _given(operation.results[0].number, constant(operation))
    if name in _WHOLE and kind != "i1":
        return _whole(operation, _WHOLE[name], kind)
    if name == "index_cast":
        return _same(operation, kind)
    if name == "cmpi" and predicate_of(operation) in _TESTS:
        return _test(operation, _TESTS[predicate_of(operation)])
    return None


def _given(result: int, number: Any) -> Step:
    def step(env: Env, _told: list[Any], _places: list[tuple[object, Any]]) -> None:
        env[result] = number

    return step


def _whole(operation: Operation, work: Callable[[int, int], int], kind: str) -> Step:
    left, right = (each.number for each in operation.operands)
    result = operation.results[0].number
    most = (1 << 31) - 1  # what needs no wrapping in any type but the narrow ones
    narrow = kind in ("i8", "i16")

    def step(env: Env, _told: list[Any], _places: list[tuple[object, Any]]) -> None:
        a, b = env[left], env[right]
        if a is UNKNOWN or b is UNKNOWN:
            env[result] = UNKNOWN
            return
        found = work(a, b)
        env[result] = wrapped(found, kind) if narrow or not -most < found < most else found

    return step


def _same(operation: Operation, kind: str) -> Step:
    source, result = operation.operands[0].number, operation.results[0].number

    def step(env: Env, _told: list[Any], _places: list[tuple[object, Any]]) -> None:
        found = env[source]
        env[result] = found if found is UNKNOWN else wrapped(int(found), kind)

    return step


def _test(operation: Operation, work: Callable[[int, int], bool]) -> Step:
    left, right = (each.number for each in operation.operands)
    result = operation.results[0].number

    def step(env: Env, _told: list[Any], _places: list[tuple[object, Any]]) -> None:
        a, b = env[left], env[right]
        env[result] = UNKNOWN if a is UNKNOWN or b is UNKNOWN else work(a, b)

    return step


def _cut(operation: Operation, program: LoweredProgram) -> Step | None:
    users = program.users.get(operation.results[0], [])
    if any(each.name in _READERS for each in users):
        return None
    moving = [each.number for each in operation.lists[1] if not isinstance(each, int)]

    def step(env: Env, told: list[Any], _places: list[tuple[object, Any]]) -> None:
        told.extend([env[each] for each in moving])

    return step


def _cast(operation: Operation, program: LoweredProgram) -> Step | None:
    users = program.users.get(operation.results[0], [])
    if any(each.name in _READERS and each.name != "memref.subview" for each in users):
        return None
    if any(step_of(each, program) is None for each in users if each.name == "memref.subview"):
        return None
    base = operation.operands[0].number
    (offset,), _, strides = operation.lists
    at, fixed = (-1, offset) if isinstance(offset, int) else (offset.number, 0)
    moving = [each.number for each in strides if not isinstance(each, int)]

    def step(env: Env, told: list[Any], places: list[tuple[object, Any]]) -> None:
        told.extend([env[each] for each in moving])
        here = fixed if at < 0 else env[at]
        piece = env[base]
        known = here is not UNKNOWN and piece is not UNKNOWN
        places.append((operation, piece.offset + here if known else UNKNOWN))

    return step
