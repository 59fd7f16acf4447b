"""What can happen to a command from outside: full disks, closed pipes, Ctrl-C, hostile names."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from npusim import Device, NpusimError, TensorSpec, load_profile
from npusim.cli import main
from npusim.reporting.arrays import read_npz, write_npz
from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Code, Page, Section, Table
from npusim.reporting.files import claim_all
from npusim.reporting.renderers.html import to_markdown
from npusim.sweeping.results import ResultFile
from npusim.values.errors import ArgumentError, FileError, HostMemoryError, ProfileError
from npusim.values.spelling import visible
from support.commands import started
from support.plans import plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELU = ("aclnnRelu", "-s", "910b3", "self=fp16[4]")
posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")

SPEC = """\
products: [Ascend910B3]
axes: {N: {from: 1, to: 300, step: 1}, C: [64, 96]}
calls: [{op: aclnnRelu, arguments: {self: "fp16[{N},{C}]"}}]
"""


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'"$0" -m npusim {line}', sys.executable]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    code = end.value.code
    assert isinstance(code, int)
    return code, capsys.readouterr().err


# -- standard output, folders, memory --------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("estimate " + " ".join(RELU) + " > /dev/full", 2, "No space left on device"),
        ("estimate " + " ".join(RELU) + " --json >&-", 2, "standard output: can't be written"),
        ("estimate " + " ".join(RELU) + " >&- 2>&-", 2, ""),
        ("run Selu -s 910b3 'x=bf16[1,64]' -o /dev/null 2>/dev/full", 0, ""),
        ("profiles | head -1 >/dev/null", 0, ""),
    ],
)
def test_a_standard_output_that_takes_nothing(
    tmp_path: Path, line: str, code: int, says: str
) -> None:
    done = shell(line, tmp_path)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert not re.search("Traceback|Exception ignored|internal", done.stderr)


@posix
def test_a_working_folder_that_has_been_deleted(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = shell(f"trace {' '.join(RELU)}; echo code $?", gone)
    assert "code 0" in done.stdout
    command = f'rmdir ../gone && "$0" -m npusim trace {" ".join(RELU)}'
    (gone / "trace.json").unlink()
    line = ["sh", "-c", command, sys.executable]
    again = subprocess.run(line, capture_output=True, text=True, check=False, cwd=gone)
    assert again.returncode == 2
    assert "trace.json: can't be written: No such file or directory" in again.stderr


def test_a_terminal_of_no_size(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, "\u00b2")
    with pytest.raises(SystemExit) as end:
        main(["estimate", *RELU])
    assert end.value.code == 0
    assert "latency" in capsys.readouterr().out


def test_more_than_the_host_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npusim.values.host.available_bytes", lambda: 1 << 30)
    code, err = said(capsys, "run", *RELU[:3], "self=fp16[200000,200000]")
    assert code == 1
    assert "too large for this host: need 224 GiB, have 1 GiB" in err
    small = np.broadcast_to(np.zeros((), np.float16), (1 << 30,))
    with pytest.raises(HostMemoryError, match="have 1 GiB"):
        Device("910b3").run("aclnnRelu", self=small)


def test_memory_that_ends_in_the_middle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        np.empty(1 << 62, np.uint8)

    monkeypatch.setattr("npusim.runtime.call.planned", full)
    code, err = said(capsys, "estimate", *RELU)
    assert code == 1
    assert "too large for this host: need 4.29e+09 GiB, have" in err


def test_cores_beyond_the_chips_are_refused_first(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    code, err = said(capsys, "trace", *RELU, "-n", "0-99999999999")
    assert code == 2
    assert "the chip has 40 cores, counted from 0" in err
    assert time.process_time() - start < 5


@pytest.mark.parametrize("shape", ["9223372036854775807,2", "1" * 5000, "9223372036854775808", "²"])
def test_sizes_that_no_tensor_has(capsys: pytest.CaptureFixture[str], shape: str) -> None:
    for verb in ("check", "estimate"):
        code, err = said(capsys, verb, *RELU[:3], f"self=fp16[{shape}]")
        assert code == 2
        assert "internal" not in err


# -- files that mustn't be overwritten -------------------------------------------------------------


def test_a_file_isnt_named_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "s.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    (tmp_path / "link.yaml").symlink_to(spec)
    results = tmp_path / "a.jsonl"
    for words in (
        ("-o", results, "--csv", results),
        ("-o", results, "--plot", tmp_path / "x.svg", "--csv", tmp_path / "x.svg"),
        ("-o", spec, "--force"),
        ("-o", tmp_path / "link.yaml", "--force"),
        ("-o", results, "--csv", spec, "--force"),
    ):
        code, err = said(capsys, "sweep", spec, *words)
        assert code == 2
        assert "is named twice" in err
    assert spec.read_text(encoding="utf-8") == SPEC
    assert not results.exists()
    os.link(spec, tmp_path / "hard.yaml")
    with pytest.raises(ArgumentError):
        claim_all(tmp_path / "hard.yaml", beside=(spec,), force=True)
    claim_all(None, tmp_path / "new", beside=(None,))


def test_resuming_locks_before_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text('{"key": "a", "status": "ok"}\n', encoding="utf-8")
    locked: list[bool] = []
    lock = ResultFile._lock
    monkeypatch.setattr(ResultFile, "_lock", lambda self: (lock(self), locked.append(True)))
    reading = "npusim.sweeping.results.read_rows"
    rows = [{"key": "a"}]
    monkeypatch.setattr(reading, lambda _: rows if locked else pytest.fail("read before"))
    with ResultFile(path, resume=True) as results:
        assert results.keys == {"a"}


@pytest.mark.parametrize("name", ["x" * 300 + ".json", "y/" * 3000 + "z.json"])
def test_names_that_are_too_long(capsys: pytest.CaptureFixture[str], name: str) -> None:
    for words in (
        ("trace", *RELU, "-o", name),
        ("run", *RELU[:3], f"self={name}.npy"),
        ("run", *RELU, "--inputs", name),
        ("run", "--case", name, "-s", "910b3"),
        ("check", "--model", name, "-s", "A2"),
        ("sweep", name),
        ("sweep", __file__, "-o", name),
        ("plan", name),
        ("validate", name),
        ("model", name, "-s", "910b3"),
        ("profiles", "show", f"{name}.yaml"),
    ):
        code, err = said(capsys, *words)
        assert code == 2
        assert "internal" not in err


def test_pipes_take_archives(tmp_path: Path) -> None:
    import ml_dtypes

    array = np.arange(4).astype(ml_dtypes.bfloat16)
    write_npz(os.devnull, {"x": array}, force=True)
    write_npz(tmp_path / "x.npz", {"x": array})
    assert (read_npz(tmp_path / "x.npz")["x"] == array).all()


# -- what we write ---------------------------------------------------------------------------------


def test_cells_are_no_formulas() -> None:
    evil = [
        "=cmd|' /C calc'!A0",
        "@SUM(1)",
        "+1+cmd",
        "-2+3",
        "\t=1",
        "a=b",
        "-1.5",
        "+3e4",
        "-inf",
    ]
    rows = list(csv.reader(StringIO(csv_text(["a"], ([each] for each in evil)))))
    assert [row[0] for row in rows[1:]] == [f"'{each}" for each in evil[:5]] + evil[5:]
    assert csv_text(["a", "b"], [(-1.5, None)]) == "a,b\n-1.5,\n"


def test_markdown_has_no_html_of_its_own() -> None:
    evil = "<script>alert(1)</script>"
    table = Table((evil, "n"), ((evil, "<!-- | x"),), caption=evil)
    page = Page(evil, evil, facts=((evil, "a < b <3"),), sections=(Section(evil, (table,)),))
    text = to_markdown(page)
    assert "<script" not in text
    assert "<!--" not in text
    assert "a < b <3" in text
    fenced = to_markdown(Page("t", sections=(Section("s", (Code("a\n```\n<b>"),)),)))
    assert "````sh\na\n```\n<b>\n````" in fenced


def test_control_characters_dont_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert visible("a\x1b[2J\x07\x9b\u202eb\n\tc") == "a\\x1b[2J\\x07\\x9b\\u202eb\n\tc"
    file = tmp_path / "kernel_details.csv"
    row = '"n\x1b[2J","T\x1b[31m",AI_VECTOR_CORE,1.0,"4","FLOAT","ND","4","FLOAT","ND"\n'
    head = "Name,Type,Accelerator Core,Duration(us),Input Shapes,Input Data Types,Input Formats,"
    file.write_text(f"{head}Output Shapes,Output Data Types,Output Formats\n{row}", "utf-8")
    with pytest.raises(SystemExit):
        main(["model", str(file), "-s", "910b3"])
    shown = capsys.readouterr()
    assert "T\\x1b[31m" in shown.out
    with pytest.raises(SystemExit):
        main(["check", "Ad\x1b[2Jd", "-s", "910b3"])
    shown_too = capsys.readouterr()
    for text in (shown.out, shown.err, shown_too.err):
        assert "\x1b" not in text


# -- Ctrl-C ----------------------------------------------------------------------------------------


def interrupted(words: list[str], after_s: float, folder: Path) -> tuple[int, str]:
    """Exit code and standard error of a command that its whole group is told to stop."""
    process = started(words, folder)
    time.sleep(after_s)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


SLOW = """\
import time
import npusim.reporting.trace
from npusim.cli import main
from npusim.reporting.files import atomic_write

def slowly(res, path, *_, **__):
    with atomic_write(path) as stream:
        stream.write(b"half")
        time.sleep(60)

npusim.reporting.trace.write_trace = slowly
main(["trace", "aclnnRelu", "-s", "910b3", "self=fp16[4]"])
"""


@posix
def test_a_sigterm_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    for _ in range(600):
        if list(tmp_path.glob(".trace.json.*.part")):
            break
        time.sleep(0.1)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


@posix
def test_ctrl_c_never_shows_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SPEC, encoding="utf-8")
    for turn, after_s in enumerate((0.12, 0.3, 0.6, 1.0, 1.5, 2.5)):
        words = ["sweep", "s.yaml", "-o", f"{turn}.jsonl", "--workers", "2"]
        code, err = interrupted(words, after_s, tmp_path)
        assert code in (0, 130, -signal.SIGINT), (after_s, err)
        assert "Traceback" not in err, (after_s, err)
        if code == 130 and (tmp_path / f"{turn}.jsonl").exists() and err:
            assert "continue with --resume" in err


# -- the Python API --------------------------------------------------------------------------------


def deep() -> Any:
    found: list[Any] = []
    for _ in range(5000):
        found = [found]
    return found


WRONG: dict[str, Callable[[], Any]] = {
    "operator None": lambda: Device("910b3").run(None),  # type: ignore[arg-type]
    "operator bytes": lambda: Device("910b3").estimate(b"Add"),  # type: ignore[arg-type]
    "operator number": lambda: Device("910b3").check(3),  # type: ignore[arg-type]
    "first phase": lambda: Device("910b3").get_workspace_size(7),  # type: ignore[arg-type]
    "l2": lambda: Device("910b3", l2=3),  # type: ignore[arg-type]
    "l2 list": lambda: Device("910b3", l2=[]),  # type: ignore[arg-type]
    "chip None": lambda: Device(None),  # type: ignore[arg-type]
    "chip number": lambda: load_profile(910),  # type: ignore[arg-type]
    "l2 array": lambda: Device("910b3", l2=np.zeros(3)),  # type: ignore[arg-type]
    "exact": lambda: Device("910b3", exact=np.zeros(3)),  # type: ignore[arg-type]
    "executor": lambda: Device("910b3").create_stream().execute(None, 0, 3),  # type: ignore[arg-type]
    "memo": lambda: Device("910b3", memo=3),  # type: ignore[arg-type]
    "stream": lambda: Device("910b3").estimate("aclnnRelu", self="fp16[4]", stream=3),  # type: ignore[arg-type]
    "assume": lambda: Device("910b3").estimate("aclnnRelu", self="fp16[4]", assume=3),  # type: ignore[arg-type]
    "assume array": lambda: Device("910b3").estimate(
        "aclnnRelu", self="fp16[4]", assume=np.ones(3)
    ),  # type: ignore[arg-type]
    "text deep": lambda: Device("910b3").estimate("GeluV2", x="fp16[4]", approximate=deep()),
    "many digits": lambda: Device("910b3").estimate("aclnnRelu", self=10**5000),
    "kernel": lambda: Device("910b3").launch(None),  # type: ignore[arg-type]
    "no kernel": lambda: Device("910b3").launch(int, np.zeros(3)),  # type: ignore[type-var]
    "shape": lambda: TensorSpec(None, "fp16"),  # type: ignore[arg-type]
    "dtype": lambda: TensorSpec((3,), None),
    "format": lambda: TensorSpec((3,), "fp16", format=[]),
    "array": lambda: TensorSpec.of(None),  # type: ignore[arg-type]
    "too many elements": lambda: Device("910b3").estimate(
        "aclnnRelu", self=TensorSpec((2**62, 2), "fp16")
    ),
}


@pytest.mark.parametrize("act", WRONG.values(), ids=WRONG)
def test_wrong_types_are_refused_by_us(act: Callable[[], Any]) -> None:
    with pytest.raises(NpusimError) as caught:
        act()
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 400


def test_errors_say_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["estimate", "aclnnRelux", "-s", "910b3", "--json"])
    assert json.loads(capsys.readouterr().out)["error"]


def test_writing_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        claim_all(tmp_path / "none" / "x")


# -- counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "text", "says"),
    [
        ("plan", "simulation: {requests: 9007199254740993}", "it must be at most 10,000,000"),
        ("plan", "simulation: {runs: 9007199254740993}", "it must be at most 1,000"),
        ("plan", "simulation: {max_cards: 9007199254740993}", "it must be at most 1,000,000"),
        (
            "model",
            "calls: [{op: aclnnRelu, count: 9007199254740993, arguments: {self: 'fp16[4]'}}]",
            "is no whole number from 1 to 1,000,000",
        ),
        ("profiles", "cores: {cube_cores: 1000000000, provenance: {cube_cores: %s}}", "4096"),
    ],
)
def test_counts_have_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, text: str, says: str
) -> None:
    file = tmp_path / "f.yaml"
    if verb == "plan":
        text = yaml.safe_dump({**plan(), **yaml.safe_load(text)})
    if verb == "profiles":
        own = "{source: own_statement, confidence: assumed}"
        text = f"inherits: Ascend910B3\nname: Mine\n{text % own}"
    file.write_text(text, encoding="utf-8")
    words = {"profiles": ("profiles", "show", file), "model": ("model", file, "-s", "910b3")}
    start = time.process_time()
    code, err = said(capsys, *words.get(verb, (verb, file)))
    assert code == 2
    assert says in err
    assert time.process_time() - start < 5


# -- what programs in C++ are linked to ------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="there is no library elsewhere")
def test_a_library_of_somebody_else_isnt_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from npusim.capi import library

    monkeypatch.setenv("NPUSIM_CACHE", str(tmp_path))
    for name in ("require_linux", "require_cffi"):
        monkeypatch.setattr(library.tools, name, lambda: None)
    root = library._cache() / library._key()
    assert root.parent == tmp_path / "capi"
    root.mkdir(parents=True)
    (root / "complete").touch()
    root.chmod(0o700)
    assert library.installation().root == root
    root.chmod(0o777)
    with pytest.raises(FileError, match="belongs to somebody else, or others may write"):
        library.installation()
    (tmp_path / "other").mkdir(mode=0o700)
    (root / "complete").rename(tmp_path / "other" / "complete")
    root.rmdir()
    root.symlink_to(tmp_path / "other")
    with pytest.raises(FileError, match="belongs to somebody else"):
        library.installation()


def test_a_chip_that_has_no_room_for_a_tile(tmp_path: Path) -> None:
    own = "{source: own_statement, confidence: assumed}"
    file = tmp_path / "chip.yaml"
    text = f"buffers: {{l0c_bytes: 1, provenance: {{l0c_bytes: {own}}}}}\n"
    file.write_text(f"inherits: Ascend910B3\nname: Mine\n{text}", encoding="utf-8")
    with pytest.raises(ProfileError, match="l0c_bytes = 1 is not allowed; expected greater"):
        Device(str(file))


@pytest.mark.parametrize("duration", ["0", "-0.0", "nan", "inf", "-1", "²"])
def test_a_measured_time_is_above_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], duration: str
) -> None:
    file = tmp_path / "v.csv"
    head = "chip,op,input_shapes,input_dtypes,output_shapes,output_dtypes,duration_us"
    file.write_text(f'{head}\n910B3,Relu,"4",FLOAT,"4",FLOAT,{duration}\n', encoding="utf-8")
    code, err = said(capsys, "validate", file, "--workers", "1")
    assert code == 2
    assert "not a time above 0" in err
