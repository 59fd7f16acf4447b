"""A program with other constants: what `npusim tune` runs and compares."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.pyasc import running
from npusim.reading.files import read_text
from npusim.runtime.listening import overriding
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
    """All combinations of the parameters' values by the time of all that ran, fastest first.

    A parameter is a constant of the program's own level (``TILE = 1024``), a parameter of its
    kernels, whose argument is replaced, or ``block_dim``, the blocks of every launch. Raises
    UnknownNameError for what is none of these.
    """
    path = Path(program)
    if not path.is_file():
        raise FileError(program, "is no file", "Name a Python program.")
    try:
        tree = ast.parse(read_text(path), program)
    except SyntaxError as error:
        raise FileError(program, f"line {error.lineno}: {error.msg}") from None
    constants, arguments = _constants(tree), _parameters(tree) | {"block_dim"}
    for name in parameters:
        if name not in constants | arguments:
            raise UnknownNameError("parameter", name, sorted(constants | arguments))
    return rank(
        {
            told: partial(_time, tree, program, words, device, given)
            for told, given in combinations(parameters)
        }
    )


def combinations(parameters: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, Values]]:
    """Every combination of the values, and what it is called."""
    for values in product(*parameters.values()):
        given = dict(zip(parameters, values, strict=True))
        yield " ".join(f"{name}={value}" for name, value in given.items()), given


def _time(
    tree: ast.Module, program: str, words: Sequence[str], device: Device, given: Values
) -> float:
    """Microseconds of all launches of a variant; what it prints is dropped."""
    changed = _Constants(given).visit(deepcopy(tree))
    code = compile(ast.fix_missing_locations(changed), program, "exec")
    printed = io.StringIO()
    with overriding(given), contextlib.redirect_stdout(printed):
        exit_code, held = running.run_code(code, (program, *words), device)
    if exit_code:
        raise VariantError(f"it ended with exit code {exit_code}")
    if not held.launched:
        raise VariantError("it launched no kernel and ran no operator")
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
    """The parameters of kernels: all of pyasc's, those that are no tensors of npusim's."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = node.args
            if _is_decorated(node, "jit"):
                found |= {each.arg for each in (*given.args, *given.kwonlyargs)}
            elif _is_decorated(node, "kernel") or node.name == "__init__":
                with_default = given.args[len(given.args) - len(given.defaults) :]
                found |= {each.arg for each in (*with_default, *given.kwonlyargs)}
    return found


def _is_decorated(function: ast.FunctionDef, name: str) -> bool:
    return any(
        ast.unparse(each).partition("(")[0].rpartition(".")[2] == name
        for each in function.decorator_list
    )


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
