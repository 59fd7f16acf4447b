"""Names the packages: everything under npusim/, and ops/ and hw_profiles/ as parts of npusim.

setuptools can find packages by folder, and it can map a package to another folder, but it can't do
both at once from pyproject.toml.  Finding them here means that a new operator folder needs no edit.
"""

from setuptools import find_packages, setup

packages = find_packages(include=["npusim", "npusim.*"])
for folder in ("ops", "hw_profiles"):
    packages += [f"npusim.{name}" for name in find_packages(include=[folder, f"{folder}.*"])]

setup(packages=packages)
