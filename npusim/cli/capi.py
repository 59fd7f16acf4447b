"""`npusim cc`, `npusim exec` and `npusim capi`: aclnn programs in C++, pyasc, Triton."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.cli import output
from npusim.cli.options import AsJson, Explain, Force, JsonFile, ProgramSoc
from npusim.values.errors import UsageError

if TYPE_CHECKING:
    from npusim.capi.running import Run

_SOURCE_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".C", ".c", ".asc", ".o")

# Flags of compilers whose next word may look like a source.
_TAKE_WORDS = ("-MT", "-MQ", "-MF", "-include", "-o")

# So many messages of refused calls are shown; the JSON has all.
_SHOWN_PROBLEMS = 10

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE.cpp... [-- FLAGS...]",
        help="The sources; flags for the compiler come after --.",
    ),
]
Program = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="PROG", help="The program; else named after the first source."
    ),
]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="PROG [-- ARGUMENTS...]",
        help="A program of npusim cc, or one in Python with kernels of pyasc or Triton "
        "(FILE.py, or -m MODULE behind --).",
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Write the timeline of all calls to a file."),
]
Library = Annotated[
    list[str],
    typer.Option(
        "--against",
        metavar="'KERNEL: aclnnX NAME=VALUE...'",
        help="Compare a kernel with a call of the vendor's library; the kernel's tensors are named "
        "as its parameters. Repeatable.",
    ),
]
Leaks = Annotated[
    bool, typer.Option("--leaks", help="Tell at aclFinalize what was never given back.")
]
Products = Annotated[
    bool,
    typer.Option(
        "--products/--no-products",
        help="Leave out the numbers of kernels' cubes, for times of large matrix products in C++: "
        "what the program makes of them is wrong.",
    ),
]
IncludeDir = Annotated[bool, typer.Option("--include-dir", help="Print the folder of the headers.")]
LibDir = Annotated[bool, typer.Option("--lib-dir", help="Print the folder of the libraries.")]
CmakeDir = Annotated[bool, typer.Option("--cmake-dir", help="Print the folder for npusim_DIR.")]


def cc(sources: Sources, path: Program = None) -> None:
    """Compile an aclnn program in C++ for the simulator.

    Example: npusim cc sample.cpp -o sample
    """
    from npusim.capi.compiling import compile_program

    before = ["", *sources]
    named = [
        is_source(word) and last not in _TAKE_WORDS
        for last, word in zip(before, sources, strict=False)
    ]
    files = [Path(word) for word, yes in zip(sources, named, strict=True) if yes]
    flags = [word for word, yes in zip(sources, named, strict=True) if not yes]
    written = compile_program(files, path, flags)
    if "-c" in flags or all(file.suffix == ".o" for file in files):
        return  # a step of somebody's build
    output.note(f"{written}: run it with npusim exec {_runnable(written)} -s Ascend910B3")


def execute(
    words: Words,
    soc: ProgramSoc = None,
    as_json: AsJson = False,
    json_file: JsonFile = None,
    trace_file: TraceFile = None,
    explain: Explain = False,
    against: Library = [],  # noqa: B006 - typer makes a list of its own
    leaks: Leaks = False,
    products: Products = True,
    force: Force = False,
) -> None:
    """Run a program on a simulated chip, and show the time of every operator and kernel.

    Example: npusim exec ./sample -s 910b3
    """
    from npusim.cli.chips import one_chip
    from npusim.cli.library_times import Against, library_table
    from npusim.reading.files import note_read
    from npusim.reporting.files import claim_all

    if not soc:
        raise UsageError(
            "which chip? no -s/--soc-version is given",
            "Add e.g. -s Ascend910B3, or set NPUSIM_SOC; `npusim profiles` lists them.",
        )
    chip = one_chip([soc], "a program runs on one chip")
    compared = [Against.read(each) for each in against]
    note_read(words[0])
    note_read(chip.address)
    claim_all(json_file, trace_file, force=force)
    address = str(Path(chip.address).absolute()) if Path(chip.address).is_file() else chip.address
    run = _run(
        words,
        address,
        with_timelines=explain or trace_file is not None,
        with_advice=explain and not as_json,
        with_leaks=leaks,
        with_products=products,
        apart=as_json,
    )
    if as_json:
        output.emit_json(run.as_json())
    else:
        _show(run)
    for told in dict.fromkeys(each for call in run.timed for each in call.result.assumptions):
        output.note(told)
    if not products:
        output.note("matrix products were timed, not computed: results that need them are wrong")
    if compared and not as_json:
        output.emit(library_table(run, compared, chip.device()))
    if explain and not as_json:
        _explain(run)
    if json_file is not None:
        output.write_json(json_file, run.as_json(), force=force)
    if trace_file is not None:
        from npusim.capi.tracing import write_program_trace

        written = write_program_trace(run.timed, trace_file, force=force)
        output.note(f"{written.path}: {written.slices} slices on {written.cores} cores")
    if run.faults and not run.exit_code:
        names = ", ".join(sorted({each["op"] for each in run.faults}))
        output.note(f"the program ended with 0, but these stopped with a fault: {names}")
    raise typer.Exit(run.exit_code or int(bool(run.faults)))


def _explain(run: Run) -> None:
    """Each different call once."""
    from npusim.reporting.explain import explained

    told = set()
    for call in run.timed:
        key = (call.result.op, call.result.cycles)
        if key not in told:
            told.add(key)
            output.emit_text("\n")
            output.emit(explained(call.result, call.advice))


def _run(
    words: list[str],
    address: str,
    *,
    with_timelines: bool,
    with_advice: bool,
    with_leaks: bool,
    with_products: bool,
    apart: bool,
) -> Run:
    """A program in Python runs here, one in C++ in a process of its own.

    What it prints goes to standard error if it has to stay ``apart`` from ours.
    """
    from npusim.capi.python_program import run_python
    from npusim.capi.running import run_program
    from npusim.runtime.device import Device

    program, *rest = words
    if program == "-m" or program.endswith(".py"):
        if not with_products:
            raise UsageError(
                "--no-products is for programs in C++",
                "Leave it out: programs in Python compute what they time.",
            )
        with redirect_stdout(sys.stderr) if apart else nullcontext():
            run = run_python(words, Device(address), with_advice=with_advice)
        for soc in dict.fromkeys(call.result.soc for call in run.timed):
            if soc != run.soc:
                output.note(f"the program asks for {soc} itself, where -s has no say")
        return run
    return run_program(
        program,
        rest,
        address,
        with_timelines=with_timelines,
        with_leaks=with_leaks,
        with_products=with_products,
        shown=sys.stderr if apart else None,
    )


def folders(include: IncludeDir = False, lib: LibDir = False, cmake: CmakeDir = False) -> None:
    """The folders of headers, libraries and CMake files, for your own build.

    Example: npusim capi --include-dir
    """
    from npusim.capi.library import installation

    home = installation()
    wanted = {home.include: include, home.lib: lib, home.cmake: cmake}
    if any(wanted.values()):
        output.emit_text("".join(f"{folder}\n" for folder, yes in wanted.items() if yes))
        return
    names = ("include", "lib", "cmake")
    rows = zip(names, wanted, strict=True)
    output.emit_text("".join(f"{name:<9}{folder}\n" for name, folder in rows))


def _show(run: Run) -> None:
    """The table to standard output; what was refused, to standard error."""
    if run.calls:
        from npusim.capi.table import run_table

        output.emit_text("\n")
        output.emit(run_table(run))
    else:
        output.note("no operator ran")
    lines = [
        f"{each['where']}: {each['name']} ({each['code']}): {each['message']}"
        for each in run.problems
    ]
    for line in lines[:_SHOWN_PROBLEMS]:
        output.note(line)
    if len(lines) > _SHOWN_PROBLEMS:
        output.note(f"and {len(lines) - _SHOWN_PROBLEMS} more, which --json FILE has all")
    if run.exit_code == _SEGMENTATION_FAULT:
        output.note(
            "the program ended with a segmentation fault; reading a device pointer on the host "
            "does that, here and on a card: copy with aclrtMemcpy first"
        )


_SEGMENTATION_FAULT = 128 + 11


def is_source(word: str) -> bool:
    """Whether a word names a source in C++, or what one is compiled to."""
    return not word.startswith("-") and Path(word).suffix in _SOURCE_SUFFIXES


def _runnable(path: Path) -> str:
    return str(path) if path.parent != Path() else f"./{path}"
