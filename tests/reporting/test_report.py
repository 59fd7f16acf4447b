"""Spelling of numbers, comparison with references, JSON, arrays and files."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.reporting.against import against, estimates_of, read_estimates
from npusim.reporting.arrays import DTYPES_ENTRY, read_npy, read_npz, write_npz
from npusim.reporting.compare import compare
from npusim.reporting.document import Page, Table
from npusim.reporting.files import atomic_write, claim
from npusim.reporting.renderers import jsonout
from npusim.reporting.renderers.html import to_html, to_markdown
from npusim.reporting.spelling import count, error_size, latency, percent, significant, size
from npusim.values.errors import ArgumentError, FileError, OutputExistsError

BF16 = ml_dtypes.bfloat16


# -- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.0, "1.00"),
        (0.012345, "0.0123"),
        (1234.5, "1,230"),
        (999.6, "1,000"),
        (9.996, "10.0"),
        (-12.34, "-12.3"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_three_digits_are_enough(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_rounding_never_moves_a_number_by_more_than_its_last_digit(value: float) -> None:
    spelled = float(significant(value).replace(",", ""))
    assert abs(spelled - value) <= 0.0051 * value


def test_a_latency_shows_its_band() -> None:
    assert latency(123.4, (105.2, 150.0)) == "123 us (105..150)"
    assert latency(1.5) == "1.50 us"


@pytest.mark.parametrize(
    ("spelled", "text"),
    [
        (count(1234567), "1,234,567"),
        (percent(0.834), "83 %"),
        (percent(0.0012), "0.12 %"),
        (percent(0.0), "0 %"),
        (percent(12.5), "1,250 %"),
        (percent(math.inf), "inf"),
        (size(512), "512 B"),
        (size(3 * 2**20), "3.00 MiB"),
        (error_size(1.23e-7), "1.2e-07"),
        (error_size(0.0), "0"),
    ],
)
def test_units_are_spelled_out(spelled: str, text: str) -> None:
    assert spelled == text


# -- comparison --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "want", "passed"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0 + 2.9e-4], [1.0, 2.0], True),
        ([1.0, 2.0 + 3.1e-4], [1.0, 2.0], False),
        ([math.nan], [math.nan], True),
        ([math.inf], [math.inf], True),
        ([-math.inf], [math.inf], False),
        ([1.0], [math.nan], False),
        ([math.nan], [1.0], False),
        ([math.inf], [1.0], False),
        ([], [], True),
    ],
)
def test_comparison_passes_and_fails(got: list[float], want: list[float], passed: bool) -> None:
    outcome = compare("x", np.array(got), np.array(want), rtol=1e-4, atol=1e-4)
    assert outcome.passed is passed


def test_comparison_measures_the_worst_element() -> None:
    outcome = compare("x", np.array([1.5, 2.0, -4.0]), np.array([1.0, 2.0, -3.0]), rtol=0.5, atol=0)
    assert outcome.max_error == 1.0
    assert outcome.share == pytest.approx(1.0)


def test_zero_tolerance_wants_equality() -> None:
    assert compare("x", np.zeros(2), np.zeros(2), rtol=0, atol=0).passed
    assert not compare("x", np.array([0, 1e-300]), np.zeros(2), rtol=0, atol=0).passed


def test_a_missing_or_misshapen_output_fails() -> None:
    assert compare("x", None, np.zeros(2), rtol=1, atol=1).problem == "missing from the result"
    assert not compare("x", np.zeros((2, 1)), np.zeros(2), rtol=1, atol=1).passed


def test_bfloat16_is_compared_exactly() -> None:
    ones = np.ones(3, BF16)
    assert compare("x", ones, ones, rtol=0, atol=0).passed


# -- JSON --------------------------------------------------------------------------------------


def test_json_has_no_nan_and_keeps_its_order() -> None:
    value = {"b": math.nan, "a": [np.float32(0.5), -math.inf, np.int64(3), (True, None)]}
    text = jsonout.dumps(value)
    assert json.loads(text) == {"b": "nan", "a": [0.5, "-inf", 3, [True, None]]}
    assert text.index('"b"') < text.index('"a"')


def test_arrays_in_json_are_spelled_like_case_files() -> None:
    described = jsonout.array(np.array([[1.5, math.nan]], BF16))
    assert described == {"dtype": "bfloat16", "shape": [1, 2], "data": [1.5, "nan"]}


def test_a_large_array_gives_its_extent_only() -> None:
    described = jsonout.array(np.zeros(jsonout.MAX_ELEMENTS + 1))
    assert described["data"] is None
    assert "-o" in described["note"]


# -- arrays ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.array(3.5, dtype=np.float32),
        np.array([], dtype=np.int64),
        np.array([True, False]),
        np.array([[1.5, -2.0], [math.inf, math.nan]], BF16),
        np.array(1.5, BF16),
        np.array([1.0, 2.0], ml_dtypes.float8_e4m3fn),
        np.arange(12, dtype=np.float32).astype(BF16).reshape(3, 4)[:, ::2],
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_back_as_they_went(array: Any, tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"x": array})
    back = read_npz(tmp_path / "a.npz")["x"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


def test_plain_archives_stay_plain(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"x": np.zeros(2)})
    with np.load(tmp_path / "a.npz") as archive:
        assert archive.files == ["x"]


def test_the_stored_form_is_documented(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"x": np.ones(1, BF16), "y": np.zeros(1)})
    with np.load(tmp_path / "a.npz") as archive:
        assert archive["x"].dtype == np.uint16
        assert json.loads(str(archive[DTYPES_ENTRY])) == {"x": "bfloat16"}


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_npz(tmp_path / name, {"x": np.ones(3, BF16)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_bfloat16_that_numpy_forgot_is_recognised(tmp_path: Path) -> None:
    ones = np.ones(3, BF16)
    np.save(tmp_path / "x.npy", ones)
    np.savez(tmp_path / "x.npz", x=ones)
    assert read_npy(tmp_path / "x.npy").dtype == BF16
    assert read_npz(tmp_path / "x.npz")["x"].dtype == BF16


def spoil(path: Path) -> None:
    """Flip bytes in the middle of the stored data, which only its checksum can tell."""
    content = bytearray(path.read_bytes())
    middle = content.find(b"\x00" * 64) + 32
    content[middle : middle + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_npz(path, {"x": np.zeros(1000)})
    whole = path.read_bytes()
    spoil(path)
    with pytest.raises(FileError, match="is damaged"):
        read_npz(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match="not a readable"):
        read_npz(path)
    path.write_bytes(b"")
    with pytest.raises(FileError, match="not a readable"):
        read_npz(path)


@pytest.mark.parametrize(
    ("names", "message"),
    [("not json", "is not JSON"), ("[1]", "not a JSON object"), ('{"x": "float12"}', "float12")],
)
def test_a_wrong_dtypes_entry_is_refused(names: str, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(2, np.uint16), **{DTYPES_ENTRY: np.array(names)})
    with pytest.raises(FileError, match=message):
        read_npz(tmp_path / "a.npz")


def test_a_type_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    entry = np.array(json.dumps({"x": "bfloat16"}))
    np.savez(tmp_path / "a.npz", x=np.zeros(2, np.uint8), **{DTYPES_ENTRY: entry})
    with pytest.raises(FileError, match="can't hold"):
        read_npz(tmp_path / "a.npz")


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(FileError, match="not a readable"):
        read_npy(tmp_path / "x.npy")


def test_one_array_and_many_are_told_apart(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2))
    np.savez(tmp_path / "x.npz", x=np.zeros(2))
    with pytest.raises(FileError, match="one array without a name"):
        read_npz(tmp_path / "x.npy")
    with pytest.raises(FileError, match="several arrays"):
        read_npy(tmp_path / "x.npz")
    with pytest.raises(FileError, match="there is no such file"):
        read_npy(tmp_path / "y.npy")
    with pytest.raises(FileError, match="is a folder"):
        read_npy(tmp_path)


# -- files -------------------------------------------------------------------------------------


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_write(path) as stream:
        stream.write(b"half")
        assert not path.exists()
        stream.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def break_off() -> None:
        with atomic_write(path, force=True) as stream:
            stream.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with atomic_write(tmp_path / "ours") as stream:
        stream.write(b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link", force=True) as stream:
        stream.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_paths_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "missing" / "a", "doesn't exist"),
        (tmp_path / "file" / "a", "is not a folder"),
    ):
        with pytest.raises(FileError, match=message):
            claim(path)
    with pytest.raises(OutputExistsError, match="--force"):
        claim(tmp_path / "file")
    assert claim(tmp_path / "file", force=True) == tmp_path / "file"


def test_a_full_disk_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileError, match="No space left"), atomic_write(tmp_path / "a") as stream:
        stream.write(b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path(os.devnull).exists(), reason="no null device")
def test_the_null_device_is_written_to_and_not_replaced() -> None:
    with atomic_write(os.devnull) as stream:
        stream.write(b"x")
    assert not Path(os.devnull).is_file()


# -- against what was estimated before ---------------------------------------------------------


def told(*tasks: tuple[str, float, float], soc: str = "A", **more: Any) -> dict[str, Any]:
    """What `estimate --json` prints: names, times and busy shares of VECTOR; launches are 10 us."""
    total = sum(time for _, time, _ in tasks)
    made = [
        {"name": name, "duration_us": time, "launch_us": 10, "pipes": {"VECTOR": busy}}
        for name, time, busy in tasks
    ]
    band = [0.8 * total, 1.25 * total]
    answer = {"soc": soc, "duration_us": total, "band_us": band, "tasks": made}
    return {"op": "Add", "arguments": {}, "answers": [answer]} | more


def step(**operators: float) -> dict[str, Any]:
    """What `model --json` prints."""
    found = [{"op": op, "tensors": "", "total_us": time} for op, time in operators.items()]
    total = sum(operators.values())
    answer = {"soc": "A", "duration_us": total, "band_us": [total, total], "operators": found}
    return {"answers": [answer]}


@pytest.mark.parametrize(
    ("before", "now", "sentence", "row"),
    [
        (
            told(("Add", 310.0, 0.9)),
            told(("Add", 210.0, 0.75)),
            "1.5 times as fast on A: the vector pipe works 120 us less.",
            ["-32 %", "yes"],
        ),
        (
            told(("Add", 100.0, 0.5)),
            told(("Add", 120.0, 0.6)),
            "1.2 times as long on A: the vector pipe works 21.0 us more.",
            ["+20 %", "no"],
        ),
        (
            told(("Add", 110.0, 0.5)),
            told(("Add", 90.0, 0.9)),
            "1.2 times as fast on A: launches and waits changed, not the work of pipes.",
            ["-18 %", "no"],
        ),
        (
            told(("Cast", 50.0, 0.1), ("Cast", 50.0, 0.1)),
            told(("Cast", 50.0, 0.1)),
            "2.0 times as fast on A: there is no longer Cast (2) with its 50.0 us.",
            ["-50 %", "yes"],
        ),
        (
            told(("Add", 50.0, 0.1)),
            told(("Add", 50.1, 0.1)),
            "as fast as before on A.",
            ["+0.20 %"],
        ),
        (
            step(MatMulV2=50.0, Add=9.0),
            step(MatMulV2=90.0, Add=9.0),
            "1.7 times as long on A: MatMulV2 takes 40.0 us more.",
            ["+68 %", "yes"],
        ),
    ],
)
def test_a_page_says_what_changed_since(
    before: dict[str, Any], now: dict[str, Any], sentence: str, row: list[str]
) -> None:
    page = against(Page("Add"), estimates_of(before, "old.json"), now)
    assert [each.text for each in page.verdicts] == [f"Against old.json: {sentence}"]
    (section,) = page.sections
    totals = next(block for block in section.blocks if isinstance(block, Table))
    assert list(totals.rows[0][3:])[: len(row)] == row
    apart = "yes" in row
    assert page.verdicts[0].tone == (
        "open" if not apart else "good" if "fast" in sentence else "bad"
    )
    for rendered in (to_html(page), to_markdown(page)):
        assert "Against old.json" in rendered
        assert totals.rows[0][1] in rendered


def test_a_page_says_what_else_differs() -> None:
    old = estimates_of(told(("Add", 50.0, 0.1), arguments={"x": 1}), "old.json")
    other = {"soc": "B", "duration_us": 1.0}
    now = told(("Add", 50.0, 0.1), op="Mul")
    now["answers"].append(other)
    text = to_markdown(against(Page("Mul"), old, now))
    assert "old.json is of Add, the page is of Mul." in text
    assert "Other arguments than before: x." in text
    assert "With a time only now: B." in text
    refused = to_markdown(against(Page("Add"), old, {"answers": [{"soc": "A"}]}))
    assert "With a time only in old.json: A." in refused
    with pytest.raises(ArgumentError, match=r"old.json has times of A, the page has of B"):
        against(Page("Add"), old, {"answers": [other]})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ("[1]", "isn't what estimate or model print"),
        ("{}", "answers: Field required"),
        ('{"answers": []}', "answers: "),
        ('{"answers": [{"soc": "A", "duration_us": -1}]}', r"answers.0.duration_us: "),
        ('{"answers": [{"soc": "A", "duration_us": "nan"}]}', r"answers.0.duration_us: "),
        ('{"answers": [{"soc": "A", "tasks": [{}]}]}', "name: Field required"),
        ('{"answers": [{"soc": "A", "ok": false}]}', "all of its answers are refusals"),
        (json.dumps(step(Add=1.0)), "is of a model, and the page is of a call"),
    ],
)
def test_files_of_something_else_are_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(text)
    with pytest.raises(FileError, match=problem):
        read_estimates(tmp_path / "old.json", of_model=False)
