"""Units of time: plans speak of ms, s and hours, the clock of the simulation runs in us."""

from __future__ import annotations

from typing import Final

US_PER_MS: Final = 1e3
US_PER_S: Final = 1e6
S_PER_H: Final = 3600.0
