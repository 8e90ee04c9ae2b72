"""The built-in problems: one file per family, statement, sizes, inputs, oracle and kernels side by side."""
