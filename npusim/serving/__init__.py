"""Serving requests with a language model: continuous batching, step by step, on a grid of costs."""

from npusim.serving.costs import StepCosts, step_costs
from npusim.serving.deployment import Deployment, deploy, serve_apart
from npusim.serving.engine import Outcome, Stage, serve, serve_in_stages
from npusim.serving.policy import Policy
from npusim.serving.requests import Requests, even_lengths, read_requests
from npusim.serving.routing import check_router

__all__ = [
    "Deployment",
    "Outcome",
    "Policy",
    "Requests",
    "Stage",
    "StepCosts",
    "check_router",
    "deploy",
    "even_lengths",
    "read_requests",
    "serve",
    "serve_apart",
    "serve_in_stages",
    "step_costs",
]
