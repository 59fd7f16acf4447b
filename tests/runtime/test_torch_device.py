"""The device named npu that programs with torch find: tensors on the CPU, simulated times."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
{imports}
import asc

@asc.jit
def double(x: asc.GlobalAddress, z: asc.GlobalAddress, n: asc.ConstExpr[int]):
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    que = asc.TQue(asc.TPosition.VECIN, 1)
    out = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=que, num=1, len=n * 4)
    pipe.init_buffer(que=out, num=1, len=n * 4)
    tile = que.alloc_tensor(x.dtype)
    asc.data_copy(tile, x_gm, count=n)
    que.enque(tile)
    tile = que.deque(x.dtype)
    doubled = out.alloc_tensor(x.dtype)
    asc.muls(doubled, tile, 2.0, count=n)
    que.free_tensor(tile)
    out.enque(doubled)
    doubled = out.deque(x.dtype)
    asc.data_copy(z_gm, doubled, count=n)
    out.free_tensor(doubled)

{body}
"""
MAKING = """
assert torch.npu.is_available() and torch.npu.device_count() == 1
torch.npu.set_device("npu:0")
for device in ("npu", "npu:0", torch.device("npu"), torch.device("npu", 0)):
    x = torch.arange(64, dtype=torch.float32, device=device)
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    begin.record()
    z = torch.empty_like(x, device=device)
    double[1, torch.npu.current_stream()](x, z, 64)
    end.record()
    torch.npu.synchronize()
    assert torch.equal(z, 2 * torch.arange(64).float().to(device).npu())
    assert 0 < begin.elapsed_time(end) < 0.1
with torch.device("npu"):
    assert torch.ones(3).sum() == 3
layer = torch.nn.Linear(4, 2, device="npu").to("npu").npu()
assert layer(torch.ones(1, 4, device="npu")).shape == (1, 2)
assert torch.npu.get_device_name() == "Ascend910B3"
"""


def _exec(tmp_path: Path, imports: str, body: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(imports=imports, body=body))
    command = [sys.executable, "-m", "npusim", "exec", "-s", "910b3", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch isn't installed")
@pytest.mark.parametrize(
    "imports", ["import torch", "import torch, torch_npu", "import torch_npu, torch"]
)
def test_tensors_of_the_device_are_arguments_of_kernels(tmp_path: Path, imports: str) -> None:
    done = _exec(tmp_path, imports, MAKING)
    assert done.returncode == 0, done.stderr
    assert re.search(r"double +4  \[64\] -> \[64\]", done.stdout)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch isn't installed")
def test_what_the_device_hasnt_got_is_told(tmp_path: Path) -> None:
    done = _exec(tmp_path, "import torch", "torch.npu.memory_alocated()")
    assert done.returncode != 0
    assert "torch.npu.memory_alocated isn't simulated" in done.stderr


def test_programs_without_torch_need_none(tmp_path: Path) -> None:
    body = "import numpy as np, sys\nx = np.ones(64, np.float32)\ndouble[1, None](x, x, 64)\n"
    done = _exec(tmp_path, "", body + "assert 'torch' not in sys.modules and x[0] == 2")
    assert done.returncode == 0, done.stderr
