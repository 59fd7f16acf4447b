"""Pages as files: the options --html and --figures of verbs that print their page as well."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from npusim.cli import output
from npusim.values.errors import ArgumentError
from npusim.values.language import ngettext, say

if TYPE_CHECKING:
    import typer

    from npusim.reporting.document import Page


_ONCE: Final = ("force", "as_json", "resume", "workers")  # not part of the question


class Files(NamedTuple):
    """Where a page and its figures go, if anywhere."""

    html: Path | None
    figures: Path | None
    force: bool

    def claim(self, *more: Path | None, beside: Iterable[Path | None] = ()) -> None:
        """Refuse what can't be written, and `more` files, before the long work."""
        from npusim.reporting.files import claim_all, claim_folder

        claim_all(*more, self.html, beside=beside, force=self.force)
        if self.figures is not None:
            claim_folder(self.figures, force=self.force)

    def words(self) -> list[str]:
        """Both as a command line has them; names without their folders."""
        given = (("--html", self.html), ("--figures", self.figures))
        return [word for flag, path in given if path for word in (flag, path.name)]

    def write(self, page: Page) -> None:
        """The page as HTML, its figures in their folder."""
        if self.html is not None:
            from npusim.reporting.files import write_text
            from npusim.reporting.renderers.html import to_html

            write_text(self.html, to_html(page), force=self.force)
            output.note(say("written: {path}").format(path=self.html))
        write_figures(page, self.figures, force=self.force)


def figure_kind(option: str, path: Path, kinds: tuple[str, ...] = ("svg", "png")) -> str:
    """What a file of a figure is by its name; ArgumentError for a name of no such kind."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in kinds:
        names = " or ".join(f"FILE.{each}" for each in kinds)
        raise ArgumentError(
            f"{option} {path}: no kind of figure", say("Name it {names}.").format(names=names)
        )
    return kind


def retold(context: typer.Context, *verb: str) -> str:
    """The command line that asks this again: every option that isn't as it is by default.

    Files are named without their folders.
    """
    words = ["npusim", *verb]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        is_default = value in (None, False, (), []) or value == parameter.default
        if is_default or parameter.name in _ONCE:
            continue
        flag = [] if parameter.param_type_name == "argument" else [max(parameter.opts, key=len)]
        for each in value if isinstance(value, list | tuple) else [value]:
            words += flag if each is True else [*flag, _word(each)]
    return shlex.join(words)


def _word(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)


def write_figures(page: Page, folder: Path | None, *, force: bool) -> None:
    """The figures of a page in a folder, if one is wanted."""
    if folder is None:
        return
    from npusim.reporting import asking

    count = asking.write_figures(page, folder, force=force)
    told = ngettext("written: {path}, {count} figure", "written: {path}, {count} figures", count)
    output.note(told.format(path=folder, count=count))
