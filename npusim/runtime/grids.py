"""How many blocks a launch may have, for every front end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile


def require_blocks(blocks: int, profile: Profile, name: str = "block_dim") -> None:
    """Raises ArgumentError for a grid that no launch has; `name` is what the caller gave it as.

    A grid beyond the cores is none of these: its blocks run in rounds.
    """
    most = profile.launch.most_blocks
    if 1 <= blocks <= most:
        return
    cores = profile.cores.vector_cores or profile.cores.ai_cores
    raise ArgumentError(
        f"{name}={blocks}, but a launch has 1 to {most} blocks (the device answers 107000)",
        f"Launch as many blocks as {profile.name} has cores ({cores} for vector kernels), and let "
        "each loop over its share.",
    )
