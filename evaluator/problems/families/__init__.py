"""The built-in problems, one family a file: statement, sizes, inputs, oracle and kernels side by side."""
