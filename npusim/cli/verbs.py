"""A verb whose words are taken as they are, and whose numbers are finite.

Typer makes a validator of pydantic for every option, also for those that nobody gives; that takes
longer than many a verb itself.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from math import isfinite
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from npusim.values.language import say, spoken

_WHOLE: Final = 1_000  # characters of a verb's first sentence that help shows
_WORD: Final = str
_WORDS: Final = list[str]


class _Spoken:
    """What commands with and without verbs share: the language of their help, and late checks."""

    help: str | None

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **_in_language(words))

    def get_help(self, ctx: Any) -> str:
        """What --help prints."""
        return _help(self, ctx) or super().get_help(ctx)  # type: ignore[misc]

    def get_short_help_str(self, limit: int = _WHOLE) -> str:
        """Its first sentence."""
        return _first_sentence(self.help) or super().get_short_help_str(limit)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> Any:
        """Its options, and ``--help``."""
        return _validated_late(super().get_params(ctx))  # type: ignore[misc]


class Verb(_Spoken, TyperCommand):
    """A command that validates only what isn't plain text."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words apart; no option of any verb means anything by NaN or an infinity."""
        rest = super().parse_args(ctx, args)
        options: list[Any] = [*self.params]
        for option in options:
            value = ctx.params.get(option.name)
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, float) and not isfinite(each):
                    raise typer.BadParameter(f"{each} isn't a finite number.", ctx, option)
        return rest


class Verbs(_Spoken, TyperGroup):
    """The same of a command with verbs."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs with the whole first sentence of each, as wide as the help is."""
        verbs: list[Any] = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        rows = [(each.name, each.get_short_help_str(_WHOLE)) for each in verbs if not each.hidden]
        if rows:
            with formatter.section(say("Commands")):
                formatter.write_dl(rows)


def _in_language(words: dict[str, Any]) -> dict[str, Any]:
    """What a command is made of, with its help in the language that is spoken."""
    if spoken() == "en":
        return words
    for name in ("help", "epilog"):
        if words.get(name):
            words[name] = say(cleandoc(words[name]))
    return words


def _help(command: Any, ctx: Any) -> str:
    """Help in a language that typer can't break into lines, nothing for others."""
    if spoken() == "en":
        return ""
    from npusim.cli.wrapping import WideFormatter

    formatter = WideFormatter(width=ctx.terminal_width, max_width=ctx.max_content_width)
    command.format_help(ctx, formatter)
    return str(formatter.getvalue()).rstrip("\n")


def _first_sentence(text: str | None) -> str:
    """The first of a text in Chinese, nothing for other languages."""
    if spoken() != "zh" or not text:
        return ""
    paragraph = text.partition("\n\n")[0]
    end = paragraph.find("。") + 1
    return paragraph[: end or None].replace("\n", "")


def _validated_late(options: list[Any]) -> list[Any]:
    for option in options:
        if getattr(option, "help", None):
            option.help = say(option.help)
        validator = getattr(option, "get_runtime_param", None)  # in this version of typer
        if validator is not None and "get_runtime_param" not in vars(option):
            vars(option)["get_runtime_param"] = _AsGiven(validator, option).itself
    return options


class _AsGiven:
    """Stands for typer's validator of an option until one is needed."""

    def __init__(self, validator: Callable[[], Any], option: Any) -> None:
        self._validator = validator
        self._kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)

    def itself(self) -> _AsGiven:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of an option."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if self._kind is bool and isinstance(value, bool) and not several:
            return value
        if self._kind == _WORD and not several and _is_plain(value):
            return value
        if self._kind == _WORDS and isinstance(value, list | tuple) and all(map(_is_plain, value)):
            return list(value)
        return self._validator().coerce(value, param=param, ctx=ctx)


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii()
