"""The catalogue's file: what goes in comes out, and nothing but an intact file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.catalogue import facts, store
from npusim.values.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("name", "dtype", "source")
ROWS = [
    ("Add", "FLOAT", "page@1"),
    ("Add", "FLOAT16", "page@1"),
    ("Mul", "FLOAT", ""),
    ("Bäder", "INT8", "Atlas 推理系列产品"),
]
texts = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs",)), max_size=8)
tables = st.lists(st.tuples(texts, texts, texts), max_size=20)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "catalogue.bin"
    path.write_bytes(store.pack({"facts": (COLUMNS, ROWS)}))
    return path


@given(rows=tables)
def test_rows_come_back_sorted_and_complete(
    rows: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store") / "file"
    path.write_bytes(store.pack({"facts": (COLUMNS, rows)}))
    table = store.read(path)["facts"]
    assert [table.row(number) for number in range(len(table))] == sorted(rows)
    assert table.keys == sorted({row[0] for row in rows})
    for key in table.keys:
        wanted = sorted(row for row in rows if row[0] == key)
        assert [tuple(record.values()) for record in table.records(key)] == wanted


def test_the_order_of_rows_and_tables_changes_no_byte() -> None:
    one = {"a": (COLUMNS, ROWS), "b": (COLUMNS, ROWS[:1])}
    other = {"b": (COLUMNS, ROWS[:1]), "a": (COLUMNS, ROWS[::-1])}
    assert store.pack(one) == store.pack(other)


def test_rows_are_found_by_key_and_by_other_columns(file: Path) -> None:
    table = store.read(file)["facts"]
    assert list(table.rows_of("Div")) == []
    assert [row["dtype"] for row in table.records("Add")] == ["FLOAT", "FLOAT16"]
    assert [row["dtype"] for row in table.records("Add", dtype="FLOAT16")] == ["FLOAT16"]
    assert table.records("Add", dtype="INT8") == table.records("Add", dtype="BOOL") == []
    assert table.text(table.rows_of("Mul")[0], "dtype") == "FLOAT"
    assert ("Add", "page@1") in table.distinct_rows("name", "source")
    assert table.distinct("dtype") == ["FLOAT", "FLOAT16", "INT8"]


@pytest.mark.parametrize("position", [0.0, 0.02, 0.3, 0.5, 0.9, 0.999])
def test_one_flipped_bit_anywhere_is_noticed(file: Path, position: float) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * position)] ^= 4
    file.write_bytes(data)
    with pytest.raises(FileError):
        store.read(file)


def test_every_flipped_byte_of_the_body_is_called_damage(file: Path) -> None:
    intact = file.read_bytes()
    start = intact.index(b"\n") + 1
    for at in range(start, len(intact)):
        file.write_bytes(intact[:at] + bytes([intact[at] ^ 1]) + intact[at + 1 :])
        with pytest.raises(FileError, match="is damaged: its checksum"):
            store.read(file)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not an operator catalogue"),
        (b"operator,dtype\nAdd,FLOAT\n", "is not an operator catalogue"),
        (b"npusim catalogue 999\n00\n{}", "format 999; this npusim reads format 1"),
        (b"npusim catalogue 1\n", "is damaged"),
    ],
)
def test_other_files_are_refused_with_their_name_and_a_remedy(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "catalogue.bin"
    path.write_bytes(content)
    with pytest.raises(FileError) as error:
        store.read(path)
    assert problem in error.value.message
    assert str(path) in error.value.message
    assert "reports/build_catalogue.py" in error.value.remedy
    assert error.value.exit_code == 2


def test_a_missing_file_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        facts.Catalogue(tmp_path / "nothing.bin")


def test_what_the_format_cannot_hold_is_not_written() -> None:
    with pytest.raises(ValueError, match="control character"):
        store.pack({"facts": (("name",), [("a\x1fb",)])})
    with pytest.raises(ValueError, match="70000 distinct"):
        store.pack({"facts": (("name",), [(str(n),) for n in range(70_000)])})
