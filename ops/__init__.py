"""The operators: one folder for each family, installed as `npusim.ops`."""
