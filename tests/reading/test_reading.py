"""The gate: files that are huge, deep, bent or forbidden are refused in a sentence, and quickly."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import house
from npusim.reading import limits
from npusim.reading.arrays import array_in, arrays_in
from npusim.reading.files import kind_of, note_read, read_bytes, read_text
from npusim.reading.kept import remembered
from npusim.reading.markup import json_value, yaml_mapping
from npusim.reading.tables import lines_of, table_in
from npusim.values.errors import FileError, HostMemoryError


def bomb(levels: int = 9, fan: int = 10) -> str:
    """YAML whose aliases stand for `fan` ** `levels` values."""
    more = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * fan)}]" for n in range(1, levels + 1))
    return "\n".join(("a0: &a0 [1]", *more))


# -- no other way in -------------------------------------------------------------------------------

# Modules outside the gate that use what it is for, and why they may.
EXCEPTIONS = {
    "npusim.graph.aten.archive": "takes apart what the gate has opened, as torch would",
    "npusim.values.host": "asks the system for its memory",
    "npusim.values.guard": "asks the system what its processes were started with",
    "npusim.catalogue.store": "unpacks the package's own catalogue, whose checksum it has compared",
    "npusim.reporting.files": "writes",
    "npusim.reporting.csvfile": "writes",
    "npusim.values.plotted": "writes",
    "npusim.sweeping.results": "writes, and locks what it writes",
    "npusim.cli.arguments": "a checksum of a name",
    "npusim.cli.init": "hands out the package's own templates",
    "npusim.cli.mcp_tools": "reads what the npusim that it has just run has printed",
    "npusim.cli.skill": "hands out the package's own text",
    "npusim.sweeping.asking": "reads the line that its own worker has just written",
    "npusim.cli.output": "the null device in place of streams that are closed",
    "npusim.capi.compiling": "looks whether what it would overwrite is a program",
    "npusim.capi.library": "locks, and writes what it compiles",
    "npusim.capi.runtime.journal": "writes into a folder that `npusim exec` has just made",
    "npusim.capi.runtime.compiled_kernels": "reads what its own compiler has just written",
    "npusim.capi.projects.host_code": "takes apart what the library that it has loaded tells",
    "npusim.runtime.known_runs": "takes apart a line of runs that were kept, and expects any other",
    "npusim.capi.running": "reads what its own program has just written into a folder of its own",
}
READERS = {"open", "read_text", "read_bytes", "fdopen", "fromfile", "loadtxt", "genfromtxt"}
LOADERS = {"loads", "safe_load", "full_load", "unsafe_load", "memmap", "open_memmap"}
FORMATS = {"csv", "gzip", "zipfile", "zlib", "yaml", "pickle", "tarfile", "lzma", "bz2", "marshal"}
# Methods of ours that are called as what reads files is.
OURS = {"npusim.capacity.fleet": {"open"}}


def ways_in(tree: ast.AST) -> set[str]:
    """What a module uses that reads files or takes formats apart."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names} & FORMATS
        elif isinstance(node, ast.ImportFrom) and node.module in FORMATS:
            found.add(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= {node.func.attr} & (LOADERS | READERS)
            if node.func.attr == "load" and ast.unparse(node.func.value) in {"json", "np", "onnx"}:
                found.add("load")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            found.add("open")
    return found


def test_nothing_else_reads_files() -> None:
    others = {
        name: used
        for name, file in house.modules().items()
        if house.room_of(name) != "reading"
        and (used := ways_in(ast.parse(file.read_text(encoding="utf-8"))) - OURS.get(name, set()))
    }
    assert not {name: used for name, used in others.items() if name not in EXCEPTIONS}
    assert not set(EXCEPTIONS) - set(others)  # none is left over


# -- YAML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bomb(), "more than 500,000 values"),
        ("x: " + "[" * 30_000, "more than 64 lists and mappings"),
        ("x: " + "{a: " * 30_000, "more than 64 lists and mappings"),
        ("a: &a [*a]", "line 1 has *a, which stands for what it is a part of"),
        ("a: &a {b: *a}", "stands for what it is a part of"),
        ("title: !!int abc", "'abc' is no int"),
        ("title: !!bool abc", "'abc' is no bool"),
        ("title: !!float abc", "'abc' is no float"),
        ("title: !!timestamp abc", "'abc' is no timestamp"),
        ("title: " + "9" * 5000, "is no int"),
        ("title: 1" + ":1" * 200_000, "is no int"),
        ("title: !!python/object:os.system x", "could not determine a constructor"),
        ("a: *b", "undefined alias"),
        ("? [1]\n: 2", "unhashable"),
        ("? {1: 2}\n: 2", "unhashable"),
        ("- 1", "holds no mapping"),
        ("a: 1\n--- \nb: 2", "found another document"),
        ("a: \x07", "no YAML"),
    ],
)
def test_yaml_is_measured_before_it_is_built(text: str, says: str) -> None:
    start = time.process_time()
    with pytest.raises(FileError, match=r"f\.yaml: ") as caught:
        yaml_mapping(text, "f.yaml")
    assert says in caught.value.message
    assert len(caught.value.message) < 200
    assert time.process_time() - start < 5


def test_dates_in_yaml_are_text() -> None:
    assert yaml_mapping("a: 2001-01-01\nb: 2001-99-99", "f") == {
        "a": "2001-01-01",
        "b": "2001-99-99",
    }


def test_yaml_within_the_limits_is_as_it_was() -> None:
    text = "base: &b {x: 1, y: [1.5, null, yes, ~, 'a']}\nother: {<<: *b, z: *b}\nn: 0x1F"
    found = yaml_mapping(text, "f")
    base = {"x": 1, "y": [1.5, None, True, None, "a"]}
    assert found == {"base": base, "other": {**base, "z": base}, "n": 31}


# -- JSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "more than 64 lists"),
        ("[" * 65 + "]" * 65, "more than 64 lists"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "more than 64 lists"),
        ("[" + "9" * 5000 + "]", "is not JSON"),
        ("{", "is not JSON"),
        (b"\xff", "is not JSON"),
    ],
)
def test_json_is_measured_before_it_is_built(text: str | bytes, says: str) -> None:
    with pytest.raises(FileError, match=says):
        json_value(text, "f.json")


def test_brackets_in_strings_dont_count() -> None:
    content: Any = {"a": ["[[" * 100, '"{\\' * 100], "b": [[1, 2], {}]}
    assert json_value(json.dumps(content), "f") == content
    assert json_value("[" * 64 + "]" * 64, "f")


@pytest.mark.parametrize("text", ['"' + '\\"' * 400_000, '"' * 800_000, '"\\' * 400_000])
def test_strings_without_an_end_take_linear_time(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(FileError, match="is not JSON"):
        json_value(text, "f.json")
    assert time.perf_counter() - begun < 5


# -- arrays ----------------------------------------------------------------------------------------


def npy_header(text: str, version: int = 1) -> bytes:
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


DICT = "{'descr': '%s', 'fortran_order': False, 'shape': %s}\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUM",
        npy_header("((((((((" * 100),
        npy_header("{" * 3000),
        npy_header("[" * 9000),
        npy_header(DICT % ("<f4", "(4611686018427387904, 4611686018427387904)")),
        npy_header(DICT % ("<f4", "(-1,)")),
        npy_header(DICT % ("<f4", "('a',)")),
        npy_header(DICT % ("|S0", "(9,)")),
        npy_header(DICT % ("|O", "(1,)")) + b"cos\nsystem\n(S'true'\ntR.",
        npy_header(DICT % ("<f9", "(1,)")),
        npy_header("1"),
        npy_header("\xff\xfe"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x09\x00\x01\x00 ",
    ],
)
def test_bent_arrays_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(content)
    with pytest.raises(FileError):
        array_in(file)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(FileError):
        arrays_in(tmp_path / "x.npz")


def test_a_zip_bomb_is_weighed_before_it_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_header(DICT % ("<f4", f"({2**46},)")))
    content = bytearray(file.read_bytes())
    place = content.index(b"PK\x01\x02") + 24  # the central directory's uncompressed size
    content[place : place + 4] = (2**32 - 2).to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises((FileError, HostMemoryError)):
        arrays_in(file)


def test_arrays_beyond_the_hosts_memory_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npusim.values.host.available_bytes", lambda: 1 << 30)
    file = tmp_path / "x.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", b"")
        archive.infolist()[0].file_size = 6 << 30
    with pytest.raises(HostMemoryError, match=r"too large for this host: need 6 GiB, have 1 GiB"):
        arrays_in(file)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    np.savez_compressed(file, a=np.arange(1000))
    whole = file.read_bytes()
    for place in range(0, len(whole), 37):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            arrays_in(file)
        except FileError:
            continue


# -- tables ----------------------------------------------------------------------------------------


def test_a_long_line_is_refused_before_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "t.csv.gz"
    with gzip.open(file, "wb") as stream:
        for _ in range(64):
            stream.write(b"a" * (1 << 20))
    start = time.process_time()
    with pytest.raises(FileError, match="line 1 is longer than"), table_in(file):
        pass
    assert time.process_time() - start < 2


def test_what_unpacks_to_much_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npusim.reading.tables.MOST_UNPACKED_BYTES", 1 << 20)
    file = tmp_path / "t.gz"
    file.write_bytes(gzip.compress(b"a,b\n" * (1 << 21)))
    with pytest.raises(FileError, match="suspiciously much"), lines_of(file) as lines:
        list(lines)


def test_blank_lines_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npusim.reading.tables.MOST_BLANK_LINES", 5000)
    file = tmp_path / "t.csv"
    file.write_bytes(b"a,b\n" + b"\n" * 10_000)
    with pytest.raises(FileError, match="blank lines"), table_in(file) as table:
        list(table)


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"a,b\n1,2\n" * 999)[:-20], b"\x1f\x8b"],
    ids=["plain", "cut off", "head"],
)
def test_what_cant_be_unpacked_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "t.csv.gz"
    file.write_bytes(content)
    with pytest.raises(FileError, match=r"can't be (unpacked|read)"), table_in(file) as table:
        list(table)


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(bytes(range(32, 127)) * 300)
    for place in range(2, len(whole), 5):
        file = tmp_path / "t.gz"
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            with lines_of(file) as lines:
                list(lines)
        except FileError:
            continue


def test_short_rows_and_long_fields(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b\n\n1,2\n3\n", encoding="utf-8")
    with table_in(file) as table:
        rows = iter(table)
        assert next(rows) == (3, ["1", "2"])
        with pytest.raises(FileError, match="line 4: 1 fields instead of 2"):
            next(rows)
    file.write_text('a,b\n"' + "x\n" * 100_000, encoding="utf-8")
    with pytest.raises(FileError, match="field larger"), table_in(file) as table:
        list(table)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="isn't text in UTF-8"), table_in(file):
        pass


# -- paths -----------------------------------------------------------------------------------------


def test_paths_that_are_none(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b", "y/" * 3000):
        for ask in (kind_of, read_text):
            with pytest.raises(FileError):
                ask(tmp_path / name)
    with pytest.raises(FileError, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(FileError, match="no such file"):
        read_text(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is no file"):  # and doesn't wait for a writer
        read_text(tmp_path / "pipe")


def test_a_file_may_be_too_large(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    with file.open("wb") as stream:
        stream.truncate(limits.MOST_TEXT_BYTES + 1)
    with pytest.raises(FileError, match="larger than the 64 MiB"):
        read_text(file)
    assert read_bytes(file, limits.MOST_TEXT_BYTES + 1)


# -- what is kept ----------------------------------------------------------------------------------


def test_what_others_may_write_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUSIM_CACHE", str(tmp_path))

    def ask(value: object) -> object:
        return remembered("name", ["text"], dict, lambda: {"value": value})

    assert ask(1) == ask(2) == {"value": 1}
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o622)
    assert ask(3) == {"value": 3}  # and is replaced by a file of our own
    assert ask(4) == {"value": 3}
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        assert ask(5) == {"value": 5}


def test_kept_files_hold_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUSIM_CACHE", str(tmp_path))
    remembered("name", ["text"], tuple, lambda: (1, "a", [None, {"b": (2.5,)}]))
    assert remembered("name", ["text"], tuple, tuple) == (1, "a", [None, {"b": (2.5,)}])
    (file,) = tmp_path.iterdir()
    _, _, body = file.read_bytes().partition(b"\n")
    json.load(io.BytesIO(body))


@pytest.mark.parametrize(
    ("named", "is_allowed"),
    [
        ("in/a.yaml", True),
        ("in", True),
        ("in/new.yaml", True),
        ("in/../in/a.yaml", True),
        ("in_not/a.yaml", False),
        ("in/../in_not/a.yaml", False),
        ("in/link.yaml", False),
        ("in/linked/a.yaml", False),
        ("/etc/passwd", False),
    ],
)
def test_files_are_in_the_folders_that_are_named(tmp_path, monkeypatch, named, is_allowed) -> None:
    for folder in ("in", "in_not"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.yaml").write_text("a: 1")
    (tmp_path / "in" / "link.yaml").symlink_to(tmp_path / "in_not" / "a.yaml")
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "in_not")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPUSIM_FOLDERS", "in")
    if is_allowed:
        assert kind_of(named) in ("file", "folder", "")
        return
    for ask in (kind_of, note_read, lambda each: read_text(Path(each))):
        with pytest.raises(FileError, match="lies outside the folders that may be used"):
            ask(named)
