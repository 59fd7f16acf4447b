"""Kernels as programs have them: tensors are addresses in on-chip memory, loops are plain loops.

Nothing is computed twice here: every operation takes views of the bytes and hands them to the
intrinsics of a core. What is added are addresses, and the order in which pipes touch them.
"""
