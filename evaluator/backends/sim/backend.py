"""The simulator as a backend: translate, compile, and talk to the process that runs.

The process is untrusted all the same (what it executes was made from a submission's text), so it runs in a sandbox,
and what it says is only facts for the referee.
"""

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from common.contract import Settings
from evaluator.backends.session import (
    Program,
    UnsupportedError,
)
from evaluator.backends.sim.codegen import module
from evaluator.backends.sim.ptx import parser
from evaluator.backends.sim.session import SimulatorSession
from evaluator.errors import InfrastructureError, StorageError, ToolchainMissingError
from evaluator.sandbox.retry import in_tries, signals_of
from evaluator.sandbox.sandbox import Job, JobResult, Limits, Sandbox
from evaluator.sandbox.sandbox import SandboxSession as SandboxSession

RUNTIME: Final = Path(__file__).parent / "runtime"
_RUNTIME_SOURCES: Final = (
    "memory.cpp",
    "heap.cpp",
    "warp.cpp",
    "matrix.cpp",
    "asynchronous.cpp",
    "numbers.cpp",
    "video.cpp",
    "approximate.cpp",
    "printing.cpp",
    "counting.cpp",
    "shadow.cpp",
    "schedule.cpp",
    "weak_memory.cpp",
    "registers.cpp",
    "operations.cpp",
    "runtime.cpp",
)
_HEADERS: Final = (
    "lanes.h",
    "floats.h",
    "video.h",
    "machine.h",
    "matrix.h",
    "asynchronous.h",
    "operations.h",
    "runtime.h",
    "shadow.h",
    "marks.h",
    "weak_memory.h",
    "causality.h",
    "store_buffers.h",
    "words.h",
    "meetings.h",
    "pipe.h",
    "loading.h",
    "coroutines.h",
    "apart.h",
    "schedule.h",
    "blocks.h",
    "turns.h",
    "standstill.h",
    "samples.h",
    "spreading.h",
    "stretches.h",
)
_RULES: Final = b"simulator 2\n"
"""By what is cached: entries of version 1 may hold the part of a program at which someone killed the linker."""
_COMMON_FLAGS: Final = ("-march=native", "-std=c++17", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-w")
_WIDE: Final = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
_RUNTIME_FLAGS: Final = (*_COMMON_FLAGS, "-O2", "-ftree-vectorize", *_WIDE)
_PROGRAM_FLAGS: Final = (*_COMMON_FLAGS, "-O1")
_QUICK_FLAGS: Final = (
    *(flag for flag in _COMMON_FLAGS if flag != "-w"),
    *("-O0", "-DQUICKLY", "-fPIC", "-shared", "-nostdlib"),
)
"""A library that is linked with nothing, for a process that has the runtime and loads it: to link takes 5 ms of a
processor, and with the runtime and the system's libraries 27."""
_LIBRARIES: Final = ("-lm", "-ldl")
QUICK_BELOW: Final = 120_000
"""Characters of a translated program, below which it is compiled quickly where little of it is run: above, frames
come near to the stacks of warps."""
_LONG_TEXT: Final = 300_000
"""Characters of a program that is compiled quickly whatever is run of it: for so many an idle processor takes 8 s in
the usual way, and 1 s quickly. Triton's kernel of a row in registers, compiled for each size of the rows, has a
million, which took longer than all compiling may."""
_QUICK_SLOWER: Final = 3.0
"""By how much longer such a program runs at most, with the operations themselves compiled as always; 1.0 to 1.8 times
were measured, and up to 7 for a loop that only adds and multiplies in registers, which comes to the limit of
instructions first, in 0.3 s. Its time counts as that of a program compiled in the usual way: no check ends sooner."""
_FRAMES_BELOW_BYTES: Final = 192 << 10
"""Of a warp's stack: what a kernel's frame leaves to the operations that it calls."""
_MAX_CORES: Final = 8
_REFEREE_S: Final = 120.0
"""How long the process may wait for the referee, all trials together; its own time is limited run by run."""
_RUNTIME_S: Final = 300.0
"""For the compiler with a part of the runtime: a minute at most was seen, on a machine with much else to do."""
_REPORT_IT: Final = "Please report it with the kernel's source."


class Builds(Protocol):
    """Where compiled objects are kept: `stages.cache.Cache`, or anything with its one method."""

    def get_or_make(self, key: str, make: Callable[[], Mapping[str, bytes]]) -> tuple[Mapping[str, bytes], bool]: ...


class CompileTimeoutError(UnsupportedError):
    """The host compiler did not finish the translated program in time."""


class _NoLibraryError(Exception):
    """The host compiler made no library, for a reason that may not last."""


class Simulator:
    """Runs programs on the CPU. Safe to use from several threads."""

    name: Literal["gpu", "sim"] = "sim"
    arch = "sm_80"
    """Its PTX has neither TMA nor wgmma, which the simulator lacks."""

    def __init__(
        self,
        sandbox: Sandbox,
        builds: Builds,
        host_compiler: Path,
        readable: tuple[Path, ...] | None = None,
        cores: int | None = None,
        quick_below: int = QUICK_BELOW,
    ) -> None:
        """`readable`: what the host compiler needs beside the system's files; None for its own folder.

        `cores`: how many a large launch may use; None for all that this process may. `quick_below`: characters of a
        translated program, below which it is compiled quickly where little of it is run; 0 for never.
        """
        self.sandbox = sandbox
        self.builds = builds
        self.host_compiler = host_compiler
        self.quick_below = quick_below
        self.cores = min(len(os.sched_getaffinity(0)), _MAX_CORES) if cores is None else cores
        self.readable = (host_compiler.parent,) if readable is None else readable

    @property
    def device(self) -> str:
        """The processor that simulates."""
        return f"simulator on {processor()}"

    def prepare(self, program: Program, settings: Settings, runs_little: bool = False) -> "SimulatorSession":
        """Translate and compile `program` (or take it from the cache) and start its process.

        `runs_little`: compiling may cost more than running.
        Raises UnsupportedError for what cannot be simulated, InfrastructureError for our own failures.
        """
        translated = module.translate(parser.parse_ptx(program.ptx))
        quickly = None
        text_is_long = len(translated.text) > _LONG_TEXT
        if translated.frame_bytes and (text_is_long or (runs_little and len(translated.text) < self.quick_below)):
            quickly = self._quickly(translated, settings.compile_timeout_s)
        files = quickly or self._executable(translated.text, settings.compile_timeout_s)
        slower = _QUICK_SLOWER if quickly else 1.0
        limits = Limits(
            wall_s=settings.run_timeout_s * slower + _REFEREE_S,
            cpu_s=settings.run_timeout_s * slower + _REFEREE_S,
            memory_bytes=settings.memory_bytes,
        )
        library = ("./library",) if quickly else ()
        job = Job(("./program", str(self.cores), *library), files=files, limits=limits)
        return SimulatorSession(lambda: self.sandbox.start(job), translated, program.entries, slower)

    def warm_up(self) -> None:
        """Build the runtime now, so that the first program does not wait for it."""
        self._runtime()

    def _run(
        self, arguments: Iterable[str], files: Mapping[str, bytes], outputs: tuple[str, ...], time_limit_s: float
    ) -> JobResult:
        """One call of the compiler, which is to write `outputs`. Raises StorageError where a disk is full."""
        job = Job(
            (str(self.host_compiler), *arguments),
            files=files,
            collect=outputs,
            readable=self.readable,
            environment={"LC_ALL": "C"},
            limits=Limits(wall_s=time_limit_s, cpu_s=time_limit_s * 2),
        )
        # The text that is compiled is ours: it imitates nobody.
        finished = in_tries(
            lambda: self.sandbox.run(job), lambda run: signals_of(run, run.stderr.decode(errors="replace"))
        )
        full = not finished.succeeded and b"No space left on device" in finished.stderr
        if full and shutil.disk_usage(self.sandbox.root).free < job.limits.work_bytes:
            raise StorageError(
                f"No space left on the disk of the work folder {self.sandbox.root}.",
                "Free some space there, or choose another folder with ASSAY_DATA_DIR.",
            )
        return finished

    def _runtime(self) -> Mapping[str, bytes]:
        """Object files of the runtime, made once for each machine and compiler."""

        def make() -> Mapping[str, bytes]:
            made: dict[str, bytes] = {}
            for objects in _at_once([functools.partial(self._objects, part) for part in _parts(self.cores)]):
                made.update(objects)
            # In the order of the sources, whatever the parts were: programs are cached by it.
            return {output: made[output] for output in map(_object_of, _RUNTIME_SOURCES)}

        key = _key(
            "runtime", *_RUNTIME_FLAGS, self._machine(), *_native_files((*_HEADERS, *_RUNTIME_SOURCES)).values()
        )
        return self.builds.get_or_make(key, make)[0]

    def _objects(self, sources: tuple[str, ...]) -> dict[str, bytes]:
        """Object files of some of the runtime's sources, by one call of the compiler. Raises
        InfrastructureError.
        """
        outputs = tuple(map(_object_of, sources))
        files = {**_native_files(_HEADERS), **_native_files(sources)}
        finished = self._run((*_RUNTIME_FLAGS, "-c", *sources), files, outputs, _RUNTIME_S)
        # Also one that failed may leave files: the parts that had been written.
        if not finished.succeeded or not set(outputs) <= set(finished.files):
            raise self._does_not_compile(finished)
        return {output: finished.files[output] for output in outputs}

    def _quickly(self, translated: module.Translation, time_limit_s: float) -> Mapping[str, bytes] | None:
        """The program as a library for which next to nothing is made of its text, and what loads it; None where its
        frames would be too large for that, or the compiler knows no such way.
        """
        room = f"-Werror=frame-larger-than={translated.frame_bytes - _FRAMES_BELOW_BYTES}"
        flags = (*_QUICK_FLAGS, room)
        text = translated.text.encode()

        def make() -> Mapping[str, bytes]:
            files = {**_native_files(_HEADERS), "program.cpp": text}
            finished = self._run((*flags, "program.cpp", "-o", "library"), files, ("library",), time_limit_s)
            if finished.timed_out:
                raise _too_long(time_limit_s)
            if finished.succeeded and finished.files.get("library"):
                return {"library": finished.files["library"]}
            if b"frame" in finished.stderr:
                return {"library": b""}
            raise _NoLibraryError

        key = _key("library 2", *flags, self._machine(), text, *_native_files(_HEADERS).values())
        # That its frames are too large does not change, and is kept; a disk that was full may have room now.
        with contextlib.suppress(_NoLibraryError):
            if library := self.builds.get_or_make(key, make)[0]["library"]:
                return {"program": self._loader(), "library": library}
        return None

    def _loader(self) -> bytes:
        """The runtime alone, which loads a program that is a library."""
        runtime = self._runtime()
        arguments = (*_COMMON_FLAGS, "-Wl,--as-needed", "-rdynamic", *runtime, *_LIBRARIES, "-o", "program")

        def make() -> Mapping[str, bytes]:
            finished = self._run(arguments, runtime, ("program",), _RUNTIME_S)
            if not finished.succeeded or "program" not in finished.files:
                raise self._does_not_compile(finished)
            return {"program": finished.files["program"]}

        key = _key("loader", *arguments, self._machine(), *runtime.values())
        return self.builds.get_or_make(key, make)[0]["program"]

    def _executable(self, text: str, time_limit_s: float) -> Mapping[str, bytes]:
        """The program and the runtime in one, for programs that run for long."""
        runtime = self._runtime()

        def make() -> Mapping[str, bytes]:
            files = {**_native_files(_HEADERS), **runtime, "program.cpp": text.encode()}
            arguments = (*_PROGRAM_FLAGS, "program.cpp", *runtime, *_LIBRARIES, "-o", "program")
            finished = self._run(arguments, files, ("program",), time_limit_s)
            if finished.timed_out:
                raise _too_long(time_limit_s)
            if not finished.succeeded or "program" not in finished.files:
                raise InfrastructureError(
                    "The simulator's translation of this program does not compile: "
                    + finished.stderr.decode(errors="replace")[-1500:],
                    _REPORT_IT,
                )
            return {"program": finished.files["program"]}

        key = _key("program", *_PROGRAM_FLAGS, self._machine(), text.encode(), *runtime.values())
        return {"program": self.builds.get_or_make(key, make)[0]["program"]}

    def _does_not_compile(self, finished: JobResult) -> ToolchainMissingError:
        return ToolchainMissingError(
            f"The simulator's runtime does not compile with {self.host_compiler}: "
            f"{finished.stderr.decode(errors='replace')[-800:]}",
            "Install g++ 11 or newer (or clang++ 14 or newer) and set CXX to it.",
        )

    def _machine(self) -> str:
        """What a native object depends on beside its source."""
        status = self.host_compiler.stat()
        return f"{self.host_compiler} {status.st_mtime_ns} {status.st_size} {_processor_features()}"


def _object_of(source: str) -> str:
    return source.replace(".cpp", ".o")


def _parts(count: int) -> list[tuple[str, ...]]:
    """The runtime's sources in at most `count` parts that take the compiler about as long: by their lengths."""
    texts = _native_files(_RUNTIME_SOURCES)
    parts: list[list[str]] = [[] for _ in range(max(1, min(count, len(texts))))]
    for name in sorted(texts, key=lambda name: -len(texts[name])):
        min(parts, key=lambda part: sum(len(texts[one]) for one in part)).append(name)
    return [tuple(part) for part in parts]


def _at_once(acts: Sequence[Callable[[], dict[str, bytes]]]) -> list[dict[str, bytes]]:
    """What each of these gives, all done at the same time. Raises what the first of them does that raises.

    A process that ends meanwhile does not wait for them, as it would for those of a pool of threads.
    """
    found: dict[int, dict[str, bytes] | BaseException] = {}

    def done(number: int, act: Callable[[], dict[str, bytes]]) -> None:
        try:
            found[number] = act()
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=done, args=one, daemon=True) for one in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    given = []
    for number in range(len(acts)):
        one = found[number]
        if isinstance(one, BaseException):
            raise one
        given.append(one)
    return given


def _too_long(time_limit_s: float) -> CompileTimeoutError:
    return CompileTimeoutError(f"a program that takes the host compiler more than {time_limit_s:g} s")


def _key(*parts: str | bytes) -> str:
    digest = hashlib.sha256(_RULES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@functools.cache
def _native_files(names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: (RUNTIME / name).read_bytes() for name in names}


@functools.cache
def _cpu_facts() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def processor() -> str:
    """The model name of this machine's processor."""
    return _cpu_facts().get("model name") or platform.processor() or platform.machine()


def _processor_features() -> str:
    facts = _cpu_facts()
    return " ".join((platform.machine(), processor(), facts.get("flags", facts.get("Features", ""))))
