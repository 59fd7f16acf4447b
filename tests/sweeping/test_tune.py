"""Variants ranked by time: constants and parameters of programs, and whatever can be called."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import npusim
from npusim.pyasc.tuning import tune
from npusim.values.errors import ArgumentError, RejectedError, UnknownNameError
from support.capi import workshop
from support.commands import npusim as command
from support.paths import DATA

PROGRAM = DATA / "pyasc" / "scaled_sum.py"
SIZE = ["--elements", str(1 << 19)]


def test_constants_and_parameters_are_ranked_and_refusals_come_last() -> None:
    device = npusim.Device("Ascend910B3")
    given = {"TILES": [2, 8, 64], "DEPTH": [1, 2]}
    ranked = tune(str(PROGRAM), SIZE, device, given)
    assert len(ranked) == 6
    assert [each.runs for each in ranked] == [True] * 4 + [False] * 2
    assert ranked[0].name == "TILES=8 DEPTH=2"
    times = [each.duration_us for each in ranked]
    assert times == sorted(times)
    assert "needs" in ranked[-1].refusal
    slots = tune(str(PROGRAM), SIZE, device, {"tile": [1024, 4096]})
    assert slots[0].name == "tile=4096"


def test_a_name_that_is_nothing_of_the_program_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="TILLES"):
        tune(str(PROGRAM), SIZE, npusim.Device("Ascend910B3"), {"TILLES": [1]})


def test_the_verb_prints_a_table_and_writes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ranked.json"
    line = f"tune {PROGRAM} -s 910b3 --param TILES=8,16 --top 1 --json {file}"
    done = command(capsys, line)
    assert done.code == 0
    assert "TILES=8" in done.out
    assert "TILES=16" not in done.out
    assert [each["variant"] for each in json.loads(file.read_text())] == ["TILES=8", "TILES=16"]


def test_whatever_can_be_called_is_ranked() -> None:
    def refused() -> float:
        raise RejectedError("no")

    found = npusim.rank({"slow": lambda: 3.0, "never": refused, "fast": lambda: 2})
    assert [each.name for each in found] == ["fast", "slow", "never"]
    assert found[-1].refusal == "no"
    assert [each.name for each in npusim.rank({"a": lambda: 1.0, "b": lambda: 2.0}, top=1)] == ["a"]
    with pytest.raises(ArgumentError, match="top=0"):
        npusim.rank({}, top=0)


KERNEL = """
import npusim
from npusim.ascendc import TPosition, TQue

TILE = 1024


@npusim.kernel
def scale(core, x, z, *, depth=2):
    que, out = TQue(TPosition.VECIN, 1, "x"), TQue(TPosition.VECOUT, 1, "z")
    core.pipe.init_buffer(que, depth, TILE * 4)
    core.pipe.init_buffer(out, depth, TILE * 4)
    share = x.numel // core.get_block_num()
    for first, count in core.tiles(core.get_block_idx() * share, share, TILE):
        tile = que.copy_in(x.span(first, count))
        scaled = core.muls(out.alloc_tensor(z.dtype, count), tile, 2.0)
        que.free_tensor(tile)
        out.copy_out(z.span(first, count), scaled)


spec = npusim.TensorSpec((1 << 20,), "float32")
print(npusim.Device("910b3").launch(scale, spec, spec, block_dim=32).duration_us)
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A program with a kernel of npusim."""
    path = tmp_path / "scale.py"
    path.write_text(KERNEL)
    return path


def test_kernels_of_npusim_are_tuned_by_constants_attributes_and_blocks(kernel: Path) -> None:
    device = npusim.Device("910b3")
    given = {"TILE": [512, 4096], "depth": [1, 2], "block_dim": [16, 64]}
    ranked = tune(str(kernel), (), device, given)
    assert ranked[0].name == "TILE=4096 depth=2 block_dim=16"
    assert {each.runs for each in ranked} == {True}
    assert len({each.duration_us for each in ranked}) == 8
    assert not tune(str(kernel), (), device, {"TILE": [1 << 16]})[0].runs


def test_a_program_with_a_kernel_of_npusim_is_told_and_explained(
    kernel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = command(capsys, f"exec {kernel} -s 910b3 --explain")
    assert "scale         1  [1048576] -> [1048576]  FLOAT" in done.out
    assert f"{kernel.parent.name}/scale.py:16" in done.out
    assert "another slot for every queue" in done.out
    told = command(capsys, f"exec {kernel} -s 910b2 --json")
    assert told.json["calls"][0]["block_dim"] == 32
    assert "the program asks for Ascend910B3 itself" in told.err


ASCEND_C = """
#include "acl/acl.h"
#include "kernel_operator.h"
#ifndef TILE
#define TILE 1024
#endif
constexpr int length = 1 << 18;
__global__ __vector__ void scale(GM_ADDR x)
{
    AscendC::GlobalTensor<float> g;
    int share = length / AscendC::GetBlockNum();
    g.SetGlobalBuffer((__gm__ float *)x + AscendC::GetBlockIdx() * share, share);
    AscendC::TPipe pipe;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 2, TILE * 4);
    for (int i = 0; i < share / TILE; ++i) {
        AscendC::LocalTensor<float> t = que.AllocTensor<float>();
        AscendC::DataCopy(t, g[i * TILE], TILE);
        que.EnQue(t);
        t = que.DeQue<float>();
        AscendC::DataCopy(g[i * TILE], t, TILE);
        que.FreeTensor(t);
    }
}
int main()
{
    void *x;
    aclrtStream stream;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    aclrtMalloc(&x, length * 4, ACL_MEM_MALLOC_HUGE_FIRST);
    scale<<<BLOCKS, nullptr, stream>>>((GM_ADDR)x);
    return aclrtSynchronizeStream(stream) != 0;
}
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_programs_in_cpp_are_tuned_by_macros(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache = workshop(tmp_path_factory).environment["NPUSIM_CACHE"]
    monkeypatch.setenv("NPUSIM_CACHE", cache)  # the library of the test run
    source, table = tmp_path / "scale.asc", tmp_path / "ranked.csv"
    source.write_text(ASCEND_C)
    line = f"tune {source} -s 910b3 --param TILE=512,4096,131072 --flag=-DBLOCKS=16 --json"
    done = command(capsys, f"{line} --csv {table}")
    assert [each["variant"] for each in done.json] == ["TILE=4096", "TILE=512", "TILE=131072"]
    assert "the chip has 196608" in done.json[-1]["refusal"]
    assert table.read_text().startswith("variant,duration_us,refusal,assumptions\nTILE=4096,")
    done = command(capsys, f"tune {source} -s 910b3 --param TILE=512")
    assert "BLOCKS" in done.err
    assert done.code == 1
    done = command(capsys, f"tune {source} -s 910b3 --param length=512")
    assert f"{source}:7 gives length a value" in done.err
    assert done.code == 2
    done = command(capsys, "tune ./scale -s 910b3 --param TILE=512")
    assert "sources in C++ (.asc, .cpp, .cc)" in done.err
