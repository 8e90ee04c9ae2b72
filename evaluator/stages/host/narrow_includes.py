"""A text against fewer of PyTorch's own headers: what it names, in the place of all that `torch/extension.h` brings.

All of them take a minute to compile, and nvcc reads them three times. These are PyTorch's own too, so what compiles
with them means the same; what does not is compiled with all.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evaluator.stages.screen.lexer import SourceText

NAME: Final = "assay_torch.h"
WIDE: Final = re.compile(
    r"^(?P<before>[^\S\n]*#[^\S\n]*include[^\S\n]*)[<\"]"
    r"(?:torch/(?:extension|torch|all|types|python)|ATen/(?:ATen|cuda/CUDAContext)|pybind11/pybind11)\.h[>\"]",
    re.MULTILINE,
)
STREAMS: Final = re.compile(r"[<\"]ATen/cuda/|getCurrentCUDAStream|CUDAGuard|CUDAStream|C10_CUDA|AT_CUDA")
TENSOR_HEADERS: Final = ("ATen/core/Tensor.h", "ATen/TensorOperators.h", "c10/util/Exception.h")
STREAM_HEADERS: Final = ("c10/cuda/CUDAStream.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAException.h")
PYTHON_HEADERS: Final = ("torch/csrc/utils/pybind.h", "torch/csrc/Exceptions.h")
_PYTHON: Final = re.compile(r"\bPYBIND11_MODULE\b|\bpybind11::|\bpy::")
_CALLED: Final = re.compile(r"\b(?:torch|at)\s*::\s*(\w+)\s*\(")
_ONLY_INCLUDES: Final = re.compile(r"(?:\s|#[^\S\n]*include\b[^\n]*)*")
_TYPES: Final = (
    ("kUInt8", "kByte"),
    ("kInt8", "kChar"),
    ("kInt16", "kShort"),
    ("kInt32", "kInt"),
    ("kInt64", "kLong"),
    ("kFloat16", "kHalf"),
    ("kFloat32", "kFloat"),
    ("kFloat64", "kDouble"),
)
"""Names in `torch::` of constants in `at::`, as torch/types.h has them."""


def with_narrow_includes(text: str) -> str:
    """`text` with NAME in the place of PyTorch's headers that bring all others; its lines stay."""
    return WIDE.sub(rf'\g<before>"{NAME}"', text)


def begins_with_headers(text: str) -> bool:
    """Whether nothing stands before PyTorch's headers by which they might mean something else."""
    found = WIDE.search(text)
    return found is not None and _ONLY_INCLUDES.fullmatch(SourceText.read(text[: found.start()]).code) is not None


def narrow_header(text: str, include: Path) -> str:
    """NAME for `text`. `include`: where PyTorch's headers are."""
    code = SourceText.read(text).code
    headers = [*TENSOR_HEADERS]
    if "AT_DISPATCH" in code:
        headers.append("ATen/Dispatch.h")
    if STREAMS.search(text):
        headers += STREAM_HEADERS
    if _PYTHON.search(code):
        headers += PYTHON_HEADERS
    headers += function_headers(called_functions(code), include)
    return "\n".join(
        (
            "#pragma once",
            # What the C++ library's part of PyTorch's headers brings with it, and texts rely on.
            *(
                f"#include <{name}>"
                for name in ("algorithm", "cmath", "cstdint", "limits", "string", "tuple", "vector")
            ),
            *(f"#include <{name}>" for name in headers),
            names_in_torch(),
            "",
        )
    )


def function_headers(names: Iterable[str], include: Path) -> list[str]:
    """The headers of PyTorch's functions with these names, as far as it has such ones in `include`."""
    return [header for header in (f"ATen/ops/{name}.h" for name in names) if (include / header).is_file()]


def called_functions(code: str) -> list[str]:
    """The names of PyTorch's functions that `code` may call."""
    return sorted({match[1] for match in _CALLED.finditer(code)})


def names_in_torch() -> str:
    """What torch/types.h puts into `torch::`."""
    lines = ("using namespace at;", "using std::nullopt;", "using std::optional;", "using Dtype = at::ScalarType;")
    constants = (f"constexpr auto {name} = at::{other};" for name, other in _TYPES)
    return "\n".join(("namespace torch {", *lines, *constants, "}"))
