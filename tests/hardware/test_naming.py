"""What people call chips and products, and what they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.hardware import products as products_module
from npusim.hardware.loading import profile_names
from npusim.hardware.naming import load_profile, resolve_soc
from npusim.hardware.products import Product, product_lines, products
from npusim.values.errors import ProfileError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "soc"),
    [
        ("Ascend910B3", "Ascend910B3"),
        ("ascend910b3", "Ascend910B3"),
        ("910B3", "Ascend910B3"),
        ("310p3", "Ascend310P3"),
        ("ascend310p1", "Ascend310P1"),
        ("910B4-1", "Ascend910B4-1"),
        ("910b4_1", "Ascend910B4-1"),
        ("910 Premium A", "Ascend910PremiumA"),
        ("910ProB", "Ascend910ProB"),
        ("Ascend910", "Ascend910A"),
        ("310P", "Ascend310P3"),
        ("Atlas 300I Duo", "Ascend310P3"),
        ("atlas-300i  duo", "Ascend310P3"),
        ("300V Pro", "Ascend310P3"),
        ("Atlas 300I Pro 推理卡", "Ascend310P3"),
        ("Atlas 800 推理服务器（型号 3000）", "Ascend310P3"),  # noqa: RUF001 - as on the page
        ("Atlas 800 推理服务器(型号:3000)", "Ascend310P3"),
        ("Atlas 800T A2", "Ascend910B3"),
        ("Atlas 800T A2 训练服务器", "Ascend910B3"),
        ("Atlas 800I A2", "Ascend910B4"),
        ("Atlas 800I A2 64GB", "Ascend910B4-1"),
        ("Atlas 900 A2 PoD 集群基础单元", "Ascend910B1"),
        ("Atlas 200T A2 Box16 异构子框", "Ascend910B2C"),
        ("910_9391", "Ascend910_9391"),
        ("Atlas A3", "Ascend910_9391"),
        ("Atlas A3 训练系列产品", "Ascend910_9391"),
        ("Atlas 800I A3", "Ascend910_9391"),
        ("Atlas 300T", "Ascend910A"),
        ("A800-9000", "Ascend910A"),
        ("Atlas 训练系列产品", "Ascend910A"),
        ("Atlas训练系列产品", "Ascend910A"),
        ("Atlas training products", "Ascend910A"),
        ("Atlas A2 训练系列产品", "Ascend910B3"),
        ("Atlas A2 训练系列产品/Atlas 800I A2 推理产品", "Ascend910B3"),
        ("Atlas 800I A2 推理产品", "Ascend910B4"),
        ("Atlas A2 推理系列产品", "Ascend910B4"),
        ("Atlas 推理系列产品", "Ascend310P3"),
        ("Atlas inference products", "Ascend310P3"),
        ("昇腾910B3", "Ascend910B3"),
        ("昇腾 910b4-1", "Ascend910B4-1"),
        ("华为昇腾310P3", "Ascend310P3"),
        ("昇腾310P", "Ascend310P3"),
        ("Huawei Ascend 910 Pro A", "Ascend910ProA"),
        ("华为 Atlas 300I Duo", "Ascend310P3"),
    ],
)
def test_what_people_write_finds_the_chip(text: str, soc: str) -> None:
    assert resolve_soc(text).name == soc
    assert load_profile(text).name == soc


@given(data=st.data())
def test_case_and_prefix_do_not_matter(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(profile_names()))
    spelled = name if data.draw(st.booleans()) else name.removeprefix("Ascend")
    letters = [letter.upper() if data.draw(st.booleans()) else letter.lower() for letter in spelled]
    assert resolve_soc(data.draw(st.sampled_from(["", " "])) + "".join(letters)).name == name


@pytest.mark.parametrize("text", ["910B", "Ascend910B", "ascend910b", "昇腾910B"])
def test_910b_without_a_digit_is_the_first_generation_and_says_so(text: str) -> None:
    found = resolve_soc(text)
    assert found.name == "Ascend910B"
    assert load_profile(found.name).cores.ai_cores == 30
    assert "first generation (30 cores" in found.note
    assert "910B1, 910B2, 910B3 or 910B4" in found.note


def test_an_exact_chip_needs_no_note_and_a_product_gets_one() -> None:
    assert resolve_soc("910B3").note == ""
    assert resolve_soc("Atlas 300I Duo").note.startswith(
        "Atlas 300I Duo inference card (96 GB): one Ascend310P3 of up to 8."
    )
    assert "are several chips" in resolve_soc("Atlas 训练系列产品").note
    assert resolve_soc("Ascend910").note == "Ascend910 is Ascend910A."


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("910B9", "Did you mean 910B"),
        ("昇腾910B9", "Did you mean Ascend910B"),
        ("Ascend910B33", "Did you mean Ascend910B3"),
        ("Atlas 300I Trio", "Atlas 300I"),
        ("Atlas 训练产品", "Atlas 训练系列产品"),
        ("", "`npusim profiles`"),
        ("H100", "`npusim profiles`"),
    ],
)
def test_an_unknown_name_is_told_with_near_misses(text: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown chip or product") as caught:
        resolve_soc(text)
    assert hint in str(caught.value)
    with pytest.raises(UnknownNameError):
        load_profile(text)


def test_no_name_stands_for_two_things() -> None:
    names = [
        "".join(name.split()).casefold()
        for item in (*products(), *product_lines())
        for name in item.names
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("item", products(), ids=lambda item: item.name_en)
def test_products_are_built_from_chips_that_we_have(item: Product) -> None:
    chip = load_profile(item.soc)
    assert item.chips_per_card in (1, 2)
    assert item.memory_bytes_per_chip >= chip.memory.capacity_bytes
    assert item.power_w is None or 50 < item.power_w < 500
    assert resolve_soc(item.name_zh).name == item.soc


@pytest.mark.parametrize(
    ("name", "soc", "chips", "cards", "memory_bytes", "power_w"),
    [
        ("Atlas 300I Duo", "Ascend310P3", 2, 4, 48_000_000_000, 150),
        ("Atlas 300I Pro", "Ascend310P3", 1, 8, 24_000_000_000, 72),
        ("Atlas 300I A2", "Ascend910B4", 1, 8, 32 * 1024**3, 350),
        ("Atlas 800T A2", "Ascend910B3", 1, 8, 64 * 1024**3, None),
        ("Atlas 800 9000", "Ascend910A", 1, 8, 32 * 1024**3, 310),
        ("Atlas 200T A2 Box16", "Ascend910B2C", 1, 16, 64 * 1024**3, None),
    ],
)
def test_facts_of_products(
    name: str, soc: str, chips: int, cards: int, memory_bytes: int, power_w: float | None
) -> None:
    (item,) = (item for item in products() if name in item.names)
    assert (item.soc, item.chips_per_card, item.cards_per_server) == (soc, chips, cards)
    assert (item.memory_bytes_per_chip, item.power_w) == (memory_bytes, power_w)


def test_the_lines_cover_the_families_and_name_chips_of_theirs() -> None:
    assert {line.family for line in product_lines()} == {"910", "A2", "A3", "310P"}
    for line in product_lines():
        assert load_profile(line.soc).family == line.family
    for chip in map(load_profile, profile_names()):
        assert load_profile(chip.product_line).family == chip.family


def test_a_wrong_list_of_products_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "products.yaml").write_text(
        "products:\n"
        "- {name_en: Card, name_zh: 卡, soc: Ascend310P3, chips_per_card: 0, cards_per_server: 1,\n"
        "   interconnect: x, purpose: inference,\n"
        "   memory_bytes_per_chip: 1, power_w: null, source: rt, confidence: assumed}\n"
        "- {name_en: Card, name_zh: 卡, soc: Ascend310P3, chips_per_card: 1, cards_per_server: 1,\n"
        "   interconnect: x, purpose: inference,\n"
        "   memory_bytes_per_chip: 1, power_w: null, source: hearsay, confidence: sure}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(products_module, "data_folder", lambda: tmp_path)
    with pytest.raises(ProfileError) as caught:
        products_module._read("products", Product)
    lines = str(caught.value).splitlines()
    assert [line.split(": ", 1)[1].split(" =")[0] for line in lines] == [
        "products.0.chips_per_card",
        "products.1.source",
        "products.1.confidence",
    ]


@pytest.mark.parametrize(("name", "said"), [("310B", "Atlas 200I/500 A2"), ("950", "Ascend 950")])
def test_chips_that_the_catalogue_alone_knows_are_said_to_be_such(name: str, said: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve_soc(name)
    assert f"{said} products can't be timed" in caught.value.remedy
    assert not caught.value.candidates
