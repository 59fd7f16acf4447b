"""Language models: what a step of prefill or decode takes, whether it fits, serving."""

from npusim.llm.config import LanguageModel, read_model
from npusim.llm.hub import is_id
from npusim.llm.layout import Layout
from npusim.llm.popularity import Popularity, read_counts
from npusim.llm.results import LlmStep
from npusim.llm.sampling import Sampling
from npusim.llm.step import step
from npusim.llm.training import Training, TrainingStep, train
from npusim.llm.workload import Batch

__all__ = [
    "Batch",
    "LanguageModel",
    "Layout",
    "LlmStep",
    "Popularity",
    "Sampling",
    "Training",
    "TrainingStep",
    "is_id",
    "read_counts",
    "read_model",
    "step",
    "train",
]
