"""The tools of `npusim mcp`: each is a verb of the command line in a process of its own.

So an agent gets the JSON that `npusim schema` describes, and standard output stays the protocol's.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

import npusim
from npusim.cli.mcp_gate import gated
from npusim.reading.files import FOLDERS
from npusim.values.guard import guarded_folder
from npusim.values.signals import end_with_parent

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

MOST_AT_ONCE: Final = 4
"""Processes for requests that come together; others wait for their turn."""

MOST_REPLY: Final = 8 << 20
"""Characters of an answer: what an agent can't read anyhow."""

LONGEST_S: Final = 600
"""What a tool may take; an agent that waits longer has lost its thread."""

INSTRUCTIONS: Final = """\
npusim simulates Huawei Ascend NPUs on any machine: will an operator or model run on a chip, how
long does it take and why, how many cards does a workload need. Times are estimates; quote the
80 % band (band_us) with them. A refusal has a reason and a remedy: pass both on.
The verdict is yes, no, or unknown, where npusim models no such call and a device may run it.
Chips: Ascend910A, Ascend910B1..B4, Ascend310P3 ... or product names; "all" compares.
Tensors are spelled dtype[shape], e.g. gradOut = "bf16[2,64,4096]"; parameters are named as on the
operator's aclnn page (tool `operator`), or x, y ... for operator types such as MatMulV3.
"""

Arguments = Annotated[
    dict[str, str | int | float | bool | list[Any] | None] | list[str] | str,
    Field(
        description='by name, {"self": "bf16[64]", "dim": 0}, or as words, "self=bf16[64] dim=0"'
    ),
]
Socs = Annotated[
    str | list[str],
    Field(description='a chip or product, or several, e.g. "910b3,310P3"; "all" compares'),
]
Op = Annotated[str, Field(description='an operator, e.g. "aclnnRelu" or "MatMulV3"')]
File = Annotated[str, Field(description="a path on the machine of this server")]
Config = Annotated[str, Field(description="a config.json of Hugging Face, or its folder")]
Question = Annotated[
    str | dict[str, Any],
    Field(description="the path of a plan, or what such a file says"),
]
PerSecond = Annotated[float, Field(description="requests a second at the peak, e.g. 400")]
Limit = Annotated[float, Field(description="limit of their latency, ms, e.g. 30")]
Batches = Annotated[
    int | str | list[int], Field(description='a batch, or several: 8, "1,8" or [1, 8]')
]
Options = Annotated[
    dict[str, str | int | float], Field(description="options of the verb without their hyphens")
]
Collective = Annotated[
    str, Field(description="allreduce, allgather, reducescatter, alltoall, broadcast or sendrecv")
]
Size = Annotated[int | str, Field(description='bytes that a rank gives, e.g. 1048576 or "1MiB"')]


def server(*, allow_run: bool = False, folders: Sequence[Path] = ()) -> MCPServer:
    """The server with all tools; UsageError where the extra `mcp` isn't installed.

    Without `allow_run` the one that executes programs only says how to allow it. Files are read and
    written in the `folders` alone; without any there is no such limit.
    """
    from npusim.values.errors import UsageError

    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise UsageError("npusim mcp needs the MCP SDK", "pip install 'npusim[mcp]'") from None
    _folders[:] = [str(each.resolve()) for each in folders]
    made = gated(MCPServer)("npusim", version=npusim.__version__, instructions=INSTRUCTIONS)
    for tool in TOOLS:
        made.tool()(_cancellable(tool))
    made.tool(name="kernel_run", description=kernel_run.__doc__)(
        _cancellable(kernel_run) if allow_run else _not_allowed
    )
    return made


def check(op: Op, soc: Socs = "all", arguments: Arguments | None = None) -> dict[str, Any]:
    """Will this operator run on these chips, with these dtypes and shapes; if not, what to do.

    Without arguments: which dtypes it takes there. `soc` is one name, several, or "all".
    """
    return _asked("check", [*_socs(soc)], [op, *_assigned(arguments)])


def estimate(
    op: Op, arguments: Arguments | None = None, soc: Socs = "", l2: str = "cold"
) -> dict[str, Any]:
    """How long an operator takes on these chips, in us with an 80 % band, and what limits it.

    `l2` is what the L2 cache holds at the start: cold, warm or in_graph.
    """
    return _asked("estimate", [*_socs(soc), "--l2", l2], [op, *_assigned(arguments)])


def operator(op: Op) -> dict[str, Any]:
    """An operator's page: parameters, dtypes for each product, limits, return codes."""
    return _asked("ops", ["show"], [op])


def model(
    file: File,
    soc: Socs = "",
    batch: Batches | None = None,
    shape: dict[str, str] | str | None = None,
) -> dict[str, Any]:
    """How long a step of a model takes: an ONNX file, a YAML list of calls, or a profiler's CSV.

    `shape` are shapes of inputs, e.g. {"input": "8,3,224,224"}; `batch` may be several: "1,8".
    """
    more = [] if batch is None else ["--batch", _word(batch)]
    shapes = [shape] if isinstance(shape, str) else [f"{n}={s}" for n, s in (shape or {}).items()]
    for each in shapes:
        more += ["--shape", each]
    return _asked("model", [*_socs(soc), *more], [file])


def plan(question: Question) -> dict[str, Any]:
    """How many cards a workload needs under a latency limit, product by product.

    `question` is the path of a plan or what such a file says; `npusim init plan` writes one with
    comments.
    """
    if isinstance(question, str):
        return _asked("plan", [], [question])
    with _folder() as folder:
        file = folder / "plan.yaml"
        file.write_text(json.dumps(question), encoding="utf-8")  # JSON is YAML
        return _asked("plan", [], [str(file)], str(folder))


def recommend(
    model: File,
    rate_per_s: PerSecond,
    limit_ms: Limit,
    soc: Socs = "",
    options: Options | None = None,
) -> dict[str, Any]:
    """How many cards for one model at a rate of requests under a latency limit, by product.

    `model` is a file as for `model`, or a language model's config.json, where the limit is of the
    first token. `options` are those of `npusim recommend`, e.g. {"quantile": "p95", "tpot": 50}.
    """
    more = [f"--rate={rate_per_s:g}", f"--slo={limit_ms:g}", *_options(options)]
    return _asked("recommend", [*_socs(soc), *more], [model])


def kernel_run(
    file: File, soc: Socs = "", arguments: list[str] | str | None = None
) -> dict[str, Any]:
    """Execute a program with kernels on a simulated chip: pyasc (FILE.py) or built by `npusim cc`.

    It runs with the rights of whoever started the server. The answer has the exit code, what it
    printed, and every operator and kernel with its time.
    """
    with _folder() as folder:
        told = folder / "run.json"
        given = shlex.split(arguments) if isinstance(arguments, str) else arguments or []
        words = ["exec", *_socs(soc), "--json-file", str(told), "--", file, *given]
        done = _run(words, str(folder))
        if not told.exists():
            raise _refusal(done)
        ran = json.loads(told.read_text(encoding="utf-8"))
    return {"exit_code": done.returncode, "output": done.stdout, "errors": done.stderr, "run": ran}


def llm_step(config: Config, soc: Socs = "", options: Options | None = None) -> dict[str, Any]:
    """A step of a language model, by its config.json: tokens/s, milliseconds, memory.

    `options` are those of `npusim llm step`, e.g. {"tp": 8, "batch": 16, "context": 4096}.
    """
    return _asked("llm", ["step", *_socs(soc), *_options(options)], [config])


def collective(
    operation: Collective, soc: Socs = "", cards: int = 8, nbytes: Size = "1MiB"
) -> dict[str, Any]:
    """How long allreduce, allgather, reducescatter, alltoall, broadcast or sendrecv takes."""
    more = ["--cards", str(cards), "--bytes", str(nbytes)]
    return _asked("collective", [*_socs(soc), *more], [operation])


def judge(file: File, soc: Socs = "") -> dict[str, Any]:
    """Is my speed normal: a kernel_details.csv, its kernels against what they usually take.

    Without `soc` the file has to tell its chip.
    """
    return _asked("judge", _socs(soc) if soc else [], [file])


def calibrate(file: File, soc: Socs = "", output: str = "") -> dict[str, Any]:
    """Fit a chip to a profile of one's own card: kernel_details.csv or op_summary_*.csv.

    `output` is a new YAML file for the chip, which `soc` takes anywhere; written where the fit
    makes kernels better that were kept aside (`holds`).
    """
    more = ["-o", output] if output else []
    return _asked("calibrate", [*_socs(soc), *more], [file])


TOOLS: Final = (
    check, estimate, operator, model, plan, recommend, llm_step, collective, judge, calibrate
)  # fmt: skip


def _not_allowed(
    file: File, soc: Socs = "", arguments: list[str] | str | None = None
) -> dict[str, Any]:
    from mcp.server.mcpserver.exceptions import ToolError

    del soc, arguments
    problem = f"{file} isn't executed: this server was started without --allow-run"
    raise ToolError(f"{problem}. The user allows it with `npusim mcp --allow-run`.")


def _asked(verb: str, options: Sequence[str], words: Sequence[str], *own: str) -> dict[str, Any]:
    """The JSON of a verb; a chip's no is an answer, what was asked wrongly an error."""
    done = _run([verb, *options, "--json", "--", *words], *own)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise _refusal(done) from None
    if not isinstance(found, dict):
        return {"answers": found}
    if set(found) == {"error"}:
        raise _refusal(done)
    if told := [line[6:] for line in done.stderr.splitlines() if line.startswith("note: ")]:
        found["notes"] = [*found.get("notes", ()), *told]  # what people see beside an answer
    return found


class _Request:
    """What a request of an agent runs; all of it ends when the request is cancelled."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._is_over = False
        self._lock = threading.Lock()

    def add(self, process: subprocess.Popen[str]) -> None:
        """One that has just been started, perhaps too late."""
        with self._lock:
            self._processes.append(process)
            if self._is_over:
                process.kill()

    def end(self) -> None:
        """Nothing of it goes on."""
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.kill()


_request: ContextVar[_Request] = ContextVar("_request")


def _cancellable(tool: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """A tool in a thread, which doesn't wait for its process when nobody waits for the answer."""

    @wraps(tool)
    async def asked(**given: Any) -> dict[str, Any]:
        from anyio.to_thread import run_sync

        request = _Request()
        _request.set(request)  # the thread gets a copy of this context
        try:
            return await run_sync(partial(tool, **given), abandon_on_cancel=True)
        finally:
            request.end()

    return asked


_folders: Final[list[str]] = []
"""What the server may use, of which there is one in a process."""


def _environment(own: Sequence[str] = ()) -> dict[str, str] | None:
    """That of a verb: with the folders that it may use, ours among them."""
    if not _folders:
        return None
    return {**os.environ, FOLDERS: os.pathsep.join([*_folders, *own])}


_at_once: Final = threading.BoundedSemaphore(MOST_AT_ONCE)


def _run(words: Sequence[str], *own: str) -> subprocess.CompletedProcess[str]:
    """A verb and what it said; `own` are folders of ours that it may use."""
    command = [sys.executable, "-m", "npusim", *words]
    try:
        return _executed(command, own)
    except (OSError, ValueError) as error:  # too long, or with a NUL in it
        problem = f"error: that can't be a command line: {error}"
        return subprocess.CompletedProcess(command, 2, "", problem)


def _executed(command: list[str], own: Sequence[str]) -> subprocess.CompletedProcess[str]:
    with (
        _at_once,
        subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=_environment(own),
            preexec_fn=end_with_parent if os.name == "posix" else None,  # noqa: PLW1509 - takes no lock
        ) as process,
    ):
        if (request := _request.get(None)) is not None:
            request.add(process)
        try:
            out, errors = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = "", f"error: it takes more than {LONGEST_S} s; ask for less"
    if len(out) > MOST_REPLY:
        problem = f"error: the answer has {len(out):,} characters, more than {MOST_REPLY:,}"
        return subprocess.CompletedProcess(command, 2, "", f"{problem}; ask for less")
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def _refusal(done: subprocess.CompletedProcess[str]) -> Exception:
    """What the tool says instead of an answer: the message and the remedy, without a traceback."""
    from mcp.server.mcpserver.exceptions import ToolError

    refusal: Exception = ToolError(
        done.stderr.strip().removeprefix("error: ") or f"exit code {done.returncode}"
    )
    return refusal


def _socs(soc: Socs) -> list[str]:
    """The -s options; what to say where there is none."""
    names = [soc] if isinstance(soc, str) else soc
    if not any(names):
        from mcp.server.mcpserver.exceptions import ToolError

        raise ToolError(
            'which chip? Give soc, e.g. "Ascend910B3", "910B3,310P3", an Atlas product such as '
            '"Atlas 800I A2", or "all" to compare.'
        )
    return [word for name in names for word in ("-s", name)]


def _options(options: Mapping[str, str | int | float] | None) -> Iterator[str]:
    for name, value in (options or {}).items():
        yield f"--{name.replace('_', '-')}={value}"


def _assigned(arguments: Arguments | None) -> list[str]:
    if arguments is None:
        return []
    if isinstance(arguments, str):
        return shlex.split(arguments)
    if isinstance(arguments, list):
        return arguments
    return [f"{name}={_word(value)}" for name, value in arguments.items()]


def _word(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_word, value))
    return str(value)


@contextmanager
def _folder() -> Iterator[Path]:
    with guarded_folder("npusim-mcp-") as folder:
        yield Path(folder)
