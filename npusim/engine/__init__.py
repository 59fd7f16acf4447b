"""Instruction streams are played against a chip: by SimPy, or to the same bit in C.

In go the programs of all cores, out comes a timeline.
"""

from npusim.engine.l2 import ALL_LOST, Code, L2State
from npusim.engine.machine import Machine, block_cycles, machine_for, machine_of
from npusim.engine.memo import Memo, Streams, process_memo
from npusim.engine.program import CoreGroup, Instruction, Loop, Pipe, Program, Transfer, Unit
from npusim.engine.simulate import KernelRun, Traffic, simulate
from npusim.engine.timeline import CoreRecord, Whole
from npusim.engine.verdict import l2_cycles, verdict

__all__ = [
    "ALL_LOST",
    "Code",
    "CoreGroup",
    "CoreRecord",
    "Instruction",
    "KernelRun",
    "L2State",
    "Loop",
    "Machine",
    "Memo",
    "Pipe",
    "Program",
    "Streams",
    "Traffic",
    "Transfer",
    "Unit",
    "Whole",
    "block_cycles",
    "l2_cycles",
    "machine_for",
    "machine_of",
    "process_memo",
    "simulate",
    "verdict",
]
