"""How much is read of anything; docs/limits.md explains the numbers to users."""

from __future__ import annotations

from typing import Final

MOST_TEXT_BYTES: Final = 64 << 20
"""Of a YAML, JSON or text file, which is read at once."""

MOST_ONNX_BYTES: Final = 2 << 30
"""Of an ONNX model; protobuf takes no more."""

MOST_DEPTH: Final = 64
"""Lists and mappings inside one another, in YAML and JSON."""

MOST_NODES: Final = 500_000
"""Values of a YAML file, each alias counted as all that it stands for; nodes of an ONNX file."""

MOST_UNFOLDED: Final = 50_000
"""Operators that the functions of an ONNX file become, and all rounds of its loops together."""

LONGEST_NUMBER: Final = 400
"""Characters of a number in YAML; float64 needs at most 310 digits."""

LONGEST_LINE: Final = 1 << 20
"""Characters of a line of a table or a list."""

LONGEST_RESULT: Final = 16 << 20
"""Bytes of a line in a sweep's file of results."""

MOST_BLANK_LINES: Final = 1_000_000
"""Of a table or a list."""

MOST_UNPACKED_BYTES: Final = 256 << 20
"""Of a .gz file, unless it is no more than `MOST_UNPACKED_TIMES` its packed size."""

MOST_UNPACKED_TIMES: Final = 100

MOST_CALLS: Final = 1_000_000
"""Of one kind in a step of a model (`count`)."""

MOST_TASKS: Final = 100_000
"""In the profiler's tables of a model, which have a row for each."""

MOST_REQUESTS: Final = 10_000_000
"""Of one run of a plan."""

MOST_SERVED: Final = 1_000_000
"""Requests to a language model, whose every step is played."""

MOST_RUNS: Final = 1000
"""Of a plan."""

MOST_CARDS: Final = 1_000_000
"""That a plan looks at."""

MOST_OF_A_PLAN: Final = 1e12
"""Of a time, a rate, a price, a share in a plan."""

MOST_CORES: Final = 4096
"""Of one kind on a chip: each is simulated."""

MOST_CYCLES: Final = 1_000_000
"""Of one step of a chip: an instruction, a latency, the head of a kernel."""

MOST_US: Final = 1_000_000
"""Of one step of a chip that is given in microseconds: a launch, a barrier."""

MOST_MHZ: Final = 100_000
"""Of a chip's clock."""

LEAST_BUFFER_BYTES: Final = 1 << 14
"""Of an on-chip memory of a chip of one's own: from here on every kernel finds a tile."""
MOST_CHIP_BYTES: Final = 1 << 50
"""Of a chip's memory, and of anything smaller on it."""

MOST_COUNT: Final = 1 << 20
"""Of anything else that is counted on a chip: ways, banks, elements of a fractal."""

LEAST_RATE: Final = 1e-6
"""Of a chip, in bytes per cycle, GB/s or cycles for each; fractions aren't smaller either."""

MOST_RATE: Final = 1e9

MOST_SCALE: Final = 1000
"""That the costs of vector instructions are multiplied with; no less than a thousandth."""

MOST_HEADER_BYTES: Final = 10_000
"""Of an array in .npy or .npz, which says its dtype and shape."""

MOST_ARRAYS: Final = 10_000
"""Of an .npz."""
