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


def test_products_that_go_on_are_turned_or_begin_with_what_vector_cores_have(
    tmp_path: Path,
) -> None:
    done = run(
        tmp_path,
        """
        @triton.jit
        def products(a, b, c, out, T: tl.constexpr, N: tl.constexpr):
            i = tl.arange(0, N)
            at = i[:, None] * N + i[None, :]
            total = tl.zeros((N, N), tl.float32)
            for t in range(T):  # two products a turn stay in L0C
                x, y, z = (tl.load(a + t * N * N + at), tl.load(b + t * N * N + at),
                           tl.load(c + t * N * N + at))
                total = tl.dot(x, y, total)
                total = tl.dot(y, z, total)
            tl.store(out + at, total)
            x, y, z = tl.load(a + at), tl.load(b + at), tl.load(c + at)
            begun = tl.dot(x, y, z.to(tl.float32))  # vector cores add what they have loaded
            tl.store(out + N * N + at, begun)
            both = tl.dot(y, x, begun)
            twice = (z * 2).to(tl.float16)
            tl.store(out + 2 * N * N + at, tl.dot(both.to(tl.float16), tl.trans(twice)))
            tl.store(out + 3 * N * N + at, tl.dot(tl.trans(twice), twice))

        N = 32
        a, b, c = (torch.randn(3, N, N, device="npu").half() for _ in range(3))
        out = torch.empty(4, N, N, device=torch.npu.current_device())
        products[(1,)](a, b, c, out, T=3, N=N)
        a, b, c = a.float(), b.float(), c.float()
        both = a[0] @ b[0] + c[0] + b[0] @ a[0]
        wanted = torch.stack([(a @ b + b @ c).sum(0), a[0] @ b[0] + c[0],
                              both.half().float() @ (2 * c[0]).T, 4 * c[0].T @ c[0]])
        torch.testing.assert_close(out, wanted, rtol=1e-2, atol=1e-2)
        """,
    )
    assert done.exit_code == 0


def test_what_programs_of_others_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run(
        tmp_path,
        """
        import triton.language.extra.cann.extension as extension
        from triton.language.extra.cann import libdevice

        @triton.jit
        def count(x_ptr, counts_ptr, maybe_ptr, out_ptr, n, BLOCK: tl.constexpr):
            for start in range(0, n, BLOCK):  # the first turn stores less than the second
                at = start + tl.arange(0, BLOCK)
                mask = (at < n) & (at >= BLOCK // 2)
                x = tl.load(x_ptr + at, mask=mask, other=0)
                tl.atomic_add(counts_ptr + x, 1, mask=mask)
                if maybe_ptr:
                    part = extension.extract_slice(x, (0,), (BLOCK // 2,), (1,))
                    x = extension.insert_slice(x, part + 7, (0,), (BLOCK // 2,), (1,))
                    tl.store(out_ptr + start + tl.arange(0, BLOCK), libdevice.relu(x * 1.0))

        generator = torch.Generator(device="npu").manual_seed(1)
        x = torch.randint(0, 9, (300,), device="npu", generator=generator, dtype=torch.int32)
        counts = torch.tensor([0] * 9, dtype=torch.int32, pin_memory=True).npu()
        out = torch.empty(512, device="npu")
        count[(1,)](x, counts, x, out, 300, BLOCK=256)
        assert torch.equal(counts, torch.bincount(x[128:].long(), minlength=9).int())
        assert torch.equal(out[:256], torch.cat([torch.full((128,), 7.0), x[128:256]]))
        assert not hasattr(extension, "scope")
        """,
    )
    said = capsys.readouterr().err
    assert done.exit_code == 0, said
    assert said.count("the program is for a later triton-ascend than 3.2.0") == 1


def test_numbers_that_the_chip_has_not_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    @triton.jit
    def wide(x_ptr):
        at = tl.arange(0, 8)
        tl.store(x_ptr + at, tl.load(x_ptr + at).to(tl.float64).to(tl.float32))

    wide[(1,)](torch.zeros(8, device="npu"))
    """
    assert run(tmp_path, text).exit_code == 1
    assert "numbers of type f64 aren't simulated" in capsys.readouterr().err


ADVISED = """
@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    x = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, x / tl.sum(x, 0), mask=at < columns)

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

x = torch.randn(400, 1000, device="npu")
out = torch.empty_like(x)
softmax[(400,)](x, out, 1000, BLOCK=1024)
torch.testing.assert_close(out, torch.softmax(x, -1))
double[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), BLOCK=1024)
assert torch.equal(out, x * 2)
"""


def test_explain_tells_what_was_faster_with_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(HEAD + ADVISED, encoding="utf-8")
    said = npusim(
        capsys, "", "exec", "--explain", str(program), "-s", "910b3",
        "--against", "softmax: aclnnSoftmax self=x_ptr dim=-1 out=out_ptr",
    )  # fmt: skip
    assert said.code == 0, said.err
    (row,) = [line for line in said.out.splitlines() if "aclnnSoftmax" in line]
    assert float(row.split()[-1]) > 0.5
    of_softmax, of_double = said.out.split("What would make it faster, each played")[1:]
    assert "TRITON_ALL_BLOCKS_PARALLEL=1" in of_softmax
    assert "BLOCK=" not in of_softmax  # of another size it doesn't compute a row's softmax
    assert "BLOCK=4096 instead of 1024" in of_double


def test_against_wants_a_kernel_and_an_interface(capsys: pytest.CaptureFixture[str]) -> None:
    said = npusim(capsys, "", "exec", "x.py", "-s", "910b3", "--against", "softmax aclnnSoftmax")
    assert said.code == 2
    assert "--against 'softmax_kernel: aclnnSoftmax" in said.err
