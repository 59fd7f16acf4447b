"""Will it run? What some 1,100 aclnn APIs and 1,700 operators take on which product, with sources.

The facts are in one file that ships with the package; `reports/build_catalogue.py` writes it.
Nothing in here prints, and nothing is read before the first question.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.catalogue.judging import support
    from npusim.catalogue.models import ModelCheck, check_model
    from npusim.catalogue.names import AmbiguousNameError
    from npusim.catalogue.queries import diff, matrix, search, summary
    from npusim.catalogue.verdicts import Answer, Evidence, Outcome, ParameterVerdict, Verdict

__all__ = [
    "AmbiguousNameError",
    "Answer",
    "Evidence",
    "ModelCheck",
    "Outcome",
    "ParameterVerdict",
    "Verdict",
    "check_model",
    "diff",
    "matrix",
    "search",
    "summary",
    "support",
]

_HOME = {
    "AmbiguousNameError": "names",
    "Answer": "verdicts",
    "Evidence": "verdicts",
    "ModelCheck": "models",
    "Outcome": "verdicts",
    "ParameterVerdict": "verdicts",
    "Verdict": "verdicts",
    "check_model": "models",
    "diff": "queries",
    "matrix": "queries",
    "search": "queries",
    "summary": "queries",
    "support": "judging",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
