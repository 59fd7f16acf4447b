"""Whatever npusim says can be said in Chinese; English neither pays for it nor changes by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import translations

from npusim.cli import main
from npusim.values import language


@pytest.fixture
def chinese() -> Iterator[None]:
    language.speak("zh")
    yield
    language.speak("en")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(words)
    printed = capsys.readouterr()
    language.speak("en")
    assert isinstance(end.value.code, int)
    return end.value.code, printed.out, printed.err


def test_every_message_is_translated_and_the_catalogue_is_compiled() -> None:
    pytest.importorskip("babel")
    catalogue = translations.current()
    assert translations.lacking(catalogue) == [], "run `python docs/translations.py`"
    po, mo = translations.texts(catalogue)
    assert translations.PO.read_bytes() == po, "run `python docs/translations.py`"
    assert translations.MO.read_bytes() == mo, "run `python docs/translations.py`"


@pytest.mark.parametrize("words", [["--lang", "zh"], ["--lang=zh_CN.UTF-8"]])
def test_help_is_chinese_within_80_columns(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "model", "--help", *words)
    assert code == 0
    assert "模型跑一步要多久" in out
    assert "Options" not in out
    assert "Show this message" not in out
    from npusim.cli.wrapping import width

    assert max(map(width, out.splitlines())) <= 80
    verbs = said(capsys, *words, "--help")[1]
    assert "Language models" not in verbs
    assert "退出码" in verbs


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh:en"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": ""}, "zh"),
    ],
)
def test_the_environment_chooses_as_it_does_for_gettext(
    environment: dict[str, str], expected: str
) -> None:
    assert language.wanted(environment) == expected


def test_a_language_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "check", "Gelu", "--lang", "tlh")
    assert code == 2
    assert "en" in err
    assert "zh" in err


def test_what_programs_read_stays_english(capsys: pytest.CaptureFixture[str]) -> None:
    call = ("estimate", "Gelu", "-s", "910b3", "x=fp16[64,64]", "--json")
    code, out, _ = said(capsys, *call, "--lang", "zh")
    assert code == 0
    assert json.loads(out) == json.loads(said(capsys, *call)[1])


def test_words_behind_two_hyphens_are_the_programs() -> None:
    from npusim.cli import _spoken_to

    words = ["exec", "./a", "--", "--lang", "xx"]
    assert _spoken_to(words) == words


def test_english_reads_no_catalogue() -> None:
    code = (
        "import sys; from npusim.cli.app import application; application(['check']); "
        "print('gettext' in sys.modules and 'npusim' in str(sys.modules['gettext']._translations))"
    )
    environment = {**os.environ, "LANG": "C.UTF-8", "LANGUAGE": "en"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "False"
