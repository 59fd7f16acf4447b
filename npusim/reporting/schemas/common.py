"""What every answer is made of: statuses, errors, tensors."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Number = float | Literal["nan", "inf", "-inf"]
Band = tuple[Number, Number]
Json = dict[str, Any]


class Object(BaseModel):
    """An object that has these keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Status(Object):
    """An aclnn status: 0 is a yes, anything else says why not and what to do."""

    code: int
    name: str
    ok: bool
    message: str
    remedy: str


class Problem(Object):
    """Why there is no answer at all."""

    kind: str
    exit_code: int
    code: int | None
    message: str
    remedy: str


class Failed(Object):
    """What any verb prints when it fails; the exit code of the command is in it."""

    error: Problem


class Tensor(Object):
    """A tensor, with data where it is small."""

    dtype: str
    shape: list[int]
    format: str | None = None
    data: list[Any] | None = None
    note: str = ""
