"""Demangled names of kernels, as compilers and profilers give them."""


def without_parameters(name: str) -> str:
    """`k<&(f(float))>(float const*, int)` is called `k<&(f(float))>`, and `(anonymous namespace)::k(int)` keeps both.

    A name without parameters, as of an extern "C" kernel, is returned as it is; a `void` before it is left out.
    """
    name = name.removeprefix("void ")
    if not name.endswith(")"):
        return name
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        depth += (name[index] == ")") - (name[index] == "(")
        if depth == 0:
            return name[:index]
    return name
