"""Source in, PTX and cubin out: real nvcc and ptxas, each in a sandbox, nothing compiled twice.

nvcc makes the PTX that every backend judges; beside it, where a kernel is not written plainly, a second nvcc makes
PTX with DWARF (`-G`), from which the parameters' names and types are read; then ptxas makes the cubin from that PTX,
without its debug lines, in a fresh sandbox. The steps have keys of their own in the cache: a change of comments needs
no new cubin.
"""

import dataclasses
import hashlib
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from common.contract import Diagnostic, KernelResources, Settings, Severity
from evaluator.backends.session import Entry, Program
from evaluator.disk_cache import SPARED_S, Cache, key_of
from evaluator.errors import InfrastructureError, Ruling, StorageError, ToolchainMissingError
from evaluator.installation import install_command
from evaluator.sandbox.sandbox import Job, JobResult, Limits, Sandbox
from evaluator.stages.compile import diagnostics, resources
from evaluator.stages.compile.canonical_ptx import canonical_ptx, placeless, without_debug
from evaluator.stages.compile.compiler_exit import (
    crash,
    out_of_memory,
    out_of_room,
    refused,
    run_compiler,
    signals_told,
    until_it_tells,
)
from evaluator.stages.compile.diagnostics import SOURCE_NAME
from evaluator.stages.compile.kernel_entries import count_entries, entries, entries_as_written
from evaluator.stages.compile.rulings import (
    MAX_IMAGE_BYTES,
    MAX_KERNELS,
    FrontResult,
    first_error,
    foreign_include,
    image_too_large,
    no_kernel,
    ruling,
    too_many_kernels,
)
from evaluator.stages.compile.source_signatures import signatures
from evaluator.stages.compile.toolchain import Beside, Toolchain
from evaluator.stages.screen.lexer import without_plan

_MATH: Final = "fmad|ftz|prec-div|prec-sqrt"
ALLOWED_FLAGS: Final = f"--use_fast_math, --{_MATH}=true|false, -maxrregcount=N, --extended-lambda, -std=c++11..20"

_PTX_RULES, _CUBIN_RULES = "ptx 4", "cubin 2"
"""What is cached, and by which rules: entries of version 1 may come from compilers that someone had killed, and those
of `ptx 2` lack the names of parameters where a kernel shuffles doubles.
"""
_PTX, _CUBIN, _INCLUDES, _OBJECT = "kernel.ptx", "kernel.cubin", "includes.d", "kernel.o"
_FOR_HOST: Final = ("-Dmain=main_of_the_submission",)
"""A submission may have a main of its own, to try itself."""
_FLAG = re.compile(
    r"--?(?:(?P<fast>use_fast_math)|(?P<lambda>extended-lambda)|maxrregcount=(?P<registers>\d{1,3})"
    rf"|(?P<std>std=c\+\+(?:11|14|17|20))|(?P<choice>(?:{_MATH})=(?:true|false)))"
)


@dataclass(frozen=True)
class Compiled:
    """What compiling one source gave: a program, or a ruling that says why there is none."""

    program: Program | None
    ruling: Ruling | None
    arch: str
    flags: tuple[str, ...]
    """Flags that nvcc was given, file names left out."""
    toolchain: str
    duration_s: float
    cached: bool = False
    """True when nothing had to be compiled."""
    diagnostics: tuple[Diagnostic, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    source_sha256: str | None = None
    ptx_sha256: str | None = None
    canonical_ptx_sha256: str | None = None
    """Of the PTX text only: flags that only ptxas sees (`-maxrregcount`) are not in it."""
    cubin_sha256: str | None = None
    host_object: bytes | None = None
    """The host's object file, where `Beside.with_host` asks for it and one run of nvcc made both."""


class _DoubtfulError(Exception):
    """Something made that is good for this once and must not be cached: another try may give something better."""

    def __init__(self, made: Mapping[str, bytes]) -> None:
        super().__init__()
        self.made = made


class _UncacheableError(Exception):
    """A ruling that must not be cached: another try may end differently."""

    def __init__(self, ruling: Ruling) -> None:
        super().__init__(ruling.message)
        self.ruling = ruling


def compile_source(
    source: str,
    settings: Settings,
    arch: str,
    toolchain: Toolchain,
    sandbox: Sandbox,
    cache: Cache | None,
    beside: Beside | None = None,
) -> Compiled:
    """Compile `source` for `arch`. What is wrong with the source is a ruling; raises InfrastructureError for ours.

    `beside`: the form in which it is compiled, where that is another; messages quote `source`. Limits from
    `settings`: `compile_timeout_s` for all of it, `memory_bytes` for each step. `cache` may be None.
    With that of one caller, what another one had compiled is answered as if it had been compiled now.
    """
    return _Compilation(source, settings, arch, toolchain, sandbox, cache, beside).result()


def assemble_source(
    source: str,
    ptx: str,
    entries: tuple[Entry, ...],
    compiler: str,
    settings: Settings,
    arch: str,
    toolchain: Toolchain,
    sandbox: Sandbox,
    cache: Cache | None,
    spent_s: float,
) -> Compiled:
    """As `compile_source`, where another compiler (`compiler`, by name and version) has made the PTX of `source`.

    `spent_s`: what that took, seconds; the time to compile includes it.
    """
    return _Compilation(source, settings, arch, toolchain, sandbox, cache, None).assembled(
        ptx, entries, compiler, spent_s
    )


class _Compilation:
    """One call of `compile_source`."""

    def __init__(
        self,
        source: str,
        settings: Settings,
        arch: str,
        toolchain: Toolchain,
        sandbox: Sandbox,
        cache: Cache | None,
        beside: Beside | None,
    ) -> None:
        self.started_s, self.spent_s, self.others_s = time.monotonic(), 0.0, 0.0
        self.source, self.settings, self.arch = source, settings, arch
        self.toolchain, self.sandbox, self.cache = toolchain, sandbox, cache
        self.compiler = toolchain.label
        self.flags: tuple[str, ...] = settings.flags
        self.for_ptxas: tuple[str, ...] = ()
        self.beside = beside

    def result(self) -> Compiled:
        try:
            digest = hashlib.sha256(self.source.encode()).hexdigest()
        except UnicodeEncodeError:
            return self._ended(ruling("invalid_submission", "The source is not valid Unicode text."))
        if (refused := self._choose_flags()) is not None:
            return self._ended(refused)
        # Another plan for the same kernels is no other program, and what is cached may not hold this one's.
        self.source = without_plan(self.source)
        if self.beside is None:
            self.beside = Beside(self.source)
        text = self.beside.text.encode()
        try:
            files = [part for name, held in sorted(self.beside.files.items()) for part in (name, held)]
            both = ("with host",) if self._for_both else ()
            key = key_of(_PTX_RULES, text, "\n".join(self.flags), self.toolchain.digest, *files, *both)
            made, front_hit = self._cached(key, lambda: self._front(text).packed())
            front = FrontResult.unpacked(made)
            if front.ruling is not None:
                return self._ended(
                    front.ruling, cached=front_hit, diagnostics=front.diagnostics, source_sha256=digest
                )
            return self._back(front, front_hit, digest)
        except _UncacheableError as ended:
            return self._ended(ended.ruling, source_sha256=digest)

    def assembled(self, ptx: str, entries: tuple[Entry, ...], compiler: str, spent_s: float) -> Compiled:
        if (refused := self._choose_flags()) is not None:
            return self._ended(refused)
        if self.settings.flags:  # ptxas would ignore a bound of registers, since the PTX states the block
            hint = "Triton has options of its own, such as num_warps and maxnreg."
            return self._ended(ruling("invalid_submission", "Compiler flags are nvcc's, and this is Triton.", hint))
        self.flags, self.compiler = (), f"{compiler}, ptxas {self.toolchain.version}"
        self.others_s += spent_s
        try:
            if len(ptx) > MAX_IMAGE_BYTES:
                return self._ended(image_too_large("PTX"))
            return self._back(self._made((), entries, ptx), True, hashlib.sha256(self.source.encode()).hexdigest())
        except _UncacheableError as ended:
            return self._ended(ended.ruling)

    def _ended(self, ruling: Ruling | None, **fields: Any) -> Compiled:
        fields.setdefault("program", None)
        return Compiled(
            ruling=ruling,
            arch=self.arch,
            flags=self.flags,
            toolchain=self.compiler,
            duration_s=time.monotonic() - self.started_s + self.others_s,
            **fields,
        )

    def _cached(self, key: str, make: Callable[[], Mapping[str, bytes]]) -> tuple[Mapping[str, bytes], bool]:
        try:
            made, hit = self.cache.get_or_make(key, make) if self.cache else (make(), False)
            self.others_s += float(made.get(SPARED_S, b"0"))
            return made, hit
        except _DoubtfulError as doubtful:
            return doubtful.made, False

    def _choose_flags(self) -> Ruling | None:
        """Set the flags of both steps from the caller's; a ruling where they cannot be had."""
        if (message := self.toolchain.why_not(self.arch)) is not None:
            if self.arch == self.settings.arch:
                return ruling("invalid_submission", message)
            remedy = f"install a CUDA toolkit that knows this GPU (`{install_command('nvcc')}`)"
            raise ToolchainMissingError(message, remedy)
        extra: list[str] = []
        standard = "-std=c++17"
        seen: set[str] = set()
        for flag in self.settings.flags:
            match = _FLAG.fullmatch(flag)
            kind = match.lastgroup if match else None
            registers = int(match["registers"]) if match and match["registers"] else None
            if match is None or kind is None or (registers is not None and not 1 <= registers <= 255):
                return ruling(
                    "invalid_submission",
                    f"The compiler flag {flag[:80]!r} is not allowed.",
                    f"Allowed are {ALLOWED_FLAGS} (N from 1 to 255).",
                )
            name = flag.lstrip("-").partition("=")[0]
            if name in seen:
                return ruling("invalid_submission", f"The compiler flag {flag!r} is given twice, or contradicted.")
            seen.add(name)
            if kind == "std":
                standard = f"-{match[kind]}"
            elif registers is not None:
                self.for_ptxas = (f"-maxrregcount={registers}",)
                extra.append(self.for_ptxas[0])
            else:
                extra.append(f"--{match[kind]}")
        self.flags = ("-ptx", standard, "-O3", "-lineinfo", f"-arch={self.arch}", *sorted(extra))
        self.flags += self.beside.flags if self.beside else ()
        return None

    # --- nvcc ------------------------------------------------------------------------------------------------------

    def _front(self, text: bytes) -> FrontResult:
        """nvcc, twice at the same time where once does not tell the kernels' parameters.

        What is returned depends on source, flags and toolchain only.
        """
        beside = self.beside or Beside(self.source)
        plain = signatures(beside.text)
        undescribed = bool(plain) or not beside.described
        with ThreadPoolExecutor(max_workers=1) as other:
            debug_run = None if undescribed else other.submit(self._debug_run, text)
            run = self._both_run(text) or self._run(
                self._nvcc_job(text, (*self.flags, "-Xcompiler", f"-MD,-MF,{_INCLUDES}"), (_PTX, _INCLUDES))
            )
            debug = debug_run.result() if debug_run else None
        own = {SOURCE_NAME, *beside.files}
        foreign = foreign_include(run.files.get(_INCLUDES, b""), self.source, own, self.toolchain.headers)
        if foreign is not None:
            return self._lasting(FrontResult(foreign, ()), run)
        stderr = run.stderr.decode(errors="replace")
        told = diagnostics.parse_diagnostics(stderr, self.source, self.toolchain.headers)
        self._check_limits(run, "nvcc")
        if run.exit_code != 0:
            front = FrontResult(self._compile_error(told, crash(run)), told)
            if not any(one.severity is Severity.ERROR for one in told):
                raise _DoubtfulError(front.packed())
            return self._lasting(front, run)
        if _PTX not in run.files or len(run.files[_PTX]) > MAX_IMAGE_BYTES:
            self._check_compiler_works()
            raise _UncacheableError(image_too_large("PTX"))
        ptx = placeless(run.files[_PTX], self.toolchain.headers)
        if (kernels := count_entries(ptx)) > MAX_KERNELS:
            return FrontResult(too_many_kernels(kernels), told)
        if plain and (written := entries_as_written(ptx, plain)):
            return self._lasting(self._made(told, written, ptx, run.files.get(_OBJECT)), run)
        # A source that compiles to run but not for debuggers keeps its layout and loses its names; but one whose
        # second compile ran out of time could do either on another day, and may not be graded by luck.
        debug_ptx = None
        if beside.described:
            debug = debug or self._debug_run(text)
            self._check_limits(debug, "nvcc -G")
            if debug.exit_code == 0 and _PTX in debug.files:
                debug_ptx = placeless(debug.files[_PTX], self.toolchain.headers)
        found = entries(ptx, debug_ptx)
        if not found:
            return FrontResult(no_kernel(self.source), told)
        return self._lasting(self._made(told, found, ptx, run.files.get(_OBJECT)), debug or run)

    @staticmethod
    def _made(
        told: tuple[Diagnostic, ...], found: tuple[Entry, ...], ptx: str, host_object: bytes | None = None
    ) -> FrontResult:
        digest = hashlib.sha256(canonical_ptx(ptx).encode()).hexdigest()
        return FrontResult(None, told, found, ptx, digest, host_object)

    @property
    def _for_both(self) -> tuple[str, ...]:
        """Flags by which one run of nvcc makes PTX and the host's object; none where that is not asked for."""
        if not (self.beside and self.beside.with_host):
            return ()
        if not all(flag.lstrip("-").startswith(("std=", "extended-lambda")) for flag in self.settings.flags):
            return ()  # what else there is does not concern the host
        virtual = self.arch.replace("sm_", "compute_")
        kept = (flag for flag in self.flags if flag not in ("-ptx", "-O3", f"-arch={self.arch}"))
        return (
            *("-c", *kept, "-gencode", f"arch={virtual},code={virtual}", *_FOR_HOST),
            # What the host compiler has to say of a text of nvcc's is no matter of the submission.
            *("--keep", "-MD", "-MF", _INCLUDES, "-Xcompiler", "-w"),
        )

    def _both_run(self, text: bytes) -> JobResult | None:
        """PTX and the host's object in one run, which reads the headers for the device once; None where that is not
        asked for, or ends in any other way than well: the plain run then says what there is to say.
        """
        if not (flags := self._for_both):
            return None
        before_s = self.spent_s
        run = self._run(self._nvcc_job(text, flags, (_PTX, _INCLUDES, _OBJECT), _OBJECT))
        if run.succeeded and {_PTX, _INCLUDES, _OBJECT} <= run.files.keys():
            return run
        self.spent_s = before_s
        return None

    def _debug_run(self, text: bytes) -> JobResult:
        # Both see one set of macros, so that the source cannot be one thing to run and another to describe.
        flags = ("-G", "-U__CUDACC_DEBUG__", *(flag for flag in self.flags if flag != "-lineinfo"))
        return self._run(self._nvcc_job(text, flags, (_PTX,)))

    def _lasting(self, front: FrontResult, run: JobResult) -> FrontResult:
        """`front`, if the compiler said what it is for; raises _DoubtfulError if it crashed or was silent."""
        if run.exit_code != 0 and not refused(run):
            raise _DoubtfulError(front.packed())
        return front

    def _nvcc_job(self, text: bytes, flags: tuple[str, ...], collect: tuple[str, ...], output: str = _PTX) -> Job:
        toolchain = self.toolchain
        return Job(
            argv=(str(toolchain.nvcc), *flags, "-ccbin", str(toolchain.host_compiler), "-o", output, SOURCE_NAME),
            files={**(self.beside.files if self.beside else {}), SOURCE_NAME: text},
            collect=collect,
            readable=toolchain.readable,
            environment={"LC_ALL": "C"},
        )

    def _run(self, job: Job) -> JobResult:
        """Run the job within what is left of the time; a busy machine's and the sandbox's own are not counted, nor
        what someone outside has ended, or what ended in no way that says something about the source.
        """
        before_s = self.spent_s
        if (left_s := self.settings.compile_timeout_s - before_s) <= 0:
            raise _UncacheableError(self._timeout())
        memory_bytes = self.settings.memory_bytes
        limits = Limits(wall_s=left_s, cpu_s=self.settings.compile_timeout_s + 1, memory_bytes=memory_bytes)
        limited = dataclasses.replace(job, limits=limits)
        run = until_it_tells(lambda: run_compiler(self.sandbox, limited, self.toolchain))
        self.spent_s = max(self.spent_s, before_s + run.wall_s - run.waited_s)
        return run

    def _compile_error(self, told: tuple[Diagnostic, ...], crashed: str) -> Ruling:
        errors = [one for one in told if one.severity is Severity.ERROR]
        if errors:
            return first_error(errors, self.source)
        self._check_compiler_works()
        if crashed:
            return ruling(
                "compile_error",
                f"The compiler itself crashed on this source ({crashed}).",
                "Write it in a simpler way: deep templates, huge constants and deep nesting bring a compiler down.",
            )
        return ruling("compile_error", "The compiler refused this source without saying why.")

    # --- ptxas -----------------------------------------------------------------------------------------------------

    def _back(self, front: FrontResult, front_hit: bool, source_sha256: str) -> Compiled:
        assembled, numbers = without_debug(front.ptx)
        key = key_of(_CUBIN_RULES, assembled, self.arch, " ".join(self.for_ptxas), self.toolchain.digest)
        made, hit = self._cached(key, lambda: self._assemble(assembled))
        report = made["report"].decode(errors="replace")
        by_ptx_line = diagnostics.source_lines(front.ptx)
        lines = {line: by_ptx_line[number] for line, number in enumerate(numbers, 1) if number in by_ptx_line}
        told = front.diagnostics + diagnostics.parse_diagnostics(report, self.source, self.toolchain.headers, lines)
        told = tuple(dict.fromkeys(told))[: diagnostics.MAX_DIAGNOSTICS]
        common: dict[str, Any] = {
            "cached": front_hit and hit,
            "diagnostics": told,
            "source_sha256": source_sha256,
            "ptx_sha256": hashlib.sha256(front.ptx.encode()).hexdigest(),
            "canonical_ptx_sha256": front.canonical_sha256,
            "host_object": front.host_object,
        }
        if "cubin" not in made:
            return self._ended(self._compile_error(told, made["crash"].decode()), **common)
        cubin = made["cubin"]
        return self._ended(
            None,
            program=Program(front.ptx, front.entries, self.arch, cubin),
            kernels=resources.parse_resources(report),
            cubin_sha256=hashlib.sha256(cubin).hexdigest(),
            **common,
        )

    def _assemble(self, ptx: str) -> dict[str, bytes]:
        ptxas = str(self.toolchain.ptxas)
        run = self._run(
            Job(
                argv=(ptxas, "-v", f"-arch={self.arch}", *self.for_ptxas, "-o", _CUBIN, _PTX),
                files={_PTX: ptx.encode()},
                collect=(_CUBIN,),
                readable=self.toolchain.readable,
                environment={"LC_ALL": "C"},
            )
        )
        report = run.stderr + run.stdout
        self._check_limits(run, "ptxas")
        if run.exit_code != 0:
            refusal = {"report": report, "crash": crash(run).encode()}
            if not refused(run):
                raise _DoubtfulError(refusal)
            return refusal
        if _CUBIN not in run.files or len(run.files[_CUBIN]) > MAX_IMAGE_BYTES:
            self._check_compiler_works()
            raise _UncacheableError(image_too_large("machine code"))
        return {"report": report, "cubin": run.files[_CUBIN]}

    # --- limits and faults -----------------------------------------------------------------------------------------

    def _check_limits(self, run: JobResult, step: str) -> None:
        """Raise what a run that met a limit is worth."""
        by_limits = signals_told(run) & run.own_signals
        if run.timed_out or signal.SIGXCPU in by_limits:
            raise _UncacheableError(self._timeout())
        if out_of_memory(run):
            raise _UncacheableError(
                ruling(
                    "out_of_memory",
                    f"Compiling took more than {self.settings.memory_bytes >> 20} MiB of memory ({step}).",
                    "Look for recursive templates, huge constant arrays and very large unrolled loops.",
                )
            )
        if out_of_room(run):
            if shutil.disk_usage(self.sandbox.root).free < Limits().work_bytes:
                raise StorageError(
                    f"No space left on the disk of the work folder {self.sandbox.root}.",
                    "Free some space there, or choose another folder with ASSAY_DATA_DIR.",
                )
            raise _UncacheableError(image_too_large("output"))
        if run.output_exceeded or signal.SIGXFSZ in by_limits:
            raise _UncacheableError(image_too_large("output"))
        if run.limit_hit is not None:
            raise _UncacheableError(ruling("invalid_submission", f"Compiling met a limit: {run.limit_hit}."))

    def _timeout(self) -> Ruling:
        return ruling(
            "timeout",
            f"Compiling took longer than {self.settings.compile_timeout_s:g} s.",
            "Look for recursive templates, constexpr loops, huge unrolled loops (`#pragma unroll N`), large arrays.",
        )

    def _check_compiler_works(self) -> None:
        """Raise InfrastructureError if not even an empty kernel compiles (in the same way): the failure is ours."""
        job = self._nvcc_job(b"__global__ void works() {}\n", ("-ptx", f"-arch={self.arch}"), (_PTX,))
        run = run_compiler(self.sandbox, job, self.toolchain)
        if not run.succeeded or not run.files.get(_PTX):
            said = (run.stderr + run.stdout).decode(errors="replace").strip()[-500:]
            raise InfrastructureError(
                f"the compiler does not work in the {self.sandbox.name} sandbox: "
                f"{said or run.limit_hit or f'exit code {run.exit_code}, signal {run.signal}'}",
                "run `assay doctor`",
            )
