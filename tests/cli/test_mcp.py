"""`npusim mcp` through the SDK's own client; `npusim skill`."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from npusim.cli.app import _VERBS
from support.commands import npusim
from support.schemas import hold

mcp = pytest.importorskip("mcp", reason="the extra mcp isn't installed")


def asked(
    *questions: tuple[str, dict[str, Any]], allow_run: bool = True, folders: Sequence[Path] = ()
) -> list[Any]:
    """The answers of the tools, in one session with a client."""
    from npusim.cli.mcp_tools import server

    async def all_of_them() -> list[Any]:
        async with mcp.Client(server(allow_run=allow_run, folders=folders)) as client:
            return [await client.call_tool(name, given) for name, given in questions]

    return asyncio.run(all_of_them())


def test_the_tools_say_what_they_take() -> None:
    from npusim.cli.mcp_tools import server

    async def listed() -> list[Any]:
        async with mcp.Client(server()) as client:
            return list((await client.list_tools()).tools)

    tools = {tool.name: tool for tool in asyncio.run(listed())}
    assert {"check", "estimate", "model", "plan", "kernel_run", "calibrate"} <= set(tools)
    assert all(tool.description for tool in tools.values())
    assert set(tools["estimate"].input_schema["required"]) == {"op"}


def test_agents_may_ask_as_people_do() -> None:
    relu = {"self": "bf16[64]"}
    by_list, by_name, by_words, alone, nowhere, cards = asked(
        ("estimate", {"op": "aclnnRelu", "arguments": relu, "soc": ["910b3", "310P3"]}),
        ("estimate", {"op": "aclnnRelu", "arguments": relu, "soc": "910b3"}),
        ("estimate", {"op": "aclnnRelu", "arguments": "self=bf16[64]", "soc": "Atlas 800T A2"}),
        ("check", {"op": "aclnnRelu", "soc": "910b3,310p3"}),
        ("estimate", {"op": "aclnnRelu", "arguments": relu}),
        ("recommend", {"model": "examples/model.yaml", "rate_per_s": 9, "limit_ms": "30"}),
    )
    assert not by_list.is_error
    for one in (by_name, by_words):
        assert [each["soc"] for each in one.structured_content["answers"]] == ["Ascend910B3"]
    assert not alone.is_error
    for refused in (nowhere, cards):
        assert refused.is_error
        assert "which chip? Give soc" in refused.content[0].text


def test_programs_run_only_where_the_user_allows_it(tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    wanted = ("kernel_run", {"file": str(program), "soc": "910b3"})
    (refused,) = asked(wanted, allow_run=False)
    assert refused.is_error
    assert "npusim mcp --allow-run" in refused.content[0].text
    assert not (tmp_path / "ran").exists()


def test_files_outside_the_folders_are_neither_read_nor_written(tmp_path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "inside_not"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "chip.yaml").write_text("{inherits: Ascend910B3, name: Mine}")
    profile = "Name,Type,Duration(us)\n" + "relu,Relu,5.0\n" * 40
    (inside / "kernel_details.csv").write_text(profile)
    relu = {"op": "aclnnRelu", "arguments": {"self": "bf16[64]"}}
    written = {"file": str(inside / "kernel_details.csv"), "soc": "910b3"}
    fine, read, wrote = asked(
        ("estimate", {**relu, "soc": str(inside / "chip.yaml")}),
        ("estimate", {**relu, "soc": str(outside / "chip.yaml")}),
        ("calibrate", {**written, "output": str(outside / "new.yaml")}),
        folders=[inside],
    )
    assert not fine.is_error, fine.content
    assert read.is_error
    assert "lies outside the folders that may be used" in read.content[0].text
    assert wrote.is_error
    assert not (outside / "new.yaml").exists()


def test_answers_are_those_of_the_command_line(capsys, tmp_path) -> None:
    relu = {"op": "aclnnRelu", "arguments": {"self": "bf16[64]"}, "soc": ["910b3", "310p3"]}
    (tmp_path / "model.yaml").write_text(
        "calls:\n  - op: aclnnRelu\n    arguments: {self: 'fp16[64]'}\n"
    )
    program = tmp_path / "program.py"
    program.write_text("print('hello')\n")
    profile = tmp_path / "kernel_details.csv"
    profile.write_text("Name,Type,Duration(us)\n")
    found = asked(
        ("check", relu),
        ("estimate", relu),
        ("kernel_run", {"file": str(program), "soc": "910b3"}),
        ("estimate", {**relu, "op": "aclnnRelo"}),
        ("plan", {"question": {"title": "nothing else"}}),
        ("calibrate", {"file": str(profile), "soc": "910b3"}),
    )
    check, estimate, kernel, typo, plan, calibrated = found
    assert [answer["ok"] for answer in check.structured_content["answers"]] == [True, False]
    hold(["estimate"], estimate.structured_content)
    said = npusim(capsys, "estimate aclnnRelu -s 910b3 -s 310p3 self=bf16[64] --json").json
    assert estimate.structured_content == said
    assert kernel.structured_content["exit_code"] == 0
    assert "hello" in kernel.structured_content["output"]
    assert typo.is_error
    assert "aclnnRelu" in typo.content[0].text  # what was meant
    assert plan.is_error
    assert "Traceback" not in plan.content[0].text
    assert calibrated.is_error
    assert "kernel_details.csv" in calibrated.content[0].text


@pytest.mark.parametrize("text", ["fp16[4]\0", "9" * 200_000])
def test_what_is_no_command_line_is_refused_with_the_reason(text: str) -> None:
    (refused,) = asked(
        ("check", {"op": "aclnnRelu", "arguments": {"self": text}, "soc": ["910b3"]})
    )
    assert refused.is_error
    assert "can't be a command line" in refused.content[0].text


@pytest.mark.skipif(sys.platform == "win32", reason="a process is asked for by its number")
def test_many_requests_take_turns_and_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from npusim.cli import mcp_tools

    async def all_at_once(client: Any) -> list[Any]:
        relu = {"op": "aclnnRelu", "arguments": {"self": "fp16[64]"}, "soc": ["910b3"]}
        return await asyncio.gather(*(client.call_tool("check", relu) for _ in range(9)))

    async def session() -> list[Any]:
        async with mcp.Client(mcp_tools.server()) as client:
            return await all_at_once(client)

    running, most = 0, 0
    started = mcp_tools.subprocess.Popen

    class Counted(started):  # type: ignore[valid-type,misc]
        def __enter__(self) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            return super().__enter__()

        def __exit__(self, *told: object) -> None:
            nonlocal running
            running -= 1
            super().__exit__(*told)

    monkeypatch.setattr(mcp_tools.subprocess, "Popen", Counted)
    assert not any(each.is_error for each in asyncio.run(session()))
    assert 1 < most <= mcp_tools.MOST_AT_ONCE
    monkeypatch.setattr(mcp_tools, "MOST_REPLY", 10)
    (refused,) = asked(("operator", {"op": "aclnnRelu"}))
    assert refused.is_error
    assert "more than 10" in refused.content[0].text


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("no_such_tool", {}),
        ("check", {}),
        ("check", {"op": 3, "arguments": [], "soc": {}}),
        ("check", {"op": "aclnnRelu", "arguments": {"self": {"a": 1}}, "soc": ["910b3"]}),
        ("estimate", {"op": "--help", "arguments": {"-o": "x"}, "soc": ["--json"]}),
        ("model", {"file": "../" * 40 + "etc/passwd", "soc": ["910b3"]}),
        ("plan", {"question": {"workload": float("inf")}}),
    ],
)
def test_messages_that_mean_nothing_are_refused(tool: str, given: dict[str, Any]) -> None:
    (refused,) = asked((tool, given))
    assert refused.is_error
    said = refused.content[0].text
    assert "Traceback" not in said
    assert "root:" not in said


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("estimate", {}, "estimate needs op as well. Give op: an operator, e.g."),
        ("recommend", {"model": "m.onnx"}, "needs rate_per_s and limit_ms as well"),
        ("collective", {"operation": "allreduce", "soc": "910b3", "nbytes": []}, "nbytes can't be"),
        ("estimate", {"op": "Relu", "argument": {}}, "Did you mean arguments?"),
        ("estimat", {}, "Did you mean estimate"),
    ],
)
def test_a_call_that_does_not_fit_says_what_to_ask(
    tool: str, given: dict[str, Any], said: str
) -> None:
    (refused,) = asked((tool, given))
    assert refused.is_error
    assert said in refused.content[0].text
    assert "pydantic" not in refused.content[0].text


def test_arguments_are_taken_as_the_command_line_takes_them() -> None:
    alone, sized = asked(
        ("collective", {"operation": "allreduce", "soc": "910B"}),
        ("collective", {"operation": "allreduce", "soc": ["昇腾910B3"], "nbytes": "2MiB"}),
    )
    assert alone.structured_content["ranks"] == 8
    assert "first generation" in alone.structured_content["notes"][0]
    assert sized.structured_content["nbytes"] == 2 << 20
    assert "notes" not in sized.structured_content


def test_what_a_cancelled_request_runs_ends(tmp_path) -> None:
    from npusim.cli.mcp_tools import server

    anyio = pytest.importorskip("anyio")
    program, told = tmp_path / "program.py", tmp_path / "told"
    program.write_text(
        f"import os, time\nopen({str(told)!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(300)\n"
    )

    async def cancelled() -> int:
        async with mcp.Client(server(allow_run=True)) as client:
            with anyio.move_on_after(60) as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(
                        client.call_tool, "kernel_run", {"file": str(program), "soc": "910b3"}
                    )
                    while not (told.exists() and told.read_text().endswith(" ")):
                        await anyio.sleep(0.05)
                    assert is_running(int(told.read_text()))
                    tasks.cancel_scope.cancel()
            assert not scope.cancelled_caught
            with anyio.fail_after(30):
                while is_running(int(told.read_text())):
                    await anyio.sleep(0.05)
            return len((await client.list_tools()).tools)  # and the server goes on

    assert asyncio.run(cancelled()) > 5


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_skill_names_verbs_that_exist(capsys) -> None:
    text = npusim(capsys, "skill").out
    assert text.startswith("---\nname: npusim\n")
    verbs = set(re.findall(r"`npusim ([a-z]+)", text))
    assert verbs <= set(_VERBS)
    assert npusim(capsys, "skill --path").out.strip().endswith("SKILL.md")
