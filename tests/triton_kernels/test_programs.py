"""Programs with Triton kernels, as they are; skipped where triton-ascend or torch is missing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from npusim.capi.python_program import run_python
from npusim.pytest_plugin import assert_faster_than
from npusim.runtime.device import Device
from npusim.values.errors import KernelError
from support.commands import npusim

pytest.importorskip("triton.backends.ascend")
pytest.importorskip("torch")

HEAD = """
import torch
import torch_npu
import triton
import triton.language as tl
"""


def run(folder: Path, text: str, soc: str = "Ascend910B3") -> Any:
    program = folder / "program.py"
    program.write_text(HEAD + dedent(text), encoding="utf-8")
    return run_python([str(program)], Device(soc))


def test_numbers_and_times_of_a_program(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        @triton.jit
        def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
            y = 0.5 * x * (1 + tl.erf(x * 0.70710678))
            tl.store(out_ptr + at, y.to(tl.bfloat16), mask=at < n)

        x = torch.randn(3, 1111, dtype=torch.bfloat16, device="npu")
        out = torch.empty_like(x)
        gelu[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        torch.testing.assert_close(out, torch.nn.functional.gelu(x), rtol=1e-2, atol=1e-2)
        """,
    )
    assert done.exit_code == 0
    (call,) = done.calls
    assert call["op"] == "gelu"
    assert call["block_dim"] == 7
    assert 1 < call["duration_us"] < 100


def test_addresses_without_a_pattern_atomics_and_scalars(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        @triton.jit
        def move(x_ptr, to_ptr, out_ptr, sum_ptr, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            to = tl.load(to_ptr + at, mask=at < n, other=0)
            x = tl.load(x_ptr + at, mask=at < n, other=0.0)
            tl.store(out_ptr + to, x, mask=at < n)
            tl.atomic_add(sum_ptr, tl.sum(x, 0))

        n = 300
        x, to = torch.randn(n, device="npu"), torch.randperm(n, device="npu").to(torch.int32)
        out, total = torch.empty(n, device="npu"), torch.zeros(1, device="npu")
        move[(3,)](x, to, out, total, n, BLOCK=128)
        assert torch.equal(out[to.long()], x)
        torch.testing.assert_close(total[0], x.sum())
        """,
    )
    assert done.exit_code == 0


def test_autotune_takes_the_fastest_and_leaves_no_launches(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        @triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 4096)], key=["n"])
        @triton.jit
        def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

        n = 100_000
        x = torch.randn(n, device="npu")
        out = torch.empty_like(x)
        double[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        assert torch.equal(out, x * 2)
        assert double.best_config.kwargs == {"BLOCK": 4096}
        """,
    )
    assert done.exit_code == 0
    assert len(done.calls) == 1


def test_products_without_triton_in_the_product_line_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    @triton.jit
    def nothing(x_ptr):
        tl.store(x_ptr, 1.0)

    nothing[(1,)](torch.zeros(1, device="npu"))
    """
    assert run(tmp_path, text, "Ascend310P3").exit_code == 1
    assert "Ascend310P3: triton-ascend has no back end for it" in capsys.readouterr().err


def test_a_refusal_names_the_line_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    @triton.jit
    def beyond(x_ptr, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(x_ptr + at, at)

    beyond[(1,)](torch.zeros(8, dtype=torch.int32, device="npu"), BLOCK=16)
    """
    assert run(tmp_path, text).exit_code == 1
    assert "program.py:10: elements 0 to 15 of x_ptr are touched" in capsys.readouterr().err


TUNED = """
@triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 4096, 65536)], key=["n"])
@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

n = 100_000
x = torch.randn(n, device="npu")
out = torch.empty_like(x)
double[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
"""


def test_tune_ranks_what_autotune_tries_and_writes_the_fastest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, kept = tmp_path / "program.py", tmp_path / "fastest.py"
    program.write_text(HEAD + TUNED, encoding="utf-8")
    words = ["tune", str(program), "-s", "910b3", "--top", "1", "--prune", str(kept)]
    said = npusim(capsys, "", *words)
    assert said.code == 0
    assert "BLOCK=4096" in said.out
    assert "BLOCK=65536: kernel double, " in said.err
    names: dict[str, Any] = {}
    exec(kept.read_text(encoding="utf-8"), names)  # noqa: S102 - what was written
    assert names["FASTEST"] == {"double": [{"BLOCK": 4096}]}


DEPENDS = """
@triton.autotune([triton.Config({"BLOCK": size}) for size in (4096, 20480)], key=["n"])
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at, mask=at < n), tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)

n = 100_000
x, y = torch.randn(n, device="npu"), torch.randn(n, device="npu")
out = torch.empty_like(x)
add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
"""


def test_exec_and_tune_say_what_depends_on_the_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(HEAD + DEPENDS, encoding="utf-8")
    said = npusim(capsys, "", "tune", str(program), "-s", "910b3")
    told = "kernel add, UB: depends on the closed part of the compiler: requires 1310720 bits"
    assert f"BLOCK=20480: {told}" in said.err
    assert "BLOCK=4096:" not in said.err
    program.write_text(HEAD + DEPENDS.replace("(4096, 20480)", "(20480,)"), encoding="utf-8")
    said = npusim(capsys, "", "exec", str(program), "-s", "910b3")
    assert told in said.err


def test_programs_in_a_loop_on_each_core_where_the_environment_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
    @triton.jit
    def place(out_ptr):
        x, y = tl.program_id(0), tl.program_id(1)
        tl.store(out_ptr + x * tl.num_programs(1) + y, x * 1000 + y)

    out = torch.full((70, 1000), -1, dtype=torch.int32, device="npu")
    place[(70, 1000)](out)
    x, y = torch.arange(70).view(-1, 1), torch.arange(1000)
    assert torch.equal(out.cpu(), (x * 1000 + y).to(torch.int32))
    """
    assert run(tmp_path, text).exit_code == 1  # 70,000 programs
    monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "1")
    done = run(tmp_path, text)
    assert done.exit_code == 0
    assert done.calls[0]["block_dim"] == 40


def test_estimates_from_shapes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, npusim_device: Device
) -> None:
    import npusim.triton as ours
    from npusim import TensorSpec

    (tmp_path / "shaped.py").write_text(
        HEAD.replace("import torch_npu\n", "").replace("import torch\n", "")
        + dedent(
            """
            @triton.jit
            def negate(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
                at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(out_ptr + at, -tl.load(x_ptr + at, mask=at < n), mask=at < n)
            """
        ),
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kernel = import_module("shaped").negate
    spec = TensorSpec((1 << 34,), "bfloat16")  # 32 GiB that nobody allocates
    given = {"x_ptr": spec, "out_ptr": spec, "n": 1 << 20, "BLOCK": 8192}
    small = ours.estimate(kernel, (128,), given, device=npusim_device)
    assert_faster_than(small, us=40)
    with pytest.raises(pytest.fail.Exception, match="the longest task is negate"):
        assert_faster_than(small, us=1)
    with pytest.raises(KernelError, match="TRITON_ALL_BLOCKS_PARALLEL=1"):
        ours.estimate(kernel, (70_000,), given)
    large = ours.estimate(
        kernel, lambda meta: (meta["n"] // meta["BLOCK"],), given | {"n": 1 << 28}
    )
    assert small.duration_us < 40
    assert large.duration_us > 1000
