"""What stands for PyTorch's headers: `include/`, a few small files of ours, and what of them a source needs.

PyTorch's own take a minute to compile, these a second. Each include of one of its headers becomes one of the file
that stands for it, in its line, so that a text keeps its lines; a header for which nothing stands is named. As with
PyTorch's, `torch/extension.h` brings no streams: for them a source includes `ATen/cuda/CUDAContext.h` or so.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from common.contract import Diagnostic, Severity
from evaluator.stages.compile.toolchain import Beside
from evaluator.stages.screen.lexer import SourceText

INCLUDE: Final = Path(__file__).parent / "include"
FLAGS: Final = (
    "--expt-relaxed-constexpr",
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)
"""What `torch.utils.cpp_extension` gives nvcc (COMMON_NVCC_FLAGS)."""
_WANTS: Final = "assay_wants.h"
_OPERATORS: Final = "assay_operators.h"
_LISTED: Final = re.compile(r"(?<!\w)_\((\w+)\) ?")
"""One name in a list of operators."""
_WORD: Final = re.compile(r"\w+")

STANDS_FOR: Final = {
    "assay_extension.h": (
        r"torch/(?:extension|python)\.h",
        r"torch/csrc/utils/pybind\.h",
        r"pybind11/(?:pybind11|stl|numpy|functional|cast|pytypes)\.h",
    ),
    "assay_cuda.h": (r"ATen/cuda/[\w/]+\.(?:h|cuh)", r"c10/cuda/[\w/]+\.h", r"torch/cuda\.h"),
    "assay_half.h": (r"c10/util/(?:Half|BFloat16)(?:-inl)?\.h",),
    "assay_accessors.h": (r"ATen/(?:core/)?TensorAccessor\.h",),
    "assay_tensor.h": (
        r"torch/(?:torch|all|types|script|library)\.h",
        r"torch/csrc/(?:api/include/torch/\w+|autograd/\w+)\.h",
        r"ATen/(?:core/)?(?:ATen|Tensor|TensorBase|TensorUtils|TensorOptions|Functions|Dispatch|DispatchStub|Context|Config)\.h",
        r"ATen/(?:NativeFunctions|AccumulateType|OpMathType|NumericUtils|ceil_div|native/\w+|ops/\w+|core/ScalarType)\.h",
        r"ATen/(?:DeviceGuard|ScalarOps|ExpandUtils|Parallel|Utils|Layout|Scalar|Device|core/op_registration/\w+)\.h",
        r"c10/(?:core|macros)/\w+\.h",
        r"c10/util/(?:Exception|Optional|ArrayRef|irange|intrusive_ptr|SmallVector|accumulate|string_view|Logging)\.h",
    ),
}
"""Patterns of PyTorch's headers, by the file of ours that stands for them."""
_PATTERNS: Final = {name: re.compile("|".join(patterns)) for name, patterns in STANDS_FOR.items()}
_OF_TORCH: Final = re.compile(r"(?:torch|ATen|c10|caffe2|pybind11)/")
_INCLUDE: Final = re.compile(
    r"^(?P<before>[^\S\n]*#[^\S\n]*include[^\S\n]*)(?P<quoted><(?P<path>[^>\n]+)>|\"(?P<other>[^\"\n]+)\")",
    re.MULTILINE,
)

_STANDARD: Final = {
    "algorithm": "sort|stable_sort|min_element|max_element|minmax|clamp|find|find_if|fill|fill_n|copy|reverse|any_of"
    "|transform|all_of|none_of|count|count_if|lower_bound|upper_bound|unique|swap|min|max|for_each|remove_if|partition|iter_swap",
    "array": "array",
    "atomic": "atomic\\w*",
    "bitset": "bitset",
    "chrono": "chrono",
    "complex": "complex",
    "condition_variable": "condition_variable",
    "deque": "deque",
    "functional": "function|bind|hash|plus|minus|multiplies|greater|less|invoke|reference_wrapper|ref",
    "iomanip": "setw|setprecision|setfill|fixed",
    "iostream": "cout|cerr|clog|endl|cin|ostream|flush",
    "iterator": "back_inserter|distance|next|prev|advance|iterator_traits",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map|multimap",
    "memory": "unique_ptr|shared_ptr|make_unique|make_shared|weak_ptr|addressof",
    "mutex": "mutex|lock_guard|unique_lock|once_flag|call_once|recursive_mutex|scoped_lock",
    "numeric": "accumulate|iota|inner_product|partial_sum|gcd|lcm|reduce",
    "queue": "queue|priority_queue",
    "ratio": "ratio",
    "set": "set|multiset",
    "sstream": "stringstream|ostringstream|istringstream",
    "stack": "stack",
    "stdexcept": "runtime_error|invalid_argument|logic_error|out_of_range|domain_error|length_error",
    "string_view": "string_view",
    "thread": "thread|this_thread",
    "typeinfo": "type_info",
    "unordered_map": "unordered_map|unordered_multimap",
    "unordered_set": "unordered_set|unordered_multiset",
    "variant": "variant|visit|get_if|holds_alternative|monostate",
}
"""Headers of C++ that PyTorch's bring with them, and the names of which one is wanted."""
_NAMES: Final = {header: re.compile(rf"\b(?:{names})\b") for header, names in _STANDARD.items()}
_IN_STD: Final = re.compile(r"\bstd\s*::\s*(\w+)")
_USES_STD: Final = re.compile(r"\busing\s+namespace\s+std\b")
_C_HEADERS: Final = ("cassert", "climits", "cmath", "cstdio", "cstdlib")
_MACROS: Final = {
    "HALF_OF_ASSAY": re.compile(r"[Hh]alf|HALF|[Bb]float|BFloat|BF16|bf16|fp16"),
    "ACCESSORS_OF_ASSAY": re.compile(r"[Aa]ccessor|PtrTraits"),
    "DISPATCH_OF_ASSAY": re.compile(r"\bAT_DISPATCH"),
}


_UNKNOWN: Final = re.compile(
    r'(?:class|struct|namespace) "(?P<of>(?:at|torch|c10|caffe2|pybind11)(?:::\w+)*)[^"]*" has no member (?:class )?'
    r'"(?P<member>\w+)"'
    r'|identifier "(?P<macro>(?:AT|TORCH|C10|PYBIND11|CUBLAS|CUDNN|cublas|cudnn)_?\w+)" is undefined'
)


def unknown_name(told: Iterable[Diagnostic]) -> str | None:
    """The first name that a compiler misses in what stands for PyTorch's headers; PyTorch's may have it."""
    for one in told:
        if one.severity is Severity.ERROR:
            match = _UNKNOWN.search(one.text)
            return match["macro"] or f"{match['of']}::{match['member']}" if match else None
    return None


class HeaderNotCoveredError(Exception):
    """A header of PyTorch's for which nothing stands."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(path)
        self.path, self.line = path, line


def beside_of(text: str, flags: tuple[str, ...] = FLAGS) -> Beside:
    """`text` as it is compiled, with the headers beside it. Raises HeaderNotCoveredError."""
    code = SourceText.read(text).code
    files = {**_files(), _WANTS: _wanted(code).encode()}
    if "##" not in code:  # which makes names that do not stand in the text
        files[_OPERATORS] = _named_operators(files[_OPERATORS], code)
    return Beside(_rewritten(text), files, flags, with_host=True)


def _named_operators(header: bytes, code: str) -> bytes:
    """The header of PyTorch's operators with those that `code` names: all of them are a fifth of what is read."""
    names = set(_WORD.findall(code))
    return _LISTED.sub(lambda one: one[0] if one[1] in names else "", header.decode()).encode()


@cache
def _files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(INCLUDE.glob("*.h"))}


def files_for_runtime() -> dict[str, bytes]:
    """The same headers as the recorder's own parts are compiled with."""
    return {**_files(), _WANTS: b""}


def _rewritten(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        path = match["path"] or match["other"]
        if not _OF_TORCH.match(path):
            return match[0]
        name = next((name for name, pattern in _PATTERNS.items() if pattern.fullmatch(path)), None)
        if name is None:
            raise HeaderNotCoveredError(path, text.count("\n", 0, match.start()) + 1)
        return f'{match["before"]}"{name}"'

    return _INCLUDE.sub(one, text)


def _wanted(code: str) -> str:
    """The header by which a source says what it needs of the others."""
    lines = [f"#include <{name}>" for name in (*_C_HEADERS, *standard_headers(code))]
    lines += [f"#define {name} 1" for name, pattern in _MACROS.items() if pattern.search(code)]
    return "\n".join(("#pragma once", *lines, ""))


def standard_headers(code: str) -> Iterator[str]:
    """Headers of C++ that PyTorch's bring with them, of which `code` uses names."""
    words = code if _USES_STD.search(code) else " ".join(match[1] for match in _IN_STD.finditer(code))
    return (header for header, names in _NAMES.items() if names.search(words))
