"""Writing the catalogue: from small tables of the same form, twice the same, and checked."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING

import build_catalogue as build
import pytest

from npusim.catalogue import facts

if TYPE_CHECKING:
    from pathlib import Path

SUPPORT = {
    "api": "aclnnMyOp",
    "product": "A2",
    "supported": "yes",
    "param": "self",
    "pos": "0",
    "io": "in",
    "c_type": "aclTensor*",
    "dtypes": "FLOAT;BFLOAT16",
    "dtypes_checked": "FLOAT",
    "formats": "ND",
    "rank": "1-8",
    "op_types": "MyOp",
    "in_8_1": "1",
    "primary": "1",
    "release": "master",
    "source": "ops-math:docs/aclnnMyOp.md@12345678",
}
OPERATOR = {
    "op_type": "MyOp",
    "soc": "ascend910b",
    "product": "A2",
    "engine": "aicore",
    "io": "input",
    "index": "0",
    "name": "x",
    "dtype_set": "FLOAT;FLOAT16",
    "basis": "explicit",
}
ROWS = {
    "aclnn_support.csv": [SUPPORT],
    "op_info.csv.gz": [OPERATOR] * 60,
    "op_list.csv": [OPERATOR],
    "aclnn_op_map.csv": [{"apis": "aclnnMyOp;aclnnOther", "op_function": "MyOp", "role": "main"}],
    "sources.csv": [{"id": "cann-8.1", "repository": "r", "ref": "HEAD", "commit": "551ed27c2828"}],
}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with every table that the script reads; most of them empty."""
    folder = tmp_path / "tables"
    folder.mkdir()
    for layout in build.LAYOUTS.values():
        columns = [layout.explode or "", *layout.names, "release", "dtypes"]
        names = [name for name in dict.fromkeys(columns) if name]
        opener = gzip.open if layout.file.endswith(".gz") else open
        with opener(folder / layout.file, "wt", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, names, extrasaction="ignore", restval="")
            writer.writeheader()
            writer.writerows(ROWS.get(layout.file, []))
    return folder


def test_what_the_tables_say_is_what_the_catalogue_says(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "catalogue.bin"
    assert build.main([str(tables), "-o", str(file)]) == 0
    made = facts.Catalogue(file)
    page = made.page("aclnnMyOp", "A2")
    assert page is not None
    assert page.parameters[0].dtypes == ("FLOAT", "BFLOAT16")
    assert page.parameters[0].checked == ("FLOAT",)
    (operator,) = made.operators("MyOp", "A2")
    assert operator.source == "cann-8.1:aicore operator information of ascend910b@551ed27c"
    assert made.op_types_of("aclnnOther") == ("MyOp",)  # a row for each of several APIs
    assert made.api_named("aclnnmyop") == "aclnnMyOp"
    assert made.table("census").records("A2", dtype="FLOAT16")[0]["taking"] == "1"


def test_the_same_tables_give_the_same_bytes(tables: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for file in (one, other):
        assert build.main([str(tables), "-o", str(file)]) == 0
    assert one.read_bytes() == other.read_bytes()


def test_check_notices_a_file_that_isnt_that_of_the_tables(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "catalogue.bin"
    assert build.main([str(tables), "-o", str(file)]) == 0
    assert build.main([str(tables), "-o", str(file), "--check"]) == 0
    support = tables / "aclnn_support.csv"
    support.write_text(support.read_text().replace("FLOAT;BFLOAT16", "FLOAT;INT8"))
    capsys.readouterr()
    assert build.main([str(tables), "-o", str(file), "--check"]) == 2
    assert "table pages differs from the tables" in capsys.readouterr().err


def test_a_folder_without_the_tables_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main([str(tmp_path), "-o", str(tmp_path / "catalogue.bin")]) == 2
    assert "aclnn_support.csv: can't be read" in capsys.readouterr().err


def test_samples_are_drawn_with_the_recorded_seed(tables: Path, tmp_path: Path) -> None:
    file = tmp_path / "catalogue.bin"
    support = tables / "aclnn_support.csv"
    head, row = support.read_text().splitlines()
    many = [row.replace("self", f"x{number}") for number in range(100)]
    support.write_text("\n".join([head, *many]) + "\n")
    drawn = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        assert build.main([str(tables), "-o", str(file), "--samples", str(folder)]) == 0
        drawn.append((folder / "pages.csv").read_text())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(f"# 60 of 100 rows, drawn with seed {build.SEED}\n")
    assert len(drawn[0].splitlines()) == 62
