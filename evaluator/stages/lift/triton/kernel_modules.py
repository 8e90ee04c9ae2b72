"""The PTX that Triton writes for each kernel, put together as one program, with the lines of the Python text."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import Field, StrictInt

from common.contract import Status
from common.wire import Wire
from evaluator.backends.session import Entry
from evaluator.stages.compile.diagnostics import SOURCE_NAME
from evaluator.stages.compile.kernel_entries import entries_as_written
from evaluator.stages.compile.parameter_types import Declaration, Described, Kind
from evaluator.stages.compile.rulings import MAX_IMAGE_BYTES, MAX_KERNELS
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.triton.inside.record import SOURCE

_Text = Annotated[str, Field(max_length=256)]
_HEADER: Final = re.compile(r"^[ \t]*\.(?:version|target|address_size)\b[^\n]*\n", re.MULTILINE)
_ENTRY: Final = re.compile(r"\.entry\s+([A-Za-z_$][\w$]*)\s*\(")
_FILE: Final = re.compile(r'^[ \t]*\.file\s+(\d+)\s+"([^"\n]*)"[^\n]*$', re.MULTILINE)
_DEBUG: Final = re.compile(r"^[ \t]*\.section\s+\.debug_\w+\s*\{[^{}]*\}", re.MULTILINE)
_LOCATION: Final = re.compile(
    r"^([ \t]*)\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+[\w$+ ]+?,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?[^\n]*\n",
    re.MULTILINE,
)
_EXTERN: Final = re.compile(r"^[ \t]*\.extern\s[^;]{0,4000};", re.MULTILINE)
_DEFINED: Final = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak)\s+)?"
    r"(?:\.func\s*(?:\([^()]*\)\s*)?|\.(?:global|const|shared)\s+(?:\.align\s+\d+\s+)?\.\w+\s+)"
    r"([A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
_COMMENT: Final = re.compile(r"(?<![ \t])[ \t]*//[^\n]*")
_C_TYPES: Final[dict[str, tuple[str, Kind, int]]] = {
    "i1": ("bool", "uint", 1), "u1": ("bool", "uint", 1), "i8": ("signed char", "int", 1),
    "u8": ("unsigned char", "uint", 1), "i16": ("short", "int", 2), "u16": ("unsigned short", "uint", 2),
    "i32": ("int", "int", 4), "u32": ("unsigned int", "uint", 4), "i64": ("long long", "int", 8),
    "u64": ("unsigned long long", "uint", 8), "fp16": ("__half", "float", 2), "bf16": ("__nv_bfloat16", "float", 2),
    "fp32": ("float", "float", 4), "f32": ("float", "float", 4), "fp64": ("double", "float", 8),
}  # fmt: skip
_SCRATCH: Final = ("global_scratch", "profile_scratch")
"""What Triton adds behind a kernel's own parameters."""


class TritonKernel(Wire):
    """One kernel as Triton compiled it for one specialisation."""

    name: Annotated[str, Field(max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    line: StrictInt
    ptx: Annotated[str, Field(max_length=MAX_IMAGE_BYTES)]
    parameters: Annotated[tuple[tuple[_Text, _Text], ...], Field(max_length=256)]
    """Names and Triton's types."""


@dataclass
class KernelModule:
    """Kernels by their ids, in the order in which they were found. The first of a name keeps it: `add`, `add_2`, …"""

    names: dict[str, str] = field(default_factory=dict)
    """What each is called in the program, by its id."""
    kernels: dict[str, TritonKernel] = field(default_factory=dict)

    def add(self, found: Mapping[str, TritonKernel], ids: Iterable[str]) -> None:
        """Take those of `ids` that are new. Raises LiftRefusedError where they are too many."""
        for digest in dict.fromkeys(ids):
            kernel = found[digest]
            if digest in self.names:
                continue
            if len(self.names) >= MAX_KERNELS:
                raise LiftRefusedError(
                    Status.INVALID_SUBMISSION,
                    f"The Python launches more than {MAX_KERNELS} different kernels, specialisations counted.",
                    "Make constants of what takes few values, and parameters of what takes many.",
                )
            taken, number, name = set(self.names.values()), 1, kernel.name
            while name in taken:
                number += 1
                name = f"{kernel.name}_{number}"
            self.names[digest], self.kernels[digest] = name, kernel

    def program(self) -> tuple[str, tuple[Entry, ...]]:
        """PTX and entries. Raises LiftRefusedError where the PTX is none that Triton writes."""
        externs: dict[str, None] = {}
        bodies: list[str] = []
        declared: dict[str, Declaration] = {}
        heads = [_head(kernel.ptx) for kernel in self.kernels.values()]
        for number, (digest, kernel) in enumerate(self.kernels.items()):
            symbol = self.names[digest]
            body = _body(kernel, symbol, number)
            externs |= dict.fromkeys(" ".join(one.split()) for one in _EXTERN.findall(body))
            bodies.append(_EXTERN.sub("", body).strip("\n"))
            declared[symbol] = _declaration(kernel)
        text = "\n".join((max(heads, default=""), f'.file 1 "{SOURCE_NAME}"', *externs, *bodies, ""))
        entries = entries_as_written(text, declared)
        if entries is None or len(entries) != len(self.kernels):
            raise not_triton("its kernels have other parameters than it says")
        return text, entries


def not_triton(what: str) -> LiftRefusedError:
    """For what the recorder and Triton do not write."""
    return LiftRefusedError(
        Status.REJECTED,
        f"What was recorded of the Python is not what Triton compiled: {what}.",
        "Launch kernels through Triton, and leave the files and the modules of the grader alone.",
    )


def _head(ptx: str) -> str:
    """Version, target and size of addresses; of several kernels the highest version."""
    found = [match[0].strip() for match in _HEADER.finditer(ptx)]
    if len(found) != 3:
        raise not_triton("a kernel's PTX has no header")
    return "\n".join(re.sub(r"(?<!\s)\s*(?://[^\n]*|,\s*debug)$", "", line) for line in found)


def _body(kernel: TritonKernel, symbol: str, number: int) -> str:
    """A kernel's PTX without header and debug sections; names are its own, and lines are those of the submission."""
    text = _DEBUG.sub("", _HEADER.sub("", kernel.ptx))
    own = {match[1] for match in _FILE.finditer(text) if PurePosixPath(match[2]).name == SOURCE}
    text = _FILE.sub("", text)

    def line(match: re.Match[str]) -> str:
        places = ((match[2], match[3], match[4]), (match[5], match[6], match[7]))
        for file, row, column in places:
            if file in own:
                return f"{match[1]}.loc 1 {row} {column}\n"
        return ""  # a line of Triton's own: what it is called from was said before

    text = _COMMENT.sub("", _LOCATION.sub(line, text))
    found = _ENTRY.findall(text)
    if len(found) != 1:
        raise not_triton(f"the PTX of {kernel.name} has {len(found)} kernels")
    renamed = {name: f"{name}_{number}" for name in _DEFINED.findall(_EXTERN.sub("", _outside(text)))}
    renamed[found[0]] = symbol
    names = "|".join(re.escape(name) for name in sorted(renamed, key=len, reverse=True))
    # Before a dot it is an instruction, as `add.s32` in a kernel that is called `add`.
    return re.sub(rf"(?<![\w$%.])(?:{names})(?![\w$.])", lambda match: renamed[match[0]], text)


def _outside(text: str) -> str:
    """What of a PTX text stands outside of all braces."""
    kept, depth = [], 0
    for piece in re.split(r"([{}])", text):
        depth += (piece == "{") - (piece == "}")
        if depth == 0:
            kept.append(piece)
    return "".join(kept)


def _declaration(kernel: TritonKernel) -> Declaration:
    own = tuple(_described(name, kind) for name, kind in kernel.parameters)
    slots = kernel.ptx[kernel.ptx.find(".entry") :].partition("(")[2].partition(")")[0].count(".param")
    added = _SCRATCH[: max(0, slots - len(own))]
    return Declaration(kernel.line, own + tuple(Described(one, "void*", "pointer", 8, "void") for one in added))


def _described(name: str, kind: str) -> Described:
    if kind.startswith("*"):
        behind = kind.lstrip("*").removeprefix("k") if not kind.startswith("**") else ""
        pointee = _C_TYPES[behind][0] if behind in _C_TYPES else "void"
        return Described(name, f"{pointee}*", "pointer", 8, pointee)
    if kind not in _C_TYPES:
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            f"A kernel takes an argument of the type {kind} ({name}), which cannot be recorded.",
            "Pass tensors and numbers. It was not judged, so there is no reward.",
        )
    c_type, what, size = _C_TYPES[kind]
    return Described(name, c_type, what, size, None)
