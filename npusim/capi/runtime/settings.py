"""What the environment tells a program on the simulator."""

# The chip: any of its names, or the path of a profile.
SOC_VARIABLE = "NPUSIM_SOC"
DEFAULT_SOC = "Ascend910B3"

# Set to anything: say at aclFinalize what was never given back; say every refusal as it happens.
LEAKS_VARIABLE = "NPUSIM_LEAKS"
LOG_VARIABLE = "NPUSIM_LOG"
