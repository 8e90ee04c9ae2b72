"""A text in another language than the dialect that its submission names: what it is, and which dialect to name."""

import re
from typing import Final

from common.contract import Dialect, Phase, Status
from evaluator.errors import Ruling
from evaluator.stages.lift.dialects import dialect_of, entry_function, is_extension, is_triton, is_triton_solution
from evaluator.stages.screen.lexer import SourceText

# A line of C++ would end with a semicolon, and `class NAME:` with a brace.
_PYTHON: Final = re.compile(
    r"^(?:import[ \t]+[A-Za-z_][\w., \t]*|from[ \t]+[A-Za-z_][\w.]*[ \t]+import[ \t]+[\w*, \t(]+)"
    r"[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
# What cannot be overlooked, even at the cost of taking a comment for it: Python that is right is not refused.
_MAYBE_PYTHON: Final = re.compile(r"^[ \t]*(?:(?:import|from)[ \t]|(?:async[ \t]+)?def[ \t])", re.MULTILINE)
_CLASS: Final = re.compile(r"^class[ \t]+(\w+)", re.MULTILINE)
_REFERENCE: Final = re.compile(r"^def[ \t]+get_inputs\b", re.MULTILINE)
_KERNEL: Final = re.compile(r"\b__global__\b")


def python_for_cpp(source: str, dialect: Dialect) -> Ruling | None:
    """The ruling on a Python text whose submission names a dialect of host code in C++, where nothing of it can be
    called in that dialect; None for every other one.
    """
    if dialect not in ("solve", "torch-extension") or not _PYTHON.search(SourceText.read(source).code):
        return None
    if is_extension(source) if dialect == "torch-extension" else entry_function(source) is not None:
        return None
    right = "triton" if is_triton(source) else "kernelbench" if _has_model(source) else None
    named = f"the dialect {right}" if right else "the dialect kernelbench, with a class ModelNew, or triton"
    return Ruling(
        Status.INVALID_SUBMISSION,
        Phase.LIFT,
        f"The source is Python, and the dialect {dialect} is CUDA C++.",
        f"Name {named} (`--dialect {right or 'kernelbench'}`), or none: then the text says it.",
    )


def python_for_kernels(source: str) -> Ruling | None:
    """The ruling on a Python text that nvcc has refused, since nothing of a dialect of Python was found in it, or
    the submission names the dialect cuda; None for every other text.
    """
    if not _PYTHON.search(SourceText.read(source).code):
        return None
    right = "kernelbench" if _has_model(source) else "triton" if is_triton(source) else None
    if right:
        message = "The source is Python, and the dialect cuda is CUDA C++."
        hint = f"Name the dialect {right} (`--dialect {right}`), or none: then the text says it."
    else:
        message = "The source is Python, without a class `ModelNew` and without a kernel of Triton's (`@triton.jit`)"
        message, hint = f"{message}{_classes(source)}.", _hint_on_python(source)
    return Ruling(Status.INVALID_SUBMISSION, Phase.LIFT, message, hint)


def _classes(source: str) -> str:
    found = [(match[1], source.count("\n", 0, match.start()) + 1) for match in _CLASS.finditer(source)]
    return f"; it defines {', '.join(f'{name} in line {line}' for name, line in found[:3])}" if found else ""


def _hint_on_python(source: str) -> str:
    if _REFERENCE.search(source):
        return "It looks like what states a problem: that is given with --reference, and the solution in its place."
    if "load_inline" in source:
        return (
            "Name the class whose forward calls what `load_inline` compiles `ModelNew`; it stands at the top level."
        )
    if "triton" in source:
        return "Mark each kernel with `@triton.jit` and import triton: they are found by that."
    return (
        "What is graded of Python are a class `ModelNew` that compiles CUDA C++ with `load_inline`, and Triton "
        "kernels with a function `run(…)`; otherwise submit the kernels as CUDA C++."
    )


def cuda_for_python(source: str, dialect: Dialect) -> Ruling | None:
    """The ruling on a CUDA text whose submission names a dialect of Python; None for every other one.

    It is the one of a text that Python does not compile, with the line of the first kernel.
    """
    text = SourceText.read(source)
    kernel = _KERNEL.search(text.code)
    if kernel is None or _MAYBE_PYTHON.search(source) or _has_model(source):
        return None
    # Slow to import, and said of Python alone.
    from evaluator.stages.lift.kernelbench.python_syntax import SOURCE

    line, right = text.line(kernel.start()), dialect_of(source)
    return Ruling(
        Status.COMPILE_ERROR,
        Phase.LIFT,
        f"{SOURCE}:{line}: `__global__` is CUDA C++, and the dialect {dialect} is Python.",
        f"Name the dialect {right} (`--dialect {right}`), or none: then the text says it.",
    )


def _has_model(source: str) -> bool:
    return dialect_of(source) == "kernelbench" or is_triton_solution(source)
