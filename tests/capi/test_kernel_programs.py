"""Ascend C kernels in C++: compiled with our headers, run on the simulator, checked as they run."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from npusim.ascendc.allowance import SECONDS_VARIABLE
from npusim.capi.clang_words import as_gcc_takes_it
from npusim.capi.compiling import compile_program
from npusim.capi.launch_syntax import translated
from npusim.capi.library import installation
from npusim.capi.running import run_program
from npusim.hardware import load_profile
from npusim.runtime.what_if import suggestions
from npusim.values.errors import RejectedError
from support.capi import Workshop, needs_capi, needs_cffi, workshop
from support.commands import npusim
from support.paths import DATA, ROOT

SOURCES = DATA / "ascendc"
STEPS = ROOT / "reports" / "programs"
_KERNEL = re.compile(r"__global__ __\w+__(?:\(1, 2\))? void (\w+)\(")
_TOLD = re.compile(r"kernel (\w+), ascendc/faults\.asc:(\d+): (.*)", re.DOTALL)


def planted() -> dict[str, list[tuple[int, str]]]:
    """Kernels of faults.asc: the lines with a comment behind them, and what has to be said."""
    found: dict[str, list[tuple[int, str]]] = {}
    lines = found[""] = []
    for number, line in enumerate((SOURCES / "faults.asc").read_text().splitlines(), 1):
        if begun := _KERNEL.match(line):
            lines = found[begun[1]] = []
        code, _, told = line.partition(" // ")
        if code and told:
            lines.append((number, told))
    del found[""]
    return found


_STRICT = ("-Wall", "-Wextra", "-Werror")
_FLAGS = {"scaled_sum": ("-O0", *_STRICT), "products": _STRICT, "cores": ()}


class Programs(dict[str, Path]):
    """The programs of tests/data/ascendc, each compiled once in a test run, when it is needed."""

    def __init__(self, shop: Workshop) -> None:
        super().__init__()
        self.shop = shop

    def __missing__(self, name: str) -> Path:
        self[name] = self.shop.kernels(name, *_FLAGS.get(name, ("-O0",)))
        return self[name]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(workshop(tmp_path_factory))


@pytest.fixture(autouse=True)
def _kept(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is compiled against one library."""
    monkeypatch.setenv("NPUSIM_CACHE", programs.shop.environment["NPUSIM_CACHE"])


@needs_capi
@needs_cffi
@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910B1"])
def test_a_kernel_with_queues_computes_and_has_a_time(
    programs: Programs, soc: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_program(str(programs["scaled_sum"]), [], soc, with_timelines=True)
    assert run.exit_code == 0
    assert capfd.readouterr().out == "0 wrong, status 0\n" * 2
    wide, narrow = run.calls
    assert wide["op"] == "scaled_sum"
    assert narrow["duration_us"] < wide["duration_us"] < 10
    assert sorted(each["io"] for each in wide["tensors"].values()) == ["in", "in", "out"]
    sites = {each.site.partition(":")[0] for each in run.timed[0].result.timeline.slices()}
    assert "ascendc/scaled_sum.asc" in sites


@needs_capi
@needs_cffi
def test_products_as_objects_are_right_and_faults_are_told(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    """NZ, parts of the depth, channels, blocks taken later; and an operand that ends too early."""
    run = run_program(str(programs["products"]), ["nz", "deep", "split", "later"], "Ascend910B3")
    said = capfd.readouterr().out
    assert (said.count("status 0\n"), said.count("wrong 0\n"), run.faults) == (4, 4, [])
    assert "later 2 64 64 64\n" in said  # the cut that a kernel reckons with: columns first
    wrong = npusim(capfd, "exec -s 910B3", programs["products"], "--", "beyond")
    assert wrong.code == 1  # though the program ended with 0
    assert "is used up to byte 65536, but ends at byte 65504" in wrong.err
    assert "the program ended with 0, but these stopped with a fault: nz" in wrong.err


@needs_capi
@needs_cffi
def test_names_of_dumps_operators_orders_and_policies_mean_what_they_say(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_program(str(programs["names"]), [], "Ascend910B3")
    dumps, told = [], []
    for line in capfd.readouterr().out.splitlines():
        (dumps if line.startswith("asc_dump") else told).append(line)
    assert run.faults == []
    assert dumps == [
        "asc_dump_gm: desc=7, block 0: 1 2 3",
        "asc_dump_ubuf: desc=8, block 0: 1 3",
    ]
    orders = [f"order {each} 0" for each in range(1, 8)]
    products = [f"product {each} 0" for each in range(4)]
    others = ["in C 0", "parts 0", "volume 0", "pairs 0", "compiled 0"]
    assert told == ["signs 0", *orders, "scales 0", *products, *others]


@needs_capi
@pytest.mark.parametrize(
    ("header", "instead"),
    [
        ("tiling_api.h", 'Write #include "tiling/tiling_api.h", or give the folder'),
        ("lib/matmul_intfs.h", 'Write #include "lib/matmul_intf.h", or give the folder'),
        ("mine/of_my_own.h", "Give the folder of your own header with -I"),
    ],
)
def test_a_missing_header_is_told_with_the_folder(
    header: str, instead: str, tmp_path: Path
) -> None:
    source = tmp_path / "program.asc"
    source.write_text(f'#include "{header}"\nint main() {{}}\n')
    with pytest.raises(RejectedError, match=f"{header} is in none of the folders") as error:
        compile_program([source], tmp_path / "program")
    assert instead in error.value.remedy
    assert "npusim capi --include-dir" in str(error.value)


@needs_capi
@needs_cffi
def test_weights_in_blocks_come_no_faster_than_memory_gives_them(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    """64 MiB that are read once: not taken for what L2 holds."""
    run = run_program(str(programs["products"]), ["large"], "Ascend910B4", with_products=False)
    assert "status 0" in capfd.readouterr().out
    bytes_per_us = load_profile("Ascend910B4").memory.hbm_nominal_gbps * 1e3
    assert run.calls[0]["duration_us"] > (1 << 26) / bytes_per_us


@needs_capi
@needs_cffi
def test_cube_and_vector_cores_work_together(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    """A product on the cube, flags between cores, atomic sums behind a barrier, and a long loop."""
    run = run_program(str(programs["cores"]), ["1000"], "Ascend910B3", with_timelines=True)
    assert run.exit_code == 0
    said = capfd.readouterr().out
    assert said == "0 wrong of the product\n0 wrong of the sum\n1000 after 1000 turns\n"
    product, _, turns = run.calls
    assert (product["op"], turns["op"]) == ("cut_product", "turns")
    played = run.timed[0].result.timeline.slices()
    assert {"mad", "copy_matrix_cc_to_gm", "vrelu"} <= {each.name for each in played}
    # A turn is some 250 cycles and two ways to memory and back.
    assert 100 < turns["duration_us"] < 1000


@needs_capi
@needs_cffi
def test_kernels_are_compiled_for_both_kinds_of_cores(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A launch in a header, operators for a core where their class is written, names of cores."""
    flags = ["-O0", f"-I{SOURCES / 'sides'}"]
    for folder in ("first", "again"):
        (tmp_path / folder).mkdir()
        program = compile_program([SOURCES / "sides.cpp"], tmp_path / folder / "sides", flags)
    kept = list((installation().root.parent / "sides").glob("*.o"))
    assert len(kept) == 1  # the second time it was there already
    run = run_program(str(program), [], "Ascend910B3", with_timelines=True)
    assert (run.exit_code, run.faults) == (0, [])
    assert capfd.readouterr().out == "both 0\nvectors 0\ncubes 0\n"
    both, vectors, cubes = (
        {each.name for each in timed.result.timeline.slices()} for timed in run.timed
    )
    assert "vmuls" in both & vectors
    assert "vmuls" not in cubes
    assert [call["op"] for call in run.calls] == ["adapter"] * 3
    filled = run_program(str(program), ["again"], "Ascend910B3")
    assert capfd.readouterr().out == "again 7\nmade 7\nanew 507035\nstored 507035\n"
    fault, unwritten = filled.problems
    source = (SOURCES / "sides.cpp").read_text().splitlines()
    refused, stored = (
        next(number for number, each in enumerate(source, 1) if each.endswith(f"// {mark}"))
        for mark in ("refused", "unwritten")
    )
    assert f"ascendc/sides.cpp:{refused}: VECTOR writes the tensor at byte 0" in fault["message"]
    assert f"ascendc/sides.cpp:{stored}: DataCopy: the tensor at byte 1024" in unwritten["message"]
    assert "while MTE3 may not have read it yet" in fault["message"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (
            "struct A { template <class T> struct B {}; template <> struct B<void> { int c; }; };",
            (
                "struct A { template <class T, class npusim_more = void> struct B {}; template "
                "<class npusim_more> struct B<void, npusim_more> { int c; }; };"
            ),
        ),
        ("struct A { A() = default; int b; };", "struct A { int b; };"),
        ("struct A { A() = default; A(int c); };", "struct A { A() = default; A(int c); };"),
        (
            "template <class T> struct A {}; template <> struct A<void> {};",
            "template <class T> struct A {}; template <> struct A<void> {};",
        ),
    ],
)
def test_words_that_gcc_does_not_take(given: str, made: str) -> None:
    assert " ".join(as_gcc_takes_it(given).split()) == made
    system = f'# 1 "/usr/include/a.h" 3\n{given}'
    assert as_gcc_takes_it(system) == system


@needs_capi
@needs_cffi
@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A"])
def test_cube_and_vector_cores_are_not_side_by_side_where_a_core_is_both(
    programs: Programs, soc: str
) -> None:
    run = run_program(str(programs["cores"]), ["10"], soc)
    (problem,) = run.problems
    assert "kernel cut_product: it is for cube cores with vector cores" in problem["message"]
    assert f"a core of {soc} is both" in problem["message"]
    assert {each["op"] for each in run.calls} == {"add_up", "turns"}


@needs_capi
@needs_cffi
def test_products_can_be_timed_alone(programs: Programs, capfd: pytest.CaptureFixture[str]) -> None:
    """Wrong numbers, the same times; the rest of the program computes as ever."""
    runs = [
        run_program(str(programs["cores"]), ["10"], "Ascend910B3", with_products=products)
        for products in (True, False)
    ]
    first, second = capfd.readouterr().out.split("10 after 10 turns\n")[:2]
    assert first.startswith("0 wrong of the product\n")
    assert not second.startswith("0 wrong of the product\n")
    assert "0 wrong of the sum\n" in second
    with_them, without = ([each["cycles"] for each in run.calls] for run in runs)
    assert with_them == without


@pytest.fixture(scope="module")
def said(programs: Programs) -> dict[str, tuple[int, str]]:
    def run() -> dict[str, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SECONDS_VARIABLE, "1")
            done = run_program(str(programs["faults"]), [], "Ascend910B3")
        return {**done.as_json(), "problems": done.problems}

    found = programs.shop.once("faults.json", run)
    assert found["exit_code"] == 0  # whatever a kernel does to end the program
    # Two other cores' words, and its own, are fetched from memory.
    scalar = load_profile("Ascend910B3").scalar
    (polls,) = (each["cycles"] for each in found["calls"] if each["op"] == "clean_words")
    (alone,) = (each["cycles"] for each in found["calls"] if each["op"] == "clean_scalar")
    assert polls - alone > 3 * scalar.gm_miss_cycles
    told = [_TOLD.search(each["message"]) for each in found["problems"]]
    return {each[1]: (int(each[2]), each[3]) for each in told if each}


@needs_capi
@needs_cffi
@pytest.mark.parametrize("name", planted())
def test_a_planted_fault_is_told_with_its_line(said: dict[str, tuple[int, str]], name: str) -> None:
    """And of a kernel without one, nothing."""
    lines = planted()[name]
    assert bool(lines) == (name in said)
    if lines:
        where, message = said[name]
        assert any(where == number and text in message for number, text in lines), said[name]


def what_is_slow() -> dict[str, str]:
    """Kernels of slow.asc, and what the first suggestion has to say."""
    return dict(re.findall(r" void (\w+)\(.*\) // (.*)", (SOURCES / "slow.asc").read_text()))


@pytest.fixture(scope="module")
def suggested(programs: Programs) -> dict[str, list[str]]:
    run = run_program(str(programs["slow"]), [], "Ascend910B3", with_timelines=True)
    assert run.exit_code == 0
    assert not run.problems
    return {
        call.result.op: [str(each) for each in suggestions(own, call.result.timeline.profile)]
        for call in run.timed
        for own in call.result.timeline.runs
    }


@needs_capi
@needs_cffi
@pytest.mark.parametrize("name", what_is_slow())
def test_the_first_suggestion_names_what_is_slow(
    suggested: dict[str, list[str]], name: str
) -> None:
    assert suggested[name], "nothing is suggested"
    assert re.search(what_is_slow()[name], suggested[name][0]), suggested[name]


def clang() -> str:
    """The command of a clang that is there: the system's, or that of pip's ziglang."""
    if importlib.util.find_spec("ziglang"):
        return f"{sys.executable} -m ziglang c++"
    return shutil.which("clang++") or ""


@pytest.mark.slow
@pytest.mark.skipif(not clang(), reason="there is no clang")
@needs_cffi
def test_clang_compiles_kernels_and_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Instructions in C, products as objects, rows in parts; a launch in a header, both sides."""
    monkeypatch.setenv("CXX", clang())
    monkeypatch.setenv("NPUSIM_CACHE", str(tmp_path / "cache"))
    for name, wrong in (("names.asc", 17), ("sides.cpp", 3)):
        flags = ["-O1", f"-I{SOURCES / 'sides'}"]
        program = compile_program([SOURCES / name], tmp_path / "program", flags)
        run = run_program(str(program), [], "Ascend910B3")
        said = re.findall(r"^(?!asc_dump).* (\d+)$", capfd.readouterr().out, re.MULTILINE)
        assert (said, run.faults) == (["0"] * wrong, [])


@pytest.mark.slow
@needs_capi
@needs_cffi
def test_published_steps_come_in_their_order(tmp_path: Path) -> None:
    """Steps of an addition: tiles, two buffers, inputs past L2; and what goes past it says so."""
    times = []
    for step in ("CORES=1", "LENGTH=4096 BUFFERS=1", "BUFFERS=1", "BUFFERS=2", "PAST_L2=1"):
        flags = [f"-D{macro}" for macro in step.split()]
        program = compile_program([STEPS / "add.asc"], tmp_path / "add", flags)
        run = run_program(str(program), [], "Ascend910B1", with_timelines=step == "PAST_L2=1")
        times.append(run.calls[0]["duration_us"])
    assert times == sorted(times, reverse=True)
    details = {each.detail for each in run.timed[0].result.timeline.slices()}
    assert any(each.endswith("past L2") for each in details)


def test_sweeps_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two points are swapped, and the best of the fastest quarter is the second."""
    monkeypatch.syspath_prepend(str(STEPS.parent))
    programs = importlib.import_module("programs")
    steps = [
        programs.Step("", "", measured, simulated)
        for measured, simulated in zip((1, 2, 3, 4), (6, 5, 7, 8), strict=True)
    ]
    together, lost = programs.ranking(steps)
    assert (together, lost) == (pytest.approx(0.8), 1.0)
    assert programs.ranks([3.0, 1.0, 3.0]) == [1.5, 0.0, 1.5]


def test_launches_are_calls_on_the_same_line() -> None:
    source = (
        "__global__ __cube__ void f(int *x) {}\n"
        "void g() {\n    f<4, B<2>><<<n(1, 2),\n        nullptr, s>>>(x, (y));\n}\n"
    )
    made = translated(source, "a.asc").splitlines()
    assert made[0] == '#line 1 "a.asc"'
    assert '::npusim::launch("f", 1, n(1, 2), s, [=]() mutable { f<4, B<2>>(x, (y)); })' in made[3]
    assert made[5] == "}"
    body = "{ REGIST_MATMUL_OBJ(a, b, c); }"
    asks = f"__global__ __aicore__ void f() {body}\nvoid g() {{ f<<<1, 0, s>>>(); }} // <<<"
    assert '"f", 2, 1' in translated(asks, "a.asc")
    assert '"f", 1, 1' in translated(f"#define ASCENDC_CUBE_ONLY\n{asks}", "a.asc")
    held = "__global__ __mix__(1, 2) void f() {}\nauto g = [] { return f; }();\ng<<<1, 0, s>>>();"
    assert '"g", 2, 1' in translated(held, "a.asc")
    one = "__global__\n#if A\n__mix__(1, 1)\n#endif\nvoid f() {}\nf<<<1, 0, s>>>();"
    assert '"f", 4, 1' in translated(one, "a.asc")
    array = "__ubuf__ float a[2][n], b;\n__cbuf__ half c[4\n * n];\nf(__ubuf__ int *d);"
    made = translated(array, "a.asc").splitlines()
    assert made[1] == " float a[2][n], b;"  # several declared at once aren't taken
    assert made[2].startswith("::npusim::Array npusim_c(::npusim::L1, int64_t(sizeof(half[4")
    assert made[3:] == [" * n]))); half (*const c) = npusim_c;", "f( int *d);"]
    with pytest.raises(RejectedError, match=r"a\.asc:1: a launch is written f<<<blocks"):
        translated("f<<<1>>>(x);", "a.asc")
    with pytest.raises(RejectedError, match="doesn't come to its end"):
        translated("f<<<1, 0, s>>>(x;", "a.asc")
