"""Requests in the forms that people have, and what is said of files that aren't any of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from npusim.serving import read_requests
from npusim.values.errors import ArgumentError, FileError
from support import commands
from support.paths import ROOT

CONFIG = ROOT / "reports" / "data" / "llm_configs" / "Qwen3-0.6B.json"
TALK = {
    "id": "x",
    "conversations": [
        {"from": "human", "value": "a" * 40},
        {"from": "gpt", "value": "b" * 81},
        {"from": "human", "value": "c" * 400},
    ],
}
SEEN = [{"type": "text", "text": "你好" * 10}]
CHAT = {"messages": [{"role": "system", "content": "a" * 20}, {"role": "user", "content": SEEN}]}
RESULTS = {"date": "20250101", "input_lens": [7, 9], "output_lens": [3, 0], "errors": ["", ""]}
LINES = [json.dumps({"prompt": "x" * 13, "output_tokens": 5}), json.dumps({"prompt": [1, 2, 3]})]


COUNTED = '{"input_length": 1, "output_length": 1}'


def written(folder: Path, text: str, name: str = "asked.json") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("text", "inputs", "outputs"),
    [
        (json.dumps([TALK, TALK]), [10, 10], [21, 21]),
        (json.dumps([TALK], indent=2), [10], [21]),
        (json.dumps([{"conversations": TALK["conversations"][1:]}, TALK]), [10], [21]),
        (json.dumps(CHAT), [20], [64]),
        (json.dumps(RESULTS), [7, 9], [3, 1]),
        (json.dumps(RESULTS, indent=1), [7, 9], [3, 1]),
        (json.dumps(RESULTS) + "\n" + json.dumps(RESULTS), [7, 9, 7, 9], [3, 1, 3, 1]),
        ("\n".join(LINES), [4, 3], [5, 64]),
        (json.dumps({"input_length": 5, "output_length": 6}), [5], [6]),
    ],
)
@pytest.mark.parametrize("name", ["asked.json", "without_an_ending"])
def test_forms_are_recognised_by_their_keys(
    tmp_path: Path, text: str, inputs: list[int], outputs: list[int], name: str
) -> None:
    found = read_requests(written(tmp_path, text, name), output_tokens=64)
    assert found.input_tokens.tolist() == inputs
    assert found.output_tokens.tolist() == outputs
    assert not found.arrival_ms.any()


def test_times_are_those_of_the_file_or_of_a_rate(tmp_path: Path) -> None:
    timed = written(tmp_path, json.dumps({**RESULTS, "start_times": [100.5, 100.25]}))
    found = read_requests(timed)
    assert found.arrival_ms.tolist() == [0, 250]
    assert found.input_tokens.tolist() == [9, 7]
    with pytest.raises(ArgumentError, match="says when each comes"):
        read_requests(timed, rate_per_s=2)
    talks = written(tmp_path, json.dumps([TALK] * 200))
    spread = read_requests(talks, rate_per_s=10, seed=1).arrival_ms
    assert (spread[1:] > spread[:-1]).all()
    assert 15_000 < spread[-1] < 25_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty|no requests|is not JSON"),
        ("[]", "no requests"),
        ("{}", "line 1 has none of input_length"),
        (json.dumps([TALK, 3]), "request 2 is no mapping"),
        ("\n".join([*LINES, '{"prompt": 3}']), "line 3 has prompt with something that is no text"),
        ("\n".join([*LINES, '{"prompt": "x"']), "line 3 is not JSON"),
        ('{"prompt": "x", "output_tokens": -1}', "line 1 has output_tokens '-1'"),
        ('{"prompt": "x", "output_tokens": 1.5}', "line 1 has output_tokens '1.5'"),
        ('{"input_length": NaN, "output_length": 1}', "line 1 has input_length 'nan'"),
        ('{"input_lens": [1], "output_lens": [1, 2]}', "line 1 lacks one of input_lens"),
        (f"{COUNTED}\n{COUNTED[:-1]}, \"timestamp\": 3}}", "times of some requests"),
        (json.dumps({"conversations": 3}), "line 1 has conversations that are no list"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError, match=problem):
        read_requests(written(tmp_path, text))


def test_ten_thousand_lines_take_half_a_second(tmp_path: Path) -> None:
    rows = "\n".join(
        json.dumps({"timestamp": at, "input_length": 900, "output_length": 9, "hash_ids": [at, 2]})
        for at in range(10_000)
    )
    before = time.process_time()
    assert len(read_requests(written(tmp_path, rows, "mooncake.jsonl"))) == 10_000
    assert time.process_time() - before < 0.5


def test_a_file_of_requests_is_served_in_the_keys_of_vllm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talks = written(tmp_path, json.dumps([TALK] * 12))
    line = "llm serve -s 910b3 --concurrency 4 --bench-json --requests"
    said = commands.npusim(capsys, line, talks, CONFIG)
    assert said.code in (0, None), said.err
    found = said.json
    assert found["completed"] == 12
    assert found["total_input_tokens"] == 120
    assert found["total_output_tokens"] == 12 * 21
    assert found["output_throughput"] == pytest.approx(12 * 21 / found["duration"])
    assert found["p99_ttft_ms"] >= found["median_ttft_ms"] > 0
    assert {"mean_tpot_ms", "std_tpot_ms", "p99_e2el_ms"} <= set(found)
