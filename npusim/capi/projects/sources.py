"""The sources of operators: a project's two folders, or an operator's in a library's checkout."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from npusim.reading.files import read_bytes
from npusim.values.errors import FileError, UsageError

HOSTS, KERNELS = "op_host", "op_kernel"
_SUFFIXES = (".cpp", ".cc", ".cxx")
_COMMON = ("", "common", "common/inc", "common/include", "common/inc/op_host")
# Parts of libraries that are for other products, for the AI CPU, or for graphs and aclnn.
_LEFT_OUT = re.compile(
    r"(^|/)(arch35|op_api|config|fusion_pass|graph_plugin|tests|build_out)/|aclnn_|aicpu|graph_infer|fallback|gen_task"
    r"|_apt\.|_950|_arch35|_regbase"
)

_ADDED = re.compile(r"^\s*OP_ADD\s*\(\s*(\w+)", re.MULTILINE)
_TILED = re.compile(r"^\s*IMPL_OP(?:_OPTILING)?\s*\(\s*(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Sources:
    """Where an operator's two sides are; ``root`` is where its library begins, or the project."""

    project: Path
    root: Path
    hosts: tuple[Path, ...]
    kernels: tuple[Path, ...]

    @property
    def host_flags(self) -> list[str]:
        """The folders in which the host's headers are looked for."""
        own = [each.parent for each in self.hosts]
        around = [
            self.project / HOSTS,
            self.project / KERNELS,
            *self._common(),
            *self._shared(HOSTS),
        ]
        return [f"-I{each}" for each in dict.fromkeys((*own, *around)) if each.is_dir()]

    @contextmanager
    def kernel_flags(self) -> Iterator[list[str]]:
        """The folders of the kernels' headers.

        A build lays the kernels of operators side by side: ``../other/x.h`` is in the op_kernel of
        the operator that lies beside this one.
        """
        with tempfile.TemporaryDirectory(prefix="npusim-kernels-") as made:
            beside = Path(made)
            (beside / "npusim_own").mkdir()
            for each in sorted(self.project.parent.glob(f"*/{KERNELS}")):
                (beside / each.parent.name).symlink_to(each)
            around = [self.project / KERNELS, self.project, *self._common(), *self._shared(KERNELS)]
            folders = [beside / "npusim_own", beside, *around]
            yield [f"-I{each}" for each in dict.fromkeys(folders) if each.is_dir()]

    def defining(self, functions: Sequence[tuple[str, ...]], known: Sequence[Path]) -> list[Path]:
        """Sources of the checkout, besides those ``known``, that define some of these functions.

        Each is its name behind those of what it is in. They lie in other operators of the category
        or in what all operators share.
        """
        if not functions or self.root == self.project:
            return []
        folders = [*sorted(self.project.parent.glob(f"*/{HOSTS}")), self.root / "common" / "src"]
        files = [
            file
            for folder in folders
            if folder.is_dir()
            for file in _within(folder, _SUFFIXES, self.root)
            if file not in known
        ]
        return [each for each in files if _defines(_text(each), functions)]

    def headers(self) -> list[Path]:
        """The host's headers and sources, the operator's own first."""
        others = dict.fromkeys(each.parent for each in self.hosts)
        folders = [self.project / HOSTS, *self._shared(HOSTS), *others]
        return [
            file.absolute()
            for folder in folders
            for suffix in (".h", *_SUFFIXES[:1])
            for file in _within(folder, (suffix,), self.root)
        ]

    def _common(self) -> list[Path]:
        """Folders that all operators share, from the nearest one to the library's."""
        found, folder = [], self.project
        while folder not in (self.root, folder.parent):
            folder = folder.parent
            found += [folder / each for each in _COMMON]
        return found

    def _shared(self, part: str) -> list[Path]:
        """What operators of one category share."""
        if self.root == self.project:
            return []
        beside = self.project.parent
        folders = sorted((*beside.glob(f"*_utils/{part}"), *beside.glob(f"common/{part}")))
        return [*folders, *sorted(beside.glob("common/inc"))]


def project_sources(project: Path) -> Sources:
    """A project as msopgen makes it. Raises FileError for a folder that isn't one."""
    found = []
    for part in (HOSTS, KERNELS):
        if not (project / part).is_dir():
            below = sorted(each.parent for each in project.glob(f"**/{HOSTS}"))[:3]
            near = f" There is one in {', '.join(map(str, below))}." if below else ""
            remedy = f"Name the folder of the project, or operators with --ops.{near}"
            raise FileError(project, f"has no folder {part}", remedy)
        found.append(_all(project / part, project))
    root = _library_of(project)
    return Sources(project.absolute(), root, *found)


def operator_sources(checkout: Path, name: str) -> Sources:
    """An operator of a library's checkout, by its folder's name. Raises UsageError for none."""
    found = [
        each.parent
        for each in sorted(checkout.absolute().glob(f"**/{name}/{HOSTS}"))
        if (each.parent / KERNELS).is_dir()
        and not {"examples", "experimental", "tests"}
        & set(each.relative_to(checkout.absolute()).parts)
    ]
    if not found:
        raise UsageError(
            f"{checkout} has no operator in a folder {name} with {HOSTS} and {KERNELS}",
            "Name operators as their folders are, with commas: --ops squared_relu,foreach_log.",
        )
    project, root = found[0], checkout.absolute()
    hosts, kernels = (_all(project / part, root) for part in (HOSTS, KERNELS))
    return Sources(project, root, (*hosts, *_tilings_elsewhere(project, root, hosts)), kernels)


def _tilings_elsewhere(project: Path, root: Path, hosts: Sequence[Path]) -> Iterator[Path]:
    """The sources of another operator beside this one that register the tiling of this one."""
    text = "".join(map(_text, hosts))
    added = set(_ADDED.findall(text))
    wanted = added - set(_TILED.findall(text)) if "SetTiling" not in text else set()
    for folder in sorted(project.parent.glob(f"*/{HOSTS}")) if wanted else ():
        files = {each: _text(each) for each in _within(folder, _SUFFIXES, root)}
        if wanted & {name for each in files.values() for name in _TILED.findall(each)}:
            yield from (file for file, each in files.items() if not _ADDED.search(each))


def _defines(text: str, functions: Sequence[tuple[str, ...]]) -> bool:
    """Whether a source defines one of the functions, in what they are in."""
    return any(
        all(re.search(rf"\b{word}\b", text) for word in around)
        and re.search(rf"^[\w:&*<> ]+\b{name}\s*\([^;{{}}]*\)[^;{{}}]*\{{", text, re.MULTILINE)
        for *around, name in functions
        if name in text
    )


def _text(file: Path) -> str:
    return read_bytes(file).decode("utf-8", errors="replace")


def _library_of(project: Path) -> Path:
    """The checkout that a folder of one operator is in, or the project itself."""
    own = project.absolute()
    for folder in list(own.parents)[:4]:
        if (folder / "common").is_dir() and any(folder.glob("version.*")):
            return folder
    return own


def _all(folder: Path, root: Path) -> tuple[Path, ...]:
    found = tuple(_within(folder, _SUFFIXES, root))
    if not found:
        raise FileError(folder, "has no C++ source")
    return found


def _within(folder: Path, suffixes: tuple[str, ...], root: Path) -> list[Path]:
    """The files of a folder, without hidden ones and those for something else."""
    return sorted(
        each.absolute()
        for each in folder.rglob("*")
        if each.suffix in suffixes
        and not any(
            word.startswith(".") for word in each.absolute().relative_to(root.absolute()).parts
        )
        and not _LEFT_OUT.search(each.relative_to(folder.parent).as_posix())
    )
