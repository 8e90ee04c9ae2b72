"""A module of C++ that Python imports, compiled against PyTorch's own headers in the sandbox for compilers.

What `torch.utils.cpp_extension.load_inline` compiles, with its flags: `cpp_sources` by the host compiler,
`cuda_sources` by nvcc. First with the headers that the text names (`narrow_includes`), then, where it does not
compile so, with all. What the compiler says of that is what counts.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from common.contract import Diagnostic, Phase, Settings, Severity, Status
from evaluator.backends.extension_key import content_key
from evaluator.backends.prebuilt import BuiltLibrary
from evaluator.disk_cache import SPARED_S, Cache, key_of
from evaluator.errors import Ruling
from evaluator.sandbox.sandbox import Job, JobResult, Limits, Sandbox
from evaluator.stages.compile import diagnostics
from evaluator.stages.compile.compiler_exit import out_of_memory, refused, run_compiler, said, until_it_tells
from evaluator.stages.compile.diagnostics import SOURCE_NAME
from evaluator.stages.compile.toolchain import Toolchain
from evaluator.stages.host.narrow_includes import NAME, begins_with_headers, narrow_header, with_narrow_includes
from evaluator.stages.host.prepared_headers import COMMON, HeaderPreparation, PreparedHeaders
from evaluator.stages.host.torch_outline import MACROS, NotOutlinedError, outlined, own_part
from evaluator.stages.host.torch_package import TorchPackage
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.extension.headers import FLAGS

log = logging.getLogger("assay.host")

_RULES: Final = "extension 1"
_NARROW_S: Final = 100.0
"""For one that does not: on one slow core the headers that it names take a sixth of that."""
_FULL_S: Final = 300.0
"""For a text that needs all of PyTorch's headers: they alone take a minute and a half of one slow core."""
_MAX_LIBRARY_BYTES: Final = 64 << 20
_MAX_OBJECT_BYTES: Final = 256 << 20
_MAX_PREPARED_BYTES: Final = 1 << 30
"""PyTorch's headers, prepared, are about 450 MiB."""
_FAST_MATH: Final = re.compile(r"--?use_fast_math")
_UNDEFINES: Final = re.compile(r"-U(__CUDA_NO_\w+)")
_SYNTAX: Final = re.compile(r"error:[^\n]*\bexpected (?:an? )?(?:[‘'\"][;,)}\]][’'\"]|expression|primary-expression)")
"""A first error that no header would have spared: all other ones may be for want of one."""
_CPP, _CUDA = "main.cpp", "cuda.cu"

Way = Literal["outline", "prepared", "narrow", "full"]
"""Of compiling a unit, the quickest first: nvcc reads an outline of PyTorch's headers; the host compiler has those
that the unit needs ready; they are read from their files; all of them are read."""


@dataclass(frozen=True)
class ExtensionText:
    """What `load_inline` is given."""

    name: str
    cpp_sources: tuple[str, ...]
    cuda_sources: tuple[str, ...]
    functions: tuple[str, ...] | None = None
    cuda_flags: tuple[str, ...] = ()
    whole: bool = False
    """Whether it is one file with all that it includes, and nothing is to be put before it."""

    @property
    def key(self) -> str:
        """By which the submission's process finds it."""
        return content_key(self.name, self.cpp_sources, self.cuda_sources, self.functions, self.cuda_flags)

    def units(self) -> dict[str, str]:
        """The files that are compiled, by name."""
        if self.whole:
            return {_CUDA if self.cuda_sources else _CPP: "\n".join((*self.cpp_sources, *self.cuda_sources))}
        bound = [f'm.def("{name}", torch::wrap_pybind_function({name}), "{name}");' for name in self.functions or ()]
        module = [] if self.functions is None else ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *bound, "}"]
        units = {_CPP: "\n".join(("#include <torch/extension.h>", *self.cpp_sources, *module)) + "\n"}
        if self.cuda_sources:
            first = ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>")
            units[_CUDA] = "\n".join((*first, *self.cuda_sources)) + "\n"
        return units


class _UncacheableError(Exception):
    """A refusal that another try may not meet."""

    def __init__(self, refusal: LiftRefusedError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass
class ExtensionBuild:
    """The build of one module."""

    text: ExtensionText
    settings: Settings
    arch: str
    torch: TorchPackage
    toolchain: Toolchain
    sandbox: Sandbox
    cache: Cache
    spent_s: float = field(default=0.0)
    """Of the compilers' time."""
    ways: dict[str, Way] = field(default_factory=dict)
    """How each unit was compiled in the end; of a module from the cache nothing."""
    detours: list[str] = field(default_factory=list)
    """Why a quicker way did not do, each with the unit and the first error."""

    def library(self) -> BuiltLibrary:
        """Compile and link; what was compiled before comes from the cache. Raises LiftRefusedError,
        InfrastructureError.
        """
        if not re.fullmatch(r"[A-Za-z_]\w*", self.text.name):
            raise LiftRefusedError(
                Status.COMPILE_ERROR, f"load_inline is given the name '{self.text.name}', which C++ does not take."
            )
        if self.torch.cuda is None and self.text.cuda_sources:
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                "The grader's PyTorch is built without CUDA, and the extension is CUDA.",
                "It was not judged, so there is no reward.",
            )
        units = json.dumps(self.text.units())
        flags = "\n".join((*self._cpp_flags, *self._cuda_flags))
        key = key_of(_RULES, self.text.name, units, flags, self.torch.version, self.toolchain.digest)
        try:
            made, _ = self.cache.get_or_make(key, self._made)
        except _UncacheableError as ended:
            raise ended.refusal from None
        if "refusal" in made:
            status, message, hint = json.loads(made["refusal"])
            raise LiftRefusedError(Status(status), message, hint)
        self.spent_s += float(made.get(SPARED_S, b"0"))
        return BuiltLibrary(self.text.key, self.text.name, made["library"])

    def compiled(self, name: str) -> bytes:
        """The object file of one unit. Raises LiftRefusedError, InfrastructureError."""
        try:
            return self._compiled(name, self.text.units()[name])
        except _UncacheableError as ended:
            raise ended.refusal from None

    @cached_property
    def _common_flags(self) -> tuple[str, ...]:
        found = ["-DTORCH_API_INCLUDE_EXTENSION_H"]
        for folder in self.torch.headers:
            found += ["-isystem", str(folder)]
        return tuple(found)

    @property
    def _named(self) -> str:
        return f"-DTORCH_EXTENSION_NAME={self.text.name}"

    @cached_property
    def _cpp_flags(self) -> tuple[str, ...]:
        # A text for the host may use the CUDA runtime too: load_inline gives it the toolkit's headers where there
        # are CUDA sources beside it.
        toolkit = [folder for folder in self.toolchain.headers if (folder / "cuda_runtime_api.h").exists()]
        cuda = [part for folder in toolkit for part in ("-isystem", str(folder))] if self.text.cuda_sources else []
        return ("-c", "-fPIC", f"-std={self.torch.standard}", *self._common_flags, *cuda)

    @cached_property
    def _cuda_flags(self) -> tuple[str, ...]:
        asked = self.text.cuda_flags
        undefined = {f"-D{match[1]}" for flag in asked if (match := _UNDEFINES.fullmatch(flag))}
        fast = ("--use_fast_math",) if any(_FAST_MATH.fullmatch(flag) for flag in asked) else ()
        virtual = self.arch.replace("sm_", "compute_")
        return (
            *("-c", f"-std={self.torch.standard}", "-Xcompiler", "-fPIC", *self._common_flags),
            *(flag for flag in FLAGS if flag not in undefined),
            *fast,
            *("-gencode", f"arch={virtual},code={self.arch}"),
        )

    def _made(self) -> Mapping[str, bytes]:
        try:
            units = self.text.units()
            objects = {f"{name}.o": self._compiled(name, unit) for name, unit in units.items()}
            if self.detours:
                log.info("the extension compiles by a slower way: %s", "; ".join(self.detours))
            return {"library": self._linked(objects)}
        except LiftRefusedError as refusal:
            ruling = refusal.ruling
            return {"refusal": json.dumps([ruling.status, ruling.message, ruling.hint]).encode()}

    def prepare(self) -> None:
        """Prepare headers for this build's flags, however few modules there were. Raises InfrastructureError."""
        self._prepared(_CPP, now=True)
        if self.text.cuda_sources:
            self._prepared(_CUDA, now=True)

    def _compiled(self, name: str, unit: str) -> bytes:
        narrow = with_narrow_includes(unit)
        run: JobResult | None = None
        if narrow != unit:
            include = self.torch.root / "include"
            prepared = self._prepared(name) if begins_with_headers(unit) else None
            if prepared and name == _CUDA and (made := self._by_outline(unit, prepared)) is not None:
                self.ways[name] = "outline"
                return made
            files = {name: narrow.encode(), NAME: narrow_header(unit, include).encode()}
            run = self._run(name, files, _NARROW_S, prepared if name == _CPP else None)
            if run.exit_code == 0 and "unit.o" in run.files:
                self.ways[name] = "prepared" if prepared and name == _CPP else "narrow"
                return run.files["unit.o"]
            self.detours.append(f"{name}: {_first_error(said(run))}")
        if run is None or _may_want_headers(run):
            run = self._run(name, {name: unit.encode()}, _FULL_S)
        if run.exit_code == 0 and "unit.o" in run.files:
            self.ways[name] = "full"
            return run.files["unit.o"]
        if run.timed_out:
            raise _UncacheableError(
                LiftRefusedError(
                    Status.TIMEOUT,
                    f"Compiling the extension took longer than {_FULL_S:g} s.",
                    "Look for recursive templates, constexpr loops and large arrays.",
                )
            )
        if out_of_memory(run):
            raise _UncacheableError(
                LiftRefusedError(
                    Status.OUT_OF_MEMORY,
                    f"Compiling the extension took more than {self.settings.memory_bytes >> 20} MiB of memory.",
                    "Look for recursive templates, huge constant arrays and very large unrolled loops.",
                )
            )
        # A unit of ours holds the submission's text: what a compiler says of it is about that.
        words = re.sub(rf"^{re.escape(name)}\b", SOURCE_NAME, said(run), flags=re.MULTILINE)
        errors = [
            one
            for one in diagnostics.parse_diagnostics(words, unit, self.toolchain.headers)
            if one.severity is Severity.ERROR
        ]
        why = _in_its_line(errors[0], unit) if errors else _first_error(words)
        refusal = LiftRefusedError(
            Status.COMPILE_ERROR,
            f"The extension does not compile: {why}",
            "It has to compile with torch.utils.cpp_extension as it stands.",
        )
        raise refusal if refused(run) else _UncacheableError(refusal)

    def _by_outline(self, unit: str, prepared: PreparedHeaders) -> bytes | None:
        """The object of a CUDA unit of which nvcc reads PyTorch's headers in outline; None where that does not do."""
        try:
            files = outlined(unit, _CUDA, self.torch.root / "include", prepared.files)
            files[MACROS] = prepared.macros.encode()
            nvcc = (str(self.toolchain.nvcc), *(flag for flag in self._cuda_flags if flag != "-c"), self._named)
            printing = (*nvcc, "-cuda", "-ccbin", str(self.toolchain.host_compiler), "-o", "unit.ii", _CUDA)
            run = self._limited(self._job(printing, files, "unit.ii"), _NARROW_S, _MAX_OBJECT_BYTES)
            if run.exit_code != 0 or "unit.ii" not in run.files:
                self.detours.append(f"{_CUDA}: {_first_error(said(run))}")
                return None
            own = own_part(run.files["unit.ii"].decode(errors="surrogateescape"), _CUDA, prepared.files)
        except NotOutlinedError as why:
            self.detours.append(f"{_CUDA}: {why}")
            return None
        text = f'#include "{COMMON}"\n{own}'.encode(errors="surrogateescape")
        gxx = (str(self.toolchain.host_compiler), *self._printed_flags, f"-I{prepared.folder}")
        job = self._job((*gxx, "-o", "unit.o", "unit.cpp"), {"unit.cpp": text}, "unit.o", (prepared.folder,))
        run = self._limited(job, _NARROW_S, _MAX_OBJECT_BYTES)
        if run.exit_code == 0 and "unit.o" in run.files:
            return run.files["unit.o"]
        self.detours.append(f"{_CUDA}: {_first_error(said(run))}")
        return None

    @cached_property
    def _printed_flags(self) -> tuple[str, ...]:
        """What nvcc gives the host compiler for what it has printed."""
        return ("-c", f"-std={self.torch.standard}", "-fPIC", "-Wno-psabi")

    def _prepared(self, name: str, *, now: bool = False) -> PreparedHeaders | None:
        if self.sandbox.image_id is not None:
            return None  # a container has files of its own
        preparation = HeaderPreparation(self.torch, self.toolchain, self.cache, self._readable, self._prepare)
        if name == _CPP:
            return preparation.for_host(self._cpp_flags, now=now)
        return preparation.for_cuda(self._cuda_flags, self._printed_flags, now=now)

    def _prepare(self, job: Job) -> JobResult:
        limits = Limits(
            wall_s=_FULL_S,
            cpu_s=_FULL_S,
            memory_bytes=self.settings.memory_bytes,
            file_bytes=_MAX_PREPARED_BYTES,
            work_bytes=2 * _MAX_PREPARED_BYTES,
        )
        return until_it_tells(lambda: run_compiler(self.sandbox, replace(job, limits=limits), self.toolchain))

    def _linked(self, objects: Mapping[str, bytes]) -> bytes:
        torch = self.torch
        libraries = ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
        if self.text.cuda_sources:
            runtime = torch.runtime
            toolkit = self.toolchain.nvcc.parent.parent
            held = [f"-L{toolkit / name}" for name in ("lib64", "lib") if (toolkit / name).is_dir()]
            cudart = ["-lcudart"] if runtime is None else [f"-L{runtime.parent}", f"-l:{runtime.name}"]
            libraries = ["-lc10", "-lc10_cuda", "-ltorch_cpu", "-ltorch_cuda", *libraries[2:], *held, *cudart]
        run = self._host_run(
            ("-shared", "-s", "-o", "unit.so", *objects, f"-L{torch.root / 'lib'}", *libraries), objects
        )
        if run.exit_code == 0 and "unit.so" in run.files:
            return run.files["unit.so"]
        refusal = LiftRefusedError(
            Status.COMPILE_ERROR,
            f"The extension cannot be linked: {_first_error(said(run))}",
            "Define each function once, and declare in cpp_sources what cuda_sources define.",
        )
        raise refusal if refused(run) else _UncacheableError(refusal)

    def _host_run(self, arguments: tuple[str, ...], files: Mapping[str, bytes]) -> JobResult:
        job = self._job((str(self.toolchain.host_compiler), *arguments), files, "unit.so")
        return self._limited(job, 60.0, _MAX_LIBRARY_BYTES)

    def _run(
        self, name: str, files: Mapping[str, bytes], limit_s: float, prepared: PreparedHeaders | None = None
    ) -> JobResult:
        toolchain = self.toolchain
        nvcc = (str(toolchain.nvcc), *self._cuda_flags, "-ccbin", str(toolchain.host_compiler))
        compiler = nvcc if name == _CUDA else (str(toolchain.host_compiler), *self._cpp_flags)
        folder = (prepared.folder,) if prepared else ()
        # By option: g++ takes a prepared header only where it comes first, and no other header includes it.
        first = (f"-I{prepared.folder}", "-include", COMMON) if prepared else ()
        job = self._job((*compiler, self._named, *first, "-o", "unit.o", name), files, "unit.o", folder)
        return self._limited(job, limit_s, _MAX_OBJECT_BYTES)

    def _job(
        self, argv: tuple[str, ...], files: Mapping[str, bytes], output: str, folder: tuple[Path, ...] = ()
    ) -> Job:
        readable = (*self._readable, *folder)
        return Job(argv, files=dict(files), collect=(output,), readable=readable, environment={"LC_ALL": "C"})

    @cached_property
    def _readable(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self.toolchain.readable, *self.torch.readable())))

    def _limited(self, job: Job, wall_s: float, file_bytes: int) -> JobResult:
        limits = Limits(
            wall_s=wall_s, cpu_s=wall_s + 1, memory_bytes=self.settings.memory_bytes, file_bytes=file_bytes
        )
        limited = replace(job, limits=limits)
        run = until_it_tells(lambda: run_compiler(self.sandbox, limited, self.toolchain))
        self.spent_s += run.wall_s - run.waited_s
        return run


def build_ruling(refusal: LiftRefusedError) -> Ruling:
    """A refusal, at the phase that it belongs to."""
    ruling = refusal.ruling
    compiles = ruling.status in (Status.COMPILE_ERROR, Status.TIMEOUT, Status.OUT_OF_MEMORY)
    return replace(ruling, phase=Phase.COMPILE) if compiles else ruling


def _in_its_line(error: Diagnostic, unit: str) -> str:
    """An error with the line that it is in: the unit is made of several texts, so that its number says little."""
    lines = unit.split("\n")
    if error.file != SOURCE_NAME or error.line is None or not 0 < error.line <= len(lines):
        return error.text
    return f"{error.text} (in `{lines[error.line - 1].strip()[:200]}`)"


def _may_want_headers(run: JobResult) -> bool:
    if not refused(run):
        return True  # it met a limit, or broke down
    first = re.search(r"[^\n]*error[^\n]*", said(run))
    return first is None or _SYNTAX.search(first[0]) is None


def _first_error(words: str) -> str:
    lines = [line.strip() for line in words.splitlines()]
    told = (line for line in lines if "error" in line.lower() or "undefined" in line or "multiple definition" in line)
    return next(told, "the compiler does not say why")[:300]
