"""What a chip is: profiles with a source for every number, and the names people give to chips."""

from npusim.hardware.groups import Path
from npusim.hardware.loading import profile_names
from npusim.hardware.naming import (
    Resolution,
    load_profile,
    register_profile,
    resolve_soc,
    unregister_profile,
)
from npusim.hardware.profile import Profile
from npusim.hardware.provenance import Provenance
from npusim.hardware.reading import relative_uncertainty

__all__ = [
    "Path",
    "Profile",
    "Provenance",
    "Resolution",
    "load_profile",
    "profile_names",
    "register_profile",
    "relative_uncertainty",
    "resolve_soc",
    "unregister_profile",
]
