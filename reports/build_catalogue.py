"""Writes the catalogue file from CSV tables: `python reports/build_catalogue.py TABLES_DIR`.

The tables are CSV files (gzipped where the name ends in ``.gz``), extracted from public
repositories and not part of this one. What each holds, one row each:

* ``aclnn_support.csv``: API x product x parameter, as the current operator pages state it, with
  ``dtypes_checked`` (without BFLOAT16 where host code or operator information contradicts);
* ``aclnn_support_other.csv.gz``: the same from the 8.5 branches and older pages;
* ``seed_rows.csv``: the same from the CANN 8.0 reference pages of the five simulated operators;
* ``aclnn_signatures.csv``: the C parameters of an API; ``aclnn_op_map.csv``: the operators that its
  host code calls; ``aclnn_bf16_gate.csv``, ``aclnn_code_dtype_lists.csv.gz`` and
  ``l0_code_dtype_lists.csv.gz``: dtype lists in host code; ``aclnn_dtype_combos.csv.gz``: the
  combinations that a page tabulates;
* ``op_list.csv``, ``op_info.csv.gz``, ``op_proto.csv.gz``: the operator information and prototypes
  of CANN 8.1.RC1; ``op_def.csv.gz``: the operator definitions of 2026;
* ``sources.csv``: repository and commit behind each ``id:path@commit`` source.

The same tables give the same bytes. Before it ends, the script reads the file back and compares
every row.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.catalogue import facts, store
from npusim.values.errors import FileError, NpusimError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_Rows = tuple[list[str], list[tuple[str, ...]]]  # columns, rows
SEED = 20260823
SAMPLE = 60
_REFERENCE = "reference-8.0"


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns of which file make up a table; the first column is the key.

    `explode` names a column with several `;`-separated keys: the row is stored once for each.
    """

    file: str
    columns: str
    explode: str = ""
    change: Callable[[dict[str, str]], dict[str, str]] | None = None

    @property
    def names(self) -> list[str]:
        """The columns of the table."""
        return self.columns.split()


def _reference_page(row: dict[str, str]) -> dict[str, str]:
    """The reference pages have no repository; the operator's name says which page it is."""
    return {**row, "release": _REFERENCE, "source": f"{_REFERENCE}:{row['api']}"}


_PAGE = (
    "api product supported param pos io c_type dtypes {checked} formats rank non_contiguous "
    "optional dtype_basis flags {more} release source"
)
_OPERATOR_TENSOR = (
    "op_type soc product {engine} io index name param_type dtypes_aligned dtype_set "
    "formats_aligned basis {more}"
)
LAYOUTS = {
    "pages": _Layout(
        "aclnn_support.csv",
        _PAGE.format(checked="dtypes_checked", more="check op_types in_8_1 primary"),
    ),
    "other_pages": _Layout("aclnn_support_other.csv.gz", _PAGE.format(checked="", more="")),
    "reference_pages": _Layout(
        "seed_rows.csv",
        "api product supported param pos io c_type dtypes formats rank non_contiguous dtype_basis "
        "release source",
        change=_reference_page,
    ),
    "prototypes": _Layout("aclnn_signatures.csv", "api variant pos c_type name io sources file"),
    "called_operators": _Layout("aclnn_op_map.csv", "apis op_function role source", "apis"),
    "bf16_gates": _Layout("aclnn_bf16_gate.csv", "api bf16_gate list_hints tests source"),
    "code_dtypes": _Layout(
        "aclnn_code_dtype_lists.csv.gz", "apis list_name product_hint dtypes source", "apis"
    ),
    "kernel_code_dtypes": _Layout(
        "l0_code_dtype_lists.csv.gz",
        "op_types list_name engine_hint product_hint dtypes source",
        "op_types",
    ),
    "combinations": _Layout(
        "aclnn_dtype_combos.csv.gz", "apis products table row combination release source", "apis"
    ),
    "operators": _Layout("op_list.csv", "op_type soc product engine core_type flags"),
    "operator_tensors": _Layout(
        "op_info.csv.gz", _OPERATOR_TENSOR.format(engine="engine", more="")
    ),
    "operator_definitions": _Layout(
        "op_def.csv.gz", _OPERATOR_TENSOR.format(engine="", more="note source")
    ),
    "operator_prototypes": _Layout(
        "op_proto.csv.gz", "op_type io index name param_type dtype_superset"
    ),
    "sources": _Layout("sources.csv", "id repository ref commit commit_date what_was_read"),
}


def read_tables(folder: Path) -> dict[str, _Rows]:
    """Every table of the catalogue from the CSV files in `folder`."""
    tables = {name: (layout.names, list(_rows(folder, layout))) for name, layout in LAYOUTS.items()}
    what = "reference pages of the five simulated operators, CANN 8.0"
    tables["sources"][1].append((_REFERENCE, "operator documentation", "8.0", "", "", what))
    tables["census"] = (["product", "dtype", "taking"], list(_census(tables)))
    tables["api_names"] = (["folded", "name"], _folded(tables, facts.API_TABLES))
    tables["operator_names"] = (["folded", "name"], _folded(tables, facts.OPERATOR_TABLES))
    return tables


def _folded(tables: Mapping[str, _Rows], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Every key of some tables by its lower-case spelling, so that a name is found without them.

    Where two keys differ in case only, the first of the alphabet is found.
    """
    found: dict[str, str] = {}
    for name in sorted({row[0] for table in keys for row in tables[table][1]}):
        found.setdefault(name.lower(), name)
    return list(found.items())


def _census(tables: Mapping[str, _Rows]) -> Iterator[tuple[str, ...]]:
    """How many AI Core operators of each family take each dtype; the empty dtype counts them all.

    Derived here, because counting takes ten times as long as a whole check. CANN 8.1 has no
    information on Ascend 950: there the definitions count.
    """
    taking: dict[str, dict[str, set[str]]] = {}
    for table in ("operator_tensors", "operator_definitions"):
        columns, rows = tables[table]
        for row in (dict(zip(columns, values, strict=True)) for values in rows):
            if row.get("engine", "aicore") != "aicore":
                continue
            if table == "operator_definitions" and row["product"] != "950":
                continue
            for dtype in {"", *row["dtype_set"].split(";")}:
                taking.setdefault(row["product"], {}).setdefault(dtype, set()).add(row["op_type"])
    for family, dtypes in taking.items():
        for dtype, op_types in dtypes.items():
            yield family, dtype, str(len(op_types))


def _rows(folder: Path, layout: _Layout) -> Iterator[tuple[str, ...]]:
    for row in _csv(folder / layout.file):
        changed = layout.change(row) if layout.change else row
        keys = changed[layout.explode].split(";") if layout.explode else [""]
        for key in keys:
            record = {**changed, layout.explode: key} if layout.explode else changed
            yield tuple(record[name] for name in layout.names)


def _csv(path: Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as stream:
            yield from csv.DictReader(stream)
    except OSError as error:
        raise FileError(path, f"can't be read ({error.strerror or error})") from None


def verify(folder: Path, path: Path) -> int:
    """Compare every row of the file with the tables; the number of rows, or FileError."""
    kept = store.read(path)
    total = 0
    for name, (_, rows) in read_tables(folder).items():
        mine = Counter(kept[name].row(number) for number in range(len(kept[name])))
        if mine != Counter(rows):
            raise FileError(path, f"table {name} differs from the tables in {folder}")
        total += len(rows)
    _verify_typed(folder, facts.Catalogue(path))
    return total


def _verify_typed(folder: Path, catalogue: facts.Catalogue) -> None:
    """The typed facts as well: what `Catalogue.page` gives is what the support table says."""
    for row in _csv(folder / "aclnn_support.csv"):
        if row["primary"] != "1":
            continue
        page = catalogue.page(row["api"], row["product"])
        named = [each for each in page.parameters if each.name == row["param"]] if page else []
        wanted = (row["supported"], row["dtypes"], row["dtypes_checked"]) if row["param"] else None
        found = {
            (page.supported, ";".join(each.dtypes), ";".join(each.checked))
            for each in named
            if page
        }
        if page is None or (wanted and wanted not in found):
            raise FileError(catalogue.path, f"{row['api']}, {row['product']}: reads otherwise")


def write_samples(folder: Path, target: Path) -> None:
    """Draw facts with `SEED` straight from the CSV files, for tests that can't see the tables."""
    pages = [row for row in _csv(folder / "aclnn_support.csv") if row["primary"] == "1"]
    columns = "api product param supported dtypes dtypes_checked formats rank source"
    _write_sample(target / "pages.csv", [row for row in pages if row["param"]], columns)
    operators = [row for row in _csv(folder / "op_info.csv.gz") if row["dtype_set"]]
    columns = "op_type product engine io name dtype_set dtypes_aligned basis"
    _write_sample(target / "operators.csv", operators, columns)


def _write_sample(path: Path, rows: Sequence[dict[str, str]], columns: str) -> None:
    chosen = random.Random(SEED).sample(rows, SAMPLE)  # noqa: S311 - a reproducible draw, no secret
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(f"# {SAMPLE} of {len(rows)} rows, drawn with seed {SEED}\n")
        writer = csv.DictWriter(stream, columns.split(), extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(chosen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write and verify the file; say what is in it."""
    parser = argparse.ArgumentParser(prog="python reports/build_catalogue.py", description=__doc__)
    parser.add_argument("tables", type=Path, metavar="TABLES_DIR")
    parser.add_argument("-o", "--output", type=Path, default=facts.DATA_FILE)
    parser.add_argument("--samples", type=Path, metavar="DIR", help="also write the tests' samples")
    parser.add_argument("--check", action="store_true", help="only compare with the tables")
    chosen = parser.parse_args(arguments)
    try:
        if not chosen.check:
            chosen.output.write_bytes(store.pack(read_tables(chosen.tables)))
        total = verify(chosen.tables, chosen.output)
        if chosen.samples:
            write_samples(chosen.tables, chosen.samples)
    except NpusimError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    size_kib = chosen.output.stat().st_size / 1024
    sys.stderr.write(f"{chosen.output}: {total:,} rows as in the tables, {size_kib:,.0f} KiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
