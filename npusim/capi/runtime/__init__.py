"""What the C functions do; this runs in the interpreter inside a C++ program.

:mod:`entries` connects the functions with the modules below it. A refusal (:mod:`refusals`) becomes
a return code and a message; nothing that a program does wrong ends the interpreter.
"""
