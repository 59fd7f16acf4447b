"""What `--json` prints, verb by verb, as models: `npusim schema` makes a JSON Schema of them.

Numbers that aren't finite are the strings "nan", "inf" and "-inf". Units stand in the names.
The tests hold every JSON that the command line prints against these models.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic's own; typing's knows too little before 3.12

from npusim.reporting.schemas.calls import (
    Call,
    Cases,
    Compared,
    Demo,
    Executed,
    ModelTrace,
    Sweep,
    Tiling,
    Trace,
    Tuned,
)
from npusim.reporting.schemas.catalogue import (
    CatalogueAnswers,
    Chip,
    Chips,
    Contract,
    Coverage,
    Difference,
    Entry,
    Summary,
)
from npusim.reporting.schemas.common import Failed, Json
from npusim.reporting.schemas.llm import (
    Collectives,
    LlmBenchedAll,
    LlmServedAll,
    LlmSteps,
    LlmTrainings,
)
from npusim.reporting.schemas.models import (
    Beside,
    Calibrated,
    Judged,
    ModelCheck,
    Steps,
    Validated,
)
from npusim.reporting.schemas.plans import LlmPlanned, Planned
from npusim.values.errors import UnknownNameError

VERBS: Final[dict[str, tuple[Any, ...]]] = {
    "check": (Call, CatalogueAnswers, ModelCheck),
    "estimate": (Call,),
    "run": (Call, Cases),
    "model": (Steps,),
    "llm": (LlmSteps, LlmServedAll, LlmBenchedAll, LlmTrainings),
    "collective": (Collectives,),
    "judge": (Judged,),
    "calibrate": (Calibrated,),
    "plan": (Planned, LlmPlanned),
    "recommend": (Planned, LlmPlanned),
    "trace": (Trace, ModelTrace),
    "sweep": (Sweep,),
    "compare": (Compared,),
    "ops": (
        list[Summary | Json],
        list[Entry],
        Contract,
        Difference,
        list[Coverage],
        CatalogueAnswers,
    ),
    "profiles": (Chips, Chip),
    "validate": (Validated, Beside),
    "exec": (Executed,),
    "tune": (list[Tuned],),
    "op": (Tiling,),
    "demo": (Demo,),
}
"""The verbs that take ``--json``, and what each prints or writes; `Failed` comes with all."""


def schema(verb: str = "") -> dict[str, Any]:
    """The JSON Schema (2020-12) of what a verb prints, or of everything that any verb prints.

    Raises UnknownNameError for a verb that prints no JSON.
    """
    if verb and verb not in VERBS:
        raise UnknownNameError("verb with --json", verb, VERBS)
    kinds = {name: reduce(or_, models, Failed) for name, models in VERBS.items()}
    if verb:
        title, made = f"npusim {verb} --json", TypeAdapter(kinds[verb]).json_schema()
    else:
        every = TypedDict("Verbs", kinds, total=False)  # type: ignore[misc]
        title, made = "npusim --json, by verb", TypeAdapter(every).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": title}
