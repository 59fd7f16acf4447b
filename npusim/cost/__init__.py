"""Cycles of one instruction on one profile: table lookups and formulas, no simulation."""

from npusim.cost.instructions import InstructionCosts

__all__ = ["InstructionCosts"]
