"""Trace readers: real lines, malformed ones by file and line, a million in little memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npusim.capacity.traces import iter_trace, read_trace
from npusim.values.errors import FileError

# Lines as published, Azure/AzurePublicDataset AzureLLMInferenceTrace_code.csv (2023), CC-BY.
AZURE_2023 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:04.0781490,110,27
2023-11-16 18:20:07.0417510,2648,15
"""
# The one-week files of 2024 have a time zone and drop a fraction that is 0.
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
2024-05-10 00:00:01.250000+00:00,76,15
"""
AZURE_2025 = """\
TIMESTAMP,NumImages,ContextTokens,GeneratedTokens
2024-10-15 00:00:00.1000000,0,100,5
2024-10-15 00:00:00.3500000,2,1200,50
"""
# BurstGPT_1.csv and BurstGPT_3.csv, HPMLL/BurstGPT, CC-BY.
BURSTGPT_1 = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,276,693,Conversation log
120,GPT-4,300,0,300,API log
"""
BURSTGPT_3 = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
19440110.0,1722ac82-0a46-4bf0-aa08-89794e7a2b3f,43,GPT-4,906,446,1352,Conversation log
19440161.0,d5983bf9-4b48-497b-892b-a58995247443,2,ChatGPT,36,29,65,Conversation log
19440192.5,,0,ChatGPT,10,0,10,API log
"""


def written(folder: Path, text: str | bytes, name: str = "trace.csv") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize(
    ("text", "form", "arrival_s", "inputs", "outputs", "failed"),
    [
        (AZURE_2023, "Azure LLM", [0, 0.052, 0.098189, 183.061791], [4808, 3180, 110, 2648],
         [10, 8, 27, 15], 0),
        (AZURE_2024, "Azure LLM", [0, 0.99007, 1.24007], [2162, 2399, 76], [5, 6, 15], 0),
        (AZURE_2025, "Azure LLM", [0, 0.25], [100, 1200], [5, 50], 0),
        (BURSTGPT_1, "BurstGPT", [0, 40, 113, 115], [472, 1087, 417, 300], [18, 230, 276, 0], 1),
        (BURSTGPT_3, "BurstGPT", [0, 51, 82.5], [906, 36, 10], [446, 29, 0], 1),
    ],
    ids=["azure-2023", "azure-2024", "azure-2025", "burstgpt-1", "burstgpt-3"],
)  # fmt: skip
def test_real_lines_are_read(
    tmp_path: Path,
    text: str,
    form: str,
    arrival_s: list[float],
    inputs: list[int],
    outputs: list[int],
    failed: int,
) -> None:
    trace = read_trace(written(tmp_path, text))
    assert (trace.name, trace.format, trace.failed) == ("trace.csv", form, failed)
    assert trace.arrival_s == pytest.approx(arrival_s, abs=1e-7)
    assert trace.input_tokens.tolist() == inputs
    assert trace.output_tokens.tolist() == outputs
    assert trace.span_s == pytest.approx(arrival_s[-1], abs=1e-7)
    assert [row.input_tokens for row in iter_trace(tmp_path / "trace.csv")] == inputs


def test_the_seventh_decimal_counts(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:15:46.680590{digit},1,1\n" for digit in (0, 3, 9)
    )
    assert read_trace(written(tmp_path, text)).arrival_s == pytest.approx([0, 3e-7, 9e-7], abs=3e-8)


def test_days_and_time_zones_are_told_apart(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-12-31 23:59:59.5,1,1\n"
        "2024-01-01T00:00:00Z,1,1\n"
        "2024-01-01 02:00:01+02:00,1,1\n"
        "2023-12-31 18:30:02-05:30,1,1\n"
    )
    assert read_trace(written(tmp_path, text)).arrival_s.tolist() == [0, 0.5, 1.5, 2.5]


def test_only_whole_seconds_have_a_resolution(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, BURSTGPT_1)).resolution_s == 1.0
    assert read_trace(written(tmp_path, BURSTGPT_3)).resolution_s == 0.0
    assert read_trace(written(tmp_path, AZURE_2023)).resolution_s == 0.0


def test_failed_requests_can_be_dropped(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, BURSTGPT_1), drop_failed=True)
    assert (len(trace), trace.failed) == (3, 1)
    assert len(read_trace(written(tmp_path, BURSTGPT_1), max_rows=2)) == 2


@pytest.mark.parametrize(
    "variant",
    [
        BURSTGPT_1.replace("\n", "\r\n"),
        "\ufeff" + BURSTGPT_1,
        BURSTGPT_1 + "\n\n",
        BURSTGPT_1.removesuffix("\n"),
        BURSTGPT_1.replace(",", " , "),
        BURSTGPT_1.replace("Conversation log", '"Conversation, logged\nin two lines"'),
    ],
    ids=["crlf", "bom", "blank lines at the end", "no last newline", "blanks", "quoted"],
)
def test_harmless_variants_are_read_all_the_same(tmp_path: Path, variant: str) -> None:
    trace = read_trace(written(tmp_path, variant))
    assert trace.arrival_s.tolist() == [0, 40, 113, 115]


def test_compressed_traces_are_read(tmp_path: Path) -> None:
    packed = written(tmp_path, gzip.compress(AZURE_2023.encode()), "azure.csv.gz")
    assert len(read_trace(packed)) == 4


def test_rows_out_of_order_are_sorted_with_their_tokens(tmp_path: Path) -> None:
    head, first, second, *_ = BURSTGPT_1.splitlines()
    trace = read_trace(written(tmp_path, "\n".join((head, second, first))))
    assert trace.arrival_s.tolist() == [-40, 0]
    assert trace.input_tokens.tolist() == [472, 1087]


AZURE_HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
GOOD = "2023-11-16 18:17:03.9799600,4808,10\n"
BURST_HEAD = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (AZURE_HEAD + GOOD + "yesterday,1,1\n", "line 3: TIMESTAMP is 'yesterday'"),
        (AZURE_HEAD + "2023-11-16 25:17:03.97,1,1\n", "line 2: TIMESTAMP"),
        (AZURE_HEAD + "2023-02-30 05:17:03.97,1,1\n", "line 2: TIMESTAMP"),
        (AZURE_HEAD + "0000-02-03 05:17:03.97,1,1\n", "line 2: TIMESTAMP"),
        (AZURE_HEAD + GOOD + GOOD + "2023-11-16 18:17:04,-5,1\n", "line 4: ContextTokens is '-5'"),
        (AZURE_HEAD + "2023-11-16 18:17:04.0,5,1.5\n", "line 2: GeneratedTokens is '1.5'"),
        (AZURE_HEAD + "2023-11-16 18:17:04.0,5,\n", "line 2: GeneratedTokens is ''"),
        (AZURE_HEAD + "2023-11-16 18:17:04.0,5,99999999999\n", "line 2: GeneratedTokens"),
        (AZURE_HEAD + GOOD + "2023-11-16 18:17:04.0,5\n", "line 3: 2 fields instead of 3"),
        (AZURE_HEAD + "2023-11-16 18:17:04.0,5,1,7\n", "line 2: 4 fields instead of 3"),
        (BURST_HEAD + "-3,GPT-4,1,1,2,API log\n", "line 2: Timestamp is '-3'"),
        (BURST_HEAD + "nan,GPT-4,1,1,2,API log\n", "line 2: Timestamp is 'nan'"),
        (BURST_HEAD + "5,GPT-4,one,1,2,API log\n", "line 2: Request tokens is 'one'"),
        ("a,b,c\n1,2,3\n", "line 1: no trace header: a,b,c"),
        (GOOD, "line 1: no trace header"),
        ("", "the trace is empty"),
        (AZURE_HEAD, "no requests"),
        (AZURE_HEAD.encode() + b"2023-11-16 18:17:04.0,\xff\xfe,1\n", "isn't text in UTF-8"),
        (AZURE_HEAD + "x" * 200_000 + ",1,1\n", "line 2: field larger than"),
    ],
)  # fmt: skip
def test_malformed_traces_are_refused_by_file_and_line(
    tmp_path: Path, text: str | bytes, complaint: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(FileError) as caught:
        read_trace(file)
    assert str(file) in str(caught.value)
    assert complaint in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_trace_of_failures_only_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="drop_failed"):
        read_trace(written(tmp_path, BURST_HEAD + "5,GPT-4,1,0,1,API log\n"), drop_failed=True)


def test_files_that_arent_there_or_are_cut_off_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        read_trace(tmp_path / "nowhere.csv")
    packed = gzip.compress((AZURE_HEAD + GOOD * 5000).encode())
    with pytest.raises(FileError, match=r"line \d+: can.t be unpacked: Compressed file ended"):
        read_trace(written(tmp_path, packed[: len(packed) // 2], "cut.csv.gz"))
    with pytest.raises(FileError, match="gzip"):
        read_trace(written(tmp_path, AZURE_HEAD, "plain.csv.gz"))


MILLION = """
import sys
from itertools import islice
from npusim.capacity.arrivals import TraceArrivals
from npusim.capacity.fleet import Fleet, Stream, simulate
from npusim.capacity.traces import iter_trace, read_trace

def peak_kib():  # of this program alone: ru_maxrss would count what the tests' process had used
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

imported_kib = peak_kib()
rows = sum(1 for _ in islice(iter_trace(sys.argv[1]), 100_000))
streamed_kib = peak_kib() - imported_kib
seen = []
trace = read_trace(sys.argv[1], progress=lambda rows, share: seen.append((rows, share)))
assert len(trace) == 1_000_000, len(trace)
assert len(seen) >= 20 and seen[-1] == (len(trace), 1.0), seen
assert seen == sorted(seen) and 0 < seen[0][1] < 0.1, seen
read_kib = peak_kib() - imported_kib
pattern = TraceArrivals.busiest(trace, len(trace))
stream = Stream("m", (0.0, *(500.0 + 100 * n for n in range(1, 9))), 1.0, 1000.0)
run = simulate(Fleet(4), (stream,), pattern, 15_000.0, requests=len(trace), seed=1)
assert len(run.latencies_us()) == 900_000
print(streamed_kib, read_kib, peak_kib())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc")
def test_a_million_rows_are_streamed_and_simulated_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "million.csv"
    with file.open("w") as out:
        out.write(AZURE_HEAD)
        for block in range(1000):
            minutes, seconds = divmod(block, 60)
            stamp = f"2023-11-16 {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
            out.writelines(f"{stamp}.{tick:03}4567,{tick + 1},{block}\n" for tick in range(1000))
    done = subprocess.run(
        [sys.executable, "-c", MILLION, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    streamed_kib, read_kib, simulated_kib = map(int, done.stdout.split())
    assert streamed_kib < 8 * 1024
    assert read_kib < 80 * 1024
    assert simulated_kib < 500 * 1024


def test_reading_keeps_no_more_than_the_columns(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, AZURE_2023))
    assert trace.arrival_s.dtype == np.float64
    assert trace.input_tokens.dtype == trace.output_tokens.dtype == np.int32
