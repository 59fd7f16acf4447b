"""Programs in a loop on each core, as the compiler's option TRITON_ALL_BLOCKS_PARALLEL makes it.

As many blocks as there are cores are launched; each takes the programs that lie as many apart, one
after the other: for (program = block; program < programs; program += blocks).
Source: AscendNPU-IR, Auto Blockify (docs, developer guide), --enable-auto-blockify-loop of
bishengir-compile; triton-ascend, docs/en/environment_variable_reference.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from npusim.triton.mlir import Function, Line, Operation, Region, Type, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "TRITON_ALL_BLOCKS_PARALLEL"
_NUMBER, _NOWHERE = Type("i32"), Line("", 0)


def is_asked(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for it, by the words that triton-ascend takes."""
    return environment.get(VARIABLE, "false").lower() in ("true", "1")


def grouped(function: Function) -> Function:
    """The function with its code in a loop over programs.

    Its last three arguments become a block's number, the number of blocks, and that of programs;
    the places along the axes, which those were, are computed from the loop's index.
    """
    *others, x, y, z = function.arguments
    _, rows, columns = others[-3:]
    fresh = [Value(function.values + each, "%group", _NUMBER) for each in range(6)]
    block, blocks, programs, program, within, row = fresh
    inside = [
        _operation("arith.muli", (rows, columns), within),
        _operation("arith.divsi", (program, within), x),
        _operation("arith.divsi", (program, columns), row),
        _operation("arith.remsi", (row, rows), y),
        _operation("arith.remsi", (program, columns), z),
        *function.body.operations[:-1],
        _operation("scf.yield", ()),
    ]
    loop = _operation("scf.for", (block, programs, blocks))
    loop.regions.append(Region((program,), inside))
    body = Region(function.body.arguments, [loop, function.body.operations[-1]])
    arguments = (*others, block, blocks, programs)
    return Function(function.name, arguments, body, function.attributes, function.values + 6)


def _operation(name: str, operands: tuple[Value, ...], *results: Value) -> Operation:
    return Operation(name, operands, results, name, (), (), _NOWHERE)
