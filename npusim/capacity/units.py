"""The units of time that capacity planning converts between: people say ms and s, the clock runs in us."""

from __future__ import annotations

from typing import Final

US_PER_MS: Final = 1e3
US_PER_S: Final = 1e6
S_PER_H: Final = 3600.0
