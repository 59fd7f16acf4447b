"""Lowered Triton kernels: read, played, refused.

The texts in data/triton are what triton-ascend 3.2.0 makes of kernels of our own, so that nothing
of it has to be installed here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.pyasc.session import held
from npusim.runtime.device import Device
from npusim.triton import mlir
from npusim.triton.fitting import check_fits, need_of
from npusim.triton.launch import Launch
from npusim.triton.launching import launch, made, timing_only
from npusim.triton.program import LoweredProgram
from npusim.triton.scouting import Scout
from npusim.triton.scouting_all import kinds_of
from npusim.values.errors import BufferOverflowError, KernelError
from support.paths import DATA

TEXTS = DATA / "triton"
RNG = np.random.default_rng(5)


def lowered(name: str, **options: object) -> LoweredProgram:
    return LoweredProgram((TEXTS / f"{name}.mlir").read_text(encoding="utf-8"), options)


def played(program: LoweredProgram, grid: tuple[int, int, int], **given: Any) -> float:
    with held(Device("Ascend910B3")):
        return launch(program, grid, given).duration_us


def timed(program: LoweredProgram, grid: tuple[int, int, int], **given: Any) -> float:
    with held(Device("Ascend910B3")), timing_only() as found:
        launch(program, grid, given)
    return found[0].duration_us


def numbers(*shape: int, kind: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(kind)


def test_the_reader_has_operations_types_regions_and_lines() -> None:
    function = lowered("softmax").function
    (loop,) = [each for each in function.body.operations if each.name == "scf.for"]
    reduced = next(each for each in loop.regions[0].walk() if each.name == "linalg.reduce")
    assert function.name == "softmax_kernel"
    assert [each.type.element for each in function.arguments[2:5]] == ["f32", "f32", "i32"]
    assert reduced.results[0].type == mlir.Type("f32", ())
    assert reduced.lists[-1] == (0,)
    assert reduced.line == mlir.Line("k1.py", 17)  # of the program, not of triton's library
    assert [each.name for each in reduced.regions[0].operations] == [
        "arith.maxnumf",
        "linalg.yield",
    ]


@pytest.mark.parametrize("n", [1, 1000, 1024, 5000])
def test_vector_add(n: int) -> None:
    x, y, out = numbers(n), numbers(n), np.full(n, np.nan, np.float32)
    played(lowered("add"), (-(-n // 1024), 1, 1), x=x, y=y, out=out, n=n)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (37, 781), (50, 1024)])
def test_softmax_of_rows(rows: int, columns: int) -> None:
    x, out = numbers(rows, columns), np.empty((rows, columns), np.float32)
    given = {"o": out, "i": x, "a": columns, "b": columns, "rows": rows, "columns": columns}
    played(lowered("softmax"), (16, 1, 1), **given)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, wide / wide.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (100, 130, 70), (1, 1, 1)])
def test_matmul_on_the_cube_core(m: int, n: int, k: int) -> None:
    a, b = numbers(m, k, kind="float16"), numbers(k, n, kind="float16")
    c = np.empty((m, n), np.float16)
    grid = (-(-m // 64), -(-n // 64), 1)
    played(lowered("matmul"), grid, a=a, b=b, c=c, m=m, n=n, k=k)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, wide, rtol=2e-3, atol=2e-3)


def attention_operands() -> dict[str, Any]:
    q, k, v = (numbers(2, 128, 32, kind="float16") for _ in range(3))
    out, sums = np.empty_like(q), np.empty((2, 128), np.float32)
    sizes = {"sz": 2 * 128 * 32, "sh": 128 * 32, "sm": 32, "heads": 2}
    return {"q": q, "k": k, "v": v, "sums": sums, "out": out, "scale": 0.25, **sizes}


def test_attention_on_cube_and_vector_cores() -> None:
    given = attention_operands()
    played(lowered("attention"), (4, 2, 1), **given)
    q, k, v = (given[name].astype(np.float64) for name in "qkv")
    scores = q @ k.swapaxes(-1, -2) * 0.25
    scores[:, np.triu(np.ones((128, 128), bool), 1)] = -1e6
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(given["out"], weights @ v, atol=2e-3)


def test_time_is_the_same_with_and_without_numbers() -> None:
    given = attention_operands()
    program = lowered("attention")
    assert timed(program, (4, 2, 1), **given) == played(program, (4, 2, 1), **given)


def test_more_programs_take_longer_and_fewer_cores_too() -> None:
    n = 200_000
    given = {"x": numbers(n), "y": numbers(n), "out": np.empty(n, np.float32)}
    few, many = (timed(lowered("add"), (blocks, 1, 1), **given, n=n) for blocks in (40, 160))
    assert few < many


def test_a_grid_that_no_launch_has_is_refused_with_what_helps() -> None:
    given = {"x": numbers(8), "y": numbers(8), "out": np.empty(8, np.float32)}
    with pytest.raises(KernelError, match=r"1 x 70000 x 1 = 70000 .*\n.*tl\.num_programs"):
        played(lowered("add"), (1, 70000, 1), **given, n=8)


@pytest.mark.parametrize("n", [1, 40_000, 200_001])
def test_grouped_programs_compute_the_same(n: int) -> None:
    x, y, out = numbers(n), numbers(n), np.full(n, np.nan, np.float32)
    played(lowered("add", grouped=True), (-(-n // 1024), 1, 1), x=x, y=y, out=out, n=n)
    np.testing.assert_array_equal(out, x + y)


def test_grouped_programs_have_their_places_and_the_cube_core_too() -> None:
    m, n, k = 1000, 130, 70
    a, b = numbers(m, k, kind="float16"), numbers(k, n, kind="float16")
    c = np.empty((m, n), np.float16)
    played(lowered("matmul", grouped=True), (16, 3, 1), a=a, b=b, c=c, m=m, n=n, k=k)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c, wide, rtol=2e-3, atol=2e-3)
    given = attention_operands()
    alone = {**given, "out": np.empty_like(given["out"])}
    played(lowered("attention"), (4, 2, 1), **alone)
    played(lowered("attention", grouped=True), (4, 2, 1), **given)
    np.testing.assert_array_equal(given["out"], alone["out"])


def test_many_grouped_programs_start_once_and_may_be_more_than_a_launch_has() -> None:
    n = 1 << 20
    given = {"x": numbers(n), "y": numbers(n), "out": np.empty(n, np.float32)}
    alone, together = (
        timed(lowered("add", grouped=each), (1024, 1, 1), **given, n=n) for each in (False, True)
    )
    assert together < 0.8 * alone  # 26 rounds, or one with loads behind each other
    timed(lowered("add", grouped=True), (70_000, 1, 1), **given, n=n)


def test_the_last_axis_of_a_grid_goes_first() -> None:
    launched = Launch(lowered("softmax"), (2, 3, 4), [None] * 5, 40)
    assert [launched.place(block) for block in (0, 1, 4, 23)] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (1, 2, 3),
    ]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("name", "grid", "given"),
    [
        ("add", (98, 1, 1), {"x": 100_000, "y": 100_000, "out": 100_000, "n": 5001}),
        ("softmax", (7, 1, 1), {"o": 9000, "i": 9000, "a": 90, "b": 90, "rows": 90, "columns": 81}),
        ("matmul", (3, 3, 1), {"a": 9100, "b": 9100, "c": 16900, "m": 130, "n": 129, "k": 70}),
        ("attention", (2, 2, 1), None),
    ],
)
def test_all_programs_at_once_are_alike_as_one_after_the_other(
    name: str, grid: tuple[int, int, int], given: dict[str, Any] | None, grouped: bool
) -> None:
    program = lowered(name, grouped=grouped)
    sized = {
        key: np.zeros(each, np.float16 if name == "matmul" else np.float32) if each > 8191 else each
        for key, each in (given or {}).items()
    }
    with held(Device("Ascend910B3")):
        launched = made(program, grid, sized or attention_operands())[0].launch
    together = kinds_of(launched)
    alone = [Scout(launched, block).signature() for block in range(launched.blocks)]
    assert together is not None
    pairs = set(zip(together, alone, strict=True))
    assert len(pairs) == len(set(together)) == len(set(alone))


def test_a_load_beyond_a_tensor_is_told_and_a_store_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = {"x": numbers(8), "y": numbers(8), "out": np.empty(8, np.float32)}
    with pytest.raises(KernelError, match=r"elements 0 to 1023 of out are touched, which has 8"):
        played(lowered("add"), (1, 1, 1), **given, n=5000)
    said = capsys.readouterr().err
    assert "elements 0 to 1023 of x are loaded, which has 8" in said
    given["out"] = np.empty(1024, np.float32)
    played(lowered("add"), (1, 1, 1), **given, n=1024)
    np.testing.assert_array_equal(given["out"][:8], given["x"] + given["y"])
    assert not given["out"][8:].any()


def test_an_operation_that_is_not_simulated_is_named() -> None:
    text = (TEXTS / "add.mlir").read_text(encoding="utf-8")
    program = LoweredProgram(text.replace("arith.addf", "hivm.unheard_of"))
    given = {"x": numbers(8), "y": numbers(8), "out": np.empty(8, np.float32)}
    with pytest.raises(KernelError, match=r"hivm\.unheard_of isn't simulated"):
        played(program, (1, 1, 1), **given, n=8)


def test_what_ub_has_to_hold() -> None:
    need = need_of(lowered("add"))
    assert need.least_bytes == 2 * 1024 * 4  # x and y; the sum lies where one of them was
    assert need.most_bytes == 3 * 1024 * 4
    assert need.verdict(8192) == "depends on the closed part of the compiler"
    assert need.verdict(12288) == "fits"
    assert "requires 65536 bits (8192 bytes)" in need.told(4096)


def test_what_cannot_fit_is_refused_in_the_compilers_unit() -> None:
    text = (TEXTS / "add.mlir").read_text(encoding="utf-8").replace("1024", "48000")
    with pytest.raises(BufferOverflowError, match="requires 3072000 bits while 1572864 bits"):
        check_fits(LoweredProgram(text), 196608)


def test_what_depends_on_the_compiler_runs_and_says_so() -> None:
    text = (TEXTS / "add.mlir").read_text(encoding="utf-8").replace("1024", "20480")
    given = {name: numbers(20480) for name in ("x", "y", "out")}
    with held(Device("Ascend910B3")) as session:
        launch(LoweredProgram(text), (1, 1, 1), {**given, "n": 20480})
    (told,) = session.launched[0].result.assumptions
    assert "depends on the closed part of the compiler: requires 1310720 bits" in told
    assert "to 1966080 bits (245760 bytes), 1572864 bits (196608 bytes) available" in told
    assert not check_fits(lowered("add"), 196608)


FIRST = """
module {
  func.func @lowest(%arg0: memref<?xi8>, %arg1: memref<?xi8>, %arg2: memref<?xf32>, %arg3: memref<?xf32>, %arg4: i32, %arg5: i32, %arg6: i32, %arg7: i32, %arg8: i32, %arg9: i32) attributes {mix_mode = "aiv"} {
    %r = memref.reinterpret_cast %arg2 to offset: [0], sizes: [4, 8], strides: [8, 1] : memref<?xf32> to memref<4x8xf32, strided<[8, 1]>>
    %alloc = memref.alloc() : memref<4x8xf32>
    memref.copy %r, %alloc : memref<4x8xf32, strided<[8, 1]>> to memref<4x8xf32>
    %t = bufferization.to_tensor %alloc restrict writable : memref<4x8xf32>
    %0 = tensor.empty() : tensor<4xf32>
    %reduced = linalg.reduce ins(%t : tensor<4x8xf32>) outs(%0 : tensor<4xf32>) dimensions = [1]
      (%in: f32, %init: f32) {
        %1 = arith.maxnumf %in, %init : f32
        linalg.yield %1 : f32
      }
    %o = memref.reinterpret_cast %arg3 to offset: [0], sizes: [4], strides: [1] : memref<?xf32> to memref<4xf32, strided<[1]>>
    bufferization.materialize_in_destination %reduced in writable %o : (tensor<4xf32>, memref<4xf32, strided<[1]>>) -> ()
    return
  }
}
"""  # noqa: E501 - as it is written


def test_a_reduction_that_begins_with_nothing_begins_with_the_first_element() -> None:
    x, out = -1 - np.abs(numbers(4, 8)), np.empty(4, np.float32)
    played(LoweredProgram(FIRST), (1, 1, 1), x=x, out=out)
    np.testing.assert_array_equal(out, x.max(1))
