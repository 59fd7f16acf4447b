"""`npusim op build`: both sides of a custom operator project compiled, and written as a plug-in."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from npusim.capi.compiling import compile_library
from npusim.capi.launch_syntax import has_launches, kernel_kinds, translated
from npusim.capi.library import kernel_version
from npusim.capi.projects.definitions import HOST, TOLD, library_name
from npusim.capi.projects.host_code import HostCode
from npusim.capi.projects.kernels import parameters_of
from npusim.capi.projects.tiling_fields import Field, fields_of
from npusim.operators import folders
from npusim.reading.files import read_bytes
from npusim.values.dtypes import BFLOAT16, BOOL, DOUBLE, FLOAT, FLOAT16, DType
from npusim.values.errors import FileError, OutputExistsError, RejectedError, UsageError
from npusim.values.guard import guarded_folder
from npusim.values.host import cores

if TYPE_CHECKING:
    from npusim.capi.projects.described import Described

_HOST, _KERNEL = "op_host", "op_kernel"
_SUFFIXES = (".cpp", ".cc", ".cxx")
_TILING_CLASS = re.compile(
    r"^\s*REGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE
)
_DEFAULT = "REGISTER_TILING_DEFAULT"
# A kernel with template arguments, which its tiling key chooses (ASCENDC_TPL_SEL).
_TEMPLATE = "ASCENDC_TPL_"

# What a dtype is in a kernel's C++.
_CXX = {FLOAT: "float", FLOAT16: "half", BFLOAT16: "bfloat16_t", BOOL: "bool", DOUBLE: "double"}

_DEFINITIONS = '''"""Operators of {project}, built by npusim."""

from npusim.capi.projects.definitions import definitions_of

OPERATORS = definitions_of(__file__)
'''


class _Told(NamedTuple):
    """What is kept of an operator: the cores of its kernel, and the members of its tiling data."""

    kind: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Built:
    """A plug-in that has been written: its folder, and the operators with their kernels' number."""

    folder: Path
    kernels: dict[str, int]


def build(project: Path, output: Path, *, prefix: str = "", force: bool = False) -> Built:
    """Compiles a project's op_host and op_kernel; the plug-in is a folder of its own in ``output``.

    ``prefix`` goes before the operators' names, which may be those of operators of npusim's own.

    The compiler's messages go to standard error and name the project's files and lines. Raises
    FileError where there is no project, OutputExistsError for a folder that is something else,
    RejectedError where the compiler objects or the project has what isn't simulated.
    """
    hosts, kernels = _sources(project, _HOST), _sources(project, _KERNEL)
    name = f"npusim_project_{re.sub(r'[^0-9a-z]+', '_', project.absolute().name.lower())}"
    target = output / name
    if target.exists() and not ((target / TOLD).is_file() and force):
        raise OutputExistsError(target, "Choose another folder with -o, or overwrite with --force.")
    output.mkdir(parents=True, exist_ok=True)
    with guarded_folder(f".{name}.", within=output.resolve()) as room:
        scratch = Path(room, "new")
        scratch.mkdir()
        entries = scratch / "entries.cpp"
        entries.write_text('#include "npusim/op_entries.h"\n', encoding="utf-8")
        searched = sorted({each.parent for each in hosts})
        compile_library(
            [*hosts, entries],
            scratch / HOST,
            [*(f"-I{each}" for each in searched), f"-I{project}"],
            f"{project / _HOST}",
        )
        entries.unlink()
        ops = HostCode(scratch / HOST).operators()
        if not ops:
            raise FileError(project / _HOST, "adds no operator", "Write OP_ADD(YourOperator).")
        for op in ops:
            _require_free(prefix + op.name)
        told = {op.name: _build_kernels(op, project, kernels, scratch) for op in ops}
        about = {
            "project": str(project.absolute()),
            "built_by": kernel_version(),
            "kinds": {name: each.kind for name, each in told.items()},
            "fields": {name: each.fields for name, each in told.items()},
            "prefix": prefix,
        }
        (scratch / TOLD).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        for file, text in (("__init__.py", ""), ("definitions.py", _DEFINITIONS)):
            words = text.format(project=project.absolute().name)
            (scratch / file).write_text(words, encoding="utf-8")
        if target.exists():
            target.replace(Path(room, "old"))
        scratch.replace(target)
    return Built(target, {prefix + op.name: len(op.combinations) for op in ops})


def _require_free(name: str) -> None:
    """Raises UsageError for the name of an operator that comes with npusim."""
    known = folders.built_in()
    if known.source(name) or known.source(f"aclnn{name}"):
        raise UsageError(
            f"npusim has an operator {name} of its own",
            "Put a word before the project's: npusim op build PROJECT --prefix My.",
        )


def _sources(project: Path, part: str) -> list[Path]:
    """The C++ files of a part of the project, hidden folders left out."""
    if not (project / part).is_dir():
        below = sorted(each.parent for each in project.glob(f"**/{_HOST}"))[:3]
        near = f" There is one in {', '.join(map(str, below))}." if below else ""
        raise FileError(project, f"has no folder {part}", f"Name the folder of the project.{near}")
    found = sorted(
        each.absolute()
        for each in (project / part).rglob("*")
        if each.suffix in _SUFFIXES
        and not any(word.startswith(".") for word in each.relative_to(project).parts)
    )
    if not found:
        raise FileError(project / part, "has no C++ source")
    return found


def _build_kernels(op: Described, project: Path, files: Sequence[Path], scratch: Path) -> _Told:
    """Compiles an operator's kernel for every combination of dtypes."""
    if not op.has_tiling:
        raise FileError(project / _HOST, f"{op.name} has no tiling", "Give it with SetTiling.")
    if not op.families:
        raise FileError(
            project / _HOST, f"{op.name} is for no product", 'Say AddConfig("ascend910b").'
        )
    file, name, kind = _kernel_of(op, project, files)
    if _TEMPLATE in read_bytes(file).decode("utf-8", errors="replace"):
        raise RejectedError(
            f"{file}: kernels with template arguments (ASCENDC_TPL_*) aren't simulated",
            "Choose among variants with TILING_KEY_IS.",
        )
    header = _tiling_header(op, project)

    def compile_one(number: int, dtypes: Sequence[DType]) -> Path:
        source = scratch / f"{op.name}_{number}.cpp"
        text = _translation(op, dtypes, file, name, header and header[0])
        source.write_text(text, encoding="utf-8")
        library = scratch / library_name(op.name, number)
        flags = ["-DTILING_KEY_VAR=npusim_tiling_key", f"-I{file.parent}", f"-I{project / _KERNEL}"]
        compile_library([source], library, flags, f"{file} for {_told(op, dtypes)}")
        source.unlink()
        return library

    with ThreadPoolExecutor(cores()) as pool:
        made = list(pool.map(compile_one, range(len(op.combinations)), op.combinations))
    wanted = len(op.inputs) + len(op.outputs) + 2
    found = parameters_of(made[0])
    if found != wanted:
        raise RejectedError(
            f"{file}: {name} has {found} parameters, but the OpDef of {op.name} asks for {wanted}: "
            "its inputs, its outputs, workspace and tiling"
        )
    return _Told(kind, header[1] if header else ())


def _kernel_of(op: Described, project: Path, files: Sequence[Path]) -> tuple[Path, str, int]:
    """The file that defines an operator's kernel, the function's name, and its cores."""
    wanted = op.name.lower()
    for file in files:
        for name, kind in kernel_kinds(file).items():
            if name.replace("_", "").lower() == wanted:
                return file, name, kind
    raise FileError(
        project / _KERNEL,
        f"defines no kernel for {op.name}",
        'It is written extern "C" __global__ __aicore__ void, and named in small letters.',
    )


def _tiling_header(op: Described, project: Path) -> tuple[Path, tuple[Field, ...]] | None:
    """The header that registers the operator's tiling data, and its members."""
    for file in sorted((project / _HOST).rglob("*.h")):
        text = read_bytes(file).decode("utf-8", errors="replace")
        name = dict(_TILING_CLASS.findall(text)).get(op.name)
        if name and "/." not in str(file.relative_to(project)):
            return file.absolute(), fields_of(text, name)
    return None


def _translation(
    op: Described, dtypes: Sequence[DType], file: Path, name: str, header: Path | None
) -> str:
    """The kernel's file as it is compiled for some dtypes, with what names them before it."""
    lines = ["#include <cstdint>", "static uint64_t npusim_tiling_key;"]
    lines += ['#include "kernel_operator.h"']
    lines += [f'#include "{header}"'] if header else []
    lines += ["namespace optiling {}", "using namespace optiling;"]
    if header and _DEFAULT not in read_bytes(file).decode("utf-8", errors="replace"):
        lines += [f"using NpusimTilingData = NpusimTilingOf{op.name};"]
    lines += [f"#define {each.dt} {each.acl}" for each in dict.fromkeys(dtypes)]
    for tensor, dtype in zip((*op.inputs, *op.outputs), dtypes, strict=True):
        word = tensor.name.upper()
        lines += [f"#define DTYPE_{word} {_cxx(dtype)}", f"#define ORIG_DTYPE_{word} {dtype.dt}"]
        lines += [f"#define FORMAT_{word} FORMAT_ND"]
    own = f"npusim_op_{name}"  # C's library may have a function of that name
    text = read_bytes(file).decode("utf-8", errors="replace")
    launches = has_launches(text)  # by a function for tests that aren't operators
    body = translated(text, str(file)) if launches else f'#include "{file}"'
    lines += [f"#define {name} {own}", body]
    lines += ['#include "npusim/op_kernel_entry.h"', f"NPUSIM_OP_KERNEL({name})"]
    return "\n".join(lines) + "\n"


def _cxx(dtype: DType) -> str:
    return _CXX.get(dtype) or f"{dtype.name.lower()}_t"


def _told(op: Described, dtypes: Sequence[DType]) -> str:
    tensors = (*op.inputs, *op.outputs)
    return ", ".join(f"{t.name}={d.name}" for t, d in zip(tensors, dtypes, strict=True))
