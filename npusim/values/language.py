"""The language that people are spoken to: English as it stands in the code, or a catalogue of it.

Only the command line chooses one; who imports npusim reads English. Catalogues are those of GNU
gettext, made by `docs/translations.py`, and are read when another language than English is asked.
Sentences with values are whole templates: ``say("{count} of {whole}").format(count=1, whole=2)``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` itself takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping
    from gettext import NullTranslations

LANGUAGES = ("en", "zh")
FOLDER = __file__.rpartition("values")[0] + "locale"
DOMAIN = "npusim"
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts

_spoken: NullTranslations | None = None
_before: str | None = None  # what LANGUAGE was


def wanted(environment: Mapping[str, str]) -> str:
    """The language of an environment, as GNU gettext reads it; English where there is no other."""
    name = next(filter(None, (environment.get(each) for each in _VARIABLES)), "")
    return known(name.partition(":")[0]) or "en"


def known(name: str) -> str:
    """One of `LANGUAGES` by its name or that of a locale (zh_CN.UTF-8, zh-Hans), or nothing."""
    short = name.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return short if short in LANGUAGES else ""


def speak(name: str) -> None:
    """From now on speak one of `LANGUAGES`, typer's own words included.

    The variable LANGUAGE says so to children, and to gettext, which typer asks; with English it is
    again what it was.
    """
    global _spoken, _before  # noqa: PLW0603 - as there is one standard output
    if name == "en":
        if _spoken is not None:
            _spoken = None
            os.environ.pop("LANGUAGE", None)
            if _before is not None:
                os.environ["LANGUAGE"] = _before
        return
    import gettext

    if _spoken is None:
        _before = os.environ.get("LANGUAGE")
    _spoken = gettext.translation(DOMAIN, FOLDER, [name])
    os.environ["LANGUAGE"] = name
    gettext.bindtextdomain(DOMAIN, FOLDER)
    gettext.textdomain(DOMAIN)


def spoken() -> str:
    """The language that is spoken."""
    return "en" if _spoken is None else str(_spoken.info()["language"])


def say(message: str) -> str:
    """A message in the language that is spoken; itself, where that is English or lacks it."""
    if _spoken is None or not message:
        return message
    return _spoken.gettext(message)


def ngettext(one: str, many: str, number: float) -> str:
    """The message for 1, or for another number, in the language that is spoken."""
    if _spoken is None:
        return one if number == 1 else many
    return _spoken.ngettext(one, many, 1 if number == 1 else 2)


def shown(text: str) -> str:
    """What a renderer shows of a text: a label in the language that is spoken."""
    if _spoken is None or not text:
        return text
    import re

    text = _spoken.gettext(text)
    return re.sub(r"(?<=[\u3001\u3002\uff01-\uff1f]) +(?=\S)", "", text)
