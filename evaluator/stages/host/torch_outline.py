"""An outline of PyTorch's headers for nvcc's front ends, and what they print of a text put on the headers themselves.

nvcc reads a text three times: for the device, for the host, and what the second prints once more with the host
compiler. The first two have to know what a tensor's methods are called and return, and make no code of them. So they
read declarations: `include/torch_outline.h`, the methods and functions that the text calls as PyTorch's own headers
declare them, and PyTorch's own macros. What is printed then is the same text as with those headers, and is compiled
on top of them (`prepared_headers`).
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from evaluator.stages.host.narrow_includes import NAME, STREAMS, WIDE, called_functions, names_in_torch
from evaluator.stages.lift.extension.headers import standard_headers
from evaluator.stages.screen.lexer import SourceText

OUTLINE: Final = "torch_outline.h"
MACROS: Final = "assay_macros.h"
_FOLDER: Final = Path(__file__).parent / "include"
_BEYOND: Final = re.compile(
    # Types that device code computes with: only PyTorch's own headers say how.
    r"AT_DISPATCH|\bcomplex\b|[Aa]ccessor|opmath|acc_type"
    # A module's own functions of pybind11's.
    r"|\bPYBIND11_\w+|\bpy(?:bind11)?\s*::"
    # What depends on how a type of PyTorch's is made, or on how often a macro was used before.
    r"|\b(?:sizeof|alignof|typeid|noexcept)\s*\([^()]*\b(?:at|torch|c10|Tensor\w*)\b|__COUNTER__"
    r"|\bis_\w+\s*<[^;{}()]*\b(?:at|torch|c10)\b"
    # What other namespaces than these hold.
    r"|\busing\s+namespace\s+(?:at|torch|c10)\b|\b(?:torch|at)\s*::\s*(?:nn|autograd|indexing|native|linalg)\b"
    # Says in which file a line is.
    r"|^[^\S\n]*#[^\S\n]*(?:line\b|\d)|\b_Pragma\b",
    re.MULTILINE,
)
_INCLUDE: Final = re.compile(r"^[^\S\n]*#[^\S\n]*include[^\S\n]*[<\"](?P<path>[^>\"\n]+)[>\"][^\n]*", re.MULTILINE)
_OF_TORCH: Final = re.compile(r"(?:torch|ATen|c10|caffe2|pybind11)/")
_METHOD: Final = re.compile(r"(?:\.|->)\s*(\w+)\s*[(<]")
_DECLARED: Final = re.compile(r"^  (?P<all>[\w:&<>, ]+ (?P<name>\w+)\((?P<parameters>.*)\) const);$", re.MULTILINE)
_DEFINED: Final = re.compile(r"^inline (?P<all>[\w:&<>, ]+ (?P<name>\w+)\((?P<parameters>.*)\)) \{", re.MULTILINE)
_UNKNOWN: Final = re.compile(
    r"SymInt|SymBool|Dimname|Generator|Storage|Stream|ITensorListRef|List<|ArrayRef<at::Tensor>"
)
_OURS: Final = frozenset((NAME, OUTLINE, MACROS, "assay_methods.h", "assay_functions.h"))
_EMPTY: Final = re.compile(r"(?:#[^\n]*\n|\s)*+")
_NESTING: Final = re.compile(r'^(# \d+ "[^"\n]*")(?: \d)+$', re.MULTILINE)
_MARKER: Final = re.compile(r'^# \d+ "(?P<file>[^"\n]*)"[^\n]*\n', re.MULTILINE)


class NotOutlinedError(Exception):
    """A text that needs PyTorch's own headers."""


def outlined(unit: str, name: str, include: Path, covered: frozenset[str]) -> dict[str, bytes]:
    """The files for nvcc: the text, in its lines, and the outline of what it calls.

    `include`: where PyTorch's headers are; `covered`: the files of all that the text is put on afterwards, resolved.
    Raises NotOutlinedError.
    """
    code = SourceText.read(unit).code
    if beyond := _BEYOND.search(code):
        raise NotOutlinedError(f"it has `{beyond[0].strip()[:60]}`")

    if 'R"' in unit:
        raise NotOutlinedError("it has a raw string")  # which may hold lines that look like those of a compiler

    def one(match: re.Match[str]) -> str:
        path = match["path"]
        if not _OF_TORCH.match(path):
            return match[0]
        if WIDE.match(match[0]) or os.path.realpath(include / path) in covered:
            return f'#include "{NAME}"'
        raise NotOutlinedError(f"it includes {path}")

    text = _INCLUDE.sub(one, unit)
    called = called_functions(code)
    header = "\n".join(
        (
            "#pragma once",
            *(["#define STREAMS_OUTLINED"] if STREAMS.search(unit) else []),
            *(f"#include <{name}>" for name in standard_headers(code)),
            f'#include "{OUTLINE}"',
            f'#include "{MACROS}"',
            names_in_torch(),
        )
    )
    methods = {match[1] for match in _METHOD.finditer(code)}
    return {
        name: text.encode(),
        NAME: header.encode(),
        OUTLINE: (_FOLDER / OUTLINE).read_bytes(),
        "assay_methods.h": "\n".join(sorted(_methods(include, methods))).encode(),
        "assay_functions.h": "\n".join(_functions(include, called)).encode(),
    }


@cache
def _all_methods(include: Path) -> tuple[tuple[str, str], ...]:
    try:
        text = (include / "ATen/core/TensorBody.h").read_text(encoding="utf-8")
    except OSError:
        return ()
    return tuple(
        (match["name"], f"{match['all']};") for match in _DECLARED.finditer(text) if not _UNKNOWN.search(match["all"])
    )


def _methods(include: Path, names: set[str]) -> Iterator[str]:
    return (declared for name, declared in _all_methods(include) if name in names)


def _functions(include: Path, names: list[str]) -> Iterator[str]:
    for name in names:
        path = include / "ATen/ops" / f"{name}.h"
        if path.is_file():
            for match in _DEFINED.finditer(path.read_text(encoding="utf-8")):
                if not _UNKNOWN.search(match["all"]):
                    yield f"{match['all']};"


def macros_of(preprocessed: str, folders: tuple[Path, ...]) -> tuple[str, frozenset[str]]:
    """The macros that the files under `folders` define, and all files, resolved: of a text from `g++ -E -dD`."""
    inside = tuple(f"{os.path.realpath(folder)}{os.sep}" for folder in folders)
    lines: list[str] = []
    files: set[str] = set()
    for path, text in _segments(preprocessed):
        files.add(path)
        if path.startswith(inside):
            lines += [line for line in text.split("\n") if line.startswith(("#define ", "#undef "))]
    return "\n".join(lines), frozenset(files)


def before_kernels(printed: str) -> str:
    """Of what nvcc prints of a text without kernels: the headers, without the part that registers them."""
    return printed[: _registration(printed)]


def own_part(printed: str, name: str, covered: frozenset[str]) -> str:
    """Of what nvcc prints of an outlined text `name`: the text itself and what registers its kernels.

    Raises NotOutlinedError where something else belongs to it.
    """
    at = _registration(printed)
    parts: list[str] = []
    begun = False  # Before all headers nvcc prints lines of its own, which the prepared headers have as well.
    for path, text in _segments(printed[:at]):
        if path == name:
            parts += [text] if begun else []
        elif _EMPTY.fullmatch(text) is None:
            begun = True
            if path not in covered and os.path.basename(path) not in _OURS:
                raise NotOutlinedError(f"it includes {path}")
    parts += [text for path, text in _segments(printed[at:]) if path not in covered]
    # Where a file begins and ends is no longer true.
    return _NESTING.sub(r"\1", "".join(parts))


def _registration(printed: str) -> int:
    found = re.search(r'^# 1 "[^"\n]*\.cudafe1\.stub\.c"', printed, re.MULTILINE)
    if found is None:
        raise NotOutlinedError("nvcc prints it in another form than is known")
    return found.start()


def _segments(printed: str) -> Iterator[tuple[str, str]]:
    """Files, resolved where they have a folder, with each piece of text that comes from them, its markers before."""
    found = list(_MARKER.finditer(printed))
    resolved: dict[str, str] = {}
    for match, after in zip(found, (*found[1:], None), strict=True):
        file = match["file"]
        if file not in resolved:
            resolved[file] = os.path.realpath(file) if file.startswith("/") else file
        end = after.start() if after else len(printed)
        yield resolved[file], printed[match.start() : end]
