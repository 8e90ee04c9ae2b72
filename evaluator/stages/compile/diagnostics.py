"""What the compilers said, as data: messages of nvcc's front end (EDG), g++'s preprocessor and ptxas.

Only messages are kept, never the source lines that compilers quote under them, so nothing of a file that the
submission did not bring can get out. Messages about such files keep their place in the list and lose their text.
"""

import difflib
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from common.contract import Diagnostic, Severity
from common.source_lines import lines_of
from evaluator.stages.compile.kernel_entries import demangled

SOURCE_NAME: Final = "kernel.cu"
MAX_DIAGNOSTICS: Final = 50
_MAX_READ: Final = 4 * MAX_DIAGNOSTICS
"""Messages of each severity that are read: some look the same once what nobody may see is left out."""
_MAX_TEXT: Final = 1000
_MAX_LINE: Final = 4000
_MAX_STDERR: Final = 1 << 20
"""A source can make a compiler talk without end; what is read of it stays cheap to read."""
_HIDDEN: Final = "message about a file that the submission did not bring"

_EDG = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)\((?P<line>\d+)\): (?P<severity>catastrophic error|internal error|error|warning|note|"
    r"remark)(?: (?P<code>#[\w-]+))?: (?P<text>.*)$"
)
_EDG_END = re.compile(r"^At end of source: (?P<severity>error|warning)(?: (?P<code>#[\w-]+))?: (?P<text>.*)$")
_GNU = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::(?P<column>\d+))?: "
    r"(?P<severity>fatal error|error|warning|note): (?P<text>.*?)(?: \[(?P<code>-W[^\]\s]{1,100})\])?$"
)
_PTXAS = re.compile(
    r"^ptxas (?:[^,\n]+, line (?P<line>\d+); )?(?P<severity>fatal|error|warning|info) *: (?P<text>.*)$", re.IGNORECASE
)
_CICC = re.compile(r"^(?P<severity>error|warning) *: (?P<text>.*)$")
_NOISE = re.compile(
    r"^(Remark: The warnings can be suppressed|\d+ (error|warning)s? detected|compilation terminated|"
    r"ptxas fatal *: Ptx assembly aborted|ptxas info|In file included from| +from |Compilation (terminated|aborted)|"
    r"Error limit reached|\d+ catastrophic error)"
)
_CARET = re.compile(r"^\s*[\^~][\s\^~]*$|^\s*\d* \|")
_CONTEXT = re.compile(r"^ {6,}(detected |instantiation |implicit |function |because |candidate |argument |object )")
_RENUMBERS = re.compile(r"^[^\S\n]*(?:#|%:)\s*(?:line\b|\d)", re.MULTILINE)
_PATH = re.compile(r"(?:/[\w.+-]+){2,}")
_SEVERITIES: Final = {
    "warning": Severity.WARNING,
    "note": Severity.NOTE,
    "remark": Severity.NOTE,
    "info": Severity.NOTE,
}
# GNU as, at a place that an asm statement may have renamed. That it cannot write its file is no fault of the source.
_ASSEMBLER = re.compile(
    r"^[^\n]+:\d+: (?P<severity>Error: |Fatal error: (?!can't |[^\n]{0,200}(?:No space left|memory)))",
    re.MULTILINE,
)
PYTHON: Final = "This looks like Python."
"""How the hint on such a text begins."""
ASSEMBLY: Final = "the assembler of the host refuses what an asm statement says"
"""Nothing of its own words, since they quote the files that `.include` names."""
# At a place (whatever a source has made of the file's name), or at none, in the words of EDG, cicc and ptxas.
_NAMED = re.compile(
    r"^(?:[^\n]*(?:\(\d+\)|:\d+(?::\d+)?): (?:catastrophic |fatal )?error\b|At end of source: error\b|error +: "
    r"|ptxas (?:[^,\n]+, line \d+; )?(?:error|fatal) *: (?!Ptx assembly aborted))",
    re.MULTILINE,
)
# What g++ and clang say last where a linker has refused.
_LINKER: Final = re.compile(
    r"^\S{0,300}(?:collect2\S{0,50}: error: ld returned \d+ exit|clang\S{0,50}: error: linker command failed)",
    re.MULTILINE,
)

_COUNTED = re.compile(r"^\d+ errors? detected in the compilation of ", re.MULTILINE)


def parse_diagnostics(
    stderr: str,
    source: str,
    headers: Iterable[Path] = (),
    ptx_lines: dict[int, int] | None = None,
) -> tuple[Diagnostic, ...]:
    """The messages in `stderr`, errors first where there are more than MAX_DIAGNOSTICS, else in order.

    `source` is the submission, `headers` the folders of the toolchain whose file names may be shown, `ptx_lines` maps
    lines of the PTX that ptxas read to lines of the source (see `source_lines`).
    """
    folders = tuple(str(folder) for folder in headers)
    seen: dict[Severity, int] = {}
    chosen_ones: dict[tuple[str, ...], tuple[re.Match[str], list[str]]] = {}
    for match, extra in _messages(stderr):
        severity, key = _severity_of(match), (match[0], *extra)
        if key not in chosen_ones and seen.get(severity, 0) < _MAX_READ:
            seen[severity] = seen.get(severity, 0) + 1
            chosen_ones[key] = match, extra
    paths = frozenset(_PATH.findall(source)) if chosen_ones else frozenset[str]()
    found = [_shown(match, extra, folders, source, paths, ptx_lines or {}) for match, extra in chosen_ones.values()]
    unique = list(dict.fromkeys(found))
    if len(unique) > MAX_DIAGNOSTICS:
        order = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
        chosen = sorted(range(len(unique)), key=lambda index: (order.index(unique[index].severity), index))
        unique = [unique[index] for index in sorted(chosen[:MAX_DIAGNOSTICS])]
    return tuple(unique)


def source_lines(ptx: str) -> dict[int, int]:
    """For each line of `ptx` in a function, the source line that its last `.loc` names (inlined code: the call)."""
    names = dict(re.findall(r'^[^\S\n]*\.file[^\S\n]+(\d+)[^\S\n]+"([^"\n]*)"', ptx, re.MULTILINE))
    own = {number for number, name in names.items() if PurePosixPath(name).name == SOURCE_NAME}
    lines: dict[int, int] = {}
    current: int | None = None
    for number, text in enumerate(ptx.split("\n"), 1):
        places = re.match(r"\s*\.loc\s+(\d+)\s+(\d{1,10})\b(?:.*inlined_at\s+(\d+)\s+(\d{1,10})\b)?", text)
        if places:
            pairs = ((places[1], places[2]), (places[3], places[4]))
            current = next((int(line) for file, line in pairs if file in own and line != "0"), current)
        elif text.startswith("}"):
            current = None
        elif current is not None:
            lines[number] = current
    return lines


@functools.lru_cache(maxsize=512)
def short_name(file: str, folders: tuple[str, ...] = ()) -> str | None:
    """The name that may be shown for `file`: the submission's own, a toolchain header's, or None for any other."""
    if PurePosixPath(file).name == SOURCE_NAME:
        return SOURCE_NAME
    real = str(Path(file).resolve()) if file.startswith("/") else file
    inside = [folder for folder in folders if real.startswith(folder.rstrip("/") + "/")]
    return real[len(max(inside, key=len).rstrip("/")) + 1 :] if inside else None


def unplaced(stderr: str) -> str:
    """The lines that do not speak of a place in a file: the compiler's of itself, and further ones of a message."""
    return "\n".join(line for line in stderr.split("\n") if not re.match(r"\s|[^:]*\(\d+\)|[^:]*:\d+:", line))


def names_an_error(text: str) -> bool:
    """Whether a compiler, its assembler or a linker says what is wrong with a source. That it broke down itself is no
    such thing.
    """
    return bool(_NAMED.search(text) or _LINKER.search(text)) or names_an_assembler_error(text)


def names_an_assembler_error(text: str) -> bool:
    """Whether GNU as says what is wrong with what it was given."""
    return bool(_ASSEMBLER.search(text))


def last_error(text: str) -> int:
    """Where the last error, or the count of all, begins; -1 where none is named."""
    starts = [found.start() for found in _NAMED.finditer(text)]
    return max(starts + [found.start() for found in _COUNTED.finditer(text)]) if starts else -1


def _messages(stderr: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Each message's first line with the lines of text that belong to it; quoted source and noise left out."""
    current: re.Match[str] | None = None
    extra: list[str] = []
    lines = [line[:_MAX_LINE] for line in stderr[:_MAX_STDERR].split("\n")]
    for index, line in enumerate(lines):
        match = next(
            (m for m in (p.match(line) for p in (_ASSEMBLER, _EDG, _EDG_END, _GNU, _PTXAS, _CICC)) if m), None
        )
        if match and not _NOISE.match(line):
            if current:
                yield current, extra
            current, extra = match, []
        elif (
            current and not _NOISE.match(line) and _belongs(line, lines[index + 1] if index + 1 < len(lines) else "")
        ):
            extra.append(line.strip())
    if current:
        yield current, extra


def _belongs(line: str, following: str) -> bool:
    """Whether a further line of a message is the compiler's own words, not a quoted source line or its caret."""
    if not line.strip() or _CARET.match(line) or _CARET.match(following):
        return False
    return bool(_CONTEXT.match(line))


def _shown(
    match: re.Match[str],
    extra: list[str],
    folders: tuple[str, ...],
    source: str,
    paths: frozenset[str],
    ptx_lines: dict[int, int],
) -> Diagnostic:
    groups = match.groupdict()
    line_count = source.count("\n") + 1
    severity = _severity_of(match)
    line = int(groups["line"]) if groups.get("line") else None
    file: str | None = None
    claimed: int | None = None
    hidden = False
    if match.re is _ASSEMBLER:
        return Diagnostic(file=None, line=None, column=None, severity=severity, code=None, text=ASSEMBLY)
    if match.re is _PTXAS:
        line = ptx_lines.get(line) if line is not None else None
        file = SOURCE_NAME if line is not None else None
    elif groups.get("file"):
        file = short_name(groups["file"], folders)
        if file == SOURCE_NAME and line is not None and line > line_count:
            # A `#line` gave this number. Without one it is the line of some other file of that name.
            file, claimed, line = SOURCE_NAME if _RENUMBERS.search(source) else None, line, None
        hidden = file is None
    elif match.re is _EDG_END:
        file, line = SOURCE_NAME, line_count
    if hidden:
        return Diagnostic(file=None, line=None, column=None, severity=severity, code=groups.get("code"), text=_HIDDEN)
    text = " ".join([groups["text"].strip(), *extra])
    if match.re is _PTXAS:
        text = re.sub(r"\b_Z\w+", lambda symbol: demangled(symbol[0]), text)
        text = re.sub(r"\b0x([0-9a-fA-F]{1,16})\b", lambda number: str(int(number[1], 16)), text)
    if claimed is not None:
        text += f" (line {claimed} by the source's own #line; the file has {line_count})"
    return Diagnostic(
        file=file,
        line=line,
        column=int(groups["column"]) if groups.get("column") and file == SOURCE_NAME else None,
        severity=severity,
        code=groups.get("code"),
        text=_PATH.sub(lambda path: _shown_path(path[0], folders, paths), text[: 2 * _MAX_TEXT])[:_MAX_TEXT],
    )


def _severity_of(match: re.Match[str]) -> Severity:
    return _SEVERITIES.get(match["severity"].lower(), Severity.ERROR)


def _shown_path(path: str, folders: tuple[str, ...], paths: frozenset[str]) -> str:
    """A path inside a message: as it is where the source has it (one of `paths`), short where it is a header's, else
    left out.
    """
    return path if path in paths else short_name(path, folders) or "(path)"


_HEADERS_OF: Final = (
    (r"(?:__half2?|half2?|__float2half\w*|__half2float|__h\w+)", "cuda_fp16.h"),
    (r"(?:__nv_bfloat162?|nv_bfloat162?|__float2bfloat16\w*|__bfloat162float)", "cuda_bf16.h"),
    (r"(?:__nv_fp8\w*)", "cuda_fp8.h"),
    (r"(?:cooperative_groups|cg)", "cooperative_groups.h"),
    (r"(?:wmma|nvcuda)", "mma.h"),
    (r"(?:u?int(?:8|16|32|64)_t|uintptr_t)", "cstdint"),
    (r"(?:FLT_MAX|FLT_MIN|FLT_EPSILON|DBL_MAX)", "cfloat"),
    (r"(?:INT_MAX|INT_MIN|UINT_MAX)", "climits"),
    (r"(?:assert)", "cassert"),
    (r"(?:CUDART_INF_F|CUDART_NAN_F|CUDART_PI_F)", "math_constants.h"),
)


_NEWER: Final = re.compile(
    r"not supported for this GPU architecture|has no member \"(?:\w*cluster\w*|(?:cp_async|memcpy_async)_bulk\w*)\""
)
"""What is declared for some architectures alone: clusters and bulk copies from sm_90 on."""


def hint(error: Diagnostic, source: str) -> str | None:
    """What to do about `error`, where it is a common mistake."""
    text = error.text
    if missing := re.search(r"([\w./+-]+): No such file or directory", text):
        return _about_missing_header(missing[1])
    if re.search(r'expected an? ";"', text):
        return _about_missing_semicolon(error.line, lines_of(source)) if error.line else None
    if undefined := re.search(r'(?:identifier|name followed by "::") "?(\w+)"? is undefined', text):
        return _about_undefined(undefined[1], source)
    if called := re.search(r'calling a __host__ function\("?([^"(]+)', text):
        return f"`{called[1].strip()}` runs on the host only: mark it __device__, or do without it in a kernel."
    if "uses too much shared data" in text:
        return (
            "Use less static shared memory (48 KB at most), or `extern __shared__` with `shared` in the launch plan."
        )
    if (
        "Not a name of any known instruction" in text
        or "Unknown modifier" in text
        or "not supported on .target" in text
    ):
        return "The inline assembly is not valid PTX for this architecture: see the PTX ISA for what it allows."
    if _NEWER.search(text) or ("#error" in text and "__CUDA_ARCH__" in source):
        return (
            "It needs a newer architecture than it was compiled for: ask for that one, as `--arch sm_90a` does (the "
            "setting `arch`)."
        )
    if "kernel launch from __device__ or __global__" in text:
        return (
            "A kernel cannot launch another one here. Launch each of them from the plan: a line "
            "`// assay: launch KERNEL grid=(…) block=(…) args=(…)` for each, in order."
        )
    if "has already been defined" in text or 'has "C" linkage' in text:
        return "Keep one of the two, or give one another name: all versions of a kernel stand in one file."
    if "requires --extended-lambda" in text:
        return "Leave the annotation out: lambdas in a kernel are device code. Or ask for the flag --extended-lambda."
    if "must return void" in text or 'a "__global__" function' in text or "__global__ function" in text:
        return "A kernel is a free (or static member) function that returns void and takes its arguments by value."
    if member := re.search(r'namespace "std" has no member "(\w+)"', text):
        return f"std::{member[1]} is a host library name: a kernel needs plain arrays, or <cuda/std/...>."
    return None


def _about_missing_semicolon(line: int, lines: list[str]) -> str:
    """The compiler names the line of what comes next: what lacks a semicolon ends there, or on the line before."""
    code = [(number, text.strip()) for number, text in enumerate(lines[: line - 1], 1)]
    before = [(number, text) for number, text in code if text and not text.startswith(("//", "#", "*", "/*"))]
    if line > len(lines):
        return f"A semicolon is probably missing at the end of line {line - 1}, or earlier."
    if not before or before[-1][1].endswith((";", "{", "}", ":", ",", "(", "*/")):
        return f"A semicolon is probably missing in line {line}, between two statements."
    return f"A semicolon is probably missing at the end of line {before[-1][0]}."


def _about_missing_header(name: str) -> str:
    if name.startswith(("torch/", "ATen/", "c10/")):
        return (
            "PyTorch's headers are not here for kernels alone: submit a whole extension with its `PYBIND11_MODULE`, "
            "or only the `__global__` kernels, with a launch plan in place of the wrapper that called them."
        )
    return (
        f"`{name}` is not here: a submission is one file, with the headers of nvcc and no libraries. Put its text "
        "into the source; if only host code needs it, delete both, since host code never runs."
    )


def _about_undefined(name: str, source: str) -> str | None:
    if name in ("import", "def", "from"):
        return (
            f"{PYTHON} What is graded of it are Triton kernels with a function `run(…)` that launches "
            "them and a class `ModelNew` with CUDA kernels; otherwise submit the kernels as CUDA C++."
        )
    for pattern, header in _HEADERS_OF:
        if re.fullmatch(pattern, name) and f"<{header}>" not in source:
            return f"`{name}` needs `#include <{header}>`."
    known = dict.fromkeys(word for word in re.findall(r"[A-Za-z_]\w*", source) if word != name)
    near = difflib.get_close_matches(name, [*known, *_BUILT_IN], n=1, cutoff=0.75)
    return f"`{name}` is not declared; did you mean `{near[0]}`?" if near else None


_BUILT_IN: Final = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__syncthreads", "__syncwarp", "__shfl_down_sync"),
    *(
        "__shfl_xor_sync",
        "__shfl_sync",
        "__ballot_sync",
        "__ldg",
        "atomicAdd",
        "atomicMax",
        "rsqrtf",
        "sqrtf",
        "expf",
    ),
    *("__expf", "logf", "tanhf", "erff", "fmaxf", "fminf", "fabsf", "powf", "__shared__", "__restrict__", "float4"),
)
