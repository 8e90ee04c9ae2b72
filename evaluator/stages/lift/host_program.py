"""The host code of a submission as a program that records: nvcc's own host pass, linked with a runtime of ours.

nvcc compiles the very text that was submitted, against CUDA's own headers, so that templates, lambdas, structs and
`<<<>>>` mean what they mean everywhere. What the program then calls is `recorder/`, in the place of libcudart.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from common.contract import Settings, Severity, Status
from common.wire import Wire
from evaluator.disk_cache import SPARED_S, Cache, key_of
from evaluator.errors import ToolchainMissingError
from evaluator.sandbox.retry import in_tries
from evaluator.sandbox.sandbox import Job, JobResult, Limits, Sandbox
from evaluator.stages.compile import diagnostics
from evaluator.stages.compile.compiler_exit import (
    out_of_memory,
    refused,
    run_compiler,
    said,
    signals_told,
    until_it_tells,
)
from evaluator.stages.compile.diagnostics import SOURCE_NAME
from evaluator.stages.compile.toolchain import Beside, Toolchain
from evaluator.stages.lift.binding import HostSignature, LiftRefusedError
from evaluator.stages.lift.dialects import EntryFunction
from evaluator.stages.lift.host_runs import ending_of, nothing_to_run, run_untrusted

RECORDER: Final = Path(__file__).parent / "recorder"
_PARTS: Final = ("recording", "launches", "memory", "pinned", "device")
"""Of the recorder: those of every program."""
_CALLER: Final = "assay_caller.h"
DECLARES_ENTRY: Final = "solve.h"
"""LeetGPU's header, which its first starting texts include: it declares `solve`, which the text defines itself."""
_INCLUDES_IT: Final = re.compile(rf'^[ \t]*#[ \t]*include[ \t]*"{re.escape(DECLARES_ENTRY)}"', re.MULTILINE)
_RULES: Final = "host program 3"
"""What is cached, and by which rules: refusals of version 2 may come from an assembler that someone had killed."""
_RECORDER_FLAGS: Final = ("-std=c++17", "-O1", "-fno-rtti", "-w")
_MAX_SIGNATURE_BYTES: Final = 1 << 16
_MAX_HOST_BYTES: Final = 64 << 20
_DESCRIBE_S: Final = 5.0
_DOUBLED: Final = re.compile(r"multiple definition of [`'](?P<name>[^`'\n]{1,200})'")
_UNDEFINED: Final = re.compile(r"undefined reference to [`'](?P<name>[^`'\n]{1,200})'")


@dataclass(frozen=True)
class HostForm:
    """How the host code of a dialect becomes a program."""

    beside: Beside
    """What is compiled."""
    parts: tuple[str, ...]
    """Of the recorder, those by which it is called."""
    headers: Mapping[str, bytes]
    """With which these parts are compiled."""
    signature: type[Wire]
    """What it says of itself."""
    called: str
    """What of it is called, in words: `solve`."""


def headers_of_entry(source: str) -> dict[str, bytes]:
    """Headers that a file with an entry function need not bring: nothing has to stand in them."""
    return {DECLARES_ENTRY: b"\n"} if _INCLUDES_IT.search(source) else {}


def form_of_entry(source: str, entry: EntryFunction) -> HostForm:
    """Of a file with an entry function that gets pointers."""
    files = {_CALLER: _file(_CALLER), **headers_of_entry(source)}
    name, declared = entry.name, ""
    if entry.overloaded:
        # Found by the types of its parameters; what is declared for C is one function, in whatever namespace.
        name, taken = f"{entry.name}_of_assay", re.sub(r"=[^,]*", "", entry.overloaded)
        declared = f'\nextern "C" void {entry.name}({taken});\nstatic void (&{name})({taken}) = ::{entry.name};\n'
    beside = Beside(f'{source}\n{declared}#include "{_CALLER}"\n', files, (f"-DENTRY_OF_ASSAY={name}",))
    return HostForm(beside, ("entry",), {}, HostSignature, entry.name)


@dataclass(frozen=True)
class HostProgram:
    """A program that records what its host code does."""

    host: bytes
    runs: bytes
    """What runs it once for each recording."""
    signature: Wire
    duration_s: float
    cached: bool


class _UncacheableError(Exception):
    """A refusal that another try may not meet."""

    def __init__(self, refusal: LiftRefusedError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass
class HostBuild:
    """The build of one source's host code."""

    source: str
    form: HostForm
    settings: Settings
    arch: str
    toolchain: Toolchain
    sandbox: Sandbox
    cache: Cache
    compiled: bytes | None = None
    """The object file, where the kernels' compilation has made it already."""
    spent_s: float = 0.0
    """Of the time to compile."""

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """Those that nvcc gets, but for where it finds and leaves what."""
        virtual = self.arch.replace("sm_", "compute_")
        kept = [flag for flag in self.settings.flags if flag.lstrip("-").startswith(("std=", "extended-lambda"))]
        standard = () if any("std=" in flag for flag in kept) else ("-std=c++17",)
        return (
            *("-c", *standard, *(f"-{'' if 'std=' in flag else '-'}{flag.lstrip('-')}" for flag in kept)),
            *("-gencode", f"arch={virtual},code={virtual}"),
            # A submission may have a main of its own, to try itself.
            *("-Dmain=main_of_the_submission", *self.form.beside.flags),
        )

    def program(self) -> HostProgram:
        """Compile and link; what was compiled before comes from the cache.

        Raises LiftRefusedError, InfrastructureError.
        """
        recorder = self._recorder()
        beside = self.form.beside
        files = [part for name, held in sorted(beside.files.items()) for part in (name, held)]
        flags = "\n".join(self.flags)
        key = key_of(_RULES, beside.text.encode(), *files, flags, self.toolchain.digest, *recorder.values())
        try:
            made, hit = self.cache.get_or_make(key, lambda: self._made(beside.text.encode(), recorder))
        except _UncacheableError as ended:
            raise ended.refusal from None
        if "refusal" in made:
            status, message, hint = json.loads(made["refusal"])
            raise LiftRefusedError(Status(status), message, hint)
        signature = self.form.signature.model_validate_json(made["signature"])
        spent_s = self.spent_s + float(made.get(SPARED_S, b"0"))
        return HostProgram(made["host"], recorder["runs"], signature, spent_s, hit and not spent_s)

    def _recorder(self) -> Mapping[str, bytes]:
        """The recorder's object files and `runs`, made once for each toolchain."""
        headers = {"recorder.h": _file("recorder.h"), **self.form.headers}
        parts = (*_PARTS, *self.form.parts)

        def make() -> Mapping[str, bytes]:
            include = tuple(
                f"-I{folder}" for folder in self.toolchain.headers if (folder / "cuda_runtime_api.h").exists()
            )
            made = {}
            for name in (*parts, "runs"):
                output = name if name == "runs" else f"{name}.o"
                mode = () if name == "runs" else ("-c",)
                arguments = (*_RECORDER_FLAGS, *include, *mode, "-o", output, f"{name}.cpp")
                job = self._host_job(arguments, {**headers, f"{name}.cpp": _file(f"{name}.cpp")}, output, 120)
                run = in_tries(partial(run_compiler, self.sandbox, job, self.toolchain), signals_told)
                if not run.succeeded or output not in run.files:
                    raise ToolchainMissingError(
                        f"The recorder of host code does not compile with {self.toolchain.host_compiler}: "
                        f"{said(run)[-800:]}",
                        "Install g++ 11 or newer and set CXX to it.",
                    )
                made[output] = run.files[output]
            return made

        files = [*(_file(f"{part}.cpp") for part in (*parts, "runs")), *headers.values()]
        key = key_of("recorder 2", *files, " ".join(_RECORDER_FLAGS), self.toolchain.digest)
        return self.cache.get_or_make(key, make)[0]

    def _made(self, text: bytes, recorder: Mapping[str, bytes]) -> Mapping[str, bytes]:
        try:
            host = self._linked(self.compiled or self._compiled(text), recorder)
            return {"host": host, "signature": self._signature(host, recorder["runs"])}
        except LiftRefusedError as refusal:
            ruling = refusal.ruling
            return {"refusal": json.dumps([ruling.status, ruling.message, ruling.hint]).encode()}

    def _compiled(self, text: bytes) -> bytes:
        toolchain = self.toolchain
        run = self._run(
            Job(
                argv=(
                    *(str(toolchain.nvcc), *self.flags),
                    *("-ccbin", str(toolchain.host_compiler), "-o", "kernel.o", SOURCE_NAME),
                ),
                files={**self.form.beside.files, SOURCE_NAME: text},
                collect=("kernel.o",),
                readable=toolchain.readable,
                environment={"LC_ALL": "C"},
            )
        )
        if run.exit_code == 0 and "kernel.o" in run.files:
            return run.files["kernel.o"]
        told = diagnostics.parse_diagnostics(run.stderr.decode(errors="replace"), self.source, toolchain.headers)
        errors = [one for one in told if one.severity is Severity.ERROR]
        first = next((one for one in errors if one.file == SOURCE_NAME and one.line), None)
        # The kernels of this text were compiled before, so what is left is what stands behind it: the call.
        elsewhere = next(
            (one.text for one in errors if one.text == diagnostics.ASSEMBLY),
            f"the compiler refuses the call of `{self.form.called}`, which may take or return a type that cannot be "
            "passed (such as a struct)",
        )
        where = f"{first.file}:{first.line}: {first.text}" if first else elsewhere
        refusal = LiftRefusedError(
            Status.COMPILE_ERROR,
            f"The host code does not compile: {where}",
            f"It has to compile with nvcc as it stands, with `{self.form.called}` as what is called.",
        )
        if not refused(run):
            raise _UncacheableError(refusal)
        raise refusal

    def _linked(self, kernel: bytes, recorder: Mapping[str, bytes]) -> bytes:
        objects = {name: made for name, made in recorder.items() if name.endswith(".o")}
        arguments = ("-o", "host", "kernel.o", *objects, "-lpthread", "-lm")
        run = self._run(self._host_job(arguments, {"kernel.o": kernel, **objects}, "host", 30))
        if run.exit_code == 0 and "host" in run.files:
            return run.files["host"]
        missing = dict.fromkeys(match["name"] for match in _UNDEFINED.finditer(said(run)))
        named = [name for name in missing if not name.startswith("assay_")]
        if doubled := _DOUBLED.search(said(run)):
            raise LiftRefusedError(
                Status.COMPILE_ERROR,
                f"The host code defines {doubled['name']}, which the CUDA runtime has.",
                "Call the runtime's own, and name your functions otherwise.",
            )
        if not named:
            raise _UncacheableError(
                LiftRefusedError(
                    Status.COMPILE_ERROR,
                    f"The host code cannot be linked: nothing calls `{self.form.called}`.",
                    "Let the file end outside of comments, conditions and namespaces.",
                )
            )
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            f"The host code calls {', '.join(named[:5])}, which cannot be recorded.",
            "docs/lifting.md lists what can be: kernels of the submission's own, and memory, streams and events of "
            "the CUDA runtime. It was not judged, so there is no reward.",
        )

    def _signature(self, host: bytes, runs: bytes) -> bytes:
        """What the entry function takes, as the program says of itself. Raises LiftRefusedError."""
        name = "parameters.json"
        limits = Limits(
            wall_s=_DESCRIBE_S,
            cpu_s=_DESCRIBE_S,
            memory_bytes=self.settings.memory_bytes,
            file_bytes=_MAX_SIGNATURE_BYTES,
            output_bytes=_MAX_SIGNATURE_BYTES,
        )
        run = run_untrusted(
            self.sandbox, Job(("./host",), {"host": host}, (name,), limits=limits), nothing_to_run(runs)
        )
        found = run.files.get(name, b"")
        try:
            self.form.signature.model_validate_json(found)
        except ValidationError:
            refusal = LiftRefusedError(
                Status.TIMEOUT if run.timed_out else Status.RUNTIME_ERROR,
                f"The host code did not get to `{self.form.called}` ({ending_of(run)}): an initialiser of a static "
                "variable ends it, or does not end.",
                "Do nothing before it is called.",
            )
            raise _UncacheableError(refusal) from None
        return found

    def _host_job(self, arguments: tuple[str, ...], files: Mapping[str, bytes], output: str, wall_s: float) -> Job:
        return Job(
            (str(self.toolchain.host_compiler), *arguments),
            files=files,
            collect=(output,),
            readable=self.toolchain.readable,
            environment={"LC_ALL": "C"},
            limits=Limits(wall_s=wall_s, cpu_s=2 * wall_s, file_bytes=_MAX_HOST_BYTES),
        )

    def _run(self, job: Job) -> JobResult:
        """Within what is left of the time to compile."""
        left_s = self.settings.compile_timeout_s - self.spent_s
        if left_s <= 0:
            raise _UncacheableError(self._late())
        limits = Limits(
            wall_s=left_s,
            cpu_s=self.settings.compile_timeout_s + 1,
            memory_bytes=self.settings.memory_bytes,
            file_bytes=_MAX_HOST_BYTES,
        )
        limited = replace(job, limits=limits)
        run = until_it_tells(lambda: run_compiler(self.sandbox, limited, self.toolchain))
        self.spent_s += run.wall_s - run.waited_s
        if run.timed_out:
            raise _UncacheableError(self._late())
        if out_of_memory(run):
            raise _UncacheableError(
                LiftRefusedError(
                    Status.OUT_OF_MEMORY,
                    f"Compiling the host code took more than {self.settings.memory_bytes >> 20} MiB of memory.",
                    "Look for recursive templates, huge constant arrays and very large unrolled loops.",
                )
            )
        return run

    def _late(self) -> LiftRefusedError:
        return LiftRefusedError(
            Status.TIMEOUT,
            f"Compiling the host code took longer than {self.settings.compile_timeout_s:g} s.",
            "Look for recursive templates, constexpr loops and large arrays.",
        )


def _file(name: str) -> bytes:
    return (RECORDER / name).read_bytes()
