"""Serving requests with a language model: continuous batching, step by step, on a grid of costs."""

from npusim.serving.costs import StepCosts, step_costs
from npusim.serving.deployment import Deployment, deploy
from npusim.serving.engine import serve, serve_in_step
from npusim.serving.group import Outcome
from npusim.serving.policy import Policy
from npusim.serving.requests import Requests, even_lengths, read_requests

__all__ = [
    "Deployment",
    "Outcome",
    "Policy",
    "Requests",
    "StepCosts",
    "deploy",
    "even_lengths",
    "read_requests",
    "serve",
    "serve_in_step",
    "step_costs",
]
