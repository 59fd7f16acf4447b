"""The kinds of numbers that files hold, with the ranges within which a chip is simulated.

Beyond them there is no chip, and a simulation of one would overflow or never end; docs/limits.md
has the table.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from npusim.reading.limits import (
    LEAST_BUFFER_BYTES,
    LEAST_RATE,
    MOST_CHIP_BYTES,
    MOST_CORES,
    MOST_COUNT,
    MOST_CYCLES,
    MOST_MHZ,
    MOST_OF_A_PLAN,
    MOST_RATE,
    MOST_SCALE,
    MOST_US,
)

Positive = Annotated[float, Field(gt=0, le=MOST_OF_A_PLAN)]
NonNegative = Annotated[float, Field(ge=0, le=MOST_OF_A_PLAN)]
Share = Annotated[float, Field(ge=0, le=1)]

Count = Annotated[int, Field(gt=0, le=MOST_COUNT)]
CoreCount = Annotated[int, Field(gt=0, le=MOST_CORES)]
Bytes = Annotated[int, Field(gt=0, le=MOST_CHIP_BYTES)]
BufferBytes = Annotated[int, Field(ge=LEAST_BUFFER_BYTES, le=MOST_CHIP_BYTES)]
RepeatBytes = Annotated[int, Field(ge=32, le=4096, multiple_of=32)]
Megahertz = Annotated[int, Field(gt=0, le=MOST_MHZ)]
Cycles = Annotated[float, Field(ge=0, le=MOST_CYCLES)]
Microseconds = Annotated[float, Field(ge=0, le=MOST_US)]
Speed = Annotated[float, Field(ge=LEAST_RATE, le=MOST_RATE)]
Scale = Annotated[float, Field(ge=1 / MOST_SCALE, le=MOST_SCALE)]
Fraction = Annotated[float, Field(ge=LEAST_RATE, le=1)]
