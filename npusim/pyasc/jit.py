"""``@asc.jit``: functions that run on the cores of the simulated chip."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from npusim.ascendc.flat.copies import Address, DeviceMemory
from npusim.ascendc.flat.launching import ProgramKernel
from npusim.pyasc.matmul import Server, ended
from npusim.pyasc.session import session
from npusim.pyasc.tensors import GlobalAddress
from npusim.pyasc.values import DataType, Int, Struct
from npusim.runtime.grids import require_blocks
from npusim.runtime.listening import overridden
from npusim.values.dtypes import dtype as dtype_of
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.ascendc.flat.station import Station

_NAMES = """
    always_compile auto_sync auto_sync_log insert_sync kernel_type matmul_cube_only opt_level debug
    capture_exceptions ir_multithreading core_num stream verify_sync run_asc2 verbose
    bisheng_options
"""
OPTIONS = frozenset(_NAMES.split())
_MIXED = frozenset({"Matmul", "register_matmul"})


class JITFunction:
    """A function of a program: ``function[blocks, stream](...)`` launches it as a kernel.

    Called from a kernel it is an ordinary function.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._function = _with_loops(function)
        self._options = dict(options)
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__wrapped__ = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def __getitem__(self, where: int | tuple[Any, ...]) -> Callable[..., None]:
        blocks = where[0] if isinstance(where, tuple) else where

        def launch(*arguments: Any, **named: Any) -> None:
            self._launch(int(overridden("block_dim", blocks)), arguments, named)

        return launch

    def _launch(self, blocks: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        options = self._options | {
            name: named.pop(name) for name in tuple(named) if name in OPTIONS
        }
        require_blocks(blocks, session().device.profile, f"blocks of {self.__name__}")
        bound = inspect.signature(self._function).bind(*arguments, **named)
        bound.apply_defaults()
        memories: dict[str, DeviceMemory] = {}
        given = {
            name: _argument(name, overridden(name, value), memories)
            for name, value in bound.arguments.items()
        }

        def run(station: Station) -> None:
            self._function(**{name: _by_value(value) for name, value in given.items()})

        cores, is_mix = _cores(self.__wrapped__, options)
        kind = ProgramKernel.named(self.__name__, self.__wrapped__.__module__, cores, is_mix=is_mix)
        tensors = [memory.tensor for memory in memories.values()]
        links = bool(options.get("insert_sync")) or "LocalTensorAuto" in _names(self.__wrapped__)
        shared = Server()
        kernel = kind(
            run, tensors, blocks, served=shared.serve, links=links, shared=shared, ending=ended
        )
        session().play(kernel, tuple(memories.values()))


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function that runs on the cores of the chip; options are those of pyasc."""
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise ArgumentError(
            f"jit has no option {unknown[0]!r}", f"Known: {', '.join(sorted(OPTIONS))}."
        )
    if function is None:
        return lambda function: JITFunction(function, options)
    return JITFunction(function, options)


def _argument(name: str, value: Any, memories: dict[str, DeviceMemory]) -> Any:
    """What a kernel gets for an argument of a launch."""
    if isinstance(value, bool | float | str | type(None)):
        return value
    if isinstance(value, int):
        return Int(value)
    if isinstance(value, np.generic):
        return _argument(name, value.item(), memories)
    if isinstance(value, Struct):
        return value
    data = _array(name, value)
    if data is None:
        return value
    memories[name] = DeviceMemory(name, data)
    dtype = dtype_of(data.dtype)
    return GlobalAddress(Address(memories[name], dtype, 0, data.nbytes), DataType.of(dtype))


def _array(name: str, value: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of a NumPy array or a torch tensor, in their own memory."""
    if isinstance(value, np.ndarray):
        data = value
    elif type(value).__module__.split(".")[0] == "torch" and hasattr(value, "numpy"):
        data = _of_torch(value)
    else:
        return None
    if not data.flags.c_contiguous:
        raise ArgumentError(f"{name} isn't contiguous", f"Pass {name}.contiguous() or a copy.")
    return data


def _of_torch(tensor: Any) -> np.ndarray[Any, Any]:
    torch: Any = sys.modules["torch"]  # whoever has a tensor has imported it
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        whole: np.ndarray[Any, Any] = tensor.detach().view(torch.int16).numpy()
        return whole.view(ml_dtypes.bfloat16)
    plain: np.ndarray[Any, Any] = tensor.detach().numpy()
    return plain


def _by_value(value: Any) -> Any:
    return value.by_value() if isinstance(value, Struct) else value


def _cores(
    function: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[Literal["vector", "cube"], bool]:
    """The cores that a kernel runs on, and whether a block has both kinds."""
    kind = getattr(options.get("kernel_type"), "name", "")
    if options.get("matmul_cube_only") or kind in ("AIC_ONLY", "MIX_AIC_1_0"):
        return "cube", False
    if kind.startswith("MIX_AIC"):
        return "vector", True
    if kind:
        return "vector", False
    return "vector", bool(_MIXED & _names(function))


def _names(function: Callable[..., Any]) -> frozenset[str]:
    """All names in the code of a function and of the jit functions that it calls."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or not isinstance(one, FunctionType):
            continue
        seen.add(id(one))
        names = set(_in_code(one.__code__))
        found |= names
        reached = (one.__globals__.get(name) for name in names)
        waiting += [each.__wrapped__ for each in reached if isinstance(each, JITFunction)]
    return frozenset(found)


def _in_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _in_code(each)


class _Loops(ast.NodeTransformer):
    """``with matmul.iterate() as count`` is a loop in pyasc; here it is written as one."""

    found = False

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        item = node.items[0]
        call = item.context_expr
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "iterate"
        ):
            self.found = True
            target = item.optional_vars or ast.Name("_", ast.Store())
            return ast.copy_location(ast.For(target, call, node.body, []), node)
        return node


def _with_loops(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled anew with its lines where there are such loops."""
    if "iterate" not in set(_in_code(function.__code__)):
        return function
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    loops = _Loops()
    tree = loops.visit(tree)
    if not loops.found:
        return function
    ast.increment_lineno(tree, first - 1)
    definition = tree.body[0]
    definition.decorator_list = []
    names = function.__code__.co_freevars
    outer = ast.parse(f"def _outer({', '.join(names)}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [definition, ast.Return(ast.Name(definition.name, ast.Load()))]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    held: dict[str, Any] = {}
    code = compile(module, function.__code__.co_filename, "exec")
    exec(code, function.__globals__, held)  # noqa: S102 - the user's own function
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    made: Callable[..., Any] = held["_outer"](*cells)
    return made
