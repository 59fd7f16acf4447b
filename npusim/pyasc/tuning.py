"""A program with other constants: what `npusim tune` runs and compares."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.pyasc import running, session
from npusim.reading.files import read_text
from npusim.runtime.ranking import Ranked, rank
from npusim.values.errors import FileError, NpusimError, UnknownNameError

if TYPE_CHECKING:
    from npusim.runtime.device import Device

Values = Mapping[str, float]


class VariantError(NpusimError):
    """A variant of a program that didn't come to its end."""


def tune(
    program: str, words: Sequence[str], device: Device, parameters: Mapping[str, Sequence[float]]
) -> list[Ranked]:
    """All combinations of the parameters' values by the time of all launches, fastest first.

    A parameter is a constant of the program's own level (``TILE = 1024``), or a parameter of its
    kernels, whose argument is replaced. Raises UnknownNameError for what is neither.
    """
    path = Path(program)
    if not path.is_file():
        raise FileError(program, "is no file", "Name a Python program.")
    try:
        tree = ast.parse(read_text(path), program)
    except SyntaxError as error:
        raise FileError(program, f"line {error.lineno}: {error.msg}") from None
    constants, arguments = _constants(tree), _parameters(tree)
    for name in parameters:
        if name not in constants | arguments:
            raise UnknownNameError("parameter", name, sorted(constants | arguments))
    variants = {}
    for values in product(*parameters.values()):
        given = dict(zip(parameters, values, strict=True))
        told = " ".join(f"{name}={value}" for name, value in given.items())
        variants[told] = lambda given=given: _time(tree, program, words, device, given)
    return rank(variants)


def _time(
    tree: ast.Module, program: str, words: Sequence[str], device: Device, given: Values
) -> float:
    """Microseconds of all launches of a variant; what it prints is dropped."""
    changed = _Constants(given).visit(deepcopy(tree))
    code = compile(ast.fix_missing_locations(changed), program, "exec")
    printed = io.StringIO()
    with session.overriding(given), contextlib.redirect_stdout(printed):
        exit_code, held = running.run_code(code, (program, *words), device)
    if exit_code:
        raise VariantError(f"it ended with exit code {exit_code}")
    if not held.launched:
        raise VariantError("it launched no kernel")
    return sum(each.result.duration_us for each in held.launched)


def _constants(tree: ast.Module) -> set[str]:
    return {name for node in tree.body for name in _assigned(node)}


def _assigned(node: ast.stmt) -> Iterator[str]:
    """The names that a statement gives values to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (each.id for each in names if isinstance(each, ast.Name))


def _parameters(tree: ast.Module) -> set[str]:
    """The parameters of functions that are decorated as jit."""
    return {
        argument.arg
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and _is_jit(node)
        for argument in (*node.args.args, *node.args.kwonlyargs)
    }


def _is_jit(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(each) for each in function.decorator_list)


class _Constants(ast.NodeTransformer):
    """Puts other values behind the assignments of the program's own level."""

    def __init__(self, given: Values) -> None:
        self._given = given

    def visit_Module(self, node: ast.Module) -> ast.Module:
        body: list[ast.stmt] = []
        for each in node.body:
            body.append(each)
            for name in _assigned(each):
                if name in self._given:
                    value = ast.Constant(self._given[name])
                    changed = ast.Assign([ast.Name(name, ast.Store())], value)
                    body.append(ast.copy_location(changed, each))
        node.body = body
        return node
