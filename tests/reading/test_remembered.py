"""What was read from data files is kept between runs, and never outlives what it was made from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from npusim.hardware import loading, naming
from npusim.reading import kept
from npusim.reading.kept import remembered
from npusim.values.errors import ProfileError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    place = tmp_path / "cache"
    monkeypatch.setenv(kept.VARIABLE, str(place))
    return place


def counted(value: object) -> tuple[Callable[[], dict[str, object]], list[int]]:
    """Something that makes a dictionary, and how often it was asked to."""
    calls: list[int] = []

    def make() -> dict[str, object]:
        calls.append(1)
        return {"value": value}

    return make, calls


def fresh(source: Path | str) -> loading.Profile:
    """A profile as another process loads it."""
    loading._profile_of.cache_clear()
    naming._known.cache_clear()
    return naming.load_profile(source)


def test_the_same_texts_are_read_once() -> None:
    make, calls = counted(1)
    assert remembered("thing", ["a", "b"], dict, make) == {"value": 1}
    assert remembered("thing", ["a", "b"], dict, make) == {"value": 1}
    assert len(calls) == 1


@pytest.mark.parametrize("texts", [["a"], ["ab"], ["b", "a"], ["a", "b", ""], ["a", "c"]])
def test_other_texts_are_read_anew(texts: list[str]) -> None:
    remembered("thing", ["a", "b"], dict, counted(1)[0])
    make, calls = counted(2)
    assert remembered("thing", texts, dict, make) == {"value": 2}
    assert calls


def test_other_code_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered("thing", ["a"], dict, counted(1)[0])
    monkeypatch.setattr(kept, "_code", lambda: b"another version")
    assert remembered("thing", ["a"], dict, counted(2)[0]) == {"value": 2}


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:0],
        lambda content: content[:-3],
        lambda content: content[:70] + b"?" + content[71:],
        lambda content: b"x" * len(content),
    ],
    ids=["empty", "cut off", "a wrong byte", "something else"],
)
def test_a_damaged_file_is_made_anew(damage: Callable[[bytes], bytes], folder: Path) -> None:
    remembered("thing", ["a"], dict, counted(1)[0])
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert remembered("thing", ["a"], dict, counted(2)[0]) == {"value": 2}
    assert remembered("thing", ["a"], dict, counted(3)[0]) == {"value": 2}


def test_what_is_of_another_kind_is_made_anew() -> None:
    remembered("thing", ["a"], dict, counted(1)[0])
    assert remembered("thing", ["a"], list, lambda: [1]) == [1]


def test_a_folder_that_cannot_be_written_costs_time_alone(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    for value in (1, 2):
        assert remembered("thing", ["a"], dict, counted(value)[0]) == {"value": value}
    assert folder.read_text() == "a file where the folder should be"


def test_an_empty_variable_turns_it_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.VARIABLE, "")
    for value in (1, 2):
        assert remembered("thing", ["a"], dict, counted(value)[0]) == {"value": value}
    assert not folder.exists()


@pytest.mark.parametrize("name", ["Ascend910A", "Ascend910B3", "Ascend310P3"])
def test_a_remembered_profile_is_the_profile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = fresh(name), fresh(name)
    assert first is not second
    monkeypatch.setenv(kept.VARIABLE, "")
    read = fresh(name)
    assert first == second == read
    assert second.provenance == read.provenance
    assert second.mmad_forms == read.mmad_forms
    assert second.model_dump() == read.model_dump()


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    for cores in (7, 9):
        file.write_text(
            f"name: Mine\ninherits: Ascend910B3\ncores:\n  ai_cores: {cores}\n"
            "  provenance:\n    ai_cores: {source: rt, confidence: assumed}\n"
        )
        for _ in range(2):
            assert fresh(file).cores.ai_cores == cores


def test_a_changed_parent_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = loading.data_folder()
    copy = tmp_path / "data"
    for file in Path(os.fspath(str(base))).rglob("*.yaml"):
        target = copy / file.relative_to(str(base))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(loading, "data_folder", lambda: copy)
    before = fresh("Ascend910B3").vector.start_scale
    shared = copy / "microarchitecture" / "dav-c220-calibrated.yaml"
    text = shared.read_text(encoding="utf-8")
    assert f"start_scale: {before:g}" in text
    shared.write_text(
        text.replace(f"start_scale: {before:g}", f"start_scale: {before + 1:g}"), encoding="utf-8"
    )
    assert fresh("Ascend910B3").vector.start_scale == pytest.approx(before + 1)
    loading._profile_of.cache_clear()
    naming._known.cache_clear()


def test_a_wrong_file_is_refused_every_time(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("inherits: Ascend910B3\ncores:\n  ai_cores: many\n")
    for _ in range(2):
        with pytest.raises(ProfileError):
            fresh(file)


def test_a_chip_that_was_read_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    chips = ("Ascend910A", "Ascend910B3", "Ascend310P3", "Ascend910_9391")
    found = [fresh(chip) for chip in chips]
    monkeypatch.setattr(loading, "_validated", lambda *_: pytest.fail("a file is parsed again"))
    assert [fresh(chip) for chip in chips] == found
