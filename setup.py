"""Names the packages, and builds the compiled player where there is a compiler.

setuptools can find packages by folder, and it can map a package to another folder, but it can't do
both at once from pyproject.toml. Finding them here means that a new operator folder needs no edit:
everything under npusim/, and ops/ and hw_profiles/ as parts of npusim.

The player is a library in C that knows nothing of Python, so that one build serves every version.
On Linux machines without a compiler, pip fetches one that is a Python package; where no compiler
works npusim is installed without the player, and slower.
"""

import os
import platform
import shutil
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PLAYER = "npusim.engine.compiled._player"
SOURCES = [f"npusim/engine/compiled/{name}.c" for name in ("player", "steady")]
ENDINGS = {"win32": ".dll", "darwin": ".dylib"}


def has_compiler():
    """Whether there is a C compiler that setuptools would find, as far as that is easily known."""
    named = os.environ.get("CC", "").split()
    return any(map(shutil.which, [*named[:1], "cc", "gcc", "clang"])) or sys.platform == "win32"


def fetches_compiler():
    """Whether pip is to fetch one: it exists for these machines."""
    return (
        sys.platform == "linux"
        and platform.machine() in ("x86_64", "aarch64")
        and not has_compiler()
    )


class BuildPlayer(build_ext):
    """Builds a plain library in place of an extension module."""

    def get_ext_filename(self, fullname):
        """Where it belongs, as a library is called here."""
        return fullname.replace(".", "/") + ENDINGS.get(sys.platform, ".so")

    def get_export_symbols(self, ext):
        """What the source exports: no function that begins a module."""
        return ext.export_symbols

    def build_extensions(self):
        """Build it with the compiler that there is."""
        if self.compiler.compiler_type == "unix" and not has_compiler():
            compiler = [sys.executable, "-m", "ziglang", "cc"]
            self.compiler.set_executables(
                compiler=compiler,
                compiler_so=[*compiler, "-fPIC"],
                linker_so=[*compiler, "-shared"],
            )
        if self.compiler.compiler_type != "msvc":
            for each in self.extensions:  # to the same bits as Python: no fused multiply-add
                each.extra_compile_args = ["-O3", "-ffp-contract=off", "-fvisibility=hidden"]
                each.libraries = ["m"]
        super().build_extensions()


class AnyPython(bdist_wheel):
    """One wheel of a machine for every version of Python."""

    def get_tag(self):
        """Python, ABI and machine."""
        _, _, machine = super().get_tag()
        return "py3", "none", machine


packages = find_packages(include=["npusim", "npusim.*"])
for folder in ("ops", "hw_profiles"):
    packages += [f"npusim.{name}" for name in find_packages(include=[folder, f"{folder}.*"])]

setup(
    packages=packages,
    ext_modules=[Extension(PLAYER, SOURCES, optional=True)],
    cmdclass={"build_ext": BuildPlayer, "bdist_wheel": AnyPython},
    setup_requires=["ziglang>=0.13"] if fetches_compiler() else [],
)
