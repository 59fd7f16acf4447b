"""Aclnn C++ programs on the simulator: headers, a shared library, compiling and running.

``npusim cc`` compiles a program against the headers that :mod:`declarations` writes and the library
that :mod:`library` builds with cffi; ``npusim exec`` runs it. What the library's functions do is in
:mod:`runtime`, which runs in an interpreter inside the program.
"""
