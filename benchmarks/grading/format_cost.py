"""What it takes to compile an extension: PyTorch's own `load_inline`, the host tier, and lifting, the same kernels.

    python benchmarks/grading/format_cost.py [--kernels 12] [--seconds 480]

CPU seconds of all processes, each time with nothing in a cache of ours. `plain` is `torch.utils.cpp_extension` with
ninja in a process of its own, without the import of PyTorch; `host` the objects and the link of the host tier;
`ways` says how each unit of it was compiled, and `detours` why not quicker. Preparing PyTorch's headers is not among
it (`prepare_s`). `lifted` is the program that records, its kernels among it; `lean` lifting of texts that use no half
precision. Each part is printed as it is known; when `--seconds` are over, or at an interrupt, what runs is ended,
and a kernel that is not done counts for the parts that are (`details.begun`).
Nothing is run, so no GPU is needed. Without a PyTorch that is built for CUDA nothing is linked, and `plain` and
`host` are measured as far as their object files (`linked` says which).
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks._support.record import save
from common.contract import Settings
from evaluator.disk_cache import Cache
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem, problems
from evaluator.sandbox.sandbox import Job, JobResult, Sandbox
from evaluator.settings import MachineSettings
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.host.extension_build import ExtensionBuild, ExtensionText
from evaluator.stages.host.torch_package import TorchPackage, find_torch
from evaluator.stages.lift.host_program import HostBuild
from evaluator.stages.lift.kernelbench.solution import Solution

_FOLDER: Final = Path(__file__).parents[2] / "tests" / "kernels" / "kernelbench"
_ARCH: Final = "sm_90"
_HALF: Final = re.compile(r"[Hh]alf|bfloat16|BFloat|AT_DISPATCH")
_PLAIN: Final = """
import json, sys
from torch.utils import cpp_extension
asked = json.load(open(sys.argv[1]))
cpp_extension.load_inline(**asked, verbose=False)
"""

Row = dict[str, Any]


class OutOfTimeError(Exception):
    """The benchmark's own time is over."""


class MeteredSandbox:
    """A sandbox whose jobs' processor time is added up: they are no children of this process."""

    def __init__(self, sandbox: Sandbox, until_s: float) -> None:
        self._sandbox, self._until_s = sandbox, until_s
        self.spent_s = 0.0
        self.jobs: list[tuple[str, float]] = []
        """Each program that was run, and its CPU seconds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, job: Job) -> JobResult:
        """As the sandbox does, within the time that is left. Raises OutOfTimeError."""
        limits = replace(job.limits, wall_s=min(job.limits.wall_s, left_s(self._until_s)))
        limited = replace(job, limits=limits, spent=lambda used_s: self._add(Path(job.argv[0]).name, used_s))
        done = self._sandbox.run(limited)
        left_s(self._until_s)
        return done

    def _add(self, program: str, used_s: float) -> None:
        self.spent_s += used_s
        self.jobs.append((program, round(used_s, 2)))

    def cpu_s(self, work: Callable[[], object]) -> float:
        """The CPU time of `work`, of its processes and of its jobs, seconds."""
        began_s = self.spent_s
        here_s = cpu_s(work)
        return here_s + self.spent_s - began_s


def cpu_s(work: Callable[[], object]) -> float:
    """The CPU time of `work` and of all processes that it started and waited for, seconds."""
    began_s = _spent_s()
    work()
    return _spent_s() - began_s


def _spent_s() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def left_s(until_s: float) -> float:
    """What is left of the time. Raises OutOfTimeError."""
    left = until_s - time.monotonic()
    if left <= 0:
        raise OutOfTimeError
    return left


def run_until(until_s: float, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end. Raises OutOfTimeError."""
    try:
        limit_s = left_s(until_s)
        subprocess.run(arguments, check=True, capture_output=True, env=environment, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise OutOfTimeError from None


def plain(text: ExtensionText, torch: TorchPackage, folder: Path, nvcc: Path, until_s: float) -> tuple[float, bool]:
    """CPU seconds of `load_inline`'s own compilers, and whether it came to a library."""
    main, cuda = (folder / name for name in ("main.cpp", "cuda.cu"))
    units = text.units()
    flags = ["-DTORCH_API_INCLUDE_EXTENSION_H", f"-DTORCH_EXTENSION_NAME={text.name}", f"-std={torch.standard}"]
    flags += [part for one in torch.headers for part in ("-isystem", str(one))]
    if torch.cuda is not None:
        return _by_torch(text, folder, nvcc, until_s), True
    # PyTorch refuses to build for CUDA without one: its command lines, as its ninja file has them.
    main.write_text(units[main.name])
    cuda.write_text(units[cuda.name])
    common = ["-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"]
    common += ["-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "--expt-relaxed-constexpr"]
    target = ["-gencode", f"arch={_ARCH.replace('sm', 'compute')},code={_ARCH}", "--compiler-options", "-fPIC"]
    toolkit = nvcc.parent.parent / "include"
    commands = (
        ["g++", *flags, "-isystem", str(toolkit), "-fPIC", "-c", str(main), "-o", str(folder / "main.o")],
        [str(nvcc), *flags, *common, *target, "-c", str(cuda), "-o", str(folder / "cuda.o")],
    )
    return cpu_s(lambda: [run_until(until_s, one) for one in commands]), False


def _by_torch(text: ExtensionText, folder: Path, nvcc: Path, until_s: float) -> float:
    import json

    asked = {
        "name": text.name,
        "cpp_sources": list(text.cpp_sources),
        "cuda_sources": list(text.cuda_sources),
        "functions": None if text.functions is None else list(text.functions),
        "extra_cuda_cflags": list(text.cuda_flags),
    }
    request, empty = folder / "asked.json", folder / "import.py"
    request.write_text(json.dumps(asked))
    program = folder / "plain.py"
    program.write_text(_PLAIN)
    empty.write_text("from torch.utils import cpp_extension\n")
    environment = os.environ | {
        "TORCH_EXTENSIONS_DIR": str(folder),
        "TORCH_CUDA_ARCH_LIST": f"{int(_ARCH[3:]) / 10:.1f}",
        "CUDA_HOME": str(nvcc.parent.parent),
    }

    def run(*arguments: str) -> None:
        run_until(until_s, [sys.executable, *arguments], environment)

    importing_s = cpu_s(lambda: run(str(empty)))
    return cpu_s(lambda: run(str(program), str(request))) - importing_s


def measured(path: Path, toolbox: Toolbox, torch: TorchPackage, folder: Path, until_s: float) -> Iterator[Row]:
    """What is known of one solution, again with each part more; nothing where it compiles nothing, or not with one
    call of `load_inline`. Raises OutOfTimeError.
    """
    source = path.read_text(encoding="utf-8")
    found = re.search(r"^# problem: (.*)$", source, re.MULTILINE)
    if found is None or found[1] not in problems() or "load_inline" not in source:
        return  # of the last ones some are for problems of others
    solution = Solution(source, find_problem(found[1]), Settings(), toolbox.sandbox, "sm_80")
    texts = solution.compiled_texts()
    if len(texts) != 1 or texts[0].cpp == len(texts[0].sources):
        return
    (one,) = texts
    text = ExtensionText("extension", one.sources[: one.cpp], one.sources[one.cpp :], one.functions, one.flags)
    fresh = Cache(folder.parent / "cache", 4 << 30)  # as it is by default: prepared headers have room in it
    sandbox = MeteredSandbox(toolbox.sandbox, until_s)
    code = solution.host_code()
    given = (Settings(), _ARCH, toolbox.toolchain, sandbox, fresh)
    # The recorder is made once for each toolchain, and stays.
    HostBuild(source, code.form, *given)._recorder()

    def lifted() -> None:
        compiled = compile_source(source, *given, code.for_kernels)
        HostBuild(source, code.form, *given, compiled.host_object).program()

    row: Row = {"name": path.stem, "lean": not _HALF.search(code.text)}
    row["lifted_s"] = round(sandbox.cpu_s(lifted), 2)
    yield row
    plain_s, linked = plain(text, torch, folder, toolbox.toolchain.nvcc, until_s)
    row |= {"plain_s": round(plain_s, 2), "linked": linked}
    yield row
    build = ExtensionBuild(text, Settings(), _ARCH, torch, toolbox.toolchain, sandbox, fresh)
    # Once for each compiler, PyTorch and set of flags, and they stay.
    row["prepare_s"] = round(sandbox.cpu_s(lambda: _prepared(build)), 2)
    yield row
    work: Callable[[], object] = build.library if linked else lambda: [build.compiled(name) for name in text.units()]
    sandbox.jobs.clear()
    row["host_s"] = round(sandbox.cpu_s(work), 2)
    row |= {"host_jobs": list(sandbox.jobs), "ways": build.ways, "detours": build.detours}
    yield row


def _prepared(build: ExtensionBuild) -> None:
    """Both headers at once: neither needs the other."""
    with ThreadPoolExecutor(max_workers=2) as both:
        for done in [both.submit(build._prepared, name, now=True) for name in build.text.units()]:
            done.result()


def report(begun: list[Row], quiet: bool) -> bool:
    """Save the ratios of what is done; whether the goals are met."""
    rows = [row for row in begun if "host_s" in row]
    if not rows:
        return False
    ratios = {name: [row["plain_s"] / row[f"{name}_s"] for row in rows] for name in ("host", "lifted")}
    lean = [row["plain_s"] / row["lifted_s"] for row in rows if row["lean"]]
    figures = {
        "kernels": len(rows),
        "linked": sum(row["linked"] for row in rows),
        "plain_cpu_s": statistics.median(row["plain_s"] for row in rows),
        "host_cpu_s": statistics.median(row["host_s"] for row in rows),
        "lifted_cpu_s": statistics.median(row["lifted_s"] for row in rows),
        "host_ratio": statistics.median(ratios["host"]),
        "lifted_ratio": statistics.median(ratios["lifted"]),
        "lean_ratio": statistics.median(lean) if lean else 0.0,
    }
    goals = {"host_ratio": (">=", 10.0), "lifted_ratio": (">=", 18.0), "lean_ratio": (">=", 30.0)}
    details = {"rows": rows, "begun": [row for row in begun if "host_s" not in row]}
    return save("format_cost", figures, goals, {"torch": find_torch().version}, details=details, quiet=quiet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=480.0, help="what is done by then is saved")
    wanted = parser.parse_args()
    until_s = time.monotonic() + wanted.seconds
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="assay-format-") as named,
        suppress(OutOfTimeError, KeyboardInterrupt),
    ):
        toolbox, torch = Toolbox(MachineSettings(Path(named, "data"))), find_torch()
        for path in sorted(_FOLDER.glob("*.py")):
            if len(rows) == wanted.kernels:
                break
            folder = Path(named, path.stem)
            folder.mkdir()
            for row in measured(path, toolbox, torch, folder, until_s):
                if not rows or rows[-1] is not row:
                    rows.append(row)
                print(row, flush=True)
                # After each part: a machine may be taken back in the middle.
                report(rows, quiet=True)
            shutil.rmtree(folder)
    if not any("host_s" in row for row in rows):
        sys.exit("no kernel was measured")
    sys.exit(0 if report(rows, quiet=False) else 1)


if __name__ == "__main__":
    main()
