"""Files that mean harm: no code runs, nothing ends or hangs, nothing that was read is lost."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim as package
from npusim.reading.markup import json_value
from npusim.values.errors import ArgumentError, FileError
from support.capi import without_code
from support.commands import npusim, started

CHIP = "Ascend910B3"


def test_a_string_of_quotes_is_measured_in_one_pass() -> None:
    start = time.monotonic()
    with pytest.raises(FileError, match="is not JSON"):
        json_value('"' + '\\"' * 100_000, "q.json")
    assert time.monotonic() - start < 5
    assert json_value('["[[[\\"[[", {"a": []}]', "a.json") == ['[[["[[', {"a": []}]


@pytest.mark.parametrize("name", ["x.npy", "hard.npy", "soft.npy"])
def test_what_a_command_reads_it_never_writes_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    np.save(tmp_path / "x.npy", np.ones(64, np.float32))
    os.link(tmp_path / "x.npy", tmp_path / "hard.npy")
    (tmp_path / "soft.npy").symlink_to("x.npy")
    before = (tmp_path / "x.npy").read_bytes()
    said = npusim(capsys, f"run Gelu -s {CHIP} x={tmp_path / 'x.npy'} -o {tmp_path / name} --force")
    assert said.code == 2
    assert "is what this command reads" in said.err
    assert (tmp_path / "x.npy").read_bytes() == before


READ_TOO = (
    ("x.npy", "run Gelu -s {chip} x=x.npy -o {out}"),
    ("x.npy", "trace Gelu -s {chip} x=x.npy -o {out}"),
    ("z.npz", "run Gelu -s {chip} --inputs z.npz -o {out}"),
    ("chip.yaml", "run Gelu -s ./chip.yaml x=fp32[64] -o {out}"),
    ("chip.yaml", "trace Gelu -s ./chip.yaml x=fp32[64] -o {out}"),
    ("chip.yaml", "model model.yaml -s ./chip.yaml --csv {out}"),
    ("chip.yaml", "judge kernel_details.csv -s ./chip.yaml --csv {out}"),
    ("chip.yaml", "judge kernel_details.csv -s ./chip.yaml --html {out}"),
    ("chip.yaml", "sweep sweep.yaml -s ./chip.yaml -o {out}"),
    ("chip.yaml", "sweep sweep.yaml -s ./chip.yaml --csv {out}"),
    ("old.csv", "judge kernel_details.csv -s {chip} --against old.csv --csv {out}"),
    ("model.yaml", "plan plan.yaml --md {out} --force"),
    ("model.yaml", "plan plan.yaml --html {out} --force"),
    ("c.yaml", "model r.onnx -s {chip} --custom c.yaml --csv {out}"),
    ("c.md", "report r.onnx -s {chip} --custom c.md -o {out}"),
    ("w.bin", "model r.onnx -s {chip} --csv {out}"),
    ("program.py", "exec -s {chip} --json-file {out} -- program.py"),
    ("program.sh", "exec -s {chip} --trace {out} -- ./program.sh"),
    ("chip.yaml", "exec -s ./chip.yaml --json-file {out} -- program.py"),
    ("chip.yaml", "exec -s ./chip.yaml --json-file {out} -- ./program.sh"),
    ("program.py", "tune -s {chip} --param T=1,2 --csv {out} -- program.py"),
    ("chip.yaml", "tune -s ./chip.yaml --param T=1,2 --csv {out} -- program.py"),
)  # fmt: skip


def test_a_folder_with_what_was_read_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = f"-s {CHIP} --format msprof -o {tmp_path} --timestamp 20260102030405"
    assert npusim(capsys, f"run Gelu {how} x=fp32[64]").code == 0
    (folder,) = tmp_path.iterdir()
    given = folder / "x.npy"
    np.save(given, np.ones(64, np.float32))
    said = npusim(capsys, f"run Gelu {how} x={given} --force")
    assert (said.code, given.exists()) == (2, True)
    assert "is what this command reads" in said.err


@pytest.fixture(scope="module")
def files_to_read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file of each kind that a verb reads besides the one that it is given."""
    made: Path = tmp_path_factory.mktemp("read")
    np.save(made / "x.npy", np.ones(64, np.float32))
    np.savez(made / "z.npz", x=np.ones(64, np.float32))
    profile = (
        "Name,Type,Accelerator Core,Duration(us),Input Shapes,Input Data Types,Input Formats,"
        'Output Shapes,Output Data Types,Output Formats\nRelu1,Relu,AI_VECTOR_CORE,5,"1024",FLOAT,'
        'ND,"1024",FLOAT,ND\n'
    )
    for name, text in {
        "chip.yaml": f"inherits: {CHIP}\nname: Mine\n",
        "model.yaml": "batch: 8\ncalls:\n  - {op: aclnnRelu, arguments: {self: 'fp16[{B},64]'}}\n",
        "sweep.yaml": f"products: [{CHIP}]\ncalls:\n  - {{op: aclnnRelu, arguments: {{self: "
        "'fp16[64]'}}\n",
        "plan.yaml": "workload:\n  models:\n    - {name: a, reference: model.yaml}\n"
        "  mean_requests_per_s: 10\n  peak_requests_per_s: 20\n"
        "  batching: {max_batch: 2, max_wait_ms: 2}\n"
        f"objective: {{quantile: p99, limit_ms: 20}}\nfleet: {{products: [{CHIP}]}}\n"
        "simulation: {runs: 2, requests: 200, max_requests: 400}\n",
        "c.yaml": "operators: {z.Foo: {duration_us: 5, shapes: [0]}}\n",
        "kernel_details.csv": profile,
        "old.csv": profile,
        "w.bin": "0" * 256,
        "program.py": "T = 1\n",
        "program.sh": "#!/bin/sh\n",
    }.items():
        (made / name).write_text(text)
    shutil.copy(made / "c.yaml", made / "c.md")
    return made


@pytest.mark.parametrize("link", ["", "hard", "soft"])
@pytest.mark.parametrize(("read", "line"), READ_TOO)
def test_what_a_command_reads_besides_it_never_writes_over(
    files_to_read: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    read: str,
    line: str,
    link: str,
) -> None:
    shutil.copytree(files_to_read, tmp_path, dirs_exist_ok=True)
    if "r.onnx" in line:
        helper = pytest.importorskip("onnx.helper")
        outside = helper.make_tensor("w", 1, [4], bytes(16), raw=True)
        outside.ClearField("raw_data")
        outside.data_location = 1
        outside.external_data.add(key="location", value="w.bin")
        onnx_file(tmp_path / "r.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [outside])
    monkeypatch.chdir(tmp_path)
    out = f"{link}{Path(read).suffix}" if link else read
    if link == "hard":
        Path(out).hardlink_to(read)
    elif link:
        Path(out).symlink_to(read)
    before = Path(read).read_bytes()
    said = npusim(capsys, line.format(chip=CHIP, out=out).replace(" -s", " --force -s"))
    assert Path(read).read_bytes() == before
    assert said.code == 2, said.err
    assert "written over" in said.err or "is named twice" in said.err


def test_a_masked_array_is_no_tensor() -> None:
    masked = np.ma.masked_array(np.ones((4, 4), np.float32), np.eye(4))
    with pytest.raises(ArgumentError, match="has no mask"):
        package.Device(CHIP).run("aclnnAbs", self=masked)


def test_a_device_is_copied_and_threads_take_turns_on_a_stream() -> None:
    device = package.Device(CHIP, exact=True)
    again = pickle.loads(pickle.dumps(device))  # noqa: S301 - just made
    assert (again.profile, again.exact) == (device.profile, True)
    stream = device.create_stream()
    with pytest.raises(ArgumentError, match="belongs to its process"):
        pickle.dumps(stream)

    def right(number: int) -> bool:
        given = np.full(64 + number % 7, -number, np.float32)
        found = device.run("aclnnAbs", self=given, stream=stream).outputs["out"]
        return bool((found == -given).all() and found.shape == given.shape)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(right, range(80)))


def test_gcd_of_the_smallest_number() -> None:
    least = np.array([-(2**63), 12], np.int64)
    found = package.Device(CHIP).run("aclnnGcd", self=least, other=np.array([-(2**63), 18]))
    assert found.outputs["out"].tolist() == [-(2**63), 6]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A cache in which `npusim exec` finds a library that its programs never load."""
    folder = tmp_path_factory.mktemp("library")
    return without_code(folder) | {"NPUSIM_CACHE": str(folder / "cache")}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells environments of processes")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_what_a_program_started_ends_with_npusim(
    tmp_path: Path,
    how: signal.Signals | None,
    library: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in library.items():
        monkeypatch.setenv(name, text)
    wait = "true" if how is None else "sleep 300"
    program = tmp_path / "program.sh"
    program.write_text(
        "#!/bin/sh\nsleep 300 >/dev/null 2>&1 & a=$!\nsetsid sleep 300 >/dev/null 2>&1 & b=$!\n"
        f'echo $$ $a $b "$NPUSIM_JOURNAL" > started.part; mv started.part started\n{wait}\n'
    )
    program.chmod(0o755)
    npusim_ = started(["exec", "-s", CHIP, "--", "./program.sh"], tmp_path)
    within(60, (tmp_path / "started").exists)
    *processes, folder = (tmp_path / "started").read_text().split()
    try:
        if how is not None:
            assert all(map(is_running, processes))
            npusim_.send_signal(how)
        _, errors = npusim_.communicate(timeout=30)
        assert "Traceback" not in errors
        within(30, lambda: not any(map(is_running, processes)) and not Path(folder).exists())
    finally:
        for process in filter(is_running, (*processes, str(npusim_.pid))):
            os.kill(int(process), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends children with their parent")
def test_a_process_ends_with_whoever_started_it() -> None:
    code = (
        "import subprocess; from npusim.values.signals import end_with_parent as e;"
        "p = subprocess.Popen(['sleep', '60'], preexec_fn=e); print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = parent.stdout.readline().decode().strip()
        parent.kill()
    within(5, lambda: not is_running(child))


def within(longest_s: float, holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + longest_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process: str) -> bool:
    """Whether it is there, and more than what its parent hasn't asked about."""
    try:
        about = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return about.rpartition(")")[2].split()[0] != "Z"


def onnx_file(path: Path, nodes: list[Any], weights: Any = (), **how: Any) -> Path:
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    graph = make.make_graph(
        nodes, "g", [make.make_tensor_value_info("x", 1, (4,))],
        [make.make_empty_tensor_value_info("y")], list(weights),
    )  # fmt: skip
    opsets = [make.make_opsetid("", how.get("opset", 18)), make.make_opsetid("z", 1)]
    onnx.save(make.make_model(graph, opset_imports=opsets), path)
    return path


def test_nodes_that_end_the_inference_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make = pytest.importorskip("onnx.helper").make_node
    files = {
        "splits into 2 parts and names 3": [make("Split", ["x"], ["a", "b", "y"], num_outputs=2)],
        "ONNX's own code for it ends": [
            make("Foo", ["x"], ["a"], domain="z"), make("EyeLike", ["a"], ["y"], dtype=1)
        ],
        "has 0 inputs of y (Shape)": [make("Shape", [], ["y"])],
        "has no else_branch": [make("If", ["x"], ["y"])],
        "has no body at": [make("Loop", ["", "x"], ["y"])],
    }  # fmt: skip
    for problem, nodes in files.items():
        said = npusim(capsys, f"model {onnx_file(tmp_path / 'a.onnx', nodes)} -s {CHIP}")
        assert said.code == 2
        assert problem in said.err


def test_what_takes_work_is_not_evaluated_beforehand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    helper = pytest.importorskip("onnx.helper")
    text = helper.make_tensor("s", 8, [1], [b"a" * 40 + b"!"])
    number = helper.make_tensor("c", 1, [1], [20.5])
    regex = [helper.make_node("RegexFullMatch", ["s"], ["y"], pattern="(a+)+$")]
    sizes = [helper.make_node("Exp", ["c"], ["e"]), helper.make_node("Cast", ["e"], ["i"], to=7),
             helper.make_node("ConstantOfShape", ["i"], ["y"])]  # fmt: skip
    start = time.monotonic()
    for nodes, weights, opset in ((regex, [text], 20), (sizes, [number], 18)):
        file = onnx_file(tmp_path / "a.onnx", nodes, weights, opset=opset)
        assert "Traceback" not in npusim(capsys, f"model {file} -s {CHIP}").err
    assert time.monotonic() - start < 20


class _Touch:
    """What a pickle runs when it is read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._path,)


KINDS = ("sample", "weight", "constant", "old weights", "old constants", "object", "compiled",
         "target", "size", "name", "guard", "enum")  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")

    class Small(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.factor = torch.nn.Linear(8, 4), torch.ones(8)

        def forward(self, x: Any) -> Any:
            return self.linear(x * self.factor)

    batch = torch.export.Dim("batch", min=1, max=64)
    fed = (torch.zeros(2, 8),)
    exported = torch.export.export(Small().eval(), fed, dynamic_shapes=({0: batch},))
    made: Path = tmp_path_factory.mktemp("torch") / "small.pt2"
    torch.export.save(exported, str(made))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_runs_no_code(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    with zipfile.ZipFile(program) as archive:
        records = {each.partition("/")[2]: archive.read(each) for each in archive.namelist()}
    ran = tmp_path / "ran"
    _spoil(records, kind, str(ran))
    file = tmp_path / "evil.pt2"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"m/{name}", content)
    said = npusim(capsys, f"model {file} -s {CHIP}")
    assert not ran.exists()
    assert "Traceback" not in said.err
    left_out = kind in ("sample", "old weights", "old constants", "compiled", "guard")
    assert said.code == (0 if left_out else 2)


def _spoil(records: dict[str, bytes], kind: str, ran: str) -> None:
    harm = pickle.dumps(_Touch(ran))
    code = f"__import__('os').mkdir({ran!r})"
    model = json.loads(records["models/model.json"])
    graph = model["graph_module"]["graph"]
    added = {
        "sample": "data/sample_inputs/model.pt",
        "old weights": "data/weights/model.pt",
        "old constants": "data/constants/model.pt",
        "compiled": "data/aotinductor/model/a.so",
    }
    if kind in added:
        records[added[kind]] = harm
    elif kind in ("weight", "constant", "object"):
        folder = "weights" if kind == "weight" else "constants"
        name = f"data/{folder}/model_{folder}_config.json"
        config = json.loads(records[name])
        payload = next(iter(config["config"].values()))
        payload["use_pickle"] = True
        if kind == "object":
            payload |= {"path_name": "opaque_obj_0", "tensor_meta": None}
        records[name] = json.dumps(config).encode()
        records[f"data/{folder}/{payload['path_name']}"] = harm
    elif kind == "target":
        argument = {"name": "path", "arg": {"as_string": ran}, "kind": 1}
        graph["nodes"][0] |= {"target": "torch.os.mkdir", "inputs": [argument]}
    elif kind == "size":
        next(iter(graph["tensor_values"].values()))["sizes"][0] = {
            "as_expr": {"expr_str": code, "hint": None}
        }
    elif kind == "name":
        model = json.loads(json.dumps(model).replace('"x"', json.dumps(f"x={code}")))
    elif kind == "guard":
        model["guards_code"] = [code]
    else:
        signature = model["graph_module"]["module_call_graph"][0]["signature"]
        signature["in_spec"] = '[1, {"__enum__": true, "fqn": "this:a", "name": "b"}]'
    records["models/model.json"] = json.dumps(model).encode()
