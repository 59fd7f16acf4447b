"""`npusim cc`, `npusim exec` and `npusim capi` where something is missing or wrong."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from npusim.capi import tools
from npusim.capi.compiling import compile_program
from npusim.values.errors import RejectedError
from support.capi import PROGRAMS, Workshop, needs_capi, needs_cffi, workshop
from support.commands import npusim
from support.paths import ROOT

EXAMPLE = ROOT / "examples" / "cpp"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty."""
    monkeypatch.setenv("NPUSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "prog.cpp"
    file.write_text("int main() { return 7; }\n")
    return file


def test_without_a_compiler_it_says_what_to_install(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    said = npusim(capsys, "cc", source)
    assert said.code == 2
    assert "no C++ compiler found (tried c++, g++, clang++)" in said.err
    assert "apt install g++" in said.err
    monkeypatch.setenv("CXX", "nosuch++ -O2")
    assert "tried nosuch++" in npusim(capsys, "cc", source).err
    assert not cache.exists()


def test_without_cffi_it_names_the_extra(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cffi", None)
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda _: None)
    for words in (("capi",), ("exec", sys.executable, "-s", "910B3")):
        said = npusim(capsys, "", *words)
        assert said.code == 2
        assert "pip install 'npusim[capi]'" in said.err
    assert not list(cache.rglob("*.so"))  # a profile may be kept there
    assert source.exists()


def test_without_pythons_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_config_vars", lambda *names: [None] * len(names))
    with pytest.raises(tools.UsageError, match="no shared library") as error:
        tools.python_library()
    assert "libpython3-dev" in error.value.remedy
    monkeypatch.setattr(sysconfig, "get_path", lambda _: "/nowhere")
    with pytest.raises(tools.UsageError, match=r"Python\.h") as error:
        tools.python_include()
    assert "python3-dev" in error.value.remedy


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("cc nosuch.cpp", "nosuch.cpp: is no file"),
        ("cc -- -O2", "which source?"),
        ("cc a.cpp -fno-exceptions", "a.cpp: is no file"),  # and not -o -exceptions
        ("cc -- notes.txt", "which source?"),
        ("exec nosuch -s 910B3", "nosuch: is no program"),
        ("exec nosuch", "which chip?"),
        ("exec nosuch -s 910X", "unknown chip"),
        ("exec nosuch -s all", "a program runs on one chip"),
    ],
)
def test_wrong_usage_is_told(
    line: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NPUSIM_SOC", raising=False)
    said = npusim(capsys, line)
    assert said.code == 2
    assert problem in said.err
    assert not said.out


def test_a_cache_that_cant_be_written_is_told(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cffi")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setenv("NPUSIM_CACHE", "/proc/nowhere")
    said = npusim(capsys, "capi")
    assert said.code == 2
    assert "/proc/nowhere/capi: can't be written" in said.err
    assert "NPUSIM_CACHE" in said.err
    assert source.exists()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return workshop(tmp_path_factory)


@pytest.fixture
def shared(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process use the cache of the test run, so that the library is built once."""
    monkeypatch.setenv("NPUSIM_CACHE", shop.environment["NPUSIM_CACHE"])


@needs_capi
@needs_cffi
@pytest.mark.usefixtures("shared")
def test_cc_writes_whole_programs_and_overwrites_nothing_else(
    tmp_path: Path, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "prog"
    for _ in range(2):  # a program may be compiled again
        said = npusim(capfd, "cc -o", program, source, "--", "-Wall", "-I", tmp_path)
        assert (said.code, said.out) == (0, "")
        assert f"npusim exec {program} -s Ascend910B3" in said.err
    run = npusim(capfd, "exec -s 310P3", program)
    assert (run.code, run.err) == (7, "note: no operator ran\n")
    notes = tmp_path / "notes"
    notes.write_text("mine")
    assert npusim(capfd, "cc -o", notes, source).code == 2
    assert notes.read_text() == "mine"
    source.write_text("int main() { return nonsense; }\n")
    failed = npusim(capfd, "cc -o", program, source)
    assert failed.code == 1
    assert "nonsense" in failed.err
    assert npusim(capfd, "exec -s 310P3", program).code == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "prog", "prog.cpp"]


@needs_capi
@needs_cffi
@pytest.mark.usefixtures("shared")
def test_a_program_that_reads_a_device_pointer_is_told_why_it_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "reads.cpp"
    source.write_text(
        '#include "acl/acl.h"\nint main() { aclInit(nullptr); aclrtSetDevice(0); void *p = nullptr;'
        " aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST); return *static_cast<int *>(p); }\n"
    )
    assert npusim(capfd, "cc -o", tmp_path / "reads", source).code == 0
    said = npusim(capfd, "exec -s 910B3", tmp_path / "reads")
    assert said.code == 128 + 11
    assert "reading a device pointer on the host does that" in said.err


@needs_capi
@needs_cffi
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no CMake")
@pytest.mark.usefixtures("shared")
def test_cmake_finds_headers_and_library(
    shop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import subprocess

    folders = dict(line.split() for line in npusim(capsys, "capi").out.splitlines())
    printed = [npusim(capsys, f"capi --{name}-dir").out.strip() for name in folders]
    assert printed == list(folders.values())
    build = tmp_path / "build"
    for words in (
        ("-S", str(EXAMPLE), "-B", str(build), f"-Dnpusim_DIR={folders['cmake']}"),
        ("--build", str(build)),
    ):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    assert shop.run(build / "sample").out.startswith("1 + 3 * 1 = 4\n")


def built_by_cmake(project: Path, variable: str) -> Path:
    """The folder that a project was built in; `variable` has the folder of our CMake files."""
    import subprocess

    from npusim.capi.library import installation

    build = project / "build"
    told = (f"-D{variable}={installation().cmake}", "-DCMAKE_ASC_FLAGS=-O0")
    for words in (("-S", str(project), "-B", str(build), *told), ("--build", str(build))):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    return build


@needs_capi
@needs_cffi
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no CMake")
@pytest.mark.usefixtures("shared")
def test_cmake_compiles_kernels_as_for_a_card(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "twice.asc").write_text(
        '#include "kernel_operator.h"\n#include "acl/acl.h"\n#include "half.h"\n'
        "__global__ __vector__ void none(float *x) {}\nint shared();\n"
        "int main() { none<<<1, 0, nullptr>>>(nullptr); return HALF + shared(); }\n"
    )
    (tmp_path / "shared.asc").write_text("int shared() { return 0; }\n")
    (tmp_path / "half.h").write_text("#define HALF 0\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nfind_package(ASC REQUIRED)\n"
        "project(twice LANGUAGES ASC CXX)\nadd_executable(twice twice.asc)\n"
        "add_library(own SHARED shared.asc)\n"
        "set_target_properties(twice own PROPERTIES LINKER_LANGUAGE ASC)\n"
        "target_link_libraries(twice PRIVATE own tiling_api register platform m)\n"
        "target_compile_options(twice PRIVATE $<$<COMPILE_LANGUAGE:ASC>:--npu-arch=dav-2201>)\n"
    )
    build = built_by_cmake(tmp_path, "CMAKE_PREFIX_PATH")
    assert b"half.h" in next(build.rglob("twice.asc.o.d")).read_bytes()
    done = subprocess.run([build / "twice"], env={"NPUSIM_SOC": "Ascend910B3"}, check=False)
    assert done.returncode == 0
    with pytest.raises(RejectedError, match="dav-3510 isn't simulated; these are: dav-1001"):
        compile_program([tmp_path / "twice.asc"], tmp_path / "other", ["--npu-arch=dav-3510"])


@needs_capi
@needs_cffi
@pytest.mark.usefixtures("shared")
def test_a_kernel_of_another_file_is_launched_by_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """ACLRT_LAUNCH_KERNEL and its header; a grid that no launch has is refused as on the device."""
    host, kernel = PROGRAMS / "launched.cpp", PROGRAMS / "scaled_add.cpp"
    program, part = tmp_path / "prog", tmp_path / "kernel.o"
    alone = npusim(capfd, "cc -o", program, host)
    assert alone.code == 1
    assert "stands for the kernel scaled_add, which none of the sources defines" in alone.err
    made = ("-c", "-DNPUSIM_LAUNCHERS", "-Wall", "-Wextra", "-Werror")
    assert npusim(capfd, "cc -o", part, kernel, "--", *made).code == 0
    assert npusim(capfd, "cc -o", program, host, part, "--", "-Wall", "-Wextra").code == 0
    said = npusim(capfd, "exec -s 910B3", program)
    assert said.code == 1
    assert said.out.startswith(
        "launch 0\nsynchronize 0\nends 12.5 12.5\nlaunch 107000\nlaunch 107000\n"
        "arguments 107000\nlast 107000 107000 0\n"
    )
    assert "blocks=65536, but a launch has 1 to 65535 blocks" in said.err


@needs_capi
@needs_cffi
@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no CMake")
@pytest.mark.usefixtures("shared")
def test_cmake_makes_libraries_of_kernels_with_their_headers(tmp_path: Path) -> None:
    import subprocess

    for name in ("launched.cpp", "scaled_add.cpp"):
        shutil.copy(PROGRAMS / name, tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(old LANGUAGES CXX)\n"
        "include(${ASCENDC_CMAKE_DIR}/ascendc.cmake)\n"
        "ascendc_library(kernels STATIC scaled_add.cpp)\n"
        "ascendc_compile_definitions(kernels PRIVATE -DANYTHING)\n"
        "add_executable(old launched.cpp)\ntarget_link_libraries(old PRIVATE kernels)\n"
    )
    build = built_by_cmake(tmp_path, "ASCENDC_CMAKE_DIR")
    done = subprocess.run(
        [build / "old"], env={"NPUSIM_SOC": "Ascend910B3"}, check=False, capture_output=True
    )
    assert done.stdout.startswith(b"launch 0\nsynchronize 0\nends 12.5 12.5\n")
