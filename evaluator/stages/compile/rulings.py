"""What compiling says to the author of a source that gives no program; and what nvcc gave, as it is kept."""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common.contract import Diagnostic, Phase, Severity, Status
from common.source_lines import lines_of
from evaluator.backends.session import Entry, Parameter
from evaluator.errors import Ruling
from evaluator.stages.compile import diagnostics
from evaluator.stages.compile.diagnostics import SOURCE_NAME
from evaluator.stages.screen.template_kernels import template_kernels

MAX_IMAGE_BYTES: Final = 64 << 20
MAX_KERNELS: Final = 256


def ruling(status: str, message: str, hint: str | None = None, phase: str = Phase.COMPILE) -> Ruling:
    """A ruling by the names of its status and phase."""
    return Ruling(Status(status), Phase(phase), message, hint)


def image_too_large(what: str) -> Ruling:
    """An image of more than MAX_IMAGE_BYTES."""
    return ruling(
        "invalid_submission",
        f"The compiler's {what} is too large: an image may have {MAX_IMAGE_BYTES >> 20} MiB.",
        "Unroll less, instantiate fewer templates, and fill large tables at run time.",
    )


def too_many_kernels(kernels: int) -> Ruling:
    """More kernels than MAX_KERNELS, as templates make them."""
    return ruling(
        "invalid_submission",
        f"The source compiles to {kernels} kernels: a program may have {MAX_KERNELS}.",
        "Keep the kernels that the launch plan names, and instantiate templates only for what is launched.",
    )


def no_kernel(source: str) -> Ruling:
    """A source that compiles to nothing that can be launched."""
    if "__global__" in source:
        template = next(template_kernels(source), None)
        example = "template __global__ void k<float>(float*);" if template is None else template.instantiation()
        hint = (
            f"A kernel template must be instantiated in the source, for example `{example}` behind it, and a kernel "
            "must not be compiled away by #if."
        )
    else:
        hint = "Write at least one `__global__ void name(…)` function."
    return ruling("invalid_submission", "The source compiles, but there is no kernel in it.", hint)


def first_error(errors: Sequence[Diagnostic], source: str) -> Ruling:
    """The ruling on a source that a compiler refuses."""
    # One slip gives a line several errors; the one that we can say something about is the most telling.
    alike = [(one, diagnostics.hint(one, source)) for one in errors if one.line == errors[0].line]
    first, hint = next((pair for pair in alike if pair[1]), alike[0])
    where = f"{first.file}:{first.line}: " if first.file and first.line else f"{first.file}: " if first.file else ""
    more = f" (one of {len(errors)} errors)" if len(errors) > 1 else ""
    lines, quoted = lines_of(source), ""
    if first.file == SOURCE_NAME and first.line and first.line <= len(lines):
        quoted = f"\n    {first.line} | {lines[first.line - 1].strip()[:200]}"
    if "__global__" not in source and not (hint or "").startswith(diagnostics.PYTHON):
        # No kernel, whatever else is wrong with it: often it is no program at all.
        hint = " ".join(filter(None, ("There is no `__global__` function in the text.", hint)))
    return ruling("compile_error", f"{where}{first.text}{more}{quoted}", hint)


@dataclass(frozen=True)
class FrontResult:
    """What nvcc gave, as it is cached."""

    ruling: Ruling | None
    diagnostics: tuple[Diagnostic, ...]
    entries: tuple[Entry, ...] = ()
    ptx: str = ""
    canonical_sha256: str = ""
    host_object: bytes | None = None
    """Of the same run of nvcc, where it was asked for and came about."""

    def packed(self) -> dict[str, bytes]:
        """As the cache holds it."""
        facts = {
            "ruling": dataclasses.asdict(self.ruling) if self.ruling else None,
            "diagnostics": [one.model_dump(mode="json") for one in self.diagnostics],
            "entries": [dataclasses.asdict(entry) for entry in self.entries],
            "canonical_sha256": self.canonical_sha256,
        }
        objects = {} if self.host_object is None else {"object": self.host_object}
        return {"facts": json.dumps(facts).encode(), "ptx": self.ptx.encode(), **objects}

    @staticmethod
    def unpacked(entry: Mapping[str, bytes]) -> "FrontResult":
        """What `packed` gave."""
        facts = json.loads(entry["facts"])
        return FrontResult(
            ruling(**facts["ruling"]) if facts["ruling"] else None,
            tuple(Diagnostic.model_validate(one) for one in facts["diagnostics"]),
            tuple(
                Entry(**{**one, "parameters": tuple(_parameter(**each) for each in one["parameters"])})
                for one in facts["entries"]
            ),
            entry["ptx"].decode(),
            facts["canonical_sha256"],
            entry.get("object"),
        )


def _parameter(padding: Sequence[Sequence[int]] = (), **fields: Any) -> Parameter:
    """From JSON, which has lists for tuples."""
    return Parameter(**fields, padding=tuple((start, end) for start, end in padding))


def foreign_include(listed: bytes, source: str, own: Collection[str], headers: tuple[Path, ...]) -> Ruling | None:
    """A ruling if the compiler read a file that neither the submission (`own`) nor the toolchain (`headers`) brought.

    `listed`: what it read, as a rule of make. In a sandbox that hides the machine's files there are none; where it
    does not, they are treated as missing, so that a source meets the same end everywhere and learns nothing from it.
    """
    _, _, names = listed.decode(errors="surrogateescape").partition(":")
    folders = tuple(f"{folder}{os.sep}" for folder in headers)
    for name in re.findall(r"(?:\\\s|[^\s\\])+", names.replace("\\\n", " ")):
        path = re.sub(r"\\(.)", r"\1", name).replace("$$", "$")
        if path not in own and not _real_path(path).startswith(folders):
            return _missing_include(path, source)
    return None


def _missing_include(path: str, source: str) -> Ruling:
    lines = enumerate(lines_of(source), 1)
    line = next((number for number, text in lines if "include" in text and path in text), None)
    error = Diagnostic(
        file=SOURCE_NAME if line else None,
        line=line,
        column=None,
        severity=Severity.ERROR,
        code=None,
        text=f"{path if line else 'an included file'}: No such file or directory",
    )
    return first_error([error], source)


@functools.lru_cache(maxsize=4096)
def _real_path(path: str) -> str:
    return os.path.realpath(path) if os.path.isabs(path) else ""
