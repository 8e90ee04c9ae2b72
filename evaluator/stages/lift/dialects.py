"""Which dialect a text is in, where nobody says so; and the entry function of host code."""

import re
from dataclasses import dataclass, field
from typing import Final

from common.contract import Dialect
from evaluator.stages.screen.lexer import SourceText

ENTRIES: Final = ("solve", "solution")
"""What LeetGPU and Tensara call."""
_ENTRY: Final = re.compile(
    r"\bvoid\s+(?P<name>" + "|".join(ENTRIES) + r")\s*\((?P<parameters>[^(){};]*)\)\s*(?:noexcept\s*)?\{"
)
_LAUNCH: Final = re.compile(r"<<<|\bcudaLaunch(?:Cooperative)?Kernel\w*\s*\(")
_FOR_C: Final = re.compile(r"\bextern\s*\"[^\"]*\"\s*void\s+(?:" + "|".join(ENTRIES) + r")\s*\(")
_FOR_C_BEFORE: Final = re.compile(r"\bextern\s*\"[^\"]*\"\s*\Z")
_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:\[\s*\]\s*)?(?:=[^,]*)?\Z")
_UNNAMED: Final = frozenset(
    {"int", "float", "double", "long", "short", "char", "unsigned", "size_t", "bool", "const"}
)


@dataclass(frozen=True)
class EntryFunction:
    """The host function that a submission is called by."""

    name: str
    parameter_names: tuple[str | None, ...]
    """As the text says them; None for one without a name."""
    line: int
    overloaded: str = field(default="", kw_only=True)
    """The parameters as they stand in the text, where others of this name are there too; for C they are declared."""


def entry_function(source: str) -> EntryFunction | None:
    """The definition of `solve` or `solution` in a text; None where there is none. Of several the first that is
    `extern "C"`, else the first.
    """
    text = SourceText.read(source)
    for name in ENTRIES:
        found = [match for match in _ENTRY.finditer(text.code) if match["name"] == name]
        if not found:
            continue
        of_c = [match for match in found if _FOR_C_BEFORE.search(text.code[: match.start()])]
        match = (of_c or found)[0]
        others = _is_overloaded(text.code, match) if of_c else False
        parameters = " ".join(match["parameters"].split()) if others else ""
        line = text.line(match.start("name"))
        return EntryFunction(name, _names(match["parameters"]), line, overloaded=parameters)
    return None


def _is_overloaded(code: str, entry: re.Match[str]) -> bool:
    """Whether its name alone may not say which function it is: others have it, or it is not at the top."""
    many = sum(match["name"] == entry["name"] for match in _ENTRY.finditer(code)) > 1
    before = code[: entry.start()]
    return many or before.count("{") != before.count("}")


def is_solve(source: str) -> bool:
    """Whether a text is host code that launches: it defines `solve(…)` or `solution(…)`, `extern "C"` or with a
    launch in the text, and has no launch plan.
    """
    if "// assay:" in source or not any(name in source for name in ENTRIES):
        return False
    code = SourceText.read(source).code
    return bool(_LAUNCH.search(code) or _FOR_C.search(code)) and entry_function(source) is not None


def launch_line(source: str) -> int | None:
    """The line of the first launch by host code in a text of C++; None where there is none."""
    if "<<<" not in source and "cudaLaunch" not in source:
        return None
    text = SourceText.read(source)
    match = _LAUNCH.search(text.code)
    return text.line(match.start()) if match else None


_MODULE: Final = re.compile(r"\bPYBIND11_MODULE\s*\(|\bTORCH_LIBRARY(?:_\w+)?\s*\(")


def is_extension(source: str) -> bool:
    """Whether a text is an extension of PyTorch's: it defines a module of Python's, and has no launch plan."""
    if "// assay:" in source or not _MODULE.search(source):
        return False
    return _MODULE.search(SourceText.read(source).code) is not None


_SOLUTION: Final = re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
_TRITON_IMPORT: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+triton\b", re.MULTILINE)
_TRITON_KERNEL: Final = re.compile(
    r"^[ \t]*@[ \t]*(?:triton[ \t]*\.[ \t]*)?(?:jit|autotune|heuristics)\b", re.MULTILINE
)
_MODEL: Final = re.compile(r"^class[ \t]+ModelNew\b", re.MULTILINE)
_CUDA: Final = re.compile(r"\b__global__\b")


def is_triton(source: str) -> bool:
    """Whether a text is Python with Triton kernels and a function that launches them."""
    return _has_triton_kernel(source) and not (_MODEL.search(source) or _CUDA.search(source))


def is_triton_solution(source: str) -> bool:
    """Whether a text is a ModelNew that launches Triton kernels, and compiles no CUDA C++."""
    return _has_triton_kernel(source) and model_line(source) is not None and "load_inline" not in source


def model_line(source: str) -> int | None:
    """The line of the first ModelNew at the top level of a Python text; None where there is none."""
    match = _MODEL.search(source)
    return source.count("\n", 0, match.start()) + 1 if match else None


def _has_triton_kernel(source: str) -> bool:
    return bool(_TRITON_KERNEL.search(source) and _TRITON_IMPORT.search(source))


def dialect_of(source: str) -> Dialect:
    """What a text without a launch plan beside it is in, where nobody says so."""
    if _SOLUTION.search(source):
        return "kernelbench"
    if is_extension(source):
        return "torch-extension"
    return "solve" if is_solve(source) else "cuda"


def in_host_words(text: str, dialect: Dialect = "solve") -> str:
    """A hint that speaks of lines of a launch plan, in the words of host code; in those of CUDA it stays as it is."""
    for pattern, words in _WORDS.get(dialect, ()):
        text = pattern.sub(words, text)
    return text


_HOST_WORDS: Final = (
    (re.compile(r"`// assay: fill (\w+) value=0`"), r"`cudaMemset(\1, 0, bytes)`"),
    (re.compile(r"`// assay: temp [^`]*`"), "`cudaMalloc`"),
    (re.compile(r"`// assay: launch [^`]*cooperative[^`]*`"), "`cudaLaunchCooperativeKernel`"),
    (re.compile(r"`shared=`"), "amount of dynamic shared memory"),
)
_PYTHON_WORDS: Final = (
    (re.compile(r"`// assay: fill (\w+) value=0`"), r"`\1.zero_()`"),
    (re.compile(r"`// assay: temp [^`]*`"), "`torch.empty`"),
    (re.compile(r"`// assay: launch [^`]*cooperative[^`]*`"), "`launch_cooperative_grid=True`"),
    (re.compile(r"`shared=`"), "size of the tiles"),
)
_WORDS: Final = {
    **dict.fromkeys(("solve", "torch-extension", "kernelbench"), _HOST_WORDS),
    "triton": _PYTHON_WORDS,
}


def called_libraries(source: str, dialect: Dialect = "solve") -> tuple[str, ...]:
    """Libraries whose host functions a text uses: their kernels would not be the submission's own.

    For PyTorch something stands in all dialects but `solve`.
    """
    text = SourceText.read(source)
    includes = [one.argument[1:] for one in text.directives if one.name == "include"]
    return tuple(
        name
        for name, header, call in _LIBRARIES
        if (name != "PyTorch" or dialect == "solve")
        and (any(header.match(one) for one in includes) or (call is not None and call.search(text.code)))
    )


_LIBRARIES: Final = (
    ("cuBLAS", re.compile(r"cublas"), re.compile(r"\bcublas[A-Z]\w*\s*\(")),
    ("cuDNN", re.compile(r"cudnn"), None),
    ("cuFFT", re.compile(r"cufft"), None),
    ("cuSPARSE", re.compile(r"cusparse"), None),
    ("cuSOLVER", re.compile(r"cusolver"), None),
    ("NCCL", re.compile(r"nccl"), None),
    ("PyTorch", re.compile(r"(?:torch|ATen|c10|pybind11)/"), None),
    ("Thrust", re.compile(r"thrust/(?!(?:complex|pair|tuple|functional)\.h)"), None),
    ("CUB", re.compile(r"cub/device/"), re.compile(r"\bcub\s*::\s*Device[A-Z]\w+\s*::")),
)
"""Names, how their headers begin, and what a call looks like where device code uses the same headers."""


def _names(parameters: str) -> tuple[str | None, ...]:
    if not parameters.strip() or parameters.strip() == "void":
        return ()
    found = (_NAME.search(part.strip()) for part in parameters.split(","))
    return tuple(match[1] if match and match[1] not in _UNNAMED else None for match in found)
