"""Custom operator projects: built, and then operators like all others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from npusim.capi.projects.described import described
from npusim.capi.projects.templates import instances
from npusim.capi.projects.tiling_fields import Field, fields_of, values_of
from support.capi import Workshop, workshop
from support.commands import npusim as command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "op_project"
CHECKOUT = Path(__file__).parents[1] / "data" / "op_checkout"
PROGRAM = CHECKOUT / "calls_scaled_shift.cpp"
HOST_FILE = "op_host/scaled_shift.cpp"
KERNEL_FILE = "op_kernel/scaled_shift.cpp"

pytestmark = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and shutil.which("g++")), reason="no compiler"
)
pytest.importorskip("cffi")


@pytest.fixture(scope="module", autouse=True)
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """All that is built here is compiled against the library of the test run."""
    made = workshop(tmp_path_factory)
    with made.cache():
        yield made


@pytest.fixture(scope="module")
def folder(shop: Workshop) -> Path:
    """The example, built once in a test run."""
    return shop.project(EXAMPLE, {"ScaledShift": 2})


@pytest.fixture
def built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The built example, named as a user names it."""
    from npusim.operators.registry import refresh

    monkeypatch.setenv("NPUSIM_OPS", str(folder))
    monkeypatch.syspath_prepend(str(folder))
    refresh()
    yield folder
    monkeypatch.undo()
    refresh()


def copied(project: Path) -> None:
    """The example for one dtype, which compiles in half the time."""
    shutil.copytree(EXAMPLE, project)
    host = project / HOST_FILE
    text = host.read_text(encoding="utf-8").replace("DataType({ge::DT_FLOAT16, ", "DataType({")
    host.write_text(text.replace("Format({ge::FORMAT_ND, ", "Format({"), encoding="utf-8")


def changed(tmp_path: Path, change: Callable[[str], str], file: str) -> Path:
    """The example with one file changed."""
    project = tmp_path / "project"
    copied(project)
    path = project / file
    text = path.read_text(encoding="utf-8")
    assert change(text) != text
    path.write_text(change(text), encoding="utf-8")
    return project


@pytest.mark.parametrize("shape", [(1,), (17,), (333, 77), (40, 4096)])
@pytest.mark.parametrize("soc", ["910b3", "310p3"])
def test_numbers(built: Path, shape: tuple[int, ...], soc: str) -> None:
    import npusim

    assert built
    device = npusim.Device(soc)
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    shift = np.array([0.75], np.float32)
    for given, wanted in (({"shift": shift}, x * 2.5 + shift[0]), ({}, x * np.float32(2.5))):
        done = device.run("ScaledShift", x=x, scale=2.5, **given)
        assert done.outputs is not None
        np.testing.assert_allclose(done.outputs["y"], wanted, rtol=1e-6, atol=1e-6)
        spec = npusim.TensorSpec(shape, "float32")
        waited = device.estimate("aclnnScaledShift", x=spec, scale=2.5, **given).duration_us
        assert waited == pytest.approx(done.duration_us)


def test_its_own_tiling_decides_the_blocks(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert built
    line = "op tiling ScaledShift -s 910b3 x=fp16[333,77] scale=2.5 --json"
    told = command(capsys, line).json
    assert (told["blocks"], told["tiling_key"], told["tiling_bytes"]) == (40, 1, 16)
    assert told["data"] == {"total": 25641, "share": 656, "tile": 656, "scale": 2.5}
    told = command(capsys, line.replace("910b3", "310p3").replace("333,77", "33")).json
    assert (told["blocks"], told["data"]["share"]) == (3, 16)
    rows = command(capsys, "estimate ScaledShift -s 910b3 x=fp16[333,77] --json").json
    assert rows["answers"][0]["tasks"][0]["block_dim"] == 40


def test_what_the_project_does_not_take(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert built
    asked = {
        "x=fp32[8] shift=fp16[1] -s 910b3": "may be FLOAT16, FLOAT16, FLOAT16; FLOAT, FLOAT, FLOAT",
        "x=bf16[8] -s 910b3": "161002",
        "x=fp32[8] -s 910a": "AddConfig",
        "x=fp32[65536,65537] -s 910b3": "561002",
    }
    for words, reason in asked.items():
        said = command(capsys, f"check ScaledShift {words}")
        assert said.code == 1, words
        assert reason in " ".join(said.out.split()), words
    assert "no built project has an operator Relu" in command(capsys, "op tiling Relu").err


def test_errors_name_the_projects_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from npusim.capi.projects.building import build
    from npusim.values.errors import RejectedError

    project = changed(
        tmp_path, lambda text: text.replace("data.set_tile", "data.set_tiles"), HOST_FILE
    )
    with pytest.raises(RejectedError, match="op_host doesn't compile"):
        build(project, tmp_path / "out")
    assert f"{project / HOST_FILE}:35:" in capfd.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_a_kernel_with_other_parameters(tmp_path: Path) -> None:
    from npusim.capi.projects.building import build
    from npusim.values.errors import RejectedError

    project = changed(tmp_path, lambda text: text.replace("GM_ADDR workspace, ", ""), KERNEL_FILE)
    with pytest.raises(RejectedError, match=r"has 4 parameters, but .* asks for 5"):
        build(project, tmp_path / "out")


@pytest.mark.slow
def test_faults_at_run_time(tmp_path: Path) -> None:
    """A kernel that copies too much has a line; a tiling that uses a null pointer ends alone."""
    project = changed(
        tmp_path, lambda text: text.replace("from[at], run", "from[at + 64], run"), KERNEL_FILE
    )
    host = project / HOST_FILE
    first = "*context->GetAttrs()->GetFloat(0)"
    broken = first.replace("(0)", f"({first} == 0 ? 1 : 0)")
    host.write_text(host.read_text(encoding="utf-8").replace(first, broken), encoding="utf-8")

    def said(*more: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "npusim", *more],
            env={**os.environ, "NPUSIM_OPS": str(tmp_path / "out")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return " ".join((done.stdout + done.stderr).split())

    said("op", "build", str(project), "-o", str(tmp_path / "out"))
    asked = ("ScaledShift", "-s", "910b3", "x=fp32[640]")
    assert "uses memory that isn't there" in said("check", *asked, "scale=0")
    told = said("run", *asked)
    assert "op_kernel/scaled_shift.cpp:23" in told
    assert "ends at byte" in told


def test_names_that_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = tmp_path / "relu"
    copied(named)
    for file in named.rglob("*.*"):
        text = file.read_text(encoding="utf-8")
        file.write_text(
            text.replace("ScaledShift", "Relu").replace("scaled_shift(", "relu("), encoding="utf-8"
        )
    said = command(capsys, f"op build {named} -o {tmp_path / 'out'}")
    assert said.code == 2
    assert "--prefix" in said.err
    said = command(capsys, f"op build {named} -o {tmp_path / 'out'} --prefix My")
    assert said.code == 0
    assert "MyRelu" in said.err


def test_no_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = command(capsys, f"op build {EXAMPLE.parent} -o {tmp_path}")
    assert said.code == 2
    assert "has no folder op_host" in said.err
    assert str(EXAMPLE) in said.err


def test_fields_of_tiling_data() -> None:
    text = """
    BEGIN_TILING_DATA_DEF(Other) TILING_DATA_FIELD_DEF(float, no); END_TILING_DATA_DEF;
    BEGIN_TILING_DATA_DEF(Mine) // TILING_DATA_FIELD_DEF(float, gone);
    TILING_DATA_FIELD_DEF(uint8_t, small);
    TILING_DATA_FIELD_DEF_ARR(int64_t, 2, sizes);
    END_TILING_DATA_DEF;
    """
    fields = fields_of(text, "Mine")
    assert fields == (Field("small", "B", 0), Field("sizes", "q", 2))
    data = b"\x07" + bytes(7) + (5).to_bytes(8, "little") + (6).to_bytes(8, "little")
    assert values_of(fields, data) == {"small": 7, "sizes": [5, 6]}
    nested = text.replace("TILING_DATA_FIELD_DEF(uint8_t", "TILING_DATA_FIELD_DEF_STRUCT(Cut")
    assert fields_of(nested, "Mine") == ()
    assert values_of((), data)["word 2"] == 5


def test_what_a_library_tells() -> None:
    tensor = {"name": "x", "option": 3, "valued": 0, "dtypes": [0, 99, 1], "follows": ""}
    other = {**tensor, "name": "y", "option": 1, "dtypes": [], "follows": "x"}
    socs = [
        {"name": "ascend910b", "inputs": [{**tensor, "dtypes": [1]}], "outputs": []},
        {"name": "ascend310p", "inputs": [], "outputs": []},
        {"name": "ascend950", "inputs": [], "outputs": []},
    ]
    told = {"name": "Op", "inputs": [tensor], "outputs": [other], "attributes": [], "socs": socs}
    found = described(0, {**told, "tiling": 1, "infer_shape": 0})
    assert found.families == ("A2", "310P")
    names = {
        of: [[each.name for each in row] for row in rows] for of, rows in found.combined.items()
    }
    assert names == {
        "A2": [["FLOAT16", "FLOAT16"]],
        "310P": [["FLOAT", "FLOAT"], ["FLOAT16", "FLOAT16"]],  # without one that nobody knows
    }
    assert len(found.combinations) == 2
    assert found.lists == (0,)
    assert (
        described(0, {**told, "tiling": 1, "infer_shape": 0}, ("ascend910",)).families[-1] == "910"
    )
    alone = described(0, {**told, "tiling": 1, "infer_shape": 0, "outputs": []})
    assert alone.results == alone.inputs  # the first one is changed
    with pytest.raises(ValueError, match="neither required nor optional"):
        described(0, {**told, "inputs": [{**tensor, "option": 4}]})


@pytest.fixture(scope="module")
def library(shop: Workshop) -> Path:
    """An operator of a checkout: lists, template arguments, a tiling that is registered apart."""
    return shop.project(CHECKOUT, {"ListScale": 1}, ops=("list_scale",))


def test_an_operator_of_a_checkout(
    library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import npusim
    from npusim.operators.registry import refresh

    with monkeypatch.context() as changed_for_now:
        changed_for_now.setenv("NPUSIM_OPS", str(library))
        changed_for_now.syspath_prepend(str(library))
        refresh()
        device = npusim.Device("910b3")
        lists = [np.arange(size, dtype=np.float32) for size in (100, 7)]
        done = device.run("ListScale", x0=lists[0], x1=lists[1], factor=3.0)
        assert done.outputs is not None
        for place, each in enumerate(lists):  # more than 64 elements: the instance for 3
            np.testing.assert_array_equal(done.outputs[f"y{place}"], 3 * each)
        done = device.run("ListScale", x0=lists[1])
        assert done.outputs is not None
        np.testing.assert_array_equal(done.outputs["y0"], 3 * lists[1])  # that for 7 adds 1
        told = command(capsys, "op tiling ListScale -s 910b3 x0=fp32[7] x1=fp32[300] --json").json
        assert (told["blocks"], told["tiling_key"]) == (5, 4)
        many = " ".join(f"x{place}=fp32[7]" for place in range(17))
        said = command(capsys, f"check ListScale -s 910b3 {many}")
        assert "17 tensors are too many" in " ".join(said.out.split())
        said = command(capsys, "check ListScale -s 910b3 x0=fp16[7]")
        assert said.code == 1  # the product's own list has no half
    refresh()
    said = command(capsys, f"op build {CHECKOUT} --ops list_scales -o {library}")
    assert said.code == 2
    assert "no operator in a folder list_scales" in said.err


def test_what_kernels_of_a_library_rely_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants of the kernel, sizes that say nothing, tiles that stay, what isn't a number.

    The operator has no results: it changes its inputs. Its tiling calls a function of the folder
    beside it, and one that is nowhere.
    """
    import npusim
    from npusim.capi.projects.building import build
    from npusim.operators.registry import refresh

    (done,) = build(CHECKOUT, tmp_path, ops=("peak_step",))
    assert done.kernels == {"PeakStep": 1}
    with monkeypatch.context() as changed_for_now:
        changed_for_now.setenv("NPUSIM_OPS", str(tmp_path))
        changed_for_now.syspath_prepend(str(tmp_path))
        refresh()
        device = npusim.Device("910b3")
        for found in (7.0, np.inf, np.nan):
            x, peak, table = (np.zeros(size, np.float32) for size in (64, 16, 8))
            x[[3, 9]] = found, 2.0
            outputs = device.run("PeakStep", x=x, peak=peak, table=table).outputs
            assert outputs is not None
            np.testing.assert_array_equal(outputs["peak"][[0, 1, 8]], [found, 0, found])
            np.testing.assert_array_equal(outputs["table"], range(1, 9))
        given = {"peak": "fp32[16]", "table": "fp32[8]"}
        said = device.check("PeakStep", x="fp32[64]", elsewhere=True, **given)
        assert "it calls optiling::TileForAnotherProduct, which isn't among its" in said.message
        said = device.check("PeakStep", x="fp32[63]", **given)
        assert "returns that it failed: 64 numbers, not 63" in said.message  # not Check failed
    refresh()


def test_c_functions_of_a_project(folder: Path, tmp_path: Path) -> None:
    header = (folder / "npusim_project_op_project/include/aclnn_scaled_shift.h").read_text()
    assert "const aclTensor *x, const aclTensor *shift, double scale, aclTensor *y," in header
    env = {**os.environ, "NPUSIM_OPS": str(folder)}
    said = [
        subprocess.run(
            [sys.executable, "-m", "npusim", *words],
            env=env, capture_output=True, text=True, check=False,
        )
        for words in (
            ("cc", str(PROGRAM), "-o", str(tmp_path / "main")),
            ("exec", "-s", "910b3", "--no-products", str(tmp_path / "main")),
        )
    ]  # fmt: skip
    assert "0 0 4 4" in said[1].stdout, said


def test_template_arguments_are_read() -> None:
    text = """npusim_tpl_selects(npusim_tpl_set(npusim_tpl_list(T, C_DT_FLOAT, C_DT_BF16),
    npusim_tpl_ASCENDC_TPL_UI_RANGE(N, 2, 0, 1, 5, 5), npusim_tpl_kernel(AIV), ),
    npusim_tpl_set(npusim_tpl_list(T, ASCENDC_TPL_INPUT(0)),
    npusim_tpl_ASCENDC_TPL_UI_LIST(N, WAY(1)),))"""
    found = list(instances(text))
    assert found[:3] == [("C_DT_FLOAT", "0"), ("C_DT_FLOAT", "1"), ("C_DT_FLOAT", "5")]
    assert len(found) == 7
    assert found[-1] == ("ASCENDC_TPL_INPUT(0)", "WAY(1)")


LAUNCHER = """
void scaled_shift_do(uint32_t blocks, void *stream, GM_ADDR x, GM_ADDR y, GM_ADDR tiling)
{
    ASSERT(blocks != 0 && "no block");
    scaled_shift<<<blocks, nullptr, stream>>>(a_host_name, nullptr, y, nullptr, tiling);
}
"""


@pytest.mark.parametrize("names_it", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_results_in_place_and_launchers(tmp_path: Path, names_it: bool) -> None:
    """An output that is an input by its name, or none at all; a function that launches."""
    from npusim.capi.projects.building import build

    project = tmp_path / "project"
    copied(project)
    host, kernel = project / HOST_FILE, project / KERNEL_FILE
    text, body = host.read_text(encoding="utf-8"), kernel.read_text(encoding="utf-8")
    if names_it:
        text = text.replace('Output("y")', 'Output("x")')
    else:  # the kernel has no parameter for one, and its scalar unit reads what was copied in
        lines = [line for line in text.splitlines() if 'Output("y")' not in line]
        text = "\n".join(lines).replace(".SetInferDataType(ge::InferDataType)", "")
        text = text.replace("SetInferShape(ge::InferShape)", "Comment(0, nullptr)")
        body = body.replace("GM_ADDR y, GM_ADDR workspace", "GM_ADDR workspace")
        body = body.replace("(x, y, data", "(x, x, data")
        read = "if (x.GetValue(size - 1) == T(-1)) Adds(x, x, shift, size);"
        body = body.replace("Muls(y, x", f"{read}\n            Muls(y, x")
    host.write_text(text, encoding="utf-8")
    kernel.write_text(body + LAUNCHER, encoding="utf-8")
    build(project, tmp_path / "out", prefix="InPlace")
    code = (
        "import numpy as np, npusim; x = np.arange(100, dtype=np.float32); "
        "npusim.Device('910b3').run('InPlaceScaledShift', x=x, scale=3.0); print(x[[1, 99]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NPUSIM_OPS": str(tmp_path / "out")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["[", "3.", "297.]"], done.stderr
