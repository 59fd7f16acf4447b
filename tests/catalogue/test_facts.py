"""The facts that ship: they are those of the tables, have sources, and are there in no time."""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from pathlib import Path

import pytest
from build_catalogue import SAMPLE, SEED

from npusim.catalogue import facts, operators, queries
from npusim.catalogue.judging import support
from npusim.catalogue.names import aliases
from npusim.hardware.families import FAMILIES
from support.paths import DATA

FACTS = DATA / "catalogue"
CATALOGUE = facts.catalogue()
MOST_BYTES = 3_000_000


def sample(name: str) -> list[dict[str, str]]:
    """Facts drawn from the tables; the first line says how."""
    with (FACTS / name).open(encoding="utf-8", newline="") as stream:
        said = stream.readline()
        assert f"seed {SEED}" in said
        rows = list(csv.DictReader(stream))
    assert len(rows) == SAMPLE == 60
    return rows


@pytest.mark.parametrize("row", sample("pages.csv"), ids=lambda row: f"{row['api']}-{row['param']}")
def test_a_random_fact_of_a_page_is_that_of_the_tables(row: dict[str, str]) -> None:
    verdict = support(row["api"], row["product"])
    page = CATALOGUE.page(row["api"], row["product"])
    assert page is not None
    assert page.supported == row["supported"]
    assert row["source"] in verdict.sources
    found = [each for each in verdict.parameters if each.name == row["param"]]
    assert len(found) == 1
    said = found[0]
    assert ";".join(said.page or ()) == row["dtypes"]
    assert ";".join(said.checked or ()) == row["dtypes_checked"]
    assert ";".join(said.formats) == row["formats"]
    assert said.rank == row["rank"]


@pytest.mark.parametrize(
    "row", sample("operators.csv"), ids=lambda row: f"{row['op_type']}-{row['name']}"
)
def test_a_random_fact_of_the_operator_information_is_that_of_the_tables(
    row: dict[str, str],
) -> None:
    io = row["io"]
    wanted = (row["engine"], row["basis"], row["name"], row["dtype_set"])
    found = {
        (entry.engine, entry.basis, tensor.name, ";".join(tensor.dtypes))
        for entry in CATALOGUE.operators(row["op_type"], row["product"])
        for tensor in entry.tensors
        if tensor.io == io
    }
    assert wanted in found
    stored = CATALOGUE.table("operator_tensors").records(
        row["op_type"], product=row["product"], io=io, name=row["name"]
    )
    assert row["dtypes_aligned"] in {record["dtypes_aligned"] for record in stored}


# Counted once over the tables themselves, when they were made.
COUNTS = {
    "910": (467, 68, 13, 826, 1),
    "A2": (972, 860, 860, 1091, 594),
    "310P": (393, 90, 17, 842, 1),
    "A3": (950, 856, 856, 1069, 538),
    "310B": (44, 11, 2, 695, 13),
    "950": (952, 863, 863, None, None),
}


def test_the_counts_are_those_of_the_tables() -> None:
    found = {
        row.family: (
            row.apis_by_page,
            row.bf16_by_page,
            row.bf16_checked,
            row.operators,
            row.operators_bf16,
        )
        for row in queries.summary()
    }
    assert found == COUNTS
    assert len(CATALOGUE.paged_apis) == 1126


def test_every_source_names_a_repository_and_a_commit_that_is_listed() -> None:
    commits = {(source.id, source.commit[:8]) for source in CATALOGUE.sources}
    for table in ("pages", "other_pages", "operator_definitions", "called_operators", "bf16_gates"):
        for source in CATALOGUE.table(table).distinct("source"):
            repository, _, rest = source.partition(":")
            assert (repository, rest.rpartition("@")[2]) in commits, source
    for family in FAMILIES:
        for entry in CATALOGUE.operators("Add", family):
            repository, _, rest = entry.source.partition(":")
            assert (repository, rest.rpartition("@")[2]) in commits, entry.source


def test_aliases_lead_to_names_of_the_catalogue_and_have_sources() -> None:
    known = aliases()
    for kind in ("optype", "torch"):
        for name, apis in known[kind].items():
            assert set(apis) <= CATALOGUE.paged_apis, name
    assert all(known["torch"].values())
    unknown = {
        op_type
        for op_types in known["onnx"].values()
        for op_type in op_types
        if not CATALOGUE.operator_named(op_type.lower()) and op_type.lower() not in known["graph"]
    }
    assert len(unknown) < 30  # operators that graph fusion replaces, or newer than the tables
    text = Path(facts.__file__).with_name("aliases.csv").read_text(encoding="utf-8")
    assert all(row["source"] for row in csv.DictReader(text.splitlines()))


def test_bfloat16_is_rare_where_the_chip_has_none() -> None:
    rare = {family: operators.census(CATALOGUE, family).is_rare("BFLOAT16") for family in FAMILIES}
    assert rare == {"910": True, "310P": True, "310B": True, "A2": False, "A3": False, "950": False}
    assert not operators.census(CATALOGUE, "910").is_rare("FLOAT16")


def test_the_file_is_small_and_opens_faster_than_numpy_imports() -> None:
    assert facts.DATA_FILE.stat().st_size < MOST_BYTES
    first = min(first_question_seconds() for _ in range(5))
    code = "import time; t = time.process_time(); import numpy; print(time.process_time() - t)"
    numpy = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    )
    assert first < numpy, (
        f"first question {first * 1e3:.0f} ms, importing NumPy {numpy * 1e3:.0f} ms"
    )


def first_question_seconds() -> float:
    """Processor time from nothing loaded to the first answered question."""
    start = time.process_time()
    fresh = facts.Catalogue()
    assert fresh.page("aclnnAdd", "A2")
    assert fresh.api_named("aclnnadd") == "aclnnAdd"
    return time.process_time() - start


def test_nothing_is_unpacked_before_it_is_asked_for() -> None:
    fresh = facts.Catalogue()
    assert "_unpacked" not in vars(fresh.table("pages"))
    fresh.page("aclnnAdd", "A2")
    assert "_unpacked" in vars(fresh.table("pages"))
    assert "_unpacked" not in vars(fresh.table("prototypes"))
