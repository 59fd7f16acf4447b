"""Custom operator projects (op_host, op_kernel): compiled here, and operators like all others."""
