"""`npusim op build`: both sides of a custom operator project compiled, and written as a plug-in."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from npusim.capi.compiling import compile_c_library, compile_library, kept_object
from npusim.capi.launch_syntax import has_launches, kernel_kinds, without_launchers
from npusim.capi.library import kernel_version
from npusim.capi.projects.definitions import HOST, TOLD, library_name, operators_of
from npusim.capi.projects.described import require_products
from npusim.capi.projects.host_code import OTHERS, HostCode
from npusim.capi.projects.interfaces import write_interfaces
from npusim.capi.projects.kernels import parameters_of
from npusim.capi.projects.sources import (
    HOSTS,
    KERNELS,
    Sources,
    operator_sources,
    project_sources,
)
from npusim.capi.projects.templates import dispatch
from npusim.capi.projects.tiling_fields import Field, fields_of
from npusim.capi.tools import binary_tool
from npusim.operators import folders
from npusim.reading.files import read_bytes
from npusim.values.dtypes import BFLOAT16, BOOL, DOUBLE, DTYPES, FLOAT, FLOAT16, INT4, DType
from npusim.values.errors import FileError, OutputExistsError, RejectedError, UsageError
from npusim.values.guard import guarded_folder
from npusim.values.host import cores

if TYPE_CHECKING:
    from npusim.capi.projects.described import Described
    from npusim.operators.definition import Aclnn

_TILING_CLASS = re.compile(
    r"^\s*REGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE
)
# Functions, and tables of virtual functions and types, but for those of C++ itself.
_WANTED = re.compile(r"\bU (_Z(?:T[VI](?!N10__cxxabiv1|S|N?St)|(?!T|GV|N?K?S))\w+)")
_DEFAULT = "REGISTER_TILING_DEFAULT"
# A kernel with template arguments, which its tiling key chooses (ASCENDC_TPL_SEL).
_TEMPLATE = re.compile(r"template\s*<[^;{}]*>\s*(?:inline\s+)?__global__")
# What compilers warn of in tilings is the author's, who builds them with CANN. A name that several
# projects define is each one's own.
_OF_HOSTS = ("-w", "-O1", "-Wl,-Bsymbolic")

# What a dtype is in a kernel's C++.
_CXX = {
    INT4: "int4b_t",
    FLOAT: "float",
    FLOAT16: "half",
    BFLOAT16: "bfloat16_t",
    BOOL: "bool",
    DOUBLE: "double",
}

# What ge::DataType calls it.
_HOSTS_BFLOAT16 = "DT_BF16"

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


def build(
    project: Path,
    output: Path,
    *,
    prefix: str = "",
    force: bool = False,
    ops: Sequence[str] = (),
    products: Sequence[str] = (),
) -> tuple[Built, ...]:
    """Compiles a project's op_host and op_kernel; the plug-in is a folder of its own in ``output``.

    ``prefix`` goes before the operators' names, which may be those of operators of npusim's own.
    ``ops`` are folders of a checkout that has many operators, each with its op_host: one plug-in
    for each. ``products`` are some that the operators are for besides those of their AddConfig.

    The compiler's messages go to standard error and name the project's files and lines. Raises
    FileError where there is no project, OutputExistsError for a folder that is something else,
    RejectedError where the compiler objects or the project has what isn't simulated.
    """
    require_products(products)
    found = [operator_sources(project, name) for name in ops] or [project_sources(project)]
    return tuple(_build_one(each, output, prefix, products, force=force) for each in found)


def _build_one(
    sources: Sources, output: Path, prefix: str, products: Sequence[str], *, force: bool
) -> Built:
    project = sources.project
    name = f"npusim_project_{re.sub(r'[^0-9a-z]+', '_', project.absolute().name.lower())}"
    target = output / name
    if target.exists() and not ((target / TOLD).is_file() and force):
        raise OutputExistsError(target, "Choose another folder with -o, or overwrite with --force.")
    output.mkdir(parents=True, exist_ok=True)
    with guarded_folder(f".{name}.", within=output.resolve()) as room:
        scratch = Path(room, "new")
        scratch.mkdir()
        _compile_hosts(sources, scratch)
        ops = HostCode(scratch / HOST).operators(products)
        if not ops:
            raise FileError(project / HOSTS, "adds no operator", "Write OP_ADD(YourOperator).")
        for op in ops:
            _require_free(prefix + op.name)
        with sources.kernel_flags() as flags:
            told = {op.name: _build_kernels(op, sources, scratch, flags) for op in ops}
        about = {
            "project": str(project.absolute()),
            "built_by": kernel_version(),
            "kinds": {name: each.kind for name, each in told.items()},
            "fields": {name: each.fields for name, each in told.items()},
            "prefix": prefix,
            "products": list(products),
        }
        (scratch / TOLD).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        for file, text in (("__init__.py", ""), ("definitions.py", _DEFINITIONS)):
            words = text.format(project=project.absolute().name)
            (scratch / file).write_text(words, encoding="utf-8")
        write_interfaces(_interfaces(scratch), scratch)
        if target.exists():
            target.replace(Path(room, "old"))
        scratch.replace(target)
    return Built(target, {prefix + op.name: len(op.combinations) for op in ops})


def _compile_hosts(sources: Sources, scratch: Path) -> None:
    """Compiles the host's sources, and those of the checkout that define what these call."""
    entries = kept_object("op_entries", '#include "npusim/op_entries.h"\n')
    files: list[Path] = []
    missing: list[str] = []
    more: Sequence[Path] = sources.hosts
    while more:
        files += more
        flags = [*sources.host_flags, *_OF_HOSTS]
        compile_library([*files, entries], scratch / HOST, flags, f"{sources.project / HOSTS}")
        missing = _missing(scratch / HOST)
        names = [_names_in(each) for each in missing if not each.startswith("_ZT")]
        more = sources.defining(names, files)
    _define_others(missing, scratch)


def _missing(library: Path) -> list[str]:
    """The functions, and tables of classes, that no library defines which this one is linked to."""
    wanted = _WANTED.findall(_told_by(binary_tool("nm"), "-D", "--undefined-only", str(library)))
    linked = re.findall(r"(/\S+)", _told_by("ldd", str(library)))
    has = set(re.findall(r" (\w+)", _told_by(binary_tool("nm"), "-D", "--defined-only", *linked)))
    return [each for each in wanted if each not in has]


def _told_by(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout  # noqa: S603


def _names_in(symbol: str) -> tuple[str, ...]:
    """A function's name in a symbol, behind those of what it is in."""
    names, left = [], symbol.removeprefix("_Z").removeprefix("NK").removeprefix("N")
    while found := re.match(r"\d+", left):
        end = found.end() + int(found[0])
        names.append(left[found.end() : end])
        left = left[end:]
    return tuple(names)


def _define_others(missing: Sequence[str], scratch: Path) -> None:
    """Defines what is for other products: tables of classes as nothing, functions as broken.

    A library isn't loaded without tables, and a call of a function that isn't there would end the
    process. Whoever loads this one loads the host's code with it, which finds here what it lacks,
    while nobody else does.
    """
    if not missing:
        return
    lines = ["#include <stdlib.h>", "const char *npusim_missing;"]
    for each in missing:
        name = "::".join(_names_in(each))
        broken = f'void {each}(void) {{ npusim_missing = "{name}"; abort(); }}'
        lines.append(f"void *{each}[64];" if each.startswith("_ZT") else broken)
    source = scratch / "others.c"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    compile_c_library(source, scratch / OTHERS, beside=HOST)
    source.unlink()


def _interfaces(folder: Path) -> dict[str, Aclnn]:
    """The aclnn interfaces of a plug-in."""
    made = [each.definition() for each in operators_of(folder)]
    return {each.name: each for op in made for each in op.interfaces}


def _require_free(name: str) -> None:
    """Raises UsageError for the name of an operator that comes with npusim."""
    known = folders.built_in()
    if known.source(name) or known.source(f"aclnn{name}"):
        raise UsageError(
            f"npusim has an operator {name} of its own",
            "Put a word before the project's: npusim op build PROJECT --prefix My.",
        )


def _build_kernels(
    op: Described, sources: Sources, scratch: Path, searched: Sequence[str]
) -> _Told:
    """Compiles an operator's kernel for every combination of dtypes."""
    project = sources.project
    if not op.has_tiling:
        raise FileError(project / HOSTS, f"{op.name} has no tiling", "Give it with SetTiling.")
    if not op.families:
        raise FileError(
            project / HOSTS,
            f"{op.name} is for no product that is simulated",
            "Build it for one: --add-config ascend910b.",
        )
    file, name, kind = _kernel_of(op, project, sources.kernels)
    headers, fields = _tiling_headers(op, sources)
    flags = ["-DTILING_KEY_VAR=npusim_tiling_key", f"-I{file.parent}", *searched]

    def compile_one(number: int, dtypes: Sequence[DType]) -> Path:
        source = scratch / f"{op.name}_{number}.cpp"
        text = _translation(op, dtypes, file, name, headers)
        if _TEMPLATE.search(read_bytes(file).decode("utf-8", errors="replace")):
            inputs = [each.name for each in op.inputs]
            text += dispatch(text, flags, _own_name(name), inputs) + "\n"
        else:
            text += f"NPUSIM_OP_KERNEL({_own_name(name)})\n"
        source.write_text(text, encoding="utf-8")
        library = scratch / library_name(op.name, number)
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
    return _Told(kind, fields)


def _kernel_of(op: Described, project: Path, files: Sequence[Path]) -> tuple[Path, str, int]:
    """The file that defines an operator's kernel, the function's name, and its cores."""
    wanted = op.name.lower()
    for file in files:
        for name, kind in kernel_kinds(file).items():
            if name.replace("_", "").lower() == wanted:
                return file, name, kind
    raise FileError(
        project / KERNELS,
        f"defines no kernel for {op.name}",
        'It is written extern "C" __global__ __aicore__ void, and named in small letters.',
    )


def _tiling_headers(op: Described, sources: Sources) -> tuple[list[Path], tuple[Field, ...]]:
    """The headers that register the operator's tiling data, and its members.

    The first one has what ``GET_TILING_DATA`` reads; others have what some tiling keys read.
    """
    found: list[Path] = []
    fields: tuple[Field, ...] = ()
    for file in dict.fromkeys(sources.headers()):
        text = read_bytes(file).decode("utf-8", errors="replace")
        registered = dict(_TILING_CLASS.findall(text))
        if op.name in registered:
            fields = fields or fields_of(text, registered[op.name])
            found.insert(0, file)
        elif any(each.startswith(f"{op.name}_") for each in registered):
            found.append(file)
    return found, fields


def _translation(
    op: Described, dtypes: Sequence[DType], file: Path, name: str, headers: Sequence[Path]
) -> str:
    """The kernel's file as it is compiled for some dtypes, with what names them before it."""
    lines = ["#include <cstdint>", "static uint64_t npusim_tiling_key;"]
    lines += ['#include "kernel_operator.h"', '#include "npusim/op_context.h"']
    lines += [f'#include "{header}"' for header in headers]
    lines += ["namespace optiling {}", "using namespace optiling;"]
    text = read_bytes(file).decode("utf-8", errors="replace")
    if headers and _DEFAULT not in text and _registers(op, headers[0]):
        lines += [f"using NpusimTilingData = NpusimTilingOf{op.name};"]
    words = {each.dt: each.acl for each in DTYPES} | {_HOSTS_BFLOAT16: BFLOAT16.acl}
    lines += [f"#define {word} {number}" for word, number in words.items()]  # not 0 in an #if
    for tensor, dtype in zip((*op.inputs, *op.outputs), dtypes, strict=True):
        word = tensor.name.upper()
        lines += [f"#define DTYPE_{word} {_cxx(dtype)}", f"#define ORIG_DTYPE_{word} {dtype.dt}"]
        lines += [f"#define FORMAT_{word} FORMAT_ND"]
    body = f'#include "{file}"'
    if has_launches(text):  # by a function for tests that aren't operators
        body = f'#line 1 "{file}"\n{without_launchers(text)}'
    lines += [f"#define {name} {_own_name(name)}", body, f"#undef {name}"]
    lines += ['#include "npusim/op_kernel_entry.h"']
    return "\n".join(lines) + "\n"


def _registers(op: Described, header: Path) -> bool:
    text = read_bytes(header).decode("utf-8", errors="replace")
    return op.name in dict(_TILING_CLASS.findall(text))


def _own_name(kernel: str) -> str:
    """What a kernel is called here: C's library may have a function of its name."""
    return f"npusim_op_{kernel}"


def _cxx(dtype: DType) -> str:
    return _CXX.get(dtype) or f"{dtype.name.lower()}_t"


def _told(op: Described, dtypes: Sequence[DType]) -> str:
    tensors = (*op.inputs, *op.outputs)
    return ", ".join(f"{t.name}={d.name}" for t, d in zip(tensors, dtypes, strict=True))
