"""The list of mutations still fits what it mutates (benchmarks/mutations.py runs them)."""

from __future__ import annotations

import ast

import pytest
from mutations import ROOT, Mutation, mutations

MUTATIONS = mutations()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.what)
def test_a_mutation_has_one_place_and_a_test_that_kills_it(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.file} has other places for {mutation.old!r}"
    assert ast.dump(ast.parse(text)) != ast.dump(
        ast.parse(text.replace(mutation.old, mutation.new))
    )
    for name in mutation.tests.split():
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), f"{name} is gone"


def test_no_mutation_is_listed_twice() -> None:
    assert len({each.what for each in MUTATIONS}) == len(MUTATIONS)
    assert len({(each.file, each.old, each.new) for each in MUTATIONS}) == len(MUTATIONS)


def test_every_family_of_operators_has_a_mutation() -> None:
    families = {path.parent.name for path in (ROOT / "ops").glob("*/definitions.py")}
    assert len(families) > 15
    mutated = {each.file.split("/")[1] for each in MUTATIONS if each.file.startswith("ops/")}
    tested = {
        name for name in families for each in MUTATIONS if f"tests/ops/test_{name}." in each.tests
    }
    assert families <= mutated | tested
