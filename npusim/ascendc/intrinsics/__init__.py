"""The intrinsics: each computes on its tile and appends one instruction to its pipe."""
