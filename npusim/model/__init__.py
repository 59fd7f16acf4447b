"""A model step as a list of operators, timed on any product."""

from npusim.model.cache_state import MODES
from npusim.model.reading import ModelFile, read_model
from npusim.model.results import ClassTime, Memory, StepResult, TimedItem
from npusim.model.retiming import retime
from npusim.model.step import AclnnWork, Item, Step

__all__ = [
    "MODES",
    "AclnnWork",
    "ClassTime",
    "Item",
    "Memory",
    "ModelFile",
    "Step",
    "StepResult",
    "TimedItem",
    "read_model",
    "retime",
]
