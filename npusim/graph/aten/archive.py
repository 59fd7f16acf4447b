"""A .pt2 file without anything that runs: what torch.export.load may be given of a foreign file.

Time needs the program and the sizes of its weights. Sample inputs, contents of weights, compiled
parts and further records are left out; what only a pickle could say is refused. torch evaluates
some words of the program as Python (sizes, names, what is called), so those are looked at first.

Source: torch/export/pt2_archive/_package.py, torch/_export/serde/serialize.py of torch 2.13.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from typing import TYPE_CHECKING, Any, Final

from npusim.reading.files import opened
from npusim.reading.limits import MOST_TEXT_BYTES
from npusim.reading.markup import json_value
from npusim.values.errors import FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REMEDY: Final = "Write it with torch.export.save of torch 2.8 or later, as tensors alone."
_PROGRAM: Final = "models/model.json"
_WEIGHTS: Final = "data/weights/"
_CONSTANTS: Final = "data/constants/"
_CONFIGS: Final = {
    f"{_WEIGHTS}model_weights_config.json": _WEIGHTS,
    f"{_CONSTANTS}model_constants_config.json": _CONSTANTS,
}
_KEPT: Final = frozenset(("archive_format", "archive_version", "byteorder", ".data/version"))
_CALLED: Final = re.compile(
    r"torch\.ops(\.\w+){2,3}|_operator\.(?!attrgetter|methodcaller)[a-z]\w*|math\.\w+|torch\.sym_\w+"
    r"|torch\._(sym|check)\w+|torch\._higher_order_ops(\.\w+)+"
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SYMBOL: Final = re.compile(r"(zuf|zf|[suif])\d+|oo|int_oo")
_FUNCTIONS: Final = frozenset(
    ("Abs", "Add", "And", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "CeilDiv", "CeilToInt",
     "CleanDiv", "Eq", "Equality", "Float", "FloatPow", "FloatTrueDiv", "FloorDiv", "FloorToInt",
     "GreaterThan", "Identity", "IntTrueDiv", "Integer", "IsNonOverlappingAndDenseIndicator",
     "LShift", "LessThan", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or",
     "Piecewise", "Pow", "PowByNatural", "PythonMod", "RShift", "Rational", "RoundDecimal",
     "RoundToInt", "StrictGreaterThan", "StrictLessThan", "Symbol", "ToFloat", "TruncToFloat",
     "TruncToInt", "Unequality", "Where", "ceiling", "floor")
)  # fmt: skip
_ARITHMETIC: Final = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop,
    ast.Load, ast.keyword,
)  # fmt: skip
_LONGEST_SIZE: Final = 10_000
_HIGHEST_POWER: Final = 8


def without_code(file: Path) -> io.BytesIO:
    """The archive that torch may read. Raises FileError for one that needs more than tensors."""
    with opened(file) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                return _rewritten(file, archive)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            problem = say("isn't a program that torch.export.load reads ({error})").format(
                error=error
            )
            raise FileError(file, problem, say(_REMEDY)) from None


def _rewritten(file: Path, archive: zipfile.ZipFile) -> io.BytesIO:
    records = {name.partition("/")[2]: name for name in archive.namelist()}
    if _PROGRAM not in records:
        problem = say("isn't a program that torch.export.load reads (it has no {program})").format(
            program=_PROGRAM
        )
        raise FileError(file, problem, say(_REMEDY))

    def read(name: str) -> bytes:
        entry = archive.getinfo(records[name])
        if entry.file_size > MOST_TEXT_BYTES:
            raise FileError(
                file,
                say("{name} in it is larger than {most_text_bytes} MiB").format(
                    name=name, most_text_bytes=MOST_TEXT_BYTES >> 20
                ),
            )
        return archive.read(entry)

    program = json_value(read(_PROGRAM), file)
    if not isinstance(program, dict):
        raise FileError(
            file, say("{program} in it holds no program").format(program=_PROGRAM), say(_REMEDY)
        )
    program["guards_code"] = []  # conditions in Python; nothing here asks them
    _drop_call_graph(program)
    for problem in _problems(program):
        raise FileError(file, problem, say(_REMEDY))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        for name in sorted(_KEPT & records.keys()):
            target.writestr(f"model/{name}", read(name))
        target.writestr(f"model/{_PROGRAM}", json.dumps(program))
        target.writestr("model/data/sample_inputs/model.pt", b"")
        for name, folder in _CONFIGS.items():
            config = json_value(read(name), file) if name in records else {"config": {}}
            payloads = _empty(file, name, config)
            target.writestr(f"model/{name}", json.dumps(config))
            for payload in sorted(payloads):
                target.writestr(f"model/{folder}{payload}", b"")
    made.seek(0)
    return made


def _empty(file: Path, name: str, config: Any) -> set[str]:
    """Make tensors of a configuration ones without contents; returns the names of their records."""
    found = set()
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise FileError(file, say("{name} in it holds no weights").format(name=name), say(_REMEDY))
    for place, (weight, payload) in enumerate(entries.items()):
        about = payload.get("tensor_meta") if isinstance(payload, dict) else None
        if not isinstance(about, dict) or payload.get("use_pickle") is not False:
            problem = say(
                "holds {weight} as a pickle, which could run anything; it isn't read"
            ).format(weight=weight)
            raise FileError(file, problem, say(_REMEDY))
        for problem in _problems(about):
            raise FileError(file, problem, say(_REMEDY))
        prefix = "weight" if name.startswith(_WEIGHTS) else "tensor"
        payload["path_name"] = f"{prefix}_{place}"
        about |= {"device": {"type": "meta", "index": None}, "storage_offset": {"as_int": 0}}
        about["strides"] = [{"as_int": 0} for _ in about.get("sizes") or ()]
        found.add(payload["path_name"])
    return found


def _drop_call_graph(program: dict[str, Any]) -> None:
    """How modules called one another names classes to import; the shapes of trees stay."""
    module = program.get("graph_module")
    for entry in (module.get("module_call_graph") or ()) if isinstance(module, dict) else ():
        signature = entry.get("signature") if isinstance(entry, dict) else None
        if isinstance(signature, dict) and entry.get("fqn"):
            entry["signature"] = None


def _problems(value: Any, key: str = "") -> Iterator[str]:
    """What torch would run, import or look up beyond operators and sizes."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "metadata":
                value[name] = _layers(each)
                continue
            yield from _problems(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _problems(each, key)
    elif isinstance(value, str):
        if key in ("target", "as_operator") and not _CALLED.fullmatch(value):
            yield say("calls {value!r}, which is no operator of torch").format(value=value[:80])
        elif key == "expr_str" and not _is_size(value):
            yield say("has a size that is no arithmetic: {value!r}").format(value=value[:80])
        elif key in ("name", "as_name") and value and not _NAME.fullmatch(value):
            yield say("has a name that is none: {value!r}").format(value=value[:80])
        elif key in ("in_spec", "out_spec") and any(
            word in value for word in ("__enum__", "_module", "\\u")
        ):
            yield say("has results in containers that only an import could make")


def _layers(metadata: Any) -> dict[str, str]:
    """Of what is noted beside a node, the layer that it belongs to."""
    kept = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    return {"nn_module_stack": kept} if isinstance(kept, str) else {}


def _is_size(text: str) -> bool:
    """Whether a size is arithmetic with symbols and numbers, as sympy writes it."""
    try:
        tree = ast.parse(text, mode="eval") if len(text) <= _LONGEST_SIZE else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return tree is not None and all(map(_is_arithmetic, ast.walk(tree)))


def _is_arithmetic(part: ast.AST) -> bool:
    if isinstance(part, ast.Call):
        called = part.func.id if isinstance(part.func, ast.Name) else ""
        is_power = "Pow" in called
        return called in _FUNCTIONS and (not is_power or _is_low(part.args[-1:]))
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
        return _is_low([part.right])
    if isinstance(part, ast.Name):
        return part.id in _FUNCTIONS or _SYMBOL.fullmatch(part.id) is not None
    if isinstance(part, ast.Constant):
        is_text = isinstance(part.value, str)
        return isinstance(part.value, int | float) or (
            is_text and _SYMBOL.fullmatch(str(part.value)) is not None
        )
    return isinstance(part, _ARITHMETIC)


def _is_low(power: list[ast.expr]) -> bool:
    """Whether a power is a small number: the others take for ever, or the memory."""
    for part in ast.walk(ast.Expression(power[0])) if power else ():
        if isinstance(part, ast.Constant) and isinstance(part.value, int | float):
            if abs(part.value) > _HIGHEST_POWER:
                return False
        elif isinstance(part, ast.BinOp):
            return False
    return bool(power)
